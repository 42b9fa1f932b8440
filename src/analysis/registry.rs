//! The one ordered list of analyses. `list`, `explain`, the subcommands, the report, the Parquet tables
//! and the tests all loop over it.

use super::api::Analysis;

/// Every analysis, in the order of the report.
pub const ANALYSES: &[&dyn Analysis] = &[
    &super::breakdown::Breakdown,
    &super::steps::StepTimes,
    &super::stragglers::Stragglers,
    &super::sync::Sync,
    &super::overlap::Overlap,
    &super::critical_path::CriticalPath,
    &super::idle::Idle,
    &super::launches::LaunchCalls,
    &super::queue::QueueLength,
    &super::copies::MemoryCopiesOf,
    &super::kernels::Kernels,
    &super::patterns::Patterns,
    &super::stacks::Stacks,
    &super::annotations::Annotations,
    &super::counters::CountersOf,
    &super::cupti::Cupti,
    &super::collectives::CollectivesOf,
    &super::what_if::WhatIf,
];

/// The analysis with this stem.
pub fn find(stem: &str) -> Option<&'static dyn Analysis> {
    ANALYSES.iter().copied().find(|a| a.stem() == stem)
}
