//! One rule, and how it looks at a kernel's name.

use crate::category::Class;
use crate::collective::KernelRole;
use crate::kernel_name::cpp::last;
use crate::kernel_name::{demangled, function_path};
use crate::timeline::WorkClass;
use aho_corasick::{AhoCorasick, AhoCorasickKind};
use hashbrown::HashMap;
use regex_automata::meta::{Config, Regex};
use regex_automata::util::syntax;
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

/// Reason of activities that no rule matched.
pub(super) const DEFAULT_REASON: &str = "default";
/// Reason of kernels of a library that exchange and multiply.
pub(super) const FUSED: &str = "fused_kernel";

/// A regular expression that is compiled when first needed, because compiling takes longer than matching all
/// names of a trace.
#[derive(Debug)]
pub(super) struct LazyRegex {
    pub(super) text: String,
    regex: OnceLock<Regex>,
}

impl LazyRegex {
    pub(super) fn new(text: String) -> Self {
        Self { text, regex: OnceLock::new() }
    }

    /// # Errors
    /// A description of what is no expression.
    pub(super) fn regex(&self) -> Result<&Regex, String> {
        if let Some(made) = self.regex.get() {
            return Ok(made);
        }
        // `regex::Regex` is the same, but looks for literals in the expression: that takes half of the
        // instructions of making it, and names are short.
        let config = Config::new().auto_prefilter(false);
        let syntax = syntax::Config::new().case_insensitive(true);
        let made = Regex::builder().configure(config).syntax(syntax).build(&self.text);
        let made = made.map_err(|e| e.syntax_error().map_or_else(|| e.to_string(), ToString::to_string))?;
        Ok(self.regex.get_or_init(|| made))
    }

    pub(super) fn is_in(&self, text: &str) -> bool {
        self.regex().is_ok_and(|r| r.is_match(text))
    }
}

/// One rule; it matches if all of its conditions do.
#[derive(Debug)]
pub(super) struct ClassRule {
    pub(super) reason: String,
    pub(super) work: WorkClass,
    pub(super) role: Option<KernelRole>,
    /// In lower case; every name that the rule matches contains one of them. Names are all tried if empty.
    pub(super) any: Arc<[String]>,
    pub(super) category: Option<Vec<Class>>,
    pub(super) name: Option<LazyRegex>,
    pub(super) not_name: Option<LazyRegex>,
    /// On the path of a C++ name, without types, and on its last part.
    pub(super) path: Option<Arc<LazyRegex>>,
    pub(super) function: Option<LazyRegex>,
    pub(super) needs_collective_arg: bool,
    pub(super) op: Option<LazyRegex>,
}

/// A kernel's name in the spellings that rules look at.
pub(super) struct Spellings<'a> {
    raw: &'a str,
    /// Without mangling, and without the suffix of ROCm's kernel descriptors.
    plain: Cow<'a, str>,
    /// The path of the function without types and parameters.
    path: String,
}

impl<'a> Spellings<'a> {
    pub(super) fn new(raw: &'a str) -> Self {
        let bare = raw.strip_suffix(".kd").or_else(|| raw.strip_suffix(" [clone .kd]")).unwrap_or(raw);
        let plain = demangled(bare);
        let path = function_path(&plain);
        Self { raw, plain, path }
    }

    fn any(&self, is: impl Fn(&str) -> bool) -> bool {
        is(self.raw) || (self.raw != self.plain && is(&self.plain))
    }
}

impl ClassRule {
    /// Whether a name is one that the rule matches, given that it contains one of the rule's words.
    pub(super) fn fits(&self, name: &Spellings) -> bool {
        self.name.as_ref().is_none_or(|x| name.any(|text| x.is_in(text)))
            && !self.not_name.as_ref().is_some_and(|x| name.any(|text| x.is_in(text)))
            && self.path.as_ref().is_none_or(|x| x.is_in(&name.path))
            && self.function.as_ref().is_none_or(|x| x.is_in(last(&name.path)))
    }

    /// Whether a name that it fits is all that it asks for.
    pub(super) fn is_by_name(&self) -> bool {
        self.category.is_none() && self.op.is_none() && !self.needs_collective_arg
    }

    /// Whether it looks at no name.
    pub(super) fn is_for_all(&self) -> bool {
        self.name.is_none() && self.not_name.is_none() && self.path.is_none() && self.function.is_none()
    }

    pub(super) fn patterns(&self) -> impl Iterator<Item = &LazyRegex> {
        let own = [&self.name, &self.not_name, &self.op, &self.function];
        own.into_iter().flatten().chain(self.path.as_deref())
    }
}

/// The words of all rules, which tell at once the rules that a name may match.
#[derive(Debug)]
pub(super) struct RuleWords {
    /// `None` if no rule has words.
    words: Option<AhoCorasick>,
    /// Of each word the rules.
    of: Vec<Vec<u16>>,
    /// Rules without words.
    always: Vec<u16>,
}

impl RuleWords {
    pub(super) fn new(rules: &[ClassRule]) -> Self {
        // The rules of a library have the same words, each of which is looked for once.
        let (mut words, mut always) = (HashMap::<&str, Vec<u16>>::new(), Vec::new());
        for (i, rule) in (0..).zip(rules) {
            always.extend(rule.any.is_empty().then_some(i));
            for word in rule.any.iter() {
                words.entry(word).or_default().push(i);
            }
        }
        let (words, of): (Vec<&str>, _) = words.into_iter().unzip();
        // It is made with fewer instructions than its contiguous form, which searches faster.
        let kind = Some(AhoCorasickKind::NoncontiguousNFA);
        let words = AhoCorasick::builder().ascii_case_insensitive(true).kind(kind).build(words);
        Self { words: words.ok(), of, always }
    }

    /// The rules that a name may match, in order.
    pub(super) fn of(&self, name: &str) -> Vec<u16> {
        let found = self.words.iter().flat_map(|words| words.find_overlapping_iter(name));
        let with_words = found.filter_map(|word| self.of.get(word.pattern().as_usize())).flatten();
        let mut all: Vec<u16> = with_words.chain(&self.always).copied().collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}
