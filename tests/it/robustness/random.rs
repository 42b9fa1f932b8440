//! Random traces: hta's tables against brute-force counting, and the effects of reordering events and shifting the
//! clock.

use crate::plan::{Class, Kind, ORIGIN, Plan, Row, plans};
use crate::robustness::brute::{Brute, Device, Window};
use crate::robustness::invariants::check;
use crate::run::{Answer, Record, answer, options};
use hta::analysis::api::Options;
use hta::trace::step::StepWindow;
use hta_testkit::{Format, TestRecorder};
use proptest::prelude::*;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Waits shorter than this are kernel waits; small, so that both kinds occur.
const KERNEL_WAIT: i64 = 6;

fn small(plan: &Plan, window: StepWindow) -> Options {
    let mut o = options();
    o.model.step_window = window;
    o.kernel_wait_max = KERNEL_WAIT;
    if plan.steps.is_empty() {
        // Repeated annotations would be detected as steps.
        o.model.step_pattern = regex::Regex::new("^ProfilerStep#").ok();
    }
    o
}

fn run(plan: &Plan, window: StepWindow, origin: i64, format: &Format) -> Answer {
    let folder = tempfile::tempdir().expect("a temporary folder");
    answer(&[plan.write(folder.path(), origin, format)], &small(plan, window))
}

fn find<'a>(rows: &'a [Record], device: Option<i64>, w: &Window) -> Vec<&'a Record> {
    let same = |r: &&Record| {
        r.opt_int("device") == device && r.text("scope") == w.scope && r.opt_int("step") == w.step
    };
    rows.iter().filter(same).collect()
}

fn one<'a>(rows: &'a [Record], device: Option<i64>, w: &Window) -> &'a Record {
    let found = find(rows, device, w);
    assert_eq!(found.len(), 1, "{device:?} {w:?}: {found:?}");
    found[0]
}

/// Number of instants of a window at which a set with all of `with` and none of `without` runs.
fn cells(w: &Window, with: u8, without: u8) -> i64 {
    let wanted = |s: &usize| *s as u8 & with == with && *s as u8 & without == 0 && *s != 0;
    (0..8).filter(wanted).map(|s| w.sets[s]).sum()
}

const C: u8 = 1;
const K: u8 = 2;
const M: u8 = 4;

fn compare_device(answer: &Answer, device: &Device) {
    let id = device.device;
    let [breakdown, overlap, idle, host, classes] =
        ["temporal_breakdown", "overlap", "idle", "idle_host", "kernel_classes"].map(|t| answer.rows(t));
    let of_device: Vec<Record> = idle.iter().filter(|r| r.opt_int("stream").is_none()).cloned().collect();
    let communicates = device.windows.iter().any(|w| cells(w, K, 0) > 0);
    for w in &device.windows {
        let r = one(&breakdown, id, w);
        assert_eq!(r.int("dur_ns"), w.dur, "{w:?}");
        assert!(w.dur == 0 || r.int("ts_ns") - ORIGIN == w.start, "{w:?}: {}", r.0);
        let expected = [
            ("compute_ns", cells(w, C, 0)),
            ("exposed_communication_ns", cells(w, K, C)),
            ("copies_ns", cells(w, M, C | K)),
            ("idle_ns", w.sets[0]),
            ("communication_ns", cells(w, K, 0)),
            ("memory_ns", cells(w, M, 0)),
            ("busy_ns", w.dur - w.sets[0]),
        ];
        for (column, ns) in expected {
            assert_eq!(r.int(column), ns, "{column} {w:?}");
        }
        let rows = find(&overlap, id, w);
        assert_eq!(rows.len(), usize::from(communicates), "{w:?}");
        for r in rows {
            let got = ["communication_ns", "compute_ns", "overlap_ns", "exposed_ns"].map(|c| r.int(c));
            assert_eq!(got, [cells(w, K, 0), cells(w, C, 0), cells(w, C | K, 0), cells(w, K, C)], "{w:?}");
        }
        for r in find(&classes, id, w) {
            let bit = |c| {
                [("compute", 0), ("communication", 1), ("memory", 2)]
                    .iter()
                    .find(|x| x.0 == c)
                    .map(|x| 1 << x.1)
            };
            let set: usize = r.text("classes").split('+').map(|c| bit(c).expect("a class")).sum();
            assert_eq!(r.int("time_ns"), w.sets[set], "{w:?} {}", r.0);
        }
        let r = one(&of_device, id, w);
        let columns = ["gap_count", "idle_ns", "host_wait_ns", "kernel_wait_ns", "other_ns", "unlinked_ns"];
        let got = columns.map(|c| r.int(c));
        assert_eq!(got, [w.gaps, w.sets[0], w.host_wait, w.kernel_wait, w.other, w.unlinked], "{w:?}");
        let mut names: BTreeMap<String, i64> = BTreeMap::new();
        for r in find(&host, id, w) {
            *names.entry(r.text("name").to_string()).or_default() += r.int("time_ns");
        }
        assert_eq!(names, w.host, "{w:?}");
    }
    let streams: BTreeMap<i64, [i64; 7]> = idle
        .iter()
        .filter(|r| r.opt_int("device") == id)
        .filter_map(|r| {
            let columns = [
                "gap_count",
                "idle_ns",
                "host_wait_ns",
                "kernel_wait_ns",
                "other_ns",
                "unlinked_ns",
                "other_stream_busy_ns",
            ];
            r.opt_int("stream").map(|s| (s, columns.map(|c| r.int(c))))
        })
        .collect();
    assert_eq!(streams, device.streams, "streams of {id:?}");
}

