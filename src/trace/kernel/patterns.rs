//! Ordered patterns of names, all matched at once.

use regex_automata::meta::{Config, Regex};
use regex_automata::util::syntax;
use regex_automata::{Input, MatchKind, PatternSet};

/// Patterns in their order. Upper and lower case are the same, and classes are those of ASCII.
pub(super) struct Patterns(Regex);

impl Patterns {
    /// # Errors
    /// A description of a pattern that is none.
    pub(super) fn new<P: AsRef<str>>(patterns: impl Iterator<Item = P>) -> Result<Self, String> {
        let patterns: Vec<P> = patterns.collect();
        // `regex::RegexSet` is the same, but first looks for texts with which matches begin. It does not use them
        // where patterns overlap, and takes twice as long to be made. Names are ASCII for the most part, and
        // classes of letters of ASCII are ready many times sooner.
        let config = Config::new().match_kind(MatchKind::All).auto_prefilter(false).utf8_empty(false);
        let syntax = syntax::Config::new().case_insensitive(true).unicode(false).utf8(false);
        let built = Regex::builder().configure(config).syntax(syntax).build_many(&patterns);
        built.map(Self).map_err(|e| e.to_string())
    }

    /// Indices of those that match, in order.
    pub(super) fn matches(&self, text: &str) -> PatternSet {
        let mut found = PatternSet::new(self.0.pattern_len());
        self.0.which_overlapping_matches(&Input::new(text), &mut found);
        found
    }

    /// Index of the first that matches.
    pub(super) fn first(&self, text: &str) -> Option<usize> {
        self.matches(text).iter().next().map(|id| id.as_usize())
    }
}
