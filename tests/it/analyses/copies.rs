//! Copies and sets: by eye, by brute force, and on real traces whose copies were counted without hta.

use crate::run::{Answer, Record, answer, one, options};
use hta_testkit::{Call, Format, TraceBuilder, Vendor, us};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Rank, device and direction.
type Lane = (i64, Option<i64>, String);

fn lane(r: &Record) -> Lane {
    (r.int("rank"), r.opt_int("device"), r.text("direction").to_string())
}

/// Invariants of every trace: directions sum to all copies, steps and outside to the span, and the integral of the
/// bandwidth is the bytes.
pub fn check(what: &str, answer: &Answer) {
    let copies = answer.rows("memory_copies");
    let kernels = answer.rows("kernels");
    let mut sums: BTreeMap<(i64, Option<i64>, String), [i64; 4]> = BTreeMap::new();
    for r in &copies {
        let scope = if r.text("scope") == "span" { "span" } else { "steps" };
        let sum = sums.entry((r.int("rank"), r.opt_int("device"), scope.to_string())).or_default();
        let own =
            [r.int("count"), r.int("dur_sum_ns"), r.opt_int("size_bytes").unwrap_or(0), r.int("sized_count")];
        sum.iter_mut().zip(own).for_each(|(s, o)| *s += o);
        assert!(
            r.int("busy_ns") <= r.int("dur_sum_ns") && r.int("exposed_ns") <= r.int("busy_ns"),
            "{what}: {}",
            r.0
        );
        assert!(
            r.int("sized_count") <= r.int("count") && r.int("sized_dur_ns") <= r.int("dur_sum_ns"),
            "{what}"
        );
        assert!(
            r.int("blocking_count") <= r.int("count") && r.int("async_count") <= r.int("count"),
            "{what}"
        );
        assert_eq!(r.opt_int("size_bytes").is_none(), r.int("sized_count") == 0, "{what}: {}", r.0);
        assert_eq!(r.float("bandwidth_gb_per_s").is_none(), r.int("sized_dur_ns") == 0, "{what}: {}", r.0);
    }
    for ((rank, device, scope), sum) in &sums {
        let own = kernels.iter().filter(|k| {
            k.int("rank") == *rank && k.opt_int("device") == *device && k.text("class") == "memory"
        });
        let all = own.fold((0, 0), |(n, ns), k| (n + 1, ns + k.int("dur_ns")));
        assert_eq!((sum[0], sum[1]), all, "{what}: device {device:?}, {scope}");
        let span = sums.get(&(*rank, *device, "span".to_string()));
        assert_eq!(Some(sum), span, "{what}: device {device:?}, {scope}");
    }
    exposed_is_part_of_the_breakdowns(what, answer, &copies);
    the_integral_is_the_bytes(what, answer, &copies);
    for r in answer.rows("memory_copy_rules") {
        let [busy, call, lost] = ["busy_ns", "call_ns", "no_kernel_ns"].map(|c| r.int(c));
        assert!(lost <= busy + call && busy.max(call) <= r.int("dur_ns") && lost >= 0, "{what}: {}", r.0);
    }
}

/// Exposed copies: together at least what `temporal_breakdown` calls exposed memory, each at most that.
fn exposed_is_part_of_the_breakdowns(what: &str, answer: &Answer, copies: &[Record]) {
    for b in answer
        .rows("temporal_breakdown")
        .iter()
        .filter(|b| b.text("scope") == "span" && b.text("basis") == "gpu")
    {
        let own = copies.iter().filter(|r| {
            r.text("scope") == "span"
                && (r.int("rank"), r.opt_int("device")) == (b.int("rank"), b.opt_int("device"))
        });
        let exposed: Vec<i64> = own.map(|r| r.int("exposed_ns")).collect();
        let whole = b.int("copies_ns");
        assert!(
            exposed.iter().all(|e| *e <= whole) && exposed.iter().sum::<i64>() >= whole,
            "{what}: {}",
            b.0
        );
    }
}

