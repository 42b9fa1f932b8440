//! A cause: what it owns, what its repair gives, and its words.

use crate::CauseKind;
use crate::account::TimePart;
use crate::cause_words::CauseWords;
use crate::certainty::CauseCertainty;
use crate::evidence::Evidence;
use crate::gain::{OwnedNames, OwnedTime};
use crate::grouping::RankScope;
use crate::trust::Trust;
use hta_base::units::Ns;
use hta_base::wording::names::fnv1a;
use hta_job::recording::capability::Capability;
use hta_trace::step::mask;

/// How a gain was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GainBasis {
    Replay,
    /// What devices and hosts need for the rest.
    Bound,
    /// The bound, with kernels at the peaks of the device.
    Roofline,
    Assumed,
}

impl GainBasis {
    pub(crate) fn name(self) -> &'static str {
        match self {
            GainBasis::Replay => "replay",
            GainBasis::Bound => "bound",
            GainBasis::Roofline => "roofline",
            GainBasis::Assumed => "assumed",
        }
    }
}

/// Weight in the ranking of a bound of what the way the job is built costs.
const PRICE: f64 = 0.25;

/// A cause with all that it owns.
#[derive(Debug, Clone)]
pub(crate) struct Cause {
    pub(crate) kind: CauseKind,
    /// What it is about: a frame, a call, a kernel; without it the kind alone names the cause.
    pub(crate) key: String,
    pub(crate) ranks: Vec<u32>,
    pub(crate) scope: RankScope,
    pub(crate) rank_label: String,
    /// Steps of a cause that is not in all of them.
    pub(crate) steps: Vec<String>,
    pub(crate) owned: OwnedTime,
    /// What it owns by name, if it is known by names.
    pub(crate) names: OwnedNames,
    /// Share of the compute time of all devices that it owns, ns.
    pub compute: Ns,
    /// What a cause about memory is about, bytes.
    pub(crate) bytes: Option<i64>,
    /// Over all steps, ns.
    pub(crate) gain: Ns,
    pub(crate) basis: GainBasis,
    pub(crate) certainty: CauseCertainty,
    pub(crate) p_value: Option<f64>,
    /// Whether it is in no recording that begins later, so that the job itself gains nothing.
    pub(crate) is_once: bool,
    /// What it rests on.
    pub(crate) needs: &'static [Capability],
    pub(crate) trust: Trust,
    pub(crate) words: CauseWords,
    /// Line or function of the user's code, with the module; empty if it is not recorded.
    pub(crate) place: String,
    pub(crate) evidence: Vec<Evidence>,
}

/// Identifies a cause over runs: kind, scope and key, without numbers of ranks, addresses, lines and times.
pub(crate) fn finding_id(cause: &Cause) -> String {
    let text = format!("{}\0{}\0{}", cause.kind.name(), cause.scope.name(), mask(&cause.key));
    format!("{}-{:08x}", cause.kind.name(), fnv1a(&text) >> 32)
}

impl Cause {
    /// Whether the recording does not support it.
    pub(crate) fn is_withheld(&self) -> bool {
        matches!(self.trust, Trust::Withheld(_))
    }

    /// How sure it is on this recording.
    pub(crate) fn certainty(&self) -> CauseCertainty {
        if self.is_withheld() { CauseCertainty::Withheld } else { self.certainty }
    }

    /// Lost time that it owns, over devices and steps, ns.
    pub(crate) fn owned_sum(&self) -> Ns {
        self.owned.values().sum()
    }

    pub(crate) fn owned_part(&self, part: TimePart) -> Ns {
        self.owned.iter().filter(|((_, _, p), _)| *p == part).map(|(_, ns)| ns).sum()
    }

    /// Weight in the ranking: within one grade, gains decide.
    pub(crate) fn rank_weight(&self) -> f64 {
        let rule = self.kind.rule();
        let weight = match self.certainty {
            _ if rule.is_fact => 1.0,
            // A bound that no repair comes near is no reason to look past what is broken.
            CauseCertainty::AtMost if rule.is_price && self.basis == GainBasis::Bound => PRICE,
            known => known.weight(),
        };
        self.gain as f64 * weight
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_do_not_distinguish_keys() {
        assert_eq!(mask("run in train.py(120): step 0x7f"), "run in train.py(#): step #x#f");
        assert_eq!(mask("triton_poi_fused_add_12"), mask("triton_poi_fused_add_7"));
    }
}
