//! Answers in the definitions of AMD's TraceLens.

pub(super) mod breakdown;

pub(super) const NAME: &str = "tracelens";
