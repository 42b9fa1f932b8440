//! `hta report A --against B`: the figures of both runs are those of `hta diff` on the traces and of the tables, and
//! what cannot be compared is said.

use super::{Page, analyze, hostile, hta, shown};
use crate::cli::diff::iterations::{DECODE_4, recorded};
use crate::cli::diff::sets::{BASE, Compared, Job, TEST, diff};
use hta_testkit::Format;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// What the command left and said.
pub struct Answer {
    pub page: Page,
    stdout: String,
    stderr: String,
}

pub fn against(this: &Path, base: &Path) -> Answer {
    let run = hta(&["report", shown(this), "--against", shown(base)]);
    let [stdout, stderr] = [&run.stdout, &run.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    assert_eq!(run.status.code(), Some(0), "{stderr}");
    Answer { page: Page::read(&this.join("compare.html")), stdout, stderr }
}

/// This run, baseline and difference of a figure, and what is said of it.
pub type Figure = (Option<f64>, Option<f64>, Option<f64>, String);

/// The figures of a grid by what they are part of and name.
pub fn figures(page: &Page, grid: &str) -> BTreeMap<(String, String), Figure> {
    let numbers = |name: &str| -> Vec<Option<f64>> {
        page.column("compare", grid, name)["cells"]
            .as_array()
            .expect("cells")
            .iter()
            .map(|v| v.as_f64())
            .collect()
    };
    let texts = |name: &str| page.texts("compare", grid, name);
    let (groups, names, sure) = (texts("group"), texts("name"), texts("surety"));
    let (this, base, delta) = (numbers("this"), numbers("base"), numbers("delta"));
    let row =
        |i: usize| ((groups[i].clone(), names[i].clone()), (this[i], base[i], delta[i], sure[i].clone()));
    (0..names.len()).map(row).collect()
}

/// Figures that stand alone.
pub fn whole(all: &BTreeMap<(String, String), Figure>, name: &str) -> Figure {
    all.get(&(String::new(), name.to_string()))
        .unwrap_or_else(|| panic!("no `{name}` in {:?}", all.keys()))
        .clone()
}

/// The folders of two jobs, analysed, with the diff of their traces.
struct Jobs {
    dir: TempDir,
    of_traces: Compared,
}

impl Jobs {
    fn new(this: Job, base: Job) -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let write = |job: Job, name: &str| -> PathBuf {
            let traces = tempfile::tempdir().expect("a temporary folder");
            analyze(shown(&job.write(&traces)), &dir.path().join(name), &[]);
            dir.path().join(name)
        };
        write(this, "this");
        write(base, "base");
        let (a, b) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        let of_traces = diff(&[base.write(&a)], &[this.write(&b)]);
        Self { dir, of_traces }
    }

    fn answer(&self) -> Answer {
        against(&self.dir.path().join("this"), &self.dir.path().join("base"))
    }
}

#[test]
fn parts_and_names_are_those_of_hta_diff_on_the_traces() {
    let jobs = Jobs::new(TEST, BASE);
    let Answer { page, stdout, .. } = jobs.answer();
    let parts = figures(&page, "parts");
    let of_part =
        |name: &str| parts.iter().find(|((_, n), _)| n == name).expect("the part is there").1.clone();
    for (metric, name) in [
        ("step_time", "step time"),
        ("compute", "compute"),
        ("idle", "idle"),
        ("gpu_time", "GPU time"),
        ("all_copies", "all copies"),
    ] {
        let row = jobs.of_traces.metric(metric);
        let of = ["test_ns_per_step", "base_ns_per_step", "delta_ns_per_step"].map(|c| row.float(c));
        let found = of_part(name);
        assert_eq!([found.0, found.1, found.2], of, "{metric}");
    }
    // By hand, as in the picture of `sets`: the step takes 210 us instead of 200, and every step the same.
    assert_eq!(of_part("step time"), (Some(210e3), Some(200e3), Some(10e3), "more than noise".to_string()));
    assert_eq!(of_part("idle"), (Some(35e3), Some(35e3), Some(0.0), "same".to_string()));
    let names = page.texts("compare", "kernels", "name");
    let deltas = page.column("compare", "kernels", "delta_ns")["cells"].as_array().expect("cells").clone();
    for (name, delta) in names.iter().zip(&deltas) {
        assert_eq!(delta.as_f64(), jobs.of_traces.name("gpu", name).float("delta_ns_per_step"), "{name}");
    }
    let of_gpu = jobs.of_traces.rows("diff_by_name").iter().filter(|r| r.text("side") == "gpu").count();
    assert_eq!(names.len(), of_gpu);
    assert!(
        stdout.contains("The step is slower: 200 us -> 210 us") && stdout.ends_with("compare.html\n"),
        "{stdout}"
    );
}

