//! The sections on the time breakdown by rank and by step, and the lanes that other sections use. A lane is
//! one device of one rank. Its figures are sums over its full steps, or over its span if it has no full step.

use crate::output::html::account::{ExposedParts, PageAccount};
use crate::output::html::axis::{PageAxis, PageStep};
use crate::output::html::grid::{Cell, Grid, Section};
use crate::output::html::heat::{Heat, SIDE};
use crate::output::html::lane::{LaneColumns, LaneKey, MOST_LANES};
use crate::output::html::texts::Texts;
use crate::results::{Results, ResultsError, columns};
use hta_analysis::breakdown::Breakdowns;
use hta_base::table;
use hta_base::table::schema::Text;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Number of places for steps on an axis.
const MOST_STEPS: usize = 400;
/// Largest number of windows that are listed.
const MOST_CELLS: usize = 8_192;

/// Length, compute, fused, exposed communication, of that waiting and transfer, copies and idle time, ns.
type WindowParts = [i64; 8];

columns! {
    Window of Breakdowns {
        rank, device, scope, step, step_label, is_partial, ts_ns, dur_ns, basis: Text, compute_ns: i64,
        exposed_communication_ns: i64, copies_ns: i64, idle_ns: i64,
    }
}

impl Window<'_> {
    /// The parts, with waiting and transfer where the account has the same communication for this window.
    fn parts(&self, account: &PageAccount) -> WindowParts {
        let exposed = self.exposed_communication_ns;
        let is_same = |of: &ExposedParts| of.waiting + of.transfer + of.unmatched == exposed;
        let step = PageStep::new(self.step, self.step_label);
        let of = account.exposed((self.rank, self.device), step).filter(is_same).unwrap_or_default();
        let (dur, compute, copies, idle) = (self.dur_ns, self.compute_ns, self.copies_ns, self.idle_ns);
        let fused = dur - compute - exposed - copies - idle;
        [dur, compute, fused, exposed, of.waiting, of.transfer, copies, idle]
    }
}

/// One device of one rank.
#[derive(Debug, Clone, Default)]
pub struct PageLane {
    /// Number of full steps; if 0, the span is used.
    pub(crate) full: u32,
    partial: u32,
    parts: WindowParts,
    span: WindowParts,
    /// Start and length of the capture, ns.
    capture: Option<(i64, i64)>,
}

impl PageLane {
    /// Number of windows in its sums.
    pub(crate) fn windows(&self) -> u32 {
        self.full.max(1)
    }

    fn sums(&self) -> &WindowParts {
        if self.full > 0 { &self.parts } else { &self.span }
    }

    /// Time without compute per window, ns.
    fn without_compute(&self) -> i64 {
        let p = self.sums();
        (p[0] - p[1]) / i64::from(self.windows())
    }
}

/// All lanes, and their steps.
#[derive(Default)]
pub(crate) struct PageLanes {
    pub(crate) lanes: BTreeMap<LaneKey, PageLane>,
    pub(crate) ranks: BTreeSet<u32>,
    steps: BTreeMap<PageStep, StepSums>,
    is_cpu: bool,
    is_gpu: bool,
    pub(crate) account: PageAccount,
}

impl PageLanes {
    /// Whether a row of a table with windows belongs to the windows that are used for its lane.
    pub(crate) fn counts(&self, lane: &LaneKey, scope: &str, is_partial: Option<bool>) -> bool {
        let full = self.lanes.get(lane).is_some_and(|l| l.full > 0);
        if full { scope == "step" && is_partial != Some(true) } else { scope == "span" }
    }

    /// The lanes that are listed, those with the least compute first.
    pub(crate) fn listed(&self) -> Vec<(&LaneKey, &PageLane)> {
        let mut all: Vec<_> = self.lanes.iter().collect();
        all.sort_by_key(|(key, lane)| (Reverse(lane.without_compute()), **key));
        all.truncate(MOST_LANES);
        all.sort_by_key(|(key, _)| **key);
        all
    }
}

