//! `hta diff --compat hta` against what HTA 0.5.0 printed, to the digit.

use crate::cli::csv::{number, read, text};
use crate::cli::diff::sets::handed_by;
use crate::run::{Record, options, rows_of};
use crate::shared;
use hta::compat::Compat;
use hta::compat::hta::diff;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

const COLUMNS: [&str; 6] = [
    "Control_counts",
    "Control_total_duration",
    "Test_counts",
    "Test_total_duration",
    "diff_counts",
    "diff_duration",
];

fn answer(base: &str, test: &str, short: bool) -> Option<(Vec<Record>, Vec<Record>, std::path::PathBuf)> {
    let root = shared::folder()?;
    let set = |name: &str| handed_by(Some(Compat::Hta), &[root.trace(&format!("hta/{name}"))], &options());
    let output = diff::compare(&set(base), &set(test), short);
    let rows = |table: &str| -> Vec<Record> {
        output.tables.iter().filter(|b| b.spec.name == table).flat_map(rows_of).collect()
    };
    Some((rows("compat_hta_trace_diff"), rows("compat_hta_ops_diff"), shared::reference("hta/trace_diff")))
}

/// Names, counts, durations and marks of one file of the reference; returns the number of its rows.
fn equal(ours: &[Record], device_type: &str, file: &Path) -> usize {
    let theirs = read(file).unwrap_or_else(|| panic!("{} is missing", file.display()));
    let of_type = ours.iter().filter(|r| r.text("device_type") == device_type);
    let ours: BTreeMap<&str, &Record> = of_type.map(|r| (r.text("name"), r)).collect();
    assert_eq!(ours.len(), theirs.len(), "{}", file.display());
    // Theirs are sorted by name, and names that only the test has come last.
    for theirs in &theirs {
        let name = if theirs.contains_key("name") { "name" } else { "short_name" };
        let name = text(theirs, name);
        let ours = ours.get(name).unwrap_or_else(|| panic!("{}: no `{name}`", file.display()));
        for column in COLUMNS {
            assert_eq!(ours.float(column), number(theirs, column), "{column} of {}", ours.0);
        }
        assert_eq!(
            ours.text("counts_change_categories"),
            text(theirs, "counts_change_categories"),
            "{}",
            ours.0
        );
    }
    theirs.len()
}

#[test]
fn compare_traces_is_reproduced_with_full_and_short_names() {
    let mut rows = BTreeMap::new();
    for (short, kind) in [(false, "full"), (true, "short")] {
        let (base, test) = ("trace_diff_control_control.json.gz", "trace_diff_test_test.json.gz");
        let Some((ours, _, reference)) = answer(base, test, short) else { return };
        for device_type in ["ALL", "CPU", "GPU"] {
            let file = reference.join(format!("compare_{device_type}_{kind}.csv"));
            rows.insert(format!("{device_type} {kind}"), equal(&ours, device_type, &file));
        }
    }
    println!("{rows:?}");
    assert!(rows.len() == 6 && rows.values().all(|n| *n > 50), "{rows:?}");
}

#[test]
fn a_trace_of_thirty_events_is_reproduced() {
    let (base, test) = ("trace_compare_base_base.json.gz", "trace_compare_test_test.json.gz");
    let Some((ours, _, reference)) = answer(base, test, false) else { return };
    assert_eq!(equal(&ours, "ALL", &reference.join("trace_compare_base_test_ALL.csv")), 7);
}

#[test]
fn ops_diff_is_reproduced() {
    let (base, test) = ("trace_diff_control_control.json.gz", "trace_diff_test_test.json.gz");
    let Some((_, ours, reference)) = answer(base, test, false) else { return };
    let mut compared = 0;
    for device_type in ["ALL", "CPU", "GPU"] {
        let path = reference.join(format!("ops_diff_{device_type}.json"));
        let mut json = String::new();
        if path.exists() {
            json = std::fs::read_to_string(&path).expect("a reference can be read");
        } else {
            let packed =
                std::fs::File::open(path.with_extension("json.gz")).expect("a reference can be read");
            flate2::read::GzDecoder::new(packed).read_to_string(&mut json).expect("a reference is UTF-8");
        }
        let theirs: BTreeMap<String, Vec<String>> = serde_json::from_str(&json).expect("a reference is JSON");
        assert_eq!(theirs.len(), 5);
        for (change, mut names) in theirs {
            let of = |r: &&Record| r.text("device_type") == device_type && r.text("change") == change;
            let ours: Vec<&str> = ours.iter().filter(of).map(|r| r.text("name")).collect();
            names.sort();
            assert_eq!(ours, names, "{device_type} {change}");
            compared += names.len();
        }
    }
    assert!(compared > 400, "{compared}");
}
