//! Converts integer nanoseconds to microseconds as text, without floating point.

use crate::format::{Era, FractionStyle};

/// Default `baseTimeNanoseconds`: the start of a slice of 7,889,238 s of Unix time, as Kineto chooses it.
pub const DEFAULT_BASE_NS: i64 = 225 * 7_889_238 * 1_000_000_000;

/// Default distance of a builder's time 0 from its base, ns.
pub(super) const DEFAULT_ORIGIN_AFTER_BASE_NS: i64 = 1_000_000_000_000;

/// Nanoseconds; for symmetry with `us` and `ms`.
pub const fn ns(n: i64) -> i64 {
    n
}

/// Microseconds as nanoseconds.
pub const fn us(n: i64) -> i64 {
    n * 1_000
}

/// Milliseconds as nanoseconds.
pub const fn ms(n: i64) -> i64 {
    n * 1_000_000
}

/// Text of `ts` for an absolute time.
pub(super) fn timestamp(absolute_ns: i64, base_ns: i64, era: Era, fraction: FractionStyle) -> String {
    match era {
        Era::Microseconds => absolute_ns.div_euclid(1_000).to_string(),
        Era::Decimal => decimal_us(absolute_ns, fraction),
        Era::Base => decimal_us(absolute_ns.saturating_sub(base_ns), fraction),
    }
}

/// Text of `dur`. In whole microseconds it is the difference of the truncated ends, so that rows stay
/// disjoint.
pub(super) fn duration(absolute_ns: i64, dur_ns: i64, era: Era, fraction: FractionStyle) -> String {
    match era {
        Era::Microseconds => {
            let end = absolute_ns.saturating_add(dur_ns).div_euclid(1_000);
            end.saturating_sub(absolute_ns.div_euclid(1_000)).to_string()
        }
        Era::Decimal | Era::Base => decimal_us(dur_ns, fraction),
    }
}

fn decimal_us(ns: i64, fraction: FractionStyle) -> String {
    let sign = if ns < 0 { "-" } else { "" };
    let magnitude = ns.unsigned_abs();
    let (whole, rest) = (magnitude / 1_000, magnitude % 1_000);
    match fraction {
        FractionStyle::Padded => format!("{sign}{whole}.{rest:03}"),
        FractionStyle::Unpadded => format!("{sign}{whole}.{rest}"),
        FractionStyle::Shortened => {
            let digits = format!("{rest:03}");
            let kept = digits.trim_end_matches('0');
            format!("{sign}{whole}.{}", if kept.is_empty() { "0" } else { kept })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_nanoseconds_are_written_in_three_ways() {
        assert_eq!(decimal_us(123_005, FractionStyle::Padded), "123.005");
        assert_eq!(decimal_us(123_005, FractionStyle::Shortened), "123.005");
        assert_eq!(decimal_us(123_005, FractionStyle::Unpadded), "123.5");
        assert_eq!(decimal_us(123_120, FractionStyle::Shortened), "123.12");
        assert_eq!(decimal_us(123_000, FractionStyle::Shortened), "123.0");
        assert_eq!(decimal_us(-1_500, FractionStyle::Padded), "-1.500");
    }

    #[test]
    fn whole_microseconds_keep_touching_rows_touching() {
        let (a, b, c) = (1_700, 2_400, 4_100);
        let cut = |from: i64, to: i64| duration(from, to - from, Era::Microseconds, FractionStyle::Padded);
        assert_eq!(timestamp(a, 0, Era::Microseconds, FractionStyle::Padded), "1");
        assert_eq!(cut(a, b), "1");
        assert_eq!(timestamp(b, 0, Era::Microseconds, FractionStyle::Padded), "2");
        assert_eq!(cut(b, c), "2");
    }

    #[test]
    fn the_default_base_is_a_multiple_of_the_slice() {
        assert_eq!(DEFAULT_BASE_NS % (7_889_238 * 1_000_000_000), 0);
    }
}
