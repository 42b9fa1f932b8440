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

/// What of two runs is compared; all of both where steps cannot be.
pub(crate) struct ComparedExtent {
    /// The ranks of base and test.
    pub(crate) ranks: [Option<BTreeSet<u32>>; 2],
    /// The iterations of an engine in both, as `diff_iterations` has them.
    pub(crate) iterations: Batch,
    /// Whether kernels are compared by what they do, because no name of one is on both sides.
    pub(crate) is_by_category: bool,
    /// Whether both know which part of their communication is waiting and which transfer.
    pub(crate) is_divided: bool,
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

    /// What of both is compared.
    pub(crate) fn extent(&self, options: &Options) -> ComparedExtent {
        match Population::choose(&self.base.set, &self.test.set, options.model.steps.is_some()) {
            Ok(p) => {
                let ranks = |side: &ChosenRanks| side.ranks.iter().map(|r| r.rank.rank).collect();
                ComparedExtent {
                    ranks: [&p.base, &p.test].map(|side| Some(ranks(side))),
                    iterations: IterationChanges::new(p.iterations()).table(),
                    is_by_category: p.has_two_vendors(),
                    is_divided: p.is_divided,
                }
            }
            Err(_) => ComparedExtent {
                ranks: [None, None],
                iterations: IterationChanges::new(self.sets().map(|s| s.iterations.iter().collect())).table(),
                is_by_category: false,
                is_divided: true,
            },
        }
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
