//! `hta analyze`: runs every analysis and writes a results folder.

use crate::analysis::api::{Analysis, Wanted};
use crate::analysis::filters;
use crate::analysis::inventory;
use crate::cli::args::TraceArgs;
use crate::cli::captures::{self, CaptureArgs};
use crate::cli::exit::Exit;
use crate::cli::output::{note, print_report, print_text, width};
use crate::cli::progress::Bar;
use crate::cli::report::{HtmlArgs, leave};
use crate::compat::{Compat, chosen};
use crate::diagnosis::condition::CauseCondition;
use crate::error::SetError;
use crate::files::{Location, Stores};
use crate::output::captures::CapturesTable;
use crate::output::folder::Folder;
use crate::output::html::PageOptions;
use crate::output::place::{OutputPlace, RESULTS};
use crate::output::tables::Groups;
use crate::output::text::ReportExtent;
use crate::output::{text, visible};
use crate::partial;
use crate::registry::{ANALYSES, find};
use crate::run::{Extent, MappedSet, Outcome, Refused, Request, RunError, Share, map, run as run_pipeline, run_each};
use crate::wording::ranks::rank_list;
use anyhow::Context;
use clap::Args;
use clap::builder::PossibleValuesParser;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub struct AnalyzeArgs {
    #[command(flatten)]
    traces: TraceArgs,
    /// Folder for the results
    #[arg(short, long, alias = "output", value_name = "DIR", default_value = "hta-out")]
    out: PathBuf,
    /// Write to the folder even if it holds other files: files with names that hta writes are replaced, all others
    /// stay
    #[arg(long)]
    force: bool,
    /// Only these analyses, e.g. breakdown,idle (`hta list` has them all)
    #[arg(long, value_name = "LIST", value_delimiter = ',', hide_possible_values = true, conflicts_with = "partial")]
    #[arg(value_parser = PossibleValuesParser::new(ANALYSES.iter().map(|a| a.stem())))]
    only: Vec<String>,
    #[command(flatten)]
    capture: CaptureArgs,
    /// Of captures that one process wrote one after the other, analyse each by itself: table `captures`
    #[arg(long, conflicts_with_all = ["partial", "of_capture"])]
    captures: bool,
    /// Leave the events out of the results
    #[arg(long)]
    no_events: bool,
    /// Keep event arguments that have no column of their own, as JSON
    #[arg(long, conflicts_with = "no_events")]
    keep_args: bool,
    /// Write partial results of these ranks, for `hta merge`; use the same options for every part of the job
    #[arg(long)]
    partial: bool,
    /// With --partial: only share K of N of the files, K from 0 to N-1, of about the same size each; every process of the
    /// job is given the same traces
    #[arg(long, value_name = "K/N", value_parser = Share::parse, requires = "partial")]
    share: Option<Share>,
    /// Leave report.html out of the results
    #[arg(long)]
    no_html: bool,
    #[command(flatten)]
    printed: PrintedArgs,
    #[command(flatten)]
    html: HtmlArgs,
}

// What a run prints, and when it fails. Not a doc comment: clap would use it as the description of every command.
#[derive(Debug, Clone, Args)]
pub struct PrintedArgs {
    /// Print only the verdict, two lines
    #[arg(long, conflicts_with = "full")]
    brief: bool,
    /// Print the sections of all analyses, as in report.txt
    #[arg(long)]
    full: bool,
    /// Exit with code 3 if this holds, e.g. 'cause(data_loader) > 5%'; `any` stands for every kind of cause; may be given
    /// several times
    #[arg(long, value_name = "CONDITION")]
    fail_if: Vec<String>,
    /// Whether something else is printed instead of the report.
    #[arg(skip)]
    is_listing: bool,
}

impl PrintedArgs {
    /// The conditions of `--fail-if`.
    ///
    /// # Errors
    /// When one cannot be parsed.
    pub fn conditions(&self) -> Result<Vec<CauseCondition>, SetError> {
        let bad = |text: &String, reason| SetError::Argument { option: "--fail-if", value: text.clone(), reason };
        self.fail_if.iter().map(|t| CauseCondition::parse(t).map_err(|reason| bad(t, reason))).collect()
    }

