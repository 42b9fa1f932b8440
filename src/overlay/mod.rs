//! One file of chosen ranks to look at: their events as they are, clocks aligned, and what hta found drawn beside them:
//! counters, the critical path, late ranks.
//!
//! ```text
//!   survey   each file once: process ids, flow ids, time base, what is damaged      plan.rs
//!   marks    the ordinary pipeline, rank by rank; of a rank only what is drawn       tracks.rs
//!            is kept; left out where nothing is to be drawn or aligned
//!   copy     each file again, event by event, then what is drawn of its rank         write.rs
//! ```
//!
//! Survey and copy hold one block of text. Added events have categories that begin with `hta_`: the reader leaves them
//! out, so that an overlay reads like the trace it was made of.

mod axis;
pub(crate) mod copy;
mod output;
mod plan;
mod tracks;
mod write;

pub use output::{Output, Target};
pub use plan::{Source, Sources};
pub use tracks::{CounterTrack, End, Flow, RankTracks, Slice, Thread};

use crate::analysis::api::{Analysis, Options};
use crate::analysis::counters::series::Counter;
use crate::analysis::stragglers::WhereLate;
use crate::error::SetError;
use crate::overlay::copy::stream::CopyError;
use crate::read::input::Input;
use crate::read::options::LoadOptions;
use crate::run::{Outcome, Progress, Refused, Request, RunError, run};
use std::io;
use write::Copy;

/// What to overlay.
pub struct OverlayRequest<'a> {
    pub inputs: &'a [Input],
    /// Ranks that are read and compared; all when empty.
    pub ranks: &'a [(u32, u32)],
    /// Of these, the ranks that are drawn; all when empty.
    pub draw: &'a [(u32, u32)],
    pub options: &'a Options,
    pub load: LoadOptions,
    pub counters: &'a [Counter],
    pub critical_path: bool,
    /// Align clocks (as the options say) and mark late ranks, with several ranks.
    pub compares: bool,
}

/// Told of each pass.
pub struct Passes<'a> {
    pub survey: &'a dyn Progress,
    pub marks: &'a dyn Progress,
    pub copy: &'a dyn Progress,
}

/// What was written of one rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drawn {
    pub rank: u32,
    pub file: String,
    /// Events of the source.
    pub events: u64,
    /// Of these, events that were not JSON as they stood.
    pub mended: u64,
    pub counters: u64,
    pub samples: u64,
    pub segments: u64,
    pub marks: u64,
    /// Constant part of what was subtracted from its times, ns; 0 where its clock is right.
    pub clock_offset: i64,
}

/// What an overlay holds, and what it lacks.
pub struct Summary {
    pub drawn: Vec<Drawn>,
    pub refused: Vec<Refused>,
    /// Of the analysis, where there was one.
    pub outcome: Option<Outcome>,
    /// Losses of the copy: rank, file, counter, count.
    pub losses: Vec<String>,
    /// What the reader should know: what could not be drawn, and why.
    pub notes: Vec<String>,
}

impl Summary {
    pub fn has_loss(&self) -> bool {
        !self.losses.is_empty()
            || self.refused.iter().any(Refused::is_loss)
            || self.outcome.as_ref().is_some_and(Outcome::has_loss)
    }
}

/// Why there is no overlay.
#[derive(Debug, thiserror::Error)]
pub enum OverlayError {
    #[error(transparent)]
    Run(#[from] RunError),
    #[error(transparent)]
    Copy(#[from] CopyError),
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

/// Makes an overlay.
///
/// # Errors
/// No readable file, two files of one rank, an output that cannot be written. Files that cannot be read while others
/// can are told in the summary.
pub fn overlay(request: &OverlayRequest, out: &mut Output, passes: &Passes) -> Result<Summary, OverlayError> {
    let Sources { all, refused } = Sources::find(request, passes.survey)?;
    let drawn: Vec<&Source> = plan::drawn(&all, request.draw)?;
    let several = all.len() > 1;
    let mut tracks = tracks::Collector::new(request, &drawn);
    let analyses: &[&'static dyn Analysis] = if several && request.compares { &[&WhereLate] } else { &[] };
    filters_are_used(request, !analyses.is_empty())?;
    let outcome = if !analyses.is_empty() || tracks.wants_any() {
        let ranks: Vec<(u32, u32)> = if analyses.is_empty() {
            drawn.iter().map(|s| (s.task.rank, s.task.rank)).collect()
        } else {
            all.iter().map(|s| (s.task.rank, s.task.rank)).collect()
        };
        // counters need what devices did and who launched it
        let device_only = analyses.is_empty() && !request.critical_path;
        let load = LoadOptions { device_only, ..request.load };
        let of_ranks = Request { inputs: request.inputs, analyses, options: request.options, load, ranks: &ranks };
        let outcome = run(&of_ranks, &tracks, passes.marks)?;
        tracks.add_marks(&outcome);
        Some(outcome)
    } else {
        None
    };
    let clocks = outcome.as_ref().map_or(&[][..], |o| &o.clocks);
    let mut copy = Copy::new(&drawn, clocks, tracks.finish());
    let written = copy.write(out, passes.copy)?;
    let losses = drawn.iter().flat_map(|s| s.losses()).collect();
    Ok(Summary { drawn: written, refused, outcome, losses, notes: copy.notes() })
}

/// Refuses filters of steps and groups where nothing is drawn that they could narrow.
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
