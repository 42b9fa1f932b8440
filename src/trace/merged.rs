//! Whether a trace holds the rows of several ranks: how tools that merge the files of ranks mark them, and
//! what two processes leave that write one file at once.
//!
//! ```text
//!   bytes   {"name":"a","pid":4000,"ts":1}, {"name":"b","pi|{"name":"c","pid":4001,"ts":1}, ...
//!           process 4000 ...                               | process 4001: its block begins inside an event
//! ```

use crate::activity::Activity;
use crate::args::Arg;
use crate::category::Class;
use crate::rank_trace::RankTrace;
use hta_base::health::Counter;
use hta_base::wording::counts::{counted, plural};
use std::collections::{BTreeMap, BTreeSet};

/// Kinds of coordinates in labels of merged files.
const COORDINATES: [&[u8]; 4] = [b"TP", b"DP", b"PP", b"EP"];

/// Longest label of a merged file, bytes: many lanes may share a process id without end.
const LONGEST_LABEL: usize = 1 << 8;

/// Smallest share of the launched activities that makes a process one of a merged file, percent.
const LEAST_PCT: u64 = 1;

/// The label at the start of a process id, with the blank behind it: `[TP00-DP01] `.
pub fn label_of(pid: &[u8]) -> Option<&[u8]> {
    let end = pid.iter().take(LONGEST_LABEL).position(|b| *b == b']')?;
    let (label, inside) = (pid.get(..end + 2)?, pid.get(1..end)?);
    let is_label = pid.first() == Some(&b'[')
        && label.ends_with(b" ")
        && inside.split(|b| *b == b'-').all(|part: &[u8]| {
            let digits = part.get(2..).unwrap_or_default();
            COORDINATES.contains(&part.get(..2).unwrap_or_default())
                && !digits.is_empty()
                && digits.iter().all(u8::is_ascii_digit)
        });
    is_label.then_some(label)
}

/// The rank at the start of a process's name: `RANK 0 - GPU`, `rank 3: python`.
pub fn rank_of_name(name: &[u8]) -> Option<u32> {
    let (word, rest) = name.split_at_checked(4)?;
    let rest =
        rest.strip_prefix(b" ").or_else(|| rest.strip_prefix(b"_")).or_else(|| rest.strip_prefix(b"-"));
    let rest = rest.or_else(|| name.get(4..))?;
    let end = rest.iter().position(|b| !b.is_ascii_digit()).unwrap_or(rest.len());
    let number = || std::str::from_utf8(rest.get(..end)?).ok()?.parse().ok();
    word.eq_ignore_ascii_case(b"rank").then(number).flatten()
}

/// What a file is that was not split, although it holds several ranks.
pub fn merged(trace: &RankTrace) -> Option<String> {
    let c = &trace.columns;
    let labels: BTreeSet<&[u8]> =
        c.lanes.iter().filter_map(|l| label_of(trace.text(l.pid).as_bytes())).collect();
    if labels.len() > 1 {
        return Some(format!("a merged file of {} ranks", labels.len()));
    }
    let of_processes = c.lane_names.iter().filter(|n| trace.text(n.kind) == "process_name");
    let named: BTreeSet<u32> =
        of_processes.filter_map(|n| rank_of_name(trace.text(n.text).as_bytes())).collect();
    if named.len() > 1 {
        return Some(format!("a merged file of {} ranks", named.len()));
    }
    let processes = devices_by_process(trace);
    let devices: usize = processes.values().map(BTreeSet::len).sum();
    let distinct: BTreeSet<_> = processes.values().flatten().collect();
    match processes.len() {
        0 | 1 => None,
        n if devices == distinct.len() => {
            Some(format!("a merged file of {n} processes that launch on devices of their own"))
        }
        // Each event is whole, but those of one process belong to launches of the other.
        _ if distinct.len() > 1 => in_turns(trace, 0),
        _ => None,
    }
}

/// The reason for which a file of two writers is refused ends with this.
pub const TWO_WRITERS: &str = "two writers wrote to it";

/// Events of a file that could not be read, or not in full.
const DAMAGED: [Counter; 5] = [
    Counter::EventUnreadable,
    Counter::ArgsBroken,
    Counter::EventNotObject,
    Counter::TsMissing,
    Counter::PhMissing,
];

/// Fewest changes from one process to another.
const CHANGES: u64 = 3;

/// Fewest kernels between two changes from one device to another.
const BLOCK: u64 = 8;

/// What two writers left in a file: damaged events or shared correlation ids, and blocks of events of two
/// processes in turn, or of two devices, where processes have one id and a device each.
pub fn torn(trace: &RankTrace) -> Option<String> {
    let damaged: u64 = DAMAGED.iter().map(|counter| trace.health.count(*counter)).sum();
    let damaged = damaged + on_device_of_another(trace);
    if damaged == 0 && trace.health.count(Counter::AmbiguousCorrelation) == 0 {
        return None;
    }
    in_turns(trace, damaged)
}