    /// The text for standard output.
    fn text(&self, outcome: &Outcome, out: &Path) -> String {
        match text::verdict(outcome) {
            _ if self.is_listing => text::where_the_rest_is(outcome, ReportExtent::Short, &out.display().to_string()),
            Some(told) if self.brief => text::brief(told),
            _ => {
                let extent = if self.full { ReportExtent::Full } else { ReportExtent::Short };
                let mut report = text::report(outcome, width(), extent);
                report.push_str(&text::where_the_rest_is(outcome, extent, &out.display().to_string()));
                report
            }
        }
    }
}

/// The analysis whose verdict is that of a capture.
const DIAGNOSIS: &str = "diagnosis";

/// Width of `report.txt`, columns.
const REPORT_WIDTH: usize = 80;

pub fn run(args: &AnalyzeArgs, stores: &Stores) -> anyhow::Result<Exit> {
    let asked: Vec<&'static dyn Analysis> =
        ANALYSES.iter().copied().filter(|a| args.only.is_empty() || args.only.iter().any(|o| o == a.stem())).collect();
    args.printed.conditions()?;
    let mut options = args.traces.options(stores)?;
    let compat = args.traces.common.compat(&asked)?;
    let analyses = chosen(compat, &asked);
    filters::refuse_unused(&analyses, &options)?;
    if args.no_events {
        options.wanted = Wanted::NoEvents;
    }
    let mut traces = args.traces.traces(stores)?;
    let load = args.traces.common.load(!args.no_events, args.keep_args);
    args.capture.choose(&mut traces.inputs, load)?;
    let processes = if args.captures { captures::processes(&mut traces.inputs, load)? } else { Vec::new() };
    let layout = if args.partial { &partial::LAYOUT } else { &RESULTS };
    let place = OutputPlace::find(layout, Location::new(&args.out, stores), &traces.guarded, args.force)?;
    announce(&place);
    let events = (!args.no_events).then_some(args.keep_args);
    let request = Request {
        inputs: &traces.inputs,
        analyses: &analyses,
        options: &options,
        load,
        ranks: args.traces.common.rank_ranges(),
    };
    if args.partial {
        return args.traces.common.on_threads(|| part(args, compat, &request, place, events))?;
    }
    let folder = Folder::create(place, events)?;
    args.traces.common.on_threads(|| {
        // Never dropped: the process ends soon, and the system frees all memory at once.
        let all = if args.captures { run_each } else { run_pipeline };
        let outcome = ManuallyDrop::new(all(&request, &folder, &Bar::default()).map_err(to(&args.out))?);
        let page = (!args.no_html).then(|| args.html.options());
        let listed = match find(DIAGNOSIS) {
            Some(diagnosis) if args.captures => {
                let (table, listed) = captures::each(&request, diagnosis, &processes, width())?;
                let append = || folder.declare(CapturesTable::SPEC).and_then(|()| folder.append(&table));
                append().with_context(|| format!("cannot write to {}", args.out.display()))?;
                listed
            }
            _ => String::new(),
        };
        let printed = PrintedArgs { is_listing: args.captures && !args.printed.full, ..args.printed.clone() };
        let exit = finish(folder, &outcome, page.as_ref(), &args.out, (&printed, args.traces.common.strict))?;
        print_report(&listed)?;
        Ok(exit)
    })?
}

/// Maps the ranks and writes a partial for `hta merge`.
fn part(
    args: &AnalyzeArgs,
    compat: Option<Compat>,
    request: &Request,
    place: OutputPlace,
    events: Option<bool>,
) -> anyhow::Result<Exit> {
    let common = &args.traces.common;
    let texts = common.texts()?;
    let skipped = match (request.load.skip_python, request.load.skip_memory) {
        (false, false) => None,
        (true, false) => Some("python_function"),
        (false, true) => Some("memory"),
        (true, true) => Some("python_function,memory"),
    };
    let mut options = partial::record(request.options, compat, &texts, skipped, events);
    partial::record_share(&mut options, args.share);
    let folder = Folder::create_by(Groups::ByRank, place, events)?;
    let extent = args.share.map_or(Extent::Part, Extent::Share);
    let set = map(request, extent, &folder, &Bar::default()).map_err(to(&args.out))?;
    warn(&set.refused);
    if common.strict && set.has_loss() {
        note(STRICT);
        return Ok(Exit::Nothing);
    }
    let failed = || format!("cannot write to {}", args.out.display());
    partial::leave(&folder, &set, options).with_context(failed)?;
    finish_partial(folder, &set, &args.out)
}

