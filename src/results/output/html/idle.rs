//! The section on idle time: by cause, and by what the host did while the device waited for it.

use crate::output::html::breakdown::{PageLanes, lane_cells};
use crate::output::html::grid::{Cell, Grid, Section, missing};
use crate::output::html::lane::{LaneColumns, LaneKey};
use crate::output::html::tally::{Tally, of_ranks};
use crate::output::html::texts::Texts;
use crate::results::{Results, ResultsError, columns};
use hta_analysis::idle::{IdleHost, Idles};
use hta_base::table;
use hta_base::table::schema::{ColumnSpec, Text};
use hta_trace::step::is_profiler_step;
use std::collections::{BTreeMap, BTreeSet};

table! {
    /// What the host did.
    struct HostActivities, HostActivityRow = "idle_host" by "time_ns descending, activity, name" {
        activity: Text, "", "kind of the innermost open event of the launching thread", "the host was in";
        name: Text, "", "its name; a Python frame with file and line";
        time_ns: i64, "ns", "idle time during this activity, over all ranks and windows", "host wait";
        gap_count: u64, "", "gaps with this activity", "gaps";
        ranks: u64, "", "ranks that have it";
        most_ns: i64, "ns", "on the rank with most of it", "largest";
        most_rank: u32, "", "that rank", "on rank";
    }
}

table! {
    /// Idle time by cause; host wait by kind of activity.
    struct LaneCauses, LaneCauseRow = "idle" by "idle_ns" {
        idle_ns: i64, "ns", "nothing runs: the sum of what follows";
        kernel_wait_ns: i64, "ns", "submitted, and about to start";
        other_ns: i64, "ns", "submitted, but held back by something else; or the launch is unknown", "held";
        data_loader: i64, "ns", "host wait during this activity of the launching thread";
        python: i64, "ns", "host wait during this activity of the launching thread", "Python";
        operator: i64, "ns", "host wait during this activity of the launching thread";
        annotation: i64, "ns", "host wait during this activity of the launching thread";
        launch_call: i64, "ns", "host wait during this activity of the launching thread";
        sync_call: i64, "ns", "host wait during this activity of the launching thread";
        allocation_call: i64, "ns", "host wait during this activity of the launching thread", "allocation";
        runtime_call: i64, "ns", "host wait during this activity of the launching thread";
        communication_operator: i64, "ns", "host wait during this activity of the launching thread";
        untracked: i64, "ns", "host wait during this activity of the launching thread";
        host_ns: i64, "ns", "host wait whose activity is unknown", "other host wait";
    }
}

/// Largest number of host activities listed.
const MOST_ACTIVITIES: usize = 200;

const ANNOTATION: &str = "annotation";
const UNTRACKED: &str = "untracked";
/// The name of host time in a step of which nothing else is recorded.
const IN_STEP: &str = "in a step, nothing else recorded";

/// Number of columns before those of the kinds of host activity, which are named as in `hta explain idle`.
const FIRST_KIND: usize = 3;
/// Number of these kinds; one column stands behind them.
const KINDS: usize = LaneCauses::SPEC.columns.len() - FIRST_KIND - 1;

columns! {
    Window of Idles {
        rank, device, stream, scope, is_partial, idle_ns: i64, host_wait_ns: i64, kernel_wait_ns: i64, other_ns: i64,
    }
}

columns! {
    HostTime of IdleHost { rank, device, scope, is_partial, activity: Text, name: Text, time_ns: i64, gap_count: u64 }
}

/// Idle time, host wait, kernel wait and other, ns.
type LaneIdle = [i64; 4];

/// The section on idle time.
///
/// # Errors
/// When a table is damaged.
pub(crate) fn section(
    results: &Results,
    lanes: &PageLanes,
    texts: &mut Texts,
) -> Result<Section, ResultsError> {
    let mut causes: BTreeMap<LaneKey, LaneIdle> = BTreeMap::new();
    let there = results.read::<Window>(|w| {
        let lane = (w.rank, w.device);
        if w.stream.is_none() && lanes.counts(&lane, w.scope, w.is_partial) {
            let times = [w.idle_ns, w.host_wait_ns, w.kernel_wait_ns, w.other_ns];
            causes.entry(lane).or_default().iter_mut().zip(times).for_each(|(sum, ns)| *sum += ns);
        }
    })?;
    if !there {
        return Ok(Section::without(missing("idle")));
    }
    let mut of_host: BTreeMap<LaneKey, [i64; KINDS]> = BTreeMap::new();
    let mut names: Tally<2, 2> = Tally::default();
    results.read::<HostTime>(|r| {
        let lane = (r.rank, r.device);
        if !lanes.counts(&lane, r.scope, r.is_partial) {
            return;
        }
        // In the mark of a step and nothing finer, nothing is known of what the host does.
        let is_step = r.activity == ANNOTATION && is_profiler_step(r.name);
        let (activity, name) = if is_step { (UNTRACKED, IN_STEP) } else { (r.activity, r.name) };
        // Unknown kinds count as untracked, so that the parts still sum to the whole.
        let kind = |c: &ColumnSpec| c.name == activity;
        let at = LaneCauses::SPEC.columns[FIRST_KIND..].iter().position(kind).unwrap_or(KINDS - 1);
        if let Some(sum) = of_host.entry(lane).or_default().get_mut(at) {
            *sum += r.time_ns;
        }
        names.add([activity, name], lane.0, [r.time_ns, r.gap_count as i64]);
    })?;
    if causes.values().all(|c| c[0] == 0) {
        return Ok(Section::without("Nothing idled."));
    }
    let listed: BTreeSet<&LaneKey> = lanes.listed().into_iter().map(|(key, _)| key).collect();
    let mut grid = Grid::of_tables("idle", &[LaneColumns::SPEC, LaneCauses::SPEC]);
    let (mut left, mut rest) = (0, vec![0i64; FIRST_KIND + KINDS + 1]);
    for (key, [idle, host, kernel, other]) in &causes {
        let parts = of_host.get(key).copied().unwrap_or_default();
        let unnamed = host - parts.iter().sum::<i64>();
        let values: Vec<i64> = [*idle, *kernel, *other].into_iter().chain(parts).chain([unnamed]).collect();
        match lanes.lanes.get(key).filter(|_| listed.contains(key)) {
            Some(lane) => {
                grid.push(lane_cells(key, lane).into_iter().chain(values.into_iter().map(Cell::Int)))
            }
            None => {
                left += 1;
                rest.iter_mut().zip(values).for_each(|(sum, v)| *sum += v);
            }
        }
    }
    let none = [Cell::Nothing; 3].into_iter();
    grid.leave_out(left, none.chain(rest.into_iter().map(Cell::Int)).collect());

    let mut host = Grid::whole(HostActivities::SPEC);
    names.fill(&mut host, texts, MOST_ACTIVITIES, of_ranks);
    Ok(Section::default().with("lanes", grid).with("host", host))
}
