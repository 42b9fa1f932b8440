//! The chunks of a rank in a pipeline: what it computes for each micro-batch and stage.
//!
//! They come from the annotations of a framework where there are any, else from the runs of computing between
//! messages. A rank that exchanges no messages has none. Times are on the rank's own clock.

mod chunk;
mod names;
mod runs;
mod work;

pub use chunk::{ChunkKind, ChunkName, PipelineChunk};

use crate::collectives::collectives;
use crate::group_names::may_be_of_stages;
use hta_base::units::Span;
use hta_trace::category::Class;
use hta_trace::collective::{CollectiveCall, CollectiveKind, RankCalls};
use hta_trace::rank_trace::RankTrace;
use runs::{MessageCall, chunk_runs};
use std::sync::Arc;
use work::{ComputeItem, compute_items};

/// The chunks of a rank, by submission.
pub fn chunks(trace: &RankTrace) -> Arc<Vec<PipelineChunk>> {
    trace.shared(|trace| {
        let calls = collectives(trace);
        if !calls.calls.iter().any(|c| c.shape.kind.is_point_to_point()) {
            return Vec::new();
        }
        let names = named_ranges(trace);
        let (items, is_shown) = compute_items(trace);
        // A range without a stage may begin with waiting for a message, and the buffer for it.
        if names.iter().all(|n| n.name.stage.is_some()) && !names.is_empty() {
            return inside(trace, &items, names);
        }
        let mut out = unnamed(trace, &calls, &items, is_shown);
        out.iter_mut().for_each(|chunk| name_batch(chunk, &names));
        out
    })
}

/// A range that a framework names.
struct NamedRange {
    span: Span,
    name: ChunkName,
    with: Option<ChunkName>,
}

/// The ranges that are named as chunks, by start.
fn named_ranges(trace: &RankTrace) -> Vec<NamedRange> {
    let c = &trace.columns;
    let named = c.strings.each(names::named);
    let mut out: Vec<NamedRange> = Vec::new();
    for row in (0..c.len() as u32).filter(|row| trace.classes.get(*row as usize) == Some(&Class::Annotation))
    {
        if let Some(Some((name, with))) = named.get(c.name(row as usize)) {
            out.push(NamedRange { span: trace.span(row), name: *name, with: *with });
        }
    }
    out.sort_by_key(|r| (r.span.start, r.span.end));
    out
}

/// The chunks that ranges name: the work submitted inside. A range itself includes waiting for messages.
fn inside(trace: &RankTrace, items: &[ComputeItem], names: Vec<NamedRange>) -> Vec<PipelineChunk> {
    let mut out = Vec::new();
    for range in names {
        let first = items.partition_point(|i| i.submit < range.span.start);
        let end = items.partition_point(|i| i.submit < range.span.end);
        let of_range = items.get(first..end).unwrap_or_default();
        out.extend(chunk(trace, of_range, (range.name, range.with), true));
    }
    out
}

/// Gives a chunk the micro-batch of the range in which it is submitted.
fn name_batch(chunk: &mut PipelineChunk, names: &[NamedRange]) {
    let around = names.partition_point(|n| n.span.start <= chunk.submit).checked_sub(1);
    let range = around.and_then(|i| names.get(i)).filter(|n| n.span.holds(chunk.submit));
    if let Some(range) = range.filter(|n| n.name.kind == chunk.name.kind) {
        chunk.name.batch = range.name.batch;
        chunk.is_named = true;
    }
}

/// A chunk of work; `None` without any.
fn chunk(
    trace: &RankTrace,
    work: &[ComputeItem],
    (name, with): (ChunkName, Option<ChunkName>),
    is_named: bool,
) -> Option<PipelineChunk> {
    let start = work.iter().map(|i| i.start).min()?;
    let span = Span::new(start, work.iter().map(|i| i.end).max()?);
    let submit = work.first()?.submit;
    // Of several devices of a rank, that which idles least.
    let idle = trace.devices.iter().map(|d| span.len() - d.timeline.busy().len_in(span)).min();
    Some(PipelineChunk {
        submit,
        span,
        name,
        with,
        step: trace.steps.at(submit),
        idle: idle.unwrap_or(0),
        work_count: u32::try_from(work.len()).unwrap_or(u32::MAX),
        is_named,
    })
}

/// The chunks of a rank without names.
fn unnamed(
    trace: &RankTrace,
    calls: &RankCalls,
    items: &[ComputeItem],
    is_shown: bool,
) -> Vec<PipelineChunk> {
    let messages = messages(trace.rank, calls);
    let mut out = Vec::new();
    for run in chunk_runs(items, &messages, |t| trace.steps.at(t), is_shown) {
        let Some(kind) = run.kind else { continue };
        let work = items.get(run.items.clone()).unwrap_or_default();
        let name = ChunkName { kind, stage: None, batch: None };
        out.extend(chunk(trace, work, (name, None), false));
    }
    out
}

/// The calls that send or receive messages, by submission.
fn messages(rank: u32, calls: &RankCalls) -> Vec<MessageCall> {
    let call = |c: &CollectiveCall| MessageCall {
        submit: c.submit,
        sends: c.shape.kind != CollectiveKind::Recv,
        receives: c.shape.kind != CollectiveKind::Send,
        ..MessageCall::default()
    };
    let mut all: Vec<MessageCall> = calls.calls.iter().map(call).collect();
    for e in &calls.edges {
        if let Some(m) = all.get_mut(e.call as usize) {
            if e.src == rank { m.to.push(e.dst) } else { m.from.push(e.src) }
        }
    }
    let mut out: Vec<MessageCall> = all
        .into_iter()
        .zip(&calls.calls)
        .filter(|(_, c)| c.shape.kind.is_point_to_point() && may_be_of_stages(calls, c))
        .map(|(m, _)| m)
        .collect();
    out.sort_by_key(|m| m.submit);
    out
}
