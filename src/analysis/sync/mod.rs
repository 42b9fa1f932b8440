//! Synchronizing time: divides exposed communication into waiting for other ranks and transfer.
//!
//! ```text
//!   compute         CCCC....................CC
//!   all-reduce        [wait......|transfer]
//!   window          |o o|sync    |transfer|c|      overlapped, exposed synchronizing, exposed transfer, compute
//! ```

use crate::api::{About, AcrossOption, Analysis, Options, Output, Partial, RowEmitter, ViewNote};
use crate::collectives::{GroupSelection, warnings};
use crate::settings::{Setting, ValueType};
use hta_base::table;
use hta_base::table::rollup::Rollup;
use hta_base::table::schema::Text;
use hta_base::table::view::{Fold, ViewSpec};
use hta_base::units::{Ns, Span, percent};
use hta_job::exposed::{CallSpan, ExposedKind, ExposedPiece, divide};
use hta_job::fused::waits_in_fused;
use hta_job::recording::capability::Capability;
use hta_job::{Job, Member, PartLane, PartWindow};
use hta_trace::collective::CollectiveKind;
use hta_trace::interval::Union;
use hta_trace::rank_trace::RankTrace;
use hta_trace::window::Scope;
use std::collections::BTreeMap;

table! {
    /// A window of a rank; compute_only + overlapped_communication + fused + exposed_waiting +
    /// exposed_transfer + unmatched + other = dur. Rows of one group have only the exposed parts of that
    /// group's calls, and add up to more than the row of all groups where groups overlap.
    pub struct Syncs, SyncRow = "sync" by "rank, device, scope, step, process_group" {
        rank; device;
        process_group: Option<Text>, "", "name and members of the group; null: all";
        scope; step; step_label; is_partial;
        ts_ns: i64, "ns", "start of the window, on the rank's own clock";
        dur_ns;
        compute_only_ns: Option<i64>, "ns", "|C \\ K|; null in the rows of one group";
        overlapped_communication_ns: Option<i64>, "ns", "|C n K|; null in the rows of one group";
        fused_ns: Option<i64>, "ns", "|F \\ C|; null in the rows of one group";
        waiting_ns: i64, "ns",
            "exposed communication in which every running call waits for another rank";
        transfer_ns: i64, "ns", "exposed communication in which a running call transfers";
        unmatched_ns: i64, "ns",
            "exposed communication in which no running call transfers and at least one has no match";
        other_ns: Option<i64>, "ns", "none of these; null in the rows of one group";
        overlapped_waiting_ns: i64, "ns", "waiting hidden under compute; part of overlapped_communication";
        waiting_pct: Option<f64>, "%", "of the window";
        exposed_transfer_pct: Option<f64>, "%", "of the window";
    }
}

table! {
    /// Exposed communication of each device over the windows that averages are based on: full steps, or else
    /// the span.
    pub(crate) struct DeviceSyncs, DeviceSyncRow = "sync_by_device" by "rank, device" {
        rank; device;
        is_steps: bool, "", "the windows are steps" => are_steps;
        window_count: u64, "", "windows" => rows;
        dur_ns: i64, "ns", "sum of their lengths", "window" => sum(dur_ns);
        waiting_ns: i64, "ns", "exposed communication that waits, as in sync" => sum(waiting_ns);
        waiting_pct: Option<f64>, "%", "of the windows", "of window" => percent(waiting_ns, dur_ns);
        transfer_ns: i64, "ns", "exposed communication that transfers" => sum(transfer_ns);
        transfer_pct: Option<f64>, "%", "of the windows" => percent(transfer_ns, dur_ns);
        unmatched_ns: i64, "ns", "exposed communication without a match" => sum(unmatched_ns);
        unmatched_pct: Option<f64>, "%", "of the windows" => percent(unmatched_ns, dur_ns);
    }
}

const BY_DEVICE: Rollup = Rollup::of_windows(Syncs::SPEC, DeviceSyncs::SPEC);

