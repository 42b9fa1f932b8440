//! Invariants between the tables of one answer, for any trace.

use crate::analyses::{annotations, launches};
use crate::run::{Answer, Record, device_windows, options, try_run};
use crate::shared;
use hta::run::RunError;
use hta::trace::step::StepWindow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Rank, device, scope and step of a row: one window.
type Window = (i64, Option<i64>, String, Option<i64>);

fn window(row: &Record) -> Window {
    (row.int("rank"), row.opt_int("device"), row.text("scope").to_string(), row.opt_int("step"))
}

fn by_window(rows: &[Record]) -> BTreeMap<Window, Vec<&Record>> {
    let mut map: BTreeMap<Window, Vec<&Record>> = BTreeMap::new();
    for row in rows {
        map.entry(window(row)).or_default().push(row);
    }
    map
}

pub fn sum(rows: &[&Record], column: &str) -> i64 {
    rows.iter().map(|r| r.int(column)).sum()
}

/// All checks; `what` names the input. Returns the number of windows that were checked.
pub fn check(what: &str, answer: &Answer) -> usize {
    let breakdown = answer.rows("temporal_breakdown");
    let windows = by_window(&breakdown);
    assert!(windows.values().all(|rows| rows.len() == 1), "{what}: a window with two rows");
    windows_are_shared_out(what, &breakdown);
    steps_and_outside_are_the_capture(
        what,
        &breakdown,
        &["dur_ns", "compute_ns", "exposed_communication_ns", "copies_ns", "idle_ns", "busy_ns"],
    );
    steps_and_outside_are_the_capture(what, &breakdown, &["communication_ns", "memory_ns"]);
    overlap_is_part_of_communication(what, answer, &windows);
    classes_sum_to_busy(what, answer, &windows);
    names_sum_to_durations(what, answer);
    idle_time_is_explained(what, answer, &windows);
    streams_have_no_negative_gap(what, answer);
    steps_are_disjoint(what, answer);
    crate::analyses::queue::check(what, answer);
    crate::analyses::copies::check(what, answer);
    crate::analyses::counters::check(what, answer);
    crate::analyses::critical_path::tiles(what, answer);
    launches::check(what, answer);
    annotations::check(what, answer);
    crate::analyses::steps::check(what, answer);
    windows.len()
}

fn windows_are_shared_out(what: &str, breakdown: &[Record]) {
    for r in breakdown {
        let own = ["compute_ns", "exposed_communication_ns", "copies_ns"].map(|c| r.int(c));
        assert!(own.iter().all(|p| *p >= 0) && r.int("idle_ns") >= 0, "{what}: {}", r.0);
        assert_eq!(own.iter().sum::<i64>(), r.int("busy_ns"), "{what}: {}", r.0);
        assert_eq!(r.int("busy_ns") + r.int("idle_ns"), r.int("dur_ns"), "{what}: {}", r.0);
        assert!(r.int("exposed_communication_ns") <= r.int("communication_ns"), "{what}: {}", r.0);
        assert!(r.int("copies_ns") <= r.int("memory_ns"), "{what}: {}", r.0);
    }
}

fn steps_and_outside_are_the_capture(what: &str, rows: &[Record], columns: &[&str]) {
    let devices: BTreeSet<_> = rows.iter().map(|r| (r.int("rank"), r.opt_int("device"))).collect();
    for device in devices {
        let of = |scopes: &[&str]| -> Vec<&Record> {
            let same = |r: &&Record| (r.int("rank"), r.opt_int("device")) == device;
            rows.iter().filter(same).filter(|r| scopes.contains(&r.text("scope"))).collect()
        };
        let (parts, capture) = (of(&["step", "outside"]), of(&["capture"]));
        assert_eq!(capture.len(), 1, "{what}: {device:?}");
        assert_eq!(of(&["outside"]).len(), usize::from(!of(&["step"]).is_empty()), "{what}: {device:?}");
        if parts.is_empty() {
            continue;
        }
        for column in columns {
            assert_eq!(sum(&parts, column), capture[0].int(column), "{what}: {device:?} {column}");
        }
    }
}

