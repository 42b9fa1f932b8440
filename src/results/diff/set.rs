//! One set of traces after mapping: ranks with their steps, and their sums by name.

use crate::diff::iterations::CountedIteration;
use crate::diff::map::{DiffRankRow, DiffRanks, MappedStepRow, MappedSteps};
use crate::diff::map::{MappedCellRow, MappedCells, MappedKeyRow, MappedKeys};
use hta_base::table::schema::{Batch, Table};
use hta_base::units::Ns;
use hta_trace::meta::Recorder;
use std::collections::HashSet;
use std::sync::Arc;

#[derive(Debug, Clone, Default)]
pub struct Set {
    /// The path as the user wrote it.
    pub shown: String,
    /// Why the set has no diagnosis, if it has none.
    pub withheld: Option<String>,
    /// Iterations of an inference engine that count.
    pub iterations: Vec<CountedIteration>,
    /// Host events are known for whole captures only, not by step: results keep no more of them.
    pub has_hosts_of_captures: bool,
    pub ranks: Vec<SetRank>,
    /// Ranks of whose devices one side has recorded nothing, or a part only.
    pub left_out: Vec<u32>,
}

#[derive(Debug, Clone, Default)]
pub struct SetRank {
    pub rank: u32,
    pub(crate) recorder: Recorder,
    pub(crate) world: Option<u32>,
    pub(crate) device_name: Option<String>,
    pub(crate) has_modules: bool,
    /// Whether Python frames are recorded, where that is known.
    pub(crate) has_frames: Option<bool>,
    pub(crate) has_shapes: Option<bool>,
    /// Of the driver and the runtime.
    pub(crate) versions: Option<String>,
    /// Length of the capture, and time of it in which the profiler itself worked, ns.
    pub(crate) recorded: Ns,
    pub(crate) overhead: Ns,
    /// Whether steps have the windows of the device.
    pub(crate) is_on_device: bool,
    /// Whether steps have the windows of the host, which miss what they launch.
    pub(crate) is_missed: bool,
    /// Every how many steps one launches more.
    pub(crate) period: Option<u32>,
    /// Sorted by device, then step.
    pub(crate) windows: Vec<WindowOfDevice>,
    pub(crate) keys: Vec<CellKey>,
    pub(crate) cells: Vec<KeyedStep>,
}

/// A step of one device, or the whole capture if there is no index.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WindowOfDevice {
    pub(crate) device: Option<i64>,
    pub(crate) basis: Basis,
    pub(crate) step: Option<u32>,
    pub(crate) label: Option<i64>,
    pub(crate) is_partial: bool,
    pub(crate) ts: Ns,
    pub(crate) dur: Ns,
    pub(crate) compute: Ns,
    pub(crate) exposed_communication: Ns,
    pub(crate) exposed_memory: Ns,
    pub(crate) communication: Ns,
    pub(crate) memory: Ns,
    pub(crate) busy: Ns,
}

/// Whether the parts of a step are device or host work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Basis {
    Gpu,
    Cpu,
    None,
}

impl Basis {
    const ALL: [Basis; 3] = [Basis::Gpu, Basis::Cpu, Basis::None];

    pub fn of(name: &str) -> Basis {
        Basis::ALL.into_iter().find(|k| k.name() == name).unwrap_or(Basis::None)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Basis::Gpu => "gpu",
            Basis::Cpu => "cpu",
            Basis::None => "none",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum WorkSide {
    Gpu,
    Host,
}

impl WorkSide {
    pub(crate) fn name(self) -> &'static str {
        match self {
            WorkSide::Gpu => "gpu",
            WorkSide::Host => "host",
        }
    }
}

/// Identifies sums of events.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct CellKey {
    pub(crate) side: WorkSide,
    pub(crate) class: Arc<str>,
    pub(crate) name: Arc<str>,
    pub(crate) owner: Option<Arc<str>>,
}

