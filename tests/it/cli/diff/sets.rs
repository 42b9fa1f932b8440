//! Runs a diff through the library, on traces with known differences.

use crate::run::{Keep, Quiet, Record, options, rows_of};
use hta::analysis::api::Options;
use hta::analysis::printed::View;
use hta::compat::{Compat, chosen};
use hta::diff::threshold::{Threshold, ThresholdVerdict};
use hta::diff::{ComparedRun, DIFF, RunPair, analyses};
use hta::read::discover::discover;
use hta::read::options::LoadOptions;
use hta::results::Results;
use hta::run::{Request, run};
use hta::table::schema::Batch;
use hta_testkit::{TraceBuilder, us};
use std::path::PathBuf;
use tempfile::TempDir;

/// The result of a diff.
pub struct Compared {
    pub tables: Vec<Batch>,
    pub sentences: Vec<String>,
    pub views: Vec<View>,
    pub verdicts: Vec<ThresholdVerdict>,
}

impl Compared {
    pub fn rows(&self, table: &str) -> Vec<Record> {
        self.tables.iter().filter(|b| b.spec.name == table).flat_map(rows_of).collect()
    }

    /// The row of a metric.
    pub fn metric(&self, name: &str) -> Record {
        self.one("diff_summary", |r| r.text("metric") == name)
    }

    /// The row of a name.
    pub fn name(&self, side: &str, name: &str) -> Record {
        self.one("diff_by_name", |r| r.text("side") == side && r.text("name") == name)
    }

    fn one(&self, table: &str, wanted: impl Fn(&Record) -> bool) -> Record {
        let mut rows = self.rows(table);
        rows.retain(wanted);
        assert_eq!(rows.len(), 1, "{rows:?}");
        rows.remove(0)
    }

    pub fn notes(&self) -> String {
        self.views.iter().flat_map(|v| v.notes.clone()).collect::<Vec<_>>().join("\n")
    }
}

/// Options with the diff's own: (`--by`, `op`), (`--short-names`, ``).
pub fn with(settings: &[(&str, &str)]) -> Options {
    let mut options = options();
    for (flag, value) in settings {
        let setting = DIFF.about().settings.iter().find(|s| s.flag == *flag).expect("a setting of diff");
        options.settings.set(setting, value).expect("a value of it");
    }
    options
}

/// The tables that are compared.
fn results(shown: &str, paths: &[PathBuf], options: &Options) -> Results {
    let inputs = discover(paths).unwrap_or_else(|e| panic!("{e}"));
    let (load, sink) = (LoadOptions { event_args: false, ..LoadOptions::default() }, Keep::default());
    let request = Request { inputs: &inputs, analyses: &analyses(), options, load, ranks: &[] };
    let outcome = run(&request, &sink, &Quiet).unwrap_or_else(|e| panic!("{paths:?}: {e}"));
    outcome.results(shown, sink.0.into_inner().expect("no thread panicked"))
}

/// The mapper's tables for a set, in other definitions.
pub fn handed_by(by: Option<Compat>, paths: &[PathBuf], options: &Options) -> Vec<Batch> {
    let inputs = discover(paths).unwrap_or_else(|e| panic!("{e}"));
    let load = LoadOptions { event_args: false, ..LoadOptions::default() };
    let request = Request { inputs: &inputs, analyses: &chosen(by, &[DIFF]), options, load, ranks: &[] };
    let outcome = run(&request, &Keep::default(), &Quiet).unwrap_or_else(|e| panic!("{paths:?}: {e}"));
    outcome.outputs.into_iter().flat_map(|(_, o)| o.tables).collect()
}

