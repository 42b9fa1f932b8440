//! User annotations: the duration of their ranges, and the GPU work launched inside them. Times in ns.
//!
//! A range belongs as a whole to the step of its start, an activity to the step of its launch; nothing is
//! cut. The GPU times of a range on the host are those of the work launched inside it, whenever that runs.
//! Ranges that the profiler draws on the device are used only for activities whose launch is unknown.

mod annotated;
mod launched;
mod over_ranks;

use crate::annotations::annotated::{Annotated, AnnotationSide, NamedRanges};
use crate::annotations::launched::{BusyTimes, StretchWork};
use crate::annotations::over_ranks::AnnotationSums;
use crate::api::{About, Analysis, Options, Output, Partial, RowEmitter};
use crate::settings::{Setting, ValueType};
use crate::summary::Summary;
use hashbrown::HashMap;
use hta_base::table;
use hta_base::table::schema::{Batch, Text};
use hta_base::units::{Ns, Span};
use hta_facts::by_owner::ByOwner;
use hta_facts::calls::forest::alone;
use hta_facts::step_scopes::StepScopes;
use hta_job::Job;
use hta_job::recording::capability::Capability;
use hta_trace::activity::Activity;
use hta_trace::category::Class;
use hta_trace::interval::Union;
use hta_trace::rank_trace::{RankTrace, is_host_communication};
use hta_trace::step::StepRule;
use hta_trace::strings::StrId;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

table! {
    /// Annotations by side and name, and a row `(none)` for the activities that belong to none. Ranges of a
    /// thread are repeated for each device.
    pub(crate) struct UserAnnotations, UserAnnotationRow = "user_annotations"
        by "rank, device, scope, step, gpu_ns descending, range_sum_ns descending, name, side" {
        rank; device;
        scope: Text, "", "capture: everything; step: what starts or is launched in it; outside: the rest";
        step; step_label; is_partial; ts_ns; dur_ns;
        side: Text, "",
            "host: recorded on a thread; gpu: drawn on the device; graph: given to a part of a CUDA graph; \
             none";
        name: Text, "", "annotation, or `(none)`";
        is_step: bool, "", "the annotation marks steps";
        range_count: u64, "", "ranges";
        range_sum_ns: i64, "ns", "sum of their lengths";
        range_mean_ns: Option<f64>, "ns", "mean length";
        range_min_ns: Option<i64>, "ns", "shortest";
        range_max_ns: Option<i64>, "ns", "longest";
        range_p50_ns: Option<i64>, "ns", "median, nearest rank";
        range_p95_ns: Option<i64>, "ns", "95th percentile, nearest rank";
        working_ns: Option<i64>, "ns", "time inside the ranges in which their thread works; host only";
        activity_count: u64, "", "activities that belong to it";
        gpu_ns: i64, "ns", "sum of their lengths";
        gpu_self_ns: i64, "ns", "the same, of those that belong to no nested annotation";
        busy_ns: i64, "ns", "time in which any of them runs";
        compute_ns: i64, "ns", "time in which compute among them runs";
        communication_ns: i64, "ns", "the same for communication";
        memory_ns: i64, "ns", "the same for copies and sets";
    }
}

pub(crate) const MATCH: Setting = Setting {
    stem: "annotations",
    flag: "--match",
    value: "REGEX",
    help: "Only annotations whose name matches this regular expression; activities of the others count as \
           `(none)`",
    kind: ValueType::Regex,
};

/// Name of the row of activities without an annotation.
const NONE: &str = "(none)";

pub struct Annotations;

impl Analysis for Annotations {
    fn about(&self) -> About {
        About {
            stem: "annotations",
            title: "time of user annotations, on the host and on the GPU",
            explain: include_str!("page.md"),
            tables: &[UserAnnotations::SPEC, AnnotationSums::SPEC],
            views: &[over_ranks::VIEW],
            settings: &[MATCH],
            is_long: true,
            needs: &[Capability::DeviceTime],
            ..About::DEFAULT
        }
    }

