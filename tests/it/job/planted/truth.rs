//! The definitions of `multi-rank.md`, computed from the simulator's true times: which rank waited for how long, how
//! much longer each worked, and what repairing it would gain.

use super::job::Kind;
use super::recording::Recording;
use super::simulate::{Call, Key, Row, Simulated};
use crate::run::{Answer, Record};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Calls by collective, by rank.
pub fn instances<'a>(calls: impl Iterator<Item = &'a Call>) -> BTreeMap<Key, Vec<&'a Call>> {
    let mut all: BTreeMap<Key, Vec<&Call>> = BTreeMap::new();
    for c in calls {
        all.entry(c.key).or_default().push(c);
    }
    all.values_mut().for_each(|calls| calls.sort_by_key(|c| c.rank));
    all
}

/// The part of a call before the last arrival among those that it depends on.
pub fn wait(job: &Simulated, call: &Call, members: &[&Call]) -> i64 {
    let root = call.root.unwrap_or(job.groups[call.key.group].ranks[0]);
    let depends = |other: &Call| match call.kind {
        Kind::Broadcast => other.rank == root,
        Kind::Reduce => call.rank == root,
        _ => true,
    };
    let last = members.iter().filter(|m| depends(m)).map(|m| m.run.start).max().unwrap_or(call.run.start);
    (last - call.run.start).clamp(0, call.run.end - call.run.start)
}

/// Rows of `collectives` with the calls that they represent.
pub fn rows<'a>(
    answer: &Answer,
    job: &'a Simulated,
    recording: &'a Recording,
) -> Vec<(Record, Option<&'a Call>)> {
    let mut table: BTreeMap<i64, Vec<Record>> = BTreeMap::new();
    for row in answer.rows("collectives") {
        table.entry(row.int("rank")).or_default().push(row);
    }
    let mut out = Vec::new();
    for rank in 0..job.world {
        let clock = recording.clock(rank);
        let own = recording.calls(job).filter(|c| c.rank == rank);
        let mut known: Vec<(i64, Option<&Call>)> = own.map(|c| (clock.shows(c.run.start), Some(c))).collect();
        let extra = recording.extra.iter().filter(|e| e.rank == rank);
        known.extend(extra.map(|e| (clock.shows(e.run.start), None)));
        known.sort_by_key(|k| k.0);
        let rows = table.remove(&i64::from(rank)).unwrap_or_default();
        assert_eq!(rows.len(), known.len(), "rank {rank}");
        out.extend(rows.into_iter().zip(known).map(|(row, (_, call))| (row, call)));
    }
    assert!(table.is_empty(), "ranks that are not there");
    out
}

/// Every recorded call is matched with all recorded calls of the same collective and with no other; a call without
/// recorded partners is not matched.
pub fn check_matches(what: &str, answer: &Answer, job: &Simulated, recording: &Recording) {
    let known = instances(recording.calls(job));
    let mut ids: BTreeMap<Key, i64> = BTreeMap::new();
    let mut taken: BTreeSet<i64> = BTreeSet::new();
    let mut wrong = Vec::new();
    for (row, call) in rows(answer, job, recording) {
        let rank = row.int("rank");
        let id = row.opt_int("collective");
        let Some(call) = call else {
            assert_eq!(id, None, "{what}: rank {rank} alone recorded {}", row.0);
            continue;
        };
        let members = known[&call.key].len() as i64;
        if members == 1 {
            assert_eq!(id, None, "{what}: rank {rank} alone recorded {:?}", call.key);
            continue;
        }
        let Some(id) = id else {
            wrong.push(format!("rank {rank} {:?} is not matched", call.key));
            continue;
        };
        let of_key = *ids.entry(call.key).or_insert_with(|| {
            taken.insert(id);
            id
        });
        let expected =
            if call.key.wire.is_some() { 2 } else { job.groups[call.key.group].ranks.len() as i64 };
        let got = (id, row.int("member_count"), row.int("expected_count"));
        if got != (of_key, members, expected) {
            wrong.push(format!("rank {rank} {:?}: {got:?}, not {:?}", call.key, (of_key, members, expected)));
        }
    }
    let matched = known.values().filter(|m| m.len() > 1).count();
    let first: Vec<&String> = wrong.iter().take(5).collect();
    assert!(wrong.is_empty(), "{what}: {} wrong: {first:#?}", wrong.len());
    assert_eq!((ids.len(), taken.len()), (matched, matched), "{what}: collectives were joined");
}

