//! Memory snapshots and timelines: real ones with known answers, and synthetic, cut and hostile ones.

pub mod command;
mod hostile;
mod levels;
mod pickle;
mod shared_objects;
mod synthetic;
pub mod timeline;

use hta::health::Health;
use hta::read::snapshot::{Problem, Snapshot, read_snapshot};
use hta::read::source::{Source, SourceError};
use hta::snapshot::device::{DeviceMemory, OnlyDevice, devices};
use hta::snapshot::history::Until;
use hta::snapshot::rows::{DeviceRows, TABLES};
use hta::snapshot::site::Sites;
use hta::table::schema::Batch;
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
    read_snapshot(source(bytes), Some(LIMIT))
}

/// The devices of a snapshot, and what did not agree.
pub fn replayed(snapshot: &Snapshot, until: Until) -> (Vec<DeviceMemory<'_>>, Health) {
    let mut health = snapshot.health.clone();
    let devices = devices(snapshot, until, OnlyDevice::Any, &mut health);
    (devices, health)
}

/// A table of a device.
pub fn table(device: &DeviceMemory, sites: &Sites, name: &str) -> Batch {
    let spec = TABLES.iter().find(|t| t.name == name).expect("a table of that name");
    DeviceRows { rank: 0, device, sites, steps: None }.table(spec, None).expect("rows")
}
