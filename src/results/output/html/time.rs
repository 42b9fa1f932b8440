//! Sections over time: utilization of the devices, and the critical path of the steps.

use crate::output::html::axis::{PageAxis, PageStep};
use crate::output::html::breakdown::PageLanes;
use crate::output::html::grid::{Grid, Section, missing};
use crate::output::html::lane::LaneKey;
use crate::output::html::overview::PageRanks;
use crate::output::html::tally::{Tally, of_ranks};
use crate::output::html::texts::Texts;
use crate::results::{Results, ResultsError, columns};
use hta_analysis::breakdown::Breakdowns;
use hta_analysis::counters::CounterValues;
use hta_analysis::critical_path::tables::CriticalSummary;
use hta_base::table;
use hta_base::table::schema::Text;
use std::collections::BTreeMap;

table! {
    /// Utilization of the devices by stretch of time.
    struct BusyStretches, BusyStretchRow = "counters" by "start_ns" {
        start_ns: i64, "ns", "start of the stretch", "from";
        mean: Option<f64>, "share", "share of the time in which a kernel runs; mean over the devices",
            "utilization";
        lowest: Option<f64>, "share", "of the least busy device";
        highest: Option<f64>, "share", "of the busiest device";
        sm_efficiency: Option<f64>, "share",
            "estimated share of the SMs that have a block; mean over the devices", "SM efficiency";
        occupancy: Option<f64>, "share", "recorded occupancy of the kernels, weighted by their durations";
    }
}

table! {
    /// The same by rank.
    struct BusyMap, BusyMapRow = "counters" by "ranks, start_ns" {
        ranks: Text, "", "rank, or consecutive ranks that share a row", "rank";
        start_ns: i64, "ns", "start of the stretch", "from";
        utilization: Option<f64>, "share", "share of the time in which a kernel runs";
    }
}

table! {
    /// When each step ran.
    struct StepTimes, StepTimeRow = "temporal_breakdown" by "step" {
        step: Text, "", "step";
        start_ns: i64, "ns", "first start on a rank", "from";
        end_ns: i64, "ns", "last end on a rank", "until";
    }
}

table! {
    /// Critical paths by class, over all ranks.
    struct PathClassSums, PathClassSumRow
        = "critical_path_summary" by "time_ns descending, class, window" {
        class: Text, "", "what the path goes through; `hta explain critical-path`";
        window: Text, "", "the full step of median length, or what was asked for";
        time_ns: i64, "ns", "time on the path, over all ranks", "on the path";
        work_ns: i64, "ns", "of that, work";
        overhead_ns: i64, "ns", "of that, waiting and overhead", "waiting";
        count: u64, "", "segments", "segments";
        ranks: u64, "", "ranks whose path goes through it";
        most_ns: i64, "ns", "on the rank with most of it", "largest";
        most_rank: u32, "", "that rank", "on rank";
    }
}

table! {
    /// Names with most time of a class of the critical path.
    struct PathNameSums, PathNameSumRow
        = "critical_path_summary" by "time_ns descending, class, window, name" {
        class: Text, "", "what the path goes through";
        window: Text, "", "the window";
        name: Text, "", "the name with most time of the class, on one rank or several";
        time_ns: i64, "ns", "its time on these ranks", "on the path";
        ranks: u64, "", "ranks where it has most";
        most_ns: i64, "ns", "on the rank with most of it", "largest";
        most_rank: u32, "", "that rank", "on rank";
    }
}

/// Number of stretches into which the time of the set is divided.
const STRETCHES: i64 = 120;
/// Largest number of rows of the map; with more devices, consecutive ranks share one.
const MOST_ROWS: usize = 256;
/// Largest number of steps that can be shown one by one.
const MOST_STEPS: usize = 400;
/// Largest number of windows of critical paths listed.
const MOST_PATHS: usize = 400;

columns! {
    Sample of CounterValues { rank, counter: Text, device, ts_ns, dur_ns: Option<i64>, value: Option<f64> }
}

columns! {
    PathClass of CriticalSummary {
        rank, window: Text, class: Text, work_ns: i64, overhead_ns: i64, count: u64, top_name: Option<Text>,
        top_name_ns: Option<i64>,
    }
}

columns! {
    StepWindow of Breakdowns { rank, scope, step, step_label, ts_ns, dur_ns }
}

/// A running mean over time.
#[derive(Clone, Copy, Default)]
struct TimeMean {
    /// Sum of value times duration.
    sum: f64,
    length: i64,
}

impl TimeMean {
    fn add(&mut self, value: f64, length: i64) {
        self.sum += value * length as f64;
        self.length += length;
    }

    /// The mean, rounded to four digits, because the page shows no more.
    fn value(self) -> Option<f64> {
        (self.length > 0).then(|| (self.sum / self.length as f64 * 1e4).round() / 1e4)
    }
}

