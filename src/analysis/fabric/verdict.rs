//! What may be said of places: which are visible at all, and which are slow. It knows no traces.
//!
//! A ring enters a host by one NIC or by several, and no recording says which. A place is named only if it is
//! found either way; else all that are found are a set within which nobody can tell.

use crate::fabric::places::FabricPlace;
use crate::fabric::rule::{FabricEvidence, SlowSet};
use crate::fabric::wires::TransferLink;
use std::collections::BTreeSet;

/// Fewest steps with which a place is named.
pub(crate) const STEPS_LEAST: usize = 10;
/// Fewest steps with which slowness that lasts by itself is no doubt.
const STEPS_FOR_LASTING: usize = 30;

/// Places with the groups that pass them, by one model of paths.
#[derive(Debug, Clone, Default)]
pub(crate) struct FabricColumns {
    pub(crate) places: Vec<FabricPlace>,
    /// By place: the groups that are evidence of it, ascending.
    pub(crate) groups: Vec<Vec<u32>>,
}

impl FabricColumns {
    pub(crate) fn new(columns: Vec<(FabricPlace, Vec<u32>)>, evidence: &FabricEvidence) -> Self {
        let (places, groups): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
        Self { places, groups: evidence.contrasts(&groups) }
    }

    /// The places of a set, by name.
    fn named(&self, slow: &SlowSet) -> BTreeSet<FabricPlace> {
        slow.places.iter().filter_map(|i| self.places.get(*i).copied()).collect()
    }
}

/// How far a place can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlaceVerdict {
    /// It is this one.
    Named,
    /// It is one of several.
    InSet,
    /// Groups are slow, in too few steps to tell a place.
    Late,
}

impl PlaceVerdict {
    /// As in the tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            PlaceVerdict::Named => "named",
            PlaceVerdict::InSet => "in set",
            PlaceVerdict::Late => "late",
        }
    }
}

/// Places that make groups slow.
#[derive(Debug, Clone)]
pub struct SlowPlaces {
    pub(crate) verdict: PlaceVerdict,
    /// Those that cannot be told apart.
    pub(crate) places: BTreeSet<FabricPlace>,
    /// The smallest place around all of them.
    pub(crate) around: Option<FabricPlace>,
    /// The slow groups, ascending.
    pub(crate) groups: Vec<u32>,
    /// Groups of which there are too few to compare, and which are slow for its sake.
    pub(crate) few: Vec<TransferLink>,
    /// How many times slower.
    pub factor: f64,
    pub(crate) gain: f64,
    pub p_value: f64,
    /// Whether slowness lasts by itself, and the steps are too few to know its chance well.
    pub(crate) is_lasting: bool,
}

/// Searches by both models of paths.
pub(crate) fn judge(
    evidence: &FabricEvidence,
    boundary: &FabricColumns,
    all_nics: Option<&FabricColumns>,
) -> Vec<SlowPlaces> {
    let steps = evidence.steps();
    let is_lasting = evidence.block() > 1 && steps < STEPS_FOR_LASTING;
    let made = |slow: SlowSet, places: BTreeSet<FabricPlace>, is_agreed: bool| {
        let verdict = match places.len() {
            _ if steps < STEPS_LEAST => PlaceVerdict::Late,
            1 if is_agreed => PlaceVerdict::Named,
            _ => PlaceVerdict::InSet,
        };
        SlowPlaces {
            verdict,
            around: around(&places),
            places,
            groups: slow.groups,
            few: Vec::new(),
            factor: slow.mean.exp(),
            gain: slow.gain,
            p_value: slow.p_value,
            is_lasting,
        }
    };
    let first = evidence.search(&boundary.groups);
    let Some(all_nics) = all_nics else {
        return first.into_iter().map(|s| (boundary.named(&s), s)).map(|(p, s)| made(s, p, true)).collect();
    };
    let mut others = evidence.search(&all_nics.groups);
    let mut out = Vec::new();
    for mut slow in first {
        let is_same = |other: &SlowSet| other.groups.iter().any(|g| slow.groups.binary_search(g).is_ok());
        let other = others.iter().position(is_same).map(|i| others.remove(i));
        let mut places = boundary.named(&slow);
        let mut is_agreed = false;
        if let Some(other) = other {
            let by_other = all_nics.named(&other);
            is_agreed = by_other == places;
            places.extend(by_other);
            slow.groups.extend(other.groups);
            slow.groups.sort_unstable();
            slow.groups.dedup();
            slow.p_value = slow.p_value.max(other.p_value);
        }
        out.push(made(slow, places, is_agreed));
    }
    out.extend(others.into_iter().map(|s| (all_nics.named(&s), s)).map(|(p, s)| made(s, p, false)));
    out
}