fn overlap_is_part_of_communication(what: &str, answer: &Answer, windows: &BTreeMap<Window, Vec<&Record>>) {
    let overlap = answer.rows("overlap");
    let with: BTreeSet<_> = overlap.iter().map(|r| (r.int("rank"), r.opt_int("device"))).collect();
    for r in &overlap {
        let (communication, compute) = (r.int("communication_ns"), r.int("compute_ns"));
        assert_eq!(r.int("overlap_ns") + r.int("exposed_ns"), communication, "{what}: {}", r.0);
        assert!(r.int("overlap_ns") <= communication.min(compute), "{what}: {}", r.0);
        let same = windows.get(&window(r)).unwrap_or_else(|| panic!("{what}: no window {}", r.0))[0];
        assert_eq!(r.int("exposed_ns"), same.int("exposed_communication_ns"), "{what}: {}", r.0);
        assert_eq!(
            (communication, compute),
            (same.int("communication_ns"), same.int("compute_ns")),
            "{what}"
        );
        let ratio = r.float("overlap_ratio");
        assert_eq!(ratio.is_none(), communication == 0, "{what}: {}", r.0);
        assert!(ratio.is_none_or(|x| (0.0..=1.0).contains(&x)), "{what}: {}", r.0);
    }
    for (key, rows) in windows {
        let has = with.contains(&(key.0, key.1));
        assert!(has || rows[0].int("communication_ns") == 0, "{what}: {key:?} is missing from overlap");
    }
    for r in answer.rows("overlap_kernels") {
        assert_eq!(r.int("covered_ns") + r.int("exposed_ns"), r.int("dur_ns"), "{what}: {}", r.0);
        assert!(r.int("covered_ns") >= 0 && r.int("exposed_ns") >= 0, "{what}: {}", r.0);
    }
}

fn classes_sum_to_busy(what: &str, answer: &Answer, windows: &BTreeMap<Window, Vec<&Record>>) {
    let rows = answer.rows("kernel_classes");
    let classes = by_window(&rows);
    assert!(classes.keys().eq(windows.keys()), "{what}: kernel_classes has other windows");
    for (key, rows) in &classes {
        let whole = windows[key][0];
        let names: BTreeSet<_> = rows.iter().map(|r| r.text("classes")).collect();
        assert_eq!((rows.len(), names.len()), (7, 7), "{what}: {key:?}");
        assert_eq!(sum(rows, "time_ns"), whole.int("busy_ns"), "{what}: {key:?}");
        for (class, column) in
            [("compute", "compute_ns"), ("communication", "communication_ns"), ("memory", "memory_ns")]
        {
            let with: Vec<&Record> =
                rows.iter().copied().filter(|r| r.text("classes").split('+').any(|c| c == class)).collect();
            assert_eq!(sum(&with, "time_ns"), whole.int(column), "{what}: {key:?} {class}");
        }
    }
}

fn names_sum_to_durations(what: &str, answer: &Answer) {
    let (names, kernels) = (answer.rows("kernels_by_name"), answer.rows("kernels"));
    for r in &names {
        let [count, sum, min, max] = ["count", "sum_ns", "min_ns", "max_ns"].map(|c| r.int(c));
        assert!(count > 0 && count * min <= sum && sum <= count * max, "{what}: {}", r.0);
        let (p50, p95) = (r.int("p50_ns"), r.int("p95_ns"));
        assert!(min <= p50 && p50 <= p95 && p95 <= max, "{what}: {}", r.0);
        assert_eq!(r.float("std_ns").is_none(), count == 1, "{what}: {}", r.0);
    }
    let devices: BTreeSet<_> = kernels.iter().map(|r| (r.int("rank"), r.opt_int("device"))).collect();
    let named: BTreeSet<_> = names.iter().map(|r| (r.int("rank"), r.opt_int("device"))).collect();
    assert_eq!(devices, named, "{what}");
    for device in devices {
        let own = |rows: &[Record]| -> (i64, i64) {
            let mine = rows.iter().filter(|r| (r.int("rank"), r.opt_int("device")) == device);
            mine.fold((0, 0), |(n, t), r| {
                let n_here = if r.has("count") { r.int("count") } else { 1 };
                let t_here = if r.has("sum_ns") { r.int("sum_ns") } else { r.int("dur_ns") };
                (n + n_here, t + t_here)
            })
        };
        let scoped = |keep: &dyn Fn(&str) -> bool| -> (i64, i64) {
            own(&names.iter().filter(|r| keep(r.text("scope"))).cloned().collect::<Vec<_>>())
        };
        let all = own(&kernels);
        assert_eq!(scoped(&|s| s == "span"), all, "{what}: {device:?}");
        let stepped = names.iter().any(|r| r.text("scope") != "span");
        assert!(!stepped || scoped(&|s| s != "span") == all, "{what}: {device:?}: steps and outside");
    }
    for r in answer.rows("ranks") {
        let own = kernels.iter().filter(|k| k.int("rank") == r.int("rank"));
        assert_eq!(own.count() as i64, r.int("activity_count"), "{what}");
    }
}

