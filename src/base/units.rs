//! Units of time, size and energy, and their formatting.
//!
//! All times in the crate are `i64` nanoseconds, all spans are half open `[start, end)`, all sizes are bytes.
//! Ratios become `f64` at the last step, here or in the output row of an analysis.

/// Nanoseconds: a point in time (since the Unix epoch, or the file's own origin) or a duration.
pub type Ns = i64;

/// A half-open span of time `[start, end)`, in ns. Empty when `end <= start`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    pub start: Ns,
    pub end: Ns,
}

impl Span {
    #[inline]
    pub const fn new(start: Ns, end: Ns) -> Self {
        Self { start, end }
    }

    /// Length in ns; 0 for an empty span, never negative.
    #[inline]
    pub fn len(self) -> Ns {
        self.end.saturating_sub(self.start).max(0)
    }

    #[inline]
    pub fn is_empty(self) -> bool {
        self.end <= self.start
    }

    /// The part of `self` inside `other` (possibly empty).
    #[inline]
    pub fn intersect(self, other: Span) -> Span {
        Span::new(self.start.max(other.start), self.end.min(other.end))
    }

    /// The shortest span that contains both.
    #[inline]
    pub fn hull(self, other: Span) -> Span {
        Span::new(self.start.min(other.start), self.end.max(other.end))
    }

    /// Whether the instant `t` lies inside.
    #[inline]
    pub fn holds(self, t: Ns) -> bool {
        self.start <= t && t < self.end
    }
}

/// A memory limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryLimit {
    /// Memory that all ranks in flight may need together, bytes.
    pub bytes: u64,
    /// True if the user set the limit, false if it follows from the machine.
    pub given: bool,
}

/// `part / whole` as a ratio; `None` if `whole` is 0.
pub fn ratio(part: Ns, whole: Ns) -> Option<f64> {
    (whole != 0).then(|| part as f64 / whole as f64)
}

/// `100 * part / whole`; `None` if `whole` is 0.
pub fn percent(part: Ns, whole: Ns) -> Option<f64> {
    (whole != 0).then(|| 100.0 * part as f64 / whole as f64)
}

/// Formats a duration with three significant digits and a unit, e.g. `12.3 ms`.
pub fn fmt_ns(ns: Ns) -> String {
    duration(ns, significant)
}

/// Formats a duration with one decimal and a unit, as periods of sampling are given: `1.0 ms`.
pub fn fmt_ns_tenths(ns: Ns) -> String {
    duration(ns, |v| format!("{v:.1}"))
}

fn duration(ns: Ns, digits: fn(f64) -> String) -> String {
    let a = (ns as f64).abs();
    let (value, unit) = if a < 1e3 {
        return format!("{ns} ns");
    } else if a < 1e6 {
        (ns as f64 / 1e3, "us")
    } else if a < 1e9 {
        (ns as f64 / 1e6, "ms")
    } else {
        (ns as f64 / 1e9, "s")
    };
    format!("{} {unit}", digits(value))
}

/// Formats an energy with one decimal and a unit: `128.0 mJ`, or kJ with two: `1.25 kJ`.
pub fn fmt_joules(j: f64) -> String {
    match j.abs() {
        a if a < 1e-3 => format!("{:.1} uJ", j * 1e6),
        a if a < 1.0 => format!("{:.1} mJ", j * 1e3),
        a if a < 1e3 => format!("{j:.1} J"),
        _ => format!("{:.2} kJ", j / 1e3),
    }
}

/// Formats a size in powers of 1000, e.g. `35.2 MB`.
pub fn fmt_bytes(bytes: u64) -> String {
    let b = bytes as f64;
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{} kB", significant(b / 1e3)),
        1_000_000..1_000_000_000 => format!("{} MB", significant(b / 1e6)),
        _ => format!("{} GB", significant(b / 1e9)),
    }
}

