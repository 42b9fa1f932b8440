//! Files in which `transformer_nuggets merge-traces` has put several runs: each is a process with streams,
//! and threads or a name of its own. They are captures that have no clock in common, and their correlations
//! repeat, so each becomes an input of its own.

use super::fields::event;
use super::packet::TracePacket;
use super::tracks::{TrackDescriptor, Tracks, is_name_of_run};
use super::walk::{PacketWalk, Walked};
use super::wire::WireMessage;
use crate::input::{Input, PartKey, ProcessPart};
use crate::opening::open;
use crate::source::ByteCount;
use hashbrown::HashMap;
use hta_base::units::fmt_bytes;
use hta_trace::category::classify;
use std::collections::BTreeSet;

/// Bytes that are read at once.
const BLOCK: usize = 256 << 10;

/// Most runs that are told apart, and bytes of a packet that are looked at.
const MOST: usize = 1 << 12;
const OF_A_PACKET: usize = 2 << 20;

/// Most memory of the tracks of a file whose runs are told apart, and most bytes of it before the first
/// event: a file with more is refused if it has several runs, and otherwise read within the memory limit.
const MOST_OF_TRACKS: u64 = 32 << 20;
const MOST_BEFORE_EVENTS: u64 = 64 << 20;

/// Most processes that are looked at behind the last track that is kept.
const MOST_LATER: usize = 1 << 20;

/// What a file is found to hold.
enum FoundRuns {
    /// Track and name of each run with device rows.
    Told(Vec<(u64, String)>),
    /// Several runs, and why they are not told apart.
    Mixed(String),
}

/// The inputs that a file stands for: one per run, if there are several with device rows.
pub(super) fn parts(input: Input) -> Vec<Input> {
    let runs = match runs(&input) {
        Some(FoundRuns::Told(runs)) if (2..=MOST).contains(&runs.len()) => runs,
        Some(FoundRuns::Mixed(why)) => {
            let process = Some(ProcessPart { key: PartKey::Mixed(why), index: 0, count: 1, rows: None });
            return vec![Input { process, ..input }];
        }
        _ => return vec![input],
    };
    let count = runs.len() as u64;
    let part = |(index, (uuid, name)): (u64, (u64, String))| Input {
        shown: format!("{} ({name})", input.shown),
        process: Some(ProcessPart { key: PartKey::Process(uuid as i64), index, count, rows: None }),
        ..input.clone()
    };
    (0..).zip(runs).map(part).collect()
}

/// The runs with device rows, in the order of the file; `None` of a file that is read as one run.
fn runs(input: &Input) -> Option<FoundRuns> {
    let mut source = open(&input.path, input.packing().ok()?, &ByteCount::default(), false).ok()?;
    let (mut tracks, mut with_work) = (Tracks::default(), BTreeSet::new());
    let mut walk = PacketWalk::over_beginnings(source.as_mut(), BLOCK, OF_A_PACKET);
    let (mut has_events, mut later) = (false, None::<LaterProcesses>);
    // What cannot be read is told when the file is read.
    while let Ok(Some(next)) = walk.next() {
        let packet = match next {
            Walked::Packet(bytes, _) => TracePacket::read(WireMessage::new(bytes)),
            Walked::Beginning(bytes, _) => TracePacket::read(WireMessage::beginning(bytes)),
            Walked::Block(progress) if !has_events && progress.offset > MOST_BEFORE_EVENTS => {
                return has_several(&tracks, later.as_ref())
                    .then(|| mixed("packets before the first event", MOST_BEFORE_EVENTS));
            }
            _ => continue,
        };
        if let Some(track) = packet.track {
            let track = TrackDescriptor::read(track).0;
            match &mut later {
                Some(later) => later.describe(&track, &mut tracks),
                None => {
                    tracks.describe(&track);
                    later = (tracks.held() > MOST_OF_TRACKS).then(LaterProcesses::default);
                }
            }
            if has_events && later.is_some() {
                return Some(mixed("tracks", MOST_OF_TRACKS));
            }
        }
        // Device rows of torch: it puts one run into a file.
        if packet.stage.is_some() {
            return None;
        }
        if let Some(bytes) = packet.event {
            // Tracks are described before the events, so most files are told by their beginning.
            if !has_events {
                if !has_several(&tracks, later.as_ref()) {
                    return None;
                }
                if later.is_some() {
                    return Some(mixed("tracks", MOST_OF_TRACKS));
                }
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
    Some(FoundRuns::Told(with_work.iter().filter_map(named).collect()))
}

/// Whether several runs are described.
fn has_several(tracks: &Tracks, later: Option<&LaterProcesses>) -> bool {
    let kept = (0..tracks.all.len()).filter(|at| tracks.is_run(*at)).take(2).count();
    kept + later.map_or(0, LaterProcesses::runs) > 1
}

fn mixed(what: &str, most: u64) -> FoundRuns {
    FoundRuns::Mixed(format!("several runs with more than {} of {what}", fmt_bytes(most)))
}

/// Processes whose tracks are described behind the last track that is kept.
#[derive(Default)]
struct LaterProcesses(HashMap<u64, LaterProcess>);

#[derive(Default)]
struct LaterProcess {
    has_streams: bool,
    /// It has threads, or a name as a run has.
    is_told: bool,
}

impl LaterProcesses {
    fn describe(&mut self, track: &TrackDescriptor, tracks: &mut Tracks) {
        let uuid = track.parent().unwrap_or(track.uuid);
        let kept = tracks.find(uuid);
        if self.0.len() > MOST_LATER || kept.is_some_and(|at| tracks.is_run(at)) {
            return;
        }
        let kept_name = kept.and_then(|at| tracks.all.get(at)).map(|track| track.name.bytes());
        let own_name = track.parent().is_none().then(|| track.process_name());
        let process = self.0.entry(uuid).or_default();
        process.has_streams |= track.is_stream(track.parent().is_some());
        process.is_told |= track.is_thread() || own_name.or(kept_name).is_some_and(is_name_of_run);
    }

    /// The number of runs among them; of too many processes it is unknown, and counts as several.
    fn runs(&self) -> usize {
        let is_run = |process: &&LaterProcess| process.has_streams && process.is_told;
        if self.0.len() > MOST_LATER { self.0.len() } else { self.0.values().filter(is_run).count() }
    }
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