/// The time axis of the stretches.
struct StretchAxis<'a> {
    ranks: &'a PageRanks,
    /// Whether the ranks were recorded at one time; else each counts from its own first event.
    together: bool,
    origin: i64,
    /// From the start to the last end, ns.
    length: i64,
    /// Length of a stretch, ns.
    width: i64,
}

impl<'a> StretchAxis<'a> {
    fn new(ranks: &'a PageRanks) -> Self {
        let together = ranks.are_together();
        let captures = ranks.captures.values();
        let origin = if together { captures.clone().map(|c| c.first).min().unwrap_or(0) } else { 0 };
        let length = if together {
            captures.map(|c| c.last).max().unwrap_or(0) - origin
        } else {
            captures.map(|c| c.last - c.first).max().unwrap_or(0)
        };
        let width = (length.max(1) as u64).div_ceil(STRETCHES as u64) as i64;
        Self { ranks, together, origin, length, width }
    }

    /// Where the axis begins on the clock of a rank, ns.
    fn start_of(&self, rank: u32) -> i64 {
        let offset = self.ranks.offsets.get(&rank).copied().unwrap_or(0);
        let first = self.ranks.captures.get(&rank).map_or(0, |c| c.first);
        offset + if self.together { self.origin } else { first }
    }

    /// The stretches that a time overlaps, with how long.
    fn parts(&self, start: i64, end: i64) -> impl Iterator<Item = (usize, i64)> {
        let width = self.width;
        let touched = (start / width).max(0)..=((end - 1) / width).min(STRETCHES - 1);
        touched.filter_map(move |at: i64| {
            let length = end.min((at + 1) * width) - start.max(at * width);
            Some((usize::try_from(at).ok()?, length)).filter(|of| of.1 > 0)
        })
    }
}

/// A mean for every stretch.
type StretchMeans = Vec<TimeMean>;

fn no_means() -> StretchMeans {
    vec![TimeMean::default(); STRETCHES as usize]
}

/// Means by stretch.
struct Utilization {
    /// By row of the map.
    busy: BTreeMap<usize, StretchMeans>,
    of_all: StretchMeans,
    sm: StretchMeans,
    occupancy: StretchMeans,
    /// Lowest and highest value of a device.
    extremes: Vec<Option<(f64, f64)>>,
    /// The device whose samples are being read.
    lane: Option<LaneKey>,
    of_lane: StretchMeans,
}

impl Utilization {
    fn new() -> Self {
        Self {
            busy: BTreeMap::new(),
            of_all: no_means(),
            sm: no_means(),
            occupancy: no_means(),
            extremes: vec![None; STRETCHES as usize],
            lane: None,
            of_lane: Vec::new(),
        }
    }

    /// Adds a sample of a counter; those of other counters are left out.
    fn add(&mut self, r: &Sample, axis: &StretchAxis, rows: &PageAxis<u32>) {
        let (Some(value), Some(dur)) = (r.value.filter(|v| v.is_finite()), r.dur_ns) else { return };
        let start = r.ts_ns - axis.start_of(r.rank);
        let parts = axis.parts(start, start + dur);
        let sum = |means: &mut StretchMeans, (i, part): (usize, i64), value: f64| {
            means.get_mut(i).into_iter().for_each(|m| m.add(value, part));
        };
        match r.counter {
            "gpu_utilization_ratio" => {
                if self.lane != Some((r.rank, r.device)) {
                    self.end_lane();
                    (self.lane, self.of_lane) = (Some((r.rank, r.device)), no_means());
                }
                let row = rows.place(&r.rank);
                for part in parts {
                    sum(&mut self.of_all, part, value);
                    sum(&mut self.of_lane, part, value);
                    if let Some(row) = row {
                        sum(self.busy.entry(row).or_insert_with(no_means), part, value);
                    }
                }
            }
            "sm_efficiency_ratio" => parts.for_each(|part| sum(&mut self.sm, part, value)),
            "est_occupancy_pct" => parts.for_each(|part| sum(&mut self.occupancy, part, value / 100.0)),
            _ => {}
        }
    }

    /// Adds what was read of a device to the extremes.
    fn end_lane(&mut self) {
        for (e, mean) in self.extremes.iter_mut().zip(std::mem::take(&mut self.of_lane)) {
            if let Some(v) = mean.value() {
                *e = Some(e.map_or((v, v), |(a, b)| (a.min(v), b.max(v))));
            }
        }
    }

