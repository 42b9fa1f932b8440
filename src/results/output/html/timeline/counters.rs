//! Lines of recorded hardware counters below the lanes of their devices. Where a line has more samples than
//! the page has room for, neighbours share a point with their mean, least and largest value.

use crate::output::html::grid::Grid;
use crate::output::html::lane::LaneKey;
use crate::output::html::texts::Texts;
use crate::output::html::timeline::lanes::{ShownStepKey, TimelineLanes};
use crate::results::{Results, ResultsError, columns};
use hta_analysis::counters::recorded::HardwareCounters;
use hta_base::table;
use hta_base::table::schema::Text;
use hta_base::wording::counts::counted;
use std::collections::{BTreeMap, BTreeSet};

/// Largest number of points in a page.
const POINTS: usize = 8_000;
/// Largest number of points of a line, and the number that a line gets at least.
const OF_LINE: usize = 240;
const FEWEST: usize = 24;

table! {
    /// Lines of counters.
    struct CounterLines, CounterLineRow = "hardware_counters" by "lane, counter" {
        lane: i64, "", "row of the device and step";
        counter: Text, "", "name as recorded";
        unit: Text, "", "unit, where recorded";
        points: u64, "", "points of the line";
        samples: u64, "", "samples in the step";
    }
}

table! {
    /// Their points, line by line.
    struct CounterPoints, CounterPointRow = "hardware_counters" by "start_ns" {
        start_ns: i64, "ns", "first sample, after the start of the step";
        dur_ns: i64, "ns", "time for which the samples stand; 0: values at an instant", "length";
        mean: f64, "", "mean of the samples that share the point";
        least: f64, "", "least of them";
        largest: f64, "", "largest of them";
    }
}

columns! {
    Sample of HardwareCounters {
        rank, device, counter: Text, unit: Option<Text>, source: Text, ts_ns: i64, dur_ns: i64, value: f64,
    }
}

/// A counter of a device in a step.
type CounterLineKey = (ShownStepKey, LaneKey, String);

/// A line as it is made, in the order of the samples.
#[derive(Default)]
struct CounterLine {
    unit: Option<String>,
    samples: usize,
    points: Vec<LinePoint>,
}

/// Neighbouring samples that share a point.
struct LinePoint {
    start: i64,
    until: i64,
    count: usize,
    sum: f64,
    least: f64,
    largest: f64,
}

impl CounterLine {
    /// Adds the next sample, of which so many share a point.
    fn add(&mut self, start: i64, dur: i64, value: f64, share: usize) {
        match self.points.last_mut().filter(|p| p.count < share) {
            Some(p) => {
                p.until = p.until.max(start + dur);
                p.count += 1;
                p.sum += value;
                p.least = p.least.min(value);
                p.largest = p.largest.max(value);
            }
            None => self.points.push(LinePoint {
                start,
                until: start + dur,
                count: 1,
                sum: value,
                least: value,
                largest: value,
            }),
        }
    }
}