fn the_integral_is_the_bytes(what: &str, answer: &Answer, copies: &[Record]) {
    let mut series: BTreeMap<Lane, Vec<Record>> = BTreeMap::new();
    for r in answer.rows("memory_bandwidth") {
        series.entry(lane(&r)).or_default().push(r);
    }
    let mut bytes: BTreeMap<Lane, (f64, i64)> = BTreeMap::new();
    for r in copies.iter().filter(|r| r.text("scope") == "span") {
        let sum = bytes.entry(lane(r)).or_default();
        sum.0 += r.opt_int("size_bytes").unwrap_or(0) as f64;
        sum.1 += r.int("sized_dur_ns");
    }
    for (key, points) in &series {
        let area: f64 = points
            .windows(2)
            .map(|w| {
                assert!(w[0].int("ts_ns") < w[1].int("ts_ns"), "{what}: {}", w[1].0);
                w[0].float("bandwidth_gb_per_s").unwrap_or(0.0)
                    * (w[1].int("ts_ns") - w[0].int("ts_ns")) as f64
            })
            .sum();
        let (most, _) = bytes[key];
        // Copies of length 0 have bytes, but are not in the series.
        assert!(area <= most * (1.0 + 1e-9) + 1.0, "{what}: {key:?}: {area} of {most}");
        let last = points.last().map(|p| (p.float("bandwidth_gb_per_s"), p.int("copy_count")));
        assert_eq!(last, Some((Some(0.0), 0)), "{what}: {key:?}");
    }
    for (key, (bytes, dur)) in bytes {
        assert!(dur == 0 || bytes == 0.0 || series.contains_key(&key), "{what}: {key:?} has no series");
    }
}

fn write(t: &TraceBuilder) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("rank_0.json");
    std::fs::write(&path, t.to_bytes(&Format::default())).expect("a temporary file can be written");
    (folder, path)
}

const PAGEABLE: &str = "HtoD (Pageable -> Device)";
const PINNED: &str = "HtoD (Pinned -> Device)";

/// ```text
/// us          0    10   20   30   40   50   60
/// calls       |c1.||c2||k.||c3...................|
/// kernel                     [k=======)
/// copies           [c1==)[c2=======)       [c3===)
/// ```
#[test]
fn copies_are_told_apart_by_direction_and_memory_and_their_exposed_time_is_that_without_kernels() {
    let mut t = TraceBuilder::new().rank(0);
    let mut main = t.thread(1);
    main.call(Call::Copy, us(0)..us(5)).memcpy(PINNED, 7, 60_000, us(10)..us(16));
    main.call(Call::Copy, us(6)..us(9)).memcpy(PINNED, 8, 140_000, us(18)..us(32));
    main.launch(us(10)..us(14)).kernel("k", 7, us(26)..us(40));
    main.runtime("cudaMemcpy", us(20)..us(60)).memcpy("DtoH (Device -> Pageable)", 7, 8, us(50)..us(58));
    let (_folder, path) = write(&t);
    let answer = answer(&[path], &options());
    check("by eye", &answer);
    let rows = answer.rows_where("memory_copies", |r| r.text("scope") == "span");
    let kinds: Vec<_> =
        rows.iter().map(|r| (r.text("direction"), r.text("source"), r.text("target"))).collect();
    assert_eq!(kinds, [("DtoH", "device", "pageable"), ("HtoD", "pinned", "device")]);
    let columns =
        ["count", "size_bytes", "dur_sum_ns", "exposed_ns", "async_count", "blocking_count", "call_ns"];
    assert_eq!(columns.map(|c| rows[0].int(c)), [1, 8, us(8), us(8), 0, 1, us(40)]);
    // The kernel covers c2 from 26 to 32.
    assert_eq!(columns.map(|c| rows[1].int(c)), [2, 200_000, us(20), us(14), 2, 0, us(8)]);
    assert_eq!(
        ["bandwidth_gb_per_s", "max_bandwidth_gb_per_s"].map(|c| rows[1].float(c)),
        [Some(10.0), Some(10.0)]
    );
    // The synchronous copy: its call and the copy, without the kernel, take 20 to 26 and 40 to 60.
    let rule = one(answer.rows_where("memory_copy_rules", |r| {
        r.text("scope") == "capture" && r.text("rule") == "synchronous_copy"
    }));
    let got = ["count", "size_bytes", "busy_ns", "call_ns", "no_kernel_ns"].map(|c| rule.int(c));
    assert_eq!(got, [1, 8, us(8), us(40), us(26)]);
}

