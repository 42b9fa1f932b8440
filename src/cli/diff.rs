//! `hta diff BASE TEST`: compares two runs and checks thresholds, from their traces or from their results; or
//! two sets of memory snapshots.

use crate::cli::analysis::{enter, with_settings, with_tables};
use crate::cli::args::{CommonArgs, refuse_for_results};
use crate::cli::exit::Exit;
use crate::cli::kept_rows::KeptRows;
use crate::cli::memory;
use crate::cli::output::{note, warn, width};
use crate::cli::progress::Bar;
use crate::cli::table::OutputArgs;
use anyhow::Context;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use hta_analysis::api::{Analysis, Options, Output, Wanted};
use hta_analysis::filters;
use hta_analysis::inventory::host_by_name::HostByName;
use hta_analysis::inventory::recorders::Recorders;
use hta_analysis::memory::snapshot::compare::{compare as memory_diff, has_timelines};
use hta_analysis::memory::snapshot::tables::{MemoryDevices, MemoryDiff};
use hta_analysis::memory::tables::MemoryContent;
use hta_analysis::settings::SHORT_NAMES;
use hta_base::table::schema::{Batch, Table};
use hta_base::units::MemoryLimit;
use hta_compat as compat;
use hta_compat::Compat;
use hta_diagnosis::registry;
use hta_read::discover::discover;
use hta_read::error::SetError;
use hta_read::files::{Location, Stores};
use hta_read::input::Input;
use hta_results::diff::threshold::{Threshold, ThresholdVerdict};
use hta_results::diff::{BY, ComparedRun, DIFF, KEYS_OF_TRACES, RunPair, analyses};
use hta_results::output::inputs::Inputs;
use hta_results::output::text;
use hta_results::results::{Results, ResultsError};
use hta_results::run::{Outcome, Request, run as run_pipeline};
use hta_trace::meta::Recorder;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct DiffArgs {
    /// Before: traces or memory snapshots (a file, a folder, one level deep, or a pattern in quotes), or a
    /// results folder
    #[arg(value_name = "BASE")]
    base: PathBuf,
    /// After, likewise
    #[arg(value_name = "TEST")]
    test: PathBuf,
    /// Exit with code 3 if this holds, e.g. 'step_time > +5%' (`hta explain diff`); may be given several
    /// times
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
    let command =
        Command::new(DIFF.stem()).about("Compare two runs, before and after, from their traces or results");
    with_tables(with_settings(DiffArgs::augment_args(command), DIFF.about().settings), &[DIFF])
}

