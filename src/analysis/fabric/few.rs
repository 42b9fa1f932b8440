//! Groups of which there are too few to compare. Alone they say nothing, because one may do more than
//! another; but where a slow place has a rank that all slow ones of them have and no other, they are slow for
//! its sake:
//!
//! ```text
//!   8 pairs      0-1  2-3  4-5 ...           4-5 is slow: rank 4, rank 5, or the link between them
//!   2 groups     0, 2, 4 ...    1, 3, 5 ...  the first is slow: rank 4
//! ```

use crate::fabric::excess::{GROUPS_LEAST, mean};
use crate::fabric::found::Fabric;
use crate::fabric::places::FabricPlace;
use crate::fabric::transfers::GroupTransfers;
use crate::fabric::verdict::PlaceVerdict;
use crate::fabric::wires::TransferLink;
use hta_job::Job;
use std::collections::BTreeSet;

/// A group of few is slow if it takes so many times as long as the fastest of them.
const SLOW_OF_FEW: f64 = 1.4;
/// Most ranks of a place that few groups can tell apart.
const RANKS_MOST: usize = 2;

/// What the groups of a class of few say.
struct FewGroups {
    /// The fastest one: the logarithm of the time of a byte.
    level: f64,
    slow: Vec<TransferLink>,
    /// Ranks that all slow groups have, and no other.
    common: Vec<u32>,
}

impl FewGroups {
    fn of(job: &Job, groups: &[GroupTransfers]) -> Option<Self> {
        let pace = |g: &GroupTransfers| mean(g.ln_paces().into_iter().flatten());
        let paces: Vec<(f64, TransferLink)> =
            groups.iter().filter_map(|g| Some((pace(g)?, g.link))).collect();
        let level = paces.iter().map(|(pace, _)| *pace).reduce(f64::min)?;
        let (slow, fast): (Vec<_>, Vec<_>) =
            paces.into_iter().partition(|(pace, _)| pace - level >= SLOW_OF_FEW.ln());
        let slow: Vec<TransferLink> = slow.into_iter().map(|(_, link)| link).collect();
        let mut common = TransferLink::common(job, slow.iter().copied());
        fast.iter().for_each(|(_, link)| common.retain(|r| !link.ranks(job).contains(r)));
        Some(Self { level, slow, common })
    }
}

impl Fabric {
    /// Adds groups of few to the slow places that make them slow, and leaves those out of a place's set of
    /// which they show that they are not it.
    pub(super) fn join_few(&mut self, job: &Job) {
        for (class, groups) in self.transfers.classes.iter().filter(|(_, g)| g.len() < GROUPS_LEAST) {
            let Some(few) = FewGroups::of(job, groups) else { continue };
            for i in 0..self.slow.len() {
                let ranks = self.ranks_at(&self.slow[i]);
                let own: Vec<u32> = ranks.iter().copied().filter(|r| few.common.contains(r)).collect();
                if own.is_empty() || ranks.len() > RANKS_MOST {
                    continue;
                }
                let is_own = |p: &FabricPlace| self.hosts.ranks_of(*p) == own;
                let places: BTreeSet<FabricPlace> =
                    self.slow[i].places.iter().copied().filter(is_own).collect();
                let slow = &mut self.slow[i];
                if let (PlaceVerdict::InSet, Some(place), 1) = (slow.verdict, places.first(), places.len()) {
                    (slow.verdict, slow.around) = (PlaceVerdict::Named, Some(*place));
                    slow.places = places;
                }
                slow.few.extend(few.slow.iter().copied());
                if let Some(compared) = self.compared.get_mut(class) {
                    compared.level.iter_mut().for_each(|level| *level = Some(few.level));
                }
            }
        }
    }
}
