//! `host_sync`: the device idles after a call that waited for it, until two launches are queued again.

use crate::cause_words::CauseWords;
use crate::certainty::CauseCertainty;
use crate::host::{HostMoment, HostSide};
use crate::lost_words::{LostWords, shown};
use crate::rule::{CauseFamily, CauseRule, LostRule, OfHost};
use hta_facts::host_activity::HostActivity;
use hta_job::TimeUse;
use hta_trace::strings::StrId;

pub(super) const RULE: CauseRule = CauseRule {
    name: "host_sync",
    certainty: CauseCertainty::Likely,
    evidence: "I after a call that waited until the device was done, until two launches have begun again",
    owns: "I, S behind it",
    shown_by: "tests/data/causes/host_sync.json.gz",
    family: CauseFamily::Lost(LostRule {
        of_host: OfHost::Any(call),
        is_cold: |_| true,
        key: |key| key,
        // The time after the call is its own, whatever the host does then.
        late_by: &[
            TimeUse::Host(HostActivity::SyncCall),
            TimeUse::Host(HostActivity::Operator),
            TimeUse::Host(HostActivity::CommunicationOperator),
            TimeUse::Host(HostActivity::LaunchCall),
            TimeUse::Host(HostActivity::RuntimeCall),
            TimeUse::Host(HostActivity::Python),
            TimeUse::Host(HostActivity::Annotation),
            TimeUse::Host(HostActivity::Untracked),
        ],
        // What follows the call is done anyway, but no more while the device waits.
        saves: |_, idle| idle,
        words,
        tint: Some(8),
        ..LostRule::HOST
    }),
    ..CauseRule::HOST
};

/// The call that waited. A long stretch of code is a cause of its own.
fn call(host: &HostSide, m: &HostMoment) -> Option<(StrId, u32)> {
    if host.is_long_code(m) {
        return None;
    }
    if let Some(waited) = host.call_waited_behind(m) {
        return Some(waited);
    }
    (m.used.activity == HostActivity::SyncCall)
        .then(|| (m.used.row.map_or(StrId::EMPTY, |r| host.caller(r)), m.row))
}

fn words(w: &LostWords) -> CauseWords {
    CauseWords::new(
        format!(
            "The host waits for the {} in {}{}, and launches too late afterwards",
            w.device(),
            shown(w.key),
            w.who()
        ),
        w.idle(),
        "remove or defer this call: read results later or less often, non_blocking=True and an event for \
         copies",
    )
}
