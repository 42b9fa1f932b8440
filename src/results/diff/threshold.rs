//! `--fail-if 'METRIC OP VALUE'`: conditions under which a comparison fails.
//!
//! ```text
//!   METRIC   step_time, compute, ... gpu_sum       a row of diff_summary
//!            kernel:NAME   name:PATTERN            time of GPU activities, of one name or of all that match
//!            op:NAME                               time of the operator on the host
//!            count:NAME                            activities and host events of that name
//!   OP       >  >=  <  <=
//!   VALUE    +5%  -3%                              change relative to base
//!            +2ms  -100us  +4                      absolute change
//!            120ms  4                              value of test
//! ```
//!
//! The operator is the last one in the text, because names of kernels may contain `<` and `>`. Changes are
//! compared in integers; if base is 0, any increase exceeds every percentage.

use crate::diff::exact::ExactFraction;
use crate::diff::population::Population;
use crate::diff::set::{CellKey, WorkSide};
use crate::diff::summary::{Metric, MetricPair, pair, sum_of};
use hta_base::table::compare::STANDARD_ERRORS;
use hta_base::units::{Ns, fmt_ns, fmt_signed_pct};
use hta_trace::kernel::short_name;
use std::cmp::Ordering;

/// One condition: its text and its parsed parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Threshold {
    pub(crate) text: String,
    what: What,
    op: Comparison,
    limit: ThresholdLimit,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum What {
    Summary(Metric),
    Kernel(String),
    Operator(String),
    Pattern(String),
    Count(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    More,
    AtLeast,
    Less,
    AtMost,
}

impl Comparison {
    const ALL: [(&'static str, Comparison); 4] = [
        (">=", Comparison::AtLeast),
        ("<=", Comparison::AtMost),
        (">", Comparison::More),
        ("<", Comparison::Less),
    ];

    fn holds(self, found: Ordering) -> bool {
        match self {
            Comparison::More => found == Ordering::Greater,
            Comparison::AtLeast => found != Ordering::Less,
            Comparison::Less => found == Ordering::Less,
            Comparison::AtMost => found != Ordering::Greater,
        }
    }
}

/// Limits in millionths of a percent, of a nanosecond, or of one (for counts).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ThresholdLimit {
    Percent(i128),
    Change(i128),
    Value(i128),
}

/// Units of a [`ThresholdLimit`] per one.
const MILLION: i128 = 1_000_000;

/// The result of a condition.
#[derive(Debug, Clone, PartialEq)]
pub struct ThresholdVerdict {
    pub(crate) text: String,
    pub is_crossed: bool,
    /// The values, e.g. `100 ms -> 112 ms (+12.0 %, +12.0 ms)`.
    pub(crate) found: String,
    /// Whether the change is within the noise, in words.
    pub noise: String,
    pub(crate) is_significant: Option<bool>,
    /// Neither side has anything of that name.
    pub is_unknown: bool,
}

impl ThresholdVerdict {
    /// The message for the user.
    pub fn sentence(&self) -> String {
        let state = if self.is_crossed { "crossed" } else { "not crossed" };
        let unknown = if self.is_unknown { "; nothing of that name is in either set" } else { "" };
        format!("`{}` {state}: {}; {}{unknown}", self.text, self.found, self.noise)
    }
}

impl Threshold {
    /// Parses a condition.
    ///
    /// # Errors
    /// A message that says what was expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (left, op, right) =
            split(text).ok_or_else(|| expected("METRIC, then >, >=, < or <=, then VALUE"))?;
        let what = What::parse(left)?;
        let limit = ThresholdLimit::parse(right, matches!(what, What::Count(_)))?;
        Ok(Self { text: text.split_whitespace().collect::<Vec<_>>().join(" "), what, op, limit })
    }

    /// Evaluates the condition.
    pub(crate) fn judge(&self, p: &Population) -> ThresholdVerdict {
        let pair = self.what.pair(p);
        let (base, test, delta) = (pair.base.mean, pair.test.mean, pair.delta());
        let found = match self.limit {
            ThresholdLimit::Value(limit) => compare(test.num, limit, test.den),
            ThresholdLimit::Change(limit) => compare(delta.num, limit, delta.den),
            // Compares delta / base with the limit; the denominators cancel.
            ThresholdLimit::Percent(limit) if base.num > 0 => {
                compare(delta.num.saturating_mul(100), limit, base.num.saturating_mul(test.den))
            }
            // If base is 0, an increase exceeds every percentage; 0 to 0 is no change.
            ThresholdLimit::Percent(_) if delta.num > 0 => Ordering::Greater,
            ThresholdLimit::Percent(limit) => 0.cmp(&limit),
        };
        let is_count = matches!(self.what, What::Count(_));
        let show =
            |x: ExactFraction| if is_count { count(x.value()) } else { fmt_ns(x.value().round() as Ns) };
        let pct = pair.delta_pct().map_or_else(String::new, |p| format!("{}, ", fmt_signed_pct(p)));
        let plus = if delta.num > 0 { "+" } else { "" };
        ThresholdVerdict {
            text: self.text.clone(),
            is_crossed: self.op.holds(found),
            found: format!("{} -> {} per {} ({pct}{plus}{})", show(base), show(test), p.scope(), show(delta)),
            noise: noise(&pair),
            is_significant: pair.compared().is_significant,
            is_unknown: !matches!(self.what, What::Summary(_)) && !self.what.is_known(p),
        }
    }
}