    fn grid(&self, axis: &StretchAxis, texts: &mut Texts) -> Grid {
        let mut stretches = BusyStretches::default();
        let used = (axis.length / axis.width + 1).min(STRETCHES);
        let devices = self.extremes.iter().zip(&self.occupancy);
        let means = self.of_all.iter().zip(&self.sm).zip(devices).zip(0i64..used);
        for (((mean, sm), (e, occupancy)), i) in means {
            stretches.push(BusyStretchRow {
                start_ns: i * axis.width,
                mean: mean.value(),
                lowest: e.map(|e| e.0),
                highest: e.map(|e| e.1),
                sm_efficiency: sm.value(),
                occupancy: occupancy.value(),
            });
        }
        texts.grid(stretches)
    }
}

/// The section on utilization of the devices.
///
/// # Errors
/// When the table is damaged.
pub(crate) fn utilization(
    results: &Results,
    ranks: &PageRanks,
    texts: &mut Texts,
) -> Result<Section, ResultsError> {
    let time = StretchAxis::new(ranks);
    let axis = PageAxis::new(&ranks.captures.keys().copied().collect(), MOST_ROWS);
    let mut all = Utilization::new();
    let there = results.read::<Sample>(|r| all.add(&r, &time, &axis))?;
    all.end_lane();
    if all.busy.is_empty() {
        let none = "No GPU activity was recorded, so there is no utilization: a CPU-only job.";
        return Ok(Section::without(if there { none.to_string() } else { missing("counters") }));
    }
    let mut map = BusyMap::default();
    for (place, means) in &all.busy {
        let ranks = &axis.label(*place);
        for (i, m) in (0i64..).zip(means).filter(|(_, m)| m.length > 0) {
            map.push(BusyMapRow { ranks, start_ns: i * time.width, utilization: m.value() });
        }
    }
    let mut section = Section::default();
    section.notes.push(format!(
        "Each value is the mean over {} of {}.",
        hta_base::units::fmt_ns(time.width),
        if time.together {
            "the time since the first event of the set"
        } else {
            "the time since each rank's own first event: the ranks were not recorded at one time"
        }
    ));
    if axis.joined > 1 {
        section.notes.push(format!("{} consecutive ranks share a row of the map: their mean.", axis.joined));
    }
    let steps = steps_in_time(results, |rank| time.start_of(rank), texts)?;
    let section = section.with("stretches", all.grid(&time, texts)).with("steps", steps);
    Ok(if axis.len() > 1 { section.with("map", texts.grid(map)) } else { section })
}

/// When each step ran: from the first start to the last end on the ranks, on the axis of the utilization.
fn steps_in_time(
    results: &Results,
    start_of: impl Fn(u32) -> i64,
    texts: &mut Texts,
) -> Result<Grid, ResultsError> {
    let mut extents: BTreeMap<PageStep, (i64, i64)> = BTreeMap::new();
    results.read::<StepWindow>(|r| {
        let Some(step) = PageStep::new(r.step, r.step_label).filter(|_| r.scope != "span") else { return };
        let start = r.ts_ns - start_of(r.rank);
        let extent = extents.entry(step).or_insert((start, start + r.dur_ns));
        *extent = (extent.0.min(start), extent.1.max(start + r.dur_ns));
    })?;
    let mut steps = StepTimes::default();
    if extents.len() <= MOST_STEPS {
        for (step, (start_ns, end_ns)) in extents {
            steps.push(StepTimeRow { step: &step.to_string(), start_ns, end_ns });
        }
    }
    Ok(texts.grid(steps))
}

/// The section on the critical path of the steps.
///
/// # Errors
/// When the table is damaged.
pub(crate) fn critical_path(
    results: &Results,
    lanes: Option<&PageLanes>,
    texts: &mut Texts,
) -> Result<Section, ResultsError> {
    let mut classes: Tally<2, 4> = Tally::default();
    let mut tops: Tally<3, 1> = Tally::default();
    let there = results.read::<PathClass>(|r| {
        let sums = [r.work_ns + r.overhead_ns, r.work_ns, r.overhead_ns, r.count as i64];
        classes.add([r.class, r.window], r.rank, sums);
        if let Some(name) = r.top_name {
            tops.add([r.class, r.window, name], r.rank, [r.top_name_ns.unwrap_or(0)]);
        }
    })?;
    if classes.is_empty() {
        let none = "No critical path: the window is empty.";
        return Ok(Section::without(if there { none.to_string() } else { missing("critical_path_summary") }));
    }
    let mut grid = Grid::whole(PathClassSums::SPEC);
    classes.fill(&mut grid, texts, MOST_PATHS, of_ranks);
    let mut names = Grid::whole(PathNameSums::SPEC);
    tops.fill(&mut names, texts, MOST_PATHS, of_ranks);
    let mut section = Section::default();
    if lanes.is_some_and(|l| l.ranks.len() > 1) {
        section
            .notes
            .push("Each rank has a path of its own; the times are summed over the ranks.".to_string());
    }
    Ok(section.with("classes", grid).with("names", names))
}
