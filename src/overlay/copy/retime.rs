//! Shifts times in their decimal text, exactly and with the number of digits that the file uses.
//!
//! The number of digits after the point matters: a file that pads its fractions (`.120`) keeps them padded,
//! and one that does not (`.12`) keeps them short, because the reader infers from them how a file was
//! written.

use hta_base::units::Ns;
use hta_read::kineto::number::{Fraction, FractionShapes, micros_to_ns};
use std::io::Write;

/// Converts a time of the file to a time of the copy, both in ns.
pub type ClockMap = Box<dyn Fn(Ns) -> Ns + Send + Sync>;

/// How the times of a file change.
#[derive(Default)]
pub enum Retime {
    /// Copied byte for byte.
    #[default]
    Keep,
    /// All times are shifted by this amount, ns.
    Shift(Ns),
    /// Each time is converted, and each duration follows from its converted start and end. Used for a clock
    /// that drifts, and for unpadded fractions ([`Fraction::Unpadded`]), which are written in full.
    Map { clock: ClockMap, fraction: Fraction },
}

impl Retime {
    /// The new text of a start; `None` if it does not change.
    pub fn start(&self, text: &[u8]) -> Option<Vec<u8>> {
        match self {
            Retime::Keep => None,
            Retime::Shift(by) => shifted(text, *by),
            Retime::Map { clock, fraction } => Some(micros(clock(ns(text, *fraction)?))),
        }
    }

    /// The new text of a duration, given the text of its start; `None` if it does not change.
    pub fn length(&self, start: &[u8], text: &[u8]) -> Option<Vec<u8>> {
        match self {
            Retime::Keep | Retime::Shift(_) => None,
            Retime::Map { clock, fraction } => {
                let (ts, dur) = (ns(start, *fraction)?, ns(text, *fraction)?);
                let end = ts.checked_add(dur.max(0))?;
                Some(micros(if dur > 0 { clock(end).saturating_sub(clock(ts)).max(0) } else { dur }))
            }
        }
    }
}

fn ns(text: &[u8], fraction: Fraction) -> Option<Ns> {
    micros_to_ns(text, fraction, &mut FractionShapes::default()).ok()
}

/// Formats ns as decimal microseconds: without a point if whole, else with three digits.
pub fn micros(t: Ns) -> Vec<u8> {
    let (sign, size) = (if t < 0 { "-" } else { "" }, t.unsigned_abs());
    let mut out = Vec::with_capacity(24);
    let _ = match (size / 1000, size % 1000) {
        (us, 0) => write!(out, "{sign}{us}"),
        (us, part) => write!(out, "{sign}{us}.{part:03}"),
    };
    out
}

/// Largest number of digits that is computed with; longer numbers are not times.
const MOST_DIGITS: usize = 30;

/// Shifts decimal microseconds by `by` ns; `None` if `text` is not such a number.
fn shifted(text: &[u8], by: Ns) -> Option<Vec<u8>> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let (mantissa, exponent) = match digits.iter().position(|b| matches!(b, b'e' | b'E')) {
        Some(at) => (&digits[..at], std::str::from_utf8(&digits[at + 1..]).ok()?.parse::<i64>().ok()?),
        None => (digits, 0),
    };
    let (whole, fraction) = match mantissa.iter().position(|b| *b == b'.') {
        Some(at) => (&mantissa[..at], &mantissa[at + 1..]),
        None => (mantissa, &mantissa[..0]),
    };
    let all = || whole.iter().chain(fraction);
    if whole.is_empty() || !all().all(u8::is_ascii_digit) || exponent.abs() > MOST_DIGITS as i64 {
        return None;
    }
    // value = number / 10^places, in microseconds
    let own_places = fraction.len() as i64 - exponent;
    let places = usize::try_from(own_places.max(3)).ok()?;
    let zeros = usize::try_from(places as i64 - own_places).ok()?;
    if whole.len() + fraction.len() + zeros > MOST_DIGITS || places > MOST_DIGITS {
        return None;
    }
    let number = all().fold(0i128, |v, d| v * 10 + i128::from(d - b'0')) * 10i128.pow(zeros as u32);
    let by = i128::from(by).checked_mul(10i128.pow(places as u32 - 3))?;
    let moved = if negative { -number } else { number }.checked_add(by)?;
    let unit = 10i128.pow(places as u32);
    let (sign, size) = (if moved < 0 { "-" } else { "" }, moved.abs());
    let mut out = format!("{sign}{}.{:0places$}", size / unit, size % unit);
    // Keep the zeros of a padded fraction.
    let kept = if own_places >= 3 && exponent == 0 { own_places as usize } else { 0 };
    while out.ends_with('0') && out.len() - out.find('.').unwrap_or(0) - 1 > kept {
        out.pop();
    }
    if out.ends_with('.') {
        out.pop();
    }
    Some(out.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(text: &str, by: Ns) -> Option<String> {
        shifted(text.as_bytes(), by).map(|t| String::from_utf8(t).unwrap())
    }

    #[test]
    fn a_shift_is_exact_and_keeps_the_digits_of_the_file() {
        for (text, ns, expected) in [
            ("12", 5_000, "17"),
            ("12", 5, "12.005"),
            ("12.500", -500, "12.000"),
            ("12.5", -500, "12"),
            ("12.25", 50, "12.3"),
            ("1704161511420306.491", 1, "1704161511420306.492"),
            ("1704161511420306491", -7, "1704161511420306490.993"),
            ("0.0005", 1, "0.0015"),
            ("0.5", -1_000, "-0.5"),
            ("-0.5", 1_000, "0.5"),
            ("1.5e3", 250, "1500.25"),
            ("12345e-3", 0, "12.345"),
        ] {
            assert_eq!(by(text, ns).as_deref(), Some(expected), "{text} {ns}");
        }
        for text in ["", "x", "1.2.3", "1e99", "99999999999999999999999999999999"] {
            assert_eq!(by(text, 1), None, "{text}");
        }
    }

    #[test]
    fn a_drifting_clock_moves_both_ends() {
        // A clock that gains one ns per microsecond.
        let r = Retime::Map { clock: Box::new(|t| t + t / 1000), fraction: Fraction::Decimal };
        assert_eq!(r.start(b"1000").as_deref(), Some(&b"1001"[..]));
        assert_eq!(r.length(b"1000", b"500").as_deref(), Some(&b"500.500"[..]));
        assert_eq!(r.length(b"1000", b"0").as_deref(), Some(&b"0"[..]));
    }

    #[test]
    fn fractions_without_their_zeros_are_written_in_full() {
        let r = Retime::Map { clock: Box::new(|t| t), fraction: Fraction::Unpadded };
        assert_eq!(r.start(b"123.5").as_deref(), Some(&b"123.005"[..]));
        assert_eq!(r.length(b"123.5", b"7.50").as_deref(), Some(&b"7.050"[..]));
    }
}
