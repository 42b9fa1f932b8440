//! Runs analyses through the library and keeps every table they produce.

use hta::analysis::api::{Options, Output};
use hta::compat::{Compat, chosen};
use hta::output::json;
use hta::read::discover::discover;
use hta::read::input::Input;
use hta::read::load::load;
use hta::read::options::LoadOptions;
use hta::read::reading::Spread;
use hta::read::source::ByteCount;
use hta::registry::ANALYSES;
use hta::run::{Outcome, Progress, Request, RowSink, RunError, run};
use hta::table::schema::{Batch, ColumnSpec};
use hta::trace::meta::RankSource;
use hta::trace::rank_trace::{ModelOptions, RankTrace};
use hta::trace::step::StepWindow;
use hta_testkit::TraceBuilder;
use serde_json::Value;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// The default options, with the windows of steps on the host.
pub fn options() -> Options {
    let model = ModelOptions { step_window: StepWindow::Host, ..ModelOptions::default() };
    Options { model, ..Options::default() }
}

/// The same, with the windows of steps on the device.
pub fn device_windows() -> Options {
    let mut o = options();
    o.model.step_window = StepWindow::Device;
    o
}

/// Tables and outcome of a run.
pub struct Answer {
    pub outcome: Outcome,
    /// Batches that were written rank by rank, in the order they came.
    pub streamed: Vec<Batch>,
}

/// A row of a table, which is printed as a JSON object.
#[derive(Clone, Debug)]
pub struct Record(pub Row);

/// Place of a row. The columns are shared, so that a table of many rows is not copied.
#[derive(Clone)]
pub struct Row {
    batch: Arc<Batch>,
    at: usize,
}

impl Record {
    pub fn int(&self, column: &str) -> i64 {
        self.opt_int(column).unwrap_or_else(|| panic!("`{column}` is no integer in {}", self.0))
    }

    /// An integer; a flag is none.
    pub fn opt_int(&self, column: &str) -> Option<i64> {
        let Row { batch, at } = &self.0;
        if self.spec(column).kind == "bool" { None } else { batch.int(column, *at) }
    }

    pub fn float(&self, column: &str) -> Option<f64> {
        let Row { batch, at } = &self.0;
        if self.spec(column).kind == "bool" {
            None
        } else {
            batch.float(column, *at).filter(|v| v.is_finite())
        }
    }

    pub fn flag(&self, column: &str) -> Option<bool> {
        self.cell(column).as_bool()
    }

    pub fn text(&self, column: &str) -> &str {
        self.spec(column);
        self.0.batch.text(column, self.0.at).unwrap_or_default()
    }

    /// A cell as JSON.
    pub fn cell(&self, column: &str) -> Value {
        let rows = self.0.batch.rows();
        let array = rows.column_by_name(self.spec(column).name);
        array.map_or(Value::Null, |array| json::cell(array, self.0.at))
    }

    pub fn has(&self, column: &str) -> bool {
        self.0.batch.spec.columns.iter().any(|c| c.name == column)
    }

    /// A column that does not exist is an error in the test.
    fn spec(&self, column: &str) -> &ColumnSpec {
        let spec = self.0.batch.spec;
        let found = spec.columns.iter().find(|c| c.name == column);
        found.unwrap_or_else(|| panic!("no column `{column}` in `{}`", spec.name))
    }
}

/// The only row.
pub fn one(rows: Vec<Record>) -> Record {
    assert_eq!(rows.len(), 1, "{rows:?}");
    rows.into_iter().next().expect("one row")
}

pub fn ints<const N: usize>(row: &Record, columns: [&str; N]) -> [i64; N] {
    columns.map(|c| row.int(c))
}

/// The rows of a batch.
pub fn rows_of(batch: &Batch) -> Vec<Record> {
    let batch = Arc::new(batch.clone());
    (0..batch.len()).map(|at| Record(Row { batch: Arc::clone(&batch), at })).collect()
}

impl Row {
    fn object(&self) -> Value {
        let rows = self.batch.rows();
        let columns = self.batch.spec.columns.iter().zip(rows.columns());
        Value::Object(columns.map(|(c, array)| (c.name.to_string(), json::cell(array, self.at))).collect())
    }
}

