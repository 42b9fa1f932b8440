//! The section on idle time: by cause, and by what the host did while the device waited for it.

use crate::output::html::breakdown::{PageLanes, lane_cells};
use crate::output::html::grid::{Cell, CellType, Grid, Heading, Section, missing};
use crate::output::html::lane::{LANE, LaneKey};
use crate::output::html::tally::Tally;
use crate::output::html::texts::Texts;
use crate::results::{Results, ResultsError, columns};
use hta_analysis::idle::{IdleHost, Idles};
use hta_base::table::schema::Text;
use hta_trace::step::is_profiler_step;
use std::collections::{BTreeMap, BTreeSet};

/// Columns of the grid `idle_host`.
const HOST: &[Heading] = &[
    (
        "activity",
        "the host was in",
        CellType::Text,
        "kind of the innermost open event of the launching thread",
    ),
    ("name", "name", CellType::Text, "its name; a Python frame with file and line"),
    ("time_ns", "host wait", CellType::Ns, "idle time during this activity, over all ranks and windows"),
    ("gap_count", "gaps", CellType::Count, "gaps with this activity"),
    ("ranks", "ranks", CellType::Count, "ranks that have it"),
    ("most_ns", "largest", CellType::Ns, "on the rank with most of it"),
    ("most_rank", "on rank", CellType::Id, "that rank"),
];

/// Largest number of host activities listed.
const MOST_ACTIVITIES: usize = 200;

const ANNOTATION: &str = "annotation";
const UNTRACKED: &str = "untracked";
/// The name of host time in a step of which nothing else is recorded.
const IN_STEP: &str = "in a step, nothing else recorded";

/// Kinds of host activity as in `hta explain idle`, with their headings.
const ACTIVITIES: [(&str, &str); 10] = [
    ("data_loader", "data loader"),
    ("python", "Python"),
    ("operator", "operator"),
    (ANNOTATION, "annotation"),
    ("launch_call", "launch call"),
    ("sync_call", "sync call"),
    ("allocation_call", "allocation"),
    ("runtime_call", "runtime call"),
    ("communication_operator", "communication operator"),
    (UNTRACKED, "untracked"),
];

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
    let mut of_host: BTreeMap<LaneKey, [i64; ACTIVITIES.len()]> = BTreeMap::new();
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
        let at = ACTIVITIES.iter().position(|a| a.0 == activity).unwrap_or(ACTIVITIES.len() - 1);
        if let Some(sum) = of_host.entry(lane).or_default().get_mut(at) {
            *sum += r.time_ns;
        }
        names.add([activity, name], lane.0, [r.time_ns, r.gap_count as i64]);
    })?;
    if causes.values().all(|c| c[0] == 0) {
        return Ok(Section::without("Nothing idled."));
    }
    let listed: BTreeSet<&LaneKey> = lanes.listed().into_iter().map(|(key, _)| key).collect();
    let mut headings: Vec<Heading> = LANE.to_vec();
    headings.extend([
        ("idle_ns", "idle", CellType::Ns, "nothing runs: the sum of what follows"),
        ("kernel_wait_ns", "kernel wait", CellType::Ns, "submitted, and about to start"),
        (
            "other_ns",
            "held",
            CellType::Ns,
            "submitted, but held back by something else; or the launch is unknown",
        ),
    ]);
    let about = "host wait during this activity of the launching thread";
    headings.extend(ACTIVITIES.iter().map(|(name, title)| (*name, *title, CellType::Ns, about)));
    let unnamed: Heading =
        ("host_ns", "other host wait", CellType::Ns, "host wait whose activity is unknown");
    headings.push(unnamed);
    let mut grid = Grid::new("idle", &headings);
    let (mut left, mut rest) = (0, vec![0i64; 4 + ACTIVITIES.len()]);
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

    let mut host = Grid::new("idle_host", HOST);
    names.fill(&mut host, texts, MOST_ACTIVITIES, |t, _| {
        vec![t.ranks.into(), t.most.0.into(), t.most.1.into()]
    });
    Ok(Section::default().with("lanes", grid).with("host", host))
}
