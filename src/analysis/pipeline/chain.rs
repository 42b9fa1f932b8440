//! Which ranks are one pipeline, and in which order: by the messages that their chunks exchange.
//!
//! ```text
//!   forward    0 -> 1 -> 2 -> 3           one chunk a rank: a chain
//!              0 -> 1 -> 2 -> 3 -> 0      several stages a rank: a ring, which starts where forward starts
//! ```
//!
//! A send belongs to the last chunk submitted before it, a receive to the next one behind it. The groups that
//! the calls name are asked only whether they are of another dimension: a pipeline may use one group for each
//! pair of stages, or that of the world. Ranks whose messages go on in the same direction backward (a ring of
//! attention) are none.

use hta_base::units::Ns;
use hta_facts::chunks::{ChunkKind, PipelineChunk};
use hta_job::connected::connected;
use hta_job::pipeline_places::messages_of_stages;
use hta_job::{Job, RankSummary};
use hta_trace::collective::Message;
use std::collections::{BTreeMap, BTreeSet};

/// A rank of a pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainRank {
    pub rank: u32,
    /// Index of its part of the job; `None` if it is not recorded.
    pub(crate) part: Option<u32>,
}

/// The ranks of a pipeline, from its first stage on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageChain {
    pub ranks: Vec<ChainRank>,
    /// Whether the last rank hands on to the first, so that each has several stages.
    pub(crate) is_ring: bool,
}

impl StageChain {
    pub(crate) fn missing(&self) -> Vec<u32> {
        self.ranks.iter().filter(|r| r.part.is_none()).map(|r| r.rank).collect()
    }
}

/// A message that a chunk of a rank gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ChunkMessage {
    /// Index of the chunk in its part.
    pub(crate) chunk: usize,
    pub(crate) to: u32,
    pub(crate) call: u32,
}

/// The messages that the chunks of a part give, by chunk.
pub(crate) fn sent_by_chunks(p: &RankSummary) -> Vec<ChunkMessage> {
    let sent = messages_of_stages(p).filter(|(m, _)| m.src == p.rank).filter_map(|(m, call)| {
        let chunk = started_before(&p.chunks, call.submit).checked_sub(1)?;
        Some(ChunkMessage { chunk, to: m.dst, call: m.call })
    });
    let mut out: Vec<ChunkMessage> = sent.collect();
    in_order(p, &mut out);
    out.sort_unstable();
    out
}

/// Gives messages in order to the chunks of one direction, where a rank submits several of them behind one
/// chunk, and as many go to another rank as it has such chunks: each chunk gives one.
fn in_order(p: &RankSummary, all: &mut [ChunkMessage]) {
    let peers: BTreeSet<u32> = all.iter().map(|m| m.to).collect();
    for peer in peers {
        let mut own: Vec<&mut ChunkMessage> = all.iter_mut().filter(|m| m.to == peer).collect();
        own.sort_unstable_by_key(|m| m.call);
        let distinct: BTreeSet<usize> = own.iter().map(|m| m.chunk).collect();
        let kind = own.first().and_then(|m| p.chunks.get(m.chunk)).map(|c| c.name.kind);
        let of_kind = (0..p.chunks.len()).filter(|i| p.chunks.get(*i).map(|c| c.name.kind) == kind);
        let chunks: Vec<usize> = of_kind.collect();
        if distinct.len() < own.len() && chunks.len() == own.len() {
            own.into_iter().zip(chunks).for_each(|(m, chunk)| m.chunk = chunk);
        }
    }
}

fn started_before(chunks: &[PipelineChunk], t: Ns) -> usize {
    chunks.partition_point(|c| c.submit <= t)
}

/// How often a rank hands results to another, forward and backward.
#[derive(Default)]
struct HandedOn {
    forward: BTreeMap<(u32, u32), u32>,
    backward: BTreeMap<(u32, u32), u32>,
    /// All pairs that exchange messages.
    pairs: BTreeSet<(u32, u32)>,
}

impl HandedOn {
    fn of(job: &Job) -> Self {
        let recorded: BTreeSet<u32> =
            job.parts.iter().filter(|p| !p.chunks.is_empty()).map(|p| p.rank).collect();
        let mut out = Self::default();
        for p in job.parts.iter().filter(|p| p.has_origin && !p.chunks.is_empty()) {
            for m in sent_by_chunks(p) {
                out.add((p.rank, m.to), p.chunks.get(m.chunk));
            }
            // What a rank that is not recorded has sent, only its receiver knows.
            let received = |m: &Message| m.dst == p.rank && !recorded.contains(&m.src);
            for (m, call) in messages_of_stages(p).filter(|(m, _)| received(m)) {
                out.add((m.src, p.rank), p.chunks.get(started_before(&p.chunks, call.submit)));
            }
        }
        out
    }

