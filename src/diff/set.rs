//! One set of traces as the mapper left it: ranks with their steps, and their sums by name.

use crate::diff::map::{MappedCells, MappedKeys, MappedRanks, MappedSteps};
use crate::table::schema::Batch;
use crate::units::Ns;
use std::collections::HashSet;
use std::sync::Arc;

#[derive(Debug, Clone, Default)]
pub struct Set {
    /// The path as the user wrote it.
    pub shown: String,
    pub ranks: Vec<Rank>,
}

#[derive(Debug, Clone, Default)]
pub struct Rank {
    pub rank: u32,
    pub world: Option<u32>,
    pub device_name: Option<String>,
    pub has_modules: bool,
    /// Sorted by device, then step.
    pub windows: Vec<Window>,
    pub keys: Vec<Key>,
    pub cells: Vec<Cell>,
}

/// A step of one device. Without an index it is the whole capture.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    pub device: Option<i64>,
    pub basis: Basis,
    pub step: Option<u32>,
    pub label: Option<i64>,
    pub is_partial: bool,
    pub ts: Ns,
    pub dur: Ns,
    pub compute: Ns,
    pub exposed_communication: Ns,
    pub exposed_memory: Ns,
    pub communication: Ns,
    pub memory: Ns,
    pub busy: Ns,
}

/// Whether the parts of a step are device or host work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    Gpu,
    Cpu,
    None,
}

impl Basis {
    const ALL: [Basis; 3] = [Basis::Gpu, Basis::Cpu, Basis::None];

    pub fn name(self) -> &'static str {
        match self {
            Basis::Gpu => "gpu",
            Basis::Cpu => "cpu",
            Basis::None => "none",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    Gpu,
    Host,
}

impl Side {
    pub fn name(self) -> &'static str {
        match self {
            Side::Gpu => "gpu",
            Side::Host => "host",
        }
    }
}

/// Identifies sums of events.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub side: Side,
    pub class: Arc<str>,
    pub name: Arc<str>,
    pub owner: Option<Arc<str>>,
}

#[derive(Debug, Clone, Copy)]
pub struct Cell {
    /// Index into the keys.
    pub key: u32,
    /// `None` for the capture.
    pub step: Option<u32>,
    pub count: i64,
    pub ns: Ns,
    pub own: Ns,
}

impl Set {
    /// Reads the tables that [`crate::diff::Diff`] passed on, rank by rank.
    pub fn read(shown: &str, tables: &[Batch]) -> Self {
        let mut ranks: Vec<Rank> = Vec::new();
        let mut texts = Texts::default();
        for batch in tables {
            if batch.spec.name == MappedRanks::SPEC.name {
                ranks.extend((0..batch.len()).map(|r| rank(batch, r)));
            }
            let Some(last) = ranks.last_mut() else { continue };
            let rows = 0..batch.len();
            match batch.spec.name {
                name if name == MappedSteps::SPEC.name => last.windows.extend(rows.map(|r| window(batch, r))),
                name if name == MappedKeys::SPEC.name => last.keys.extend(rows.map(|r| key(batch, r, &mut texts))),
                name if name == MappedCells::SPEC.name => last.cells.extend(rows.map(|r| cell(batch, r))),
                _ => {}
            }
        }
        Self { shown: shown.to_string(), ranks }
    }
}

fn unsigned(batch: &Batch, column: &str, row: usize) -> Option<u32> {
    batch.int(column, row).and_then(|v| u32::try_from(v).ok())
}

fn rank(b: &Batch, row: usize) -> Rank {
    Rank {
        rank: unsigned(b, "rank", row).unwrap_or(0),
        world: unsigned(b, "world_size", row),
        device_name: b.text("device_name", row).map(str::to_string),
        has_modules: b.int("has_modules", row) == Some(1),
        ..Rank::default()
    }
}

fn window(b: &Batch, row: usize) -> Window {
    let ns = |column| b.int(column, row).unwrap_or(0);
    let basis = b.text("basis", row);
    Window {
        device: b.int("device", row),
        basis: Basis::ALL.into_iter().find(|k| Some(k.name()) == basis).unwrap_or(Basis::None),
        step: unsigned(b, "step", row),
        label: b.int("step_label", row),
        is_partial: b.int("is_partial", row) == Some(1),
        ts: ns("ts_ns"),
        dur: ns("dur_ns"),
        compute: ns("compute_ns"),
        exposed_communication: ns("exposed_communication_ns"),
        exposed_memory: ns("exposed_memory_ns"),
        communication: ns("communication_ns"),
        memory: ns("memory_ns"),
        busy: ns("busy_ns"),
    }
}

/// Interned texts, because the ranks of a job share names.
#[derive(Default)]
struct Texts(HashSet<Arc<str>>);

impl Texts {
    fn one(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.0.get(text) {
            return Arc::clone(known);
        }
        let new: Arc<str> = Arc::from(text);
        self.0.insert(Arc::clone(&new));
        new
    }
}

fn key(b: &Batch, row: usize, texts: &mut Texts) -> Key {
    let mut text = |column| texts.one(b.text(column, row).unwrap_or_default());
    Key {
        side: if b.text("side", row) == Some(Side::Gpu.name()) { Side::Gpu } else { Side::Host },
        class: text("class"),
        name: text("name"),
        owner: b.text("owner", row).map(|owner| texts.one(owner)),
    }
}

fn cell(b: &Batch, row: usize) -> Cell {
    let int = |column| b.int(column, row).unwrap_or(0);
    Cell {
        key: unsigned(b, "key", row).unwrap_or(u32::MAX),
        step: unsigned(b, "step", row),
        count: int("count"),
        ns: int("sum_ns"),
        own: int("self_ns"),
    }
}
