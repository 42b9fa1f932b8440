//! Files in which a tool has merged the traces of several ranks: how they are recognized, and which rows are
//! of which rank.
//!
//! ```text
//!   SGLang      "pid": "[TP01] 4711"                             the label names the rank, behind it stands the pid
//!   TraceLens   "pid": 100004711, "args": {"rank": 1, "pid_raw": 4711, "correlation_raw": 7, ...}
//!   others      the names of processes begin with the rank: "RANK 1 - GPU", "rank 1: python"
//! ```
//!
//! Each rank becomes an input of its own that reads the whole file and takes its rows, with the ids that they
//! had before they were merged. Surprising: the metadata of a merged file is that of its first rank.

use super::document::Document;
use super::load::drained;
use super::part::number;
use super::sink::{Accepted, EventSink};
use crate::coordinates::ranks_of_labels;
use crate::format::FileStart;
use crate::input::{Input, PartKey, ProcessPart, RankMark};
use crate::opening::open;
use crate::options::LoadOptions;
use crate::reading::Chunks;
use crate::room::{MemoryGate, MemoryLimit, MemoryUse, OutOfMemory};
use crate::source::ByteCount;
use hta_base::units::fmt_pct;
use hta_trace::category::{Class, classify};
use hta_trace::merged::{label_of, rank_of_name};
use regex::bytes::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// What the first bytes of a merged file have.
static MARKS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r#"(?-u)"pid"\s*:\s*"\[(?:TP|DP|PP|EP)\d|"args"\s*:\s*\{[^{}]*"rank"\s*:\s*\d|"name"\s*:\s*"(?i:rank)[ _-]?\d"#,
    )
    .ok()
});

/// Smallest share of the rows with a mark, in thousandths, with which the ranks of a file are told apart.
const MARKED_PER_MILLE: u64 = 990;

/// Smallest share of rows with an argument or a process name that is evidence of a merged file, in
/// thousandths: a few of them mean something else.
const EVIDENT_PER_MILLE: u64 = 500;

/// Most labels, ranks or processes that are told apart.
const MOST: usize = 1 << 16;

/// Largest value that is looked at, bytes.
const LARGEST_VALUE: u64 = 256 << 20;

/// The inputs that a file stands for: one per rank of a merged file.
pub(super) fn parts(input: Input, start: &FileStart) -> Vec<Input> {
    let is_likely = MARKS.as_ref().is_some_and(|re| re.is_match(&start.bytes));
    let found = if is_likely { Scan::of(&input).and_then(|scan| scan.found()) } else { None };
    match found {
        None => vec![input],
        Some(ScanEnd::Mixed(why)) => {
            let process = Some(ProcessPart { key: PartKey::Mixed(why), index: 0, count: 1, rows: None });
            vec![Input { process, ..input }]
        }
        Some(ScanEnd::Ranks(ranks)) => {
            let count = ranks.len() as u64;
            let part = |(index, (rank, (mark, rows))): (u64, (u32, (RankMark, u64)))| Input {
                shown: format!("{} (rank {rank})", input.shown),
                process: Some(ProcessPart { key: PartKey::Rank(rank, mark), index, count, rows: Some(rows) }),
                ..input.clone()
            };
            (0..).zip(ranks).map(part).collect()
        }
    }
}

/// Number of rows of a file, without those that tools leave out when they merge; so are those of each rank
/// counted.
pub(crate) fn rows(input: &Input) -> Option<u64> {
    Scan::of(input).map(|scan| scan.all)
}

/// What a scan tells.
enum ScanEnd {
    /// The ranks, each with its mark and its number of rows.
    Ranks(BTreeMap<u32, (RankMark, u64)>),
    /// Several ranks that cannot be told apart: why.
    Mixed(String),
}

/// Marks of all complete events of a file.
#[derive(Default)]
struct Scan {
    all: u64,
    labels: BTreeMap<String, u64>,
    arguments: BTreeMap<u32, u64>,
    processes: BTreeMap<String, u64>,
    names: BTreeMap<String, u32>,
}

