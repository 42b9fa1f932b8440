//! The section that shows steps on a time axis: blocks of every device, waits with the late rank, and for
//! some ranks the spans of streams and threads.

mod counters;
mod lanes;
mod tracks;

use crate::output::html::account::PageAccount;
use crate::output::html::axis::PageStep;
use crate::output::html::grid::{Grid, Section, missing};
use crate::output::html::overview::PageRanks;
use crate::output::html::texts::Texts;
use crate::results::{Results, ResultsError, columns};
use hta_base::table;
use hta_base::table::schema::Text;
use hta_diagnosis::timeline::TimelineWaits;
use hta_diagnosis::{CauseKind, Findings};
use lanes::{BLOCKS, TimelineLanes, lanes};
use std::cmp::Reverse;

/// Largest number of ranks of one cause that are shown in detail.
const OF_CAUSE: usize = 8;
/// Largest number of waits shown.
const WAITS: usize = 4_000;

table! {
    /// The colours of causes.
    struct CauseTints, CauseTintRow = "findings" by "cause" {
        cause: Text, "", "kind of a cause that owns blocks";
        tint: u32, "", "its colour, as that of a kind of span", "colour";
    }
}

table! {
    /// Waits of the steps that are shown.
    struct ShownWaits, ShownWaitRow = "timeline_waits" by "lane, start_ns" {
        lane: i64, "", "row of the device and step";
        start_ns: i64, "ns", "start, after the start of the step";
        dur_ns: i64, "ns", "length of the wait", "length";
        late_rank: u32, "", "rank that came last";
        kind: Text, "", "what waits", "collective";
    }
}

columns! {
    Wait of TimelineWaits { rank, device, step: Option<u32>, step_label, ts_ns: i64, dur_ns: i64, kind: Text, late_rank: u32 }
}

columns! {
    Cause of Findings { ranks: Text, step_labels: Text }
}

/// What a page has room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    blocks: usize,
    has_tracks: bool,
}

impl Room {
    /// The only timeline of a page.
    pub(crate) const WHOLE: Room = Room { blocks: BLOCKS, has_tracks: true };
    /// The one of two that is looked at.
    pub(crate) const FIRST: Room = Room { blocks: BLOCKS / 2, has_tracks: true };
    /// The one of two with which it is compared.
    pub(crate) const SECOND: Room = Room { blocks: BLOCKS / 2, has_tracks: false };
}

/// # Errors
/// When a table is damaged.
pub(crate) fn section(
    results: &Results,
    ranks: &PageRanks,
    account: Option<&PageAccount>,
    room: Room,
    texts: &mut Texts,
) -> Result<Section, ResultsError> {
    let mut causes: Vec<(Vec<u32>, Vec<String>)> = Vec::new();
    results.read::<Cause>(|c| {
        let ranks = c.ranks.split(',').filter_map(|r| r.parse().ok()).collect();
        causes.push((ranks, c.step_labels.split(',').filter(|l| !l.is_empty()).map(String::from).collect()));
    })?;
    let named = causes.iter().flat_map(|(ranks, _)| ranks.iter().take(OF_CAUSE).copied());
    let Some(lanes) = lanes(results, ranks, room.blocks, named)? else {
        return Ok(Section::without(missing("timeline")));
    };
    if lanes.is_empty() {
        return Ok(Section::without("Nothing ran that could stand on a time axis."));
    }
    let mut section = Section::default();
    for (name, grid) in lanes.grids(results, account, texts)? {
        section = section.with(name, grid);
    }
    section = section.with("waits", waits(results, &lanes, texts)?).with("tints", tints(texts));
    let causes = room.has_tracks.then_some(causes.as_slice());
    for (name, grid) in tracks::grids(results, &lanes, causes, texts)? {
        section = section.with(name, grid);
    }
    for (name, grid) in counters::grids(results, &lanes, texts)? {
        section = section.with(name, grid);
    }
    section.notes.extend(lanes.notes());
    Ok(section)
}

/// The colours of causes.
fn tints(texts: &mut Texts) -> Grid {
    let mut tints = CauseTints::default();
    for (kind, tint) in CauseKind::ALL.iter().filter_map(|kind| Some((kind, kind.tint()?))) {
        tints.push(CauseTintRow { cause: kind.name(), tint: u32::from(tint) });
    }
    texts.grid(tints)
}

/// The longest waits of the steps that are shown.
fn waits(results: &Results, lanes: &TimelineLanes, texts: &mut Texts) -> Result<Grid, ResultsError> {
    let mut all: Vec<(usize, i64, i64, u32, String)> = Vec::new();
    results.read::<Wait>(|w| {
        let step = PageStep::new(w.step, w.step_label);
        if let Some((lane, start)) = lanes.place((w.rank, w.device), step, w.ts_ns) {
            all.push((lane, start, w.dur_ns, w.late_rank, w.kind.to_string()));
        }
    })?;
    all.sort_by_key(|(lane, start, dur, ..)| (Reverse(*dur), *lane, *start));
    let left = all.len().saturating_sub(WAITS);
    all.truncate(WAITS);
    all.sort_by_key(|(lane, start, ..)| (*lane, *start));
    let mut waits = ShownWaits::default();
    for (lane, start_ns, dur_ns, late_rank, kind) in &all {
        let (lane, start_ns, dur_ns, late_rank) = (*lane as i64, *start_ns, *dur_ns, *late_rank);
        waits.push(ShownWaitRow { lane, start_ns, dur_ns, late_rank, kind });
    }
    let mut grid = texts.grid(waits);
    grid.leave_out(left, Vec::new());
    Ok(grid)
}
