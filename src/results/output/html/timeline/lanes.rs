//! Blocks of every device in the steps that are shown, merged to what the page has room for. The longest step
//! gets half of the room; of the others as many are shown as can be told apart. Ranks that causes name get
//! more room than others.

use crate::output::html::account::PageAccount;
use crate::output::html::axis::PageStep;
use crate::output::html::grid::{Cell, Grid};
use crate::output::html::lane::LaneKey;
use crate::output::html::overview::PageRanks;
use crate::output::html::texts::Texts;
use crate::results::{Results, ResultsError, columns};
use hta_analysis::inventory;
use hta_base::table;
use hta_base::table::schema::Text;
use hta_diagnosis::timeline::{BlockPart, TimelineBlock, TimelineTable, merge};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

table! {
    /// Steps that are shown.
    struct ShownSteps, ShownStepRow = "timeline" by "length_ns descending" {
        step: Text, "", "step";
        length_ns: i64, "ns", "longest window of a device";
    }
}

table! {
    /// Their devices.
    struct ShownLanes, ShownLaneRow = "timeline" by "step, rank, device" {
        rank: u32, "", "rank";
        device: Option<i64>, "", "device";
        host: Text, "", "host";
        step: i64, "", "row of the step";
        start_ns: i64, "ns", "start of its window, after the start of the step";
        blocks: u64, "", "blocks";
        waiting_ns: Option<i64>, "ns",
            "communication that no compute hides, and that waits for other ranks";
        unmatched_ns: Option<i64>, "ns", "communication that no compute hides, without a match";
    }
}

table! {
    /// What runs on them, one behind the other.
    struct ShownBlocks, ShownBlockRow = "timeline" by "merged" {
        dur_ns: i64, "ns", "length; a block begins where the one before ends", "length";
        part: i64, "",
            "part of the longest piece: 0 compute, 1 communication, 2 memory, 3 idle, 4 fused";
        name: Option<Text>, "", "name of the longest piece";
        cause: Option<Text>, "", "cause that owns the longest piece";
        merged: Option<i64>, "", "row of its sums, if pieces share it";
    }
}

table! {
    /// Sums of blocks that several pieces share.
    struct MergedBlocks, MergedBlockRow = "timeline" by "count" {
        count: u64, "", "pieces that share the block", "pieces";
        longest_ns: i64, "ns", "length of the longest";
        compute_ns: i64, "ns", "compute runs";
        communication_ns: i64, "ns", "communication runs, and no compute", "exposed communication";
        memory_ns: i64, "ns", "only copies and sets run", "copies";
        idle_ns: i64, "ns", "nothing runs";
        fused_ns: i64, "ns", "fused kernels run, and no compute";
    }
}

/// Largest number of blocks in a page.
pub(crate) const BLOCKS: usize = 64_000;
/// Fewest blocks of a lane with which a step is worth showing.
const FEWEST: usize = 24;
/// Largest number of ranks that get more room because causes name them.
const NAMED: usize = 32;
/// They share this part of a step's room.
const OF_NAMED: usize = 4;

columns! {
    Extent of TimelineTable { rank, device, step: Option<u32>, step_label, ts_ns: i64, dur_ns: i64 }
}

columns! {
    Row of TimelineTable {
        rank, device, step: Option<u32>, step_label, ts_ns: i64, part: Text, cause: Option<Text>, name: Option<Text>,
        count: u32, longest_ns: i64, compute_ns: i64, communication_ns: i64, memory_ns: i64, idle_ns: i64,
        fused_ns: i64,
    }
}

columns! {
    Where of inventory::Ranks { rank, host_name: Option<Text> }
}

/// The window of a device in a step, on the rank's own clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LaneWindow {
    pub(crate) start: i64,
    pub(crate) len: i64,
}

/// A step of the job; `None`: the recorded span.
pub(crate) type ShownStepKey = Option<PageStep>;