    fn map(&self, trace: &RankTrace, options: &Options, _: &mut RowEmitter) -> Partial {
        let wanted = options.settings.regex(&MATCH);
        let annotated = Annotated::new(trace, wanted);
        let reason = match (annotated.names.is_empty(), wanted) {
            (false, _) => None,
            (true, None) => Some("no annotations"),
            (true, Some(_)) => Some("no annotation that --match matches"),
        };
        let table = if reason.is_some() {
            UserAnnotations::default().finish()
        } else {
            table(trace, options, &annotated)
        };
        Partial { rank: trace.rank, tables: vec![table], reason }
    }

    fn reduce(&self, partials: &[Partial], _: &Job, _: &Options) -> Output {
        Output { tables: vec![over_ranks::table(partials)], ..Output::default() }
    }
}

/// Identifies a row: side and name; `None` for `(none)`.
type AnnotationKey = Option<(AnnotationSide, StrId)>;

/// The ranges and activities of a row.
#[derive(Default)]
struct RangeMembers {
    ranges: Vec<u32>,
    /// Lengths of the ranges in replays of graphs.
    replayed: Vec<Ns>,
    /// What was launched inside ranges on threads.
    launched: Vec<StretchWork>,
    /// Other activities.
    activities: Vec<u32>,
    own_ns: Ns,
}

/// A row before it is written.
struct AnnotationRow<'a> {
    key: AnnotationKey,
    name: &'a str,
    ranges: Summary,
    working: Option<Ns>,
    activities: u64,
    gpu: Ns,
    own: Ns,
    times: BusyTimes,
}

/// The ranges and activities of each row, by index of the device and key.
type RowMembers = ByOwner<(usize, AnnotationKey), RangeMembers>;

fn table(trace: &RankTrace, options: &Options, annotated: &Annotated) -> Batch {
    let scopes = StepScopes::new(trace, &options.model);
    let devices = Devices::new(trace, annotated);
    let working = working(trace, annotated);
    let members = share_out(trace, annotated, &scopes, &devices).into_rows();
    let mut rows: Vec<(Option<i64>, usize, AnnotationRow)> =
        members.map(|(w, (d, key), m)| (devices.all[d], w, row(trace, key, m, &working))).collect();
    rows.sort_by_key(|(device, window, r)| {
        (*device, *window, Reverse(r.gpu), Reverse(r.ranges.sum), r.name, r.key.map(|k| k.0))
    });
    let marks = step_marks(trace);
    let mut table = UserAnnotations::default();
    for (device, window, r) in rows {
        let (w, some) = (&scopes.windows()[window], |ns: Ns| (r.ranges.count > 0).then_some(ns));
        table.push(UserAnnotationRow {
            rank: trace.rank,
            device,
            scope: w.scope.name(),
            step: w.step,
            step_label: w.label,
            is_partial: w.is_partial,
            ts_ns: w.start(),
            dur_ns: w.len(),
            side: r.key.map_or("none", |k| k.0.name()),
            name: r.name,
            is_step: r.key.is_some_and(|k| marks.contains(&k.1)),
            range_count: r.ranges.count,
            range_sum_ns: r.ranges.sum,
            range_mean_ns: (r.ranges.count > 0).then_some(r.ranges.mean),
            range_min_ns: some(r.ranges.min),
            range_max_ns: some(r.ranges.max),
            range_p50_ns: some(r.ranges.p50),
            range_p95_ns: some(r.ranges.p95),
            working_ns: r.working,
            activity_count: r.activities,
            gpu_ns: r.gpu,
            gpu_self_ns: r.own,
            busy_ns: r.times.busy,
            compute_ns: r.times.compute,
            communication_ns: r.times.communication,
            memory_ns: r.times.memory,
        });
    }
    table.finish()
}

/// Devices that have rows.
struct Devices {
    all: Vec<Option<i64>>,
    /// Index into `all` of each device.
    places: HashMap<Option<i64>, usize>,
    /// The number of devices that run work. They come first, and ranges on threads have a row for each of
    /// them.
    working: usize,
}

