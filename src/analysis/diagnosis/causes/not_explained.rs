//! `not_explained`: lost time that no rule takes.

use crate::diagnosis::certainty::CauseCertainty;
use crate::diagnosis::rule::CauseRule;

pub(super) const RULE: CauseRule =
    CauseRule { name: "not_explained", certainty: CauseCertainty::AtMost, ..CauseRule::DEFAULT };
