//! One results folder as a set of `hta diff`: the windows of its steps, and the sums of its activities by name and step.
//!
//! `temporal_breakdown` and `kernels_by_name` have by rank, device and step exactly what the mapper of `hta diff` makes
//! of a trace, so figures and noise are the same. Operators are in the tables for whole captures only.

use crate::diff::Set;
use crate::diff::comparable::withheld;
use crate::diff::iterations::counted;
use crate::diff::set::{Basis, CellKey, KeyedStep, SetRank, SetTexts, WindowOfDevice, WorkSide, recorder};
use crate::output::html::against::tables::{Readable, known};
use crate::output::html::trust;
use crate::results::{Results, ResultsError, columns};
use hta_analysis::breakdown::Breakdowns;
use hta_analysis::diagnosis::Findings;
use hta_analysis::inventory;
use hta_analysis::inventory::recorders::Recorders;
use hta_analysis::iterations::tables::IterationsTable;
use hta_analysis::kernels::KernelsByName;
use hta_analysis::ops::operators::Operators;
use hta_base::table::schema::{Batch, Text};
use hta_trace::step::StepRule;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

columns! {
    Rank of inventory::Ranks { rank, world_size: Option<u32>, device_name: Option<Text>, step_rule: Text, step_window: Text }
}

columns! {
    Recorded of Recorders {
        rank, recorder: Text, versions: Option<Text>, has_frames: bool, has_shapes: Option<bool>, recorded_ns: i64,
        overhead_ns: i64,
    }
}

columns! {
    Window of Breakdowns {
        rank, device, scope, step, step_label, is_partial, ts_ns, dur_ns, basis: Text, compute_ns: i64,
        exposed_communication_ns: i64, exposed_memory_ns: i64, communication_ns: i64, memory_ns: i64, busy_ns: i64,
    }
}

columns! {
    Kernel of KernelsByName {
        rank, scope, step: Option<u32>, class: Text, name: Text, category: Text, sum_ns: i64, count: u64,
    }
}

columns! {
    Operator of Operators { rank, scope: Text, name: Text, count: u64, host_ns: i64, host_self_ns: i64 }
}

/// The steps of a folder as a set, its causes, and what cannot be known of it.
pub(crate) struct ComparedFolder {
    pub(crate) set: Set,
    /// The table `findings`; `None` where the folder has none.
    pub(crate) findings: Option<Vec<Batch>>,
    pub(crate) notes: Vec<String>,
}

