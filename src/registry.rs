//! The ordered list of analyses. `hta list`, `hta explain`, the subcommands, the report, the Parquet tables and the
//! tests are generated from it.

use crate::analysis::api::Analysis;

pub const ANALYSES: &[&dyn Analysis] = &[
    &crate::diagnosis::DiagnosisOf,
    &crate::analysis::breakdown::Breakdown,
    &crate::analysis::efficiency::Efficiency,
    &crate::analysis::steps::StepTimes,
    &crate::analysis::iterations::IterationsOf,
    &crate::analysis::graph_ops::GraphOpsOf,
    &crate::analysis::stragglers::Stragglers,
    &crate::analysis::sync::Sync,
    &crate::analysis::overlap::Overlap,
    &crate::analysis::critical_path::CriticalPath,
    &crate::analysis::idle::Idle,
    &crate::analysis::launches::LaunchCalls,
    &crate::analysis::queue::QueueLength,
    &crate::analysis::copies::MemoryCopiesOf,
    &crate::analysis::kernels::Kernels,
    &crate::analysis::patterns::Patterns,
    &crate::analysis::ops::Ops,
    &crate::analysis::lines::LinesOf,
    &crate::analysis::annotations::Annotations,
    &crate::analysis::memory::Memory,
    &crate::analysis::counters::CountersOf,
    &crate::analysis::cupti::Cupti,
    &crate::analysis::collectives::CollectivesOf,
    &crate::analysis::what_if::WhatIf,
];

pub fn find(stem: &str) -> Option<&'static dyn Analysis> {
    ANALYSES.iter().copied().find(|a| a.stem() == stem)
}
