//! Kernel classes from an ordered table of rules (`data/kernel_rules.toml`, or the user's `--rules`).

use crate::category::Class;
use crate::strings::{StrId, TraceTexts};
use crate::timeline::WorkClass;
use hashbrown::HashMap;
use regex::{Regex, RegexBuilder};
use serde::Deserialize;
use std::sync::OnceLock;

/// The built-in rules.
const BUILTIN: &str = include_str!("../../data/kernel_rules.toml");

/// Reason of activities that no rule matched.
pub(crate) const DEFAULT_REASON: &str = "default";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClassRulesFile {
    #[serde(default)]
    rule: Vec<RawClassRule>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawClassRule {
    reason: String,
    class: String,
    category: Option<Vec<String>>,
    name: Option<String>,
    any: Option<Vec<String>>,
    not_name: Option<String>,
    arg: Option<String>,
    op: Option<String>,
}

/// A regular expression that is compiled when first needed, because compiling takes longer than matching all
/// names of a trace.
#[derive(Debug)]
struct LazyRegex {
    text: String,
    /// In lower case; every text that the pattern matches contains one of them. If empty, the pattern is
    /// always evaluated.
    any: Vec<String>,
    regex: OnceLock<Regex>,
}

impl LazyRegex {
    fn new(text: String, any: Vec<String>) -> Self {
        Self { text, any, regex: OnceLock::new() }
    }

    fn regex(&self) -> Result<&Regex, regex::Error> {
        if let Some(made) = self.regex.get() {
            return Ok(made);
        }
        let made = RegexBuilder::new(&self.text).case_insensitive(true).build()?;
        Ok(self.regex.get_or_init(|| made))
    }

    /// Whether the pattern matches a text, which is also given in lower case.
    fn is_in(&self, text: &str, lower: &str) -> bool {
        (self.any.is_empty() || self.any.iter().any(|word| lower.contains(word)))
            && self.regex().is_ok_and(|r| r.is_match(text))
    }
}

/// One rule; it matches if all of its conditions do.
#[derive(Debug)]
struct ClassRule {
    reason: String,
    work: WorkClass,
    category: Option<Vec<Class>>,
    name: Option<LazyRegex>,
    not_name: Option<LazyRegex>,
    needs_collective_arg: bool,
    op: Option<LazyRegex>,
}

#[derive(Debug)]
pub struct ClassRules {
    rules: Vec<ClassRule>,
}

impl ClassRules {
    /// Parses a table in TOML.
    ///
    /// # Errors
    /// A description of the problem, in one line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let rules = Self::read(text)?;
        for rule in &rules.rules {
            let patterns = [&rule.name, &rule.not_name, &rule.op];
            let made = patterns.into_iter().flatten().try_for_each(|p| p.regex().map(|_| ()));
            made.map_err(|e| format!("rule `{}`: {e}", rule.reason))?;
        }
        Ok(rules)
    }

    /// The built-in rules. Their patterns are compiled when needed; a test compiles all of them.
    pub fn builtin() -> Self {
        Self::read(BUILTIN).expect("a test reads the built-in rules")
    }

    fn read(text: &str) -> Result<Self, String> {
        let file: ClassRulesFile = toml::from_str(text).map_err(|e| e.to_string().replace('\n', " "))?;
        Ok(Self { rules: file.rule.into_iter().map(rule).collect::<Result<_, _>>()? })
    }

    /// These rules followed by `other`, which decide where these do not match.
    pub fn before(mut self, other: ClassRules) -> Self {
        self.rules.extend(other.rules);
        self
    }

    /// Reason of rule `index`; the index after the last stands for the default.
    pub fn reason(&self, index: u16) -> &str {
        self.rules.get(usize::from(index)).map_or(DEFAULT_REASON, |r| &r.reason)
    }

    /// Class of rule `index`; compute for the default.
    pub fn work(&self, index: u16) -> WorkClass {
        self.rules.get(usize::from(index)).map_or(WorkClass::Compute, |r| r.work)
    }

    /// A matcher for one trace, which remembers what it has found for a name.
    pub(crate) fn matcher<'a>(&'a self, strings: &'a TraceTexts) -> Matcher<'a> {
        Matcher { rules: self, strings, names: HashMap::new(), ops: HashMap::new() }
    }
}

