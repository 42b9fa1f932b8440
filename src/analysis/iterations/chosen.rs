//! An iteration with what it is compared by, and its rates.

use crate::iterations::measure::Measured;
use hta_base::units::Ns;
use hta_trace::iteration::Phase;
use hta_trace::step::Step;

/// What iterations must have in common to be compared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    pub phase: Option<&'static str>,
    /// The engine's word, if the phase is not known.
    pub mode: Option<String>,
    pub requests: Option<u64>,
}

/// An iteration that `--steps` keeps.
pub struct Chosen<'a> {
    pub step: &'a Step,
    /// The first after the profiler started.
    pub is_first: bool,
    pub m: Measured<'a>,
}

impl Chosen<'_> {
    pub fn kind(&self) -> Kind {
        let about = &self.m.host.about;
        let mode = about.mode.clone().filter(|_| about.phase.is_none());
        Kind { phase: about.phase.map(Phase::name), mode, requests: about.requests }
    }

    /// Tokens by which it brings its requests on, per time; `None` if either is not known.
    pub fn tokens_per_s(&self) -> Option<f64> {
        rate(self.m.host.about.progress()?, self.m.period)
    }

    /// The time that each request of a decode iteration waits for its token.
    pub fn ms_per_token(&self) -> Option<f64> {
        let about = &self.m.host.about;
        let is_known = about.phase == Some(Phase::Decode) && about.progress().is_some_and(|n| n > 0);
        (is_known && self.m.period > 0).then(|| self.m.period as f64 / 1e6)
    }
}

/// Tokens per second.
pub fn rate(tokens: u64, time: Ns) -> Option<f64> {
    (time > 0).then(|| tokens as f64 * 1e9 / time as f64)
}
