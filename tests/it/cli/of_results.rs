//! Commands of single analyses on results: what they print is what they print of the traces.

use hta::registry::ANALYSES;
use std::path::Path;
use std::process::{Command, Output};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const SAMPLES: [&str; 11] = [
    "cpu_single",
    "gloo_ddp4",
    "gpu_counters",
    "gpu_cuspy",
    "gpu_ddp8",
    "gpu_ep4",
    "gpu_pftrace",
    "gpu_pp4",
    "gpu_single",
    "serving",
    "serving_capture",
];

fn hta(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hta")).args(args).current_dir(ROOT).output().expect("the binary runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn analysed(sample: &str, folder: &Path) -> (String, String) {
    let traces = format!("data/samples/{sample}");
    let results = folder.join(sample).display().to_string();
    let made = hta(&["analyze", &traces, "--out", &results, "--no-html", "--no-events"]);
    assert!(made.status.code().is_some_and(|c| c < 2), "{sample}: {}", text(&made.stderr));
    (traces, results)
}

/// What a command says of the traces; of their results it says the same, and ends alike.
fn same(traces: &str, results: &str, stem: &str, options: &[&str]) -> Output {
    let [of, from] = [traces, results].map(|place| hta(&[&[stem, place], options].concat()));
    assert_eq!(text(&from.stdout), text(&of.stdout), "{traces} {stem} {options:?}: {}", text(&from.stderr));
    assert_eq!(from.status.code(), of.status.code(), "{traces} {stem} {options:?}");
    of
}

#[test]
fn the_text_from_results_is_that_from_traces() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for sample in SAMPLES {
        let (traces, results) = analysed(sample, folder.path());
        for stem in ANALYSES.iter().map(|a| a.stem()).chain(["communication"]) {
            for options in [&[][..], &["--top", "3"]] {
                same(&traces, &results, stem, options);
            }
        }
    }
}

/// Commands of analyses that do not compare ranks.
const NARROWED: [&str; 5] = ["breakdown", "idle", "copies", "overlap", "annotations"];

#[test]
fn the_text_of_chosen_ranks_and_steps_of_results_is_that_of_traces() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (sample, steps) in [("gpu_ddp8", "11-12"), ("gloo_ddp4", "@1"), ("serving", "@0-@1")] {
        let (traces, results) = analysed(sample, folder.path());
        for stem in NARROWED {
            for options in [&["--ranks", "0,2"][..], &["--steps", steps], &["--ranks", "0-1", "--top", "1"]] {
                same(&traces, &results, stem, options);
            }
        }
    }
}

#[test]
fn the_text_of_chosen_groups_and_coordinates_of_results_is_that_of_traces() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    // Heads of the other files list no groups.
    for (sample, along) in
        [("gpu_ddp8", None), ("gpu_ep4", Some("ep=1,ep=3")), ("gpu_pp4", Some("pp=1-2")), ("gloo_ddp4", None)]
    {
        let (traces, results) = analysed(sample, folder.path());
        let both = |stem: &str, options: &[&str]| {
            let of = same(&traces, &results, stem, options);
            assert!(of.status.success(), "{sample} {stem} {options:?}: {}", text(&of.stderr));
        };
        for (stem, along) in NARROWED.iter().zip(along.iter().cycle()) {
            both(stem, &["--ranks", along]);
        }
        let listed =
            hta(&["query", "SELECT process_group FROM process_groups", &results, "--format", "json"]);
        let listed: Vec<serde_json::Value> =
            serde_json::from_slice(&listed.stdout).expect("the groups of the job");
        for group in listed.iter().take(3).filter_map(|row| row["process_group"].as_str()) {
            for stem in ["collectives", "communication", "sync", "efficiency", "fabric", "experts"] {
                both(stem, &["--group", group]);
            }
            let judged = hta(&["stragglers", &results, "--group", group]);
            let errors = text(&judged.stderr);
            assert!(errors.contains("cannot use --group for `stragglers` of results"), "{errors}");
            both("collectives", &["--group", group, "--table", "collectives", "--format", "csv"]);
            both("sync", &["--group", group, "--table", "sync", "--format", "csv"]);
        }
        let nobody = hta(&["sync", &results, "--group", "nobody"]);
        let errors = text(&nobody.stderr);
        assert!(errors.contains("expected a process group of the traces, found none like it"), "{errors}");
        let nowhere = hta(&["idle", &results, "--ranks", "cp=7"]);
        assert!(text(&nowhere.stderr).contains("no rank has these coordinates; there are"));
    }
}