/// A step that is shown.
pub(crate) struct ShownStep {
    pub(crate) key: ShownStepKey,
    /// The longest window of a device, ns.
    pub(crate) length: i64,
    /// First start of the devices, on the common clock.
    pub(crate) origin: i64,
    /// Largest number of blocks of a device, and of one of a rank that causes name.
    most: (usize, usize),
}

pub(crate) struct TimelineLanes {
    /// The longest first.
    pub(crate) steps: Vec<ShownStep>,
    windows: BTreeMap<(ShownStepKey, LaneKey), LaneWindow>,
    /// Rows of the grid of lanes.
    rows: BTreeMap<(ShownStepKey, LaneKey), usize>,
    offsets: BTreeMap<u32, i64>,
    /// Whether the ranks share a clock; otherwise each begins at its own start.
    pub(crate) are_together: bool,
    left: usize,
    /// Ranks that get more room.
    named: BTreeSet<u32>,
}

/// Chooses the steps that are shown with at most `room` blocks; `None` without the table. `named` are the
/// ranks that causes name, those of the first cause first.
///
/// # Errors
/// When the table is damaged.
pub(crate) fn lanes(
    results: &Results,
    ranks: &PageRanks,
    room: usize,
    named: impl Iterator<Item = u32>,
) -> Result<Option<TimelineLanes>, ResultsError> {
    let mut windows: BTreeMap<(ShownStepKey, LaneKey), LaneWindow> = BTreeMap::new();
    let there = results.read::<Extent>(|r| {
        let key = (PageStep::new(r.step, r.step_label), (r.rank, r.device));
        let window = windows.entry(key).or_insert(LaneWindow { start: r.ts_ns, len: 0 });
        window.len += r.dur_ns;
    })?;
    if !there {
        return Ok(None);
    }
    let are_together = ranks.are_together();
    let offset = |rank: u32| ranks.offsets.get(&rank).copied().unwrap_or(0);
    let mut steps: BTreeMap<ShownStepKey, (usize, ShownStep)> = BTreeMap::new();
    for ((key, (rank, _)), window) in &windows {
        let origin = window.start - offset(*rank);
        let none = || (0, ShownStep { key: *key, length: 0, origin, most: (1, 1) });
        let (lanes, step) = steps.entry(*key).or_insert_with(none);
        *lanes += 1;
        step.length = step.length.max(window.len);
        step.origin = step.origin.min(origin);
    }
    let widest = steps.values().map(|(lanes, _)| *lanes).max().unwrap_or(1);
    // Steps that some devices do not have are shown last.
    let mut steps: Vec<(usize, ShownStep)> = steps.into_values().collect();
    steps.sort_by_key(|(lanes, s)| (Reverse(*lanes), Reverse(s.length), s.key));
    let others = steps.len().saturating_sub(1).min(room / 2 / (FEWEST * widest));
    let left = steps.len().saturating_sub(1 + others);
    let rooms = [room / 2, room / 2 / others.max(1)];
    let named = named.fold(BTreeSet::new(), |mut named, rank| {
        if named.len() < NAMED {
            named.insert(rank);
        }
        named
    });
    let lanes_of_named =
        |key: ShownStepKey| windows.keys().filter(|(k, (rank, _))| *k == key && named.contains(rank)).count();
    let shown = steps.into_iter().take(1 + others).enumerate();
    let steps: Vec<ShownStep> = shown
        .map(|(i, (lanes, step))| ShownStep {
            most: shares(rooms[i.min(1)], lanes, lanes_of_named(step.key)),
            ..step
        })
        .collect();
    windows.retain(|(key, _), _| steps.iter().any(|s| s.key == *key));
    let rows = windows.keys().enumerate().map(|(i, key)| (*key, i)).collect();
    Ok(Some(TimelineLanes {
        steps,
        windows,
        rows,
        offsets: ranks.offsets.clone(),
        are_together,
        left,
        named,
    }))
}

