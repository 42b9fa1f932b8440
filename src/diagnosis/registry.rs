//! The ordered list of analyses. `hta list`, `hta explain`, the subcommands, the report, the Parquet tables
//! and the tests are generated from it.

use hta_analysis::api::Analysis;

pub const ANALYSES: &[&dyn Analysis] = &[
    &crate::DiagnosisOf,
    &hta_analysis::breakdown::Breakdown,
    &hta_analysis::efficiency::Efficiency,
    &hta_analysis::steps::StepTimes,
    &hta_analysis::iterations::IterationsOf,
    &hta_analysis::graph_ops::GraphOpsOf,
    &hta_analysis::mesh::MeshOf,
    &hta_analysis::stragglers::Stragglers,
    &hta_analysis::experts::Experts,
    &hta_analysis::sync::Sync,
    &hta_analysis::pipeline::PipelineOf,
    &hta_analysis::overlap::Overlap,
    &hta_analysis::critical_path::CriticalPath,
    &hta_analysis::idle::Idle,
    &hta_analysis::launches::LaunchCalls,
    &hta_analysis::queue::QueueLength,
    &hta_analysis::copies::MemoryCopiesOf,
    &hta_analysis::kernels::Kernels,
    &hta_analysis::patterns::Patterns,
    &hta_analysis::ops::Ops,
    &hta_analysis::lines::LinesOf,
    &hta_analysis::annotations::Annotations,
    &hta_analysis::memory::Memory,
    &hta_analysis::counters::CountersOf,
    &hta_analysis::cupti::Cupti,
    &hta_analysis::collectives::CollectivesOf,
    &hta_analysis::fabric::FabricOf,
    &hta_analysis::what_if::WhatIf,
];

pub fn find(stem: &str) -> Option<&'static dyn Analysis> {
    ANALYSES.iter().copied().find(|a| a.stem() == stem)
}
