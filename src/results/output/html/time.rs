//! Sections over time: utilization of the devices, and the critical path of the steps.

use crate::output::html::axis::{PageAxis, PageStep};
use crate::output::html::breakdown::{LaneKey, PageLanes};
use crate::output::html::grid::{CellType, Grid, Heading, Section, missing};
use crate::output::html::overview::PageRanks;
use crate::output::html::tally::Tally;
use crate::output::html::texts::Texts;
use crate::results::{Results, ResultsError, columns};
use hta_analysis::breakdown::Breakdowns;
use hta_analysis::counters::CounterValues;
use hta_analysis::critical_path::tables::CriticalSummary;
use hta_base::table::schema::Text;
use std::collections::{BTreeMap, BTreeSet};

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

/// The section on utilization of the devices.
///
/// # Errors
/// When the table is damaged.
pub(crate) fn utilization(
    results: &Results,
    ranks: &PageRanks,
    texts: &mut Texts,
) -> Result<Section, ResultsError> {
    let together = ranks.are_together();
    let captures = ranks.captures.values();
    let origin = if together { captures.clone().map(|c| c.first).min().unwrap_or(0) } else { 0 };
    let length = if together {
        captures.map(|c| c.last).max().unwrap_or(0) - origin
    } else {
        captures.map(|c| c.last - c.first).max().unwrap_or(0)
    };
    let width = (length.max(1) as u64).div_ceil(STRETCHES as u64) as i64;
    let start_of = |rank: u32| {
        let offset = ranks.offsets.get(&rank).copied().unwrap_or(0);
        let first = ranks.captures.get(&rank).map_or(0, |c| c.first);
        offset + if together { origin } else { first }
    };
    let all: BTreeSet<u32> = ranks.captures.keys().copied().collect();
    let axis = PageAxis::new(&all, MOST_ROWS);
    let mut busy: BTreeMap<usize, Vec<TimeMean>> = BTreeMap::new();
    let (mut of_all, mut occupancy) = (
        [vec![TimeMean::default(); STRETCHES as usize], vec![TimeMean::default(); STRETCHES as usize]],
        vec![TimeMean::default(); STRETCHES as usize],
    );
    let mut extremes: Vec<Option<(f64, f64)>> = vec![None; STRETCHES as usize];
    let mut lane: (Option<LaneKey>, Vec<TimeMean>) = (None, Vec::new());
    let finish = |lane: &mut (Option<LaneKey>, Vec<TimeMean>), extremes: &mut Vec<Option<(f64, f64)>>| {
        for (e, mean) in extremes.iter_mut().zip(std::mem::take(&mut lane.1)) {
            if let Some(v) = mean.value() {
                *e = Some(e.map_or((v, v), |(a, b)| (a.min(v), b.max(v))));
            }
        }
    };
    let there = results.read::<Sample>(|r| {
        let counter @ ("gpu_utilization_ratio" | "sm_efficiency_ratio" | "est_occupancy_pct") = r.counter
        else {
            return;
        };
        let (Some(value), Some(dur)) = (r.value.filter(|v| v.is_finite()), r.dur_ns) else { return };
        let start = r.ts_ns - start_of(r.rank);
        if counter == "gpu_utilization_ratio" && lane.0 != Some((r.rank, r.device)) {
            finish(&mut lane, &mut extremes);
            lane = (Some((r.rank, r.device)), vec![TimeMean::default(); STRETCHES as usize]);
        }
        for at in (start / width).max(0)..=((start + dur - 1) / width).min(STRETCHES - 1) {
            let part = (start + dur).min((at + 1) * width) - start.max(at * width);
            let Ok(i) = usize::try_from(at) else { continue };
            if part <= 0 {
                continue;
            }
            let add =
                |means: &mut Vec<TimeMean>| means.get_mut(i).into_iter().for_each(|m| m.add(value, part));
            match counter {
                "gpu_utilization_ratio" => {
                    add(&mut of_all[0]);
                    add(&mut lane.1);
                    if let Some(place) = axis.place(&r.rank) {
                        add(busy
                            .entry(place)
                            .or_insert_with(|| vec![TimeMean::default(); STRETCHES as usize]));
                    }
                }
                "sm_efficiency_ratio" => add(&mut of_all[1]),
                _ => occupancy.get_mut(i).into_iter().for_each(|m| m.add(value / 100.0, part)),
            }
        }
    })?;
    finish(&mut lane, &mut extremes);
    if busy.is_empty() {
        let none = "No GPU activity was recorded, so there is no utilization: a CPU-only job.";
        return Ok(Section::without(if there { none.to_string() } else { missing("counters") }));
    }
    const HEADINGS: &[Heading] = &[
        ("start_ns", "from", CellType::Ns, "start of the stretch"),
        (
            "mean",
            "utilization",
            CellType::Ratio,
            "share of the time in which a kernel runs; mean over the devices",
        ),
        ("lowest", "lowest", CellType::Ratio, "of the least busy device"),
        ("highest", "highest", CellType::Ratio, "of the busiest device"),
        (
            "sm_efficiency",
            "SM efficiency",
            CellType::Ratio,
            "estimated share of the SMs that have a block; mean over the devices",
        ),
        (
            "occupancy",
            "occupancy",
            CellType::Ratio,
            "recorded occupancy of the kernels, weighted by their durations",
        ),
    ];
    let mut grid = Grid::new("counters", HEADINGS);
    let used = (length / width + 1).min(STRETCHES);
    for (i, ((mean, sm), (e, occupancy))) in
        of_all[0].iter().zip(&of_all[1]).zip(extremes.iter().zip(&occupancy)).enumerate().take(used as usize)
    {
        grid.push([
            (i as i64 * width).into(),
            mean.value().into(),
            e.map(|e| e.0).into(),
            e.map(|e| e.1).into(),
            sm.value().into(),
            occupancy.value().into(),
        ]);
    }
    let mut map = Grid::new(
        "counters",
        &[
            ("ranks", "rank", CellType::Text, "rank, or consecutive ranks that share a row"),
            ("start_ns", "from", CellType::Ns, "start of the stretch"),
            ("utilization", "utilization", CellType::Ratio, "share of the time in which a kernel runs"),
        ],
    );
    for (place, means) in &busy {
        let name = texts.cell(&axis.label(*place));
        for (i, m) in means.iter().enumerate().filter(|(_, m)| m.length > 0) {
            map.push([name, (i as i64 * width).into(), m.value().into()]);
        }
    }
    let mut section = Section::default();
    section.notes.push(format!(
        "Each value is the mean over {} of {}.",
        hta_base::units::fmt_ns(width),
        if together {
            "the time since the first event of the set"
        } else {
            "the time since each rank's own first event: the ranks were not recorded at one time"
        }
    ));
    if axis.joined > 1 {
        section.notes.push(format!("{} consecutive ranks share a row of the map: their mean.", axis.joined));
    }
    let section = section.with("stretches", grid).with("steps", steps_in_time(results, start_of, texts)?);
    Ok(if axis.len() > 1 { section.with("map", map) } else { section })
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
    let mut grid = Grid::new(
        "temporal_breakdown",
        &[
            ("step", "step", CellType::Text, "step"),
            ("start_ns", "from", CellType::Ns, "first start on a rank"),
            ("end_ns", "until", CellType::Ns, "last end on a rank"),
        ],
    );
    if extents.len() <= MOST_STEPS {
        for (step, (start, end)) in extents {
            grid.push([texts.cell(&step.to_string()), start.into(), end.into()]);
        }
    }
    Ok(grid)
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
    let mut grid = Grid::new(
        "critical_path_summary",
        &[
            ("class", "class", CellType::Text, "what the path goes through; `hta explain critical-path`"),
            ("window", "window", CellType::Text, "the full step of median length, or what was asked for"),
            ("time_ns", "on the path", CellType::Ns, "time on the path, over all ranks"),
            ("work_ns", "work", CellType::Ns, "of that, work"),
            ("overhead_ns", "waiting", CellType::Ns, "of that, waiting and overhead"),
            ("count", "segments", CellType::Count, "segments"),
            ("ranks", "ranks", CellType::Count, "ranks whose path goes through it"),
            ("most_ns", "largest", CellType::Ns, "on the rank with most of it"),
            ("most_rank", "on rank", CellType::Id, "that rank"),
        ],
    );
    classes.fill(&mut grid, texts, MOST_PATHS, |t, _| vec![t.ranks.into(), t.most.0.into(), t.most.1.into()]);
    let mut names = Grid::new(
        "critical_path_summary",
        &[
            ("class", "class", CellType::Text, "what the path goes through"),
            ("window", "window", CellType::Text, "the window"),
            ("name", "name", CellType::Text, "the name with most time of the class, on one rank or several"),
            ("time_ns", "on the path", CellType::Ns, "its time on these ranks"),
            ("ranks", "ranks", CellType::Count, "ranks where it has most"),
            ("most_ns", "largest", CellType::Ns, "on the rank with most of it"),
            ("most_rank", "on rank", CellType::Id, "that rank"),
        ],
    );
    tops.fill(&mut names, texts, MOST_PATHS, |t, _| vec![t.ranks.into(), t.most.0.into(), t.most.1.into()]);
    let mut section = Section::default();
    if lanes.is_some_and(|l| l.ranks.len() > 1) {
        section
            .notes
            .push("Each rank has a path of its own; the times are summed over the ranks.".to_string());
    }
    Ok(section.with("classes", grid).with("names", names))
}
