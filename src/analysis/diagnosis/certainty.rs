//! How sure a cause is. The words are the same on all screens, in tables and in JSON.

/// How sure a cause can be at best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Certainty {
    /// Follows from recorded times alone.
    Sure,
    /// Depends on an interpretation.
    Likely,
    /// Only a bound of the gain is known.
    AtMost,
    /// The recording does not support it.
    Withheld,
}

impl Certainty {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Certainty::Sure => "sure",
            Certainty::Likely => "likely",
            Certainty::AtMost => "at most",
            Certainty::Withheld => "withheld",
        }
    }

    /// Weight of a gain in the ranking.
    pub(crate) fn weight(self) -> f64 {
        match self {
            Certainty::Sure => 1.0,
            Certainty::Likely => 0.8,
            Certainty::AtMost | Certainty::Withheld => 0.5,
        }
    }
}