pub fn run(matches: &ArgMatches, stores: &Stores) -> anyhow::Result<Exit> {
    let args = &DiffArgs::from_arg_matches(matches)?;
    let [base_path, test_path] = [&args.base, &args.test].map(|path| Location::new(path, stores));
    // Find the files of both sets first, so that an error in the second set shows before the first is read.
    let limit = memory::limit(args.common.memory_limit);
    let sides = [find("base", &base_path, limit)?, find("test", &test_path, limit)?];
    let mut guarded = Inputs::default();
    sides.iter().for_each(|side| side.guard(&mut guarded));
    args.common.guard(&mut guarded);
    args.output.allow(&guarded)?;
    match [sides[0].is_of_dumps()?, sides[1].is_of_dumps()?] {
        [false, false] => {}
        [true, true] => return dumps(args, sides, matches, stores),
        [is_dump, _] => {
            let path = if is_dump { &test_path } else { &base_path };
            let reason = "the other side is a memory snapshot: give two snapshots, or two sets of traces";
            return Err(not_compared(path, reason).into());
        }
    }
    let mut options = args.common.options(stores)?;
    let tool = args.common.compat(&[DIFF])?;
    let analyses = if tool.is_some() { compat::chosen(tool, &[DIFF]) } else { analyses() };
    enter(DIFF.about().settings, matches, &mut options)?;
    filters::refuse_unused(&analyses, &options)?;
    let declared: Vec<_> = analyses.iter().take(1).flat_map(|a| a.tables().iter().copied()).collect();
    let table = args.output.table(&declared)?;
    let thresholds = thresholds(&args.fail_if, tool)?;
    let by = options.settings.text(&BY).is_some_and(|by| KEYS_OF_TRACES.contains(&by)).then_some("by");
    refuse_of_traces(&sides, matches, by.as_slice())?;
    let [base, test] = ReadSide::both(args, sides, &analyses, &options)?;
    let has_loss = base.has_loss || test.has_loss;
    let strict = args.common.strict;
    let withheld = || [&base, &test].into_iter().filter_map(|side| side.outcome.as_ref());
    if strict.refuses_loss(has_loss) || withheld().any(|outcome| strict.refuses_withheld(outcome)) {
        return Ok(Exit::Nothing);
    }
    let (output, verdicts) = match (tool, &base.outcome, &test.outcome) {
        (Some(_), Some(base), Some(test)) => {
            let short = options.settings.flag(&SHORT_NAMES);
            (compat::hta::diff::compare(handed(base), handed(test), short), Vec::new())
        }
        _ => {
            let run = |side: &ReadSide, name| ComparedRun::read(&side.results, name, &options);
            let pair = RunPair::new(run(&base, "base")?, run(&test, "test")?);
            pair.notes().for_each(|line| note(&format!("hta: {line}")));
            pair.compare(&thresholds, args.force, &options)?
        }
    };
    write(args, table, &output)?;
    if args.output.is_text() {
        tell_losses([&base, &test]);
    }
    Ok(judge(&verdicts, has_loss))
}

fn not_compared(path: &Location, reason: &str) -> SetError {
    SetError::Argument { option: "hta diff", value: path.display().to_string(), reason: reason.to_string() }
}

/// Compares the memory of two sets of snapshots.
fn dumps(
    args: &DiffArgs,
    sides: [DiffSide; 2],
    matches: &ArgMatches,
    stores: &Stores,
) -> anyhow::Result<Exit> {
    if let Some(text) = args.fail_if.first() {
        let reason = "conditions are for traces, not for memory snapshots".to_string();
        return Err(SetError::Argument { option: "--fail-if", value: text.clone(), reason }.into());
    }
    let table = args.output.table(&[MemoryDiff::SPEC])?;
    let memory: Vec<&'static dyn Analysis> = registry::find("memory").into_iter().collect();
    let mut options = args.common.options(stores)?;
    options.wanted = Wanted::Only(MemoryDevices::SPEC.name);
    refuse_of_traces(&sides, matches, &[])?;
    let [base, test] = ReadSide::both(args, sides, &memory, &options)?;
    let has_loss = base.has_loss || test.has_loss;
    if args.common.strict.refuses_loss(has_loss) {
        return Ok(Exit::Nothing);
    }
    let held = |side: &ReadSide| -> Result<Vec<Batch>, ResultsError> {
        let tables = [side.results.batches(MemoryDevices::SPEC)?, side.results.batches(MemoryContent::SPEC)?];
        Ok(tables.into_iter().flatten().flatten().collect())
    };
    let (before, after) = (held(&base)?, held(&test)?);
    if has_timelines(&before) || has_timelines(&after) {
        let reason = "memory timelines are not compared, only snapshots (`hta memory` shows both)";
        return Err(not_compared(base.results.folder(), reason).into());
    }
    write(args, table, &memory_diff(&before, &after, args.common.top))?;
    tell_losses([&base, &test]);
    Ok(Exit::of_loss(has_loss))
}

/// Refuses options that only traces take, if a side is results.
fn refuse_of_traces(sides: &[DiffSide], matches: &ArgMatches, own: &[&str]) -> Result<(), ResultsError> {
    sides.iter().try_for_each(|side| match side {
        DiffSide::Results(results) => refuse_for_results(matches, own, &[], results.folder()),
        DiffSide::Traces(..) => Ok(()),
    })
}

