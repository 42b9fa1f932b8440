//! Where ranks are in pipelines, by the messages that they exchange, directly or by way of others. The groups
//! are asked only whether they are of another dimension: a pipeline may use one for each pair of stages, and
//! the first of a pair is another stage in each.

use crate::connected::connected;
use crate::matching::Member;
use crate::{Job, RankSummary};
use hta_facts::group_names::may_be_of_stages;
use hta_trace::collective::{CollectiveCall, CollectiveKind, Message};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Where a rank is among those that exchange messages with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PipelinePlace {
    pub(crate) pipeline: usize,
    /// Number of ranks of the pipeline, and (next field) place among them.
    pub(crate) size: usize,
    pub(crate) position: usize,
    /// Whether each of its ranks exchanges messages with at most two others, in both directions: stages hand
    /// results on and get gradients back. Ranks of a ring or a star are alike, whatever their position.
    has_stages: bool,
}

/// The places of all ranks, by part; `None` for a rank without messages.
pub struct PipelinePlaces(Vec<Option<PipelinePlace>>);

impl PipelinePlaces {
    pub fn of(job: &Job) -> Arc<Self> {
        job.shared(|job| {
            let pairs = messages(job);
            let mut places = vec![None; job.parts.len()];
            for (pipeline, ranks) in connected(pairs.iter().map(|(a, b)| [*a, *b])).into_iter().enumerate() {
                let to = |rank: &u32| pairs.range((*rank, 0)..=(*rank, u32::MAX)).map(|(_, to)| *to);
                let is_stage =
                    |rank: &u32| to(rank).count() <= 2 && to(rank).all(|to| pairs.contains(&(to, *rank)));
                let has_stages = ranks.iter().all(is_stage);
                for (position, rank) in ranks.iter().enumerate() {
                    let part = job.parts.binary_search_by_key(rank, |p| p.rank).ok();
                    if let Some(place) = part.and_then(|part| places.get_mut(part)) {
                        *place = Some(PipelinePlace { pipeline, size: ranks.len(), position, has_stages });
                    }
                }
            }
            Self(places)
        })
    }

    pub(crate) fn get(&self, part: u32) -> Option<PipelinePlace> {
        self.0.get(part as usize).copied().flatten()
    }

    /// The stage of a rank, which other pipelines of the job may have too: their size, and its position.
    pub fn stage(&self, part: u32) -> Option<(usize, usize)> {
        self.get(part).filter(|p| p.has_stages).map(|p| (p.size, p.position))
    }
}

/// The messages of a part that may be those between stages: not in a group that is told to be another
/// dimension of the mesh, as the ring of context parallel attention is.
pub fn messages_of_stages(p: &RankSummary) -> impl Iterator<Item = (&Message, &CollectiveCall)> {
    p.calls.messages().filter(|(_, call)| may_be_of_stages(&p.calls, call))
}

/// Sender and receiver of the messages between stages, where they are recorded or matched.
fn messages(job: &Job) -> BTreeSet<(u32, u32)> {
    let mut pairs: BTreeSet<(u32, u32)> = BTreeSet::new();
    for p in &job.parts {
        pairs.extend(messages_of_stages(p).map(|(m, _)| (m.src, m.dst)));
    }
    let of_stages = |m: &Member| may_be_of_stages(&job.parts[m.part as usize].calls, job.call(*m));
    for i in job.instances().iter().filter(|i| i.len() == 2 && i.kind.is_point_to_point()) {
        if !job.members(i).iter().all(of_stages) {
            continue;
        }
        let rank = |is_sender: bool| {
            let kind = if is_sender { CollectiveKind::Send } else { CollectiveKind::Recv };
            let found = job.members(i).iter().find(|m| job.call(**m).shape.kind == kind)?;
            Some(job.parts[found.part as usize].rank)
        };
        pairs.extend(rank(true).zip(rank(false)));
    }
    pairs
}
