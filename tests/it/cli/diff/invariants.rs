//! Invariants of any two traces: a trace compared with itself, swapped sides, sums.

use super::sets::{Compared, diff_with, folder, handed_by, with};
use crate::plan::{Kind, ORIGIN, Plan, plans};
use crate::registry::follows_its_declaration;
use crate::run::{Record, options};
use crate::shared;
use hta::analysis::api::Options;
use hta::compat::{Compat, find};
use hta::diff::DIFF;
use hta_testkit::Format;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::PathBuf;

const DELTAS: [(&str, &[&str]); 2] = [
    ("diff_summary", &["delta_ns_per_step"]),
    ("diff_by_name", &["delta_ns_per_step", "delta_count_per_step", "delta_self_ns_per_step"]),
];

fn key(r: &Record) -> String {
    let columns: &[&str] = if r.has("metric") { &["metric"] } else { &["side", "class", "name"] };
    columns.iter().map(|c| r.text(c)).collect::<Vec<_>>().join(" ")
}

fn is_all_zero(d: &Compared) {
    for (table, columns) in DELTAS {
        for r in d.rows(table) {
            for column in columns {
                assert_eq!(r.float(column), Some(0.0), "{table}.{column} {}", r.0);
            }
            assert_ne!(r.flag("is_significant"), Some(true), "{}", r.0);
        }
    }
}

fn is_negated(ab: &Compared, ba: &Compared) {
    for (table, columns) in DELTAS {
        let by_key =
            |d: &Compared| d.rows(table).into_iter().map(|r| (key(&r), r)).collect::<BTreeMap<_, _>>();
        let (a, b) = (by_key(ab), by_key(ba));
        assert_eq!(a.keys().collect::<Vec<_>>(), b.keys().collect::<Vec<_>>(), "{table}");
        for (k, r) in &a {
            for column in columns {
                assert_eq!(r.float(column), b[k].float(column).map(|x| -x), "{table}.{column} {k}");
            }
            assert_eq!(r.cell("is_significant"), b[k].cell("is_significant"), "{table} {k}");
        }
    }
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * (1.0 + a.abs() + b.abs())
}

fn sums_hold(d: &Compared) {
    for column in ["base_ns_per_step", "test_ns_per_step", "delta_ns_per_step"] {
        let of = |name: &str| d.metric(name).float(column).unwrap_or(f64::NAN);
        let parts = ["compute", "waiting", "transfer", "unmatched", "copies", "idle"].map(of);
        assert!(near(parts.iter().sum(), of("step_time")), "{column}: {parts:?}");
        let gpu: Vec<f64> = d
            .rows("diff_by_name")
            .iter()
            .filter(|r| r.text("side") == "gpu")
            .filter_map(|r| r.float(column))
            .collect();
        // The sum of many rounded figures.
        assert!(
            near(gpu.iter().sum(), of("gpu_time")),
            "{column}: {} {}",
            gpu.iter().sum::<f64>(),
            of("gpu_time")
        );
    }
    let sizes: Vec<f64> =
        d.rows("diff_by_name").iter().filter_map(|r| r.float("delta_ns_per_step")).map(f64::abs).collect();
    assert!(sizes.windows(2).all(|w| w[0] >= w[1]), "not sorted: {sizes:?}");
    for batch in &d.tables {
        follows_its_declaration(batch);
        assert!(DIFF.tables().iter().any(|s| s.name == batch.spec.name));
    }
}

pub fn check(base: &[PathBuf], test: &[PathBuf], options: &Options) {
    let compare = |a: &[PathBuf], b: &[PathBuf]| diff_with(a, b, options, &["step_time > +5%"]);
    for same in [base, test] {
        let d = compare(same, same);
        is_all_zero(&d);
        sums_hold(&d);
        assert!(!d.verdicts[0].is_crossed);
    }
    let (ab, ba) = (compare(base, test), compare(test, base));
    is_negated(&ab, &ba);
    sums_hold(&ab);
}

