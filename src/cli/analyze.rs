//! `hta analyze`: runs every analysis and writes a results folder.

use crate::cli::args::TraceArgs;
use crate::cli::captures::{self, CaptureArgs};
use crate::cli::exit::Exit;
use crate::cli::output::{print_report, width};
use crate::cli::progress::Bar;
use crate::cli::results::ResultsArgs;
use anyhow::Context;
use clap::Args;
use clap::builder::PossibleValuesParser;
use hta_analysis::api::{Analysis, Wanted};
use hta_analysis::filters;
use hta_compat::{Compat, chosen};
use hta_diagnosis::registry::{ANALYSES, find};
use hta_read::files::Stores;
use hta_results::output::captures::CapturesTable;
use hta_results::output::folder::Folder;
use hta_results::output::place::OutputPlace;
use hta_results::output::tables::RowGrouping;
use hta_results::partial;
use hta_results::run::{Extent, Request, RunShare, are_apart, map, run as run_pipeline, run_each};
use std::mem::ManuallyDrop;

#[derive(Debug, Args)]
pub struct AnalyzeArgs {
    #[command(flatten)]
    traces: TraceArgs,
    /// Only these analyses, e.g. breakdown,idle (`hta list` has them all)
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        hide_possible_values = true,
        conflicts_with = "partial"
    )]
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
    /// With --partial: only share K of N of the files, K from 0 to N-1, of about the same size each; every
    /// process of the job is given the same traces
    #[arg(long, value_name = "K/N", value_parser = RunShare::parse, requires = "partial")]
    share: Option<RunShare>,
    #[command(flatten)]
    results: ResultsArgs,
}

/// The analysis whose verdict is that of a capture.
const DIAGNOSIS: &str = "diagnosis";

pub fn run(args: &AnalyzeArgs, stores: &Stores) -> anyhow::Result<Exit> {
    let asked: Vec<&'static dyn Analysis> = ANALYSES
        .iter()
        .copied()
        .filter(|a| args.only.is_empty() || args.only.iter().any(|o| o == a.stem()))
        .collect();
    args.results.conditions()?;
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
    let place = args.results.place(args.partial, &traces.guarded, stores)?;
    let events = (!args.no_events).then_some(args.keep_args);
    let ranks = args.traces.common.ranks.ranges(&traces.inputs)?;
    let request =
        Request { inputs: &traces.inputs, analyses: &analyses, options: &options, load, ranks: &ranks };
    if args.partial {
        return args.traces.common.threads.run(|| part(args, compat, &request, place, events))?;
    }
    let folder = Folder::create(place, events)?;
    args.traces.common.threads.run(|| {
        // Never dropped: the process ends soon, and the system frees all memory at once.
        let all = if args.captures { run_each } else { run_pipeline };
        let mut outcome =
            ManuallyDrop::new(all(&request, &folder, &Bar::default()).map_err(|e| args.results.named(e))?);
        let listed = match find(DIAGNOSIS) {
            Some(diagnosis) if args.captures => {
                let (table, listed) = captures::each(&request, diagnosis, &processes, width())?;
                let append = || folder.declare(CapturesTable::SPEC).and_then(|()| folder.append(&table));
                append().with_context(|| args.results.cannot_write())?;
                listed
            }
            _ => String::new(),
        };
        let exit = args.results.finish(
            folder,
            &mut outcome,
            (args.traces.common.strict, &options),
            args.captures,
        )?;
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
    if let (true, Some(first)) = (are_apart(request.inputs), request.inputs.first()) {
        anyhow::bail!(
            "cannot write a partial of {}: it and the others are captures without a clock in common, not \
             ranks of one job\nhint: analyze them together, without --partial",
            first.shown
        );
    }
    let texts = common.texts()?;
    let skipped = match (request.load.skip_python, request.load.skip_memory) {
        (false, false) => None,
        (true, false) => Some("python_function"),
        (false, true) => Some("memory"),
        (true, true) => Some("python_function,memory"),
    };
    let mut options = partial::record(request.options, compat, &texts, skipped, events);
    partial::record_share(&mut options, args.share);
    let folder = Folder::create_by(RowGrouping::ByRank, place, events)?;
    let extent = args.share.map_or(Extent::Part, Extent::Share);
    let set = map(request, extent, &folder, &Bar::default()).map_err(|e| args.results.named(e))?;
    args.results.finish_partial(folder, &set, options, common.strict)
}
