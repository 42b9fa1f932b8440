//! Numbers parsed from their text: decimal microseconds to integer nanoseconds, and lenient integers.
//!
//! Times never pass through `f64`: microseconds since the epoch with nanosecond digits need 61 bits.

/// How the digits after the point of a time are interpreted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fraction {
    /// As decimals: `123.5` is 123,500 ns.
    #[default]
    Decimal,
    /// As a number of ns without leading zeros: `123.5` is 123,005 ns (Kineto, spring 2024).
    Unpadded,
}

/// Counts of the shapes of fractions in a file, which show how it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FractionShapes {
    pub(crate) total: u64,
    /// Fewer than three digits.
    pub(crate) short: u64,
    /// Two digits or more, the first a zero.
    pub(crate) lead: u64,
    /// Two digits or more, the last a zero.
    pub(crate) trail: u64,
}

/// Conclusion from the shapes (trace-format, "fraction shape test").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FractionVerdict {
    Padded,
    Reserialised,
    Unpadded,
    Ambiguous,
}

/// Fewest fractions that allow a conclusion.
const ENOUGH_FRACTIONS: u64 = 200;

impl FractionShapes {
    #[inline]
    fn count(&mut self, digits: &[u8]) {
        self.total += 1;
        self.short += u64::from(digits.len() < 3);
        if digits.len() >= 2 {
            self.lead += u64::from(digits[0] == b'0');
            self.trail += u64::from(digits[digits.len() - 1] == b'0');
        }
    }

    pub fn merge(&mut self, other: FractionShapes) {
        self.total += other.total;
        self.short += other.short;
        self.lead += other.lead;
        self.trail += other.trail;
    }