/// Moves a complete partial to its place, and says what it holds.
pub fn finish_partial(folder: Folder, set: &MappedSet, out: &Path) -> anyhow::Result<Exit> {
    folder.finish()?;
    let ranks: Vec<u32> = set.ranks.iter().map(|d| d.rank).collect();
    let s = if ranks.len() == 1 { "" } else { "s" };
    let held = if ranks.is_empty() { "no rank".to_string() } else { format!("rank{s} {}", rank_list(&ranks)) };
    print_text(&format!("partial: {held} in {}\n", out.display()))?;
    Ok(if set.has_loss() { Exit::Partly } else { Exit::Done })
}

/// Tells the user before the work begins if the folder cannot be replaced in one step.
pub fn announce(place: &OutputPlace) {
    if let Some(why) = place.in_place() {
        let (folder, proof) = (place.shown(), place.proof());
        note(&format!("hta: the results are moved into {folder} file by file, {proof} last: {}", why.reason()));
    }
}

/// Adds the output folder to a write error.
pub fn to(out: &Path) -> impl Fn(RunError) -> RunError {
    move |error| match error {
        RunError::Write { what, source } => RunError::Write { what: format!("{what} to {}", out.display()), source },
        other => other,
    }
}

/// Message for a loss under `--strict`.
pub const STRICT: &str = "hta: cannot go on with --strict: something in the input could not be used";

/// Says what the recording does not carry of what was asked for, if something is missing: a reason to end under
/// `--strict`.
pub fn is_withheld(outcome: &Outcome) -> bool {
    let Some(limit) = outcome.withheld() else { return false };
    note(&format!("hta: cannot go on with --strict: {}", limit.sentence));
    note(&format!("hint: {}", limit.next));
    true
}

/// Writes the results of a run, and prints its report.
pub fn finish(
    folder: Folder,
    outcome: &Outcome,
    page: Option<&PageOptions>,
    out: &Path,
    (printed, strict): (&PrintedArgs, bool),
) -> anyhow::Result<Exit> {
    filters::check_pattern(&outcome.inventory)?;
    if strict && outcome.has_loss() {
        warn(&outcome.refused);
        note(STRICT);
        return Ok(Exit::Nothing);
    }
    if strict && is_withheld(outcome) {
        return Ok(Exit::Nothing);
    }
    let failed = || format!("cannot write to {}", out.display());
    write_tables(&folder, outcome).with_context(failed)?;
    // Complete the tables first: the page is generated from them.
    folder.close().with_context(failed)?;
    let html = || match page {
        Some(page) => leave(&folder, page),
        None => Ok(()),
    };
    let texts = || {
        folder.write_text("report.txt", &visible::lines(&text::report(outcome, REPORT_WIDTH, ReportExtent::Full)))?;
        folder.summary(outcome)
    };
    let (html, texts) = rayon::join(html, texts);
    html.with_context(failed)?;
    texts.with_context(failed)?;
    // Finishing removes an earlier result; format the report in parallel.
    let (placed, report) = rayon::join(|| folder.finish(), || printed.text(outcome, out));
    placed?;
    print_report(&report)?;
    warn(&outcome.refused);
    let conditions = printed.conditions()?;
    let crossed = text::verdict(outcome)
        .map_or_else(Vec::new, |told| conditions.iter().filter_map(|c| c.crossed(told)).collect());
    if !crossed.is_empty() {
        crossed.iter().for_each(|line| note(&format!("hta: {line}")));
        return Ok(Exit::Crossed);
    }
    Ok(if outcome.has_loss() { Exit::Partly } else { Exit::Done })
}

/// Lists the refused files on standard error.
pub fn warn(refused: &[Refused]) {
    for r in refused.iter().filter(|r| r.is_loss()) {
        note(&format!("hta: {}", r.error));
        if let Some(h) = r.error.hint() {
            note(&format!("hint: {h}"));
        }
    }
}

fn write_tables(folder: &Folder, outcome: &Outcome) -> std::io::Result<()> {
    for spec in inventory::TABLES {
        folder.declare(spec)?;
    }
    for spec in outcome.outputs.iter().flat_map(|(analysis, _)| analysis.tables()) {
        folder.declare(spec)?;
    }
    for spec in inventory::TABLES.iter().filter(|s| s.name != inventory::HealthTable::SPEC.name) {
        for batch in outcome.inventory.iter().filter_map(|p| p.table(spec)) {
            folder.append(batch)?;
        }
    }
    folder.append(&outcome.health_table())
}