/// ```text
/// us          0        10        20
/// copy a      [=========)                 40 kB: 4 GB/s
/// copy b           [=========)            10 kB: 1 GB/s
/// set                  [=========)        size unknown
/// ```
#[test]
fn bandwidth_adds_up_while_copies_run_and_is_unknown_where_sizes_are() {
    let mut t = TraceBuilder::new().rank(0);
    let mut main = t.thread(1);
    main.call(Call::Copy, us(0)..us(1)).memcpy(PINNED, 7, 40_000, us(0)..us(10));
    main.call(Call::Copy, us(1)..us(2)).memcpy(PINNED, 8, 10_000, us(5)..us(15));
    main.call(Call::Set, us(2)..us(3))
        .memset(9, 1, us(10)..us(20))
        .without("bytes")
        .without("memory bandwidth (GB/s)");
    let (_folder, path) = write(&t);
    let answer = answer(&[path], &options());
    check("by eye", &answer);
    let rows = answer.rows("memory_bandwidth");
    let start = rows[0].int("ts_ns");
    let points: Vec<_> = rows
        .iter()
        .map(|r| (r.text("direction"), (r.int("ts_ns") - start) / 1000, r.float("bandwidth_gb_per_s")))
        .collect();
    let want = [
        ("HtoD", 0, Some(4.0)),
        ("HtoD", 5, Some(5.0)),
        ("HtoD", 10, Some(1.0)),
        ("HtoD", 15, Some(0.0)),
        ("set", 10, None),
        ("set", 20, Some(0.0)),
    ];
    assert_eq!(points, want);
    let set = one(
        answer.rows_where("memory_copies", |r| r.text("direction") == "set" && r.text("scope") == "span")
    );
    assert_eq!(
        (set.int("count"), set.opt_int("size_bytes"), set.float("bandwidth_gb_per_s")),
        (1, None, None)
    );
}

#[test]
fn sizes_come_from_the_call_or_the_recorded_bandwidth_where_the_copy_has_none() {
    for (vendor, direction) in [(Vendor::Amd, "HtoD"), (Vendor::Mtia, "HtoD")] {
        let mut t = TraceBuilder::new().rank(0).vendor(vendor);
        t.thread(1).call(Call::Copy, us(0)..us(5)).memcpy("HtoD (Host -> Device)", 0, 2_560, us(10)..us(12));
        let (_folder, path) = write(&t);
        let row = one(answer(&[path], &options()).rows_where("memory_copies", |r| r.text("scope") == "span"));
        assert_eq!((row.text("direction"), row.int("size_bytes")), (direction, 2_560), "{vendor:?}");
    }
    let mut t = TraceBuilder::new().rank(0);
    t.thread(1).call(Call::Copy, us(0)..us(5)).memcpy(PINNED, 0, 3_000, us(10)..us(12)).without("bytes");
    let (_folder, path) = write(&t);
    let row = one(answer(&[path], &options()).rows_where("memory_copies", |r| r.text("scope") == "span"));
    assert_eq!(row.int("size_bytes"), 3_000);
}

#[test]
fn pageable_small_and_synchronizing_ways_to_copy_have_rows_with_what_they_cost() {
    let mut t = TraceBuilder::new().rank(0);
    let mut main = t.thread(1);
    main.launch(us(0)..us(4)).kernel("k", 7, us(5)..us(1_000));
    main.call(Call::Copy, us(1_000)..us(1_100)).memcpy(PAGEABLE, 7, 1_000_000, us(1_020)..us(1_110));
    for i in 0..200 {
        let at = us(2_000 + 5 * i);
        main.call(Call::Copy, at..at + us(1)).memcpy(
            "DtoD (Device -> Device)",
            7,
            64,
            at + us(2)..at + us(3),
        );
    }
    main.call(Call::DeviceSync, us(3_000)..us(3_800));
    main.runtime("cudaMemset", us(3_800)..us(3_900)).memset(7, 64, us(3_850)..us(3_890));
    main.launch(us(3_900)..us(3_904)).kernel("k", 7, us(3_905)..us(9_000));
    let (_folder, path) = write(&t);
    let answer = answer(&[path], &options());
    check("by eye", &answer);
    let lost = |rule: &str| {
        one(answer
            .rows_where("memory_copy_rules", |r| r.text("scope") == "capture" && r.text("rule") == rule))
        .int("no_kernel_ns")
    };
    assert_eq!(lost("pageable_copy"), us(110));
    assert_eq!(lost("small_copy"), us(400));
    assert_eq!(lost("synchronize_call"), us(800));
    assert_eq!(lost("synchronous_set"), us(100));
}

