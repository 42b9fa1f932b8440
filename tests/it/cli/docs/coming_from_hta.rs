//! docs/coming-from-hta.md: every call of Meta's HTA is listed, every command runs, every table exists.

use std::collections::BTreeSet;
use std::process::{Command, Output};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Public methods of `TraceAnalysis` and `TraceDiff` in HTA 0.5.0.
const CALLS: &[&str] = &[
    "get_comm_comp_overlap",
    "get_profiler_steps",
    "get_potential_stragglers",
    "get_gpu_kernel_breakdown",
    "get_gpu_kernels_with_user_annotations",
    "get_gpu_user_annotation_breakdown",
    "get_temporal_breakdown",
    "get_frequent_cuda_kernel_sequences",
    "get_aten_op_kernels_and_delay",
    "get_cuda_kernel_launch_stats",
    "generate_trace_with_counters",
    "get_queue_length_summary",
    "_from_time_series",
    "get_queue_length_time_series",
    "get_time_spent_blocked_on_full_queue",
    "get_memory_bw_summary",
    "get_memory_bw_time_series",
    "get_idle_time_breakdown",
    "get_cupti_counter_data_with_operators",
    "critical_path_analysis",
    "overlay_critical_path_analysis",
    "compare_traces",
    "ops_diff",
    "visualize_counts_diff",
    "visualize_duration_diff",
];

fn hta(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hta")).args(args).current_dir(ROOT).output().unwrap()
}

/// Rows of the page's tables: their cells.
fn rows() -> Vec<Vec<String>> {
    let page = std::fs::read_to_string(format!("{ROOT}/docs/coming-from-hta.md")).unwrap();
    let lines = page.lines().filter(|l| l.starts_with("| ") && !l.starts_with("|---"));
    lines.map(|l| l.trim_matches('|').split('|').map(|cell| cell.trim().to_string()).collect()).collect()
}

/// What stands in backticks.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// The commands of a cell; `--compat hta` after a command means the same command with that option.
fn commands(cell: &str) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for text in quoted(cell) {
        if text == "--compat hta" {
            // Compatible tables have other names.
            let plain = out.last().unwrap().split(" --table").next().unwrap().to_string();
            out.push(format!("{plain} --compat hta"));
        } else if text.starts_with("hta ") {
            out.push(text.to_string());
        }
    }
    out
}

/// Arguments of a command, on samples that contain what it needs.
fn words(command: &str, folder: &str) -> Vec<String> {
    let sample = if command.starts_with("hta cupti") { "gpu_counters" } else { "gpu_ddp8" };
    let traces = format!("data/samples/{sample}");
    let file = format!("{folder}/seen.json.gz");
    let timeline = format!("{folder}/timeline.raw.json");
    std::fs::write(&timeline, "[[-1, 1, 100, 0], [1000, 2, 50, 4], [2000, 3, -50, 4]]").unwrap();
    let word = |w: &str| match w {
        // `hta report` takes results.
        "BEFORE" | "AFTER" if command.starts_with("hta report") => format!("{folder}/results"),
        "TRACES" | "BEFORE" | "AFTER" => traces.clone(),
        "FILE" => file.clone(),
        "TIMELINE" => timeline.clone(),
        _ => w.to_string(),
    };
    let mut words: Vec<String> = command.split_whitespace().skip(1).map(word).collect();
    match words[0].as_str() {
        "analyze" => words.extend(["--out".to_string(), format!("{folder}/out"), "--force".to_string()]),
        "overlay" => words.push("--force".to_string()),
        _ => {}
    }
    words
}

#[test]
fn every_call_of_hta_has_a_row() {
    let calls: Vec<String> = rows().into_iter().map(|row| row[0].clone()).collect();
    for call in CALLS {
        assert!(calls.iter().any(|c| c.contains(call)), "{call}");
    }
}

#[test]
fn every_command_of_the_table_runs_and_says_something() {
    let folder = tempfile::tempdir().unwrap();
    let all: BTreeSet<String> = rows().iter().flat_map(|row| row.iter().flat_map(|c| commands(c))).collect();
    assert!(all.len() > 40, "{all:?}");
    let results = folder.path().join("results").display().to_string();
    assert_eq!(hta(&["analyze", "data/samples/gpu_ddp8", "--out", &results]).status.code(), Some(0));
    for command in all {
        let words = words(&command, folder.path().to_str().unwrap());
        let run = hta(&words.iter().map(String::as_str).collect::<Vec<_>>());
        let errors = String::from_utf8_lossy(&run.stderr).into_owned();
        assert_eq!(run.status.code(), Some(0), "{command}: {errors}");
        let wrote_a_file = words[0] == "overlay" && folder.path().join("seen.json.gz").is_file();
        assert!(
            wrote_a_file || run.stdout.len() > 100,
            "{command}: {}",
            String::from_utf8_lossy(&run.stdout)
        );
    }
}

#[test]
fn every_table_and_column_of_the_table_exists() {
    for row in rows().iter().filter(|row| row.len() == 3) {
        let Some(command) = commands(&row[1]).into_iter().next() else { continue };
        let stem = command.split_whitespace().nth(1).unwrap().to_string();
        // Columns are those of the command's own page, or of a table in the row.
        let names = std::iter::once(stem.as_str()).chain(quoted(&row[2]));
        let page: String =
            names.map(|name| String::from_utf8(hta(&["explain", name]).stdout).unwrap()).collect();
        for name in quoted(&row[2]) {
            let is_table = hta(&["explain", name]).status.success();
            assert!(
                is_table || page.lines().any(|l| l.trim_start().starts_with(&format!("{name} "))),
                "{stem}: {name}"
            );
        }
    }
}
