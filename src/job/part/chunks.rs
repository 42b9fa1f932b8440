//! The chunks of a rank's pipeline as a table of its summary.

use hta_base::stored;
use hta_base::table::schema::Text;
use hta_base::units::Span;
use hta_facts::chunks::{ChunkName, PipelineChunk};

stored! {
    /// One row per chunk of a pipeline.
    pub(crate) struct PartChunks, PartChunkRow = "part_chunks" by "submit_ns" {
        submit_ns: i64, "ns", "when its first work was submitted";
        start_ns: i64, "ns", "start";
        end_ns: i64, "ns", "end";
        kind: Text, "", "F, B, I or W";
        stage: Option<u32>, "", "stage, if it is named";
        micro_batch: Option<u32>, "", "micro-batch, if it is named";
        with_kind: Option<Text>, "", "of the chunk that runs at the same time";
        with_stage: Option<u32>, "", "the same";
        with_micro_batch: Option<u32>, "", "the same";
        step: Option<u32>, "", "step";
        idle_ns: i64, "ns", "time inside in which the device does nothing";
        work_count: u32, "", "kernels or operators";
        is_named: bool, "", "an annotation names it";
    } of PipelineChunk = (PipelineChunk {
        submit: submit_ns, span: Span { start: start_ns, end: end_ns },
        name: ChunkName { kind, stage, batch: micro_batch }, with, step, idle: idle_ns, work_count, is_named,
    });
    write {
        let with_kind = &with.map(|w| w.kind);
        let with_stage = &with.and_then(|w| w.stage);
        let with_micro_batch = &with.and_then(|w| w.batch);
    }
    read {
        let name = |kind| ChunkName { kind, stage: with_stage, batch: with_micro_batch };
        let with = Option::map(with_kind, name);
    }
}
