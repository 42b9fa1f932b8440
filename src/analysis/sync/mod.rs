//! Synchronizing time: divides exposed communication into waiting for other ranks and transfer.
//!
//! ```text
//!   compute         CCCC....................CC
//!   all-reduce        [wait......|transfer]
//!   window          |o o|sync    |transfer|c|      overlapped, exposed synchronizing, exposed transfer, compute
//! ```

use crate::api::{
    About, AcrossOption, Align, Analysis, Certainty, Observation, Options, Output, Partial, RowEmitter, View,
};
use crate::collectives::{GroupSelection, warnings};
use crate::job::exposed::{CallSpan, ExposedKind, ExposedPiece, divide};
use crate::job::fused::waits_in_fused;
use crate::job::{Job, Member, PartLane, PartWindow};
use crate::population::reasons;
use crate::recording::capability::Capability;
use crate::settings::{Setting, ValueType};
use crate::worst_first::WorstFirst;
use hta_base::table;
use hta_base::table::schema::{Batch, Text};
use hta_base::units::{Ns, Span, fmt_ns, fmt_pct, percent};
use hta_base::wording::counts::bar;
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

/// Whose definitions divide the communication; those of another tool are an answer of `compat`.
const METHOD: Setting = Setting {
    stem: "sync",
    flag: "--method",
    value: "METHOD",
    help: "arrival: waiting ends when the last rank arrives; shortest: the TensorBoard plugin's answer, with \
           its own tables",
    kind: ValueType::Choice(&["arrival", "shortest"]),
};

pub(crate) struct Sync;