#[test]
fn a_set_against_itself_is_zero_and_swapped_sides_negate_on_every_sample() {
    let sample = |name: &str| vec![shared::samples().join(name)];
    let sets = [
        sample("gpu_ddp8"),
        sample("gloo_ddp4"),
        sample("gpu_ddp8/rank_3.json.gz"),
        sample("cpu_single/cpu_awkward_names.pt.trace.json"),
        sample("cpu_single/cpu_modules_stack_memory.pt.trace.json.gz"),
    ];
    for (i, base) in sets.iter().enumerate() {
        for test in &sets[..i] {
            check(base, test, &options());
        }
    }
    check(&sets[0], &sets[2], &with(&[("--by", "op"), ("--short-names", "")]));
    check(&sets[4], &sets[1], &with(&[("--by", "module")]));
}

/// Durations of activities by name in the compared steps, computed from the plan alone.
fn by_hand(plan: &Plan, d: &Compared, set: &str) -> BTreeMap<String, (f64, f64)> {
    let rows = plan.rows();
    let steps: Vec<(i64, i64)> =
        rows.iter().filter(|r| r.kind == Kind::Step).map(|r| (r.start, r.end)).collect();
    let table: Vec<Record> = d.rows("diff_steps").into_iter().filter(|r| r.text("set") == set).collect();
    let counted: std::collections::BTreeSet<Option<i64>> =
        table.iter().filter(|r| r.flag("is_counted") == Some(true)).map(|r| r.opt_int("step")).collect();
    let mut sums: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for r in rows.iter().filter(|r| r.kind == Kind::Gpu) {
        let at = r.launch.map_or(r.start, |l| rows[l].start);
        let step = steps.iter().position(|s| s.0 <= at && at < s.1).map(|i| i as i64);
        if counted.contains(&None) || (step.is_some() && counted.contains(&step)) {
            let sum = sums.entry(r.name.clone()).or_default();
            sum.0 += 1.0 / counted.len() as f64;
            sum.1 += (r.end - r.start) as f64 / counted.len() as f64;
        }
    }
    sums
}

fn only_marked_steps() -> Options {
    // Repeated annotations would be detected as steps.
    let mut o = options();
    o.model.step_pattern = regex::Regex::new("^ProfilerStep#").ok();
    o
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_two_traces_keep_the_invariants(a in plans(), b in plans()) {
        prop_assume!(!a.rows().is_empty() && !b.rows().is_empty());
        let (x, y) = (folder(), folder());
        let base = [a.write(x.path(), ORIGIN, &Format::default())];
        let test = [b.write(y.path(), ORIGIN, &Format::default())];
        let options = only_marked_steps();
        check(&base, &test, &options);
        let d = diff_with(&base, &test, &options, &[]);
        for (plan, set) in [(&a, "base"), (&b, "test")] {
            let expected = by_hand(plan, &d, set);
            for r in d.rows("diff_by_name").iter().filter(|r| r.text("side") == "gpu") {
                let (count, ns) = expected.get(r.text("name")).copied().unwrap_or_default();
                let cell = |c: &str| r.float(&format!("{set}_{c}_per_step")).unwrap_or(f64::NAN);
                prop_assert!(near(cell("count"), count) && near(cell("ns"), ns), "{} {expected:?}", r.0);
            }
        }
    }
}

#[test]
fn compat_tables_are_the_declared_ones() {
    // without `ProfilerStep#n` there is nothing to compare: tables without rows
    for (sample, filled) in [("gpu_ddp8", true), ("cpu_single/cpu_awkward_names.pt.trace.json", false)] {
        let set = handed_by(Some(Compat::Hta), &[shared::samples().join(sample)], &options());
        let output = hta::compat::hta::diff::compare(&set, &set, false);
        let names: Vec<&str> = output.tables.iter().map(|b| b.spec.name).collect();
        let declared = find(Compat::Hta, "diff").expect("HTA compares").tables();
        assert_eq!(names, declared.iter().map(|s| s.name).collect::<Vec<_>>());
        for batch in &output.tables {
            follows_its_declaration(batch);
            assert_eq!(!batch.is_empty(), filled, "{sample} {}", batch.spec.name);
        }
    }
}
