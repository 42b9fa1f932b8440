//! Traces that lack something: each analysis answers with no rows and a reason, without an error, and without affecting
//! other ranks.

use crate::robustness::invariants::check;
use crate::run::{Answer, answer, answer_by, options, rank_trace, try_run};
use hta::compat::{Compat, chosen};
use hta::registry::ANALYSES;
use hta::run::RunError;
use hta_testkit::{Format, TraceBuilder, Vendor, us};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn file(folder: &Path, name: &str, trace: &TraceBuilder) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, trace.to_bytes(&Format::default())).expect("a temporary file can be written");
    path
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// Why each analysis has no rows, by stem.
fn reasons(path: &Path) -> BTreeMap<&'static str, Option<&'static str>> {
    let trace = rank_trace(path, 0);
    ANALYSES.iter().map(|a| (a.stem(), a.map(&trace, &options(), &mut |_| ()).reason)).collect()
}

fn rows(answer: &Answer, tables: &[&str]) -> Vec<usize> {
    tables.iter().map(|t| answer.rows(t).len()).collect()
}

fn cpu_only(rank: u32) -> TraceBuilder {
    let mut t = TraceBuilder::new().rank(rank).world(2);
    let mut main = t.thread(1);
    main.step(0, us(0)..us(100));
    main.op("aten::mm", us(10)..us(40));
    t
}

fn gpu(rank: u32) -> TraceBuilder {
    let mut t = TraceBuilder::new().rank(rank).world(2).device("NVIDIA H100", 132);
    t.thread(1).launch(us(0)..us(5)).kernel("gemm", 7, us(10)..us(40)).kernel(
        "ncclDevKernel",
        9,
        us(30)..us(60),
    );
    t
}

#[test]
fn a_trace_without_complete_events_is_refused_with_a_reason() {
    let dir = folder();
    let mut t = TraceBuilder::new().rank(0);
    t.counter("GPU 0 Utilization", us(1), &[("", 1.0)]);
    let path = file(dir.path(), "rank_0.json", &t);
    match try_run(&[path], &options()) {
        Err(RunError::NothingReadable(refused)) => {
            assert_eq!(refused.len(), 1);
            assert!(
                refused[0].error.to_string().ends_with("expected events, found none"),
                "{}",
                refused[0].error
            );
        }
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("an empty trace was analysed"),
    }
}

#[test]
fn a_trace_of_the_profilers_own_rows_gives_no_rows_and_reasons() {
    let dir = folder();
    let mut t = TraceBuilder::new().rank(0);
    t.overhead("Buffer Flush", us(0)..us(10));
    let path = file(dir.path(), "rank_0.json", &t);
    let nothing = Some("no GPU activity and no operators");
    let expected = [
        ("annotations", Some("no annotations")),
        ("breakdown", nothing),
        ("collectives", Some("no collectives recorded")),
        ("copies", Some("no GPU activity")),
        ("counters", Some("no GPU activity")),
        ("critical-path", Some("the window is empty")),
        ("cupti", Some("no counter ranges recorded")),
        ("experts", Some("no exchanges of experts recorded")),
        ("fabric", Some("no collectives recorded")),
        ("diagnosis", nothing),
        ("efficiency", nothing),
        ("graph-ops", Some("no graph was launched or captured")),
        ("idle", nothing),
        ("iterations", Some("no iterations of an inference engine")),
        ("kernels", Some("no GPU activity")),
        ("launches", Some("no launches recorded")),
        ("lines", Some("no Python frames: record with with_stack=True")),
        ("memory", Some("no memory recorded (profile_memory=True records it)")),
        ("mesh", Some("no process groups recorded")),
        ("overlap", Some("no communication")),
        ("patterns", Some("no GPU activity")),
        ("queue", Some("no GPU activity")),
        ("ops", Some("no host events")),
        ("steps", Some("no steps")),
        ("pipeline", Some("no collectives recorded")),
        ("stragglers", Some("no collectives recorded")),
        ("sync", Some("no collectives recorded")),
        ("what-if", Some("no collectives recorded")),
    ];
    assert_eq!(reasons(&path), BTreeMap::from(expected));
    let answer = answer(&[path], &options());
    let tables = ANALYSES.iter().flat_map(|a| a.tables().iter().map(|t| t.name)).collect::<Vec<_>>();
    assert_eq!(rows(&answer, &tables), vec![0; tables.len()]);
    assert_eq!(rows(&answer, &["ranks", "kernels", "steps"]), [1, 0, 0]);
}

