//! The format of files about memory: snapshots and timelines, told by their first bytes.

use super::error::Problem;
use super::is_pickle;
use super::load::read_snapshot;
use super::timeline::{is_timeline, read_timeline};
use super::viewer_page::{ViewerPage, text_start};
use crate::error::ReadError;
use crate::files::Location;
use crate::format::{FileHead, FileStart, TraceFormat, head};
use crate::input::Input;
use crate::opening::{open, packing};
use crate::reading::{Reading, Unsettled};
use crate::room::{MemoryGate, MemoryUse};
use crate::source::ByteCount;
use hta_base::health::Health;
use hta_trace::events::ColumnsBuilder;
use hta_trace::memory_dump::MemoryDump;
use hta_trace::meta::{Meta, Recorder};

/// Number of decompressed bytes that are looked at.
const LOOKED_AT: usize = 4 << 10;

/// The analysis of a dump holds about so many times what was read.
const TIMES_READ: u64 = 2;

/// Dumps of memory, which hold no events: a pickle, or a page of the viewer with one inside, is a snapshot; a
/// list of lists of numbers is a timeline.
pub(crate) struct MemoryDumps;

impl TraceFormat for MemoryDumps {
    fn name(&self) -> &'static str {
        Recorder::MemoryDump.name()
    }

    fn sniff(&self, head: &[u8]) -> bool {
        is_timeline(head) || is_pickle(head) || text_start(head).is_some()
    }

    fn peek(&self, _: &Input, _: &FileStart) -> Result<FileHead, ReadError> {
        Ok(FileHead { rank: None, world: None, recorder: Recorder::MemoryDump })
    }

    fn load(&self, input: &Input, how: &Reading) -> Result<Unsettled, ReadError> {
        let mut dump = load_dump(&input.path, &input.shown, how.room, how.count)?;
        let (health, unpacked_bytes) = match &mut dump {
            MemoryDump::Snapshot(snapshot) => (&mut snapshot.health, snapshot.unpacked_bytes),
            MemoryDump::Timeline(timeline) => (&mut timeline.health, timeline.unpacked_bytes),
        };
        let mut columns = ColumnsBuilder::default();
        columns.health = std::mem::take::<Health>(health);
        columns.dump = Some(dump);
        let meta = Meta { recorder: Recorder::MemoryDump, base_ns: Some(0), ..Meta::default() };
        Ok(Unsettled { columns, meta, unpacked_bytes })
    }
}

/// Reads a dump, which may be packed. `shown` is its name in messages.
///
/// # Errors
/// When it is no dump, is cut before something of it is complete, or takes more memory than `room` gives.
pub fn load_dump(
    file: impl Into<Location>,
    shown: &str,
    room: &dyn MemoryGate,
    count: &ByteCount,
) -> Result<MemoryDump, ReadError> {
    read_dump(&file.into(), room, count).map_err(|problem| problem.of_file(shown))
}

fn read_dump(file: &Location, room: &dyn MemoryGate, count: &ByteCount) -> Result<MemoryDump, Problem> {
    let open = || open(file, packing(file)?, count, false);
    let mut source = open().map_err(Problem::Io)?;
    let (mut start, _) = head(source.as_mut(), LOOKED_AT).map_err(Problem::Io)?;
    let dump = match text_start(&start) {
        Some(at) => {
            let page = ViewerPage::new(source, start.split_off(at));
            MemoryDump::Snapshot(Box::new(read_snapshot(Box::new(page), room)?))
        }
        None if is_timeline(&start) => {
            MemoryDump::Timeline(read_timeline(open().map_err(Problem::Io)?, room)?)
        }
        None => MemoryDump::Snapshot(Box::new(read_snapshot(open().map_err(Problem::Io)?, room)?)),
    };
    room.hold(MemoryUse { buffers: TIMES_READ * dump.held_bytes(), is_whole: true, ..MemoryUse::default() })?;
    Ok(dump)
}