/// The smallest place around all of some: one of them, or a host or rail that all belong to.
fn around(places: &BTreeSet<FabricPlace>) -> Option<FabricPlace> {
    let first = *places.first()?;
    let is_around = |outer: &FabricPlace| places.iter().all(|p| p.is_in(*outer));
    let (hosts, rails) = (first.hosts(), first.rails());
    let wider = hosts.into_iter().map(FabricPlace::Host).chain(rails.into_iter().map(FabricPlace::Rail));
    places.iter().copied().find(is_around).or_else(|| wider.into_iter().find(is_around))
}

impl FabricPlace {
    fn hosts(self) -> BTreeSet<u32> {
        match self {
            FabricPlace::Nic(s) | FabricPlace::GpuPort(s) => BTreeSet::from([s.host]),
            FabricPlace::Link(a, b) => BTreeSet::from([a.host, b.host]),
            FabricPlace::Nvl(h) | FabricPlace::Host(h) => BTreeSet::from([h]),
            FabricPlace::Rail(_) => BTreeSet::new(),
        }
    }

    fn rails(self) -> BTreeSet<u32> {
        match self {
            FabricPlace::Nic(s) => BTreeSet::from([s.rail]),
            FabricPlace::Link(a, b) => BTreeSet::from([a.rail, b.rail]),
            FabricPlace::Rail(r) => BTreeSet::from([r]),
            FabricPlace::GpuPort(_) | FabricPlace::Nvl(_) | FabricPlace::Host(_) => BTreeSet::new(),
        }
    }

    /// Whether it is a part of another place.
    fn is_in(self, outer: FabricPlace) -> bool {
        let (hosts, rails) = (self.hosts(), self.rails());
        match outer {
            _ if self == outer => true,
            FabricPlace::Link(a, b) => {
                matches!(self, FabricPlace::Nic(s) | FabricPlace::GpuPort(s) if s == a || s == b)
            }
            FabricPlace::Nvl(h) => matches!(self, FabricPlace::GpuPort(s) if s.host == h),
            FabricPlace::Host(h) => !hosts.is_empty() && hosts.iter().all(|own| *own == h),
            FabricPlace::Rail(r) => !rails.is_empty() && rails.iter().all(|own| *own == r),
            FabricPlace::Nic(_) | FabricPlace::GpuPort(_) => false,
        }
    }
}

/// How far a place can be seen, whatever is slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Visibility {
    Alone,
    /// With others that the same groups pass: the number of the set, and of its places.
    InSet(u32, u32),
    /// No group is evidence of it.
    Invisible,
}

impl Visibility {
    /// As in the tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Visibility::Alone => "alone",
            Visibility::InSet(..) => "in set",
            Visibility::Invisible => "invisible",
        }
    }
}

impl FabricColumns {
    /// How far each place can be seen.
    pub(crate) fn visible(&self) -> Vec<Visibility> {
        let mut order: Vec<usize> = (0..self.groups.len()).filter(|i| !self.groups[*i].is_empty()).collect();
        order.sort_by(|a, b| self.groups[*a].cmp(&self.groups[*b]).then(a.cmp(b)));
        let mut out = vec![Visibility::Invisible; self.groups.len()];
        let mut sets: Vec<&[usize]> = order.chunk_by(|a, b| self.groups[*a] == self.groups[*b]).collect();
        sets.sort_by_key(|set| set.first().copied());
        let mut id = 0;
        for set in sets {
            id += u32::from(set.len() > 1);
            for i in set {
                out[*i] = match set.len() {
                    1 => Visibility::Alone,
                    n => Visibility::InSet(id, n as u32),
                };
            }
        }
        out
    }
}
