//! `--compat hta` against the output of Meta's HTA 0.5.0: queue length and memory bandwidth.
//!
//! HTA's order of points at equal times is arbitrary. So values are compared where a time occurs once in a series;
//! counts, extremes and times everywhere; means of lengths to 0.01.

use crate::cli::csv::{CsvRow, number, read, text};
use crate::on_shared_traces::hta_tables::{Case, cases};
use crate::run::Record;
use std::collections::BTreeMap;
use std::path::Path;

/// One row of a summary: its key and HTA's eight statistics.
struct Summary {
    rank: f64,
    key: String,
    /// Count, mean, std, min, quartiles, max.
    cells: Vec<Option<f64>>,
}

/// A summary of HTA, which has three header lines; the last begins with `rank`.
fn summary(path: &Path) -> Option<Vec<Summary>> {
    let text = std::fs::read_to_string(path).ok()?;
    let rows = text.lines().skip(2).filter(|l| l.contains(',') && !l.starts_with("rank"));
    let number =
        |c: &str| (!c.is_empty()).then(|| c.parse().unwrap_or_else(|_| panic!("`{c}` is no number")));
    Some(
        rows.map(|line| {
            let mut cells = line.split(',');
            let rank = cells.next().and_then(number).expect("a rank");
            let key = cells.next().expect("a stream or a name").to_string();
            Summary { rank, key, cells: cells.map(number).collect() }
        })
        .collect(),
    )
}

const STATISTICS: [&str; 8] = ["count", "mean", "std", "min", "25%", "50%", "75%", "max"];

/// Our row for one of HTA's.
fn beside<'a>(case: &Case, ours: &'a [Record], theirs: &Summary, key: &str) -> &'a Record {
    let same = |r: &&Record| {
        r.float("rank") == Some(theirs.rank) && r.cell(key).to_string().trim_matches('"') == theirs.key
    };
    ours.iter().find(same).unwrap_or_else(|| panic!("{}: no row {} {}", case.name, theirs.rank, theirs.key))
}

/// Points of one series: time and value, in order of time.
type Points = BTreeMap<String, Vec<(f64, f64)>>;

fn theirs(rows: &[CsvRow], key: &str, value: &str) -> Points {
    let mut points = Points::new();
    for row in rows {
        let cell = |column| number(row, column).expect("a number");
        points.entry(text(row, key).to_string()).or_default().push((cell("ts"), cell(value)));
    }
    points
}

fn ours(rows: &[Record], rank: i64, key: &str, value: &str) -> Points {
    let mut points = Points::new();
    for row in rows.iter().filter(|r| r.int("rank") == rank) {
        let cell = |column| row.float(column).expect("a number");
        let key = row.cell(key).to_string().trim_matches('"').to_string();
        points.entry(key).or_default().push((cell("ts"), cell(value)));
    }
    points
}

/// Compares the times of all points, and values where no other point has the same time. Returns both counts.
fn compare_series(what: &str, theirs: &Points, ours: &Points, shift: f64) -> (usize, usize) {
    assert!(theirs.keys().eq(ours.keys()), "{what}: {:?} {:?}", theirs.keys(), ours.keys());
    let (mut times, mut values) = (0, 0);
    for (key, theirs) in theirs {
        let ours = &ours[key];
        let sorted = |points: &[(f64, f64)]| {
            let mut all = points.to_vec();
            all.sort_by(|a, b| a.0.total_cmp(&b.0));
            all
        };
        let (theirs, ours) = (sorted(theirs), sorted(ours));
        assert_eq!(ours.len(), theirs.len(), "{what} {key}");
        let most = theirs.iter().map(|p| p.1).fold(0.0, f64::max);
        for (i, (a, b)) in theirs.iter().zip(&ours).enumerate() {
            assert_eq!(b.0 + shift, a.0, "{what} {key}: time of point {i}");
            times += 1;
            let alone = |j: usize| theirs.get(j).is_none_or(|p| p.0 != a.0);
            if i.checked_sub(1).is_none_or(alone) && alone(i + 1) {
                assert!(
                    (a.1 - b.1).abs() <= 1e-9 * most,
                    "{what} {key} at {}: HTA {}, hta {}",
                    a.0,
                    a.1,
                    b.1
                );
                values += 1;
            }
        }
    }
    (times, values)
}

/// The difference of origins: HTA counts from the first event of all ranks of a set, hta from that of the rank.
fn shift(theirs: &Points, ours: &Points, ranks: usize) -> f64 {
    let first = |p: &Points| p.values().flatten().map(|x| x.0).fold(f64::INFINITY, f64::min);
    if ranks == 1 || theirs.is_empty() { 0.0 } else { first(theirs) - first(ours) }
}

