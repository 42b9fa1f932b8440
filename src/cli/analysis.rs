//! The subcommands of single analyses: each prints one table or the text report of its analysis on standard output.

use crate::analysis::api::{AcrossOptions, Analysis, Compat, Options, Output, ReplayMethod, WaitMethod, Wanted};
use crate::analysis::filters;
use crate::analysis::registry::find;
use crate::analysis::settings::{Kind, Setting};
use crate::cli::analyze::warn;
use crate::cli::args::TraceArgs;
use crate::cli::exit::Exit;
use crate::cli::known;
use crate::cli::output::{note, width};
use crate::cli::progress::Bar;
use crate::cli::table::OutputArgs;
use crate::error::SetError;
use crate::output::text;
use crate::run::{Request, RowSink, run as run_pipeline};
use crate::table::schema::{Batch, TableSpec};
use crate::trace::rank_trace::RankTrace;
use anyhow::Context;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, ValueEnum};
use std::io;
use std::sync::Mutex;

#[derive(Debug, Args)]
pub struct AnalysisArgs {
    #[command(flatten)]
    traces: TraceArgs,
    #[command(flatten)]
    output: OutputArgs,
    /// `sync`: arrival, or shortest as the TensorBoard plugin does; `what-if`: replay, or published as in the paper
    #[arg(long, value_enum)]
    method: Option<MethodArg>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MethodArg {
    Arrival,
    Shortest,
    Replay,
    Published,
}

/// Sets the method in `options`; an error if the analysis does not have it.
fn choose(stem: &str, method: Option<MethodArg>, options: &mut Options) -> Result<(), SetError> {
    let across = &mut options.across;
    match (stem, method) {
        (_, None) => {}
        ("sync", Some(MethodArg::Arrival)) => across.wait = WaitMethod::Arrival,
        ("sync", Some(MethodArg::Shortest)) => across.wait = WaitMethod::Shortest,
        ("what-if", Some(MethodArg::Replay)) => across.replay = ReplayMethod::Replay,
        ("what-if", Some(MethodArg::Published)) => across.replay = ReplayMethod::Published,
        (_, Some(method)) => {
            let value = format!("{method:?}").to_lowercase();
            let reason = match stem {
                "sync" => "expected arrival or shortest".to_string(),
                "what-if" => "expected replay or published".to_string(),
                _ => "this analysis has one method".to_string(),
            };
            return Err(SetError::Argument { option: "--method", value, reason });
        }
    }
    Ok(())
}

/// Keeps the rows of the table to be printed. Keeps nothing if the text report is printed instead.
struct Keep {
    table: &'static TableSpec,
    is_text: bool,
    rows: Mutex<Vec<Batch>>,
}

impl Keep {
    fn wants(&self, batch: &Batch) -> bool {
        !self.is_text && batch.spec.name == self.table.name
    }
}

impl RowSink for Keep {
    fn rows(&self, rows: Batch) -> io::Result<()> {
        if self.wants(&rows) {
            self.rows.lock().map_err(|_| io::Error::other("another thread failed"))?.push(rows);
        }
        Ok(())
    }

    fn reduced(&self, _: &dyn Analysis, output: &mut Output) -> io::Result<()> {
        output.tables.retain(|b| self.wants(b));
        Ok(())
    }

    fn trace(&self, _: &RankTrace) -> io::Result<()> {
        Ok(())
    }

