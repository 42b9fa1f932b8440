//! The one list of answers in other definitions, and the choice of them for a run.

use crate::analysis::api::{Analysis, Options, Output, Partial, RowEmitter};
use crate::analysis::registry::ANALYSES;
use crate::compat::{hta, osdi25, tensorboard, tracelens};
use crate::job::Job;
use crate::table::schema::TableSpec;
use crate::trace::rank_trace::RankTrace;
use std::sync::LazyLock;

/// Whose definitions answer in place of hta's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compat {
    /// Meta's Holistic Trace Analysis 0.5.0.
    Hta,
    /// AMD's TraceLens.
    TraceLens,
    /// The distributed view of the PyTorch TensorBoard plugin.
    TensorBoard,
    /// The what-if analysis of the OSDI'25 paper, on its own timeline format.
    Osdi25,
}

impl Compat {
    /// The tools, which `--compat` chooses; the others are methods of one analysis, which `--method` chooses.
    pub const TOOLS: [Self; 2] = [Self::Hta, Self::TraceLens];

    /// As the option has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hta => hta::NAME,
            Self::TraceLens => tracelens::NAME,
            Self::TensorBoard => "shortest",
            Self::Osdi25 => "published",
        }
    }
}

/// Every answer, in the order of the analyses that they stand for.
pub const ANSWERS: &[(Compat, &dyn Analysis)] = &[
    (Compat::Hta, &hta::breakdown::Breakdown),
    (Compat::Hta, &hta::stragglers::Stragglers),
    (Compat::Hta, &hta::overlap::Overlap),
    (Compat::Hta, &hta::idle::Idle),
    (Compat::Hta, &hta::launches::Launches),
    (Compat::Hta, &hta::queue::Queue),
    (Compat::Hta, &hta::copies::Copies),
    (Compat::Hta, &hta::kernels::Kernels),
    (Compat::Hta, &hta::patterns::Patterns),
    (Compat::Hta, &hta::annotations::Annotations),
    (Compat::Hta, &hta::cupti::Cupti),
    (Compat::Hta, &hta::diff::Diff),
    (Compat::TraceLens, &tracelens::breakdown::Breakdown),
    (Compat::TensorBoard, &tensorboard::sync::Sync),
    (Compat::Osdi25, &osdi25::what_if::WhatIf),
];

/// The answer that stands for the analysis with this stem.
pub fn find(by: Compat, stem: &str) -> Option<&'static dyn Analysis> {
    ANSWERS.iter().find(|(of, a)| *of == by && a.stem() == stem).map(|(_, a)| *a)
}

/// All answers that stand for the analysis with this stem.
pub fn of(stem: &str) -> impl Iterator<Item = &'static dyn Analysis> {
    ANSWERS.iter().map(|(_, a)| *a).filter(move |a| a.stem() == stem)
}

/// The analyses of a run, in the order of those asked for: these, or what stands for them in the definitions chosen.
pub fn chosen(by: Option<Compat>, analyses: &[&'static dyn Analysis]) -> Vec<&'static dyn Analysis> {
    let Some(by) = by else { return analyses.to_vec() };
    analyses.iter().filter_map(|a| find(by, a.stem()).or_else(|| unanswered(a.stem()))).collect()
}

/// Stands for an analysis to which the definitions chosen have no answer: it has neither tables nor views. Ranks are
/// joined as the analysis joins them, because the clocks in the table `ranks` come from that.
struct Unanswered(&'static dyn Analysis);

fn unanswered(stem: &str) -> Option<&'static dyn Analysis> {
    static ALL: LazyLock<Vec<Unanswered>> = LazyLock::new(|| ANALYSES.iter().map(|a| Unanswered(*a)).collect());
    ALL.iter().find(|a| a.stem() == stem).map(|a| a as &dyn Analysis)
}

impl Analysis for Unanswered {
    fn stem(&self) -> &'static str {
        self.0.stem()
    }

    fn title(&self) -> &'static str {
        self.0.title()
    }

    fn explain(&self) -> &'static str {
        self.0.explain()
    }

    fn tables(&self) -> &'static [&'static TableSpec] {
        &[]
    }

    fn takes_steps(&self) -> bool {
        false
    }

    fn needs_known_events(&self) -> bool {
        false
    }

    fn joins_ranks(&self) -> bool {
        self.0.joins_ranks()
    }

    fn joins_peers(&self) -> bool {
        self.0.joins_peers()
    }

    fn map(&self, trace: &RankTrace, _: &Options, _: &mut RowEmitter) -> Partial {
        Partial { rank: trace.rank, ..Partial::default() }
    }

    fn reduce(&self, _: &[Partial], _: &Job, _: &Options) -> Output {
        Output::default()
    }
}
