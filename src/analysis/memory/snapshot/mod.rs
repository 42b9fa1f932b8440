//! Dumps of memory: snapshots of the caching allocator, with what it held and its history, and memory
//! timelines.
//!
//! A dump is not a trace: it has no operators or steps, but blocks, segments and a stack for every
//! allocation. It is answered in the tables of the analysis `memory` and some of its own. [`rows`] fills the
//! tables of a device, [`report`] what is printed beside them, [`findings`] says what stands out, and
//! [`compare`] sets the tables of two sets of snapshots against each other.

mod allocation_rows;
mod choice;
pub mod compare;
pub mod content;
pub mod device;
pub(crate) mod end_state;
pub mod events;
pub mod findings;
mod flame;
pub mod history;
pub mod leak;
pub(crate) mod moment;
pub(crate) mod phase;
pub(crate) mod report;
pub mod rows;
pub mod site;
mod stack_text;
mod state_rows;
pub mod tables;
pub mod timeline;

pub use choice::SnapshotChoice;

use crate::api::{Options, Partial, RowEmitter};
use crate::memory::flame::HeldStacks;
use crate::memory::snapshot::content::{ContentKey, allocated, parts};
use crate::memory::snapshot::device::{device_numbers, device_words, devices};
use crate::memory::snapshot::leak::MarkedSteps;
use crate::memory::snapshot::rows::DeviceRows;
use crate::memory::snapshot::site::Sites;
use crate::memory::snapshot::tables::{DumpTables, MemoryDevices};
use crate::memory::snapshot::timeline::Levels;
use crate::memory::{AT, BY, DEVICE, STEPS_BY};
use crate::settings::Setting;
use crate::stacks::StackTree;
use flame::add_stacks;
use hta_base::health::Health;
use hta_base::table::schema::Batch;
use hta_trace::memory_dump::MemoryDump;
use hta_trace::memory_moment::MemoryMoment;
use hta_trace::snapshot::Snapshot;

/// The page of `hta explain snapshots`.
pub const PAGE: &str = include_str!("page.md");

/// The note on files without segments and entries.
const NOTHING: &str = "no segments and no history: call torch.cuda.memory._record_memory_history() before \
                       the work, on the process that uses the GPU";

/// Maps the dump of a rank.
pub(crate) fn map(rank: u32, dump: &MemoryDump, options: &Options, give: &mut RowEmitter) -> Partial {
    let choice = SnapshotChoice::of(options);
    let mut tables = DumpTables::of(|spec| options.wants_per_event(spec));
    let mut stacks = None;
    match dump {
        MemoryDump::Timeline(timeline) => Levels::new(timeline).add(&mut tables, rank, choice.at),
        MemoryDump::Snapshot(snapshot) => stacks = add_snapshot(&mut tables, rank, snapshot, &choice),
    }
    let (mut kept, rows) = tables.finish();
    rows.into_iter().for_each(give);
    kept.extend(stacks);
    let is_empty = kept.iter().any(|b| b.spec.name == MemoryDevices::SPEC.name && b.is_empty());
    Partial { rank, tables: kept, reason: is_empty.then_some(NOTHING) }
}

/// The rows of a snapshot, and the stacks that are asked for.
fn add_snapshot(
    tables: &mut DumpTables,
    rank: u32,
    snapshot: &Snapshot,
    choice: &SnapshotChoice,
) -> Option<Batch> {
    let sites = Sites::new(snapshot);
    let mut names: Vec<String> = Vec::new();
    let mut tree: StackTree<usize> = StackTree::default();
    for device in devices(snapshot, choice.until, choice.device, &mut Health::default()) {
        let steps = choice.steps_by.map(|name| MarkedSteps::new(snapshot, device.device, name));
        let steps = steps.as_ref().filter(|s| !s.is_empty());
        let rows = DeviceRows { rank, device: &device, sites: &sites, steps };
        rows.add(tables, choice);
        findings::tell(&rows, tables);
        let held = |moment| rows.held(moment).map(|(_, held)| held).unwrap_or_default();
        let parts = match choice.held {
            Some(HeldStacks::Alloc) => allocated(&device, &sites, ContentKey::Stack),
            Some(HeldStacks::End) => parts(&device, &sites, held(MemoryMoment::End), ContentKey::Stack),
            Some(HeldStacks::Peak) => parts(&device, &sites, held(MemoryMoment::Peak), ContentKey::Stack),
            None => continue,
        };
        // The root is the name of a profile; the text, which has all in one, tells ranks and devices apart by
        // frames.
        let above = [format!("{} of rank {rank}", device.name()), format!("rank {rank}"), device.name()];
        add_stacks(&mut tree, &mut names, above, &parts);
    }
    tables.stacks.iter_mut().for_each(|table| state_rows::add_stacks(table, snapshot, rank));
    choice.held.map(|_| tree.table(|id| names.get(id).cloned().unwrap_or_default()))
}

/// Whether these are partials of dumps.
pub(crate) fn is_of_dumps(partials: &[Partial]) -> bool {
    partials.iter().any(|p| p.table(MemoryDevices::SPEC).is_some())
}

/// Largest number of names of annotations that are listed for a message.
const MOST_NAMES: usize = 1_000;

/// Whether a setting selects something of a dump, and what it could; `None` if it is no choice among what is
/// there.
pub(crate) fn selects(dump: &MemoryDump, setting: &Setting, text: &str) -> Option<(bool, Vec<String>)> {
    let words = |all: &[&str]| all.iter().map(|w| (*w).to_string()).collect::<Vec<String>>();
    let snapshot = match dump {
        MemoryDump::Snapshot(snapshot) => snapshot,
        MemoryDump::Timeline(timeline) => {
            let moment = MemoryMoment::parse(text).filter(|_| *setting == AT)?;
            return Some((
                Levels::new(timeline).has(moment),
                words(&["peak", "end", "entry:N", "a time in ns"]),
            ));
        }
    };
    match setting {
        s if *s == BY => {
            let keys = ContentKey::ALL.map(ContentKey::name);
            Some((keys.contains(&text), words(&keys)))
        }
        s if *s == AT => MemoryMoment::parse(text).map(|moment| {
            (moment::is_in(snapshot, moment), words(&["peak", "end", "entry:N", "ns since the epoch"]))
        }),
        s if *s == DEVICE => {
            let is_one = device_numbers(snapshot, Some(text)).next().is_some();
            Some((is_one, device_numbers(snapshot, None).map(device_words).collect()))
        }
        s if *s == STEPS_BY => {
            let mut names: Vec<&str> =
                snapshot.annotations.iter().map(|a| snapshot.texts.get(a.name)).collect();
            let is_one = names.iter().any(|name| name.starts_with(text));
            names.truncate(MOST_NAMES);
            names.sort_unstable();
            names.dedup();
            Some((is_one, words(&names)))
        }
        _ => None,
    }
}
