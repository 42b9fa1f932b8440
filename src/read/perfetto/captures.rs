//! Files in which `transformer_nuggets merge-traces` has put several runs: each is a process with streams,
//! and threads or a name of its own. They are captures that have no clock in common, and their correlations
//! repeat, so each becomes an input of its own.

use super::fields::event;
use super::packet::TracePacket;
use super::tracks::{TrackDescriptor, Tracks};
use super::walk::{PacketWalk, Walked};
use super::wire::WireMessage;
use crate::input::{Input, PartKey, ProcessPart};
use crate::opening::open;
use crate::source::ByteCount;
use hta_trace::category::classify;
use std::collections::BTreeSet;

/// Bytes that are read at once.
const BLOCK: usize = 256 << 10;

/// Most runs that are told apart, and bytes of a packet that are looked at.
const MOST: usize = 1 << 12;
const OF_A_PACKET: usize = 2 << 20;

/// Most memory of the tracks of a file whose runs are told apart, and most bytes of it before the first
/// event: a file with more is read as one run, within the memory limit.
const MOST_OF_TRACKS: u64 = 32 << 20;
const MOST_BEFORE_EVENTS: u64 = 64 << 20;

/// The inputs that a file stands for: one per run, if there are several with device rows.
pub(super) fn parts(input: Input) -> Vec<Input> {
    let runs = runs(&input).unwrap_or_default();
    if runs.len() < 2 || runs.len() > MOST {
        return vec![input];
    }
    let count = runs.len() as u64;
    let part = |(index, (uuid, name)): (u64, (u64, String))| Input {
        shown: format!("{} ({name})", input.shown),
        process: Some(ProcessPart { key: PartKey::Process(uuid as i64), index, count, rows: None }),
        ..input.clone()
    };
    (0..).zip(runs).map(part).collect()
}

/// The runs with device rows, in the order of the file: the track and the name of each.
fn runs(input: &Input) -> Option<Vec<(u64, String)>> {
    let mut source = open(&input.path, input.packing().ok()?, &ByteCount::default(), false).ok()?;
    let (mut tracks, mut with_work) = (Tracks::default(), BTreeSet::new());
    let mut walk = PacketWalk::over_beginnings(source.as_mut(), BLOCK, OF_A_PACKET);
    let mut has_events = false;
    // What cannot be read is told when the file is read.
    while let Ok(Some(next)) = walk.next() {
        let packet = match next {
            Walked::Packet(bytes, _) => TracePacket::read(WireMessage::new(bytes)),
            Walked::Beginning(bytes, _) => TracePacket::read(WireMessage::beginning(bytes)),
            Walked::Block(progress) if !has_events && progress.offset > MOST_BEFORE_EVENTS => return None,
            _ => continue,
        };
        if let Some(track) = packet.track {
            tracks.describe(&TrackDescriptor::read(track).0);
            if tracks.held() > MOST_OF_TRACKS {
                return None;
            }
        }
        // Device rows of torch: it puts one run into a file.
        if packet.stage.is_some() {
            return None;
        }
        if let Some(bytes) = packet.event {
            // Tracks are described before the events, so most files are told by their beginning.
            if !has_events {
                (0..tracks.all.len()).filter(|at| tracks.is_run(*at)).nth(1)?;
                has_events = true;
            }
            note(bytes, &mut tracks, &mut with_work);
        }
        let swallowed = packet.swallowed;
        walk.go_back(swallowed);
    }
    let named = |at: &usize| {
        let track = tracks.all.get(*at)?;
        Some((track.uuid, String::from_utf8_lossy(track.name.bytes()).into_owned()))
    };
    Some(with_work.iter().filter_map(named).collect())
}

/// Notes the run of a device row.
fn note(bytes: &[u8], tracks: &mut Tracks, with_work: &mut BTreeSet<usize>) {
    let (mut track, mut is_work) = (0, false);
    for (number, value) in WireMessage::new(bytes) {
        match number {
            event::TRACK => track = value.number().unwrap_or(0),
            event::CATEGORY => {
                let category = std::str::from_utf8(value.bytes().unwrap_or_default()).unwrap_or_default();
                is_work |= classify(category).0.is_gpu();
            }
            _ => {}
        }
    }
    if is_work
        && let Some(run) = tracks.find(track).and_then(|at| tracks.all.get(at)).map(|track| track.process)
        && tracks.is_run(run)
    {
        with_work.insert(run);
    }
}
