//! Exposed communication by the call that runs, divided by the causes that take it.
//!
//! ```text
//!   stream   [ all_reduce a ][ all_gather b           ]
//!   ready for b      ^       |-queued-|-slow-|-- bare -|
//! ```

use crate::CauseKind;
use crate::account::{JobAccount, Lost, TimePart};
use crate::exposed_lane::ExposedLane;
use hta_analysis::efficiency::account::PartDevice;
use hta_base::units::{Ns, Span};
use hta_job::exposed::{ExposedKind, divide};
use hta_job::{Job, Member};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// What is lost of each cell, by step and place.
pub(crate) type LostByCell = BTreeMap<(usize, PartDevice), Vec<Lost>>;

/// What is lost in exposed communication. Waits between stages are at most what the owners of waiting leave.
pub(crate) fn find(job: &Job, account: &JobAccount) -> LostByCell {
    let exposed = [TimePart::Transfer, TimePart::Waiting, TimePart::Unmatched];
    if exposed.iter().all(|part| account.sum(*part) == 0) {
        return BTreeMap::new();
    }
    let mut out = LostByCell::new();
    for (part, p) in (0u32..).zip(&job.parts) {
        for (l, lane) in p.lanes.iter().enumerate() {
            let calls: Vec<u32> = p.calls_in(l, Span::new(Ns::MIN, Ns::MAX)).collect();
            let runs: Vec<_> = calls.iter().map(|call| job.run(Member { part, call: *call })).collect();
            let exposed = divide(&lane.exposed, &runs);
            let pieces = cut(&ExposedLane { job, part, calls: &calls, exposed: &exposed });
            if pieces.is_empty() {
                continue;
            }
            for (s, step) in account.steps.iter().enumerate() {
                let place = (part, lane.device);
                let Some(windows) = step.windows.get(&place) else { continue };
                let lost = out.entry((s, place)).or_default();
                windows.iter().for_each(|w| add(job, part, &pieces, *w, lost));
            }
        }
    }
    out
}

/// A stretch of exposed communication with its cause.
struct TransferPiece {
    span: Span,
    kind: CauseKind,
    of: TimePart,
    key: Cow<'static, str>,
    call: u32,
}

/// Adds the time of pieces in a window to what is lost.
fn add(job: &Job, part: u32, pieces: &[TransferPiece], window: Span, lost: &mut Vec<Lost>) {
    let first = pieces.partition_point(|p| p.span.end <= window.start);
    for p in pieces[first..].iter().take_while(|p| p.span.start < window.end) {
        let time = p.span.intersect(window).len();
        if let Some(known) = lost.iter_mut().find(|l| (l.kind, l.part) == (p.kind, p.of) && l.key == p.key) {
            known.time += time;
            known.count += 1;
            continue;
        }
        let group = job.group_of(part, job.call(Member { part, call: p.call }));
        let detail = group.and_then(|g| g.desc.clone().or_else(|| g.name.clone())).unwrap_or_default();
        lost.push(Lost {
            part: p.of,
            kind: p.kind,
            key: p.key.to_string(),
            detail,
            place: String::new(),
            time,
            count: 1,
        });
    }
}

/// The part of a step's time that a kind of exposed communication is.
fn part_of(kind: ExposedKind) -> TimePart {
    match kind {
        ExposedKind::Sync => TimePart::Waiting,
        ExposedKind::Unmatched => TimePart::Unmatched,
        ExposedKind::Transfer => TimePart::Transfer,
    }
}

/// Divides the exposed pieces of a lane by cause; what no cause takes is left out.
fn cut(lane: &ExposedLane) -> Vec<TransferPiece> {
    let mut left: Vec<Ns> = lane.exposed.iter().map(|p| p.span.len()).collect();
    let mut out = Vec::new();
    for (kind, rule) in CauseKind::all_transfer() {
        for share in (rule.takes)(lane, &left).into_iter().filter(|share| share.time > 0) {
            let (Some(p), Some(left)) = (lane.exposed.get(share.piece), left.get_mut(share.piece)) else {
                continue;
            };
            let Some(call) = p.call else { continue };
            let start = p.span.end - *left;
            *left -= share.time;
            let kind_name = || lane.job.call(Member { part: lane.part, call }).shape.kind.name().into();
            let key = share.key.unwrap_or_else(kind_name);
            out.push(TransferPiece {
                span: Span::new(start, start + share.time),
                kind,
                of: part_of(p.what),
                key,
                call,
            });
        }
    }
    out.sort_by_key(|p| p.span.start);
    out
}
