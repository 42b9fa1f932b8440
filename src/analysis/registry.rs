//! The ordered list of analyses. `hta list`, `hta explain`, the subcommands, the report, the Parquet tables
//! and the tests are generated from it.

use crate::api::Analysis;

pub const ANALYSES: &[&dyn Analysis] = &[
    &crate::diagnosis::DiagnosisOf,
    &crate::breakdown::Breakdown,
    &crate::efficiency::Efficiency,
    &crate::steps::StepTimes,
    &crate::iterations::IterationsOf,
    &crate::graph_ops::GraphOpsOf,
    &crate::mesh::MeshOf,
    &crate::stragglers::Stragglers,
    &crate::experts::Experts,
    &crate::sync::Sync,
    &crate::pipeline::PipelineOf,
    &crate::overlap::Overlap,
    &crate::critical_path::CriticalPath,
    &crate::idle::Idle,
    &crate::launches::LaunchCalls,
    &crate::queue::QueueLength,
    &crate::copies::MemoryCopiesOf,
    &crate::kernels::Kernels,
    &crate::patterns::Patterns,
    &crate::ops::Ops,
    &crate::lines::LinesOf,
    &crate::annotations::Annotations,
    &crate::memory::Memory,
    &crate::counters::CountersOf,
    &crate::cupti::Cupti,
    &crate::collectives::CollectivesOf,
    &crate::fabric::FabricOf,
    &crate::what_if::WhatIf,
];

pub fn find(stem: &str) -> Option<&'static dyn Analysis> {
    ANALYSES.iter().copied().find(|a| a.stem() == stem)
}