impl Scan {
    /// Reads a whole file; `None` if that fails, which is reported when it is loaded.
    fn of(input: &Input) -> Option<Self> {
        let scan = SharedScan::default();
        let mut document = Document::new(LoadOptions { rest_args: true, ..LoadOptions::default() });
        document.reader.sink = Some(Box::new(scan.clone()));
        let packed = input.packing().ok()?;
        let mut source = open(&input.path, packed, &ByteCount::default(), false).ok()?;
        let block = Chunks::default().block;
        drained(&mut document, source.as_mut(), block, &SmallValues, &mut |_| Ok(())).ok()?.ok()?;
        drop(document);
        let scan = std::mem::take(&mut *scan.0.lock().unwrap_or_else(PoisonError::into_inner));
        let is_bounded = scan.labels.len().max(scan.arguments.len()).max(scan.processes.len()) <= MOST;
        is_bounded.then_some(scan)
    }

    fn found(self) -> Option<ScanEnd> {
        let per_mille = |marked: u64| (marked * 1000).checked_div(self.all).unwrap_or(0);
        let sum = |of: &mut dyn Iterator<Item = u64>| per_mille(of.sum());
        let mixed = |ranks: usize, what: &str, share: u64| {
            let share = fmt_pct(Some(share as f64 / 10.0));
            Some(ScanEnd::Mixed(format!(
                "a merged file of {ranks} ranks, and {what} only {share} of its rows"
            )))
        };
        if self.labels.len() > 1 {
            let names: Vec<&str> = self.labels.keys().map(|l| l.trim_matches(['[', ']', ' '])).collect();
            let share = sum(&mut self.labels.values().copied());
            return match ranks_of_labels(&names) {
                Some(ranks) if share >= MARKED_PER_MILLE => {
                    let of = |(rank, (label, rows)): (u32, (&String, &u64))| {
                        (rank, (RankMark::Label(label.clone()), *rows))
                    };
                    Some(ScanEnd::Ranks(ranks.into_iter().zip(&self.labels).map(of).collect()))
                }
                _ => mixed(names.len(), "labels as `[TP00]` name the rank of", share),
            };
        }
        let share = sum(&mut self.arguments.values().copied());
        if self.arguments.len() > 1 && share >= EVIDENT_PER_MILLE {
            if share < MARKED_PER_MILLE {
                return mixed(self.arguments.len(), "the argument `rank` names the rank of", share);
            }
            let of = |(rank, rows): (u32, u64)| (rank, (RankMark::Argument, rows));
            return Some(ScanEnd::Ranks(self.arguments.into_iter().map(of).collect()));
        }
        let mut ranks: BTreeMap<u32, (BTreeSet<String>, u64)> = BTreeMap::new();
        for (pid, rank) in &self.names {
            let of = ranks.entry(*rank).or_default();
            of.1 += self.processes.get(pid).copied().unwrap_or(0);
            of.0.insert(pid.clone());
        }
        ranks.retain(|_, (_, rows)| *rows > 0);
        let share = sum(&mut ranks.values().map(|(_, rows)| *rows));
        if ranks.len() < 2 || share < EVIDENT_PER_MILLE {
            return None;
        }
        if share < MARKED_PER_MILLE {
            return mixed(ranks.len(), "the names of processes name the rank of", share);
        }
        let of = |(rank, (pids, rows))| (rank, (RankMark::Processes(pids), rows));
        Some(ScanEnd::Ranks(ranks.into_iter().map(of).collect()))
    }
}

#[derive(Clone, Default)]
struct SharedScan(Arc<Mutex<Scan>>);

impl EventSink for SharedScan {
    fn member(&mut self, _: &str, _: &[u8]) {}

    fn events_begin(&mut self, _: bool) {}

