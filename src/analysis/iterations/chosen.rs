//! An iteration with what it is compared by, and its rates.

use crate::iterations::measure::Measured;
use hta_base::units::Ns;
use hta_trace::iteration::Phase;
use hta_trace::step::Step;

/// What iterations must have in common to be compared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct IterationKind {
    pub(crate) phase: Option<&'static str>,
    /// The engine's word, if the phase is not known.
    pub(crate) mode: Option<String>,
    pub(crate) requests: Option<u64>,
}

/// An iteration that `--steps` keeps.
pub(crate) struct ChosenIteration<'a> {
    pub(crate) step: &'a Step,
    /// The first after the profiler started.
    pub(crate) is_first: bool,
    pub(crate) m: Measured<'a>,
}

impl ChosenIteration<'_> {
    pub(crate) fn kind(&self) -> IterationKind {
        let about = &self.m.host.about;
        let mode = about.mode.clone().filter(|_| about.phase.is_none());
        IterationKind { phase: about.phase.map(Phase::name), mode, requests: about.requests }
    }

    /// Tokens by which it brings its requests on, per time; `None` if either is not known.
    pub(crate) fn tokens_per_s(&self) -> Option<f64> {
        rate(self.m.host.about.progress()?, self.m.period)
    }

    /// The time that each request of a decode iteration waits for its token.
    pub(crate) fn ms_per_token(&self) -> Option<f64> {
        let about = &self.m.host.about;
        let is_known = about.phase == Some(Phase::Decode) && about.progress().is_some_and(|n| n > 0);
        (is_known && self.m.period > 0).then(|| self.m.period as f64 / 1e6)
    }
}

/// Tokens per second.
pub(crate) fn rate(tokens: u64, time: Ns) -> Option<f64> {
    (time > 0).then(|| tokens as f64 * 1e9 / time as f64)
}
