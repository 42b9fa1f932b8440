//! `host_lock`: a host thread stands still while another thread of the process runs.

use crate::CauseKind;
use crate::cause_words::CauseWords;
use crate::certainty::CauseCertainty;
use crate::host::HostSide;
use crate::lost_words::{LostWords, shown};
use crate::pauses::MOST_PCT;
use crate::rule::{CauseFamily, CauseRule, LostRule, OfHost};
use hashbrown::HashSet;
use hta_base::units::{Ns, Span};
use hta_facts::host_activity::HostActivity;
use hta_trace::strings::StrId;
use std::collections::BTreeMap;

pub(super) const RULE: CauseRule = CauseRule {
    name: "host_lock",
    certainty: CauseCertainty::Likely,
    must_last: true,
    evidence: "the same while a thread that launches nothing runs: 3 events or more in 80 % of the pauses",
    owns: "I, S behind it",
    family: CauseFamily::Lost(LostRule {
        of_host: OfHost::InMarkedCall(|host, m| Some((host.paused(m, CauseKind::HostLock)?, m.row))),
        of_pauses: Some(holder),
        words,
        ..LostRule::PAUSE
    }),
    ..CauseRule::HOST
};

/// Fewest events of another thread during a pause that show that it runs, and is not blocked itself.
const RUNNING_EVENTS: usize = 3;

/// The event of another thread that runs through most of the pauses. A thread in one event all the time may
/// be blocked, as in a read of a pipe, and then holds nothing: only one whose events change is known to run.
fn holder(host: &HostSide, total: Ns) -> Option<StrId> {
    let mut held = 0;
    let mut by_name: BTreeMap<StrId, Ns> = BTreeMap::new();
    for p in &host.pauses {
        let Some((time, works)) = busiest(host, p.span) else { continue };
        if time * 100 >= p.span.len() * MOST_PCT {
            held += p.excess;
            works.into_iter().for_each(|(name, ns)| *by_name.entry(name).or_default() += ns);
        }
    }
    let name = by_name.into_iter().max_by_key(|(_, ns)| *ns)?.0;
    // A thread that only waits, as those of a pool do, holds nothing.
    let waits = ["wait", "select", "poll", "sleep", "accept", "acquire", "get"];
    let text = host.trace.text(name);
    let only_waits = waits.iter().any(|w| text.ends_with(w) || text.contains(&format!("{w} of ")));
    (held * 100 >= total * MOST_PCT && !only_waits).then_some(name)
}

/// The time that the busiest of the threads that launch nothing works in a span, and in what.
fn busiest(host: &HostSide, span: Span) -> Option<(Ns, BTreeMap<StrId, Ns>)> {
    let trace = host.trace;
    let mut best: Option<(Ns, BTreeMap<StrId, Ns>)> = None;
    for (lane, _) in trace.threads().iter().filter(|(lane, _)| !host.launching.contains(lane)) {
        let mut works: BTreeMap<StrId, Ns> = BTreeMap::new();
        let mut events: HashSet<u32> = HashSet::new();
        host.names.each_use(trace, Some(*lane), span, |u| {
            if let Some(row) = u.row.filter(|_| {
                !matches!(u.activity, HostActivity::SyncCall | HostActivity::CommunicationOperator)
            }) {
                *works.entry(trace.columns.name(row as usize)).or_default() += u.span.len();
                events.insert(row);
            }
        });
        if events.len() < RUNNING_EVENTS {
            continue;
        }
        let time: Ns = works.values().sum();
        if best.as_ref().is_none_or(|(most, _)| time > *most) {
            best = Some((time, works));
        }
    }
    best
}

fn words(w: &LostWords) -> CauseWords {
    CauseWords::new(
        format!(
            "The launching thread stands still{} while another thread works in {}",
            w.who(),
            shown(w.key)
        ),
        w.idle(),
        "look at the code of that thread: it holds the interpreter lock (loaders, loggers, checkpoints); \
         move it to another process",
    )
}
