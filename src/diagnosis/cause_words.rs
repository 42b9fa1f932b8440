//! What is said of a cause.

/// The words of a cause: sentences without a full stop.
#[derive(Debug, Clone, Default)]
pub(crate) struct CauseWords {
    /// What is wrong; it can be read alone.
    pub(crate) what: String,
    /// The numbers that show it; empty if `what` has them.
    pub(crate) why: String,
    /// What to do.
    pub(crate) action: String,
}

impl CauseWords {
    pub(crate) fn new(what: impl Into<String>, why: impl Into<String>, action: impl Into<String>) -> Self {
        Self { what: what.into(), why: why.into(), action: action.into() }
    }
}
