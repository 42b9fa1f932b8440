//! `hta query`: runs a query of the catalog or the user's own statement, on results or on traces.

use crate::analysis::filters;
use crate::cli::analyze::warn;
use crate::cli::args::{AcrossArgs, CommonArgs, options, read_text, text_of, traces};
use crate::cli::exit::Exit;
use crate::cli::memory;
use crate::cli::output::{note, print, stdout_is_terminal, width};
use crate::cli::progress::Bar;
use crate::cli::table::CsvArgs;
use crate::cli::watch::{Limits, Watch};
use crate::error::SetError;
use crate::files::{Location, Stores};
use crate::output::inputs::{InputClash, Inputs};
use crate::output::unfinished::write;
use crate::output::visible;
use crate::run::{Request, run as run_pipeline};
use crate::sql::answer::Answer;
use crate::sql::catalog;
use crate::sql::catalog::Query;
use crate::sql::live;
use crate::sql::live::Live;
use crate::sql::results::Results;
use crate::sql::statement::Statement;
use crate::sql::{QueryError, engine};
use crate::units::MemoryLimit;
use anyhow::Context;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches, ValueEnum};
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Debug, Args)]
pub struct QueryArgs {
    /// Name of a query (`hta list queries`), a SELECT, a file *.sql, or `-` for standard input
    #[arg(value_name = "QUERY", required = true)]
    query: String,
    /// A results folder, or traces as for other commands [default: hta-out]
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// A results folder
    #[arg(long, value_name = "DIR", conflicts_with_all = ["paths", "rank_dir"])]
    results: Option<PathBuf>,
    /// A folder with one trace per rank
    #[arg(long, value_name = "DIR")]
    rank_dir: Option<PathBuf>,
    /// Format of the answer
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Write only the first rows of the answer, in any format
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// File to write to instead of standard output
    #[arg(short, long, alias = "output", value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    csv: CsvArgs,
    /// Time limit of the statement, seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=86_400))]
    time_limit: u32,
    /// Print the statement instead of running it
    #[arg(long)]
    sql: bool,
    #[command(flatten)]
    common: CommonArgs,
    #[command(flatten)]
    across: AcrossArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Csv,
    Json,
    Parquet,
}

