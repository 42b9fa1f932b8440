//! What kernels of real traces do, by an independent script: `tests/data/kernel_categories.json` has for each trace the
//! count, the summed and the busy time of each category, ns. And how many kernels share a short name.

use crate::run::{Answer, answer, options};
use crate::shared;
use hta::kernel::short_name;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

#[derive(Deserialize)]
struct Known {
    trace: String,
    /// Count, sum and busy time.
    categories: BTreeMap<String, (i64, i64, i64)>,
}

fn known() -> Vec<Known> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/kernel_categories.json");
    serde_json::from_slice(&std::fs::read(path).expect("the list can be read"))
        .expect("the list has this form")
}

/// Count, sum and busy time by category, over the whole span.
fn found(answer: &Answer) -> BTreeMap<String, (i64, i64, i64)> {
    let mut out: BTreeMap<String, (i64, i64, i64)> = BTreeMap::new();
    for r in answer.rows_where("kernel_categories", |r| r.text("scope") == "span") {
        let sum = out.entry(r.text("category").to_string()).or_default();
        sum.0 += r.int("count");
        sum.1 += r.int("sum_ns");
        sum.2 += r.int("busy_ns");
    }
    out
}

#[test]
fn categories_of_real_traces_are_the_known_ones() {
    let Some(root) = shared::folder() else { return };
    let mut wrong = Vec::new();
    for k in known() {
        let answer = answer(&[root.trace(&k.trace)], &options());
        let found = found(&answer);
        if found != k.categories {
            let differ = |name: &&String| found.get(*name) != k.categories.get(*name);
            let names: BTreeSet<&String> = found.keys().chain(k.categories.keys()).filter(differ).collect();
            for name in names {
                wrong.push(format!(
                    "{}: {name} {:?} instead of {:?}",
                    k.trace,
                    found.get(name),
                    k.categories.get(name)
                ));
            }
        }
        // Every activity has one category.
        let all = answer.rows_where("kernels_by_name", |r| r.text("scope") == "span");
        assert_eq!(
            all.iter().map(|r| r.int("sum_ns")).sum::<i64>(),
            found.values().map(|v| v.1).sum::<i64>()
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Of all distinct kernels of the real traces few have the short name of another one in the same trace.
#[test]
fn short_names_tell_the_kernels_of_a_trace_apart() {
    let Some(root) = shared::folder() else { return };
    let (mut all, mut shared_names) = (BTreeSet::new(), 0);
    for trace in known().into_iter().map(|k| root.trace(&k.trace)) {
        let mut by_short: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for r in answer(&[trace], &options()).rows_where("kernels_by_name", |r| r.text("scope") == "span") {
            assert_eq!(r.text("short_name"), short_name(r.text("name")));
            by_short.entry(r.text("short_name").to_string()).or_default().insert(r.text("name").to_string());
            all.insert(r.text("name").to_string());
        }
        shared_names += by_short.values().filter(|names| names.len() > 1).map(BTreeSet::len).sum::<usize>();
    }
    let shorts: BTreeSet<String> = all.iter().map(|n| short_name(n)).collect();
    eprintln!("{} names, {} short names, {shared_names} share one within a trace", all.len(), shorts.len());
    assert!(shorts.len() * 100 >= all.len() * 90, "{} of {}", shorts.len(), all.len());
    assert!(shared_names <= 30, "{shared_names}");
}