/// Divides the room of a step among its lanes: how many blocks a lane gets, and one of a rank that causes
/// name.
fn shares(room: usize, lanes: usize, named: usize) -> (usize, usize) {
    let each = (room / lanes.max(1)).max(1);
    let of_named = (room / OF_NAMED / named.max(1)).max(each);
    let others = room.saturating_sub(of_named * named) / lanes.saturating_sub(named).max(1);
    (others.clamp(1, each.max(1)), of_named)
}

/// What the longest piece of a block is: its cause and name, as cells.
type BlockLabel = (Cell, Cell);

/// The blocks of each lane in each step.
type LaneBlocks = BTreeMap<(ShownStepKey, LaneKey), Vec<TimelineBlock<BlockLabel>>>;

impl TimelineLanes {
    pub(crate) fn is_empty(&self) -> bool {
        self.windows.is_empty()
    }

    /// Ranks of the lanes, in order.
    pub fn ranks(&self) -> impl Iterator<Item = u32> {
        self.windows.keys().map(|(_, (rank, _))| *rank)
    }

    /// Steps and lanes: those of the longest step first, and in a step those of ranks that causes name.
    pub(crate) fn by_importance(&self) -> Vec<(ShownStepKey, LaneKey)> {
        let mut all: Vec<(ShownStepKey, LaneKey)> = self.windows.keys().copied().collect();
        let place = |key: &ShownStepKey| self.steps.iter().position(|s| s.key == *key);
        all.sort_by_cached_key(|(key, lane)| (place(key), !self.named.contains(&lane.0), *lane));
        all
    }

    pub(crate) fn window(&self, lane: LaneKey, step: ShownStepKey) -> Option<LaneWindow> {
        self.windows.get(&(step, lane)).copied()
    }

    /// The first device of a rank in a step.
    pub(crate) fn first_of(&self, rank: u32, step: ShownStepKey) -> Option<LaneKey> {
        let from = (step, (rank, None));
        self.windows.range(from..).next().map(|((_, lane), _)| *lane).filter(|(r, _)| *r == rank)
    }

    /// The row of a lane, and a time of its rank after the start of the step.
    pub(crate) fn place(&self, lane: LaneKey, step: ShownStepKey, ts: i64) -> Option<(usize, i64)> {
        let row = self.rows.get(&(step, lane))?;
        let origin = match self.are_together {
            true => {
                self.steps.iter().find(|s| s.key == step)?.origin
                    + self.offsets.get(&lane.0).copied().unwrap_or(0)
            }
            false => self.window(lane, step)?.start,
        };
        Some((*row, ts - origin))
    }

    pub(crate) fn notes(&self) -> Vec<String> {
        let mut out = Vec::new();
        if self.left > 0 {
            out.push(format!(
                "{} shorter steps are not on this axis; the table `timeline` has more.",
                self.left
            ));
        }
        if !self.are_together {
            out.push(
                "The ranks were not recorded at the same time: each begins at its own start.".to_string(),
            );
        }
        out
    }

