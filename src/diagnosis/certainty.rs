//! How sure a cause is. The words are the same on all screens, in tables and in JSON.

/// How sure a cause can be at best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CauseCertainty {
    /// Follows from recorded times alone.
    Sure,
    /// Depends on an interpretation.
    Likely,
    /// Only a bound of the gain is known.
    AtMost,
    /// The recording does not support it.
    Withheld,
}

impl CauseCertainty {
    pub const ALL: [CauseCertainty; 4] = [Self::Sure, Self::Likely, Self::AtMost, Self::Withheld];

    pub fn name(self) -> &'static str {
        match self {
            CauseCertainty::Sure => "sure",
            CauseCertainty::Likely => "likely",
            CauseCertainty::AtMost => "at most",
            CauseCertainty::Withheld => "withheld",
        }
    }

    /// Weight of a gain in the ranking.
    pub(crate) fn weight(self) -> f64 {
        match self {
            CauseCertainty::Sure => 1.0,
            CauseCertainty::Likely => 0.8,
            CauseCertainty::AtMost | CauseCertainty::Withheld => 0.5,
        }
    }
}