    fn void(&self) -> io::Result<()> {
        self.rows.lock().map_err(|_| io::Error::other("another thread failed"))?.clear();
        Ok(())
    }
}

/// The subcommand of an analysis: the common arguments and the options that the analysis declares.
pub fn command(analysis: &dyn Analysis) -> Command {
    let command = AnalysisArgs::augment_args(Command::new(analysis.stem()).about(analysis.title()));
    with_tables(with_settings(command, analysis.settings()), analysis)
}

/// Lets the shell complete `--table` with all tables of the analysis. Whether the chosen options allow the table is
/// checked later, with a better error message.
pub fn with_tables(command: Command, analysis: &dyn Analysis) -> Command {
    let compat = [Compat::Hta, Compat::TraceLens].iter().flat_map(|c| analysis.compat_tables(*c));
    let other = AcrossOptions { wait: WaitMethod::Shortest, ..AcrossOptions::default() };
    let of_method = analysis.method_tables(&other).unwrap_or_default();
    let tables = analysis.tables().iter().chain(of_method).chain(compat);
    let names: Vec<_> = tables.map(|t| (t.name, "")).collect();
    command.mut_arg("table", |arg| known::complete(arg, names))
}

/// Adds the options that an analysis declares.
pub fn with_settings(mut command: Command, settings: &[Setting]) -> Command {
    for s in settings {
        let help = s.default_text().map_or_else(|| s.help.to_string(), |d| format!("{} [default: {d}]", s.help));
        let arg = Arg::new(s.name()).long(s.name()).help(help).help_heading("Options of this analysis");
        command = command.arg(match s.kind {
            Kind::Flag => arg.action(ArgAction::SetTrue),
            Kind::Choice(of) => arg.value_name(s.value).value_parser(of.to_vec()),
            _ => arg.value_name(s.value),
        });
    }
    command
}

/// Copies the user's values for the declared options into `options`.
pub fn enter(settings: &[Setting], matches: &ArgMatches, options: &mut Options) -> Result<(), SetError> {
    for s in settings {
        let text = match s.kind {
            Kind::Flag => matches.get_flag(s.name()).then_some(""),
            _ => matches.get_one::<String>(s.name()).map(String::as_str),
        };
        let Some(text) = text else { continue };
        options.settings.set(s, text).map_err(|reason| SetError::Argument {
            option: s.flag,
            value: text.to_string(),
            reason,
        })?;
    }
    Ok(())
}

pub fn run(stem: &str, matches: &ArgMatches) -> anyhow::Result<Exit> {
    let analysis = find(stem).with_context(|| format!("cannot find the analysis `{stem}`"))?;
    let args = &AnalysisArgs::from_arg_matches(matches)?;
    let analyses = [analysis];
    let mut options = args.traces.options(&analyses)?;
    choose(stem, args.method, &mut options)?;
    enter(analysis.settings(), matches, &mut options)?;
    filters::refuse_unused(&analyses, &options)?;
    let of_method = analysis.method_tables(&options.across).filter(|_| options.compat.is_none());
    let declared = of_method.unwrap_or_else(|| analysis.declared(options.compat));
    let table = args.output.table(declared)?;
    options.wanted = Wanted::Only(table.name);
    let traces = args.traces.traces()?;
    args.output.allow(&traces.guarded)?;
    let request = Request {
        inputs: &traces.inputs,
        analyses: &analyses,
        options: &options,
        load: args.traces.common.load(analysis.reads_event_args(&options), false),
        ranks: args.traces.common.rank_ranges(),
    };
    let keep = Keep { table, is_text: args.output.is_text(), rows: Mutex::default() };
    let outcome = args.traces.common.on_threads(|| run_pipeline(&request, &keep, &Bar::default()))??;
    filters::check_pattern(&outcome.inventory)?;
    warn(&outcome.refused);
    if args.traces.common.strict && outcome.has_loss() {
        note("hta: cannot go on with --strict: something in the input could not be used");
        return Ok(Exit::Nothing);
    }
    let mut batches = keep.rows.into_inner().unwrap_or_default();
    let reduced = outcome.outputs.iter().flat_map(|(_, o)| &o.tables).filter(|b| b.spec.name == table.name);
    batches.extend(reduced.cloned());
    args.output.write(table, &batches, || match outcome.outputs.first().and_then(|(_, o)| o.raw.as_ref()) {
        Some(raw) => raw.clone(),
        None => text::one_analysis(&outcome, width()),
    })?;
    if args.output.is_text() {
        for line in text::loss_lines(&outcome) {
            note(&line);
        }
    }
    Ok(if outcome.has_loss() { Exit::Partly } else { Exit::Done })
}