impl PartialEq for Row {
    fn eq(&self, other: &Self) -> bool {
        self.object() == other.object()
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.object().fmt(f)
    }
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Answer {
    /// What a run has found, with its views.
    pub fn of(mut outcome: Outcome, kept: Keep, options: &Options) -> Self {
        let streamed = kept.0.into_inner().expect("no test thread panics while holding it");
        let results = outcome.results(Path::new("."), streamed.clone());
        outcome.show(&results, options).expect("the views of tables in memory");
        Self { outcome, streamed }
    }

    /// Every batch: those of the reduced outputs, those that were streamed, those of the inventory.
    pub fn batches(&self) -> impl Iterator<Item = &Batch> {
        let reduced = self.outcome.outputs.iter().flat_map(|(_, o)| &o.tables);
        let inventory = self.outcome.inventory.iter().flat_map(|p| &p.tables);
        reduced.chain(&self.streamed).chain(inventory)
    }

    /// All rows of a table.
    pub fn rows(&self, table: &str) -> Vec<Record> {
        self.batches().filter(|b| b.spec.name == table).flat_map(rows_of).collect()
    }

    /// The views of all analyses, as they are printed.
    pub fn views(&self) -> Vec<PrintedView> {
        self.outcome.outputs.iter().flat_map(|(_, output)| printed(output)).collect()
    }

    /// What an analysis says above its views, and the notes below them.
    pub fn notes(&self, stem: &str) -> Vec<String> {
        let of = self.outcome.outputs.iter().filter(|(a, _)| a.stem() == stem);
        let said = |output: &Output| -> Vec<String> {
            let notes = printed(output).into_iter().flat_map(|view| view.notes);
            output.sentences.iter().cloned().chain(notes).collect()
        };
        of.flat_map(|(_, output)| said(output)).collect()
    }

    /// The rows of a table that satisfy `keep`.
    pub fn rows_where(&self, table: &str, keep: impl Fn(&Record) -> bool) -> Vec<Record> {
        self.rows(table).into_iter().filter(keep).collect()
    }
}

/// A view as it is printed.
#[derive(Debug, Clone)]
pub struct PrintedView {
    pub title: String,
    pub columns: Vec<String>,
    pub rows: Vec<Vec<String>>,
    pub notes: Vec<String>,
}

/// The views of one answer.
fn printed(output: &Output) -> Vec<PrintedView> {
    let made = output.views.iter().map(|view| PrintedView {
        title: view.title.clone(),
        columns: view.columns.iter().map(|c| c.heading.to_string()).collect(),
        rows: view.rows.clone(),
        notes: view.notes.clone(),
    });
    let declared = output.shown.iter().map(|view| PrintedView {
        title: view.title.to_string(),
        columns: view.columns.iter().map(|c| c.heading.to_string()).collect(),
        rows: view
            .rows
            .iter()
            .map(|r| view.columns.iter().zip(r).map(|(c, v)| c.text(v)).collect())
            .collect(),
        notes: view.notes.clone(),
    });
    made.chain(declared).collect()
}

/// Keeps the rows, in the order in which the pipeline passes them.
#[derive(Default)]
pub struct Keep(pub Mutex<Vec<Batch>>);

impl RowSink for Keep {
    fn rows(&self, rows: Batch) -> std::io::Result<()> {
        self.0.lock().expect("no test thread panics while holding it").push(rows);
        Ok(())
    }

    fn trace(&self, _: &RankTrace) -> std::io::Result<()> {
        Ok(())
    }

    fn void(&self) -> std::io::Result<()> {
        self.0.lock().expect("no test thread panics while holding it").clear();
        Ok(())
    }
}

/// Shows no progress.
pub struct Quiet;

impl Progress for Quiet {
    fn start(&self, _: usize, _: u64, _: &ByteCount) {}
    fn rank_done(&self) {}
    fn finish(&self) {}
}

/// Runs all analyses over files, folders or patterns.
pub fn try_run(paths: &[PathBuf], options: &Options) -> Result<Answer, RunError> {
    try_run_by(None, paths, options)
}

/// The same, or what stands for them in other definitions.
fn try_run_by(by: Option<Compat>, paths: &[PathBuf], options: &Options) -> Result<Answer, RunError> {
    let analyses = chosen(by, ANALYSES);
    let inputs = discover(paths)?;
    let keep = Keep::default();
    let request = Request {
        inputs: &inputs,
        analyses: &analyses,
        options,
        load: LoadOptions { event_args: false, ..LoadOptions::default() },
        ranks: &[],
    };
    Ok(Answer::of(run(&request, &keep, &Quiet)?, keep, options))
}

/// A file as a rank's trace; `None` if it is not one.
pub fn try_trace(path: &Path) -> Option<RankTrace> {
    let input = Input::named(path);
    let loaded = load(&input, LoadOptions::default(), Spread::Inline, &ByteCount::default()).ok()?;
    Some(loaded.into_trace(0, RankSource::File, input.shown, &options().model))
}

/// One file as a rank's trace.
pub fn rank_trace(path: &Path, rank: u32) -> RankTrace {
    let input = Input::named(path);
    let loaded = load(&input, LoadOptions::default(), Spread::Inline, &ByteCount::default())
        .unwrap_or_else(|e| panic!("{e}"));
    loaded.into_trace(rank, RankSource::File, input.shown, &options().model)
}

/// Runs all analyses over files that are known to be good.
pub fn answer(paths: &[PathBuf], options: &Options) -> Answer {
    try_run(paths, options).unwrap_or_else(|e| panic!("{paths:?}: {e}"))
}

/// The same over the traces of ranks.
pub fn answer_of(ranks: &[TraceBuilder], options: &Options) -> Answer {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let write = |(i, t): (usize, &TraceBuilder)| {
        let path = folder.path().join(format!("rank_{i}.json"));
        std::fs::write(&path, t.to_json()).expect("a temporary file can be written");
        path
    };
    answer(&ranks.iter().enumerate().map(write).collect::<Vec<_>>(), options)
}

/// The same over files, or what stands for them in other definitions.
pub fn answer_by(by: Option<Compat>, paths: &[PathBuf], options: &Options) -> Answer {
    try_run_by(by, paths, options).unwrap_or_else(|e| panic!("{paths:?}: {e}"))
}
