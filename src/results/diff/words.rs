//! Words and figures of the report, which its tables and sentences share.

use crate::diff::exact::ExactFraction;
use crate::diff::names::{NameChange, NameKey};
use crate::diff::population::Population;
use hta_base::table::compare::Trend;
use hta_base::units::{Ns, fmt_ns, fmt_signed_pct};
use hta_trace::kernel::short_name;

/// What the whole is called.
pub(crate) fn whole(p: &Population) -> &'static str {
    if p.by_step { "step" } else { "capture" }
}

pub(crate) fn ns(x: ExactFraction) -> Ns {
    x.value().round() as Ns
}

pub(crate) fn signed(x: ExactFraction) -> String {
    format!("{}{}", if x.num > 0 { "+" } else { "" }, fmt_ns(ns(x)))
}

pub(crate) fn signed_pct(x: Option<f64>) -> String {
    x.map_or_else(|| "-".to_string(), fmt_signed_pct)
}

/// A name that is short enough for a line; the table has the full name.
pub(crate) fn short(label: &NameKey) -> String {
    short_name(&label.name)
}

/// What became of a name by its time without enclosed events; empty where that cannot be told. Appearing and
/// disappearing come before slower and faster.
pub(crate) fn kind(n: &NameChange) -> &'static str {
    match (n.change(), n.own.trend()) {
        (change @ ("added" | "deleted"), _) => change,
        (_, trend @ (Trend::Slower | Trend::Faster | Trend::Same)) => trend.name(),
        (_, Trend::WithinNoise) => WITHIN,
        (_, Trend::Unknown) => "",
    }
}

/// A change that is within the noise.
pub(crate) const WITHIN: &str = "noise";
