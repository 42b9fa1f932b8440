//! `--fail-if 'cause(KIND) > 5%'`: conditions on the gain of causes under which a run fails.

use crate::CauseKind;
use hta_analysis::verdict::JobVerdict;
use hta_base::units::fmt_pct;

/// A condition: the largest gain of the causes of one kind exceeds a share of the job's time, or of any that
/// the job itself can do without.
#[derive(Debug, Clone, PartialEq)]
pub struct CauseCondition {
    text: String,
    /// `None` for causes of any kind.
    kind: Option<CauseKind>,
    /// Whether a gain equal to the limit fulfils it.
    is_inclusive: bool,
    limit_pct: f64,
}

impl CauseCondition {
    /// Parses a condition such as `cause(data_loader) > 5%`, `cause(any) >= 10%`.
    ///
    /// # Errors
    /// What was expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let expected = || "expected cause(KIND) > N%, for example cause(data_loader) > 5%".to_string();
        let (name, rest) =
            text.trim().strip_prefix("cause(").and_then(|t| t.split_once(')')).ok_or_else(expected)?;
        let kind = match name.trim() {
            "any" => None,
            name => Some(CauseKind::named(name).ok_or_else(|| {
                let known: Vec<&str> = CauseKind::ALL.iter().map(|k| k.name()).collect();
                format!("`{name}` is no kind of cause: expected any or one of {}", known.join(", "))
            })?),
        };
        let rest = rest.trim();
        let (is_inclusive, value) = match rest.strip_prefix(">=") {
            Some(value) => (true, value),
            None => (false, rest.strip_prefix('>').ok_or_else(expected)?),
        };
        let number = value.trim().strip_suffix('%').and_then(|n| n.trim().parse::<f64>().ok());
        let limit_pct = number.filter(|n| n.is_finite() && *n >= 0.0).ok_or_else(expected)?;
        Ok(Self { text: text.trim().to_string(), kind, is_inclusive, limit_pct })
    }

    /// The message if it holds.
    pub fn crossed(&self, verdict: &JobVerdict) -> Option<String> {
        let once = verdict.once.iter().filter(|_| self.kind.is_some()).map(|of| (of, "it takes, once,"));
        let all = verdict.gains.iter().map(|of| (of, "fixing it saves")).chain(once);
        let of_kind = all.filter(|((kind, _), _)| self.kind.is_none_or(|k| k.name() == *kind));
        let ((_, largest), saves) = of_kind.max_by(|a, b| a.0.1.total_cmp(&b.0.1))?;
        let holds = if self.is_inclusive { *largest >= self.limit_pct } else { *largest > self.limit_pct };
        holds.then(|| format!("`{}` holds: {saves} {}", self.text, fmt_pct(Some(*largest))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read_and_judged() {
        let found = JobVerdict {
            gains: vec![("data_loader", 7.0), ("host_sync", 2.0)],
            once: vec![("cold_start", 30.0)],
            ..JobVerdict::default()
        };
        let holds = |text: &str| CauseCondition::parse(text).unwrap().crossed(&found).is_some();
        assert!(holds("cause(data_loader) > 5%") && !holds("cause(data_loader) > 7 %"));
        assert!(holds("cause(data_loader) >= 7%") && holds("cause(any)>6.5%"));
        // What is no part of a later recording counts by its name only.
        assert!(holds("cause(cold_start) > 20%") && !holds("cause(any) > 7%"));
        assert!(!holds("cause(straggler) > 0%") && !holds("cause(host_sync) > 5%"));
        for bad in
            ["data_loader > 5%", "cause(x) > 5%", "cause(any) < 5%", "cause(any) > 5", "cause(any) > nan%"]
        {
            assert!(CauseCondition::parse(bad).is_err(), "{bad}");
        }
    }
}
