//! The results of `hta analyze` and `hta merge`: where they are written, what is printed, and when a
//! condition ends the command with its own exit code.

use crate::cli::exit::Exit;
use crate::cli::output::{note, print_report, print_text, warn, width};
use crate::cli::report::{HtmlArgs, leave};
use crate::cli::strict::StrictArg;
use anyhow::Context;
use clap::Args;
use hta_analysis::api::Options;
use hta_analysis::filters;
use hta_analysis::inventory;
use hta_base::wording::ranks::ranks_named;
use hta_diagnosis::condition::CauseCondition;
use hta_read::error::SetError;
use hta_read::files::{Location, Stores};
use hta_results::output::folder::Folder;
use hta_results::output::inputs::Inputs;
use hta_results::output::place::{OutputPlace, RESULTS};
use hta_results::output::text::ReportExtent;
use hta_results::output::{text, visible};
use hta_results::partial::{self, RecordedOptions};
use hta_results::run::{MappedSet, Outcome, RunError};
use std::path::PathBuf;

/// The results folder that commands write and read if none is named.
pub const RESULTS_FOLDER: &str = "hta-out";

// What a run writes and prints, and when it fails. Not a doc comment: clap would use it as the description of
// every command.
#[derive(Debug, Args)]
pub struct ResultsArgs {
    /// Folder for the results
    #[arg(short, long, alias = "output", value_name = "DIR", default_value = RESULTS_FOLDER)]
    pub out: PathBuf,
    /// Write to the folder even if it holds other files: files with names that hta writes are replaced, all
    /// others stay
    #[arg(long)]
    force: bool,
    /// Leave report.html out of the results
    #[arg(long)]
    no_html: bool,
    /// Print only the verdict, two lines
    #[arg(long, conflicts_with = "full")]
    brief: bool,
    /// Print the sections of all analyses, as in report.txt
    #[arg(long)]
    pub full: bool,
    /// Exit with code 3 if this holds, e.g. 'cause(data_loader) > 5%'; `any` stands for every kind of cause;
    /// may be given several times
    #[arg(long, value_name = "CONDITION")]
    fail_if: Vec<String>,
    #[command(flatten)]
    html: HtmlArgs,
}

/// Width of `report.txt`, columns.
const REPORT_WIDTH: usize = 80;

impl ResultsArgs {
    /// The conditions of `--fail-if`.
    ///
    /// # Errors
    /// When one cannot be parsed.
    pub fn conditions(&self) -> Result<Vec<CauseCondition>, SetError> {
        let bad =
            |text: &String, reason| SetError::Argument { option: "--fail-if", value: text.clone(), reason };
        self.fail_if.iter().map(|t| CauseCondition::parse(t).map_err(|reason| bad(t, reason))).collect()
    }

    /// The place of results, or of a partial. Tells the user before the work begins if it cannot be replaced
    /// in one step.
    ///
    /// # Errors
    /// When nothing may be written there.
    pub fn place(&self, is_partial: bool, guarded: &Inputs, stores: &Stores) -> anyhow::Result<OutputPlace> {
        let layout = if is_partial { &partial::LAYOUT } else { &RESULTS };
        let place = OutputPlace::find(layout, Location::new(&self.out, stores), guarded, self.force)?;
        if let Some(why) = place.in_place() {
            let (folder, proof) = (place.shown(), place.proof());
            note(&format!("hta: the results are moved into {folder} file by file, {proof} last: {why}"));
        }
        Ok(place)
    }

    pub fn cannot_write(&self) -> String {
        format!("cannot write to {}", self.out.display())
    }

    /// Adds the output folder to a write error.
    pub fn named(&self, error: RunError) -> RunError {
        match error {
            RunError::Write { what, source } => {
                RunError::Write { what: format!("{what} to {}", self.out.display()), source }
            }
            other => other,
        }
    }

    /// The text for standard output; after a listing of captures only where the rest is.
    fn text(&self, outcome: &Outcome, is_listing: bool) -> String {
        let extent = if self.full { ReportExtent::Full } else { ReportExtent::Short };
        let folder = self.out.display().to_string();
        let rest = text::where_the_rest_is(outcome, extent, &folder, !self.no_html, width());
        match text::verdict(outcome) {
            _ if is_listing && !self.full => rest,
            Some(told) if self.brief => text::brief(told),
            told => {
                let brief = if told.is_none() && self.brief { text::brief_facts(outcome) } else { None };
                brief.unwrap_or_else(|| text::report(outcome, width(), extent, &folder) + &rest)
            }
        }
    }

    /// Completes a partial, moves it to its place and says what it holds.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish_partial(
        &self,
        folder: Folder,
        set: &MappedSet,
        options: RecordedOptions,
        strict: StrictArg,
    ) -> anyhow::Result<Exit> {
        warn(&set.refused);
        if strict.refuses_loss(set.has_loss()) {
            return Ok(Exit::Nothing);
        }
        partial::leave(&folder, set, options).with_context(|| self.cannot_write())?;
        folder.finish()?;
        let ranks: Vec<u32> = set.ranks.iter().map(|d| d.rank).collect();
        let held = if ranks.is_empty() { "no rank".to_string() } else { ranks_named(&ranks) };
        print_text(&format!("partial: {held} in {}\n", self.out.display()))?;
        Ok(Exit::of_loss(set.has_loss()))
    }

    /// Writes the results of a run, and prints its report.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn finish(
        &self,
        folder: Folder,
        outcome: &mut Outcome,
        (strict, options): (StrictArg, &Options),
        is_listing: bool,
    ) -> anyhow::Result<Exit> {
        filters::check_pattern(&outcome.inventory)?;
        warn(&outcome.refused);
        if strict.refuses(outcome) {
            return Ok(Exit::Nothing);
        }
        let failed = || self.cannot_write();
        write_tables(&folder, outcome).with_context(failed)?;
        // Complete the tables first: the page is generated from them.
        folder.close().with_context(failed)?;
        outcome.show(&folder.results(), options)?;
        let outcome = &*outcome;
        let html = || if self.no_html { Ok(()) } else { leave(&folder, &self.html.options()) };
        let texts = || {
            folder.write_text(
                "report.txt",
                &visible::lines(&text::report(outcome, REPORT_WIDTH, ReportExtent::Full, ".")),
            )?;
            folder.summary(outcome)
        };
        let (html, texts) = rayon::join(html, texts);
        html.with_context(failed)?;
        texts.with_context(failed)?;
        // Finishing removes an earlier result; format the report in parallel.
        let (placed, report) = rayon::join(|| folder.finish(), || self.text(outcome, is_listing));
        placed?;
        print_report(&report)?;
        let conditions = self.conditions()?;
        let crossed = text::verdict(outcome)
            .map_or_else(Vec::new, |told| conditions.iter().filter_map(|c| c.crossed(told)).collect());
        if !crossed.is_empty() {
            crossed.iter().for_each(|line| note(&format!("hta: {line}")));
            return Ok(Exit::Crossed);
        }
        Ok(Exit::of_loss(outcome.has_loss()))
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
