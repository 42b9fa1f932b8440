//! `hta diff BASE TEST`: compares two sets of traces and checks thresholds, or two sets of memory snapshots.

use crate::cli::analysis::{enter, with_settings, with_tables};
use crate::cli::args::CommonArgs;
use crate::cli::exit::Exit;
use crate::cli::output::{note, warn, width};
use crate::cli::progress::Bar;
use crate::cli::snapshots;
use crate::cli::table::OutputArgs;
use anyhow::Context;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use hta_analysis::api::{Analysis, Options, Output};
use hta_analysis::diagnosis::DiagnosisOf;
use hta_analysis::filters;
use hta_analysis::iterations::IterationsOf;
use hta_analysis::settings::SHORT_NAMES;
use hta_base::table::schema::Batch;
use hta_compat as compat;
use hta_compat::Compat;
use hta_read::discover::discover;
use hta_read::error::SetError;
use hta_read::files::{Location, Stores};
use hta_read::input::Input;
use hta_results::diff::threshold::{Threshold, ThresholdVerdict};
use hta_results::diff::{DIFF, Set, causes, comparable, compare, iterations};
use hta_results::output::inputs::Inputs;
use hta_results::output::text;
use hta_results::run::{NoRows, Outcome, Request, run as run_pipeline};
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub struct DiffArgs {
    /// Traces or memory snapshots before: a file, a folder (one level deep) or a pattern in quotes
    #[arg(value_name = "BASE")]
    base: PathBuf,
    /// Traces or memory snapshots after
    #[arg(value_name = "TEST")]
    test: PathBuf,
    /// Exit with code 3 if this holds, e.g. 'step_time > +5%' (`hta explain diff`); may be given several times
    #[arg(long, value_name = "CONDITION", allow_hyphen_values = true)]
    fail_if: Vec<String>,
    /// Compare also sets whose steps are different work (`hta explain diff`)
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    common: CommonArgs,
}

pub fn command() -> Command {
    let command = Command::new(DIFF.stem()).about("Compare two sets of traces, before and after");
    with_tables(with_settings(DiffArgs::augment_args(command), DIFF.about().settings), DIFF)
}