/// A column with a baseline: its name, its cells and those of the baseline.
type BesideColumn = (String, Vec<f64>, Vec<Option<f64>>);

/// By section and grid: the columns that have a baseline.
fn beside(page: &Page) -> BTreeMap<(String, String), Vec<BesideColumn>> {
    let mut out: BTreeMap<_, Vec<_>> = BTreeMap::new();
    let numbers =
        |v: &serde_json::Value| v.as_array().expect("cells").iter().map(|v| v.as_f64()).collect::<Vec<_>>();
    for section in page.data["sections"].as_array().expect("sections") {
        for (name, grid) in section[1]["grids"].as_object().expect("grids") {
            for column in
                grid["columns"].as_array().expect("columns").iter().filter(|c| c.get("base").is_some())
            {
                let cells = numbers(&column["cells"]).into_iter().map(|v| v.unwrap_or(f64::NAN)).collect();
                let told =
                    (column["name"].as_str().expect("a name").to_string(), cells, numbers(&column["base"]));
                let key = (section[0].as_str().expect("a section").to_string(), name.clone());
                out.entry(key).or_default().push(told);
            }
        }
    }
    out
}

#[test]
fn every_number_of_a_table_has_that_of_the_baseline_beside_it() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let out = dir.path().join("out");
    let alone = analyze("data/samples/gpu_ddp8", &out, &[]);
    assert!(beside(&alone).is_empty(), "a page without a baseline");
    let page = against(&out, &out).page;
    let found = beside(&page);
    for (section, grid) in [
        ("kernels", "kernels"),
        ("kernels", "categories"),
        ("ops", "operators"),
        ("breakdown", "lanes"),
        ("idle", "lanes"),
        ("ranks", "ranks"),
    ] {
        let columns = &found[&(section.to_string(), grid.to_string())];
        for (name, cells, base) in columns {
            assert!(!cells.is_empty(), "{section} {grid}");
            let same = |(this, base): (&f64, &Option<f64>)| base.map_or(this.is_nan(), |b| *this == b);
            assert!(cells.iter().zip(base).all(same), "{section} {grid} {name}");
        }
        assert!(columns.iter().any(|(_, cells, _)| cells.iter().any(|v| *v > 0.0)), "{section} {grid}");
    }
    // Another run: a row has the figures of the row with its key, as the page of that run has them.
    let jobs = Jobs::new(TEST, BASE);
    let page = jobs.answer().page;
    let of_base = Page::read(&jobs.dir.path().join("base/report.html"));
    let (names, base_names) =
        (page.texts("kernels", "kernels", "name"), of_base.texts("kernels", "kernels", "name"));
    let base_sums = of_base.cells("kernels", "kernels", "sum_ns");
    let all = beside(&page);
    let columns = &all[&("kernels".to_string(), "kernels".to_string())];
    let (_, _, base) = columns.iter().find(|(name, ..)| name == "sum_ns").expect("the time has a baseline");
    for (name, base) in names.iter().zip(base) {
        let there = base_names.iter().position(|n| n == name).and_then(|i| base_sums[i]);
        assert_eq!(base.map(|v| v as i64), there, "{name}");
    }
    assert!(base.iter().any(Option::is_some));
}