impl Analysis for Sync {
    fn about(&self) -> About {
        About {
            stem: "sync",
            title: "communication that no compute hides: waiting for other ranks, and transfer",
            explain: include_str!("page.md"),
            tables: &[Syncs::SPEC],
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

    fn reduce(&self, partials: &[Partial], job: &Job, options: &Options) -> Output {
        let shown = GroupSelection::new(job, options);
        let rows = rows(job, true);
        let mut table = Syncs::default();
        let is_shown =
            |r: &&SyncWindow| r.group.is_none_or(|g| shown.has(g)) && r.window.scope != Scope::DeviceStep;
        for r in rows.iter().filter(is_shown) {
            r.push(job, &shown, &mut table);
        }
        let tables: Vec<Batch> = vec![table.finish()];
        let totals: Vec<&SyncWindow> = chosen(job, &rows);
        let mut view = view(job, &totals, options);
        view.notes.extend(waits_in_fused(job).into_iter().chain(reasons(partials)));
        view.notes.extend(warnings(job));
        Output {
            tables,
            observations: observation(job, &totals).into_iter().collect(),
            views: vec![view],
            ..Output::default()
        }
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

/// Per lane the windows on which sentences are based: full steps, or else the span; all groups together.
fn chosen<'a, 'j>(job: &Job, rows: &'a [SyncWindow<'j>]) -> Vec<&'a SyncWindow<'j>> {
    let are_iterations = job.has_iterations();
    let all = || rows.iter().filter(|r| r.group.is_none());
    let mut out = Vec::new();
    let mut lanes: BTreeMap<(u32, Option<i64>, bool), Vec<&SyncWindow>> = BTreeMap::new();
    for r in all() {
        lanes.entry((r.part, r.lane.device, r.lane.is_gpu)).or_default().push(r);
    }
    for of_lane in lanes.into_values() {
        let pick = |scope: Scope, full: bool| -> Vec<&SyncWindow> {
            of_lane
                .iter()
                .copied()
                .filter(|r| r.window.scope == scope && !(full && r.window.is_partial == Some(true)))
                .collect()
        };
        let (full, steps, span) =
            (pick(Scope::Step, true), pick(Scope::Step, false), pick(Scope::Span, false));
        let whole = !are_iterations && steps.len() == 1 && steps[0].window.label.is_none();
        out.extend(match (whole, full.is_empty(), steps.is_empty()) {
            (true, ..) | (_, _, true) => span,
            (_, false, _) => full,
            _ => steps,
        });
    }
    out
}

/// Sums over chosen windows; of one rank if `part` is set.
#[derive(Default)]
struct SyncSums {
    part: u32,
    windows: i64,
    dur: Ns,
    sync: Ns,
    transfer: Ns,
    unmatched: Ns,
    compute: Ns,
    overlapped: Ns,
}

impl SyncSums {
    fn plus(self, other: &SyncSums) -> SyncSums {
        SyncSums {
            part: other.part,
            windows: self.windows + other.windows,
            dur: self.dur + other.dur,
            sync: self.sync + other.sync,
            transfer: self.transfer + other.transfer,
            unmatched: self.unmatched + other.unmatched,
            compute: self.compute + other.compute,
            overlapped: self.overlapped + other.overlapped,
        }
    }
}

fn totals(rows: &[&SyncWindow]) -> Vec<SyncSums> {
    let mut by_part: BTreeMap<u32, SyncSums> = BTreeMap::new();
    for r in rows {
        let t = by_part.entry(r.part).or_insert(SyncSums { part: r.part, ..SyncSums::default() });
        t.windows += 1;
        t.dur += r.window.dur();
        t.sync += r.sync;
        t.transfer += r.transfer;
        t.unmatched += r.unmatched;
        t.compute += r.window.compute_only;
        t.overlapped += r.window.overlapped;
    }
    by_part.into_values().collect()
}

fn view(job: &Job, rows: &[&SyncWindow], options: &Options) -> View {
    let totals = totals(rows);
    let mut view = View {
        title: "Communication that no compute hides: waiting and transfer".to_string(),
        columns: vec![
            ("ranks", Align::Left),
            ("window", Align::Right),
            ("waiting", Align::Right),
            ("of window", Align::Right),
            ("transfer", Align::Right),
            ("unmatched", Align::Right),
            ("~waiting =transfer ?unmatched #rest", Align::Left),
        ],
        rows: Vec::new(),
        notes: Vec::new(),
    };
    let shown = WorstFirst::new(&totals, options.top, |t| t.sync);
    let shown = shown.rows(
        |t| (job.parts[t.part as usize].rank, String::new()),
        |name, of| {
            let t = of.iter().fold(SyncSums::default(), |sum, t| sum.plus(t));
            let n = t.windows.max(1);
            let rest = t.dur - t.sync - t.transfer - t.unmatched;
            vec![
                name,
                fmt_ns(t.dur / n),
                fmt_ns(t.sync / n),
                fmt_pct(percent(t.sync, t.dur)),
                fmt_ns(t.transfer / n),
                fmt_ns(t.unmatched / n),
                bar(&[
                    (percent(rest, t.dur), '#'),
                    (percent(t.sync, t.dur), '~'),
                    (percent(t.transfer, t.dur), '='),
                    (percent(t.unmatched, t.dur), '?'),
                ]),
            ]
        },
    );
    view.notes.extend(shown.others_note("rank", "means", "that wait no longer"));
    view.rows = shown.rows;
    view
}

/// The observation on waiting of all ranks, if it is large enough.
fn observation(job: &Job, rows: &[&SyncWindow]) -> Option<Observation> {
    let totals = totals(rows);
    let (dur, sync): (Ns, Ns) = totals.iter().fold((0, 0), |(d, s), t| (d + t.dur, s + t.sync));
    let windows: i64 = totals.iter().map(|t| t.windows).sum();
    let share = percent(sync, dur)?;
    if share < 1.0 || totals.len() < 2 {
        return None;
    }
    let of_each = || totals.iter().map(|t| t.sync / t.windows.max(1));
    let (least, most) = of_each().min().zip(of_each().max())?;
    let is_step = rows.iter().any(|r| r.window.scope == Scope::Step);
    let per = if is_step { "a step" } else { "of the recorded span" };
    let sentence = format!(
        "On average a rank waits {} {per} ({}) for others in collectives that no compute hides: from {} \
         to {}.",
        fmt_ns(sync / windows.max(1)),
        fmt_pct(Some(share)),
        fmt_ns(least),
        fmt_ns(most),
    );
    Some(Observation {
        analysis: "sync",
        ranks: totals.iter().map(|t| job.parts[t.part as usize].rank).collect(),
        steps: Vec::new(),
        cost_ns_per_step: sync / windows.max(1),
        share_of_step: Some(share / 100.0),
        certainty: Certainty::Measured,
        sentence,
        table: "sync",
    })
}
