//! Chunks of a pipeline that no annotation names: runs of computing of one direction between messages.
//!
//! ```text
//!   submitted   recv  f f f  send recv  f f f  b b b  send          f: forward, b: backward (autograd)
//!   runs              [ F ]             [ F ]  [ B ]
//! ```
//!
//! A run of a stage takes its input from a message right before it or gives its result to one right behind
//! it, or has the kernels of one that does; other runs (of an optimizer, for example) are no chunks. Where
//! autograd is not recorded, messages show
//! the direction: what follows a receive from the next stage is backward. A last stage has no message between
//! forward and backward of a micro-batch, nor a first stage behind its last backward: there a run ends where
//! the usual number of kernels of such a run is reached.

use crate::chunks::chunk::ChunkKind;
use crate::chunks::work::{ComputeItem, ComputePass};
use hta_base::units::{Ns, Span};
use hta_trace::strings::StrId;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// A call that sends or receives messages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct MessageCall {
    pub(super) submit: Ns,
    pub(super) sends: bool,
    pub(super) receives: bool,
    /// Ranks that it sends to, and receives from, as far as they are recorded.
    pub(super) to: Vec<u32>,
    pub(super) from: Vec<u32>,
}

/// Computing of one direction between messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ComputeRun {
    pub(super) items: Range<usize>,
    pub(super) kind: Option<ChunkKind>,
    pub(super) step: Option<u32>,
    /// Number of messages submitted before it.
    messages: usize,
}

/// A run that takes less than this share of the usual run is no chunk: one in so many.
const TINY: Ns = 20;

/// A run that takes less than this share of another of its direction between the same messages is no chunk:
/// one in so many.
const SHORT: Ns = 4;

/// The chunks of a rank. `step_at` gives the step of a moment; `is_shown`: whether autograd shows the
/// direction.
pub(super) fn chunk_runs(
    items: &[ComputeItem],
    messages: &[MessageCall],
    step_at: impl Fn(Ns) -> Option<u32>,
    is_shown: bool,
) -> Vec<ComputeRun> {
    let all = without_rests(items, without_tiny(items, runs(items, messages, step_at)));
    if is_shown {
        let is_chunk = |i: &usize| {
            let (before, behind) = around(&all, messages, *i);
            before.iter().any(|m| m.receives) || behind.iter().any(|m| m.sends)
        };
        let chunks: Vec<ComputeRun> =
            (0..all.len()).filter(is_chunk).filter_map(|i| all.get(i).cloned()).collect();
        let usual = UsualCounts::of(&chunks);
        let chunks = usual.without_repeats(items, chunks);
        let known: BTreeSet<_> = chunks.iter().map(|run| work_of(items, run)).collect();
        let is_known = |run: &ComputeRun| known.contains(&work_of(items, run));
        return usual.without_repeats(items, all).into_iter().filter(is_known).collect();
    }
    by_messages(&all, messages)
}

/// The maximal runs of one direction, without a message inside.
fn runs(
    items: &[ComputeItem],
    messages: &[MessageCall],
    step_at: impl Fn(Ns) -> Option<u32>,
) -> Vec<ComputeRun> {
    let mut out: Vec<ComputeRun> = Vec::new();
    let (mut sent, mut is_open) = (0, false);
    for (i, item) in items.iter().enumerate() {
        while messages.get(sent).is_some_and(|m| m.submit <= item.submit) {
            sent += 1;
        }
        let kind = match item.pass {
            ComputePass::Outside => {
                is_open = false;
                continue;
            }
            ComputePass::Of(kind) => Some(kind),
            ComputePass::Unknown => None,
        };
        let step = step_at(item.submit);
        let continues = |run: &&mut ComputeRun| {
            let is_other = run.kind.zip(kind).is_some_and(|(a, b)| a != b);
            run.messages == sent && run.step == step && !is_other
        };
        match out.last_mut().filter(|_| is_open).filter(continues) {
            Some(run) => {
                run.items.end = i + 1;
                run.kind = run.kind.or(kind);
            }
            None => out.push(ComputeRun { items: i..i + 1, kind, step, messages: sent }),
        }
        is_open = true;
    }
    out
}