#[test]
fn one_step_cannot_tell_noise() {
    let one = |job: Job| Job { steps: 1, ..job };
    let parts = figures(&Jobs::new(one(TEST), one(BASE)).answer().page, "parts");
    assert_eq!(whole(&parts, "step time").3, "one step: cannot tell");
    let two = Jobs::new(Job { steps: 2, ..TEST }, BASE).answer().page;
    assert_eq!(whole(&figures(&two, "parts"), "step time").3, "fewer than three steps: cannot tell");
    // Gaps of 0, 50 and 100 us before the steps: 10 us are within them.
    let noisy = |job: Job| Job { jitter: 50, ..job };
    let parts = figures(&Jobs::new(noisy(TEST), noisy(BASE)).answer().page, "parts");
    assert_eq!(whole(&parts, "step time").3, "within noise");
}

#[test]
fn a_run_against_itself_differs_in_nothing_and_its_own_page_stays() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    for sample in ["gpu_ddp8", "serving", "gpu_single", "cpu_single"] {
        let out = dir.path().join(sample);
        analyze(&format!("data/samples/{sample}"), &out, &[]);
        let before = std::fs::read(out.join("report.html")).expect("the page is there");
        let Answer { page, stderr, .. } = against(&out, &out);
        assert!(std::fs::read(out.join("report.html")).expect("it is still there") == before, "{sample}");
        assert!(stderr.is_empty(), "{sample}: {stderr}");
        for grid in ["totals", "parts", "account", "efficiency", "memory", "serving"] {
            if !page.has("compare", grid) {
                continue;
            }
            for (name, (this, base, delta, sure)) in figures(&page, grid) {
                assert_eq!((this, delta), (base, Some(0.0)), "{sample}: {name:?}");
                assert_eq!(sure, "same", "{sample}: {name:?}");
            }
        }
        if page.has("compare", "causes") {
            let states = page.texts("compare", "causes", "state");
            assert!(states.iter().all(|s| s == "same"), "{sample}: {states:?}");
        }
        for list in ["refusals", "kernels"].iter().filter(|list| page.has("compare", list)) {
            assert_eq!(*list, "kernels", "{sample}");
            assert!(page.texts("compare", list, "surety").iter().all(|s| s == "same"), "{sample}");
        }
        assert!(page.html.len() < 8_000_000);
    }
    let ddp = Page::read(&dir.path().join("gpu_ddp8/compare.html"));
    let account = figures(&ddp, "account");
    // By hand from the sums of `efficiency`: 8 devices, 5 steps, 96.6185 ms in all.
    assert_eq!(whole(&account, "a step of a device").0, Some(96_618_500.0 / 5.0));
    assert_eq!(whole(&account, "compute").0, Some(381_060_000.0 / 40.0));
    let parts: f64 = account
        .iter()
        .filter(|((g, n), _)| g.is_empty() && n != "a step of a device")
        .filter_map(|(_, f)| f.0)
        .sum();
    assert!((parts - 96_618_500.0 / 5.0).abs() < 1e-3, "{parts}");
    assert!(
        whole(&figures(&ddp, "efficiency"), "efficiency").0.is_some_and(|e| (e - 0.492_995_6).abs() < 1e-6)
    );
    let serving = Page::read(&dir.path().join("serving/compare.html"));
    assert_eq!(whole(&figures(&serving, "serving"), "decode, 4 requests").0, Some(700_000.0));
    let memory = Page::read(&dir.path().join("gpu_single/compare.html"));
    assert_eq!(whole(&figures(&memory, "memory"), "peak of GPU memory (trace)").0, Some(75_497_472.0));
}

#[test]
fn iterations_are_those_of_hta_diff() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    // Of the windows that count the mean is 225 us and the median 200 us; of the other run 245 us and 240 us.
    for (name, lengths) in [("base", [200, 200, 200, 200, 300]), ("this", [240, 240, 240, 240, 260])] {
        let path = dir.path().join(format!("{name}.json"));
        let trace = recorded(500, &lengths.map(|length| (DECODE_4, length)));
        std::fs::write(&path, trace.to_json()).expect("a trace can be written");
        analyze(shown(&path), &dir.path().join(name), &[]);
    }
    let [this, base] = ["this", "base"].map(|name| dir.path().join(name));
    let serving = figures(&against(&this, &base).page, "serving");
    let run = hta(&["diff", shown(&base), shown(&this), "--table", "diff_iterations", "--format", "json"]);
    let rows: serde_json::Value = serde_json::from_slice(&run.stdout).expect("rows");
    for (name, column) in [("work on the device", "window_ns"), ("tokens per second", "tokens_per_s")] {
        let (this, base, ..) = serving[&("decode, 4 requests".to_string(), name.to_string())];
        let of = |side: &str| rows[0][format!("{side}_{column}")].as_f64();
        assert_eq!((this, base), (of("test"), of("base")), "{name}");
    }
    let window = &serving[&("decode, 4 requests".to_string(), "work on the device".to_string())];
    assert_eq!((window.0, window.1, window.3.as_str()), (Some(245e3), Some(225e3), "within noise"));
}