/// The grids of lines and their points; without rows where no counter was recorded.
///
/// # Errors
/// When a table is damaged.
pub(super) fn grids(
    results: &Results,
    lanes: &TimelineLanes,
    texts: &mut Texts,
) -> Result<[(&'static str, Grid); 2], ResultsError> {
    let windows = LaneSteps::new(lanes);
    let mut lines: BTreeMap<CounterLineKey, CounterLine> = BTreeMap::new();
    windows.each(results, |key, sample| {
        let line = lines.entry(key).or_default();
        line.samples += 1;
        line.unit = sample.unit.map(str::to_string);
    })?;
    let all = lines.len();
    let kept = kept(lanes, &lines);
    lines.retain(|key, _| kept.contains(key));
    let most = (POINTS / lines.len().max(1)).clamp(FEWEST, OF_LINE);
    windows.each(results, |key, sample| {
        if let Some(line) = lines.get_mut(&key) {
            let share = line.samples.div_ceil(most);
            // A value at an instant is drawn where it is.
            let dur = if sample.source == "environment" { 0 } else { sample.dur_ns };
            line.add(sample.ts_ns, dur, sample.value, share);
        }
    })?;
    let (mut shown, mut points) = (CounterLines::default(), CounterPoints::default());
    for ((step, lane, counter), line) in &lines {
        let Some((row, origin)) = lanes.place(*lane, *step, 0) else { continue };
        shown.push(CounterLineRow {
            lane: row as i64,
            counter,
            unit: line.unit.as_deref().unwrap_or_default(),
            points: line.points.len() as u64,
            samples: line.samples as u64,
        });
        for p in &line.points {
            let (start_ns, dur_ns, mean) = (p.start + origin, p.until - p.start, p.sum / p.count as f64);
            points.push(CounterPointRow { start_ns, dur_ns, mean, least: p.least, largest: p.largest });
        }
    }
    let mut grid = texts.grid(shown);
    grid.notes.extend(notes(&lines, all));
    Ok([("lines", grid), ("points", texts.grid(points))])
}

/// As many lines as there is room for: of the longest step first, and of ranks that causes name.
fn kept(lanes: &TimelineLanes, lines: &BTreeMap<CounterLineKey, CounterLine>) -> BTreeSet<CounterLineKey> {
    let of_lane = |(step, lane): (ShownStepKey, LaneKey)| {
        let from = (step, lane, String::new());
        lines.range(from..).map(|(key, _)| key).take_while(move |key| (key.0, key.1) == (step, lane))
    };
    lanes.by_importance().into_iter().flat_map(of_lane).take(POINTS / FEWEST).cloned().collect()
}

fn notes(lines: &BTreeMap<CounterLineKey, CounterLine>, all: usize) -> Vec<String> {
    let mut notes = Vec::new();
    let shared = lines.values().filter(|line| line.points.len() < line.samples).count();
    if shared > 0 {
        notes.push(format!(
            "In {} of hardware counters neighbouring samples share a point: their mean, in a band from the \
             least to the largest. The table `hardware_counters` has all.",
            counted(shared as u64, "line")
        ));
    }
    if all > lines.len() {
        let left = counted((all - lines.len()) as u64, "line");
        notes.push(format!("{left} of hardware counters of other devices and steps are not drawn."));
    }
    notes
}

/// The shown steps of each lane in order of time: start and end on the rank's clock.
struct LaneSteps(BTreeMap<LaneKey, Vec<(i64, i64, ShownStepKey)>>);

impl LaneSteps {
    fn new(lanes: &TimelineLanes) -> Self {
        let mut of: BTreeMap<LaneKey, Vec<(i64, i64, ShownStepKey)>> = BTreeMap::new();
        for (step, lane) in lanes.by_importance() {
            if let Some(window) = lanes.window(lane, step) {
                of.entry(lane).or_default().push((window.start, window.start + window.len, step));
            }
        }
        of.values_mut().for_each(|steps| steps.sort_unstable());
        Self(of)
    }

    /// Passes each sample with the line of each step in which it stands.
    fn each(
        &self,
        results: &Results,
        mut take: impl FnMut(CounterLineKey, &Sample),
    ) -> Result<(), ResultsError> {
        results.read::<Sample>(|s| {
            let lane = (s.rank, s.device);
            let Some(steps) = self.0.get(&lane).filter(|_| s.source != "derived") else { return };
            let until = s.ts_ns + if s.source == "environment" { 1 } else { s.dur_ns };
            let first = steps.partition_point(|(_, end, _)| *end <= s.ts_ns);
            for (_, _, step) in steps.iter().skip(first).take_while(|(start, ..)| *start < until) {
                take((*step, lane, s.counter.to_string()), &s);
            }
        })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_share_a_point_with_their_least_and_largest() {
        let mut line = CounterLine::default();
        for (i, value) in [4.0, 8.0, 3.0, 5.0, 7.0].into_iter().enumerate() {
            line.add(10 * i as i64, 10, value, 2);
        }
        let shown: Vec<_> = line
            .points
            .iter()
            .map(|p| (p.start, p.until, p.sum / p.count as f64, p.least, p.largest))
            .collect();
        assert_eq!(shown, [(0, 20, 6.0, 4.0, 8.0), (20, 40, 4.0, 3.0, 5.0), (40, 50, 7.0, 7.0, 7.0)]);
    }
}