fn rule(raw: RawClassRule) -> Result<ClassRule, String> {
    let RawClassRule { reason, class, category, name, any, not_name, arg, op } = raw;
    let any: Vec<String> = any.unwrap_or_default().iter().map(|w| w.to_ascii_lowercase()).collect();
    let pattern = |text: Option<String>| text.map(|t| LazyRegex::new(t, Vec::new()));
    let work = WorkClass::ALL.into_iter().find(|w| w.name() == class);
    let categories = category.map(|list| {
        list.iter()
            .map(|c| match c.as_str() {
                "kernel" => Ok(Class::Kernel),
                "memcpy" => Ok(Class::Memcpy),
                "memset" => Ok(Class::Memset),
                other => Err(format!("rule `{reason}`: expected kernel, memcpy or memset, found `{other}`")),
            })
            .collect::<Result<Vec<_>, _>>()
    });
    if arg.as_deref().is_some_and(|a| a != "Collective name") {
        return Err(format!("rule `{reason}`: the only argument a rule can ask for is `Collective name`"));
    }
    Ok(ClassRule {
        work: work.ok_or_else(|| {
            format!("rule `{reason}`: expected compute, communication or memory, found `{class}`")
        })?,
        category: categories.transpose()?,
        name: name.map(|t| LazyRegex::new(t, any)),
        not_name: pattern(not_name),
        needs_collective_arg: arg.is_some(),
        op: pattern(op),
        reason,
    })
}

/// Finds the rule of each activity; results that depend only on a name are cached.
pub(crate) struct Matcher<'a> {
    rules: &'a ClassRules,
    strings: &'a TraceTexts,
    names: HashMap<StrId, Vec<bool>>,
    ops: HashMap<StrId, Vec<bool>>,
}

impl Matcher<'_> {
    /// Index of the first rule that matches, or the index after the last.
    pub fn find(&mut self, class: Class, name: StrId, has_collective_arg: bool, op: Option<StrId>) -> u16 {
        let (rules, strings) = (self.rules, self.strings);
        let by_name = self.names.entry(name).or_insert_with(|| {
            let text = strings.get(name);
            let lower = text.to_ascii_lowercase();
            let fits = |r: &ClassRule| {
                r.name.as_ref().is_none_or(|x| x.is_in(text, &lower))
                    && !r.not_name.as_ref().is_some_and(|x| x.is_in(text, &lower))
            };
            rules.rules.iter().map(fits).collect()
        });
        let by_op = op.map(|op| {
            &*self.ops.entry(op).or_insert_with(|| {
                let text = strings.get(op);
                rules.rules.iter().map(|r| r.op.as_ref().is_none_or(|x| x.is_in(text, ""))).collect()
            })
        });
        let found = rules.rules.iter().enumerate().position(|(i, r)| {
            by_name[i]
                && r.category.as_ref().is_none_or(|c| c.contains(&class))
                && (!r.needs_collective_arg || has_collective_arg)
                && (r.op.is_none() || by_op.is_some_and(|ops| ops[i]))
        });
        found.unwrap_or(rules.rules.len()) as u16
    }
}

/// Kind of collective in the text of a kernel, operator or argument: `all_reduce`, `send_recv`, ...
pub fn collective_kind(text: &str) -> Option<&'static str> {
    let flat: String =
        text.chars().filter(|c| *c != '_' && *c != '-').map(|c| c.to_ascii_lowercase()).collect();
    const KINDS: [(&str, &str); 18] = [
        ("allreduce", "all_reduce"),
        ("crossdevicereduce", "all_reduce"),
        ("allgather", "all_gather"),
        ("reducescatter", "reduce_scatter"),
        ("alltoall", "all_to_all"),
        ("sendrecv", "send_recv"),
        ("broadcast", "broadcast"),
        ("barrier", "barrier"),
        // Before an exchange of tokens its sizes are agreed on; what a rank counts for that is its own work.
        ("notify", "barrier"),
        ("combinesync", "barrier"),
        ("dispatchlayout", "unknown"),
        ("scatter", "scatter"),
        ("gather", "gather"),
        ("reduce", "reduce"),
        ("send", "send"),
        ("recv", "recv"),
        ("dispatch", "all_to_all"),
        ("combine", "all_to_all"),
    ];
    KINDS.iter().find(|(key, _)| flat.contains(key)).map(|(_, kind)| *kind)
}