    fn event(&mut self, e: &Accepted) -> bool {
        let scan = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let t = e.tokens;
        let pid = t.pid.bytes(e.buf);
        if e.phase == b'M' && t.name.bytes(e.buf) == b"process_name" {
            if let Some(rank) = rank_of_name(t.label.bytes(e.buf))
                && scan.names.len() <= MOST
            {
                scan.names.insert(String::from_utf8_lossy(pid).into_owned(), rank);
            }
            return true;
        }
        if !matches!(e.phase, b'X' | b'B') {
            return true;
        }
        let category = std::str::from_utf8(t.cat.bytes(e.buf)).map_or(Class::Unknown, |cat| classify(cat).0);
        if matches!(category, Class::Python | Class::Noise) {
            return true;
        }
        scan.all += 1;
        if let Some(label) = label_of(pid) {
            count(&mut scan.labels, label);
        } else if let Some(rank) = t.rest.iter().find_map(|member| rank_argument(member.bytes(e.buf)))
            && scan.arguments.len() <= MOST
        {
            *scan.arguments.entry(rank).or_default() += 1;
        }
        count(&mut scan.processes, pid);
        true
    }
}

fn count(of: &mut BTreeMap<String, u64>, key: &[u8]) {
    let key = String::from_utf8_lossy(key);
    if let Some(count) = of.get_mut(key.as_ref()) {
        *count += 1;
    } else if of.len() <= MOST {
        of.insert(key.into_owned(), 1);
    }
}

/// The value of a member `"rank": 3`.
fn rank_argument(member: &[u8]) -> Option<u32> {
    let value = member.strip_prefix(b"\"rank\"")?;
    let value = value.trim_ascii_start().strip_prefix(b":")?;
    number(value.trim_ascii().trim_ascii_start())
}

/// Lets a scan end at a value that is larger than any real one.
struct SmallValues;

impl MemoryGate for SmallValues {
    fn hold(&self, held: MemoryUse) -> Result<(), OutOfMemory> {
        let limit = MemoryLimit { bytes: LARGEST_VALUE, given: false };
        if held.buffers > LARGEST_VALUE { Err(OutOfMemory { limit, held }) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(events: &[&str]) -> Option<ScanEnd> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.json");
        std::fs::write(&path, format!("{{\"traceEvents\": [{}]}}", events.join(","))).unwrap();
        Scan::of(&Input::named(path)).unwrap().found()
    }

    fn row(pid: &str, args: &str) -> String {
        format!(
            r#"{{"ph": "X", "cat": "kernel", "name": "k", "pid": {pid}, "tid": 1, "ts": 1, "dur": 1, "args": {{{args}}}}}"#
        )
    }

    #[test]
    fn a_mark_on_every_row_tells_the_ranks_apart_and_a_mark_on_some_rows_does_not() {
        let (a, b) = (row("\"[TP00] 1\"", ""), row("\"[TP01] 1\"", ""));
        let Some(ScanEnd::Ranks(ranks)) = found(&[&a, &b, &b]) else { panic!("labels on all rows") };
        assert_eq!(
            ranks.iter().map(|(rank, (_, rows))| (*rank, *rows)).collect::<Vec<_>>(),
            [(0, 1), (1, 2)]
        );
        let Some(ScanEnd::Mixed(why)) = found(&[&a, &b, &row("7", "")]) else {
            panic!("a row without a label")
        };
        assert!(why.contains("2 ranks") && why.contains("66.6 %"), "{why}");
        let (a, b) = (row("1", "\"rank\": 4, \"pid_raw\": 1"), row("100000001", "\"rank\": 5"));
        assert!(matches!(found(&[&a, &b]), Some(ScanEnd::Ranks(r)) if r.keys().eq(&[4, 5])));
    }

    #[test]
    fn one_rank_or_a_few_arguments_are_no_merged_file() {
        let (a, plain) = (row("1", "\"rank\": 4"), row("1", ""));
        assert!(found(&[&a, &a]).is_none());
        assert!(found(&[&a, &row("1", "\"rank\": 5"), &plain, &plain, &plain]).is_none());
        assert!(found(&[&row("\"[TP00] 1\"", ""), &row("\"[TP00] 2\"", "")]).is_none());
    }
}