/// ```text
/// host    |step........................................|   us(0)..us(100)
///            |aten::mm|                                    us(10)..us(40)
/// ```
#[test]
fn a_cpu_only_rank_is_measured_by_its_operators() {
    let dir = folder();
    let path = file(dir.path(), "rank_0.json", &cpu_only(0));
    let expected = [
        ("annotations", None),
        ("breakdown", None),
        ("collectives", Some("no collectives recorded")),
        ("copies", Some("no GPU activity")),
        ("counters", Some("no GPU activity")),
        ("critical-path", None),
        ("cupti", Some("no counter ranges recorded")),
        ("experts", Some("no exchanges of experts recorded")),
        ("fabric", Some("no collectives recorded")),
        ("diagnosis", None),
        ("efficiency", None),
        ("graph-ops", Some("no graph was launched or captured")),
        ("idle", None),
        ("iterations", Some("no iterations of an inference engine")),
        ("kernels", Some("no GPU activity")),
        ("launches", Some("no launches recorded")),
        ("lines", Some("no Python frames: record with with_stack=True")),
        ("memory", Some("no memory recorded (profile_memory=True records it)")),
        ("mesh", None),
        ("overlap", Some("no communication")),
        ("patterns", Some("no GPU activity")),
        ("queue", Some("no GPU activity")),
        ("ops", None),
        ("steps", None),
        ("pipeline", Some("no collectives recorded")),
        ("stragglers", Some("no collectives recorded")),
        ("sync", Some("no collectives recorded")),
        ("what-if", Some("no collectives recorded")),
    ];
    assert_eq!(reasons(&path), BTreeMap::from(expected));
    let answer = answer(&[path], &options());
    check("CPU only", &answer);
    let step = answer.rows_where("temporal_breakdown", |r| r.text("scope") == "step");
    assert_eq!(step.len(), 1);
    assert_eq!((step[0].text("basis"), step[0].opt_int("device")), ("cpu", None));
    assert_eq!((step[0].int("compute_ns"), step[0].int("idle_ns")), (30_000, 70_000));
    assert_eq!(rows(&answer, &["kernels_by_name", "overlap", "overlap_kernels"]), [0, 0, 0]);
}

/// ```text
/// stream 7   |gemm......|                   us(10)..us(40)
/// stream 9          |nccl....|              us(30)..us(60)
/// stream 7                       |gemm|     us(80)..us(90)
/// ```
#[test]
fn a_gpu_only_trace_has_idle_time_without_a_known_cause() {
    let dir = folder();
    let mut t = TraceBuilder::new().rank(0);
    t.unlinked().kernel("gemm", 7, us(10)..us(40));
    t.unlinked().kernel("ncclDevKernel", 9, us(30)..us(60));
    t.unlinked().kernel("gemm", 7, us(80)..us(90));
    let path = file(dir.path(), "rank_0.json", &t);
    let silent: Vec<_> = reasons(&path).into_iter().filter_map(|(stem, r)| Some((stem, r?))).collect();
    let expected = [
        ("annotations", "no annotations"),
        ("copies", "no copies or sets"),
        ("cupti", "no counter ranges recorded"),
        ("experts", "no exchanges of experts recorded"),
        ("graph-ops", "no graph was launched or captured"),
        ("iterations", "no iterations of an inference engine"),
        ("launches", "no launches recorded"),
        ("lines", "no Python frames: record with with_stack=True"),
        ("memory", "no memory recorded (profile_memory=True records it)"),
        ("ops", "no host events"),
        ("patterns", "nothing repeats, and no launch lies under the operators asked for"),
        ("queue", "no launches recorded"),
    ];
    assert_eq!(silent, expected);
    let answer = answer(&[path], &options());
    check("GPU only", &answer);
    let idle = answer.rows_where("idle", |r| r.text("scope") == "span" && r.opt_int("stream").is_none());
    assert_eq!(idle.len(), 1);
    assert_eq!(["idle_ns", "other_ns", "unlinked_ns"].map(|c| idle[0].int(c)), [20_000; 3]);
    let overlap = answer.rows_where("overlap", |r| r.text("scope") == "span");
    assert_eq!(["overlap_ns", "exposed_ns"].map(|c| overlap[0].int(c)), [10_000, 20_000]);
}

#[test]
fn a_cpu_only_rank_takes_nothing_from_the_others() {
    let dir = folder();
    let paths = [file(dir.path(), "rank_0.json", &gpu(0)), file(dir.path(), "rank_1.json", &cpu_only(1))];
    for by in [None, Some(Compat::Hta)] {
        let (both, alone) = (answer_by(by, &paths, &options()), answer_by(by, &paths[..1], &options()));
        let mut compared = 0;
        // What is about the job as a whole depends on all of its ranks.
        let of_job = [
            "findings",
            "finding_evidence",
            "verdict",
            "time_account",
            "time_by_owner",
            "time_by_ranks",
            "host_places",
            "efficiency",
        ];
        for analysis in chosen(by, ANALYSES) {
            let is_of_job = |name: &str| of_job.contains(&name) || name.ends_with("_over_ranks");
            for table in analysis.tables().iter().filter(|t| !is_of_job(t.name)) {
                let of_rank_0 = |a: &Answer| -> Vec<String> {
                    let own = a.rows_where(table.name, |r| !r.has("rank") || r.opt_int("rank") == Some(0));
                    own.iter().map(|r| r.0.to_string()).collect()
                };
                assert_eq!(of_rank_0(&both), of_rank_0(&alone), "{}", table.name);
                compared += of_rank_0(&alone).len();
            }
        }
        assert!(compared > 5, "{compared}");
    }
}

/// HIP writes the stream of a call as text and its correlation as a number.
#[test]
fn hta_keeps_a_kernel_whose_call_names_its_stream_in_quotes() {
    let dir = folder();
    let mut t = TraceBuilder::new().rank(0).vendor(Vendor::Amd);
    t.thread(1).step(0, us(0)..us(50));
    t.thread(1).step(1, us(50)..us(100));
    t.thread(1).launch(us(5)..us(10)).arg("stream", "0x0").kernel("gemm", 0, us(20)..us(40));
    let path = file(dir.path(), "rank_0.json", &t);
    let rows = answer_by(Some(Compat::Hta), &[path], &options()).rows("compat_hta_temporal_breakdown");
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].int("compute_time(us)"), 20);
}
