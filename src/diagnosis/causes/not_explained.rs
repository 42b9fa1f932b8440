//! `not_explained`: lost time that no rule takes.

use crate::certainty::CauseCertainty;
use crate::rule::CauseRule;

pub(super) const RULE: CauseRule =
    CauseRule { name: "not_explained", certainty: CauseCertainty::AtMost, ..CauseRule::DEFAULT };
