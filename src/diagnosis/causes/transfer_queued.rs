//! `transfer_queued`: exposed transfers of calls that were delayed by another call on their stream.
//!
//! ```text
//!   stream   [ all_reduce a ][ all_gather b           ]
//!   ready for b      ^       |-queued-|
//! ```

use crate::cause_words::CauseWords;
use crate::certainty::CauseCertainty;
use crate::exposed_lane::{ExposedLane, TransferShare, TransferWords};
use crate::rule::{CauseFamily, CauseRule, TransferRule};
use hashbrown::{HashMap, HashSet};
use hta_base::units::Ns;
use hta_job::exposed::ExposedKind;
use hta_job::{Member, is_queued_behind};
use hta_trace::collective::CollectiveKind;

pub(super) const RULE: CauseRule = CauseRule {
    name: "transfer_queued",
    certainty: CauseCertainty::Likely,
    evidence: "transfer of a call that was ready, but started within 20 us after another kind or group of \
               call on its stream, which is exposed itself (no barrier of its group)",
    owns: "F, up to the delay",
    shown_by: "tests/it/job/planted/transfers.rs",
    family: CauseFamily::Transfer(TransferRule { takes, words, ..TransferRule::DEFAULT }),
    ..CauseRule::COMMUNICATION
};

/// A call that starts this soon after another one on its stream was queued behind it, ns.
const QUEUED_MAX: Ns = 20_000;

fn takes(lane: &ExposedLane, left: &[Ns]) -> Vec<TransferShare> {
    let mut delays = delays(lane);
    let mut out = Vec::new();
    for (piece, (p, left)) in lane.exposed.iter().zip(left).enumerate() {
        let delay = p.call.filter(|_| p.what == ExposedKind::Transfer).and_then(|call| delays.get_mut(&call));
        if let Some(delay) = delay {
            let time = (*delay).clamp(0, *left);
            *delay -= time;
            out.push(TransferShare { piece, time, key: None });
        }
    }
    out
}

/// How long each call was delayed by another one that is exposed itself.
fn delays(lane: &ExposedLane) -> HashMap<u32, Ns> {
    let (job, part) = (lane.job, lane.part);
    let call = |i: u32| job.call(Member { part, call: i });
    let exposed: HashSet<u32> = lane.exposed.iter().filter_map(|p| p.call).collect();
    let mut delays: HashMap<u32, Ns> = HashMap::new();
    let mut last: HashMap<Option<i64>, u32> = HashMap::new();
    for &i in lane.calls {
        let Some(before) = last.insert(call(i).shape.stream, i) else { continue };
        let (previous, c) = (call(before), call(i));
        let ready = job.ready(Member { part, call: i });
        let is_other = (previous.shape.group, previous.shape.kind) != (c.shape.group, c.shape.kind);
        // A barrier of its group is a part of the exchange beside it: it waits for ranks, not for a stream.
        let is_part = previous.shape.group == c.shape.group
            && [previous, c].iter().any(|call| call.shape.kind == CollectiveKind::Barrier);
        let is_late = ready < previous.span.end && c.span.start - previous.span.end < QUEUED_MAX;
        if is_other && !is_part && is_late && is_queued_behind(previous, c) && exposed.contains(&before) {
            delays.insert(i, c.span.start - ready);
        }
    }
    delays
}

fn words(w: &TransferWords) -> CauseWords {
    let (calls, ranks, time) = (&w.calls, w.ranks, &w.time);
    CauseWords::new(
        format!("Collectives {calls} start late on {ranks}, behind another collective on their stream"),
        format!("They wait {time} there"),
        "give it a stream (process group) of its own, issue what is needed first, or use smaller buckets",
    )
}