/// From the first start to the last end of a run's work.
fn extent(items: &[ComputeItem], run: &ComputeRun) -> Span {
    let of_run = items.get(run.items.clone()).unwrap_or_default();
    let start = of_run.iter().map(|i| i.start).min().unwrap_or(0);
    Span::new(start, of_run.iter().map(|i| i.end).max().unwrap_or(start))
}

/// Drops runs that are much shorter than usual: buffers of messages, for example, or what a framework does
/// behind a chunk. A run of one direction goes on across them, if there is no message between.
fn without_tiny(items: &[ComputeItem], all: Vec<ComputeRun>) -> Vec<ComputeRun> {
    let mut lengths: Vec<Ns> = all.iter().map(|r| extent(items, r).len()).collect();
    lengths.sort_unstable();
    let usual = lengths.get(lengths.len() / 2).copied().unwrap_or(0);
    let mut out: Vec<ComputeRun> = Vec::new();
    // How far the work behind the last run is known to be tiny.
    let mut reach = 0;
    for run in all {
        let is_tiny = extent(items, &run).len() * TINY < usual;
        let before = out.last_mut().filter(|before| {
            before.messages == run.messages && before.step == run.step && reach == run.items.start
        });
        match before {
            Some(_) if is_tiny => reach = run.items.end,
            Some(before) if before.kind == run.kind => {
                before.items.end = run.items.end;
                reach = run.items.end;
            }
            _ if is_tiny => {}
            _ => {
                reach = run.items.end;
                out.push(run);
            }
        }
    }
    out
}

/// Drops runs that are much shorter than another of their direction between the same messages: what a
/// framework does behind a chunk, on a host that is slow for a moment.
fn without_rests(items: &[ComputeItem], all: Vec<ComputeRun>) -> Vec<ComputeRun> {
    let is_rest = |run: &ComputeRun| {
        let length = extent(items, run).len();
        let first = all.partition_point(|other| other.messages < run.messages);
        let near = all[first..].iter().take_while(|other| other.messages == run.messages);
        let mut alike = near.filter(|other| other.kind == run.kind && other.step == run.step);
        alike.any(|other| length * SHORT < extent(items, other).len())
    };
    all.iter().filter(|run| !is_rest(run)).cloned().collect()
}

/// What a run computes: its direction, and its kernels or operators by name.
fn work_of(items: &[ComputeItem], run: &ComputeRun) -> (Option<ChunkKind>, Vec<StrId>) {
    let of_run = items.get(run.items.clone()).unwrap_or_default();
    (run.kind, of_run.iter().map(|i| i.name).collect())
}

/// The usual number of kernels or operators of a run, by direction.
struct UsualCounts(Vec<(Option<ChunkKind>, usize)>);

impl UsualCounts {
    fn of(all: &[ComputeRun]) -> Self {
        let usual = |kind: ChunkKind| {
            let of_kind = all.iter().filter(|r| r.kind == Some(kind));
            let mut counts: Vec<usize> = of_kind.map(|r| r.items.len()).collect();
            counts.sort_unstable();
            counts.get(counts.len() / 2).copied().unwrap_or(0)
        };
        Self(ChunkKind::ALL.map(|kind| (Some(kind), usual(kind))).to_vec())
    }

    /// Divides runs of several chunks, which may follow each other without a message between. Such a run has
    /// so many times the usual number of kernels, in the same sequence again. Where all runs of a step have
    /// as many, its chunks have more kernels than usual.
    fn without_repeats(&self, items: &[ComputeItem], all: Vec<ComputeRun>) -> Vec<ComputeRun> {
        let mut least: BTreeMap<(Option<u32>, Option<ChunkKind>), usize> = BTreeMap::new();
        for run in &all {
            let of_step = least.entry((run.step, run.kind)).or_insert(run.items.len());
            *of_step = run.items.len().min(*of_step);
        }
        let divided = |run: ComputeRun| -> Vec<ComputeRun> {
            let usual = self.0.iter().find(|(kind, _)| *kind == run.kind).map_or(0, |(_, count)| *count);
            let count = least.get(&(run.step, run.kind)).map_or(usual, |least| usual.max(*least));
            let names = work_of(items, &run).1;
            let is_repeated = count > 0
                && names.len() > count
                && names.len().is_multiple_of(count)
                && names.chunks(count).all(|part| Some(part) == names.get(..count));
            if !is_repeated {
                return vec![run];
            }
            let starts = run.items.clone().step_by(count);
            starts.map(|at| ComputeRun { items: at..at + count, ..run.clone() }).collect()
        };
        all.into_iter().flat_map(divided).collect()
    }
}