/// Blocks of events of two writers in turn, with so many damaged events between.
fn in_turns(trace: &RankTrace, damaged: u64) -> Option<String> {
    let c = &trace.columns;
    let of_class = |is: fn(&Class) -> bool| {
        trace.classes.iter().enumerate().filter(move |(_, class)| is(class)).map(|(row, _)| row)
    };
    let host = of_class(|class| matches!(class, Class::HostOp | Class::Runtime));
    let pid = |row: usize| Some(trace.text(c.lanes.get(*c.lane.get(row)? as usize)?.pid));
    let (pids, changes) = turns(host.filter_map(pid));
    let kernels = of_class(|class| *class == Class::Kernel);
    let (what, names, changes) = if pids.len() > 1 && changes >= CHANGES {
        ("processes", pids.into_keys().map(str::to_string).collect::<Vec<String>>(), changes)
    } else if pids.len() == 1 && trace.meta.world_size > Some(1) {
        let (devices, changes) = turns(kernels.filter_map(|row| c.args.int(Arg::Device, row as u32)));
        let is_block = devices.values().sum::<u64>() >= BLOCK * (changes + 1);
        let is_torn = devices.len() > 1 && is_block && damaged * 2 >= changes;
        ("devices", is_torn.then(|| devices.into_keys().map(|d| d.to_string()).collect())?, changes)
    } else {
        return None;
    };
    let damaged = match damaged {
        0 => String::new(),
        n => format!(" with {} between", counted(n, "damaged event")),
    };
    let turns = plural(changes as usize, "turn");
    Some(format!("events of {what} {} in {turns}{damaged}: {TWO_WRITERS}", names.join(", ")))
}

/// How many rows each has, without those that have next to none, and how often one follows another.
fn turns<T: Ord + Copy>(of_rows: impl Iterator<Item = T>) -> (BTreeMap<T, u64>, u64) {
    let mut rows: BTreeMap<T, u64> = BTreeMap::new();
    let (mut last, mut changes) = (None, 0);
    for of in of_rows {
        changes += u64::from(last.replace(of).is_some_and(|last| last != of));
        *rows.entry(of).or_default() += 1;
    }
    let all: u64 = rows.values().sum();
    rows.retain(|_, count| *count * 100 >= all * LEAST_PCT);
    (rows, changes)
}

/// Kernels of a device in the lane of another, where lanes are those of devices: events with the head of one
/// writer and the end of another.
fn on_device_of_another(trace: &RankTrace) -> u64 {
    let lane =
        |a: &Activity| trace.columns.lanes.get(*trace.columns.lane.get(a.row as usize)? as usize)?.pid_num;
    let (mut own, mut other) = (0, 0);
    if trace.devices.len() > 1 {
        for (pid, device) in trace.activities.iter().filter_map(|a| lane(a).zip(a.device())) {
            *if pid == device { &mut own } else { &mut other } += 1;
        }
    }
    if other * 10 < own { other } else { 0 }
}

/// The devices on which each process launches, without processes that launch next to nothing.
fn devices_by_process(trace: &RankTrace) -> BTreeMap<&str, BTreeSet<i64>> {
    let mut found: BTreeMap<&str, (u64, BTreeSet<i64>)> = BTreeMap::new();
    let mut all = 0;
    for a in &trace.activities {
        let lane = a.launch().and_then(|row| trace.columns.lane.get(row as usize));
        let (Some(lane), Some(device)) =
            (lane.and_then(|l| trace.columns.lanes.get(*l as usize)), a.device())
        else {
            continue;
        };
        let of = found.entry(trace.text(lane.pid)).or_default();
        of.0 += 1;
        of.1.insert(device);
        all += 1;
    }
    found.retain(|_, (count, _)| *count * 100 >= all * LEAST_PCT);
    found.into_iter().map(|(pid, (_, devices))| (pid, devices)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_changes_from_one_to_another_of_those_that_have_rows() {
        let (rows, changes) = turns([0, 0, 1, 1, 0].into_iter());
        assert_eq!((rows, changes), (BTreeMap::from([(0, 3), (1, 2)]), 2));
        let one = [7].into_iter().chain(std::iter::repeat_n(8, 200));
        assert_eq!(turns(one), (BTreeMap::from([(8, 200)]), 1));
    }

    #[test]
    fn labels_are_told_from_other_process_ids() {
        assert_eq!(label_of(b"[TP01] 47"), Some(&b"[TP01] "[..]));
        assert_eq!(label_of(b"[DP00-TP12] Spans"), Some(&b"[DP00-TP12] "[..]));
        for other in [&b"[TP] 1"[..], b"[TP01]", b"TP01 1", b"[rank 0] 1", b"", b"[TP01-] 1"] {
            assert_eq!(label_of(other), None);
        }
        assert_eq!(rank_of_name(b"RANK 12 - GPU"), Some(12));
        assert_eq!(rank_of_name(b"rank 3: python (4)"), Some(3));
        assert_eq!((rank_of_name(b"python"), rank_of_name(b"ranking")), (None, None));
    }
}
