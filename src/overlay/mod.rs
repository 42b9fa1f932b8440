//! `hta overlay`: one trace file of chosen ranks for a viewer. It contains their events as recorded, with
//! clocks aligned, and adds counters, the critical path and marks of late ranks.
//!
//! ```text
//!   survey   each file once: process ids, flow ids, time base, damage                 plan.rs
//!   marks    the analysis pipeline, rank by rank; keeps only what is drawn            tracks.rs
//!            (skipped if nothing is drawn or aligned)
//!   copy     each file again, event by event, followed by what is drawn of its rank   write.rs
//! ```
//!
//! Survey and copy hold one block of text in memory. Added events have categories that begin with `hta_`,
//! which the reader ignores, so that an overlay of one rank gives the same analyses as its trace. [`serve`]
//! hands a finished file to the viewer in the browser.

mod axis;
pub(crate) mod copy;
mod output;
mod plan;
mod request;
pub mod serve;
mod tracks;
mod write;

pub use output::{OverlayOutput, Target};
pub use plan::{DrawnSource, DrawnSources};
pub use tracks::{ArrowEnd, CounterTrack, Flow, RankTracks, Slice, SliceTrack};

use crate::overlay::copy::stream::CopyError;
use hta_analysis::api::{Analysis, Options};
use hta_analysis::counters::series::DeviceCounter;
use hta_analysis::stragglers::WhereLate;
use hta_read::error::SetError;
use hta_read::input::Input;
use hta_read::options::LoadOptions;
use hta_results::run::{Outcome, Progress, Refused, Request, RunError, run};
use std::io;
use write::OverlayWriter;

pub struct OverlayRequest<'a> {
    pub inputs: &'a [Input],
    /// Ranks to read and compare; empty for all.
    pub ranks: &'a [(u32, u32)],
    /// The subset of these to draw; empty for all.
    pub draw: &'a [(u32, u32)],
    pub options: &'a Options,
    pub load: LoadOptions,
    pub counters: &'a [DeviceCounter],
    pub critical_path: bool,
    /// Whether to align clocks (as the options say) and mark late ranks, if there are several ranks.
    pub compares: bool,
}

/// Progress of the passes.
pub struct Passes<'a> {
    pub survey: &'a dyn Progress,
    pub marks: &'a dyn Progress,
    pub copy: &'a dyn Progress,
}

/// Statistics of one rank that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankStats {
    pub rank: u32,
    pub file: String,
    /// Events copied from the source.
    pub events: u64,
    /// Number of these that were not valid JSON and were repaired.
    pub mended: u64,
    pub counters: u64,
    pub samples: u64,
    pub segments: u64,
    pub marks: u64,
    /// Constant part of the clock offset that was subtracted, ns; 0 if the clock needed no correction.
    pub clock_offset: i64,
}

pub struct OverlaySummary {
    pub drawn: Vec<RankStats>,
    pub refused: Vec<Refused>,
    /// Result of the analyses, if any were run.
    pub outcome: Option<Outcome>,
    /// Losses of the copy, one line each: rank, file, counter, count.
    pub losses: Vec<String>,
    /// Notes for the user about what could not be drawn, with reasons.
    pub notes: Vec<String>,
}

impl OverlaySummary {
    pub fn has_loss(&self) -> bool {
        !self.losses.is_empty()
            || self.refused.iter().any(Refused::is_loss)
            || self.outcome.as_ref().is_some_and(Outcome::has_loss)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum OverlayError {
    #[error(transparent)]
    Run(#[from] RunError),
    #[error(transparent)]
    OverlayWriter(#[from] CopyError),
    #[error("cannot write {path}: {source}")]
    Write { path: String, source: io::Error },
    #[error("cannot write {path}: expected a new file, found one that is there")]
    Exists { path: String },
    #[error("cannot write {path}: it is one of the traces")]
    IsInput { path: String },
    #[error("cannot draw the ranks asked for: the chosen ones are {0}")]
    NothingToDraw(String),
}

impl OverlayError {
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            OverlayError::Exists { .. } => Some("choose another name, or replace it with --force"),
            OverlayError::IsInput { .. } => Some("traces are never written to: choose another name"),
            _ => None,
        }
    }
}

/// Writes an overlay.
///
/// # Errors
/// When no file is readable, two files have the same rank, or the output cannot be written. If only some of
/// the files cannot be read, the summary names them.
pub fn overlay(
    request: &OverlayRequest,
    out: &mut OverlayOutput,
    passes: &Passes,
) -> Result<OverlaySummary, OverlayError> {
    let DrawnSources { all, refused } = DrawnSources::find(request, passes.survey)?;
    let drawn: Vec<&DrawnSource> = plan::drawn(&all, request.draw)?;
    let several = all.len() > 1;
    let mut tracks = tracks::TrackCollector::new(request, &drawn);
    let analyses: &[&'static dyn Analysis] = if several && request.compares { &[&WhereLate] } else { &[] };
    filters_are_used(request, !analyses.is_empty())?;
    let outcome = if !analyses.is_empty() || tracks.wants_any() {
        let ranks: Vec<(u32, u32)> = if analyses.is_empty() {
            drawn.iter().map(|s| (s.task.rank, s.task.rank)).collect()
        } else {
            all.iter().map(|s| (s.task.rank, s.task.rank)).collect()
        };
        // Counters need only device activities and the calls that launched them.
        let device_only = analyses.is_empty() && !request.critical_path;
        let load = LoadOptions { device_only, ..request.load };
        let of_ranks =
            Request { inputs: request.inputs, analyses, options: request.options, load, ranks: &ranks };
        let outcome = run(&of_ranks, &tracks, passes.marks)?;
        tracks.add_marks(&outcome);
        Some(outcome)
    } else {
        None
    };
    let clocks = outcome.as_ref().map_or(&[][..], |o| &o.clocks);
    let mut copy = OverlayWriter::new(&drawn, clocks, tracks.finish());
    let written = copy.write(out, passes.copy)?;
    let losses = drawn.iter().flat_map(|s| s.losses()).collect();
    Ok(OverlaySummary { drawn: written, refused, outcome, losses, notes: copy.notes() })
}

/// Refuses filters of steps and groups if nothing is drawn that they would apply to.
fn filters_are_used(request: &OverlayRequest, compares: bool) -> Result<(), OverlayError> {
    let refuse = |option, value: String, reason: &str| {
        let error = SetError::Argument { option, value, reason: reason.to_string() };
        Err(OverlayError::Run(error.into()))
    };
    let (steps, groups) = (&request.options.model.steps, &request.options.across.groups);
    match (steps, groups.first()) {
        (Some(filter), _) if !compares && !request.critical_path => {
            let reason = "it narrows the critical path and the marks of late ranks, and neither is drawn";
            refuse("--steps", filter.to_string(), reason)
        }
        (_, Some(name)) if !compares => {
            refuse("--group", name.clone(), "it narrows the marks of late ranks, and no ranks are compared")
        }
        _ => Ok(()),
    }
}
