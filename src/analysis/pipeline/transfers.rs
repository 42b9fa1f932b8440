//! What messages between chunks take beyond waiting.
//!
//! ```text
//!   sender     |chunk......|  [send....]
//!   receiver      [recv, waits ........]        from the end of the chunk, once the call is submitted
//!   late one   |other chunk...|  [recv.]        data may be under way before: at most what it usually takes
//! ```
//!
//! The gap on the sender up to its next chunk is of the message, too, for at most as long as its transfer.

use crate::pipeline::chain::ChunkMessage;
use crate::pipeline::placed::PlacedPipeline;
use crate::pipeline::replay::{ChunkPlace, OrderGraph};
use hta_base::order_statistics::median;
use hta_base::units::{Ns, Span};
use hta_job::{Job, Member};
use std::collections::{BTreeMap, BTreeSet};

/// Transfers by the chunk that gives and the chunk that takes, ns. On the host that is mostly time of
/// threads, and not told apart from the lag.
#[derive(Debug, Clone)]
pub(crate) struct Transfers {
    of: BTreeMap<(ChunkPlace, ChunkPlace), Ns>,
    pub(crate) is_known: bool,
}

/// A message on the common axis.
struct SentMessage {
    places: (ChunkPlace, ChunkPlace),
    /// End of the chunk that gives, or the submission of the call if that is later.
    given: Ns,
    received: Span,
}

impl SentMessage {
    fn pair(&self) -> (usize, usize) {
        (self.places.0.0, self.places.1.0)
    }
}

impl Transfers {
    /// `sent` has the messages of each part by chunk.
    pub(crate) fn of(
        job: &Job,
        sent: &[&[ChunkMessage]],
        placed: &PlacedPipeline,
        graph: &OrderGraph,
    ) -> Self {
        let mut all = Vec::new();
        let mut is_on_host = false;
        for (r, rank) in placed.ranks.iter().enumerate() {
            for i in 0..rank.chunks.len() {
                for from in graph.inputs((r, i)).iter().filter(|from| from.0 != r) {
                    let Some(member) = message(sent, placed, *from, rank.at.rank) else { continue };
                    is_on_host |= job.call(member).shape.on_host;
                    all.extend(received(job, placed, member, (*from, (r, i))));
                }
            }
        }
        // What a message between two ranks takes if the receiver waits for it.
        let mut waited: BTreeMap<(usize, usize), Vec<Ns>> = BTreeMap::new();
        for m in all.iter().filter(|m| m.received.start <= m.given) {
            waited.entry(m.pair()).or_default().push(m.received.end - m.given);
        }
        let usual: BTreeMap<(usize, usize), Ns> =
            waited.into_iter().filter_map(|(pair, mut ns)| Some((pair, median(&mut ns)?))).collect();
        let taken = |m: &SentMessage| {
            let own = m.received.end - m.given.max(m.received.start);
            let most = usual.get(&m.pair()).map_or(own, |usual| own.max(*usual));
            (m.places, (m.received.end - m.given).min(most).max(0))
        };
        let mut of: BTreeMap<(ChunkPlace, ChunkPlace), Ns> = all.iter().map(taken).collect();
        of.extend(gaps_behind(placed, &of));
        Self { is_known: !of.is_empty() && !is_on_host, of }
    }

    pub(crate) fn between(&self, from: ChunkPlace, to: ChunkPlace) -> Ns {
        self.of.get(&(from, to)).copied().unwrap_or(0)
    }

    /// What the messages take, with the positions of their ranks, the smaller one first.
    pub(crate) fn messages(&self) -> impl Iterator<Item = ((usize, usize), Ns)> {
        let all = self.of.iter().map(|((from, to), ns)| ((from.0.min(to.0), from.0.max(to.0)), *ns));
        all.filter(|((a, b), _)| a != b)
    }

    /// The same if no message between two ranks took longer than `most`.
    pub(crate) fn with_limit(&self, pair: (usize, usize), most: Ns) -> Self {
        let is_between = |a: usize, b: usize| (a.min(b), a.max(b)) == pair;
        let cross = self.of.keys().filter(|(from, to)| is_between(from.0, to.0));
        let senders: BTreeSet<ChunkPlace> = cross.map(|(from, _)| *from).collect();
        let limited = |((from, to), ns): (&(ChunkPlace, ChunkPlace), &Ns)| {
            let is_of = is_between(from.0, to.0) || from.0 == to.0 && senders.contains(from);
            ((*from, *to), if is_of { most.min(*ns) } else { *ns })
        };
        Self { of: self.of.iter().map(limited).collect(), ..*self }
    }
}

/// What messages take on the rank that sends them, between the chunk and the next one.
fn gaps_behind(
    placed: &PlacedPipeline,
    of: &BTreeMap<(ChunkPlace, ChunkPlace), Ns>,
) -> Vec<((ChunkPlace, ChunkPlace), Ns)> {
    let span = |(r, i): ChunkPlace| placed.ranks.get(r).and_then(|p| p.chunks.get(i)).map(|c| c.span);
    let gap = |((from, _), ns): (&(ChunkPlace, ChunkPlace), &Ns)| {
        let next = (from.0, from.1 + 1);
        let gap = span(next)?.start - span(*from)?.end;
        Some(((*from, next), gap.clamp(0, *ns)))
    };
    of.iter().filter_map(gap).collect()
}

/// The call by which a chunk hands its result to a rank.
fn message(sent: &[&[ChunkMessage]], placed: &PlacedPipeline, from: ChunkPlace, to: u32) -> Option<Member> {
    let rank = placed.ranks.get(from.0)?;
    let part = rank.at.part?;
    let chunk = *rank.index.get(from.1)?;
    let sent = sent.get(part as usize)?;
    let first = sent.partition_point(|m| m.chunk < chunk);
    let mut of_chunk = sent.get(first..)?.iter().take_while(|m| m.chunk == chunk);
    of_chunk.find(|m| m.to == to).map(|m| Member { part, call: m.call })
}

fn received(
    job: &Job,
    placed: &PlacedPipeline,
    sent: Member,
    places: (ChunkPlace, ChunkPlace),
) -> Option<SentMessage> {
    let instance = job.instances().get(job.instance_of(sent)? as usize)?;
    let receiver = *job.members(instance).iter().find(|m| m.part != sent.part)?;
    let chunk = placed.ranks.get(places.0.0)?.chunks.get(places.0.1)?;
    let submitted = job.aligned(sent.part, job.call(sent).submit);
    let received = job.aligned_span(receiver.part, job.call(receiver).span);
    Some(SentMessage { places, given: chunk.span.end.max(submitted), received })
}