/// Sums of one step over all lanes.
struct StepSums {
    windows: u32,
    partial: u32,
    parts: WindowParts,
    shortest: i64,
    longest: (i64, u32),
}

fn add(to: &mut WindowParts, parts: &WindowParts) {
    to.iter_mut().zip(parts).for_each(|(a, b)| *a += b);
}

/// Reads the sums of each lane and each step.
///
/// # Errors
/// When the table is damaged.
pub(crate) fn lanes(results: &Results) -> Result<Option<PageLanes>, ResultsError> {
    let mut all = PageLanes { account: PageAccount::read(results)?, ..PageLanes::default() };
    let there = results.read::<Window>(|w| {
        let key = (w.rank, w.device);
        let lane = all.lanes.entry(key).or_default();
        all.ranks.insert(key.0);
        match w.basis {
            "cpu" => all.is_cpu = true,
            _ => all.is_gpu = true,
        }
        let found = w.parts(&all.account);
        match w.scope {
            "span" => lane.span = found,
            "capture" => lane.capture = Some((w.ts_ns, w.dur_ns)),
            // Without marked steps, the capture is the only step. The span is more informative, and the
            // printed report uses it too.
            "step" if lane.capture == Some((w.ts_ns, w.dur_ns)) => {}
            "step" => {
                let Some(step) = PageStep::new(w.step, w.step_label) else { return };
                let step = all.steps.entry(step).or_insert_with(|| StepSums {
                    windows: 0,
                    partial: 0,
                    parts: [0; 8],
                    shortest: i64::MAX,
                    longest: (-1, 0),
                });
                if w.is_partial == Some(true) {
                    lane.partial += 1;
                    step.partial += 1;
                    return;
                }
                lane.full += 1;
                add(&mut lane.parts, &found);
                step.windows += 1;
                add(&mut step.parts, &found);
                step.shortest = step.shortest.min(w.dur_ns);
                step.longest = step.longest.max((w.dur_ns, key.0));
            }
            _ => {}
        }
    })?;
    Ok((there && !all.lanes.is_empty()).then_some(all))
}

table! {
    /// What windows consist of.
    struct ShownParts, ShownPartRow = "temporal_breakdown" by "dur_ns" {
        dur_ns: i64, "ns", "length of the window", "length";
        compute_ns: i64, "ns", "some compute runs";
        fused_ns: i64, "ns", "fused kernels (exchange and product in one) run and no compute";
        exposed_communication_ns: i64, "ns", "communication runs and no compute", "communication";
        waiting_ns: i64, "ns", "another rank has not come yet", "of that waiting";
        transfer_ns: i64, "ns", "all ranks are there; what is neither is not known", "of that transfer";
        copies_ns: i64, "ns", "only copies or sets run";
        idle_ns: i64, "ns", "nothing runs";
    }
}

table! {
    /// Steps, each over all ranks.
    struct ShownStepSums, ShownStepSumRow = "temporal_breakdown" by "step" {
        step: Text, "", "number in the step's name; @n: its place in time";
        windows: u64, "", "full steps that the sums are over, one for each device of a rank", "ranks";
        partial_count: u64, "",
            "steps left out: cut by the capture, or with far less work than the others";
    }
}

table! {
    /// What is said of them behind their parts.
    struct StepExtremes, StepExtremeRow = "temporal_breakdown" by "shortest_ns" {
        shortest_ns: Option<i64>, "ns", "length on the rank that takes least time";
        longest_ns: Option<i64>, "ns", "the rank that takes longest";
        longest_rank: Option<u32>, "", "the rank that takes longest", "on rank";
    }
}

table! {
    /// Single steps of ranks.
    struct RankSteps, RankStepRow = "temporal_breakdown" by "rank, device, step" {
        rank;
        device: Option<i64>, "", "device index";
        step: Text, "", "number in the step's name; @n: its place in time";
        is_partial: Option<bool>, "",
            "1: the step is cut by the capture, or has far less work than the others", "partial";
    }
}

