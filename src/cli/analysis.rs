//! The subcommands of single analyses: each prints one table or the text report of its analysis on standard
//! output.

use crate::cli::args::{NARROWING, TraceArgs, refuse_for_results};
use crate::cli::captures::CaptureArgs;
use crate::cli::exit::Exit;
use crate::cli::known;
use crate::cli::output::{note, warn, width};
use crate::cli::progress::Bar;
use crate::cli::questions;
use crate::cli::table::OutputArgs;
use crate::cli::traces::read_text;
use anyhow::Context;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use hta_analysis::api::{About, AcrossOption, Analysis, Options, Output, Wanted};
use hta_analysis::filters;
use hta_analysis::memory;
use hta_analysis::ops::COLUMNS;
use hta_analysis::settings::{Setting, ValueType};
use hta_base::table::schema::{Batch, TableSpec};
use hta_compat as compat;
use hta_read::error::SetError;
use hta_read::files::Stores;
use hta_read::input::Input;
use hta_results::output::inputs::Inputs;
use hta_results::output::text;
use hta_results::output::unfinished::write;
use hta_results::results::{Results, ResultsError, ToldRun, is_told_from};
use hta_results::run::{Outcome, Request, RowSink, narrowed, of_groups, run as run_pipeline};
use hta_trace::rank_trace::RankTrace;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Mutex;

#[derive(Debug, Args)]
pub struct AnalysisArgs {
    #[command(flatten)]
    traces: TraceArgs,
    #[command(flatten)]
    capture: CaptureArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Keeps the rows of the table to be printed, or of the tables of which the text is made.
struct PrintedRows<'a> {
    table: &'static TableSpec,
    is_text: bool,
    analyses: &'a [&'static dyn Analysis],
    rows: Mutex<Vec<Batch>>,
}

impl PrintedRows<'_> {
    fn wants(&self, batch: &Batch) -> bool {
        match self.is_text {
            true => self.analyses.iter().any(|a| is_told_from(*a, batch.spec)),
            false => batch.spec.name == self.table.name,
        }
    }
}

impl RowSink for PrintedRows<'_> {
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

