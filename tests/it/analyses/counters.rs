//! Counters: by eye, by brute force, and against the TensorBoard plugin.

use crate::run::{Answer, Record, answer, options, rank_trace};
use hta::analysis::api::Options;
use hta::analysis::counters::series::{DeviceCounter, bucket_width, series};
use hta::units::Span;
use hta_testkit::{Format, TraceBuilder, us};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Rank, device, counter.
type Series = (i64, Option<i64>, String);

/// First start, latest end, values times widths.
type Sum = (i64, i64, f64);

/// Invariants of every trace: buckets tile the capture, and values times widths are the time with kernels.
pub fn check(what: &str, answer: &Answer) {
    let rows = answer.rows("counters");
    let means = answer.rows("counter_means");
    let mut buckets: BTreeMap<Series, Sum> = BTreeMap::new();
    for r in
        rows.iter().filter(|r| r.text("counter").ends_with("_ratio") || r.text("counter").ends_with("_pct"))
    {
        let key = (r.int("rank"), r.opt_int("device"), r.text("counter").to_string());
        let sum = buckets.entry(key).or_insert((r.int("ts_ns"), r.int("ts_ns"), 0.0));
        assert_eq!(sum.1, r.int("ts_ns"), "{what}: a gap before {}", r.0);
        sum.1 += r.int("dur_ns");
        let most = if r.text("unit") == "%" { f64::INFINITY } else { 1.0 };
        assert!(r.float("value").is_none_or(|v| (0.0..=most).contains(&v)), "{what}: {}", r.0);
        sum.2 += r.float("value").unwrap_or(0.0) * r.int("dur_ns") as f64;
    }
    for r in means.iter().filter(|r| r.text("scope") == "capture") {
        let of = |counter: &str| buckets.get(&(r.int("rank"), r.opt_int("device"), counter.to_string()));
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-6 + 1e-9 * b.abs();
        match of("gpu_utilization_ratio") {
            None => assert_eq!(r.int("kernel_ns"), 0, "{what}: {}", r.0),
            Some((start, end, area)) => {
                assert_eq!(
                    (*start, *end),
                    (r.int("ts_ns"), r.int("ts_ns") + r.int("dur_ns")),
                    "{what}: {}",
                    r.0
                );
                assert!(near(*area, r.int("kernel_ns") as f64), "{what}: {area} {}", r.0);
            }
        }
        if let (Some((_, _, area)), Some(mean)) = (of("sm_efficiency_ratio"), r.float("sm_efficiency_ratio"))
        {
            assert!(near(*area, mean * r.int("dur_ns") as f64), "{what}: {area} {}", r.0);
        }
    }
    let windows: BTreeMap<_, &Record> = means
        .iter()
        .map(|r| ((r.int("rank"), r.opt_int("device"), r.text("scope"), r.opt_int("step")), r))
        .collect();
    for b in answer.rows("temporal_breakdown").iter().filter(|b| b.text("basis") == "gpu") {
        let key = (b.int("rank"), b.opt_int("device"), b.text("scope"), b.opt_int("step"));
        let kernels = b.int("compute_ns") + b.int("exposed_communication_ns");
        assert_eq!(windows[&key].int("kernel_ns"), kernels, "{what}: {}", b.0);
    }
    // Both tables agree on values that are in both.
    let of = |table: &str, column: &str| -> f64 {
        answer.rows(table).iter().filter_map(|r| r.float(column)).fold(0.0, f64::max)
    };
    let most = |counter: &str| {
        rows.iter()
            .filter(|r| r.text("counter") == counter)
            .filter_map(|r| r.float("value"))
            .fold(0.0, f64::max)
    };
    assert_eq!(most("queue_length"), of("queue_length", "queue_length"), "{what}");
    assert_eq!(most("memory_bandwidth"), of("memory_bandwidth", "bandwidth_gb_per_s"), "{what}");
}

fn with_buckets(us: &str) -> Options {
    let all = hta::registry::ANALYSES.iter().flat_map(|a| a.about().settings);
    let setting = all.into_iter().find(|s| s.flag == "--bucket-us").expect("a declared option");
    let mut options = options();
    options.settings.set(setting, us).expect("a width");
    options
}

fn write(t: &TraceBuilder) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("rank_0.json");
    std::fs::write(&path, t.to_bytes(&Format::default())).expect("a temporary file can be written");
    (folder, path)
}

fn values(answer: &Answer, counter: &str) -> Vec<Option<f64>> {
    answer.rows_where("counters", |r| r.text("counter") == counter).iter().map(|r| r.float("value")).collect()
}