table! {
    /// Length of steps by rank and step.
    struct StepLengths, StepLengthRow = "temporal_breakdown" by "dur_ns" {
        dur_ns: i64, "ns", "length of the step, summed over the ranks and steps of this field", "length";
    }
}

/// Cells of the columns that identify a lane.
pub(crate) fn lane_cells(key: &LaneKey, lane: &PageLane) -> [Cell; 3] {
    [key.0.into(), key.1.into(), lane.windows().into()]
}

/// The section on the time breakdown.
///
/// # Errors
/// When the table is damaged.
pub(crate) fn section(
    results: &Results,
    lanes: &PageLanes,
    texts: &mut Texts,
) -> Result<Section, ResultsError> {
    let listed = lanes.listed();
    let mut by_lane = Grid::of_tables("temporal_breakdown", &[LaneColumns::SPEC, ShownParts::SPEC]);
    for (key, lane) in &listed {
        by_lane.push(lane_cells(key, lane).into_iter().chain(lane.sums().map(Cell::Int)));
    }
    let shown: BTreeSet<&LaneKey> = listed.iter().map(|(k, _)| *k).collect();
    let (mut rest, mut windows) = ([0; 8], 0u32);
    for (_, lane) in lanes.lanes.iter().filter(|(k, _)| !shown.contains(k)) {
        add(&mut rest, lane.sums());
        windows += lane.windows();
    }
    let sums = [Cell::Nothing, Cell::Nothing, windows.into()].into_iter().chain(rest.map(Cell::Int));
    by_lane.leave_out(lanes.lanes.len() - listed.len(), sums.collect());
    let mut section = Section::default().with("lanes", by_lane);
    if let Some(account) = lanes.account.grid() {
        section = section.with("account", account);
    }
    let without_steps = lanes.lanes.values().filter(|l| l.full == 0).count();
    if lanes.is_cpu {
        let of = if lanes.is_gpu { "Ranks without a device" } else { "CPU-only" };
        section.notes.push(format!(
            "{of}: compute is time in which any thread works in an operator or a runtime call."
        ));
    }
    if without_steps > 0 {
        let of = if without_steps == lanes.lanes.len() {
            "No rank has".to_string()
        } else {
            match without_steps {
                1 => "1 rank has no".to_string(),
                n => format!("{n} ranks have no"),
            }
        };
        section.notes.push(format!(
            "{of} full step: there the span counts, from the first start to the last end on the device."
        ));
    }
    let partial: u32 = lanes.lanes.values().map(|l| l.partial).sum();
    if partial > 0 {
        let steps =
            if partial == 1 { "1 step that was".to_string() } else { format!("{partial} steps that were") };
        let are = if partial == 1 { "is" } else { "are" };
        section.notes.push(format!(
            "{steps} cut by the capture, or with far less work than the others, {are} left out of the means."
        ));
    }
    if lanes.steps.is_empty() {
        return Ok(section);
    }
    let axis = PageAxis::new(&lanes.steps.keys().copied().collect(), MOST_STEPS);
    let section = section.with("steps", by_step(lanes, &axis, texts));
    let (cells, lengths) = by_window(results, lanes, texts)?;
    let section = section.with("cells", cells);
    Ok(if lanes.ranks.len() > 1 { section.with("lengths", lengths) } else { section })
}