/// Durations by device, scope, step and name; an activity's step is that of its launch.
type Names = BTreeMap<(i64, String, Option<i64>, String), Vec<i64>>;

fn compare_names(answer: &Answer, rows: &[Row], brute: &Brute) {
    let mut names: Names = BTreeMap::new();
    for r in rows.iter().filter(|r| r.kind == Kind::Gpu) {
        // Without marked steps the only step is everything.
        let by_mark = brute.step_at(r.launch.map_or(r.start, |l| rows[l].start));
        let unmarked = !rows.iter().any(|r| r.kind == Kind::Step) && !brute.steps.is_empty();
        let step = if unmarked { Some(0) } else { by_mark };
        let own = if step.is_some() { "step" } else { "outside" };
        let mut scopes = vec![("span", None)];
        if !brute.steps.is_empty() {
            scopes.push((own, step));
        }
        for (scope, step) in scopes {
            names
                .entry((r.device, scope.to_string(), step, r.name.clone()))
                .or_default()
                .push(r.end - r.start);
        }
    }
    let table = answer.rows("kernels_by_name");
    assert_eq!(table.len(), names.len());
    for r in &table {
        let key =
            (r.int("device"), r.text("scope").to_string(), r.opt_int("step"), r.text("name").to_string());
        let durations = names.get_mut(&key).unwrap_or_else(|| panic!("{key:?} is not in the plan"));
        durations.sort_unstable();
        let n = durations.len();
        let got = ["count", "sum_ns", "min_ns", "max_ns", "p50_ns", "p95_ns"].map(|c| r.int(c));
        // nearest rank: the value at position ceil(q n), counted from 1
        let nearest = |q: usize| durations[(q * n).div_ceil(100) - 1];
        let sum = durations.iter().sum();
        assert_eq!(got, [n as i64, sum, durations[0], durations[n - 1], nearest(50), nearest(95)], "{key:?}");
    }
    let communication: Vec<&Row> =
        rows.iter().filter(|r| r.kind == Kind::Gpu && r.class == Class::Communication).collect();
    let exposed = answer.rows("overlap_kernels");
    let listed: Vec<i64> = exposed.iter().map(|r| r.int("event_id")).collect();
    let mut sorted = listed.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!((listed.len(), sorted.len()), (communication.len(), communication.len()));
    for r in &exposed {
        let k = &rows[r.int("event_id") as usize];
        let under = |t: &i64| {
            rows.iter().any(|c| {
                c.kind == Kind::Gpu
                    && c.class == Class::Compute
                    && c.device == k.device
                    && c.start <= *t
                    && *t < c.end
            })
        };
        let covered = (k.start..k.end).filter(under).count() as i64;
        assert_eq!((r.int("covered_ns"), r.int("dur_ns")), (covered, k.end - k.start), "{}", r.0);
    }
}

/// Every table as sorted rows, without the columns of `but`, times shifted back by `shift`.
fn tables(answer: &Answer, but: &[&str], shift: i64) -> BTreeMap<String, Vec<String>> {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for batch in answer.batches() {
        let rows = all.entry(batch.spec.name.to_string()).or_default();
        for mut row in hta::output::json::records(batch) {
            let cells = row.as_object_mut().expect("a row is an object");
            but.iter().for_each(|c| drop(cells.remove(*c)));
            // Paths differ between runs, and health contains byte offsets.
            cells.remove("file");
            const TIMES: [&str; 8] = [
                "ts_ns",
                "submit_ns",
                "arrival_ns",
                "last_arrival_ns",
                "from_ns",
                "to_ns",
                "recorded_start_ns",
                "recorded_end_ns",
            ];
            let is_time = |c: &str| TIMES.contains(&c) || c.ends_with("_ts_ns");
            for (column, cell) in cells.iter_mut().filter(|(c, _)| is_time(c.as_str())) {
                if let Some(ns) = cell.as_i64() {
                    assert!(ns > 1_000_000_000_000, "{column} is no time");
                    *cell = Value::from(ns - shift);
                }
            }
            rows.push(row.to_string());
        }
        rows.sort_unstable();
    }
    all.remove("health");
    all
}

