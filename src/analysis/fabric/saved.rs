//! What the transfers of slow places would save at the level of their classes, by call; and how much less the
//! others would then wait.

use crate::fabric::found::Fabric;
use crate::fabric::transfers::{BYTES_MIN, TransferContext};
use crate::fabric::verdict::{PlaceVerdict, SlowPlaces};
use crate::fabric::wires::TransferLink;
use hta_base::units::Ns;
use hta_job::delay::step_of;
use hta_job::replay::ReplayedJob;
use hta_job::{Job, Member};
use std::collections::BTreeMap;

/// The transfers of one slow place.
#[derive(Debug, Clone)]
pub struct PlaceTransfers {
    /// What is slow, with the numbers.
    pub slow: SlowPlaces,
    pub key: String,
    pub saved: SavedTransfers,
}

/// Transfers that take less time if something is repaired, and the waiting behind them.
#[derive(Debug, Clone, Default)]
pub struct SavedTransfers {
    /// How much less the transfer of a call takes, ns.
    pub by_call: BTreeMap<Member, Ns>,
    /// How much less a call then waits for others, by replay, ns.
    pub waits: BTreeMap<Member, Ns>,
}

/// The transfers of all slow places of a job.
#[derive(Debug, Clone, Default)]
pub struct SlowTransfers {
    pub places: Vec<PlaceTransfers>,
    /// By group: the place that makes it slow.
    links: BTreeMap<TransferLink, usize>,
}

impl SlowTransfers {
    pub fn of(job: &Job) -> Self {
        let fabric = job.shared(Fabric::of);
        let slow = fabric.slow.iter().filter(|s| s.verdict != PlaceVerdict::Late);
        let mut out = Self::default();
        for slow in slow {
            out.links.extend(fabric.links_of(slow).map(|link| (link, out.places.len())));
            let saved = SavedTransfers::default();
            out.places.push(PlaceTransfers { key: fabric.key(slow), slow: slow.clone(), saved });
        }
        if out.places.is_empty() {
            return out;
        }
        out.find_saved(job, &fabric);
        out.places.iter_mut().for_each(|place| place.saved.find_waits(job));
        out
    }

    /// Whether a place is told that makes a group slow.
    pub fn has(&self, link: TransferLink) -> bool {
        self.links.contains_key(&link)
    }

    fn find_saved(&mut self, job: &Job, fabric: &Fabric) {
        let context = TransferContext::new(job, &fabric.hosts);
        for instance in job.instances() {
            let Some(bytes) = instance.bytes.filter(|b| *b >= BYTES_MIN) else { continue };
            let Some((link, class)) = context.class(instance, bytes) else { continue };
            let place = self.links.get(&link).and_then(|i| self.places.get_mut(*i));
            let (Some(place), Some(compared)) = (place, fabric.compared.get(&class)) else { continue };
            for m in job.members(instance) {
                let at = step_of(job, *m).and_then(|s| fabric.transfers.steps.binary_search(&s).ok());
                let level = at.and_then(|at| *compared.level.get(at)?);
                let (Some(level), Some(transfer)) = (level, job.transfer_ns(*m)) else { continue };
                let saved = transfer - (bytes as f64 * level.exp()) as Ns;
                if saved > 0 {
                    place.saved.by_call.insert(*m, saved);
                }
            }
        }
    }
}

impl SavedTransfers {
    /// How much less a transfer takes, ns.
    fn of(&self, m: Member) -> Ns {
        self.by_call.get(&m).copied().unwrap_or(0)
    }

    pub fn find_waits(&mut self, job: &Job) {
        let replayed = ReplayedJob::of(job).filter(|r| r.is_reliable() && !self.by_call.is_empty());
        if let Some(replayed) = replayed {
            self.waits = replayed.waits_of_transfers(|m| self.of(m));
        }
    }

    /// What is saved of the transfers of one rank, of that for which it is most, ns: no step gets shorter by
    /// more.
    pub fn most_of_a_rank(&self) -> Ns {
        let mut by_part: BTreeMap<u32, Ns> = BTreeMap::new();
        self.by_call.iter().for_each(|(m, ns)| *by_part.entry(m.part).or_default() += ns);
        by_part.into_values().max().unwrap_or(0)
    }

    /// The share of the transfer of a call that it would not take.
    pub fn share(&self, job: &Job, m: Member) -> Option<f64> {
        let saved = *self.by_call.get(&m)?;
        job.transfer_ns(m).filter(|ns| *ns > 0).map(|ns| saved as f64 / ns as f64)
    }
}
