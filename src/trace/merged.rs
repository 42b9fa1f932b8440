//! Whether a trace holds the rows of several ranks: how tools that merge the files of ranks mark them.

use crate::rank_trace::RankTrace;
use std::collections::{BTreeMap, BTreeSet};

/// Kinds of coordinates in labels of merged files.
const COORDINATES: [&[u8]; 4] = [b"TP", b"DP", b"PP", b"EP"];

/// Smallest share of the launched activities that makes a process one of a merged file, percent.
const LEAST_PCT: u64 = 1;

/// The label at the start of a process id, with the blank behind it: `[TP00-DP01] `.
pub fn label_of(pid: &[u8]) -> Option<&[u8]> {
    let end = pid.iter().position(|b| *b == b']')?;
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
    (processes.len() > 1 && devices == distinct.len()).then(|| {
        format!("a merged file of {} processes that launch on devices of their own", processes.len())
    })
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