#[test]
fn the_account_of_time_is_that_of_the_ranks_that_are_compared() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let [this, base] = ["this", "base"].map(|name| dir.path().join(name));
    analyze("data/samples/gpu_ddp8", &this, &[]);
    analyze("data/samples/gpu_ddp8", &base, &["--ranks", "0-5"]);
    let page = against(&this, &base).page;
    let (parts, account) = (figures(&page, "parts"), figures(&page, "account"));
    let compute = &parts[&("step time".to_string(), "compute".to_string())];
    // Ranks 6 and 7 compute for less time than the others, which is no change.
    assert_eq!(compute.2, Some(0.0));
    assert_eq!(&whole(&account, "compute"), compute);
}

#[test]
fn runs_of_different_work_are_compared_and_the_page_says_why_they_should_not_be() {
    let jobs = Jobs::new(Job { world: 4, ..TEST }, BASE);
    let Answer { page, stderr, .. } = jobs.answer();
    let refusals = page.texts("compare", "refusals", "text");
    assert_eq!(refusals, ["world sizes differ: 2 before, 4 after"]);
    assert!(
        stderr.contains("the runs are different work: world sizes differ: 2 before, 4 after"),
        "{stderr}"
    );
    let parts = figures(&page, "parts");
    assert_eq!(whole(&parts, "step time").2, Some(10e3));
    let unmarked = Jobs::new(Job { marks_steps: false, ..TEST }, BASE).answer().page;
    assert!(unmarked.texts("compare", "refusals", "text")[0].starts_with("test has no steps"));
    assert!(figures(&unmarked, "parts").contains_key(&(String::new(), "capture".to_string())));
}

#[test]
fn what_a_baseline_lacks_is_said_and_the_rest_compared() {
    let jobs = Jobs::new(TEST, BASE);
    let base = jobs.dir.path().join("base");
    for table in ["recorders", "kernels_by_name", "host_by_name", "time_account"] {
        std::fs::remove_file(base.join(format!("tables/{table}.parquet"))).expect("the table is there");
    }
    let Answer { page, stderr, .. } = jobs.answer();
    let notes = page.section("compare")["notes"].to_string();
    for note in ["drivers, stacks and shapes", "kernels cannot be compared", "the same program is not known"]
    {
        assert!(notes.contains(note) && stderr.contains(note), "{note}: {notes} {stderr}");
    }
    assert_eq!(whole(&figures(&page, "parts"), "step time").2, Some(10e3));
    // A table of another version has other columns.
    std::fs::copy(base.join("tables/ranks.parquet"), base.join("tables/temporal_breakdown.parquet"))
        .expect("a copy");
    std::fs::copy(base.join("tables/ranks.parquet"), base.join("tables/findings.parquet")).expect("a copy");
    let Answer { page, .. } = jobs.answer();
    let notes = page.section("compare")["notes"].to_string();
    assert!(notes.contains("the table `temporal_breakdown` is of another version of hta"), "{notes}");
    assert!(notes.contains("causes cannot be compared"), "{notes}");
    assert!(!page.has("compare", "parts") && page.has("compare", "totals"));
    // Damage is an error that names the file, and leaves the page that is there.
    std::fs::write(base.join("tables/temporal_breakdown.parquet"), b"PAR1 no PAR1")
        .expect("a file can be written");
    let run = hta(&["report", shown(&jobs.dir.path().join("this")), "--against", shown(&base)]);
    let told = String::from_utf8_lossy(&run.stderr).into_owned();
    assert_eq!(run.status.code(), Some(2), "{told}");
    assert!(told.contains("temporal_breakdown.parquet") && told.contains("hint: "), "{told}");
}

