//! The account of time of every device in every step, by the parts of the verdict: compute, fused, waiting,
//! transfer, unmatched, copies, idle, finished early. Times in ns.
//!
//! It is read once for the page: the tiles, the bars by rank, the division of communication in the breakdown,
//! and the lanes of the time axis are of it.

use crate::output::html::axis::PageStep;
use crate::output::html::grid::{Cell, Grid};
use crate::output::html::lane::{LaneColumns, LaneKey, MOST_LANES};
use crate::results::{Results, ResultsError, columns};
use hta_analysis::verdict::TIME_PARTS;
use hta_base::table;
use hta_base::table::schema::Text;
use hta_diagnosis::TimeAccount;
use std::cmp::Reverse;
use std::collections::BTreeMap;

const PARTS: usize = TIME_PARTS.len();
const COMPUTE: usize = 0;
const WAITING: usize = 2;
const TRANSFER: usize = 3;
const UNMATCHED: usize = 4;

table! {
    /// Steps to the start of the next one.
    struct AccountedSteps, AccountedStepRow = "time_account" by "dur_ns" {
        dur_ns: i64, "ns", "up to the start of the next: the sum of what follows", "a step";
    }
}

table! {
    /// Ranks without steps, which are accounted for as a whole.
    struct AccountedWholes, AccountedWholeRow = "time_account" by "dur_ns" {
        dur_ns: i64, "ns", "all that was recorded: the sum of what follows", "recorded";
    }
}

table! {
    /// The parts of their time, as in [`TIME_PARTS`].
    struct AccountedParts, AccountedPartRow = "time_account" by "compute_ns" {
        compute_ns: i64, "ns", "some compute runs";
        fused_ns: i64, "ns", "fused kernels (exchange and product in one) run and no compute";
        waiting_ns: i64, "ns", "communication runs and no compute, and another rank has not come yet";
        transfer_ns: i64, "ns", "communication runs and no compute, and all ranks are there";
        unmatched_ns: i64, "ns",
            "communication runs and no compute, and its calls on other ranks are not known";
        copies_ns: i64, "ns", "only copies or sets run";
        idle_ns: i64, "ns", "nothing runs";
        finished_early_ns: i64, "ns", "it is done, and another rank needs longer for the step";
    }
}

columns! {
    Accounted of TimeAccount { rank, device, step: Option<u32>, step_label, part: Text, time_ns: i64 }
}

/// Communication that no compute hides, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ExposedParts {
    pub(crate) waiting: i64,
    pub(crate) transfer: i64,
    pub(crate) unmatched: i64,
}

/// The sums of each device in each step, in the order of [`TIME_PARTS`].
#[derive(Default)]
pub(crate) struct PageAccount {
    cells: BTreeMap<(LaneKey, Option<PageStep>), [i64; PARTS]>,
}

impl PageAccount {
    /// Reads the table; empty where the results have none.
    ///
    /// # Errors
    /// When the table is damaged.
    pub(crate) fn read(results: &Results) -> Result<Self, ResultsError> {
        let mut all = Self::default();
        results.read::<Accounted>(|r| {
            let at = TIME_PARTS.iter().position(|(column, _)| column.strip_suffix("_ns") == Some(r.part));
            let key = ((r.rank, r.device), PageStep::new(r.step, r.step_label));
            if let Some(sum) = at.and_then(|i| all.cells.entry(key).or_default().get_mut(i)) {
                *sum += r.time_ns;
            }
        })?;
        Ok(all)
    }

    /// How the exposed communication of a device in a step is divided; `None` if the step is not in the
    /// account.
    pub(crate) fn exposed(&self, lane: LaneKey, step: Option<PageStep>) -> Option<ExposedParts> {
        let of = self.cells.get(&(lane, step))?;
        Some(ExposedParts { waiting: of[WAITING], transfer: of[TRANSFER], unmatched: of[UNMATCHED] })
    }

    /// The sums of each device over its steps; `None` without an account.
    pub(crate) fn grid(&self) -> Option<Grid> {
        let mut lanes: BTreeMap<LaneKey, (u32, [i64; PARTS])> = BTreeMap::new();
        for ((lane, _), parts) in &self.cells {
            let (steps, sums) = lanes.entry(*lane).or_default();
            *steps += 1;
            sums.iter_mut().zip(parts).for_each(|(sum, ns)| *sum += ns);
        }
        if lanes.is_empty() {
            return None;
        }
        let mut rows: Vec<_> = lanes.into_iter().collect();
        let without_compute = |sums: &[i64; PARTS]| sums.iter().sum::<i64>() - sums[COMPUTE];
        rows.sort_by_key(|(lane, (_, sums))| (Reverse(without_compute(sums)), *lane));
        let left = rows.split_off(rows.len().min(MOST_LANES));
        rows.sort_by_key(|(lane, _)| *lane);
        let cells = |(steps, sums): &(u32, [i64; PARTS])| {
            let all = [sums.iter().sum::<i64>()].into_iter().chain(*sums).map(Cell::Int);
            [Cell::from(*steps)].into_iter().chain(all).collect::<Vec<Cell>>()
        };
        let has_steps = self.cells.keys().any(|(_, step)| step.is_some());
        let length = if has_steps { AccountedSteps::SPEC } else { AccountedWholes::SPEC };
        let columns = [LaneColumns::SPEC, length, AccountedParts::SPEC];
        let mut grid = Grid::of_tables("time_account", &columns);
        for ((rank, device), of) in &rows {
            grid.push([Cell::from(*rank), Cell::from(*device)].into_iter().chain(cells(of)));
        }
        let mut rest = (0, [0; PARTS]);
        for (_, (steps, sums)) in &left {
            rest.0 += steps;
            rest.1.iter_mut().zip(sums).for_each(|(sum, ns)| *sum += ns);
        }
        grid.leave_out(left.len(), [Cell::Nothing; 2].into_iter().chain(cells(&rest)).collect());
        Some(grid)
    }
}