/// ```text
/// us           0         10        20   25
/// launches     |.........................|     the capture
/// kernel a          [=========)                66 blocks on 132 SMs, occupancy 50
/// kernel b               [====)                99 blocks, occupancy 20
/// copy                        [=========)
/// buckets      |.........|.........|....|
/// ```
#[test]
fn buckets_hold_shares_of_their_own_width_and_the_last_one_is_shorter() {
    let mut t = TraceBuilder::new().rank(0).device("NVIDIA H100", 132);
    let mut main = t.thread(1);
    main.op("aten::all", us(0)..us(25));
    main.launch(us(0)..us(1))
        .kernel("a", 7, us(5)..us(15))
        .grid([66, 1, 1])
        .arg("est. achieved occupancy %", 50);
    main.launch(us(1)..us(2))
        .kernel("b", 8, us(10)..us(15))
        .grid([99, 1, 1])
        .arg("est. achieved occupancy %", 20);
    main.launch(us(2)..us(3)).memcpy("DtoD (Device -> Device)", 7, 64, us(15)..us(25));
    let (_folder, path) = write(&t);
    let answer = answer(&[path], &with_buckets("10"));
    check("by eye", &answer);
    assert_eq!(values(&answer, "gpu_utilization_ratio"), [Some(0.5), Some(0.5), Some(0.0)]);
    // half of the SMs for 5 us, then all of them: 0.5 + 0.75 is capped at 1
    assert_eq!(values(&answer, "sm_efficiency_ratio"), [Some(0.25), Some(0.5), Some(0.0)]);
    assert_eq!(values(&answer, "est_occupancy_pct"), [Some(50.0), Some(35.0), None]);
    let widths: Vec<i64> = answer
        .rows_where("counters", |r| r.text("counter") == "gpu_utilization_ratio")
        .iter()
        .map(|r| r.int("dur_ns"))
        .collect();
    assert_eq!(widths, [us(10), us(10), us(5)]);
    let mean = answer.rows_where("counter_means", |r| r.text("scope") == "capture");
    let got = ["gpu_utilization_ratio", "sm_efficiency_ratio", "est_occupancy_pct"].map(|c| mean[0].float(c));
    assert_eq!(got, [Some(0.4), Some(0.3), Some(40.0)]);
}

#[test]
fn blocks_per_sm_come_from_the_grid_where_the_argument_is_missing() {
    let mut t = TraceBuilder::new().rank(0).device("NVIDIA H100", 132);
    t.thread(1)
        .launch(us(0)..us(1))
        .kernel("k", 7, us(0)..us(10))
        .grid([11, 3, 2])
        .without("blocks per SM")
        .without("est. achieved occupancy %");
    let (_folder, path) = write(&t);
    let answer = answer(&[path], &options());
    let mean = answer.rows_where("counter_means", |r| r.text("scope") == "capture");
    assert_eq!((mean[0].float("sm_efficiency_ratio"), mean[0].float("est_occupancy_pct")), (Some(0.5), None));
    assert_eq!(
        (mean[0].float("blocks_known_pct"), mean[0].float("occupancy_known_pct")),
        (Some(100.0), Some(0.0))
    );
    let counters = answer.rows("counters");
    assert!(counters.iter().all(|r| r.text("counter") != "est_occupancy_pct"));
}

#[test]
fn a_counter_without_its_inputs_is_left_out_with_a_reason() {
    let mut t = TraceBuilder::new().rank(0);
    t.unlinked().kernel("k", 7, us(0)..us(10));
    let (_folder, path) = write(&t);
    let found = series(&rank_trace(&path, 0), &DeviceCounter::ALL, None);
    let names: Vec<&str> = found.series.iter().map(|s| s.counter.name()).collect();
    assert_eq!(names, ["gpu_utilization_ratio"]);
    let missing: Vec<(&str, &str)> = found.missing.iter().map(|(c, why)| (c.name(), *why)).collect();
    let want = [
        ("queue_length", "no launches recorded"),
        ("memory_bandwidth", "no copies with a size and a length"),
        ("sm_efficiency_ratio", "kernels have neither blocks per SM nor a grid and the number of SMs"),
        ("est_occupancy_pct", "kernels have no estimated occupancy"),
    ];
    assert_eq!(missing, want);
    let mut t = TraceBuilder::new().rank(0);
    t.thread(1).op("aten::mm", us(0)..us(9));
    let (_folder, path) = write(&t);
    let cpu_only = series(&rank_trace(&path, 0), &[DeviceCounter::SmEfficiency], None);
    assert_eq!(
        (cpu_only.series.len(), cpu_only.missing),
        (0, vec![(DeviceCounter::SmEfficiency, "no GPU activity")])
    );
}

#[test]
fn a_bucket_is_a_hundredth_of_the_capture_rounded_up() {
    let width = |ns| bucket_width(Span::new(7, 7 + ns), None);
    assert_eq!(
        [us(1), us(100), us(101), us(250), us(7_000), 123_456_789].map(width),
        [us(1), us(1), us(2), us(5), us(100), us(2_000)]
    );
    // The number of buckets is limited to a million.
    assert_eq!(bucket_width(Span::new(0, us(3_000_000)), Some(us(1))), us(5));
    assert_eq!(bucket_width(Span::new(0, us(3_000_000)), Some(us(3))), us(3));
}