/// Direction of a copy from its name (`Memcpy HtoD (Pageable -> Device)`), `set` for fills.
pub fn copy_kind(class: Class, name: &str) -> &'static str {
    const KINDS: [&str; 5] = ["HtoD", "DtoH", "DtoD", "PtoP", "HtoH"];
    if class == Class::Memset || name.starts_with("Memset") || name.contains("fillBuffer") {
        return "set";
    }
    KINDS.into_iter().find(|k| name.contains(k)).unwrap_or("unknown")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strings::Interner;
    use proptest::strategy::{Strategy, ValueTree};
    use proptest::string::string_regex;
    use proptest::test_runner::TestRunner;

    fn class(name: &str, cat: Class, arg: bool, op: Option<&str>) -> (WorkClass, String) {
        let rules = ClassRules::parse(BUILTIN).unwrap();
        let mut strings = Interner::default();
        let (name, op) = (strings.intern(name), op.map(|o| strings.intern(o)));
        let rule = rules.matcher(&strings.finish()).find(cat, name, arg, op);
        (rules.work(rule), rules.reason(rule).to_string())
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let k = Class::Kernel;
        let is = |w: WorkClass, r: &str| (w, r.to_string());
        assert_eq!(
            class("Memcpy HtoD (Pinned -> Device)", Class::Memcpy, false, None),
            is(WorkClass::Memory, "copy_or_set")
        );
        assert_eq!(
            class("ncclDevKernel_AllReduce_Sum_f32_RING_LL", k, false, None),
            is(WorkClass::Communication, "nccl")
        );
        assert_eq!(class("anything", k, true, None), is(WorkClass::Communication, "collective_args"));
        assert_eq!(class("multimem_one_shot_all_reduce_kernel", k, false, None).0, WorkClass::Communication);
        assert_eq!(
            class("mine", k, false, Some("record_param_comms")),
            is(WorkClass::Communication, "communication_operator")
        );
        assert_eq!(
            class("void at::native::copy", k, false, Some("record_param_comms")),
            is(WorkClass::Compute, "default")
        );
        assert_eq!(class("sgemm", k, false, Some("aten::mm")), is(WorkClass::Compute, "default"));
        let copy = |op: &str| class("Memcpy PtoP (Device -> Device)", Class::Memcpy, false, Some(op)).0;
        assert_eq!(
            ["c10d::_allgather_base_", "nccl:all_to_all", "symm_mem::fused_all_gather_matmul", "aten::copy_"]
                .map(copy),
            [WorkClass::Communication, WorkClass::Communication, WorkClass::Communication, WorkClass::Memory]
        );
        let product = class("void cutlass::gemm::kernel", k, false, Some("symm_mem::_async_input_mm")).0;
        assert_eq!(product, WorkClass::Compute);
    }

    #[test]
    fn whatever_a_shipped_pattern_matches_has_one_of_its_words() {
        let plain = |text: &str| {
            ["(?-u)", "^", "$", "\\b"].iter().fold(text.to_string(), |t, mark| t.replace(mark, ""))
        };
        let rules = ClassRules::parse(BUILTIN).unwrap();
        let mut runner = TestRunner::deterministic();
        for name in rules.rules.iter().filter_map(|r| r.name.as_ref()) {
            assert!(!name.any.is_empty(), "{}", name.text);
            let matches = string_regex(&plain(&name.text)).unwrap();
            for _ in 0..500 {
                let text = matches.new_tree(&mut runner).unwrap().current().to_ascii_lowercase();
                assert!(name.any.iter().any(|word| text.contains(word)), "{}: {text}", name.text);
            }
        }
    }

    #[test]
    fn a_bad_rule_is_told_in_one_line() {
        let text = "[[rule]]\nreason = \"x\"\nclass = \"fast\"\n";
        assert_eq!(
            ClassRules::parse(text).unwrap_err(),
            "rule `x`: expected compute, communication or memory, found `fast`"
        );
        assert!(
            ClassRules::parse("[[rule]]\nreason = \"x\"\nclass = \"compute\"\nname = '('\n")
                .unwrap_err()
                .contains("rule `x`")
        );
    }

    #[test]
    fn kinds_are_read_from_names_of_all_eras() {
        assert_eq!(collective_kind("ncclKernel_AllReduce_RING_LL_Sum_half(...)"), Some("all_reduce"));
        assert_eq!(collective_kind("_allgather_base"), Some("all_gather"));
        assert_eq!(collective_kind("ncclDevKernel_ReduceScatter_Sum_bf16"), Some("reduce_scatter"));
        assert_eq!(collective_kind("ncclDevKernel_Generic_4"), None);
        assert_eq!(collective_kind("deep_ep::internode::notify_dispatch<false, 8>"), Some("barrier"));
        assert_eq!(collective_kind("deep_ep::intranode::cached_notify_combine<8>"), Some("barrier"));
        assert_eq!(collective_kind("deep_ep::intranode::combine<bf16, 8>"), Some("all_to_all"));
        assert_eq!(collective_kind("mori::moe::EpCombineSync<float>"), Some("barrier"));
        assert_eq!(copy_kind(Class::Memcpy, "Memcpy DtoH (Device -> Pageable)"), "DtoH");
    }
}