#[derive(Debug, Clone, Copy)]
pub struct KeyedStep {
    /// Index into the keys.
    pub(crate) key: u32,
    /// `None` for the capture.
    pub(crate) step: Option<u32>,
    pub(crate) count: i64,
    pub(crate) ns: Ns,
    pub(crate) own: Ns,
}

impl Set {
    /// Leaves out ranks of which a side cannot tell.
    pub fn without(&mut self, ranks: &[u32]) {
        self.ranks.retain(|r| !ranks.contains(&r.rank));
        self.iterations.retain(|i| !ranks.contains(&i.rank));
        self.left_out = ranks.to_vec();
        self.left_out.sort_unstable();
        self.left_out.dedup();
    }

    /// Reads the tables that [`crate::diff::Diff`] passed on, rank by rank.
    pub fn read(shown: &str, tables: &[Batch]) -> Self {
        let mut ranks: Vec<SetRank> = Vec::new();
        let mut texts = SetTexts::default();
        for batch in tables {
            if batch.spec.name == DiffRanks::SPEC.name {
                ranks.extend(DiffRanks::rows(batch).map(rank));
            }
            let Some(last) = ranks.last_mut() else { continue };
            match batch.spec.name {
                name if name == MappedSteps::SPEC.name => last.windows.extend(MappedSteps::rows(batch).map(window)),
                name if name == MappedKeys::SPEC.name => {
                    last.keys.extend(MappedKeys::rows(batch).map(|r| key(r, &mut texts)))
                }
                name if name == MappedCells::SPEC.name => last.cells.extend(MappedCells::rows(batch).map(cell)),
                _ => {}
            }
        }
        Self { shown: shown.to_string(), ranks, ..Self::default() }
    }
}

/// The recorder of a name; an unknown one is taken for the usual one.
pub(crate) fn recorder(name: &str) -> Recorder {
    Recorder::ALL.into_iter().find(|r| r.name() == name).unwrap_or_default()
}

fn rank(row: DiffRankRow) -> SetRank {
    SetRank {
        rank: row.rank,
        recorder: recorder(row.recorder),
        world: row.world_size,
        device_name: row.device_name.map(str::to_string),
        has_modules: row.has_modules,
        has_frames: Some(row.has_frames),
        has_shapes: row.has_shapes,
        versions: row.versions.map(str::to_string),
        recorded: row.recorded_ns,
        overhead: row.overhead_ns,
        is_on_device: row.is_on_device,
        is_missed: row.is_missed,
        period: row.period,
        ..SetRank::default()
    }
}

fn window(row: MappedStepRow) -> WindowOfDevice {
    WindowOfDevice {
        device: row.device,
        basis: Basis::of(row.basis),
        step: row.step,
        label: row.step_label,
        is_partial: row.is_partial,
        ts: row.ts_ns,
        dur: row.dur_ns,
        compute: row.compute_ns,
        exposed_communication: row.exposed_communication_ns,
        exposed_memory: row.exposed_memory_ns,
        communication: row.communication_ns,
        memory: row.memory_ns,
        busy: row.busy_ns,
    }
}

/// Interned texts, because the ranks of a job share names.
#[derive(Default)]
pub(crate) struct SetTexts(HashSet<Arc<str>>);

impl SetTexts {
    pub(crate) fn one(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.0.get(text) {
            return Arc::clone(known);
        }
        let new: Arc<str> = Arc::from(text);
        self.0.insert(Arc::clone(&new));
        new
    }
}

fn key(row: MappedKeyRow, texts: &mut SetTexts) -> CellKey {
    CellKey {
        side: if row.side == WorkSide::Gpu.name() { WorkSide::Gpu } else { WorkSide::Host },
        class: texts.one(row.class),
        name: texts.one(row.name),
        owner: row.owner.map(|owner| texts.one(owner)),
    }
}

fn cell(row: MappedCellRow) -> KeyedStep {
    KeyedStep { key: row.key, step: row.step, count: row.count, ns: row.sum_ns, own: row.self_ns }
}