#[test]
fn without_copies_there_is_a_reason() {
    let mut t = TraceBuilder::new().rank(0);
    t.thread(1).launch(us(0)..us(1)).kernel("k", 7, us(5)..us(9));
    let (_folder, path) = write(&t);
    let answer = answer(&[path], &options());
    assert!(answer.rows("memory_copies").is_empty() && answer.rows("memory_bandwidth").is_empty());
    assert_eq!(answer.notes("copies"), ["rank 0: no copies or sets"]);
}

/// A random copy or kernel: direction (or kernel), stream, start, length, bytes where recorded.
type Work = (Option<usize>, i64, i64, i64, Option<u64>);

const DIRECTIONS: [(&str, &str); 3] = [
    ("HtoD (Pageable -> Device)", "HtoD"),
    ("DtoH (Device -> Pinned)", "DtoH"),
    ("DtoD (Device -> Device)", "DtoD"),
];

pub fn work() -> impl Strategy<Value = Vec<Work>> {
    let one = (
        prop::option::weighted(0.8, 0usize..3),
        0i64..3,
        0i64..100,
        prop_oneof![1 => Just(0i64), 5 => 1i64..40],
        prop::option::weighted(0.8, 0u64..100_000),
    );
    prop::collection::vec(one, 1..16)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bandwidth_and_exposed_time_equal_a_count_of_every_nanosecond(all in work()) {
        let mut t = TraceBuilder::new().rank(0);
        for (i, (direction, stream, start, dur, bytes)) in all.iter().enumerate() {
            let (span, at) = (*start + 50..*start + 50 + *dur, i as i64);
            let mut main = t.thread(1);
            match direction {
                None => drop(main.launch(at..at + 1).kernel("k", *stream, span)),
                Some(d) => {
                    let row = main.call(Call::Copy, at..at + 1).memcpy(DIRECTIONS[*d].0, *stream, bytes.unwrap_or(0), span);
                    if bytes.is_none() {
                        row.without("bytes").without("memory bandwidth (GB/s)");
                    }
                }
            }
        }
        let (_folder, path) = write(&t);
        let answer = answer(&[path], &options());
        check("a random trace", &answer);
        let origin = answer.rows("kernels").iter().map(|r| r.int("ts_ns")).min().unwrap_or(0)
            - all.iter().map(|w| w.2 + 50).min().unwrap_or(0);
        let holds = |w: &&Work, t: i64| w.2 + 50 <= t && t < w.2 + 50 + w.3;
        for (d, (_, name)) in DIRECTIONS.iter().enumerate() {
            let own: Vec<&Work> = all.iter().filter(|w| w.0 == Some(d)).collect();
            let points = answer.rows_where("memory_bandwidth", |r| r.text("direction") == *name);
            for t in 40..200i64 {
                let running: Vec<&&Work> = own.iter().filter(|w| holds(w, t)).collect();
                let sized = running.iter().filter(|w| w.4.is_some()).count();
                let sum: f64 = running.iter().filter_map(|w| Some(w.4? as f64 / w.3 as f64)).sum();
                let want = (running.is_empty() || sized > 0).then_some(sum);
                let at = points.iter().rev().find(|r| r.int("ts_ns") - origin <= t);
                let got = at.map_or(Some(0.0), |r| r.float("bandwidth_gb_per_s"));
                prop_assert_eq!(at.map_or(0, |r| r.int("copy_count")), running.len() as i64);
                prop_assert_eq!(got.is_some(), want.is_some(), "{} at {}", name, t);
                if let (Some(a), Some(b)) = (got, want) {
                    prop_assert!((a - b).abs() <= 1e-9 * b.max(1.0), "{} at {}: {} {}", name, t, a, b);
                }
            }
            let alone = |t: &i64| {
                own.iter().any(|w| holds(w, *t)) && !all.iter().any(|w| w.0.is_none() && holds(&w, *t))
            };
            let exposed = (40..200i64).filter(alone).count() as i64;
            let row = answer.rows_where("memory_copies", |r| r.text("direction") == *name && r.text("scope") == "span");
            let sum: i64 = row.iter().map(|r| r.int("exposed_ns")).sum();
            prop_assert_eq!((sum, row.iter().map(|r| r.int("count")).sum::<i64>()), (exposed, own.len() as i64), "{}", name);
        }
    }
}