#[test]
fn a_baseline_that_is_no_result_is_refused_and_never_written_to() {
    let jobs = Jobs::new(TEST, BASE);
    let (this, base) = (jobs.dir.path().join("this"), jobs.dir.path().join("base"));
    let refused = |arguments: &[&str], words: &str| {
        let run = hta(&[&["report", shown(&this), "--against"], arguments].concat());
        let told = String::from_utf8_lossy(&run.stderr).into_owned();
        assert_eq!(run.status.code(), Some(2), "{told}");
        assert!(told.contains(words) && told.contains("hint: "), "{told}");
    };
    refused(&["no/such/folder"], "expected a results folder, found nothing there");
    refused(&["data/samples/gpu_ddp8"], "found no folder `tables` in it");
    for file in ["report.html", "summary.json", "tables/ranks.parquet"] {
        refused(&[shown(&base), "-o", shown(&base.join(file))], "found the input");
    }
    let printed = hta(&["report", shown(&this), "--against", shown(&base), "-o", "-"]);
    assert!(printed.stdout.starts_with(b"<!DOCTYPE html>"), "the page alone is on standard output");
    assert!(!this.join("compare.html").exists());
    // An analysis that replaces the results removes the page of the old ones.
    against(&this, &base);
    let traces = tempfile::tempdir().expect("a temporary folder");
    analyze(shown(&TEST.write(&traces)), &this, &[]);
    assert!(!this.join("compare.html").exists());
}

#[test]
fn no_name_of_either_run_breaks_out_of_the_data() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let input = dir.path().join("rank_0.json");
    std::fs::write(&input, hostile::trace().to_bytes(&Format::default())).expect("a file can be written");
    let (this, base) = (dir.path().join("this"), dir.path().join("<img src=x onerror=alert(1)>"));
    analyze(shown(&input), &this, &[]);
    analyze("data/samples/gpu_single", &base, &[]);
    for (a, b) in [(&this, &base), (&base, &this)] {
        let Answer { page, .. } = against(a, b);
        page.assert_scripts_are_ours();
        for part in ["<img", "onerror=alert(1)>", "alert(1)</", "\u{2028}", "<H100>"] {
            assert!(!page.html.contains(part), "`{part}` stands in the page as it is");
        }
        assert!(
            page.texts("compare", "kernels", "name").iter().any(|n| n == "{{data}} %{x} ${y} <b>bold</b>")
        );
    }
}

/// One rank alone cannot tell waiting from transfer.
#[test]
fn waiting_and_transfer_are_one_part_everywhere_where_one_run_cannot_tell_them_apart() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/samples/gpu_ddp8");
    let [all, one] = ["all", "one"].map(|name| dir.path().join(name));
    analyze(shown(&sample), &all, &[]);
    analyze(shown(&sample), &one, &["--ranks", "0"]);
    let Answer { page, .. } = against(&all, &one);
    let (account, parts) = (figures(&page, "account"), figures(&page, "parts"));
    let whole = whole(&account, "unmatched");
    assert!(whole.0 > Some(0.0) && whole.0 == whole.1, "the same rank is compared with itself: {whole:?}");
    for name in ["waiting", "transfer"] {
        assert!(account.keys().all(|(group, of)| of != name && group != name), "{:?}", account.keys());
        let of_diff = &parts[&("step time".to_string(), name.to_string())];
        assert_eq!((of_diff.0, of_diff.1), (Some(0.0), Some(0.0)), "{name}");
    }
    assert_eq!(parts[&("step time".to_string(), "unmatched".to_string())].0, whole.0);
    assert!(account.keys().all(|(group, _)| group != "unmatched"), "{:?}", account.keys());
    // The sections of the page set the same beside each other.
    for grid in ["account", "lanes", "steps", "cells"] {
        let has_base = |column: &str| page.column("breakdown", grid, column).get("base").is_some();
        assert!(has_base("idle_ns") && !has_base("waiting_ns") && !has_base("transfer_ns"), "{grid}");
    }
    // With itself, the run of all ranks knows both.
    let Answer { page, .. } = against(&all, &all);
    assert!(figures(&page, "account").keys().any(|(_, name)| name == "waiting"));
}