fn idle_time_is_explained(what: &str, answer: &Answer, windows: &BTreeMap<Window, Vec<&Record>>) {
    let (idle, host) = (answer.rows("idle"), answer.rows("idle_host"));
    let of_device: Vec<Record> = idle.iter().filter(|r| r.opt_int("stream").is_none()).cloned().collect();
    let used = by_window(&host);
    for r in &idle {
        let parts = ["host_wait_ns", "kernel_wait_ns", "other_ns"].map(|c| r.int(c));
        assert!(parts.iter().all(|p| *p >= 0), "{what}: {}", r.0);
        assert_eq!(parts.iter().sum::<i64>(), r.int("idle_ns"), "{what}: {}", r.0);
        assert!((0..=parts[2]).contains(&r.int("unlinked_ns")), "{what}: {}", r.0);
        assert!((0..=parts[2]).contains(&r.int("other_stream_busy_ns")), "{what}: {}", r.0);
        assert_eq!(r.int("gap_count") == 0, r.int("idle_ns") == 0, "{what}: {}", r.0);
    }
    steps_and_outside_are_the_capture(
        what,
        &of_device,
        &["idle_ns", "host_wait_ns", "kernel_wait_ns", "other_ns"],
    );
    let of_windows = by_window(&of_device);
    assert!(of_windows.keys().eq(windows.keys()), "{what}: idle has other windows");
    for (key, rows) in &of_windows {
        assert_eq!(
            (rows.len(), rows[0].int("idle_ns")),
            (1, windows[key][0].int("idle_ns")),
            "{what}: {key:?}"
        );
        let waited = used.get(key).map_or(0, |rows| sum(rows, "time_ns"));
        assert_eq!(waited, rows[0].int("host_wait_ns"), "{what}: {key:?}: what the host did");
    }
    assert!(used.keys().all(|k| of_windows.contains_key(k)), "{what}");
    assert!(host.iter().all(|r| r.int("time_ns") > 0 && r.int("gap_count") > 0), "{what}");
}

/// A stream's idle time is its span without the union of its activities, and its gaps add up to it.
fn streams_have_no_negative_gap(what: &str, answer: &Answer) {
    let (idle, gaps, kernels) = (answer.rows("idle"), answer.rows("idle_gaps"), answer.rows("kernels"));
    let place = |r: &Record| (r.int("rank"), r.opt_int("device"), r.opt_int("stream"));
    let mut found = BTreeMap::new();
    for g in &gaps {
        let parts = ["host_wait_ns", "kernel_wait_ns", "other_ns"].map(|c| g.int(c));
        assert!(g.int("dur_ns") > 0 && parts.iter().sum::<i64>() == g.int("dur_ns"), "{what}: {}", g.0);
        *found.entry(place(g)).or_insert(0) += g.int("dur_ns");
    }
    let mut streams: BTreeMap<_, Vec<(i64, i64)>> = BTreeMap::new();
    for k in kernels.iter().filter(|k| k.opt_int("stream").is_some()) {
        streams.entry(place(k)).or_default().push((k.int("ts_ns"), k.int("ts_ns") + k.int("dur_ns")));
    }
    let rows: BTreeMap<_, _> =
        idle.iter().filter(|r| r.opt_int("stream").is_some()).map(|r| (place(r), r)).collect();
    assert!(rows.keys().eq(streams.keys()), "{what}: streams");
    let captures: BTreeMap<_, i64> = idle
        .iter()
        .filter(|r| r.opt_int("stream").is_none() && r.text("scope") == "capture")
        .map(|r| ((r.int("rank"), r.opt_int("device")), r.int("ts_ns")))
        .collect();
    for (key, mut spans) in streams {
        spans.sort_unstable();
        // The capture of a device begins after its lead.
        let (mut at, mut nothing) = (spans[0].0.max(captures[&(key.0, key.1)]), 0);
        for (start, end) in spans {
            nothing += (start - at).max(0);
            at = at.max(end);
        }
        assert_eq!(rows[&key].int("idle_ns"), nothing, "{what}: {key:?}");
        assert_eq!(found.get(&key).copied().unwrap_or(0), nothing, "{what}: {key:?}: gaps");
    }
    for r in idle.iter().filter(|r| r.opt_int("stream").is_none() && r.text("scope") == "capture") {
        assert_eq!(
            found.get(&place(r)).copied().unwrap_or(0),
            r.int("idle_ns"),
            "{what}: gaps of the device"
        );
    }
}

fn steps_are_disjoint(what: &str, answer: &Answer) {
    iterations(what, answer);
    let mut last: Option<(i64, i64)> = None;
    for r in answer.rows("steps") {
        let (rank, start) = (r.int("rank"), r.int("ts_ns"));
        assert!(r.int("dur_ns") >= 0, "{what}: {}", r.0);
        assert!(last.is_none_or(|(before, end)| before != rank || end <= start), "{what}: {}", r.0);
        last = Some((rank, start + r.int("dur_ns")));
    }
}

