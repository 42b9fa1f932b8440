//! The rows of a table of windows on which averages and sentences are based.
//!
//! These are the full steps of a device (all steps, if none is full), or its span if there are no steps.

use crate::table::column::Column;
use crate::table::schema::Batch;
use hashbrown::{HashMap, HashSet};

/// The chosen rows of one rank and device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenWindows {
    pub rank: u32,
    pub device: Option<i64>,
    pub rows: Vec<usize>,
    /// Whether the rows are steps.
    pub is_steps: bool,
    /// Whether all steps are partial and therefore used.
    pub all_partial: bool,
}

/// Rank and device.
type DeviceKey = (i64, Option<i64>);

/// The chosen windows of each device, in order of their first row. The table has the columns `rank`,
/// `device`, `scope`, `step`, `is_partial`, `ts_ns` and `dur_ns`; rows of a stream or of a process group,
/// where it has that column, are left out.
pub fn chosen_windows(batch: &Batch) -> Vec<ChosenWindows> {
    let column = |name: &str| batch.column(name);
    let (ranks, devices, streams) = (column("rank"), column("device"), column("stream"));
    let groups = column("process_group");
    let (scopes, partial) = (column("scope"), column("is_partial"));
    let (starts, lengths) = (column("ts_ns"), column("dur_ns"));
    let int = |column: &Option<Column>, row: usize| column.and_then(|c| c.int(row));
    // Devices in order of their first row, with their rows that are not for a stream.
    let mut places: HashMap<DeviceKey, usize> = HashMap::new();
    let mut all: Vec<(DeviceKey, Vec<usize>)> = Vec::new();
    for row in 0..batch.len() {
        let key = (int(&ranks, row).unwrap_or(0), int(&devices, row));
        let place = *places.entry(key).or_insert(all.len());
        if place == all.len() {
            all.push((key, Vec::new()));
        }
        if int(&streams, row).is_none() && groups.and_then(|c| c.text(row)).is_none() {
            all[place].1.push(row);
        }
    }
    let of_device = |((rank, device), rows): (DeviceKey, Vec<usize>)| {
        let scope = |name: &str| -> Vec<usize> {
            rows.iter().copied().filter(|&r| scopes.and_then(|c| c.text(r)) == Some(name)).collect()
        };
        let steps = scope("step");
        let full: Vec<usize> = steps.iter().copied().filter(|&r| int(&partial, r) != Some(1)).collect();
        let all_partial = full.is_empty() && !steps.is_empty();
        // Without marked steps the capture is the only step; the device's own span is more informative.
        let extent = |r: usize| (int(&starts, r), int(&lengths, r));
        let capture = scope("capture").first().map(|&r| extent(r));
        let is_whole = |r: usize| capture == Some(extent(r));
        let is_steps = !(steps.is_empty() || matches!(steps[..], [r] if is_whole(r)));
        let rows = match (full.is_empty(), is_steps) {
            (_, false) => scope("span"),
            (false, true) => full,
            (true, true) => steps,
        };
        ChosenWindows { rank: u32::try_from(rank).unwrap_or(0), device, rows, is_steps, all_partial }
    };
    all.into_iter().map(of_device).collect()
}

/// The step of each row, by index and by the number in its name; `None` for rows of no step, or of another
/// table.
pub fn steps_of_rows(batch: &Batch) -> Vec<Option<(u32, Option<i64>)>> {
    let (steps, labels) = (batch.column("step"), batch.column("step_label"));
    let step = |row: usize| {
        let index = u32::try_from(steps?.int(row)?).ok()?;
        Some((index, labels.and_then(|c| c.int(row))))
    };
    (0..batch.len()).map(step).collect()
}

/// Whether rows of a table are one figure of all steps together, from which no figure of one step can be taken.
pub fn has_rows_of_all_steps(batch: &Batch) -> bool {
    let scopes = batch.column("scope");
    let is_of_steps = |row| scopes.and_then(|c| c.text(row)) == Some("steps");
    !batch.is_empty() && (batch.spec.column_spec("step").is_none() || (0..batch.len()).any(is_of_steps))
}

/// Rank, device, scope and step of a window.
type WindowKey = (Option<i64>, Option<i64>, String, Option<i64>);

/// The keys of the chosen windows of a table, by which rows of another one are found.
#[derive(Debug, Default)]
pub(crate) struct WindowKeys(HashSet<WindowKey>);

impl WindowKeys {
    pub(crate) fn new<'a>(batches: impl Iterator<Item = &'a Batch>) -> Self {
        let of_batch = |batch: &'a Batch| {
            let rows = chosen_windows(batch).into_iter().flat_map(|of| of.rows).collect::<Vec<_>>();
            rows.into_iter().map(|row| window_key(batch, row)).collect::<Vec<_>>()
        };
        Self(batches.flat_map(of_batch).collect())
    }

    /// The rows of these windows.
    pub(crate) fn rows(&self, batch: &Batch) -> Vec<usize> {
        // Rows of one window are next to each other.
        let mut last: Option<(WindowKey, bool)> = None;
        let is_chosen = |row: &usize| -> bool {
            let key = window_key(batch, *row);
            match &last {
                Some((known, is_chosen)) if *known == key => *is_chosen,
                _ => {
                    let is_chosen = self.0.contains(&key);
                    last = Some((key, is_chosen));
                    is_chosen
                }
            }
        };
        (0..batch.len()).filter(is_chosen).collect()
    }
}

fn window_key(batch: &Batch, row: usize) -> WindowKey {
    let int = |name: &str| batch.int(name, row);
    (int("rank"), int("device"), batch.text("scope", row).unwrap_or_default().to_string(), int("step"))
}