#[test]
fn tables_come_from_results_of_every_analysis_and_what_they_lack_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (traces, results) = analysed("gpu_ddp8", folder.path());
    for (stem, table) in
        [("stragglers", "stragglers"), ("kernels", "kernels_by_name"), ("critical-path", "critical_path")]
    {
        let csv = |place: &str| hta(&[stem, place, "--table", table, "--format", "csv"]);
        let (of, from) = (csv(&traces), csv(&results));
        assert!(of.status.success(), "{}", text(&of.stderr));
        assert_eq!(text(&from.stdout), text(&of.stdout), "{stem}: {}", text(&from.stderr));
    }
    for (args, word) in [
        (&["kernels", &results, "--by", "op"][..], "cannot use --by: expected traces, found the results in"),
        (&["stragglers", &results, "--ranks", "0"], "cannot use --ranks for `stragglers` of results"),
        (&["stragglers", &results, "--group", "dp"], "expected a process group of the traces, found none"),
        (&["ops", &results, "--ranks", "0"], "its figures are made of more than its tables hold"),
        (&["kernels", &results, "--steps", "11-12"], "has figures of all steps together"),
        (&["kernels", &results, "--group", "dp"], "answers for all process groups: leave --group out"),
        (&["idle", &results, "--ranks", "77"], "cannot find the ranks asked for: the set holds ranks 0-7"),
        (
            &["idle", &results, "--steps", "77"],
            "expected a step of the traces, found none like it; there are 10-14",
        ),
        (&["kernels", &results, "--table", "nope", "--format", "csv"], "expected one of kernels_by_name"),
    ] {
        let run = hta(args);
        let errors = text(&run.stderr);
        assert_eq!((run.status.code(), run.stdout.is_empty()), (Some(2), true), "{args:?}: {errors}");
        assert!(errors.contains(word), "{args:?}: {errors}");
    }
    std::fs::remove_file(folder.path().join("gpu_ddp8/tables/breakdown_by_device.parquet"))
        .expect("the table");
    let errors = text(&hta(&["breakdown", &results]).stderr);
    assert!(errors.contains("expected the table `breakdown_by_device`, found none"), "{errors}");
}

/// Analyses that join ranks say of results what the report of the run says of them.
#[test]
fn what_the_first_screen_names_is_answered_from_results() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (_, results) = analysed("gpu_ddp8", folder.path());
    let report = std::fs::read_to_string(Path::new(&results).join("report.txt")).expect("the report");
    let commands = report.lines().filter_map(|line| line.trim_start().strip_prefix("see      hta "));
    let commands: Vec<&str> = commands.filter_map(|line| line.split(' ').next()).collect();
    assert!(commands.contains(&"stragglers"), "{report}");
    for stem in commands.into_iter().chain(["diagnosis", "communication", "what-if", "critical-path"]) {
        let run = hta(&[stem, &results]);
        let said = text(&run.stdout);
        assert!(run.status.success(), "{stem}: {}", text(&run.stderr));
        let titles: Vec<&str> =
            report.lines().filter_map(|l| l.strip_suffix(&format!(" ({stem})"))).collect();
        assert!(
            titles.iter().all(|title| said.contains(title)) && said.lines().count() > 3,
            "{stem}: {said}"
        );
    }
    let run = hta(&["memory", &results]);
    assert!(run.status.success() && text(&run.stdout).contains("no memory recorded"), "{:?}", run);
    for command in [&["overlay", &results][..], &["export", "pyprof", &results], &["analyze", &results]] {
        let run = hta(command);
        assert_eq!(run.status.code(), Some(2), "{command:?}");
        assert!(text(&run.stderr).contains("expected traces, found the results"), "{}", text(&run.stderr));
    }
}