/// Iterations: each is divided without rest; lead, windows, what lies between and the tail are the recorded time of the
/// device.
fn iterations(what: &str, answer: &Answer) {
    let recorded: BTreeMap<i64, (i64, i64)> = answer
        .rows("ranks")
        .iter()
        .map(|r| (r.int("rank"), (r.int("first_ts_ns"), r.int("last_ts_ns"))))
        .collect();
    let mut devices: BTreeMap<(i64, Option<i64>), Vec<Record>> = BTreeMap::new();
    for r in answer.rows("iterations") {
        let sum = |parts: &[&str]| parts.iter().map(|c| r.int(c)).sum::<i64>();
        assert_eq!(sum(&["window_busy_ns", "idle_ns"]), r.int("dur_ns"), "{what}: {}", r.0);
        let idle = ["idle_before_graph_ns", "idle_in_graph_call_ns", "idle_rest_ns"];
        assert_eq!(sum(&idle), r.int("idle_ns"), "{what}: {}", r.0);
        let after =
            ["sync", "api", "operator", "python", "waiting", "other"].map(|p| format!("host_after_{p}_ns"));
        assert_eq!(sum(&after.each_ref().map(String::as_str)), r.int("host_after_ns"), "{what}: {}", r.0);
        let most = r.int("host_after_ns").max(r.opt_int("gap_idle_ns").unwrap_or(0));
        assert!((0..=most).contains(&r.int("host_exposed_ns")), "{what}: {}", r.0);
        assert!(r.int("gpu_busy_ns") <= r.int("gpu_sum_ns"), "{what}: {}", r.0);
        if let Some(gap) = r.opt_int("gap_ns") {
            assert_eq!(sum(&["post_busy_ns", "gap_idle_ns"]), gap, "{what}: {}", r.0);
            assert_eq!(r.int("period_ns"), r.int("dur_ns") + gap, "{what}: {}", r.0);
        }
        devices.entry((r.int("rank"), r.opt_int("device"))).or_default().push(r);
    }
    for ((rank, device), rows) in devices {
        let edge = |scope: &str| {
            let is_it = |r: &Record| {
                r.int("rank") == rank && r.opt_int("device") == device && r.text("scope") == scope
            };
            let of = answer.rows_where("record_edges", is_it);
            of.first().map(|r| (r.int("from_ns"), r.int("to_ns")))
        };
        let (first, last) = recorded[&rank];
        let begin = edge("lead").map_or(first, |lead| lead.1);
        let end = edge("lost_tail").map_or(last, |tail| tail.0);
        let windows: i64 = rows.iter().map(|r| r.int("dur_ns")).sum();
        let between: i64 = rows.iter().filter_map(|r| r.opt_int("gap_ns")).sum();
        let before = rows[0].int("ts_ns") - begin;
        let last_row = &rows[rows.len() - 1];
        let tail = end - last_row.int("ts_ns") - last_row.int("dur_ns");
        assert!(before >= 0 && tail >= 0, "{what}: {before}, {tail}");
        assert_eq!(
            (begin - first) + before + windows + between + tail + (last - end),
            last - first,
            "{what}"
        );
    }
}

/// Every check on each file alone; files that give an error must be refused, not wrong. Returns the number of readable
/// files and of windows.
pub fn check_files(files: &[PathBuf]) -> (usize, usize) {
    let (mut readable, mut windows) = (0, 0);
    for file in files {
        for options in [options(), device_windows()] {
            let what = format!("{} ({:?})", file.display(), options.model.step_window);
            match try_run(std::slice::from_ref(file), &options) {
                Ok(answer) => {
                    readable += usize::from(options.model.step_window == StepWindow::Host);
                    windows += check(&what, &answer);
                }
                Err(RunError::NothingReadable(refused)) => {
                    assert!(refused.iter().all(|r| !r.error.to_string().is_empty()), "{what}");
                }
                Err(other) => panic!("{what}: {other}"),
            }
        }
    }
    (readable, windows)
}

pub fn traces_below(folder: &Path) -> Vec<PathBuf> {
    shared::files_below(folder).into_iter().filter(|f| shared::looks_like_a_trace(f)).collect()
}

#[test]
fn parts_sum_to_the_whole_on_every_sample() {
    let samples = shared::samples();
    let (readable, windows) = check_files(&traces_below(&samples));
    // 8 GPU ranks with 5 steps, 4 of a pipeline and 4 with experts, 4 CPU ranks with 3 steps, 2 CPU processes, one GPU
    // with 8 steps, one file of counters, one of an engine and one of its captures, two of one GPU with samples of its
    // clocks; ground truths and answers are not traces.
    assert_eq!(readable, 8 + 4 + 4 + 4 + 2 + 4 + 2);
    assert!(windows >= 2 * (8 * (5 + 3) + 4 * (3 + 3) + 2 * 3), "{windows}");
    for set in ["gpu_ddp8", "gloo_ddp4"] {
        let answer = try_run(&[samples.join(set)], &options()).expect("a good set");
        check(set, &answer);
    }
}