    fn add(&mut self, pair: (u32, u32), chunk: Option<&PipelineChunk>) {
        self.pairs.insert(pair);
        // Of two chunks at once, it is not known which has sent.
        let Some(chunk) = chunk.filter(|c| c.with.is_none()) else { return };
        let direction = match chunk.name.kind {
            ChunkKind::Forward => &mut self.forward,
            _ => &mut self.backward,
        };
        *direction.entry(pair).or_default() += 1;
    }

    /// The rank to which most forward results of a rank go.
    fn next(&self, rank: u32) -> Option<u32> {
        let to = self.forward.range((rank, 0)..=(rank, u32::MAX));
        to.max_by_key(|((_, to), n)| (**n, std::cmp::Reverse(*to))).map(|((_, to), _)| *to)
    }

    /// Whether gradients go against the direction of the forward results.
    fn turns_back(&self, ranks: &[u32]) -> bool {
        let (mut back, mut other) = (0, 0);
        for ((from, to), n) in self.backward.iter().filter(|((from, _), _)| ranks.contains(from)) {
            if self.next(*to) == Some(*from) {
                back += n;
            } else {
                other += n;
            }
        }
        back > other
    }
}

/// The pipelines of a job, by their first rank.
pub(crate) fn chains(job: &Job) -> Vec<StageChain> {
    let handed = HandedOn::of(job);
    let pairs = handed.pairs.iter().map(|(a, b)| [*a, *b]);
    let mut out: Vec<StageChain> =
        connected(pairs).into_iter().filter_map(|ranks| chain(job, &handed, &ranks)).collect();
    out.sort_by_key(|c| c.ranks.first().map(|r| r.rank));
    out
}

fn chain(job: &Job, handed: &HandedOn, ranks: &[u32]) -> Option<StageChain> {
    let member = |rank: u32| {
        let part = job.parts.iter().position(|p| p.rank == rank && !p.is_left_out && p.has_origin);
        ChainRank { rank, part: part.and_then(|p| u32::try_from(p).ok()) }
    };
    let members: Vec<ChainRank> = ranks.iter().map(|rank| member(*rank)).collect();
    // A rank that is recorded, but whose chunks cannot be told, is not missing.
    let has_chunks = |part: u32| job.parts.get(part as usize).is_some_and(|p| !p.chunks.is_empty());
    if !members.iter().all(|m| m.part.is_none_or(has_chunks)) {
        return None;
    }
    by_stage(job, &members).or_else(|| by_messages(job, handed, &members))
}

/// The order by the stages that annotations name.
fn by_stage(job: &Job, members: &[ChainRank]) -> Option<StageChain> {
    let first_stage = |r: &ChainRank| {
        let chunks = &job.parts.get(r.part? as usize)?.chunks;
        let stages: Option<Vec<u32>> = chunks.iter().map(|c| c.name.stage).collect();
        stages?.into_iter().min()
    };
    let mut stages: Vec<(u32, ChainRank)> =
        members.iter().map(|r| Some((first_stage(r)?, *r))).collect::<Option<_>>()?;
    stages.sort_by_key(|(stage, r)| (*stage, r.rank));
    let is_dense = (0..).zip(&stages).all(|(i, (stage, _))| *stage == i);
    (is_dense && stages.len() > 1)
        .then(|| StageChain { ranks: stages.into_iter().map(|(_, r)| r).collect(), is_ring: false })
}

/// The order by the direction of the forward results.
fn by_messages(job: &Job, handed: &HandedOn, members: &[ChainRank]) -> Option<StageChain> {
    let ranks: Vec<u32> = members.iter().map(|r| r.rank).collect();
    let has_before = |rank: u32| ranks.iter().any(|r| handed.next(*r) == Some(rank));
    let firsts: Vec<u32> = ranks.iter().copied().filter(|rank| !has_before(*rank)).collect();
    let is_ring = firsts.is_empty();
    let first = match firsts[..] {
        [first] => first,
        [] => starts_first(job, members)?,
        _ => return None,
    };
    let mut order = vec![first];
    while let Some(next) = order.last().and_then(|rank| handed.next(*rank)) {
        if order.contains(&next) {
            break;
        }
        order.push(next);
    }
    let is_whole = order.len() == ranks.len() && order.len() > 1;
    if !is_whole || !handed.turns_back(&ranks) {
        return None;
    }
    let member = |rank: u32| members.iter().find(|r| r.rank == rank).copied();
    Some(StageChain { ranks: order.into_iter().filter_map(member).collect(), is_ring })
}

/// The rank whose chunks start first.
fn starts_first(job: &Job, members: &[ChainRank]) -> Option<u32> {
    let start = |r: &ChainRank| {
        let part = r.part?;
        let first = job.parts.get(part as usize)?.chunks.first()?;
        Some((job.aligned(part, first.span.start), r.rank))
    };
    members.iter().filter_map(start).min().map(|(_, rank)| rank)
}