fn count(x: f64) -> String {
    if x.fract() == 0.0 { format!("{x}") } else { format!("{x:.2}") }
}

/// Compares `num / den` with `limit` millionths.
fn compare(num: i128, limit: i128, den: i128) -> Ordering {
    num.saturating_mul(MILLION).cmp(&limit.saturating_mul(den))
}

/// Says whether a change is within the noise.
pub(crate) fn noise(pair: &MetricPair) -> String {
    let delta = pair.delta().value().abs();
    match pair.compared().error {
        None => {
            let (a, b) = (pair.base.noise.steps, pair.test.noise.steps);
            format!("too few steps ({a} and {b}) to tell it from noise")
        }
        Some(_) if delta == 0.0 => "no change".to_string(),
        Some(0.0) => "beyond the noise: no step differs from the others".to_string(),
        Some(error) => {
            let times = delta / error;
            if times > STANDARD_ERRORS {
                let times = if times > 99.0 { "more than 99".to_string() } else { format!("{times:.1}") };
                format!("beyond the noise of the steps ({times} standard errors)")
            } else {
                format!(
                    "within the noise of the steps ({times:.1} standard errors, {STANDARD_ERRORS} is the \
                     limit)"
                )
            }
        }
    }
}

/// Splits at the last comparison operator of the text.
fn split(text: &str) -> Option<(&str, Comparison, &str)> {
    let at = text.rfind(['<', '>'])?;
    let (sign, op) = Comparison::ALL.into_iter().find(|(sign, _)| text[at..].starts_with(sign))?;
    let (left, right) = (text[..at].trim(), text[at + sign.len()..].trim());
    (!left.is_empty() && !right.is_empty()).then_some((left, op, right))
}

fn expected(what: &str) -> String {
    format!("expected {what}, e.g. 'step_time > +5%' or 'kernel:NAME >= +100us'")
}

impl What {
    fn parse(text: &str) -> Result<Self, String> {
        if let Some(metric) = Metric::ALL.into_iter().find(|m| m.name() == text || m.old_name() == Some(text))
        {
            return Ok(What::Summary(metric));
        }
        let known = || {
            let names: Vec<&str> = Metric::ALL.iter().map(|m| m.name()).collect();
            format!(
                "expected {}, kernel:NAME, name:PATTERN, op:NAME or count:NAME before the comparison, found \
                 `{text}`",
                names.join(", ")
            )
        };
        let (kind, name) = text.split_once(':').ok_or_else(known)?;
        let name = name.trim().to_string();
        if name.is_empty() {
            return Err(format!("expected a name after `{kind}:`"));
        }
        match kind {
            "kernel" => Ok(What::Kernel(name)),
            "op" => Ok(What::Operator(name)),
            "name" => Ok(What::Pattern(name)),
            "count" => Ok(What::Count(name)),
            _ => Err(known()),
        }
    }

    fn fits(&self, key: &CellKey) -> bool {
        // The short name also counts without what tells kernels of one function apart.
        let is_short = |short: &str, name: &str| short == name || short.split('<').next() == Some(name);
        let named = |name: &str| &*key.name == name || is_short(&short_name(&key.name), name);
        match self {
            What::Summary(_) => false,
            What::Kernel(name) => key.side == WorkSide::Gpu && named(name),
            What::Operator(name) => key.side == WorkSide::Host && &*key.class == "operator" && named(name),
            What::Pattern(pattern) => {
                key.side == WorkSide::Gpu
                    && (glob(pattern, &key.name) || glob(pattern, &short_name(&key.name)))
            }
            What::Count(name) => named(name),
        }
    }

    fn pair(&self, p: &Population) -> MetricPair {
        match self {
            What::Summary(metric) => pair(p, *metric),
            What::Count(_) => self.sums(p, |cell| cell.count),
            _ => self.sums(p, |cell| cell.ns),
        }
    }

    fn sums(&self, p: &Population, value: impl Fn(&crate::diff::set::KeyedStep) -> i64) -> MetricPair {
        let side = |side| sum_of(side, |key| self.fits(key), &value);
        MetricPair { base: side(&p.base), test: side(&p.test) }
    }

