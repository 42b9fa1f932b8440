//! Two runs, each read from its results, and what compares them.

use crate::diff::causes;
use crate::diff::iterations::IterationChanges;
use crate::diff::population::{ChosenRanks, Population, PopulationError};
use crate::diff::read_set::ComparedRun;
use crate::diff::report::{DiffBasis, compare, compared};
use crate::diff::set::Set;
use crate::diff::threshold::{Threshold, ThresholdVerdict};
use hta_analysis::api::{Options, Output};
use hta_analysis::printed::View;
use hta_base::table::schema::Batch;
use std::collections::BTreeSet;

#[derive(Debug)]
pub struct RunPair {
    base: ComparedRun,
    test: ComparedRun,
}

impl RunPair {
    /// Leaves ranks of which one run cannot tell out of both.
    pub fn new(mut base: ComparedRun, mut test: ComparedRun) -> Self {
        let left_out = [base.set.left_out.as_slice(), &test.set.left_out].concat();
        [&mut base, &mut test].into_iter().for_each(|run| run.set.without(&left_out));
        Self { base, test }
    }

    /// Base and test.
    pub(crate) fn sets(&self) -> [&Set; 2] {
        [&self.base.set, &self.test.set]
    }

    /// What cannot be compared, and why.
    pub fn notes(&self) -> impl Iterator<Item = &String> {
        self.base.notes.iter().chain(&self.test.notes)
    }

    /// The causes of both; `None` where one of them has no diagnosis.
    pub(crate) fn causes(&self) -> Option<(Batch, View)> {
        Some(causes::compare(self.base.findings.as_deref()?, self.test.findings.as_deref()?))
    }

    /// Whether kernels are compared by what they do, because no name of one is on both sides.
    pub(crate) fn is_by_category(&self, options: &Options) -> bool {
        let chosen = Population::choose(&self.base.set, &self.test.set, options.model.steps.is_some());
        chosen.is_ok_and(|p| p.has_two_vendors())
    }

    /// The ranks of each that are compared; `None` where steps cannot be.
    pub(crate) fn ranks(&self, options: &Options) -> [Option<BTreeSet<u32>>; 2] {
        let chosen = Population::choose(&self.base.set, &self.test.set, options.model.steps.is_some());
        let ranks = |side: &ChosenRanks| side.ranks.iter().map(|r| r.rank.rank).collect();
        chosen.map_or([None, None], |p| [&p.base, &p.test].map(|side| Some(ranks(side))))
    }

    /// The iterations of an engine in both, as `diff_iterations` has them; of all ranks where steps cannot be
    /// compared.
    pub(crate) fn iterations(&self, options: &Options) -> Batch {
        let chosen = Population::choose(&self.base.set, &self.test.set, options.model.steps.is_some());
        let all = || self.sets().map(|set| set.iterations.iter().collect());
        IterationChanges::new(chosen.map_or_else(|_| all(), |p| p.iterations())).table()
    }

    /// What they are compared by.
    ///
    /// # Errors
    /// When one has none of the selected steps.
    pub fn basis(&self, options: &Options) -> Result<DiffBasis, PopulationError> {
        compared(&self.base.set, &self.test.set, options)
    }

    /// Compares them: tables, sentences, views, and the verdicts on thresholds. `forced`: also runs whose
    /// steps are different work.
    ///
    /// # Errors
    /// When one has none of the selected steps, lacks what is compared, or a step of one is different work
    /// than a step of the other.
    pub fn compare(
        &self,
        thresholds: &[Threshold],
        forced: bool,
        options: &Options,
    ) -> Result<(Output, Vec<ThresholdVerdict>), PopulationError> {
        let lacking = [&self.base, &self.test].into_iter().find(|run| run.set.ranks.is_empty());
        if let Some(why) = lacking.and_then(|run| run.notes.first()) {
            return Err(PopulationError::NoTable(why.clone()));
        }
        let (mut output, verdicts) = compare(&self.base.set, &self.test.set, thresholds, forced, options)?;
        if let Some((table, view)) = self.causes() {
            output.tables.push(table);
            output.views.push(view);
        }
        Ok((output, verdicts))
    }
}