pub fn diff_with(base: &[PathBuf], test: &[PathBuf], options: &Options, fail_if: &[&str]) -> Compared {
    let set =
        |shown, paths| ComparedRun::read(&results(shown, paths, options), shown, options).expect("tables");
    let thresholds: Vec<Threshold> =
        fail_if.iter().map(|t| Threshold::parse(t).expect("a condition")).collect();
    let pair = RunPair::new(set("before", base), set("after", test));
    assert_eq!(pair.notes().count(), 0);
    let (output, verdicts) = pair.compare(&thresholds, true, options).unwrap_or_else(|e| panic!("{e}"));
    Compared { tables: output.tables, sentences: output.sentences, views: output.views, verdicts }
}

pub fn diff(base: &[PathBuf], test: &[PathBuf]) -> Compared {
    diff_with(base, test, &options(), &[])
}

/// Steps of one rank, us:
///
/// ```text
///   step     |........................................|        0..200
///   gemm         |===================|                         20..120
///   old_one                           |======|                 120..160
///   new_one                                                    (in test)
///   copy                                      |==|             160..170
///   nccl                                         |==|          170..185
/// ```
///
/// What follows a change is shifted by it, so that idle remains 35.
#[derive(Debug, Clone, Copy)]
pub struct Job {
    pub rank: u32,
    pub world: u32,
    pub steps: i64,
    pub gemm: i64,
    pub old_one: i64,
    pub new_one: i64,
    /// Added to the gap before step `i`: `jitter x (i mod 3)`.
    pub jitter: i64,
    pub marks_steps: bool,
}

pub const BASE: Job =
    Job { rank: 0, world: 2, steps: 3, gemm: 100, old_one: 40, new_one: 0, jitter: 0, marks_steps: true };

/// One kernel is 20 % slower, one is removed, one is new.
pub const TEST: Job = Job { gemm: 120, old_one: 0, new_one: 30, ..BASE };

pub const GEMM: &str = "void gemm<float, 128>(float*, int)";

impl Job {
    pub fn builder(self) -> TraceBuilder {
        let mut t = TraceBuilder::new().rank(self.rank).world(self.world).device("NVIDIA H100", 132);
        let mut at = 0;
        for i in 0..self.steps {
            let wait = self.jitter * (i % 3);
            let kernels = [(GEMM, self.gemm), ("old_one", self.old_one), ("new_one", self.new_one)];
            let mut main = t.thread(1);
            let mut gpu = at + 20 + wait;
            let mut call = at + 1;
            for (name, len) in kernels.into_iter().filter(|k| k.1 > 0) {
                main.op(&format!("aten::{}", if name == GEMM { "mm" } else { name }), us(call)..us(call + 3));
                main.launch(us(call + 1)..us(call + 2)).kernel(name, 7, us(gpu)..us(gpu + len));
                gpu += len;
                call += 4;
            }
            let copy = us(gpu)..us(gpu + 10);
            main.runtime("cudaMemcpyAsync", us(call)..us(call + 1)).memcpy(
                "HtoD (Pinned -> Device)",
                7,
                1 << 20,
                copy,
            );
            let nccl = us(gpu + 10)..us(gpu + 25);
            main.launch(us(call + 1)..us(call + 2)).kernel(
                "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
                20,
                nccl,
            );
            let end = gpu + 25 + 15;
            match self.marks_steps {
                true => main.step(i as u64 + 7, us(at)..us(end)),
                // A rank that trains; else what repeats would be its steps.
                false => main.annotation("Optimizer.step#SGD.step", us(end - 2)..us(end - 1)),
            };
            at = end;
        }
        t
    }

    pub fn write(self, folder: &TempDir) -> PathBuf {
        write(&self.builder(), folder, &format!("rank_{}.json", self.rank))
    }
}

pub fn write(trace: &TraceBuilder, folder: &TempDir, name: &str) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, trace.to_json()).expect("a temporary file can be written");
    path
}

pub fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// One rank against one rank.
pub fn diff_jobs(base: Job, test: Job) -> Compared {
    let (a, b) = (folder(), folder());
    diff(&[base.write(&a)], &[test.write(&b)])
}
