//! The page of `hta explain`: its text, with what the causes say of themselves.

use crate::CauseKind;
use hta_base::wording::counts::wrapped;
use std::sync::LazyLock;

/// Widths of the columns of the tables, characters; the last but one with the gap after it.
const KIND: usize = 20;
const EVIDENCE: usize = 42;
const OWNS: usize = 16;
const NEW_TIME: usize = 56;

/// The whole page.
pub(super) fn page() -> &'static str {
    static PAGE: LazyLock<String> = LazyLock::new(|| {
        include_str!("page.md").replace("{causes}\n", &causes()).replace("{new times}\n", &new_times())
    });
    &PAGE
}

impl CauseKind {
    /// What the kind means, as text of lines.
    pub fn page(self) -> String {
        let rule = self.rule();
        let mut out = format!("{}: a kind of cause (hta explain diagnosis)\n", rule.name);
        let shown = if rule.shown_by.starts_with("data/") { rule.shown_by } else { "" };
        for (what, text) in [
            ("holds for", rule.evidence),
            ("owns", rule.owns),
            ("at best", rule.certainty.name()),
            ("see", &format!("hta {}", rule.command)),
            ("example", shown),
        ] {
            for (i, line) in wrap(text, NEW_TIME).iter().enumerate().filter(|(_, line)| !line.is_empty()) {
                out.push_str(&format!("  {:<10} {line}\n", if i == 0 { what } else { "" }));
            }
        }
        out
    }
}

/// A line for each cause that has evidence: its kind, evidence, and what it owns.
fn causes() -> String {
    let rules = CauseKind::ALL.iter().map(|kind| kind.rule()).filter(|rule| !rule.evidence.is_empty());
    let told = rules.map(|rule| {
        let (evidence, owns) = (wrap(rule.evidence, EVIDENCE - 2), wrap(rule.owns, OWNS));
        rows(rule.name, &evidence, &owns)
    });
    rows("kind", &["evidence".to_string()], &["owns".to_string()]) + &told.collect::<String>()
}

/// What kernels take after each cause in their mix is repaired.
fn new_times() -> String {
    let told =
        CauseKind::all_kernels().map(|(kind, rule)| rows(kind.name(), &wrap(rule.new_time, NEW_TIME), &[]));
    told.collect()
}

/// Lines of a table of three columns.
fn rows(kind: &str, second: &[String], third: &[String]) -> String {
    let mut out = String::new();
    for i in 0..second.len().max(third.len()) {
        let kind = if i == 0 { kind } else { "" };
        let cell = |of: &[String]| of.get(i).cloned().unwrap_or_default();
        let line = format!("    {kind:KIND$}{:EVIDENCE$}{}", cell(second), cell(third));
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// Lines of at most so many characters. The sign of a percentage stays beside its number.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let joined = text.replace(" %", "\u{a0}%");
    wrapped(joined.split(' ').map(|word| word.replace('\u{a0}', " ")), width)
}
