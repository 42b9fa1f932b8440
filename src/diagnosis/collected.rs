//! Causes while time is assigned to them.

use crate::CauseKind;
use crate::account::Lost;
use crate::gain::{OwnedNames, OwnedTime};
use crate::rule::CauseFamily;
use hta_analysis::efficiency::account::PartDevice;
use hta_base::units::Ns;
use std::collections::BTreeMap;

/// Identity of a cause while time is assigned.
pub(crate) type CauseKey = (CauseKind, String);

/// What a cause owns, while time is assigned.
#[derive(Default)]
pub(crate) struct CollectedCause {
    pub(crate) owned: OwnedTime,
    /// Names with their owned time and pieces: by key, detail and part of the job.
    pub(crate) names: OwnedNames,
    /// Owned time by place in the user's code; empty for what has none.
    pub(crate) places: BTreeMap<String, Ns>,
}

impl CollectedCause {
    /// The names on some parts of the job, without those.
    pub(crate) fn names_of(&self, is_of: impl Fn(u32) -> bool) -> BTreeMap<(&str, &str), (Ns, u64)> {
        let mut out: BTreeMap<(&str, &str), (Ns, u64)> = BTreeMap::new();
        for ((key, detail, _), (ns, count)) in self.names.iter().filter(|((.., part), _)| is_of(*part)) {
            let sum = out.entry((key, detail)).or_default();
            *sum = (sum.0 + ns, sum.1 + count);
        }
        out
    }

    /// The place in the user's code that has more than half of the time; empty if none has.
    pub(crate) fn place(&self) -> &str {
        let all: Ns = self.places.values().sum();
        let most = self.places.iter().max_by_key(|(_, ns)| **ns);
        most.filter(|(_, ns)| **ns * 2 > all).map_or("", |(place, _)| place)
    }
}

/// Waiting by the cause that makes a cell of the account wait, ns.
pub(super) type CausedWaits = BTreeMap<(CauseKey, (usize, PartDevice)), Ns>;

/// The key of the cause that a piece of lost time belongs to.
pub(super) fn key_of(lost: &Lost) -> &str {
    match &lost.kind.rule().family {
        _ if lost.kind == CauseKind::HostCompile => &lost.detail,
        CauseFamily::Lost(rule) => (rule.key)(&lost.key),
        CauseFamily::Transfer(_) => &lost.key,
        _ => "",
    }
}

/// The cause that a piece of lost time belongs to. Causes that are repaired in one way are one, whatever the
/// names.
pub(super) fn collect(
    all: &mut BTreeMap<CauseKey, CollectedCause>,
    (step, place): (usize, PartDevice),
    lost: &Lost,
) {
    if lost.kind == CauseKind::NotExplained {
        return;
    }
    let found = all.entry((lost.kind, key_of(lost).to_string())).or_default();
    *found.owned.entry((step, place, lost.part)).or_default() += lost.time;
    let name = found.names.entry((lost.key.clone(), lost.detail.clone(), place.0)).or_default();
    name.0 += lost.time;
    name.1 += lost.count;
    *found.places.entry(lost.place.clone()).or_default() += lost.time;
}