const VIEW: ViewSpec = ViewSpec {
    title: "Communication that no compute hides: waiting and transfer",
    columns: &["rank", "device?", "dur_ns", "waiting_ns", "waiting_pct", "transfer_ns", "unmatched_ns"],
    by: "waiting_ns",
    fold: Fold::Worst,
    per: "window_count",
    bar: &[('#', ""), ('~', "waiting_pct"), ('=', "transfer_pct"), ('?', "unmatched_pct")],
    ..ViewSpec::of(DeviceSyncs::SPEC)
};

/// Whose definitions divide the communication; those of another tool are an answer of `compat`.
const METHOD: Setting = Setting {
    stem: "sync",
    flag: "--method",
    value: "METHOD",
    help: "arrival: waiting ends when the last rank arrives; shortest: the TensorBoard plugin's answer, with \
           its own tables",
    kind: ValueType::Choice(&["arrival", "shortest"]),
};

pub struct Sync;

impl Analysis for Sync {
    fn about(&self) -> About {
        About {
            stem: "sync",
            title: "communication that no compute hides: waiting for other ranks, and transfer",
            explain: include_str!("page.md"),
            tables: &[Syncs::SPEC, DeviceSyncs::SPEC],
            views: &[VIEW],
            rollups: &[BY_DEVICE],
            settings: &[METHOD],
            takes: &[AcrossOption::Group],
            joins_ranks: true,
            needs: &[Capability::Ranks],
            ..About::DEFAULT
        }
    }

    fn map(&self, trace: &RankTrace, _: &Options, _: &mut RowEmitter) -> Partial {
        Partial::joined_later(trace)
    }

    fn reduce(&self, _: &[Partial], job: &Job, options: &Options) -> Output {
        let shown = GroupSelection::new(job, options);
        let rows = rows(job, true);
        let mut table = Syncs::default();
        let is_shown =
            |r: &&SyncWindow| r.group.is_none_or(|g| shown.has(g)) && r.window.scope != Scope::DeviceStep;
        for r in rows.iter().filter(is_shown) {
            r.push(job, &shown, &mut table);
        }
        let table = table.finish();
        let notes = waits_in_fused(job).into_iter().chain(warnings(job));
        Output { notes: notes.map(ViewNote::first).collect(), tables: vec![table], ..Output::default() }
    }
}

/// One row before it is written.
pub(crate) struct SyncWindow<'a> {
    pub(crate) part: u32,
    pub(crate) lane: &'a PartLane,
    pub(crate) window: &'a PartWindow,
    pub(crate) group: Option<u32>,
    pub(crate) sync: Ns,
    pub(crate) transfer: Ns,
    pub(crate) unmatched: Ns,
    overlapped_wait: Ns,
}

impl SyncWindow<'_> {
    fn push(&self, job: &Job, shown: &GroupSelection, table: &mut Syncs) {
        let (w, dur) = (self.window, self.window.dur());
        let whole = |v: Ns| self.group.is_none().then_some(v);
        table.push(SyncRow {
            rank: job.parts[self.part as usize].rank,
            device: self.lane.device,
            process_group: self.group.map(|g| shown.name(g)),
            scope: w.scope.name(),
            step: w.step,
            step_label: w.label,
            is_partial: w.is_partial,
            ts_ns: w.spans.first().map_or(0, |s| s.start),
            dur_ns: dur,
            compute_only_ns: whole(w.compute_only),
            overlapped_communication_ns: whole(w.overlapped),
            fused_ns: whole(w.fused),
            waiting_ns: self.sync,
            transfer_ns: self.transfer,
            unmatched_ns: self.unmatched,
            other_ns: whole(dur - w.compute_only - w.overlapped - w.exposed - w.fused),
            overlapped_waiting_ns: self.overlapped_wait,
            waiting_pct: percent(self.sync, dur),
            exposed_transfer_pct: percent(self.transfer, dur),
        });
    }
}

/// A lane's exposed communication, divided by the calls of one group or of all groups.
struct DividedLane {
    group: Option<u32>,
    pieces: Vec<ExposedPiece>,
    hidden: Union,
}