    fn is_known(&self, p: &Population) -> bool {
        let ranks = || p.base.set.ranks.iter().chain(&p.test.set.ranks);
        ranks().any(|r| r.keys.iter().any(|k| self.fits(k)))
    }
}

/// Whether `text` matches a pattern with `*` for any characters and `?` for one.
fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    // Position after the last star in the pattern, and where its match ends in the text.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(c) if *c == '?' || *c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    (p, t) = (at + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

impl ThresholdLimit {
    fn parse(text: &str, is_count: bool) -> Result<Self, String> {
        let units =
            if is_count { "a number (4, +1, -2)" } else { "a time with its unit (120ms, +2ms, -100us)" };
        let bad = || {
            format!(
                "expected a change in percent with its sign (+5%, -3%) or {units} after the comparison, \
                 found `{text}`"
            )
        };
        let digits = text.find(|c: char| !matches!(c, '0'..='9' | '.' | '+' | '-')).unwrap_or(text.len());
        let (number, unit) = (&text[..digits], text[digits..].trim());
        let millionths = millionths(number).ok_or_else(bad)?;
        let is_signed = number.starts_with(['+', '-']);
        let scale = match (unit, is_count) {
            ("%", _) if is_signed => return Ok(ThresholdLimit::Percent(millionths)),
            ("", true) | ("ns", false) => 1,
            ("us", false) => 1_000,
            ("ms", false) => 1_000_000,
            ("s", false) => 1_000_000_000,
            _ => return Err(bad()),
        };
        let limit = millionths.saturating_mul(scale);
        Ok(if is_signed { ThresholdLimit::Change(limit) } else { ThresholdLimit::Value(limit) })
    }
}

/// Parses a decimal number to millionths; further digits are truncated.
fn millionths(text: &str) -> Option<i128> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let plain = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
    if !plain(whole) || !plain(fraction) || (whole.is_empty() && fraction.is_empty()) || whole.len() > 15 {
        return None;
    }
    let fraction: String = fraction.chars().chain("000000".chars()).take(6).collect();
    let number = |t: &str| if t.is_empty() { Some(0) } else { t.parse::<i128>().ok() };
    Some(sign * (number(whole)? * MILLION + number(&fraction)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> (What, Comparison, ThresholdLimit) {
        let t = Threshold::parse(text).unwrap();
        (t.what, t.op, t.limit)
    }

    #[test]
    fn conditions_are_read() {
        let step = What::Summary(Metric::StepTime);
        assert_eq!(
            parsed("step_time > +5%"),
            (step.clone(), Comparison::More, ThresholdLimit::Percent(5 * MILLION))
        );
        assert_eq!(
            parsed("step_time>=-0.5%"),
            (step.clone(), Comparison::AtLeast, ThresholdLimit::Percent(-MILLION / 2))
        );
        assert_eq!(
            parsed("step_time <= 120 ms"),
            (step, Comparison::AtMost, ThresholdLimit::Value(120_000_000 * MILLION))
        );
        let kernel = What::Kernel("void f<4, g<int> >(int*)".to_string());
        assert_eq!(
            parsed("kernel:void f<4, g<int> >(int*) > +2us"),
            (kernel, Comparison::More, ThresholdLimit::Change(2000 * MILLION))
        );
        assert_eq!(
            parsed("count:cudaMalloc > 0"),
            (What::Count("cudaMalloc".to_string()), Comparison::More, ThresholdLimit::Value(0))
        );
    }

    #[test]
    fn what_is_wrong_with_a_condition_is_told() {
        for (text, word) in [
            ("step_time", "METRIC, then >"),
            ("> +5%", "METRIC, then >"),
            ("speed > +5%", "found `speed`"),
            ("step_time > 5%", "with its sign"),
            ("step_time > 5", "a time with its unit"),
            ("step_time > +5 parsecs", "found `+5 parsecs`"),
            ("count:x > 5ms", "a number (4, +1, -2)"),
            ("kernel: > +5%", "a name after `kernel:`"),
            ("step_time > +-5%", "found `+-5%`"),
            ("step_time > .%", "found `.%`"),
        ] {
            let error = Threshold::parse(text).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    #[test]
    fn patterns_fit_whole_names() {
        assert!(glob("*gemm*", "ampere_sgemm_128x64"));
        assert!(glob("a?c*", "abc") && !glob("a?c", "abcd"));
        assert!(glob("*", "") && glob("**b", "aab") && !glob("b*", "ab"));
        assert!(glob("*ab*ab", "abxabab"));
    }

    #[test]
    fn values_are_compared_as_integers() {
        assert_eq!(compare(1, MILLION / 3, 3), Ordering::Greater);
        assert_eq!(compare(21, 5_250_000, 4), Ordering::Equal);
        assert_eq!(millionths("-0.25"), Some(-250_000));
        assert_eq!(millionths("1e3"), None);
    }
}