    /// The grids of steps, lanes, blocks, and sums of blocks that are merged.
    ///
    /// # Errors
    /// When a table is damaged.
    pub(crate) fn grids(
        &self,
        results: &Results,
        account: Option<&PageAccount>,
        texts: &mut Texts,
    ) -> Result<Vec<(&'static str, Grid)>, ResultsError> {
        let mut hosts: BTreeMap<u32, String> = BTreeMap::new();
        results.read::<Where>(|r| drop(hosts.insert(r.rank, r.host_name.unwrap_or_default().to_string())))?;
        let blocks = self.blocks(results, texts)?;
        let mut steps = Grid::whole(ShownSteps::SPEC);
        for s in &self.steps {
            let label = s.key.map_or("all".to_string(), |k| k.to_string());
            steps.push([texts.cell(&label), s.length.into()]);
        }
        let mut lanes = Grid::whole(ShownLanes::SPEC);
        let mut grid = Grid::whole(ShownBlocks::SPEC);
        let mut merged = Grid::whole(MergedBlocks::SPEC);
        for ((step, lane), window) in &self.windows {
            let of_lane = blocks.get(&(*step, *lane)).map_or(&[][..], Vec::as_slice);
            let (_, start) = self.place(*lane, *step, window.start).unwrap_or_default();
            let host = hosts.get(&lane.0).map_or("", String::as_str);
            let at = self.steps.iter().position(|s| s.key == *step);
            // Steps that not all devices have are not in the account.
            let exposed = account.and_then(|account| account.exposed(*lane, *step));
            let [waiting, unmatched] =
                exposed.map_or([Cell::Nothing; 2], |of| [of.waiting.into(), of.unmatched.into()]);
            lanes.push([
                lane.0.into(),
                lane.1.into(),
                texts.cell(host),
                at.into(),
                start.into(),
                of_lane.len().into(),
                waiting,
                unmatched,
            ]);
            for b in of_lane {
                let (longest, part, (cause, name)) = b.longest;
                let sums = (b.count > 1).then(|| merged.len());
                grid.push([b.duration().into(), (part as usize).into(), name, cause, sums.into()]);
                if b.count > 1 {
                    let [compute, communication, memory, idle, fused] = b.times.map(Cell::from);
                    let count = b.count.into();
                    merged.push([count, longest.into(), compute, communication, memory, idle, fused]);
                }
            }
        }
        Ok(vec![("steps", steps), ("lanes", lanes), ("blocks", grid), ("merged", merged)])
    }

    fn blocks(&self, results: &Results, texts: &mut Texts) -> Result<LaneBlocks, ResultsError> {
        let mut all = LaneBlocks::new();
        let most = |(key, (rank, _)): (ShownStepKey, LaneKey)| {
            let (most, of_named) = self.steps.iter().find(|s| s.key == key)?.most;
            Some(if self.named.contains(&rank) { of_named } else { most })
        };
        // Rows of a lane follow one another, so each lane is merged when the next one begins.
        let mut last: Option<(ShownStepKey, LaneKey)> = None;
        let close = |all: &mut LaneBlocks, of: Option<(ShownStepKey, LaneKey)>| {
            if let Some((blocks, most)) = of.and_then(|of| Some((all.get_mut(&of)?, most(of)?))) {
                *blocks = merge(blocks.iter().copied(), most);
            }
        };
        results.read::<Row>(|r| {
            let key = (PageStep::new(r.step, r.step_label), (r.rank, r.device));
            let Some(part) = BlockPart::named(r.part).filter(|_| self.windows.contains_key(&key)) else {
                return;
            };
            if last != Some(key) {
                close(&mut all, last.replace(key));
            }
            let times = [r.compute_ns, r.communication_ns, r.memory_ns, r.idle_ns, r.fused_ns];
            let label = (texts.of(r.cause), texts.of(r.name));
            let block =
                TimelineBlock { start: r.ts_ns, times, count: r.count, longest: (r.longest_ns, part, label) };
            all.entry(key).or_default().push(block);
        })?;
        close(&mut all, last);
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_that_causes_name_get_more_room_and_all_stay_within_it() {
        assert_eq!(shares(32_000, 1_000, 0), (32, 8_000));
        assert_eq!(shares(32_000, 1_000, 32), (24, 250));
        // A small job has room enough for all.
        assert_eq!(shares(32_000, 8, 1), (3_428, 8_000));
        assert_eq!(shares(32_000, 8, 8), (1, 4_000));
        for (lanes, named) in [(1, 1), (10, 3), (1_000, 7), (50_000, 32)] {
            let (most, of_named) = shares(32_000, lanes, named);
            assert!(most * (lanes - named) + of_named * named <= 32_000.max(2 * lanes), "{lanes} {named}");
            assert!(of_named >= most.min(32_000 / lanes));
        }
    }
}