/// Waits of the calls of complete collectives, to within `tolerance`; returns how many were compared.
pub fn check_waits(
    what: &str,
    answer: &Answer,
    job: &Simulated,
    recording: &Recording,
    tolerance: i64,
) -> usize {
    let (all, known) = (instances(job.calls()), instances(recording.calls(job)));
    let mut compared = 0;
    for (row, call) in rows(answer, job, recording) {
        let Some(call) = call.filter(|c| known[&c.key].len() == all[&c.key].len()) else { continue };
        let expected = wait(job, call, &all[&call.key]);
        let got = row.opt_int("wait_ns").unwrap_or_else(|| panic!("{what}: no wait in {}", row.0));
        assert!((got - expected).abs() <= tolerance, "{what}: {expected} was planted, {}", row.0);
        assert_eq!(row.int("dur_ns"), got + row.int("transfer_ns"), "{what}");
        compared += 1;
    }
    compared
}

/// Compares a time with the truth, within some percent.
pub fn within(what: &str, got: i64, truth: i64, pct: i64) {
    assert!((got - truth).abs() * 100 <= truth * pct, "{what}: {got} ns, the truth is {truth}");
}

/// How much longer a job takes than the same job in which the repair was made, ns.
pub fn gain_of_repair(job: &Simulated, repaired: &Simulated) -> i64 {
    job.end() - repaired.end()
}

/// How late a rank was for one collective.
#[derive(Clone, Debug)]
pub struct Late {
    pub rank: u32,
    pub step: u64,
    pub key: Key,
    /// From the last synchronisation point until the rank was ready.
    pub window: Range<i64>,
    pub excess: i64,
    /// The last minus the second last to be ready; 0 if others were later.
    pub gain: i64,
    /// The member whose local time is the median of the others'.
    pub typical: u32,
}

impl Late {
    pub fn own_gain(&self) -> i64 {
        self.gain.min(self.excess)
    }
}

/// Lateness of every member at every collective for which it has a window of local work.
pub fn lates(job: &Simulated) -> Vec<Late> {
    lates_from(job, |c| job.step_start(c.rank, c.step))
}

/// The same without marked steps: the first window starts with the capture.
pub fn lates_without_steps(job: &Simulated) -> Vec<Late> {
    lates_from(job, |c| job.first_start(c.rank))
}

/// When a rank was ready for a call: the later of its submission and the last end of the kernels launched before.
pub fn ready(job: &Simulated, call: &Call) -> i64 {
    let end = |row: &Row| match row {
        Row::Kernel { launch, run, .. } if launch.start < call.submit.start => Some(run.end),
        _ => None,
    };
    let computed = job.rows[call.rank as usize].iter().filter_map(end).max().unwrap_or(i64::MIN);
    // the launch call begins 3 ns after the operator around it
    (call.submit.start + 3).max(computed).min(call.run.start)
}

/// Times that differ by at most this count as equal, ns.
const TOLERANCE: i64 = 1_000;

fn lates_from(job: &Simulated, start: impl Fn(&Call) -> i64) -> Vec<Late> {
    let mut windows: BTreeMap<(u32, Key), Range<i64>> = BTreeMap::new();
    for rank in 0..job.world {
        let calls: Vec<&Call> = job.calls().filter(|c| c.rank == rank).collect();
        let across = |end: i64| {
            let runs = |row: &Row| matches!(row, Row::Kernel { run, .. } if run.start < end - TOLERANCE && end + TOLERANCE < run.end);
            job.rows[rank as usize].iter().any(runs)
        };
        let points: Vec<i64> = calls.iter().map(|c| c.run.end).filter(|end| !across(*end)).collect();
        for c in calls {
            let ready = ready(job, c);
            let point =
                points.iter().copied().filter(|p| *p <= ready + TOLERANCE).max().map(|p| p.min(ready));
            windows.insert((rank, c.key), point.unwrap_or_else(|| start(c))..ready);
        }
    }
    let mut out = Vec::new();
    for (key, members) in instances(job.calls()) {
        let locals: Vec<(i64, &Call)> = members
            .iter()
            .filter_map(|c| windows.get(&(c.rank, key)).map(|w| (w.end - w.start, *c)))
            .collect();
        if locals.len() < 2 {
            continue;
        }
        for (local, call) in &locals {
            let mut others: Vec<(i64, u32)> =
                locals.iter().filter(|(_, c)| c.rank != call.rank).map(|(l, c)| (*l, c.rank)).collect();
            others.sort_unstable();
            let (median, typical) = others[(others.len() - 1) / 2];
            let second =
                members.iter().filter(|c| c.rank != call.rank).map(|c| ready(job, c)).max().unwrap_or(0);
            out.push(Late {
                rank: call.rank,
                step: call.step,
                key,
                window: windows[&(call.rank, key)].clone(),
                excess: (local - median).max(0),
                gain: (ready(job, call) - second).max(0),
                typical,
            });
        }
    }
    out
}