/// The messages between a run and the runs before and behind it.
fn around<'a>(
    all: &[ComputeRun],
    messages: &'a [MessageCall],
    i: usize,
) -> (&'a [MessageCall], &'a [MessageCall]) {
    let Some(own) = all.get(i) else { return (&[], &[]) };
    let before = i.checked_sub(1).and_then(|b| all.get(b)).map_or(0, |r| r.messages);
    let behind = all.get(i + 1).map_or(messages.len(), |r| r.messages);
    (
        messages.get(before..own.messages).unwrap_or_default(),
        messages.get(own.messages..behind).unwrap_or_default(),
    )
}

/// The ranks of the stages before and behind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct StageNeighbours {
    before: Option<u32>,
    behind: Option<u32>,
}

impl StageNeighbours {
    /// A rank's first message of a step comes from the stage before it; only a first stage has none, and
    /// sends. `None` if it has more than two peers, or several messages in one call first.
    fn of(messages: &[MessageCall]) -> Option<Self> {
        let first = messages.first()?;
        let mut peers: Vec<u32> = messages.iter().flat_map(|m| m.to.iter().chain(&m.from).copied()).collect();
        peers.sort_unstable();
        peers.dedup();
        let other = |known: u32| peers.iter().copied().find(|p| *p != known);
        match (&first.from[..], &first.to[..]) {
            _ if peers.len() > 2 => None,
            ([from], []) => Some(Self { before: Some(*from), behind: other(*from) }),
            ([], [to]) if peers.len() == 1 => Some(Self { before: None, behind: Some(*to) }),
            _ => None,
        }
    }

    /// Whether messages around a run show that it has forward work, and backward work.
    fn shows(&self, before: &[MessageCall], behind: &[MessageCall]) -> (bool, bool) {
        let with = |peers: &[u32], who: Option<u32>| who.is_some_and(|who| peers.contains(&who));
        let from = |who| before.iter().any(|m| with(&m.from, who));
        let to = |who| behind.iter().any(|m| with(&m.to, who));
        (from(self.before) || to(self.behind), from(self.behind) || to(self.before))
    }
}

/// Chunks by the messages around the runs alone.
fn by_messages(all: &[ComputeRun], messages: &[MessageCall]) -> Vec<ComputeRun> {
    let Some(neighbours) = StageNeighbours::of(messages) else { return Vec::new() };
    let shown: Vec<(bool, bool)> = (0..all.len())
        .map(|i| {
            let (before, behind) = around(all, messages, i);
            neighbours.shows(before, behind)
        })
        .collect();
    let usual = |wanted: (bool, bool)| {
        let of = all.iter().zip(&shown).filter(|(_, shown)| **shown == wanted);
        let mut counts: Vec<usize> = of.map(|(r, _)| r.items.len()).collect();
        counts.sort_unstable();
        // The lower median: of two micro-batches of a first stage, the optimizer follows the second.
        counts.get(counts.len().saturating_sub(1) / 2).copied()
    };
    let (forward, backward) = (usual((true, false)), usual((false, true)));
    let mut out = Vec::new();
    for (run, shown) in all.iter().zip(&shown) {
        let mut push = |items: Range<usize>, kind| {
            if !items.is_empty() {
                out.push(ComputeRun { items, kind: Some(kind), ..run.clone() });
            }
        };
        let Range { start, end } = run.items;
        let until = |from: usize, count: Option<usize>| count.map_or(end, |n| end.min(from + n));
        match (*shown, forward) {
            ((true, false), _) => push(start..end, ChunkKind::Forward),
            ((false, true), _) => push(start..until(start, backward), ChunkKind::Backward),
            ((true, true), Some(n)) => {
                let middle = end.min(start + n);
                push(start..middle, ChunkKind::Forward);
                push(middle..until(middle, backward), ChunkKind::Backward);
            }
            // Forward and backward cannot be told apart.
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests;