/// All windows of all lanes that have collectives, for all groups together, and `by_group` also for each.
pub(crate) fn rows(job: &Job, by_group: bool) -> Vec<SyncWindow<'_>> {
    let mut out = Vec::new();
    for (part, p) in job.parts.iter().enumerate() {
        let part = part as u32;
        for (l, lane) in p.lanes.iter().enumerate() {
            let is_told = |i: &u32| p.calls.calls[*i as usize].shape.kind != CollectiveKind::Fused;
            let runs: Vec<(Option<u32>, CallSpan)> = p
                .calls_in(l, Span::new(Ns::MIN, Ns::MAX))
                .filter(is_told)
                .map(|call| {
                    let m = Member { part, call };
                    let of_instance = job.outcome(m).and_then(|o| job.instances().get(o.instance as usize));
                    let group = of_instance
                        .map(|i| i.group)
                        .or_else(|| job.matched.group_of(part, p.calls.calls[call as usize].shape.group));
                    (group, job.run(m))
                })
                .collect();
            let all: Vec<CallSpan> = runs.iter().map(|r| r.1).collect();
            let mut of_groups: BTreeMap<u32, Vec<CallSpan>> = BTreeMap::new();
            for (group, run) in
                runs.iter().filter_map(|(group, run)| Some(((*group).filter(|_| by_group)?, *run)))
            {
                of_groups.entry(group).or_default().push(run);
            }
            let exposed = Union::new(lane.exposed.iter().copied());
            let mut views = vec![DividedLane {
                group: None,
                pieces: divide(&lane.exposed, &all),
                hidden: hidden(&all, &exposed),
            }];
            views.extend(of_groups.into_iter().map(|(g, runs)| {
                let mut pieces = divide(&touched(&lane.exposed, &runs), &runs);
                // Keep only pieces in which one of the group's calls runs.
                pieces.retain(|p| p.call.is_some());
                DividedLane { group: Some(g), pieces, hidden: hidden(&runs, &exposed) }
            }));
            for window in &lane.windows {
                out.extend(views.iter().map(|d| {
                    let (sync, unmatched, transfer) = sums(&d.pieces, window);
                    let overlapped_wait = window.spans.iter().map(|w| d.hidden.len_in(*w)).sum();
                    SyncWindow {
                        part,
                        lane,
                        window,
                        group: d.group,
                        sync,
                        transfer,
                        unmatched,
                        overlapped_wait,
                    }
                }));
            }
        }
    }
    out
}

fn sums(pieces: &[ExposedPiece], window: &PartWindow) -> (Ns, Ns, Ns) {
    let mut sums = [0; 3];
    for w in &window.spans {
        let first = pieces.partition_point(|p| p.span.end <= w.start);
        for p in pieces[first..].iter().take_while(|p| p.span.start < w.end) {
            sums[p.what as usize] += p.span.intersect(*w).len();
        }
    }
    (
        sums[ExposedKind::Sync as usize],
        sums[ExposedKind::Unmatched as usize],
        sums[ExposedKind::Transfer as usize],
    )
}

/// The exposed spans (sorted, disjoint) that overlap any of the calls. Saves time when there are many groups
/// with few calls each.
fn touched(exposed: &[Span], runs: &[CallSpan]) -> Vec<Span> {
    let when = Union::new(runs.iter().map(|r| r.span));
    let mut out: Vec<Span> = Vec::new();
    for run in when.spans() {
        let first = exposed.partition_point(|e| e.end <= run.start);
        for e in exposed.get(first..).unwrap_or_default().iter().take_while(|e| e.start < run.end) {
            // Two calls may overlap the same span.
            if out.last() != Some(e) {
                out.push(*e);
            }
        }
    }
    out
}

/// Waiting time of the calls that is not exposed.
fn hidden(runs: &[CallSpan], exposed: &Union) -> Union {
    let waits = runs.iter().filter_map(|r| Some(Span::new(r.span.start, r.until?)));
    Union::new(waits).minus(exposed)
}