/// Whether the order of the file decides beyond ties of time, which the shuffled file keeps: if several threads launch
/// equally much, the first is responsible for a gap that nothing ends; if several run equally many operators, the first
/// is the main thread, which decides what happens next while a launching thread does nothing.
fn order_decides(rows: &[Row]) -> bool {
    let tied = |threads: Vec<i64>| {
        let count = |t: i64| threads.iter().filter(|x| **x == t).count();
        count(1) > 0 && count(1) == count(2)
    };
    let gpu: Vec<&Row> = rows.iter().filter(|r| r.kind == Kind::Gpu).collect();
    let launching = |device: i64| {
        gpu.iter().filter(|r| r.device == device).filter_map(|r| r.launch).map(|l| rows[l].thread).collect()
    };
    let running =
        rows.iter().filter(|r| matches!(r.kind, Kind::Op | Kind::CommunicationOp)).map(|r| r.thread);
    tied(launching(0)) || tied(launching(1)) || tied(running.collect())
}

const IDS: [&str; 7] =
    ["event_id", "next_event_id", "next_name", "launch_event_id", "op_event_id", "parent", "first_event_id"];

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn tables_equal_a_count_of_every_nanosecond(plan in plans()) {
        let rows = plan.rows();
        for window in [StepWindow::Host, StepWindow::Device] {
            let Some(brute) = Brute::new(&rows, window == StepWindow::Device, KERNEL_WAIT) else { continue };
            let answer = run(&plan, window, ORIGIN, &Format::default());
            check("a random trace", &answer);
            let devices = brute.devices();
            let windows: usize = devices.iter().map(|d| d.windows.len()).sum();
            // Launch calls without any activity: the device was not recorded, and such a rank has no windows.
            let has = |kind: Kind| rows.iter().any(|r| r.kind == kind);
            if answer.rows("temporal_breakdown").is_empty() && has(Kind::Call) && !has(Kind::Gpu) {
                continue;
            }
            prop_assert_eq!(answer.rows("temporal_breakdown").len(), windows);
            devices.iter().for_each(|d| compare_device(&answer, d));
            compare_names(&answer, &rows, &brute);
        }
    }

    #[test]
    fn another_order_of_events_changes_only_their_ids(plan in plans(), seed in any::<u64>()) {
        let rows = plan.rows();
        prop_assume!(Brute::new(&rows, false, KERNEL_WAIT).is_some() && !order_decides(&rows));
        let shuffled = Format { shuffle: Some(seed), ..Format::default() };
        let as_written = run(&plan, StepWindow::Device, ORIGIN, &Format::default());
        let other = run(&plan, StepWindow::Device, ORIGIN, &shuffled);
        // In the path, activities that end together are ordered by event id; the shuffled file keeps only the order of
        // those that start together. Notes have a sentence about it.
        let of_path = |(table, _): &(String, Vec<String>)| table.starts_with("critical_path") || table == "notes";
        let of_other = tables(&other, &IDS, 0);
        for (table, rows) in tables(&as_written, &IDS, 0).into_iter().filter(|t| !of_path(t)) {
            let others = &of_other[&table];
            let only = |a: &[String], b: &[String]| {
                let b: BTreeSet<&String> = b.iter().collect();
                a.iter().filter(|r| !b.contains(r)).cloned().collect::<Vec<_>>()
            };
            prop_assert_eq!(only(&rows, others), only(others, &rows), "{}", table);
            prop_assert_eq!(rows.len(), others.len(), "{}", table);
        }
    }

    #[test]
    fn a_trace_by_cuspy_differs_only_in_what_cuspy_does_not_record(plan in plans()) {
        prop_assume!(Brute::new(&plan.rows(), false, KERNEL_WAIT).is_some());
        // SM efficiency and occupancy follow from what Kineto rounds, and Cuspy does not record.
        const ROUNDED: [&str; 6] = [
            "unpacked_bytes",
            "recorder",
            "blocks_per_sm",
            "sm_efficiency_ratio",
            "est_occupancy_pct",
            "occupancy_known_pct",
        ];
        let is_rounded = |row: &&String| ROUNDED.iter().any(|c| row.contains(&format!("\"counter\":\"{c}\"")));
        let of = |recorder| {
            let answer = run(&plan, StepWindow::Device, ORIGIN, &Format { recorder, ..Format::default() });
            let mut all = tables(&answer, &ROUNDED, 0);
            all.values_mut().for_each(|rows| rows.retain(|row| !is_rounded(&row)));
            all
        };
        prop_assert_eq!(of(TestRecorder::Kineto), of(TestRecorder::Cuspy));
    }

    #[test]
    fn a_common_shift_changes_only_times(plan in plans(), shift in 1i64..4_000_000_000_000) {
        prop_assume!(Brute::new(&plan.rows(), false, KERNEL_WAIT).is_some());
        let first = run(&plan, StepWindow::Host, ORIGIN, &Format::default());
        let later = run(&plan, StepWindow::Host, ORIGIN + shift, &Format::default());
        // Numbers, and so the text, become longer.
        prop_assert_eq!(tables(&first, &["unpacked_bytes"], 0), tables(&later, &["unpacked_bytes"], shift));
    }
}
