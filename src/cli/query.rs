//! `hta query`: runs a query of the catalog or the user's own statement, on results or on traces.

use crate::cli::args::{AcrossArgs, CommonArgs, options, refuse_for_results};
use crate::cli::exit::Exit;
use crate::cli::memory;
use crate::cli::output::{note, warn, width};
use crate::cli::progress::Bar;
use crate::cli::results::RESULTS_FOLDER;
use crate::cli::table::{CsvArgs, OutArg};
use crate::cli::traces::{CANNOT_READ_STDIN, RankDirArg, read_text, text_of, traces};
use crate::cli::watch::{Watch, WatchLimits};
use anyhow::Context;
use clap::{ArgMatches, Args, Command, FromArgMatches, ValueEnum};
use hta_analysis::filters;
use hta_base::units::MemoryLimit;
use hta_read::error::SetError;
use hta_read::files::{Location, Stores};
use hta_results::output::inputs::{Inputs, OutputRefused};
use hta_results::output::visible;
use hta_results::results::Results;
use hta_results::run::{Request, run as run_pipeline};
use hta_results::sql::answer::QueryAnswer;
use hta_results::sql::catalog;
use hta_results::sql::catalog::Query;
use hta_results::sql::live;
use hta_results::sql::live::Live;
use hta_results::sql::statement::Statement;
use hta_results::sql::{QueryError, engine, results};
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Debug, Args)]
pub struct QueryArgs {
    /// Name of a query (`hta list queries`), a SELECT, a file *.sql, or `-` for standard input
    #[arg(value_name = "QUERY", required = true)]
    query: String,
    #[arg(value_name = "PATH")]
    #[arg(help = format!("A results folder, or traces as for other commands [default: {RESULTS_FOLDER}]"))]
    paths: Vec<PathBuf>,
    /// A results folder
    #[arg(long, value_name = "DIR", conflicts_with_all = ["paths", "rank_dir"])]
    results: Option<PathBuf>,
    #[command(flatten)]
    rank_dir: RankDirArg,
    /// Format of the answer [default: that of the ending of --out, else text]
    #[arg(long, value_enum)]
    format: Option<AnswerFormat>,
    /// Write only the first rows of the answer, in any format
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    #[command(flatten)]
    out: OutArg,
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
enum AnswerFormat {
    Text,
    Csv,
    Json,
    Parquet,
}

pub const AFTER_HELP: &str = "\
  hta query top_kernels                             on the results in ./hta-out
  hta query late_ranks ./traces/*.json.gz           on traces that are read now
  hta query 'SELECT name, dur_ns FROM kernels ORDER BY dur_ns DESC LIMIT 5'

`hta explain NAME` documents a query, `hta explain query` says how to write one. Text shows --top rows, the \
other \
formats all. Options that select and read traces (--ranks, --steps, --clock and so on) apply to traces only.";

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
        let shown = if args.out.is_terminal() { visible::lines(&text) } else { (&*text).into() };
        args.out.write(shown.as_bytes())?;
        return Ok(Exit::Done);
    }
    if args.format() == AnswerFormat::Parquet {
        args.out.takes_parquet()?;
    }
    let statement = Statement::new(&text)?;
    // The engine panics on SQL that it does not support. The panic is caught and reported as an error; the
    // hook hides the message that it would print.
    std::panic::set_hook(Box::new(|_| {}));
    let (answer, _watch, exit) = match args.source(stores)? {
        QuerySource::Results(folder) => {
            let limit = memory::limit(args.common.memory_limit);
            let watch = args.watch(limit);
            let answer = || args.on_results(&folder, &statement, limit, matches);
            (args.common.threads.run(answer)??, watch, Exit::Done)
        }
        QuerySource::Traces => match args.on_traces(&statement, stores)? {
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

enum QuerySource {
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
            let text = text_of(std::io::stdin().lock()).context(CANNOT_READ_STDIN)?;
            return Ok((None, text));
        }
        if self.query.trim().contains(char::is_whitespace) {
            return Ok((None, self.query.clone()));
        }
        if self.query.to_lowercase().ends_with(".sql") {
            let text =
                read_text(Path::new(&self.query)).with_context(|| format!("cannot read {}", self.query))?;
            return Ok((None, text));
        }
        Err(catalog::unknown(&self.query, &live::names()).into())
    }

    fn format(&self) -> AnswerFormat {
        let ending = self.out.path().and_then(|path| path.extension()?.to_str());
        let of_ending = ending.and_then(|ending| AnswerFormat::from_str(ending, true).ok());
        self.format.or(of_ending).unwrap_or(AnswerFormat::Text)
    }

    /// Refuses to write to a file that is one of `inputs` or another input of the command.
    fn allow(&self, mut inputs: Inputs) -> Result<(), OutputRefused> {
        self.common.guard(&mut inputs);
        if self.query.to_lowercase().ends_with(".sql") {
            inputs.add_file(Path::new(&self.query));
        }
        self.out.allow(&inputs)
    }

    fn source(&self, stores: &Stores) -> Result<QuerySource, QueryError> {
        let folder = match (&self.results, self.paths.as_slice(), self.rank_dir.is_given()) {
            (Some(folder), _, _) => Location::new(folder, stores),
            (None, [], false) => Location::from(RESULTS_FOLDER),
            (None, [one], false) => {
                let folder = Location::new(one, stores);
                match may_be_folder(one) && Results::is_one(&folder)? {
                    true => folder,
                    false => return Ok(QuerySource::Traces),
                }
            }
            _ => return Ok(QuerySource::Traces),
        };
        Ok(QuerySource::Results(folder))
    }

    /// Ends the program when a statement takes too much. It is the user's, and may join every row with every
    /// other.
    fn watch(&self, memory: Option<MemoryLimit>) -> Watch {
        Watch::start(WatchLimits {
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
    ) -> anyhow::Result<QueryAnswer> {
        refuse_for_results(matches, &[], &[], folder).map_err(QueryError::from)?;
        let mut guarded = Inputs::default();
        guarded.add_results(folder);
        self.allow(guarded)?;
        let found = Results::open(folder)?.within(limit);
        let tables = results::load(&found, statement, limit)?;
        Ok(engine::run(statement, tables, |t| found.columns(t))?)
    }

    /// Returns no answer if `--strict` is given and the input has a loss.
    fn on_traces(
        &self,
        statement: &Statement,
        stores: &Stores,
    ) -> anyhow::Result<(Option<(QueryAnswer, Watch)>, Exit)> {
        if let Some(compat) = self.common.compat {
            let reason = "queries are about the tables of hta itself".to_string();
            return Err(
                SetError::Argument { option: "--compat", value: compat.name().to_string(), reason }.into()
            );
        }
        let live = Live::new(statement)?;
        let analyses = live.analyses();
        let mut options = options(&self.common, &self.across, stores)?;
        filters::refuse_unused(&analyses, &options)?;
        options.wanted = live.rows_wanted();
        let args = live.needs_events() || analyses.iter().any(|a| a.reads_event_args(&options));
        let traces = traces(&self.paths, &self.rank_dir, stores)?;
        self.allow(traces.guarded.clone())?;
        let ranks = self.common.ranks.ranges(&traces.inputs)?;
        let request = Request {
            inputs: &traces.inputs,
            analyses: &analyses,
            options: &options,
            load: self.common.load(args, false),
            ranks: &ranks,
        };
        let outcome = self.common.threads.run(|| run_pipeline(&request, &live, &Bar::default()))??;
        filters::check_pattern(&outcome.inventory)?;
        warn(&outcome.refused);
        if self.common.strict.refuses_loss(outcome.has_loss()) {
            return Ok((None, Exit::Nothing));
        }
        let exit = Exit::of_loss(outcome.has_loss());
        let watch = self.watch(memory::limit(self.common.memory_limit));
        Ok((Some((engine::run(statement, live.tables(&outcome)?, live::columns)?, watch)), exit))
    }

    fn show(&self, query: Option<&Query>, answer: &QueryAnswer) -> anyhow::Result<()> {
        let answer = self.limit.map_or_else(|| answer.clone(), |n| answer.head(n));
        let bytes = match self.format() {
            AnswerFormat::Csv => answer.csv(self.csv.style(self.out.path())).into_bytes(),
            AnswerFormat::Json => visible::json(&answer.json()?).into_owned().into_bytes(),
            AnswerFormat::Parquet => answer.parquet()?,
            AnswerFormat::Text => {
                let header = query.map(Query::header).unwrap_or_default();
                let read = Some(header.read).filter(|r| !r.is_empty());
                let title = header.title;
                let head =
                    if title.is_empty() { title } else { format!("{title}\n{}\n", "-".repeat(title.len())) };
                let notes: Vec<String> = read.into_iter().collect();
                visible::lines(&(head + &answer.text(self.common.top, &notes, width())))
                    .into_owned()
                    .into_bytes()
            }
        };
        self.out.write(&bytes)
    }
}