    pub fn verdict(&self) -> FractionVerdict {
        match (self.short, self.lead, self.trail) {
            (0, _, _) => FractionVerdict::Padded,
            (_, 1.., 0) => FractionVerdict::Reserialised,
            (_, 0, 1..) if self.total >= ENOUGH_FRACTIONS => FractionVerdict::Unpadded,
            _ => FractionVerdict::Ambiguous,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NumberError {
    NotANumber,
    Overflow,
}

/// Parses decimal microseconds to ns.
///
/// `ns = I * 1000 + F`, the fraction padded to three digits, further digits rounded half to even. An exponent
/// shifts the point first.
#[inline]
pub fn micros_to_ns(text: &[u8], mode: Fraction, shapes: &mut FractionShapes) -> Result<i64, NumberError> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let mut whole: i64 = 0;
    let mut i = 0;
    // Up to 16 digits, as in microseconds since the epoch.
    while i < digits.len() && i < 16 && digits[i].is_ascii_digit() {
        whole = whole * 10 + i64::from(digits[i] - b'0');
        i += 1;
    }
    if i == 0 {
        return Err(NumberError::NotANumber);
    }
    if whole >= i64::MAX / 1000 {
        return slow_micros_to_ns(negative, digits, mode, shapes);
    }
    let sign = |ns: i64| if negative { -ns } else { ns };
    if i == digits.len() {
        return Ok(sign(whole * 1000));
    }
    if digits[i] == b'.' {
        let fraction = &digits[i + 1..];
        if (1..=3).contains(&fraction.len()) && fraction.iter().all(u8::is_ascii_digit) {
            shapes.count(fraction);
            let value = fraction.iter().fold(0, |v, d| v * 10 + i64::from(d - b'0'));
            let scale = match (mode, fraction.len()) {
                (Fraction::Unpadded, _) | (_, 3) => 1,
                (_, 2) => 10,
                _ => 100,
            };
            return Ok(sign(whole * 1000 + value * scale));
        }
    }
    slow_micros_to_ns(negative, digits, mode, shapes)
}

/// Handles any number of digits and any exponent.
#[cold]
fn slow_micros_to_ns(
    negative: bool,
    digits: &[u8],
    mode: Fraction,
    shapes: &mut FractionShapes,
) -> Result<i64, NumberError> {
    let (mantissa, exponent) = match digits.iter().position(|b: &u8| matches!(b, b'e' | b'E')) {
        Some(at) => {
            let text = std::str::from_utf8(&digits[at + 1..]).map_err(|_| NumberError::NotANumber)?;
            (&digits[..at], text.parse::<i64>().map_err(|_| NumberError::NotANumber)?)
        }
        None => (digits, 0),
    };
    let (whole, fraction) = match mantissa.iter().position(|b| *b == b'.') {
        Some(at) => (&mantissa[..at], &mantissa[at + 1..]),
        None => (mantissa, &mantissa[..0]),
    };
    if whole.is_empty() || !whole.iter().chain(fraction).all(u8::is_ascii_digit) {
        return Err(NumberError::NotANumber);
    }
    if !fraction.is_empty() && exponent == 0 {
        shapes.count(fraction);
        if mode == Fraction::Unpadded && fraction.len() <= 3 {
            let value = fraction.iter().fold(0i128, |v, d| v * 10 + i128::from(d - b'0'));
            return finish(negative, parse_digits(whole)?.saturating_mul(1000).saturating_add(value));
        }
    }
    // The digits without the point, and the number of those that are whole nanoseconds.
    let all: Vec<u8> = whole.iter().chain(fraction).copied().skip_while(|d| *d == b'0').collect();
    let dropped_zeros = whole.len() + fraction.len() - all.len();
    let keep = whole.len() as i64 - dropped_zeros as i64 + 3 + exponent.clamp(-1_000_000, 1_000_000);
    if all.is_empty() || keep < 0 {
        return Ok(0);
    }
    if keep > 30 {
        return Err(NumberError::Overflow);
    }
    let keep = keep as usize;
    let mut value: i128 = 0;
    for i in 0..keep {
        value = value * 10 + i128::from(all.get(i).map_or(0, |d| d - b'0'));
    }
    if let Some((&next, rest)) = all.get(keep..).and_then(<[u8]>::split_first) {
        let above_half = next > b'5' || (next == b'5' && rest.iter().any(|d| *d != b'0'));
        let half = next == b'5' && !above_half;
        value += i128::from(above_half || (half && value % 2 == 1));
    }
    finish(negative, value)
}

fn parse_digits(digits: &[u8]) -> Result<i128, NumberError> {
    if digits.len() > 30 {
        return Err(NumberError::Overflow);
    }
    Ok(digits.iter().fold(0, |v, d| v * 10 + i128::from(d - b'0')))
}

fn finish(negative: bool, value: i128) -> Result<i64, NumberError> {
    i64::try_from(if negative { -value } else { value }).map_err(|_| NumberError::Overflow)
}

/// An integer in an event's arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Integer {
    /// 64 bits, two's complement if negative.
    Value(u64),
    /// Above `i64::MAX`, within `u64`.
    Unsigned(u64),
    /// Above `u64::MAX` or below `i64::MIN`: only the text can be kept.
    TooLarge,
    NotANumber,
}

/// Parses an integer leniently: decimal, hexadecimal with `0x`, a float without a fraction, or a number
/// followed by a unit (`14139908 bytes`).
#[inline]
pub fn integer(text: &[u8]) -> Integer {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    if digits.is_empty() || digits.len() > 18 || !digits.iter().all(u8::is_ascii_digit) {
        return slow_integer(text, negative, digits);
    }
    let value = digits.iter().fold(0u64, |v, d| v * 10 + u64::from(d - b'0'));
    Integer::Value(if negative { value.wrapping_neg() } else { value })
}

#[cold]
fn slow_integer(text: &[u8], negative: bool, digits: &[u8]) -> Integer {
    let Ok(digits) = std::str::from_utf8(digits) else { return Integer::NotANumber };
    let from_i128 = |v: i128| {
        let v = if negative { -v } else { v };
        if let Ok(v) = i64::try_from(v) {
            Integer::Value(v as u64)
        } else if let Ok(v) = u64::try_from(v) {
            Integer::Unsigned(v)
        } else {
            Integer::TooLarge
        }
    };
    if let Some(hex) = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        return match i128::from_str_radix(hex, 16) {
            Ok(v) if v >= 0 => from_i128(v),
            _ => Integer::NotANumber,
        };
    }
    let number = digits.split_once(' ').map_or(digits, |(n, _)| n);
    if !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) {
        return number.parse().map_or(Integer::TooLarge, from_i128);
    }
    // A float counts as an integer if it has no fraction and f64 represents it exactly.
    match std::str::from_utf8(text).ok().and_then(|t| t.parse::<f64>().ok()) {
        Some(v) if v.fract() == 0.0 && v.abs() < 9e15 && number == digits => Integer::Value(v as i64 as u64),
        _ => Integer::NotANumber,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ns(text: &str) -> Result<i64, NumberError> {
        micros_to_ns(text.as_bytes(), Fraction::Decimal, &mut FractionShapes::default())
    }

    #[test]
    fn times_are_exact_in_every_spelling() {
        assert_eq!(ns("4369297849377.183"), Ok(4_369_297_849_377_183));
        assert_eq!(ns("1623143089861123"), Ok(1_623_143_089_861_123_000));
        assert_eq!(ns("1704161511420306.491"), Ok(1_704_161_511_420_306_491));
        assert_eq!(ns("123.5"), Ok(123_500));
        assert_eq!(ns("-1.25"), Ok(-1_250));
        assert_eq!(ns("0.000"), Ok(0));
        assert_eq!(ns("1.5e3"), Ok(1_500_000));
        assert_eq!(ns("12345e-3"), Ok(12_345));
        assert_eq!(ns("1E-9"), Ok(0));
        assert_eq!(ns("1000000000000000000000"), Err(NumberError::Overflow));
        assert_eq!(ns("abc"), Err(NumberError::NotANumber));
        assert_eq!(ns(""), Err(NumberError::NotANumber));
        assert_eq!(ns("1.2.3"), Err(NumberError::NotANumber));
    }

    #[test]
    fn digits_below_a_nanosecond_round_half_to_even() {
        assert_eq!(ns("1.0005"), Ok(1_000));
        assert_eq!(ns("1.0015"), Ok(1_002));
        assert_eq!(ns("1.00050001"), Ok(1_001));
        assert_eq!(ns("1.9999"), Ok(2_000));
        assert_eq!(ns("0.0004"), Ok(0));
    }

    #[test]
    fn unpadded_fractions_count_nanoseconds() {
        let mut s = FractionShapes::default();
        assert_eq!(micros_to_ns(b"123.5", Fraction::Unpadded, &mut s), Ok(123_005));
        assert_eq!(
            micros_to_ns(b"1704161511420306.50", Fraction::Unpadded, &mut s),
            Ok(1_704_161_511_420_306_050)
        );
    }

    #[test]
    fn the_verdict_follows_the_shapes() {
        let shapes = |total, short, lead, trail| FractionShapes { total, short, lead, trail }.verdict();
        assert_eq!(shapes(900, 0, 90, 90), FractionVerdict::Padded);
        assert_eq!(shapes(900, 80, 90, 0), FractionVerdict::Reserialised);
        assert_eq!(shapes(900, 80, 0, 90), FractionVerdict::Unpadded);
        assert_eq!(shapes(150, 80, 0, 90), FractionVerdict::Ambiguous);
        assert_eq!(shapes(900, 80, 0, 0), FractionVerdict::Ambiguous);
    }

    #[test]
    fn integers_are_read_leniently() {
        assert_eq!(integer(b"7"), Integer::Value(7));
        assert_eq!(integer(b"-1"), Integer::Value(u64::MAX));
        assert_eq!(integer(b"0x1f"), Integer::Value(31));
        assert_eq!(integer(b"14139908 bytes"), Integer::Value(14_139_908));
        assert_eq!(integer(b"10159970886766084423"), Integer::Unsigned(10_159_970_886_766_084_423));
        assert_eq!(integer(b"99999999999999999999999"), Integer::TooLarge);
        assert_eq!(integer(b"3.0"), Integer::Value(3));
        assert_eq!(integer(b"3.5"), Integer::NotANumber);
        assert_eq!(integer(b"abc"), Integer::NotANumber);
    }
}
