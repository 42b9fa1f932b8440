//! `not_explained`: lost time that no rule takes.

use crate::diagnosis::confidence::Confidence;
use crate::diagnosis::rule::CauseRule;

pub(super) const RULE: CauseRule =
    CauseRule { name: "not_explained", confidence: Confidence::Bound, ..CauseRule::DEFAULT };
