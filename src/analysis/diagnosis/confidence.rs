//! How sure a cause is.

/// How sure a cause can be at best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Confidence {
    /// Follows from recorded times alone.
    Measured,
    /// Depends on an interpretation.
    Interpreted,
    /// Only a bound is known.
    Bound,
}

impl Confidence {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Confidence::Measured => "A",
            Confidence::Interpreted => "B",
            Confidence::Bound => "C",
        }
    }

    /// Weight of a gain in the ranking.
    pub(crate) fn weight(self) -> f64 {
        match self {
            Confidence::Measured => 1.0,
            Confidence::Interpreted => 0.8,
            Confidence::Bound => 0.5,
        }
    }

    /// In a sentence.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Confidence::Measured => "sure",
            Confidence::Interpreted => "likely",
            Confidence::Bound => "at most",
        }
    }
}
