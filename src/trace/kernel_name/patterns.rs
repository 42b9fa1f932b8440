//! Ordered patterns of names, all matched at once.

use regex_automata::meta::{Config, Regex};
use regex_automata::util::syntax;
use regex_automata::{Input, MatchKind, PatternSet};

/// Patterns in their order. Classes are those of ASCII, because names are ASCII for the most part.
#[derive(Debug)]
pub(crate) struct NamePatterns {
    regex: Regex,
    /// Patterns and texts are compared in lower case.
    in_lower_case: bool,
}

impl NamePatterns {
    /// Patterns that tell upper and lower case apart, where they do not begin with `(?i)`.
    ///
    /// # Errors
    /// A description of a pattern that is none.
    pub(crate) fn new<P: AsRef<str>>(patterns: &[P]) -> Result<Self, String> {
        // `regex::RegexSet` is the same, but first looks for texts with which matches begin. It does not use
        // them where patterns overlap, and takes twice as long to be made.
        let config = Config::new().match_kind(MatchKind::All).auto_prefilter(false).utf8_empty(false);
        let syntax = syntax::Config::new().unicode(false).utf8(false);
        let built = Regex::builder().configure(config).syntax(syntax).build_many(patterns);
        Ok(Self { regex: built.map_err(|e| e.to_string())?, in_lower_case: false })
    }

    /// Patterns that match in upper and lower case. They are made sooner for texts in lower case than with
    /// both cases of each letter.
    ///
    /// # Errors
    /// As [`NamePatterns::new`]; and for an escape in upper case, which would become another one.
    pub(crate) fn in_any_case<'a>(patterns: impl Iterator<Item = &'a String>) -> Result<Self, String> {
        let patterns: Vec<String> = patterns.map(|pattern| lower(pattern)).collect::<Result<_, _>>()?;
        Ok(Self { in_lower_case: true, ..Self::new(&patterns)? })
    }

    /// Indices of those that match, in order.
    pub(crate) fn matches(&self, text: &str) -> PatternSet {
        let mut found = PatternSet::new(self.regex.pattern_len());
        match self.in_lower_case {
            true => self.regex.which_overlapping_matches(&Input::new(&text.to_ascii_lowercase()), &mut found),
            false => self.regex.which_overlapping_matches(&Input::new(text), &mut found),
        }
        found
    }

    /// Index of the first that matches.
    pub(crate) fn first(&self, text: &str) -> Option<usize> {
        self.matches(text).iter().next().map(|id| id.as_usize())
    }
}

fn lower(pattern: &str) -> Result<String, String> {
    let is_other = pattern.as_bytes().windows(2).any(|two| two[0] == b'\\' && two[1].is_ascii_uppercase());
    if is_other {
        Err(format!("an escape in upper case in `{pattern}`"))
    } else {
        Ok(pattern.to_ascii_lowercase())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_matters_only_where_it_is_asked_for() {
        let of_any = ["Moe[A-Z]", "con[^E]"].map(String::from);
        let any = NamePatterns::in_any_case(of_any.iter()).unwrap();
        assert_eq!(
            ["MOEX", "moex", "moe_", "CONE", "conv"].map(|t| any.first(t)),
            [Some(0), Some(0), None, None, Some(1)]
        );
        let exact = NamePatterns::new(&["a", "(?i)b", "ab"]).unwrap();
        let found = |text| exact.matches(text).iter().map(|id| id.as_usize()).collect::<Vec<_>>();
        assert_eq!((found("aB"), found("AB"), found("ab")), (vec![0, 1], vec![1], vec![0, 1, 2]));
        assert!(NamePatterns::in_any_case([r"a\W".to_string()].iter()).is_err());
    }
}