/// Formats a percentage: `12.3 %`, `1,104 %`, or `-` for `None`.
pub fn fmt_pct(value: Option<f64>) -> String {
    let Some(v) = value else { return "-".to_string() };
    if v.abs() >= 1000.0 {
        return format!("{} %", fmt_number(v));
    }
    // No zero has a sign.
    let v = if v.abs() < 0.05 { 0.0 } else { v };
    format!("{v:.1} %")
}

/// Formats a change in percent with its sign: `+5.0 %`, `-0.3 %`, or `0.0 %` for what would be written so.
pub fn fmt_signed_pct(value: f64) -> String {
    let plus = if value >= 0.05 { "+" } else { "" };
    format!("{plus}{}", fmt_pct(Some(value)))
}

/// Formats a number with three significant digits: `0.25`, `32.7`, `327`, `5,714`, `339 k`, `1.20 M`.
pub fn fmt_number(v: f64) -> String {
    let sign = if v < 0.0 { "-" } else { "" };
    match v.abs() {
        a if !a.is_finite() => v.to_string(),
        a if a >= 1e6 => format!("{} M", significant(v / 1e6)),
        a if a >= 1e5 => format!("{} k", significant(v / 1e3)),
        a if a >= 1e3 => format!("{sign}{}", fmt_count(a.round() as u64)),
        a if a < 0.005 => "0.00".to_string(),
        _ => significant(v),
    }
}

/// Formats an integer with commas between thousands.
pub fn fmt_count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

fn significant(v: f64) -> String {
    let a = v.abs();
    if a < 10.0 {
        format!("{v:.2}")
    } else if a < 100.0 {
        format!("{v:.1}")
    } else {
        format!("{v:.0}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hull_contains_both_spans() {
        assert_eq!(Span::new(3, 5).hull(Span::new(8, 9)), Span::new(3, 9));
        assert_eq!(Span::new(3, 9).hull(Span::new(4, 5)), Span::new(3, 9));
    }

    #[test]
    fn durations_are_shown_with_a_fitting_unit() {
        assert_eq!(fmt_ns(999), "999 ns");
        assert_eq!(fmt_ns(1_500), "1.50 us");
        assert_eq!(fmt_ns(12_345_678), "12.3 ms");
        assert_eq!(fmt_ns(-2_000_000_000), "-2.00 s");
        assert_eq!([999, 2_656, 1_000_000].map(fmt_ns_tenths), ["999 ns", "2.7 us", "1.0 ms"]);
        assert_eq!(fmt_ns_tenths(12_300_000_000), "12.3 s");
        assert_eq!(fmt_count(1_234_567), "1,234,567");
        assert_eq!(fmt_bytes(35_154_637), "35.2 MB");
    }

    #[test]
    fn energies_are_shown_with_a_fitting_unit() {
        let shown = [0.000_25, 0.128, 999.96, 1_250.0].map(fmt_joules);
        assert_eq!(shown, ["250.0 uJ", "128.0 mJ", "1000.0 J", "1.25 kJ"]);
    }

    #[test]
    fn ratios_of_nothing_are_absent() {
        assert_eq!(ratio(1, 0), None);
        assert_eq!(percent(1, 4), Some(25.0));
    }

    #[test]
    fn numbers_have_three_digits_and_zero_no_sign() {
        let shown = [0.254, 32.71, 327.4, 5714.3, 339_072.8, 1_200_000.0, -0.001, -5714.3].map(fmt_number);
        assert_eq!(shown, ["0.25", "32.7", "327", "5,714", "339 k", "1.20 M", "0.00", "-5,714"]);
        assert_eq!(fmt_pct(Some(1104.2)), "1,104 %");
        assert_eq!(fmt_pct(Some(-0.02)), "0.0 %");
        assert_eq!([5.04, -0.3, -0.02].map(fmt_signed_pct), ["+5.0 %", "-0.3 %", "0.0 %"]);
    }
}