fn series_of(case: &Case, file: &str, table: &str, key: &str, value: &str) -> (usize, usize, usize) {
    let rows = case.answer.rows(table);
    let ranks: Vec<i64> = case.answer.rows("ranks").iter().map(|r| r.int("rank")).collect();
    let (mut files, mut times, mut values) = (0, 0, 0);
    for rank in &ranks {
        // HTA's table of one rank is named after the rank stored in the file.
        let Some(reference) = read(&case.reference.join(format!("{file}_rank{rank}.csv"))) else { continue };
        let (theirs, ours) = (theirs(&reference, key, value), ours(&rows, *rank, key, value));
        let what = format!("{} rank {rank} {file}", case.name);
        let (t, v) = compare_series(&what, &theirs, &ours, shift(&theirs, &ours, ranks.len()));
        files += 1;
        times += t;
        values += v;
    }
    (files, times, values)
}

/// Queues with so many ties (or so few points) that their order changes the mean by more than 0.01: reversing a tie
/// changes one point by 2, and HTA's order varies.
const TIED: [(&str, &str); 3] = [("cp_simple_add", "7"), ("h100_qwen", "7"), ("trace_diff_control", "7")];

/// Copies that follow each other within a microsecond: HTA puts the next start before the end, so both seem concurrent.
/// HTA's maximum, and that of one copy at a time.
const STARTS_FIRST: (&str, &str, f64, f64) =
    ("trace_diff_test", "Memcpy DtoD", 671.5257707049548, 392.797_964_604_391_4);

#[test]
fn queue_lengths_equal_hta_but_for_its_order_of_ties() {
    let Some(cases) = cases() else { return };
    let (mut folders, mut rows) = (0, 0);
    let (mut files, mut times, mut values) = (0, 0, 0);
    for case in cases {
        let mine = case.answer.rows("compat_hta_queue_length_summary");
        let Some(reference) = summary(&case.reference.join("queue_length_summary.csv")) else {
            assert!(mine.is_empty(), "{}", case.name);
            continue;
        };
        folders += 1;
        for theirs in &reference {
            let row = beside(case, &mine, theirs, "stream");
            rows += 1;
            for (i, column) in STATISTICS.iter().enumerate() {
                let (a, b) = (theirs.cells[i], row.float(column));
                let what = format!("{} stream {} {column}: HTA {a:?}, hta {b:?}", case.name, theirs.key);
                match *column {
                    "count" | "min" | "max" => assert_eq!(a, b, "{what}"),
                    "mean" => {
                        let tied = TIED.contains(&(&*case.name, &*theirs.key));
                        let most = if tied { 0.02 } else { 0.01 };
                        assert!(a.zip(b).is_some_and(|(a, b)| (a - b).abs() <= most), "{what}");
                    }
                    _ => {}
                }
            }
        }
        let ranks = reference.iter().map(|r| r.rank as i64);
        let listed: Vec<&Record> =
            mine.iter().filter(|r| ranks.clone().any(|k| k == r.int("rank"))).collect();
        assert_eq!(listed.len(), reference.len(), "{}: streams", case.name);
        let found = series_of(
            case,
            "queue_length_time_series",
            "compat_hta_queue_length_time_series",
            "stream",
            "queue_length",
        );
        files += found.0;
        times += found.1;
        values += found.2;
    }
    assert_eq!((folders, rows, files, times, values), (23, 60, 29, 60_796, 59_632));
}

#[test]
fn memory_bandwidth_equals_hta_but_for_what_its_floats_leave_over() {
    let Some(cases) = cases() else { return };
    let (mut folders, mut rows, mut same_count) = (0, 0, 0);
    let (mut files, mut times, mut values) = (0, 0, 0);
    for case in cases {
        let mine = case.answer.rows("compat_hta_memory_bw_summary");
        let Some(reference) = summary(&case.reference.join("memory_bw_summary.csv")) else {
            assert!(mine.is_empty(), "{}", case.name);
            continue;
        };
        folders += 1;
        for theirs in &reference {
            let row = beside(case, &mine, theirs, "name");
            rows += 1;
            let [ours_max, theirs_max] = [row.float("max"), theirs.cells[7]].map(|v| v.expect("a value"));
            let what = format!("{} {}: HTA {:?}, hta {}", case.name, theirs.key, theirs.cells, row.0);
            let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.abs();
            if (&*case.name, &*theirs.key) == (STARTS_FIRST.0, STARTS_FIRST.1) {
                assert!(near(STARTS_FIRST.2, theirs_max) && near(STARTS_FIRST.3, ours_max), "{what}");
            } else {
                assert!(near(theirs_max, ours_max), "{what}");
            }
            // Rounding residues add points above 0.
            assert!(row.float("count") <= theirs.cells[0], "{what}");
            if row.float("count") == theirs.cells[0] {
                same_count += 1;
            }
        }
        let found = series_of(
            case,
            "memory_bw_time_series",
            "compat_hta_memory_bw_time_series",
            "name",
            "memory_bw_gbps",
        );
        files += found.0;
        times += found.1;
        values += found.2;
    }
    assert_eq!((folders, rows, same_count, files, times, values), (17, 60, 59, 23, 8542, 8538));
}