pub const AFTER_HELP: &str = "\
  hta query top_kernels                             on the results in ./hta-out
  hta query late_ranks ./traces/*.json.gz           on traces that are read now
  hta query 'SELECT name, dur_ns FROM kernels ORDER BY dur_ns DESC LIMIT 5'

`hta explain NAME` documents a query, `hta explain query` says how to write one. Text shows --top rows, the other \
formats all. Options that select and read traces (--ranks, --steps, --clock and so on) apply to traces only.";

/// Folder used if no path is given.
const DEFAULT: &str = "hta-out";

/// Options that apply to traces only.
const FOR_TRACES: [&str; 14] = [
    "ranks",
    "steps",
    "step_pattern",
    "step_window",
    "linked_only",
    "compat",
    "rules",
    "peaks",
    "skip",
    "strict",
    "kernel_wait_max_us",
    "clock",
    "straggler_min_pct",
    "group",
];

pub fn command() -> Command {
    let about = "Run a query of the catalog, or your own SQL, on results or on traces";
    QueryArgs::augment_args(Command::new("query").about(about)).after_help(AFTER_HELP)
}

pub fn run(matches: &ArgMatches, stores: &Stores) -> anyhow::Result<Exit> {
    engine::on_large_stack(|| answer(matches, stores)).context("cannot run the statement")?
}

fn answer(matches: &ArgMatches, stores: &Stores) -> anyhow::Result<Exit> {
    let args = QueryArgs::from_arg_matches(matches)?;
    let (query, text) = args.text()?;
    if args.sql {
        args.allow(Inputs::default())?;
        let shown = if args.out.is_none() && stdout_is_terminal() { visible::lines(&text) } else { (&*text).into() };
        args.write(shown.as_bytes())?;
        return Ok(Exit::Done);
    }
    if args.format == Format::Parquet && args.out.is_none() && stdout_is_terminal() {
        let reason = "a terminal cannot show Parquet; give a file with --out".to_string();
        return Err(SetError::Argument { option: "--format", value: "parquet".to_string(), reason }.into());
    }
    let statement = Statement::new(&text)?;
    // The engine panics on SQL that it does not support. The panic is caught and reported as an error; the hook hides
    // the message that it would print.
    std::panic::set_hook(Box::new(|_| {}));
    let (answer, _watch, exit) = match args.source(stores)? {
        Source::Results(folder) => {
            let limit = memory::limit(args.common.memory_limit);
            let watch = args.watch(limit);
            (args.on_results(&folder, &statement, limit, matches)?, watch, Exit::Done)
        }
        Source::Traces => match args.on_traces(&statement, stores)? {
            (Some((answer, watch)), exit) => (answer, watch, exit),
            (None, exit) => return Ok(exit),
        },
    };
    if statement.is_limited && statement.makes_rows && !statement.is_ordered {
        note("hta: the rows that LIMIT keeps are arbitrary: the statement has no ORDER BY");
    }
    args.show(query, &answer)?;
    Ok(exit)
}

/// Whether a path can be that of a folder: a server of files has none that could be read.
fn may_be_folder(path: &Path) -> bool {
    !path.to_string_lossy().starts_with("http")
}

enum Source {
    Results(Location),
    Traces,
}

impl QueryArgs {
    /// The query of the catalog, if the argument names one, and the text of the statement.
    fn text(&self) -> anyhow::Result<(Option<&'static Query>, String)> {
        if let Some(query) = catalog::find(&self.query) {
            return Ok((Some(query), query.text.to_string()));
        }
        if self.query == "-" {
            let text = text_of(std::io::stdin().lock()).context("cannot read standard input")?;
            return Ok((None, text));
        }
        if self.query.trim().contains(char::is_whitespace) {
            return Ok((None, self.query.clone()));
        }
        if self.query.to_lowercase().ends_with(".sql") {
            let text = read_text(Path::new(&self.query)).with_context(|| format!("cannot read {}", self.query))?;
            return Ok((None, text));
        }
        Err(catalog::unknown(&self.query, &live::names()).into())
    }

    /// Refuses to write to a file that is one of `inputs` or another input of the command.
    fn allow(&self, mut inputs: Inputs) -> Result<(), InputClash> {
        self.common.guard(&mut inputs);
        if self.query.to_lowercase().ends_with(".sql") {
            inputs.add_file(Path::new(&self.query));
        }
        self.out.as_ref().map_or(Ok(()), |out| inputs.allow_file(out))
    }

    fn source(&self, stores: &Stores) -> Result<Source, QueryError> {
        let folder = match (&self.results, self.paths.as_slice(), &self.rank_dir) {
            (Some(folder), _, _) => Location::new(folder, stores),
            (None, [], None) => Location::from(DEFAULT),
            (None, [one], None) => {
                let folder = Location::new(one, stores);
                match may_be_folder(one) && Results::is_one(&folder)? {
                    true => folder,
                    false => return Ok(Source::Traces),
                }
            }
            _ => return Ok(Source::Traces),
        };
        Ok(Source::Results(folder))
    }

    /// Ends the program when a statement takes too much. It is the user's, and may join every row with every other.
    fn watch(&self, memory: Option<MemoryLimit>) -> Watch {
        Watch::start(Limits {
            doing: "run the statement".to_string(),
            memory,
            time: Some(Duration::from_secs(u64::from(self.time_limit))),
            hints: (
                "name fewer columns, filter before joining, or aggregate; or raise --memory-limit",
                "join on keys, filter before joining, or aggregate; or raise --time-limit",
            ),
        })
    }

    fn on_results(
        &self,
        folder: &Location,
        statement: &Statement,
        limit: Option<MemoryLimit>,
        matches: &ArgMatches,
    ) -> anyhow::Result<Answer> {
        let given = |id: &&&str| matches.value_source(id) == Some(ValueSource::CommandLine);
        if let Some(id) = FOR_TRACES.iter().find(given) {
            let option = format!("--{}", id.replace('_', "-"));
            return Err(QueryError::OnlyForTraces { option, place: folder.display().to_string() }.into());
        }
        let mut guarded = Inputs::default();
        guarded.add_results(folder);
        self.allow(guarded)?;
        let results = Results::open(folder)?;
        let tables = results.load_within(statement, limit)?;
        Ok(engine::run(statement, tables, |t| results.columns(t).unwrap_or_default())?)
    }

    /// Returns no answer if `--strict` is given and the input has a loss.
    fn on_traces(&self, statement: &Statement, stores: &Stores) -> anyhow::Result<(Option<(Answer, Watch)>, Exit)> {
        if let Some(compat) = self.common.compat {
            let reason = "queries are about the tables of hta itself".to_string();
            let value = format!("{compat:?}").to_lowercase();
            return Err(SetError::Argument { option: "--compat", value, reason }.into());
        }
        let live = Live::new(statement)?;
        let analyses = live.analyses();
        let mut options = options(&self.common, &self.across, stores)?;
        filters::refuse_unused(&analyses, &options)?;
        options.wanted = live.rows_wanted();
        let args = live.needs_events() || analyses.iter().any(|a| a.reads_event_args(&options));
        let traces = traces(&self.paths, self.rank_dir.as_deref(), stores)?;
        self.allow(traces.guarded.clone())?;
        let request = Request {
            inputs: &traces.inputs,
            analyses: &analyses,
            options: &options,
            load: self.common.load(args, false),
            ranks: self.common.rank_ranges(),
        };
        let outcome = self.common.on_threads(|| run_pipeline(&request, &live, &Bar::default()))??;
        filters::check_pattern(&outcome.inventory)?;
        warn(&outcome.refused);
        if self.common.strict && outcome.has_loss() {
            note("hta: cannot go on with --strict: something in the input could not be used");
            return Ok((None, Exit::Nothing));
        }
        let exit = if outcome.has_loss() { Exit::Partly } else { Exit::Done };
        let watch = self.watch(memory::limit(self.common.memory_limit));
        Ok((Some((engine::run(statement, live.tables(&outcome)?, live::columns)?, watch)), exit))
    }

    fn show(&self, query: Option<&Query>, answer: &Answer) -> anyhow::Result<()> {
        let answer = self.limit.map_or_else(|| answer.clone(), |n| answer.head(n));
        let bytes = match self.format {
            Format::Csv => answer.csv(self.csv.style(self.out.as_deref())).into_bytes(),
            Format::Json => visible::json(&answer.json()?).into_owned().into_bytes(),
            Format::Parquet => answer.parquet()?,
            Format::Text => {
                let header = query.map(Query::header).unwrap_or_default();
                let read = Some(header.read).filter(|r| !r.is_empty());
                let title = header.title;
                let head = if title.is_empty() { title } else { format!("{title}\n{}\n", "-".repeat(title.len())) };
                let notes: Vec<String> = read.into_iter().collect();
                visible::lines(&(head + &answer.text(self.common.top, &notes, width()))).into_owned().into_bytes()
            }
        };
        self.write(&bytes)
    }

    fn write(&self, bytes: &[u8]) -> anyhow::Result<()> {
        match &self.out {
            Some(path) => write(path, bytes).with_context(|| format!("cannot write {}", path.display())),
            None => print(bytes).map(|_| ()).map_err(anyhow::Error::from),
        }
    }
}