/// A command of analyses: the common arguments and the options that the analyses declare.
pub fn command(name: &'static str, about: &'static str, analyses: &[&'static dyn Analysis]) -> Command {
    let mut command = Command::new(name).about(about);
    if name == COLUMNS.stem {
        // Its name before it had FLOPs and rates.
        command = command.alias("stacks");
    }
    let mut command = AnalysisArgs::augment_args(command).mut_arg("traces", |arg| {
        arg.help(
            "Results of `hta analyze`; or traces: files, folders (one level deep) or patterns; `-` is standard \
             input",
        )
    });
    for analysis in analyses {
        command = with_settings(command, analysis.about().settings);
    }
    with_tables(command, analyses)
}

/// Lets the shell complete `--table` with all tables of the analyses. Whether the chosen options allow the
/// table is checked later, with a better error message.
pub fn with_tables(command: Command, analyses: &[&'static dyn Analysis]) -> Command {
    let answers = analyses.iter().flat_map(|a| compat::of(a.stem())).flat_map(|a| a.tables());
    let own = analyses.iter().flat_map(|a| a.tables());
    let names: BTreeSet<&'static str> = own.chain(answers).map(|t| t.name).collect();
    command.mut_arg("table", |arg| known::complete(arg, names.iter().map(|name| (*name, "")).collect()))
}

/// The argument that chooses a capture.
const OF_CAPTURE: &str = "of_capture";

/// Adds the options that an analysis declares.
pub fn with_settings(mut command: Command, settings: &[Setting]) -> Command {
    for s in settings {
        // The analysis' own option has precedence.
        let is_taken = |a: &Arg| a.get_id() == OF_CAPTURE && a.get_long() == Some(s.name());
        if command.get_arguments().any(is_taken) {
            command = command.mut_arg(OF_CAPTURE, |arg| arg.long(OF_CAPTURE).hide(true));
        }
        let help =
            s.default_text().map_or_else(|| s.help.to_string(), |d| format!("{} [default: {d}]", s.help));
        let arg = Arg::new(s.name()).long(s.name()).help(help).help_heading("Options of this analysis");
        command = command.arg(match s.kind {
            ValueType::Flag => arg.action(ArgAction::SetTrue),
            ValueType::Choice(of) => arg.value_name(s.value).value_parser(of.to_vec()),
            _ => arg.value_name(s.value),
        });
    }
    command
}

/// Copies the user's values for the declared options into `options`.
pub fn enter(settings: &[Setting], matches: &ArgMatches, options: &mut Options) -> Result<(), SetError> {
    for s in settings {
        let text = match s.kind {
            ValueType::Flag => matches.get_flag(s.name()).then_some(""),
            _ => matches.get_one::<String>(s.name()).map(String::as_str),
        };
        let Some(text) = text else { continue };
        if s.kind == ValueType::InputFile {
            let content = read_text(Path::new(text)).map_err(|e| SetError::Argument {
                option: s.flag,
                value: text.to_string(),
                reason: e.to_string(),
            })?;
            options.settings.set_file(s, text, content);
            continue;
        }
        options.settings.set(s, text).map_err(|reason| SetError::Argument {
            option: s.flag,
            value: text.to_string(),
            reason,
        })?;
    }
    Ok(())
}

/// Answers from the tables of results: the text that a run on the traces would print, or one table.
fn on_results(
    mut analyses: Vec<&'static dyn Analysis>,
    args: &AnalysisArgs,
    matches: &ArgMatches,
    results: Results,
    options: &Options,
) -> anyhow::Result<Exit> {
    let settings = analyses.iter().flat_map(|a| a.about().settings);
    let of_traces: Vec<&str> = settings.map(Setting::name).chain([OF_CAPTURE]).collect();
    refuse_for_results(matches, &of_traces, &NARROWING, results.folder())?;
    if let Some(tool) = args.output.columns_of() {
        let (option, place) = (format!("--format {tool}"), results.folder().display().to_string());
        return Err(ResultsError::OnlyForTraces { option, place }.into());
    }
    keep_filtered(&mut analyses, options);
    filters::refuse_unused(&analyses, options)?;
    let tables: Vec<_> = analyses.iter().flat_map(|a| a.tables().iter().copied()).collect();
    let table = args.output.table(&tables)?;
    let ranks = args.traces.common.ranks.of_results(&results)?;
    let groups = options.across.groups.as_slice();
    let results = if !ranks.is_empty() || options.model.steps.is_some() {
        narrowed(&results, &analyses, options, &ranks)?
    } else if !groups.is_empty() {
        let only = (!args.output.is_text()).then_some(table);
        of_groups(results, &analyses, groups, only)?
    } else {
        results
    };
    let mut guarded = Inputs::default();
    guarded.add_results(results.folder());
    args.output.allow(&guarded)?;
    let exit = Exit::of_loss(results.has_loss()?);
    if args.output.is_text() {
        let told = ToldRun::new(&results, &analyses, options)?;
        args.output.write(table, &[], || text::of_analyses(&told, width()))?;
    } else {
        let batches = results.batches(table)?.ok_or_else(|| results.no_table(table))?;
        args.output.write(table, &batches, String::new)?;
    }
    Ok(exit)
}

/// The analyses that have answered: of dumps of memory only some do.
fn analyses_of(outcome: &Outcome) -> Vec<&'static dyn Analysis> {
    outcome.outputs.iter().map(|(analysis, _)| *analysis).collect()
}

/// Of several analyses, leaves out those that a filter says nothing to.
fn keep_filtered(asked: &mut Vec<&'static dyn Analysis>, options: &Options) {
    let mut keep = |takes: &dyn Fn(&About) -> bool| {
        if asked.iter().any(|a| takes(&a.about())) {
            asked.retain(|a| takes(&a.about()));
        }
    };
    if options.model.steps.is_some() {
        keep(&|about| about.takes_steps);
    }
    if !options.across.groups.is_empty() {
        keep(&|about| about.takes.contains(&AcrossOption::Group));
    }
}

/// The analyses of a command in the definitions that are asked for, with their options in `options`.
fn chosen(
    name: &str,
    mut asked: Vec<&'static dyn Analysis>,
    args: &AnalysisArgs,
    matches: &ArgMatches,
    options: &mut Options,
) -> Result<Vec<&'static dyn Analysis>, SetError> {
    let tool = args.traces.common.compat(&asked)?;
    for analysis in &asked {
        enter(analysis.about().settings, matches, options)?;
    }
    // Analyses that the other tool does not have are left out.
    asked.retain(|a| tool.is_none_or(|tool| compat::find(tool, a.stem()).is_some()));
    let by = tool.or_else(|| asked.iter().find_map(|a| compat::of_method(*a, &options.settings)));
    if let Some(tool) = args.output.columns_of() {
        let refused =
            |reason: String| SetError::Argument { option: "--format", value: tool.to_string(), reason };
        if name != COLUMNS.stem {
            return Err(refused(format!("only `hta {}` has the columns of other tools", COLUMNS.stem)));
        }
        options.settings.set(&COLUMNS, tool).map_err(refused)?;
    }
    keep_filtered(&mut asked, options);
    let analyses = compat::chosen(by, &asked);
    filters::refuse_unused(&analyses, options)?;
    Ok(analyses)
}