impl Devices {
    /// Devices with activities (a single one without a number if there is only the host), then those on which
    /// only ranges are drawn.
    fn new(trace: &RankTrace, annotated: &Annotated) -> Self {
        let mut all: Vec<Option<i64>> = trace.devices.iter().filter(|w| w.is_gpu).map(|w| w.device).collect();
        if all.is_empty() {
            all.push(None);
        }
        let working = all.len();
        let of_lane = lane_devices(trace);
        let mut drawn: BTreeSet<Option<i64>> = BTreeSet::new();
        for (_, named) in annotated.names.iter().filter(|((side, _), _)| *side == AnnotationSide::Gpu) {
            drawn.extend(named.ranges.iter().map(|&r| device_of(trace, &of_lane, r)));
        }
        let mut places: HashMap<Option<i64>, usize> = all.iter().copied().zip(0..).collect();
        for device in drawn {
            places.entry(device).or_insert_with(|| {
                all.push(device);
                all.len() - 1
            });
        }
        Self { all, places, working }
    }

    fn place(&self, device: Option<i64>) -> Option<usize> {
        self.places.get(&device).copied()
    }
}

/// Device of each lane that has activities.
fn lane_devices(trace: &RankTrace) -> BTreeMap<u32, Option<i64>> {
    let mut of_lane = BTreeMap::new();
    for a in &trace.activities {
        of_lane.insert(trace.columns.lane[a.row as usize], a.device());
    }
    of_lane
}

/// Device on which a range is drawn: that of the activities in the same lane, else the number of the lane.
fn device_of(trace: &RankTrace, of_lane: &BTreeMap<u32, Option<i64>>, range: u32) -> Option<i64> {
    let lane = trace.columns.lane[range as usize];
    let number = || trace.columns.lanes.get(lane as usize).and_then(|l| l.pid_num);
    of_lane.get(&lane).copied().unwrap_or_else(number)
}

/// Charges the names on each device with their ranges and activities.
fn share_out(trace: &RankTrace, annotated: &Annotated, scopes: &StepScopes, devices: &Devices) -> RowMembers {
    let of_lane = lane_devices(trace);
    let mut members = RowMembers::default();
    for (&(side, name), NamedRanges { ranges, replayed, activities }) in &annotated.names {
        let key = Some((side, name));
        for &range in ranges {
            let on = match side {
                AnnotationSide::Host => 0..devices.working,
                AnnotationSide::Gpu | AnnotationSide::Graph => {
                    devices.place(device_of(trace, &of_lane, range)).map_or(0..0, |d| d..d + 1)
                }
            };
            let windows = scopes.of(scopes.step_at(trace.columns.ts[range as usize]));
            on.for_each(|d| members.charge(windows.clone(), (d, key), |m| m.ranges.push(range)));
        }
        for range in replayed {
            let Some(d) = devices.place(range.device) else { continue };
            members.charge(scopes.of(range.step), (d, key), |m| m.replayed.push(range.span.len()));
        }
        for &i in activities {
            let a = &trace.activities[i as usize];
            let Some(d) = devices.place(a.device()) else { continue };
            members.charge(scopes.of(a.step()), (d, key), |m| m.activities.push(i));
        }
    }
    let cells = |a: &Activity| {
        let device = devices.place(a.device());
        let windows = scopes.of(a.step());
        device.into_iter().flat_map(move |d| windows.clone().map(move |w| (d, w)))
    };
    let alone = alone(&trace.activities);
    for thread in &annotated.launched {
        thread.measure((trace, &alone), cells, |(d, w), name, work| {
            let owner = members.id((d, Some((AnnotationSide::Host, name))));
            members.at(w, owner).launched.push(work);
        });
    }
    for (a, own) in trace.activities.iter().zip(&annotated.own).filter(|(_, own)| own.is_some()) {
        let Some(d) = devices.place(a.device()) else { continue };
        members.charge(scopes.of(a.step()), (d, *own), |m| m.own_ns += a.span.len());
    }
    for work in trace.devices.iter().filter(|w| w.is_gpu) {
        let Some(d) = devices.place(work.device) else { continue };
        // Activities without annotation: each window of a device has this row, even if it is empty.
        members.charge(0..scopes.windows().len(), (d, None), |_| {});
        for &i in work.activities.iter().filter(|&&i| annotated.own[i as usize].is_none()) {
            let a = &trace.activities[i as usize];
            members.charge(scopes.of(a.step()), (d, None), |m| {
                m.activities.push(i);
                m.own_ns += a.span.len();
            });
        }
    }
    members
}

