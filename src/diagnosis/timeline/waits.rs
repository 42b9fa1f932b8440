//! The longest waits of each device for other ranks: on which rank, and until when.

use crate::account::{JobAccount, JobStep};
use crate::timeline::kept;
use hta_analysis::efficiency::account::PartDevice;
use hta_base::table;
use hta_base::table::schema::{Batch, Text};
use hta_base::units::{Ns, Span};
use hta_job::delay::StepKey;
use hta_job::exposed::{CallSpan, ExposedKind, ExposedPiece, divide};
use hta_job::{Job, Member};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

table! {
    /// The longest waits of a device for other ranks in a step, in exposed communication. They end when the
    /// late rank arrives. Of many steps only the longest and some between them are kept.
    pub struct TimelineWaits, WaitRow = "timeline_waits" by "rank, device, step, ts_ns" {
        rank; device;
        step: Option<u32>, "", "index of the step in time, for steps without a number";
        step_label;
        ts_ns: i64, "ns", "start, on the rank's own clock";
        dur_ns: i64, "ns", "length of the wait";
        kind: Text, "", "collective that waits";
        event_id: u32, "", "its kernel, as in events";
        late_rank: u32, "", "rank that came last";
    }
}

/// Number of waits of all devices in all steps that is aimed at.
const ALL: usize = 32_768;
/// Smallest and largest number of waits of a device in a step that are kept of many.
const OF_STEP: (usize, usize) = (12, 256);

/// A wait of a device.
struct DeviceWait {
    span: Span,
    member: Member,
    late: Member,
}

/// The table of the waits.
pub fn waits(job: &Job, account: &JobAccount) -> Batch {
    let mut table = TimelineWaits::default();
    let lengths: Vec<Ns> = account.steps.iter().map(|s| s.time).collect();
    let steps: Vec<&JobStep> = kept(&lengths).into_iter().filter_map(|i| account.steps.get(i)).collect();
    let cells: usize = steps.iter().map(|s| s.windows.len()).sum();
    let most = (ALL / cells.max(1)).clamp(OF_STEP.0, OF_STEP.1);
    let mut latest = Latest { job, of: BTreeMap::new() };
    let lanes = lanes(job);
    let places: BTreeSet<PartDevice> = steps.iter().flat_map(|s| s.windows.keys().copied()).collect();
    for (part, device) in places {
        let Some(lane) = lanes.get(&(part, device)) else { continue };
        let mut rows: Vec<(Option<StepKey>, DeviceWait)> = Vec::new();
        for step in &steps {
            let spans = step.windows.get(&(part, device)).into_iter().flatten();
            let mut all: Vec<DeviceWait> =
                spans.flat_map(|span| of_window(&mut latest, part, *lane, *span)).collect();
            all.sort_by_key(|w| (Reverse(w.span.len()), w.span.start));
            all.truncate(most);
            rows.extend(all.into_iter().map(|w| (step.key, w)));
        }
        rows.sort_by_key(|(key, w)| (*key, w.span.start));
        for (key, w) in rows {
            let (step, step_label) = StepKey::cells(key);
            let call = job.call(w.member);
            table.push(WaitRow {
                rank: job.parts[part as usize].rank,
                device,
                step,
                step_label,
                ts_ns: w.span.start,
                dur_ns: w.span.len(),
                kind: call.shape.kind.name(),
                event_id: call.event,
                late_rank: job.parts[w.late.part as usize].rank,
            });
        }
    }
    table.finish()
}

/// The lane of each device. The lane of a host beside devices exists only to compare ranks, and has no
/// windows.
fn lanes(job: &Job) -> BTreeMap<PartDevice, usize> {
    let mut lanes = BTreeMap::new();
    for (part, p) in (0..).zip(&job.parts) {
        for (at, lane) in p.lanes.iter().enumerate().filter(|(_, l)| !l.windows.is_empty()) {
            lanes.entry((part, lane.device)).or_insert(at);
        }
    }
    lanes
}

fn of_window(latest: &mut Latest, part: u32, lane: usize, window: Span) -> Vec<DeviceWait> {
    let job = latest.job;
    let p = &job.parts[part as usize];
    let exposed = &p.lanes[lane].exposed;
    let first = exposed.partition_point(|s| s.end <= window.start);
    let near = exposed[first..].iter().take_while(|s| s.start < window.end);
    let spans: Vec<Span> = near.map(|s| s.intersect(window)).collect();
    let runs: Vec<CallSpan> = p.calls_in(lane, window).map(|call| job.run(Member { part, call })).collect();
    let waits = divide(&spans, &runs).into_iter().filter(|piece| piece.what == ExposedKind::Sync);
    let wait = |piece: ExposedPiece| {
        let member = Member { part, call: piece.call? };
        Some(DeviceWait { span: piece.span, member, late: latest.before(member)? })
    };
    waits.filter_map(wait).collect()
}

/// Who came last in each instance. Thousands of members may wait in one, so it is looked through only once.
struct Latest<'a> {
    job: &'a Job,
    /// By instance: its root, and the members that another can have waited for at last: the last two and the
    /// root.
    of: BTreeMap<u32, (Option<Member>, Vec<Member>)>,
}

impl Latest<'_> {
    /// The member that came last, of those that a waiting member depends on; of several the lowest rank.
    fn before(&mut self, member: Member) -> Option<Member> {
        let job = self.job;
        let at = job.outcome(member)?.instance;
        let instance = job.instances().get(at as usize)?;
        let order = |m: &Member| (job.aligned(m.part, job.call(*m).span.start), Reverse(m.part));
        let (root, last) = self.of.entry(at).or_insert_with(|| {
            let members = job.members(instance);
            let last = members.iter().copied().max_by_key(order);
            let second = members.iter().copied().filter(|m| Some(*m) != last).max_by_key(order);
            let root = job.root(at);
            (root, last.into_iter().chain(second).chain(root).collect())
        });
        let others = last.iter().copied().filter(|m| *m != member && instance.depends(*root, member, *m));
        others.max_by_key(order)
    }
}
