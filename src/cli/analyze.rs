//! `hta analyze`: every analysis, and a folder of results.

use super::args::TraceArgs;
use super::exit::Exit;
use super::output::{note, print, width};
use super::progress::Bar;
use crate::analysis::api::Wanted;
use crate::analysis::inventory;
use crate::analysis::registry::ANALYSES;
use crate::pipeline::{Outcome, Request, run as run_pipeline};
use crate::report::folder::Folder;
use crate::report::text;
use anyhow::Context;
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct AnalyzeArgs {
    #[command(flatten)]
    traces: TraceArgs,
    /// Folder for the results
    #[arg(short, long, value_name = "DIR", default_value = "hta-out")]
    out: PathBuf,
    /// Replace the results folder, whatever is in it
    #[arg(long)]
    force: bool,
    /// Leave the events out of the results
    #[arg(long)]
    no_events: bool,
    /// Keep arguments without a column of their own in the events, as JSON
    #[arg(long, conflicts_with = "no_events")]
    keep_args: bool,
}

/// Width of `report.txt`.
const REPORT_WIDTH: usize = 80;

pub fn run(args: &AnalyzeArgs) -> anyhow::Result<Exit> {
    let mut options = args.traces.options(ANALYSES)?;
    if args.no_events {
        options.wanted = Wanted::NoEvents;
    }
    let traces = args.traces.traces()?;
    let events = (!args.no_events).then_some(args.keep_args);
    let folder = Folder::create(&args.out, events, args.force)?;
    let request = Request {
        inputs: &traces.inputs,
        analyses: ANALYSES,
        options: &options,
        load: args.traces.common.load(!args.no_events, args.keep_args),
        ranks: args.traces.common.rank_ranges(),
    };
    let outcome = args.traces.common.on_threads(|| run_pipeline(&request, &folder, &Bar::default()))??;
    if args.traces.common.strict && outcome.has_loss() {
        warn(&outcome);
        note("hta: cannot go on with --strict: something in the input could not be used");
        return Ok(Exit::Nothing);
    }
    write(&folder, &outcome, options.compat).with_context(|| format!("cannot write to {}", args.out.display()))?;
    folder.finish().with_context(|| format!("cannot write to {}", args.out.display()))?;
    let mut report = text::report(&outcome, width());
    report.push_str(&format!("\nresults: {}\n", args.out.display()));
    print(report.as_bytes())?;
    warn(&outcome);
    Ok(if outcome.has_loss() { Exit::Partly } else { Exit::Done })
}

/// Says on standard error which files were refused.
pub fn warn(outcome: &Outcome) {
    for r in outcome.refused.iter().filter(|r| r.input.named || !r.error.is_foreign()) {
        note(&format!("hta: {}", r.error));
        if let Some(h) = r.error.hint() {
            note(&format!("hint: {h}"));
        }
    }
}

fn write(folder: &Folder, outcome: &Outcome, compat: Option<crate::analysis::api::Compat>) -> std::io::Result<()> {
    for spec in inventory::TABLES {
        folder.declare(spec)?;
    }
    for spec in outcome.outputs.iter().flat_map(|(analysis, _)| analysis.declared(compat)) {
        folder.declare(spec)?;
    }
    for spec in inventory::TABLES.iter().filter(|s| s.name != inventory::HealthTable::SPEC.name) {
        for batch in outcome.inventory.iter().filter_map(|p| p.table(spec)) {
            folder.append(batch)?;
        }
    }
    folder.append(&outcome.health_table())?;
    folder.text("report.txt", &text::report(outcome, REPORT_WIDTH))?;
    folder.summary(outcome)
}
