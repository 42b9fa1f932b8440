//! `host_pause`: host threads stand still inside events of many names, or in some events of one name.

use crate::CauseKind;
use crate::cause_words::CauseWords;
use crate::certainty::CauseCertainty;
use crate::host::HostSide;
use crate::lost_words::{LostWords, shown};
use crate::pauses::MOST_PCT;
use crate::rule::{CauseFamily, CauseRule, LostRule, OfHost};
use hta_base::units::{Ns, fmt_ns};
use hta_trace::strings::StrId;
use std::collections::BTreeMap;

pub(super) const RULE: CauseRule = CauseRule {
    name: "host_pause",
    certainty: CauseCertainty::Likely,
    must_last: true,
    evidence: "events whose self time exceeds the median of their name by 1 ms (in steps below 50 ms by 2 % \
               of the step, and by 200 us at least) and 20 times, in 3 names or more (2 on each of several \
               ranks), or 80 % of it in one name, together 2 % of the time, on several ranks 2 % divided by \
               their number",
    owns: "I, S behind it",
    shown_by: "tests/data/causes/host_lock.json.gz",
    family: CauseFamily::Lost(LostRule {
        of_host: OfHost::InMarkedCall(|host, m| Some((host.paused(m, CauseKind::HostPause)?, m.row))),
        is_cold: |_| true,
        of_pauses: Some(name_of_most),
        words,
        ..LostRule::PAUSE
    }),
    ..CauseRule::HOST
};

/// Fewest names with pauses from which the host as a whole stands still, and not the events of one name; of
/// several ranks, whose pauses count together, a number of each.
const PAUSE_NAMES: usize = 3;
const PAUSE_NAMES_OF_RANK: usize = 2;

/// The name in which most of the pauses lie; empty if they lie in many.
fn name_of_most(host: &HostSide, total: Ns) -> Option<StrId> {
    let mut by_name: BTreeMap<StrId, Ns> = BTreeMap::new();
    for p in &host.pauses {
        *by_name.entry(host.trace.columns.name(p.row as usize)).or_default() += p.excess;
    }
    let (name, most) = by_name.iter().max_by_key(|(_, ns)| **ns).map(|(n, ns)| (*n, *ns))?;
    if most * 100 >= total * MOST_PCT {
        return Some(name);
    }
    let is_alone = host.trace.meta.world_size.is_none_or(|ranks| ranks < 2);
    let least = if is_alone { PAUSE_NAMES } else { PAUSE_NAMES_OF_RANK };
    (by_name.len() >= least).then_some(StrId::EMPTY)
}

fn words(w: &LostWords) -> CauseWords {
    if !w.key.is_empty() {
        return CauseWords::new(
            format!("Single calls of {} stand still{}", shown(w.key), w.who()),
            format!("{}, in calls that take far longer than usual", w.idle()),
            "look at what these calls wait for (hta query on host_pauses lists them): tuning for a new \
             shape, a lock, page faults, another process on the same cores",
        );
    }
    CauseWords::new(
        format!("Host threads stand still{}, in whatever operator they are in", w.who()),
        if w.waits > 0 {
            format!("{}; behind it a rank waits {}", w.idle(), fmt_ns(w.waits))
        } else {
            w.idle()
        },
        "find what stops the process: CPU quota (throttling has a period of 100 ms), too few cores, no \
         pinning, garbage collection (gc.freeze(), or collect on all ranks at once)",
    )
}
