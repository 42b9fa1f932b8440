//! `not_explained`: lost time that no rule takes.

use crate::diagnosis::certainty::Certainty;
use crate::diagnosis::rule::CauseRule;

pub(super) const RULE: CauseRule =
    CauseRule { name: "not_explained", certainty: Certainty::AtMost, ..CauseRule::DEFAULT };