/// Reads a folder. `name` is what notes call it.
///
/// # Errors
/// When a table is damaged.
pub(crate) fn folder(results: &Results, shown: &str, name: &str) -> Result<ComparedFolder, ResultsError> {
    let mut notes = Vec::new();
    let mut ranks: BTreeMap<u32, SetRank> = BTreeMap::new();
    let mut without_steps: BTreeSet<u32> = BTreeSet::new();
    results.read::<Rank>(|r| {
        if r.step_rule == StepRule::Capture.name() {
            without_steps.insert(r.rank);
        }
        let (world, device_name) = (r.world_size, r.device_name.map(str::to_string));
        let is_on_device = r.step_window == "device";
        let rank = SetRank { rank: r.rank, world, device_name, is_on_device, ..SetRank::default() };
        ranks.insert(r.rank, rank);
    })?;
    let how = known(results.read::<Recorded>(|r| {
        let Some(rank) = ranks.get_mut(&r.rank) else { return };
        rank.recorder = recorder(r.recorder);
        rank.versions = r.versions.map(str::to_string);
        (rank.has_frames, rank.has_shapes) = (Some(r.has_frames), r.has_shapes);
        (rank.recorded, rank.overhead) = (r.recorded_ns, r.overhead_ns);
    }))?;
    if let Readable::Not(why) = how {
        notes.push(format!("{name}: whether drivers, stacks and shapes are the same is not known: {why}"));
    }
    let windows = known(results.read::<Window>(|w| {
        let Some(rank) = ranks.get_mut(&w.rank) else { return };
        let is_step = w.scope == "step" && !without_steps.contains(&w.rank);
        if is_step || w.scope == "capture" {
            rank.windows.push(window(&w, is_step));
        }
    }))?;
    if let Readable::Not(why) = &windows {
        notes.push(format!("{name}: steps and kernels cannot be compared: {why}"));
    }
    // A rank of which nothing ran has no window, and says nothing about a step.
    ranks.retain(|_, rank| !rank.windows.is_empty());
    if ranks.is_empty() && matches!(windows, Readable::Yes) {
        notes.push(format!("{name}: steps and kernels cannot be compared: nothing ran"));
    }
    let mut cells = FolderKeys::default();
    let kernels = known(results.read::<Kernel>(|k| {
        let (Some(rank), step) = (ranks.get_mut(&k.rank), k.step) else { return };
        let step = match k.scope {
            "span" => None,
            "step" if !without_steps.contains(&k.rank) && step.is_some() => step,
            _ => return,
        };
        let cell = KeyedStep { key: 0, step, count: whole(k.count), ns: k.sum_ns, own: k.sum_ns };
        cells.add(rank, (WorkSide::Gpu, k.class, k.name, Some(k.category)), cell);
    }))?;
    if let Readable::Not(why) = kernels {
        notes.push(format!("{name}: kernels cannot be compared: {why}"));
    }
    let operators = known(results.read::<Operator>(|o| {
        // `[no operator]` and `[unlinked]` are no names of operators.
        let Some(rank) = ranks.get_mut(&o.rank).filter(|_| o.scope == "capture" && !o.name.starts_with('[')) else {
            return;
        };
        let cell = KeyedStep { key: 0, step: None, count: whole(o.count), ns: o.host_ns, own: o.host_self_ns };
        cells.add(rank, (WorkSide::Host, "operator", o.name, None), cell);
    }))?;
    if let Readable::Not(why) = operators {
        notes.push(format!("{name}: whether both ran the same program is not known: {why}"));
    }
    let findings = match results.batches(Findings::SPEC) {
        Err(ResultsError::Column { column, .. }) => {
            notes.push(format!("{name}: causes cannot be compared: the table `findings` has no column `{column}`"));
            None
        }
        found => found?,
    };
    let withheld = findings.as_deref().and_then(withheld);
    let iterations = match results.batches(IterationsTable::SPEC) {
        Err(ResultsError::Column { column, .. }) => {
            notes.push(format!(
                "{name}: iterations cannot be compared: the table `iterations` has no column `{column}`"
            ));
            None
        }
        found => found?,
    };
    let iterations = iterations.as_deref().map_or_else(Vec::new, counted);
    let ranks = ranks.into_values().collect();
    let set = Set {
        shown: shown.to_string(),
        withheld,
        iterations,
        has_hosts_of_captures: true,
        ranks,
        left_out: trust::left_out(results)?,
    };
    Ok(ComparedFolder { set, findings, notes })
}

fn whole(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn window(w: &Window, is_step: bool) -> WindowOfDevice {
    WindowOfDevice {
        device: w.device,
        basis: Basis::of(w.basis),
        step: w.step.filter(|_| is_step),
        label: w.step_label.filter(|_| is_step),
        is_partial: is_step && w.is_partial == Some(true),
        ts: w.ts_ns,
        dur: w.dur_ns,
        compute: w.compute_ns,
        exposed_communication: w.exposed_communication_ns,
        exposed_memory: w.exposed_memory_ns,
        communication: w.communication_ns,
        memory: w.memory_ns,
        busy: w.busy_ns,
    }
}

/// Side, class, name and owner.
type FolderKey<'a> = (WorkSide, &'a str, &'a str, Option<&'a str>);

/// Gives the cells of ranks their keys.
#[derive(Default)]
struct FolderKeys {
    texts: SetTexts,
    keys: HashMap<(u32, CellKey), u32>,
}

impl FolderKeys {
    fn add(&mut self, rank: &mut SetRank, (side, class, name, owner): FolderKey, cell: KeyedStep) {
        let mut text = |of: &str| -> Arc<str> { self.texts.one(of) };
        let key = CellKey { side, class: text(class), name: text(name), owner: owner.map(&mut text) };
        let keys = &mut rank.keys;
        let key = *self.keys.entry((rank.rank, key)).or_insert_with_key(|(_, key)| {
            keys.push(key.clone());
            (keys.len() - 1) as u32
        });
        rank.cells.push(KeyedStep { key, ..cell });
    }
}
