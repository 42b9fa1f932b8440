//! How recorded counters are worded.

use hta_base::units::{Ns, fmt_pct, percent};

/// A duration with one decimal, as periods of sampling are given: `1.0 ms`.
pub(super) fn short(ns: Ns) -> String {
    let v = ns as f64;
    match ns {
        ..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} us", v / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", v / 1e6),
        _ => format!("{:.1} s", v / 1e9),
    }
}

/// How much of a time has samples.
pub(super) fn covers(covered: Ns, window: Ns) -> String {
    format!("samples cover {} of this time", fmt_pct(percent(covered, window)))
}

/// Energy with a fitting unit.
pub(super) fn joules(j: f64) -> String {
    match j.abs() {
        a if a < 1e-3 => format!("{:.1} uJ", j * 1e6),
        a if a < 1.0 => format!("{:.1} mJ", j * 1e3),
        a if a < 1e3 => format!("{j:.1} J"),
        _ => format!("{:.2} kJ", j / 1e3),
    }
}
