//! Memory snapshots and timelines: real ones with known answers, and synthetic, cut and hostile ones.

pub mod command;
mod hostile;
mod levels;
pub mod pickle;
mod pipeline;
mod shared_objects;
mod synthetic;
pub mod timeline;

use hta::health::Health;
use hta::read::room::FixedLimit;
use hta::read::snapshot::{Problem, read_snapshot};
use hta::read::source::{Source, SourceError};
use hta::snapshot::SnapshotChoice;
use hta::snapshot::device::{DeviceMemory, devices};
use hta::snapshot::findings::tell;
use hta::snapshot::history::Until;
use hta::snapshot::rows::DeviceRows;
use hta::snapshot::site::Sites;
use hta::snapshot::tables::DumpTables;
use hta::table::schema::Batch;
use hta::trace::snapshot::Snapshot;
use hta::units::MemoryLimit;
use std::io::{Cursor, Read};

/// A file in memory.
struct InMemory(Cursor<Vec<u8>>);

impl Source for InMemory {
    fn read(&mut self, out: &mut [u8]) -> Result<usize, SourceError> {
        self.0.read(out).map_err(SourceError::Io)
    }
}

fn source(bytes: &[u8]) -> Box<dyn Source> {
    Box::new(InMemory(Cursor::new(bytes.to_vec())))
}

const LIMIT: MemoryLimit = MemoryLimit { bytes: 64 << 20, given: true };

fn parsed(bytes: &[u8]) -> Result<Snapshot, Problem> {
    read_snapshot(source(bytes), &FixedLimit(LIMIT))
}

/// The devices of a snapshot, and what did not agree.
pub fn replayed(snapshot: &Snapshot, until: Until) -> (Vec<DeviceMemory<'_>>, Health) {
    let mut health = snapshot.health.clone();
    let devices = devices(snapshot, until, None, &mut health);
    (devices, health)
}

/// A table of a device.
pub fn table(device: &DeviceMemory, sites: &Sites, name: &str) -> Batch {
    let mut tables = DumpTables::of(|_| true);
    let rows = DeviceRows { rank: 0, device, sites, steps: None };
    rows.add(&mut tables, &SnapshotChoice::default());
    tell(&rows, &mut tables);
    named(tables, name)
}

/// The rows of one table.
pub fn named(tables: DumpTables, name: &str) -> Batch {
    let (kept, long) = tables.finish();
    kept.into_iter().chain(long).find(|b| b.spec.name == name).expect("a table of that name")
}

/// What stands out on a device: the number of the subject, and the sentence.
pub fn sentences(device: &DeviceMemory, sites: &Sites) -> Vec<String> {
    let told = table(device, sites, "memory_sentences");
    let mut all: Vec<_> =
        (0..told.len()).map(|r| (told.int("subject", r), told.text("sentence", r))).collect();
    all.sort_by_key(|(subject, _)| *subject);
    all.into_iter().filter_map(|(_, sentence)| sentence.map(str::to_string)).collect()
}
