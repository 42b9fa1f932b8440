//! How recorded counters are worded.

use hta_base::units::{Ns, fmt_pct, percent};

/// How much of a time has samples.
pub(super) fn covers(covered: Ns, window: Ns) -> String {
    format!("samples cover {} of this time", fmt_pct(percent(covered, window)))
}