fn row<'a>(
    trace: &'a RankTrace,
    key: AnnotationKey,
    mut m: RangeMembers,
    working: &BTreeMap<u32, Union>,
) -> AnnotationRow<'a> {
    let of = || m.activities.iter().map(|&i| &trace.activities[i as usize]);
    AnnotationRow {
        key,
        name: key.map_or(NONE, |k| trace.text(k.1)),
        ranges: Summary::new(
            m.ranges.iter().map(|&r| trace.span(r).len()).chain(m.replayed.iter().copied()).collect(),
        ),
        working: (key.map(|k| k.0) == Some(AnnotationSide::Host)).then(|| worked(trace, &m.ranges, working)),
        activities: m.activities.len() as u64 + m.launched.iter().map(|s| s.count).sum::<u64>(),
        gpu: of().map(|a| a.span.len()).chain(m.launched.iter().map(|s| s.gpu)).sum(),
        own: m.own_ns,
        times: match m.launched.is_empty() {
            true => BusyTimes::new(of()),
            false => BusyTimes::of_stretches(trace, &mut m.launched),
        },
    }
}

/// When each thread with annotations works: an operator, a call or communication is open on it.
fn working(trace: &RankTrace, annotated: &Annotated) -> BTreeMap<u32, Union> {
    let c = &trace.columns;
    let host = annotated.names.iter().filter(|((side, _), _)| *side == AnnotationSide::Host);
    let lanes: BTreeSet<u32> = host.flat_map(|(_, n)| &n.ranges).map(|&r| c.lane[r as usize]).collect();
    let communicates = c.strings.each(|t| is_host_communication(Class::Annotation, t));
    let works = |row: &&u32| match trace.classes[**row as usize] {
        Class::HostOp | Class::Runtime | Class::Collective | Class::Title => true,
        Class::Annotation => communicates.holds(c.name(**row as usize)),
        _ => false,
    };
    let union = |rows: &[u32]| Union::new(rows.iter().filter(works).map(|&r| trace.span(r)));
    let annotated = trace.host_rows().iter().filter(|(lane, _)| lanes.contains(lane));
    annotated.map(|(lane, rows)| (*lane, union(rows))).collect()
}

/// Time inside ranges in which their threads work; ranges nested in one of the same name count once.
fn worked(trace: &RankTrace, ranges: &[u32], working: &BTreeMap<u32, Union>) -> Ns {
    let mut by_lane: BTreeMap<u32, Vec<Span>> = BTreeMap::new();
    for &range in ranges {
        by_lane.entry(trace.columns.lane[range as usize]).or_default().push(trace.span(range));
    }
    let of_lane = |(lane, spans): (u32, Vec<Span>)| -> Ns {
        let Some(works) = working.get(&lane) else { return 0 };
        Union::new(spans).spans().iter().map(|s| works.len_in(*s)).sum()
    };
    by_lane.into_iter().map(of_lane).sum()
}

/// Names of the annotations that mark steps, on either side.
fn step_marks(trace: &RankTrace) -> BTreeSet<StrId> {
    let marked = trace.steps.rule != StepRule::Capture;
    let found = trace.steps.steps.iter().filter(|_| marked).map(|s| s.name);
    let named = trace.columns.strings.iter().filter(|(_, t)| t.starts_with("ProfilerStep")).map(|(id, _)| id);
    found.chain(named).collect()
}
