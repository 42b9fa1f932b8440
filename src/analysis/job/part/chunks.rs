//! The chunks of a rank's pipeline as a table of its summary.

use crate::facts::chunks::{ChunkKind, ChunkName, PipelineChunk};
use hta_base::table;
use hta_base::table::checked::InvalidCell;
use hta_base::table::schema::{Batch, Text};
use hta_base::units::Span;

table! {
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
    }
}

pub(super) fn chunk_table(chunks: &[PipelineChunk]) -> Batch {
    let mut table = PartChunks::default();
    for c in chunks {
        table.push(PartChunkRow {
            submit_ns: c.submit,
            start_ns: c.span.start,
            end_ns: c.span.end,
            kind: c.name.kind.letter(),
            stage: c.name.stage,
            micro_batch: c.name.batch,
            with_kind: c.with.map(|w| w.kind.letter()),
            with_stage: c.with.and_then(|w| w.stage),
            with_micro_batch: c.with.and_then(|w| w.batch),
            step: c.step,
            idle_ns: c.idle,
            work_count: c.work_count,
            is_named: c.is_named,
        });
    }
    table.finish()
}

pub(super) fn chunks_of<'a>(
    rows: impl Iterator<Item = (usize, PartChunkRow<'a>)>,
) -> Result<Vec<PipelineChunk>, InvalidCell> {
    let kind = |row, column, letter: &str| {
        ChunkKind::of_letter(letter).ok_or_else(|| InvalidCell::unknown::<PartChunks>(row, column, letter))
    };
    let chunk = |(i, r): (usize, PartChunkRow<'a>)| {
        let with = r.with_kind.map(|letter| kind(i, "with_kind", letter)).transpose()?;
        if r.end_ns < r.start_ns {
            return Err(InvalidCell::new::<PartChunks>(i, "end_ns", "a time after its start", r.end_ns));
        }
        Ok(PipelineChunk {
            submit: r.submit_ns,
            span: Span::new(r.start_ns, r.end_ns),
            name: ChunkName { kind: kind(i, "kind", r.kind)?, stage: r.stage, batch: r.micro_batch },
            with: with.map(|kind| ChunkName { kind, stage: r.with_stage, batch: r.with_micro_batch }),
            step: r.step,
            idle: r.idle_ns,
            work_count: r.work_count,
            is_named: r.is_named,
        })
    };
    rows.map(chunk).collect()
}
