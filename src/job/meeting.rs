//! Finds meeting points: ends of collectives from which all of their ranks continue together.

use super::matching::{Matched, Member};
use super::part::RankSummary;
use super::ready::TOLERANCE;
use hta_base::units::Ns;
use std::collections::BTreeMap;

/// By part and call: whether the rank met the others at the end of the call, so that its next local time
/// starts there.
///
/// That is the case if the rank waited for the end itself; or if it was idle there and another member of a
/// synchronous collective waited (a rank whose host is late never waits, but all continue from there); or if
/// all members were idle there and none was ready for its next collective, as between two steps.
pub(crate) fn meeting_points(parts: &[RankSummary], matched: &Matched) -> Vec<Vec<bool>> {
    let mut met: Vec<Vec<bool>> =
        parts.iter().map(|p| p.readiness.iter().map(|r| r.is_awaited).collect()).collect();
    let goes_on: Vec<Vec<bool>> = parts.iter().map(goes_on).collect();
    for instance in matched.instances.iter().filter(|i| i.is_meeting()) {
        let members = matched.members(instance);
        let state = |m: &Member| parts[m.part as usize].readiness[m.call as usize];
        let is_idle = |m: &Member| !state(m).runs_on && !goes_on[m.part as usize][m.call as usize];
        if !members.iter().any(|m| state(m).is_awaited) && !members.iter().all(is_idle) {
            continue;
        }
        for m in members.iter().filter(|m| !state(m).runs_on) {
            let on_host = parts[m.part as usize].calls.calls[m.call as usize].shape.on_host;
            met[m.part as usize][m.call as usize] |= !on_host;
        }
    }
    met
}

/// Per call of a part: whether the rank was ready for its next call on the device before this one ended.
fn goes_on(part: &RankSummary) -> Vec<bool> {
    let calls = &part.calls.calls;
    let mut next: BTreeMap<Option<i64>, Ns> = BTreeMap::new();
    let mut out = vec![false; calls.len()];
    // Calls are in order of submission.
    for (i, c) in calls.iter().enumerate().rev().filter(|(_, c)| !c.shape.on_host) {
        let ready = part.readiness[i].ready;
        out[i] = next.insert(c.shape.device, ready).is_some_and(|t| t < c.span.end - TOLERANCE);
    }
    out
}