/// Runs the analyses of a command on the inputs. Of traces and dumps of memory one report follows the other,
/// and the rows of one table are told apart by the column `source`.
///
/// # Errors
/// When an option cannot be used, nothing can be read or nothing can be written.
pub fn run(name: &str, matches: &ArgMatches, stores: &Stores) -> anyhow::Result<Exit> {
    let asked = questions::analyses(name);
    anyhow::ensure!(!asked.is_empty(), "cannot find the analysis `{name}`");
    let args = &AnalysisArgs::from_arg_matches(matches)?;
    let mut options = args.traces.options(stores)?;
    if let Some(results) = args.traces.paths.results(stores) {
        let results = results.within(crate::cli::memory::limit(args.traces.common.memory_limit));
        return on_results(asked, args, matches, results, &options);
    }
    let mut analyses = chosen(name, asked, args, matches, &mut options)?;
    let declared: Vec<_> = analyses.iter().flat_map(|a| a.tables().iter().copied()).collect();
    let table = args.output.table(&declared)?;
    if !args.output.is_text() {
        analyses.retain(|a| a.tables().iter().any(|t| t.name == table.name));
    }
    options.wanted = Wanted::Only(table.name);
    let mut traces = args.traces.traces(stores)?;
    args.capture.choose(&mut traces.inputs, args.traces.common.load(false, false))?;
    args.output.allow(&traces.guarded)?;
    for file in analyses.iter().flat_map(|a| a.about().settings).filter(|s| s.kind == ValueType::OutputFile) {
        let path = options.settings.text(file).map(Path::new);
        path.map_or(Ok(()), |path| traces.guarded.allow_file(path))?;
    }
    let reads_dumps = analyses.iter().any(|a| a.about().reads_dumps);
    let sets = if reads_dumps { traces.by_kind() } else { vec![std::mem::take(&mut traces.inputs)] };
    if reads_dumps && !sets.iter().flatten().any(Input::is_dump) {
        memory::refuse_without_dumps(&options.settings)?;
    }
    if sets.len() > 1 {
        memory::refuse_one_file(&options.settings)?;
    }
    let (mut batches, mut report, mut lost, mut exit) = (Vec::new(), String::new(), Vec::new(), Exit::Done);
    for inputs in &sets {
        let ranks = args.traces.common.ranks.ranges(inputs)?;
        let request = Request {
            inputs,
            analyses: &analyses,
            options: &options,
            load: args.traces.common.load(analyses.iter().any(|a| a.reads_event_args(&options)), false),
            ranks: &ranks,
        };
        let is_text = args.output.is_text();
        let keep = PrintedRows { table, is_text, analyses: &analyses, rows: Mutex::default() };
        let outcome = args.traces.common.threads.run(|| run_pipeline(&request, &keep, &Bar::default()))??;
        filters::check_pattern(&outcome.inventory)?;
        warn(&outcome.refused);
        if args.traces.common.strict.refuses(&outcome) {
            return Ok(Exit::Nothing);
        }
        let rows = keep.rows.into_inner().unwrap_or_default();
        if is_text {
            let place = inputs.first().map_or(Path::new("."), |input| Path::new(&input.shown));
            let results = outcome.results(place, rows);
            let of_set = match outcome.outputs.first().and_then(|(_, o)| o.raw.clone()) {
                Some(raw) => raw,
                None => {
                    text::of_analyses(&ToldRun::new(&results, &analyses_of(&outcome), &options)?, width())
                }
            };
            report += if report.is_empty() { "" } else { "\n" };
            report += &of_set;
            lost.extend(text::loss_lines(&outcome));
        } else {
            batches.extend(rows);
            let reduced =
                outcome.outputs.iter().flat_map(|(_, o)| &o.tables).filter(|b| b.spec.name == table.name);
            batches.extend(reduced.cloned());
        }
        for file in outcome.outputs.iter().flat_map(|(_, o)| &o.files) {
            write(Path::new(&file.path), file.text.as_bytes())
                .with_context(|| format!("cannot write {}", file.path))?;
        }
        if outcome.has_loss() {
            exit = Exit::Partly;
        }
    }
    args.output.write(table, &batches, || report)?;
    lost.iter().for_each(|line| note(line));
    Ok(exit)
}