pub fn run(matches: &ArgMatches, stores: &Stores) -> anyhow::Result<Exit> {
    let args = &DiffArgs::from_arg_matches(matches)?;
    let [base_path, test_path] = [&args.base, &args.test].map(|path| Location::new(path, stores));
    if let Some(sides) = snapshots::diff::sides(&base_path, &test_path)? {
        if let Some(text) = args.fail_if.first() {
            let reason = "conditions are for traces, not for memory snapshots".to_string();
            return Err(SetError::Argument { option: "--fail-if", value: text.clone(), reason }.into());
        }
        return snapshots::diff::run(&sides, &args.output, &args.common);
    }
    let mut options = args.common.options(stores)?;
    let tool = args.common.compat(&[DIFF])?;
    // Causes and iterations of both sides are compared, too, in hta's own definitions.
    let mut analyses = compat::chosen(tool, &[DIFF]);
    if tool.is_none() {
        analyses.extend([&DiagnosisOf as &'static dyn Analysis, &IterationsOf]);
    }
    enter(DIFF.about().settings, matches, &mut options)?;
    filters::refuse_unused(&analyses, &options)?;
    let declared: Vec<_> = analyses.iter().take(1).flat_map(|a| a.tables().iter().copied()).collect();
    let table = args.output.table(&declared)?;
    let thresholds = thresholds(&args.fail_if, tool)?;
    // Find the files of both sets first, so that an error in the second set shows before the first is read.
    let (base_inputs, test_inputs) = (find("base", &base_path)?, find("test", &test_path)?);
    let mut guarded = Inputs::of_traces(&base_inputs);
    guarded.add_all(&Inputs::of_traces(&test_inputs));
    args.common.guard(&mut guarded);
    args.output.allow(&guarded)?;
    let mut base = read(args, "base", &base_inputs, &analyses, &options)?;
    let mut test = read(args, "test", &test_inputs, &analyses, &options)?;
    let has_loss = base.has_loss() || test.has_loss();
    let strict = args.common.strict;
    if strict.refuses_loss(has_loss) || strict.refuses_withheld(&base) || strict.refuses_withheld(&test) {
        return Ok(Exit::Nothing);
    }
    let short = options.settings.flag(&SHORT_NAMES);
    let (output, verdicts) = match tool {
        Some(_) => (compat::hta::diff::compare(handed(&base), handed(&test), short), Vec::new()),
        None => {
            let (table, view) = causes::compare(diagnosed(&base), diagnosed(&test));
            let set = |path: &Path, outcome: &mut Outcome| {
                let read = Set::read(&path.display().to_string(), handed(outcome));
                let withheld = comparable::withheld(diagnosed(outcome));
                let iterations = iterations::counted(iterated(outcome));
                outcome.outputs.clear();
                Set { withheld, iterations, ..read }
            };
            let left_out: [Vec<u32>; 2] = [&base, &test].map(|o| o.recording.left_out().into_iter().collect());
            let mut sets = (set(&args.base, &mut base), set(&args.test, &mut test));
            sets.0.without(&left_out.concat());
            sets.1.without(&left_out.concat());
            let (mut output, verdicts) = compare(&sets.0, &sets.1, &thresholds, args.force, &options)?;
            output.tables.push(table);
            output.views.push(view);
            (output, verdicts)
        }
    };
    write(args, table, &output)?;
    if args.output.is_text() {
        for line in [&base, &test].into_iter().flat_map(text::loss_lines) {
            note(&line);
        }
    }
    Ok(judge(&verdicts, has_loss))
}

/// A crossed threshold takes precedence over a loss in the input, because it is what the user asked for.
fn judge(verdicts: &[ThresholdVerdict], has_loss: bool) -> Exit {
    for v in verdicts.iter().filter(|v| v.is_crossed || v.is_unknown) {
        note(&format!("hta: {}", v.sentence()));
    }
    if verdicts.iter().any(|v| v.is_crossed) { Exit::Crossed } else { Exit::of_loss(has_loss) }
}

fn thresholds(texts: &[String], compat: Option<Compat>) -> Result<Vec<Threshold>, SetError> {
    let bad = |text: &String, reason| SetError::Argument { option: "--fail-if", value: text.clone(), reason };
    if let (Some(text), Some(_)) = (texts.first(), compat) {
        return Err(bad(text, "thresholds are for hta's own figures, not for --compat".to_string()));
    }
    texts.iter().map(|t| Threshold::parse(t).map_err(|reason| bad(t, reason))).collect()
}

fn find(name: &str, path: &Location) -> anyhow::Result<Vec<Input>> {
    discover(std::slice::from_ref(path)).with_context(|| of_set(name))
}

fn of_set(name: &str) -> String {
    format!("cannot use the {name} set")
}

fn read(
    args: &DiffArgs,
    name: &str,
    inputs: &[Input],
    analyses: &[&'static dyn Analysis],
    options: &Options,
) -> anyhow::Result<Outcome> {
    let request =
        Request { inputs, analyses, options, load: args.common.load(false, false), ranks: args.common.ranks.ranges() };
    let run = || run_pipeline(&request, &NoRows, &Bar::default());
    let outcome = args.common.threads.run(run)?.with_context(|| of_set(name))?;
    filters::check_pattern(&outcome.inventory).with_context(|| of_set(name))?;
    warn(&outcome.refused);
    Ok(outcome)
}

/// The tables of an analysis of a set; none if it did not run, because the set is of several jobs.
fn tables_of<'a>(outcome: &'a Outcome, stem: &str) -> &'a [Batch] {
    outcome.outputs.iter().find(|(a, _)| a.stem() == stem).map_or(&[], |(_, output)| &output.tables)
}

/// The tables of the diagnosis of a set.
fn diagnosed(outcome: &Outcome) -> &[Batch] {
    tables_of(outcome, DiagnosisOf.about().stem)
}

/// The tables of the iterations of a set.
fn iterated(outcome: &Outcome) -> &[Batch] {
    tables_of(outcome, IterationsOf.about().stem)
}

/// The tables that the mapper made of a set.
fn handed(outcome: &Outcome) -> &[Batch] {
    outcome.outputs.first().map_or(&[], |(_, output)| &output.tables)
}

fn write(args: &DiffArgs, table: &'static hta_base::table::schema::TableSpec, output: &Output) -> anyhow::Result<()> {
    let batches: Vec<Batch> = output.tables.iter().filter(|b| b.spec.name == table.name).cloned().collect();
    args.output.write(table, &batches, || text::one_output(output, width()))
}