/// Prints what was lost in the traces of the sides.
fn tell_losses(sides: [&ReadSide; 2]) {
    let lines = sides.into_iter().filter_map(|side| side.outcome.as_ref()).flat_map(text::loss_lines);
    lines.for_each(|line| note(&line));
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

/// A set as it was given.
enum DiffSide {
    Traces(Location, Vec<Input>),
    Results(Results),
}

fn find(name: &str, path: &Location, limit: Option<MemoryLimit>) -> anyhow::Result<DiffSide> {
    if let Some(results) = Results::found(path) {
        return Ok(DiffSide::Results(results.within(limit)));
    }
    let inputs = discover(std::slice::from_ref(path)).with_context(|| of_set(name))?;
    Ok(DiffSide::Traces(path.clone(), inputs))
}

impl DiffSide {
    /// Whether it is of dumps of memory, which have no events.
    fn is_of_dumps(&self) -> Result<bool, ResultsError> {
        Ok(match self {
            DiffSide::Traces(_, inputs) => inputs.iter().all(Input::is_dump),
            DiffSide::Results(results) => {
                let recorders = results.batches(Recorders::SPEC)?.unwrap_or_default();
                let mut rows = recorders.iter().flat_map(Recorders::rows);
                rows.any(|row| row.recorder == Recorder::MemoryDump.name())
            }
        })
    }

    /// Adds its files to those that must not be overwritten.
    fn guard(&self, guarded: &mut Inputs) {
        match self {
            DiffSide::Traces(_, inputs) => guarded.add_all(&Inputs::of_traces(inputs)),
            DiffSide::Results(results) => guarded.add_results(results.folder()),
        }
    }
}

fn of_set(name: &str) -> String {
    format!("cannot use the {name} set")
}

/// A set as it is compared.
struct ReadSide {
    results: Results,
    has_loss: bool,
    /// Of traces, the run on them.
    outcome: Option<Outcome>,
}

impl ReadSide {
    /// Base and test.
    fn both(
        args: &DiffArgs,
        [base, test]: [DiffSide; 2],
        analyses: &[&'static dyn Analysis],
        options: &Options,
    ) -> anyhow::Result<[Self; 2]> {
        let read = |name, side| Self::read(args, name, side, analyses, options);
        Ok([read("base", base)?, read("test", test)?])
    }

    fn read(
        args: &DiffArgs,
        name: &str,
        side: DiffSide,
        analyses: &[&'static dyn Analysis],
        options: &Options,
    ) -> anyhow::Result<Self> {
        let (place, inputs) = match side {
            DiffSide::Results(results) => {
                let has_loss = results.has_loss().with_context(|| of_set(name))?;
                return Ok(Self { results, has_loss, outcome: None });
            }
            DiffSide::Traces(place, inputs) => (place, inputs),
        };
        let (load, ranks) = (args.common.load(false, false), args.common.ranks.ranges(&inputs)?);
        let request = Request { inputs: &inputs, analyses, options, load, ranks: &ranks };
        let kept = KeptRows::of(HostByName::SPEC);
        let run = || run_pipeline(&request, &kept, &Bar::default());
        let outcome = args.common.threads.run(run)?.with_context(|| of_set(name))?;
        filters::check_pattern(&outcome.inventory).with_context(|| of_set(name))?;
        warn(&outcome.refused);
        let results = outcome.results(place, kept.take());
        Ok(Self { results, has_loss: outcome.has_loss(), outcome: Some(outcome) })
    }
}

/// The tables that the mapper made of a set.
fn handed(outcome: &Outcome) -> &[Batch] {
    outcome.outputs.first().map_or(&[], |(_, output)| &output.tables)
}

fn write(
    args: &DiffArgs,
    table: &'static hta_base::table::schema::TableSpec,
    output: &Output,
) -> anyhow::Result<()> {
    let batches: Vec<Batch> = output.tables.iter().filter(|b| b.spec.name == table.name).cloned().collect();
    args.output.write(table, &batches, || text::one_output(output, width()))
}