fn by_step(lanes: &PageLanes, axis: &PageAxis<PageStep>, texts: &mut Texts) -> Grid {
    let columns = [ShownStepSums::SPEC, ShownParts::SPEC, StepExtremes::SPEC];
    let mut grid = Grid::of_tables("temporal_breakdown", &columns);
    let mut places: Vec<Option<StepSums>> = (0..axis.len()).map(|_| None).collect();
    for (step, s) in &lanes.steps {
        let Some(place) = axis.place(step).and_then(|p| places.get_mut(p)) else { continue };
        let none =
            || StepSums { windows: 0, partial: 0, parts: [0; 8], shortest: i64::MAX, longest: (-1, 0) };
        let at = place.get_or_insert_with(none);
        at.windows += s.windows;
        at.partial += s.partial;
        add(&mut at.parts, &s.parts);
        at.shortest = at.shortest.min(s.shortest);
        at.longest = at.longest.max(s.longest);
    }
    for (i, s) in places.iter().enumerate() {
        let Some(s) = s else { continue };
        let extremes = (s.windows > 0).then_some((s.shortest, s.longest));
        let mut row = vec![texts.cell(&axis.label(i)), s.windows.into(), s.partial.into()];
        row.extend(s.parts.map(Cell::Int));
        let (shortest, longest, rank) =
            (extremes.map(|e| e.0), extremes.map(|e| e.1.0), extremes.map(|e| e.1.1));
        row.extend([Cell::from(shortest), Cell::from(longest), Cell::from(rank)]);
        grid.push(row);
    }
    if axis.joined > 1 {
        grid.notes.push(format!(
            "{} steps: {} consecutive ones are joined in each row.",
            lanes.steps.len(),
            axis.joined
        ));
    }
    grid
}

/// Grids of single windows by lane, and of step times by rank.
fn by_window(results: &Results, lanes: &PageLanes, texts: &mut Texts) -> Result<(Grid, Grid), ResultsError> {
    let longest = lanes.lanes.values().map(|l| (l.full + l.partial) as usize).max().unwrap_or(0).max(1);
    let room = (MOST_CELLS / longest).max(1);
    let mut worst: Vec<(&LaneKey, &PageLane)> = lanes.lanes.iter().collect();
    worst.sort_by_key(|(key, lane)| (Reverse(lane.without_compute()), **key));
    let chosen: BTreeSet<LaneKey> = worst.iter().take(room).map(|(k, _)| **k).collect();

    let mut cells = Grid::of_tables("temporal_breakdown", &[RankSteps::SPEC, ShownParts::SPEC]);
    let (ranks, steps) =
        (PageAxis::new(&lanes.ranks, SIDE), PageAxis::new(&lanes.steps.keys().copied().collect(), SIDE));
    let mut lengths = Heat::<1>::new(&ranks, &steps);
    let (mut left, mut left_parts) = (0, [0; 8]);
    results.read::<Window>(|w| {
        let (Some(step), "step") = (PageStep::new(w.step, w.step_label), w.scope) else { return };
        let (key, found) = ((w.rank, w.device), w.parts(&lanes.account));
        if lanes.lanes.get(&key).is_some_and(|l| l.capture == Some((w.ts_ns, w.dur_ns))) {
            return;
        }
        if w.is_partial != Some(true) {
            lengths.add(&ranks, &steps, key.0, &step, [w.dur_ns]);
        }
        // A single lane may have more steps than fit.
        if !chosen.contains(&key) || cells.len() >= MOST_CELLS {
            left += 1;
            add(&mut left_parts, &found);
            return;
        }
        let is_partial = w.is_partial.map(u32::from);
        let mut row = vec![key.0.into(), key.1.into(), texts.cell(&step.to_string()), is_partial.into()];
        row.extend(found.map(Cell::Int));
        cells.push(row);
    })?;
    let none = [Cell::Nothing; 4].into_iter();
    cells.leave_out(left, none.chain(left_parts.map(Cell::Int)).collect());
    if chosen.len() < lanes.lanes.len() {
        let say = format!(
            "Single steps are listed for the {} of {} ranks that compute least of their time.",
            chosen.len(),
            lanes.lanes.len()
        );
        cells.notes.push(say);
    }
    Ok((cells, lengths.grid(StepLengths::SPEC, &ranks, &steps, texts)))
}