pub fn near(a: Option<f64>, b: f64) -> bool {
    a.is_some_and(|a| (a - b).abs() <= 1e-12 * b.abs())
}

/// Start, length, blocks per SM and occupancy, in hundredths where recorded.
type Kernel = (i64, i64, Option<u32>, Option<u32>);

pub fn kernel() -> impl Strategy<Value = Kernel> {
    let value = || prop::option::weighted(0.8, 0u32..150);
    (0i64..9_000, prop_oneof![1 => Just(0i64), 6 => 1i64..4_000], value(), value())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 80, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn buckets_equal_a_count_of_every_nanosecond(all in prop::collection::vec(kernel(), 1..8), width in 1i64..5) {
        let mut t = TraceBuilder::new().rank(0);
        t.thread(1).op("aten::all", 0..12_345);
        for (i, (start, dur, blocks, occupancy)) in all.iter().enumerate() {
            let at = i as i64;
            let mut main = t.thread(1);
            let mut row = main.launch(at..at + 1).kernel("k", at, *start..*start + *dur);
            if let Some(b) = blocks {
                row = row.arg("blocks per SM", f64::from(*b) / 100.0);
            }
            if let Some(o) = occupancy {
                row.arg("est. achieved occupancy %", f64::from(*o) / 100.0);
            }
        }
        let (_folder, path) = write(&t);
        let answer = answer(&[path], &with_buckets(&width.to_string()));
        check("a random trace", &answer);
        // no kernel ends after 13000
        let end = all.iter().map(|k| k.0 + k.1).max().unwrap_or(0).max(12_345);
        let cells = |from: i64| from..(from + us(width)).min(end);
        let running = |t: i64| all.iter().filter(move |k| k.0 <= t && t < k.0 + k.1);
        for (i, from) in (0..end).step_by(us(width) as usize).enumerate() {
            let len = cells(from).count() as f64;
            let busy = cells(from).filter(|t| running(*t).next().is_some()).count() as f64;
            let utilization = values(&answer, "gpu_utilization_ratio");
            if let Some(got) = utilization.get(i) {
                prop_assert!(near(*got, busy / len), "bucket {}: {:?}", i, got);
            }
            let sm: f64 = cells(from).map(|t| running(t).filter_map(|k| k.2).sum::<u32>().min(100) as f64 / 100.0).sum();
            let known = busy == 0.0 || cells(from).any(|t| running(t).any(|k| k.2.is_some()));
            if let Some(got) = values(&answer, "sm_efficiency_ratio").get(i) {
                prop_assert_eq!(got.is_some(), known);
                prop_assert!(got.is_none_or(|g| (g - sm / len).abs() < 1e-9), "bucket {}: {:?} {}", i, got, sm / len);
            }
            let of = || cells(from).flat_map(running).filter_map(|k| k.3);
            if let Some(got) = values(&answer, "est_occupancy_pct").get(i) {
                let mean = of().map(f64::from).sum::<f64>() / 100.0 / of().count() as f64;
                prop_assert_eq!(got.is_some(), of().next().is_some());
                prop_assert!(got.is_none_or(|g| (g - mean).abs() < 1e-9), "bucket {}: {:?} {}", i, got, mean);
            }
        }
    }
}

#[test]
fn with_less_than_half_of_the_kernels_known_efficiency_and_occupancy_are_unknown() {
    let mean = |known: i64| {
        let mut t = TraceBuilder::new().rank(0);
        let mut main = t.thread(1);
        let kernel = main.launch(us(0)..us(1)).kernel("known", 7, us(10)..us(10 + known));
        kernel.arg("blocks per SM", 0.5).arg("est. achieved occupancy %", 25);
        let kernel = main.launch(us(1)..us(2)).kernel("unknown", 7, us(50)..us(60));
        kernel.without("blocks per SM").without("est. achieved occupancy %");
        let (_folder, path) = write(&t);
        let answer = answer(&[path], &options());
        let row = answer.rows_where("counter_means", |r| r.text("scope") == "capture").remove(0);
        let mut views = answer.views().into_iter();
        let view =
            views.find(|v| v.title.starts_with("How busy kernels keep each device")).expect("the view");
        let shown = view.rows[0][3..5].to_vec();
        (row.float("sm_efficiency_ratio").is_some(), row.float("est_occupancy_pct").is_some(), shown)
    };
    let (efficiency, occupancy, shown) = mean(9);
    assert_eq!((efficiency, occupancy, shown), (false, false, vec!["-".to_string(); 2]));
    let (efficiency, occupancy, shown) = mean(10);
    assert!(efficiency && occupancy && shown.iter().all(|s| s != "-"), "{shown:?}");
}
