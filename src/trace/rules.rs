//! Kernel classes from an ordered table of rules (`data/kernel_rules.toml`, or the user's `--rules`).

use crate::category::Class;
use crate::kernel::cpp::{base, head, last, normalized};
use crate::kernel::demangled;
use crate::kernel::patterns::NamePatterns;
use crate::kernel::role::KernelRole;
use crate::strings::{StrId, TraceTexts};
use crate::timeline::WorkClass;
use hashbrown::HashMap;
use regex::{Regex, RegexBuilder};
use serde::Deserialize;
use std::borrow::Cow;
use std::cell::LazyCell;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// The built-in rules.
const BUILTIN: &str = include_str!("../../data/kernel_rules.toml");

/// Reason of activities that no rule matched.
pub(crate) const DEFAULT_REASON: &str = "default";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClassRulesFile {
    #[serde(default)]
    rule: Vec<RawClassRule>,
    #[serde(default)]
    library: Vec<RawLibrary>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawClassRule {
    reason: String,
    class: String,
    role: Option<String>,
    category: Option<Vec<String>>,
    name: Option<String>,
    any: Option<Vec<String>>,
    not_name: Option<String>,
    arg: Option<String>,
    op: Option<String>,
}

/// The kernels of one library: of each role an expression on the name of the function.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLibrary {
    library: String,
    reason: Option<String>,
    any: Vec<String>,
    path: Option<String>,
    #[serde(default)]
    whole: bool,
    roles: BTreeMap<String, String>,
    #[serde(default)]
    #[allow(dead_code, reason = "for readers of the file")]
    source: String,
    #[serde(default)]
    #[allow(dead_code, reason = "checked by a test")]
    tests: BTreeMap<String, Vec<String>>,
}

/// A regular expression that is compiled when first needed, because compiling takes longer than matching all
/// names of a trace.
#[derive(Debug)]
struct LazyRegex {
    text: String,
    regex: OnceLock<Regex>,
}

impl LazyRegex {
    fn new(text: String) -> Self {
        Self { text, regex: OnceLock::new() }
    }

    fn regex(&self) -> Result<&Regex, regex::Error> {
        if let Some(made) = self.regex.get() {
            return Ok(made);
        }
        let made = RegexBuilder::new(&self.text).case_insensitive(true).build()?;
        Ok(self.regex.get_or_init(|| made))
    }

    fn is_in(&self, text: &str) -> bool {
        self.regex().is_ok_and(|r| r.is_match(text))
    }
}

/// One rule; it matches if all of its conditions do.
#[derive(Debug)]
struct ClassRule {
    reason: String,
    work: WorkClass,
    role: Option<KernelRole>,
    /// In lower case; every name that the rule matches contains one of them. Names are all tried if empty.
    any: Vec<String>,
    category: Option<Vec<Class>>,
    name: Option<LazyRegex>,
    not_name: Option<LazyRegex>,
    /// On the path of a C++ name, without types, and on its last part.
    path: Option<Arc<LazyRegex>>,
    function: Option<LazyRegex>,
    needs_collective_arg: bool,
    op: Option<LazyRegex>,
}

/// A kernel's name in the spellings that rules look at.
struct Spellings<'a> {
    raw: &'a str,
    /// Without mangling, and without the suffix of ROCm's kernel descriptors.
    plain: Cow<'a, str>,
    /// The path of the function without types and parameters.
    path: String,
}

impl<'a> Spellings<'a> {
    fn new(raw: &'a str) -> Self {
        let bare = raw.strip_suffix(".kd").or_else(|| raw.strip_suffix(" [clone .kd]")).unwrap_or(raw);
        let plain = demangled(bare);
        let path = base(head(&normalized(&plain)));
        Self { raw, plain, path }
    }

    fn any(&self, is: impl Fn(&str) -> bool) -> bool {
        is(self.raw) || (self.raw != self.plain && is(&self.plain))
    }
}

impl ClassRule {
    /// Whether a name is one that the rule matches, given that it contains one of the rule's words.
    fn fits(&self, name: &Spellings) -> bool {
        self.name.as_ref().is_none_or(|x| name.any(|text| x.is_in(text)))
            && !self.not_name.as_ref().is_some_and(|x| name.any(|text| x.is_in(text)))
            && self.path.as_ref().is_none_or(|x| x.is_in(&name.path))
            && self.function.as_ref().is_none_or(|x| x.is_in(last(&name.path)))
    }

    /// Whether it looks at no name.
    fn is_for_all(&self) -> bool {
        self.name.is_none() && self.not_name.is_none() && self.path.is_none() && self.function.is_none()
    }

    fn patterns(&self) -> impl Iterator<Item = &LazyRegex> {
        let own = [&self.name, &self.not_name, &self.op, &self.function];
        own.into_iter().flatten().chain(self.path.as_deref())
    }

    /// Whether it says of a kernel only its role: the class is that of kernels that no rule knows.
    fn is_default(&self) -> bool {
        self.reason == DEFAULT_REASON
    }
}

/// The words of all rules, which tell at once the rules that a name may match.
#[derive(Debug)]
struct RuleWords {
    /// `None` if no rule has words.
    words: Option<NamePatterns>,
    /// Of each word its rule.
    of: Vec<u16>,
    /// Rules without words.
    always: Vec<u16>,
}

impl RuleWords {
    fn new(rules: &[ClassRule]) -> Self {
        let (mut words, mut of, mut always) = (Vec::new(), Vec::new(), Vec::new());
        for (i, rule) in (0..).zip(rules) {
            always.extend(rule.any.is_empty().then_some(i));
            words.extend(rule.any.iter().map(|word| regex::escape(word)));
            of.resize(words.len(), i);
        }
        // Escaped texts are always expressions.
        Self { words: NamePatterns::in_any_case(words.iter()).ok(), of, always }
    }

    /// The rules that a name may match, in order.
    fn of(&self, name: &str) -> Vec<u16> {
        let found = self.words.as_ref().map(|words| words.matches(name));
        let with_words = found.iter().flat_map(|set| set.iter()).filter_map(|id| self.of.get(id.as_usize()));
        let mut all: Vec<u16> = with_words.chain(&self.always).copied().collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

#[derive(Debug)]
pub struct ClassRules {
    rules: Vec<ClassRule>,
    words: OnceLock<RuleWords>,
}

impl ClassRules {
    /// Parses a table in TOML.
    ///
    /// # Errors
    /// A description of the problem, in one line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let rules = Self::read(text)?;
        for rule in &rules.rules {
            let made = rule.patterns().try_for_each(|p| p.regex().map(|_| ()));
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
        let mut rules = file.rule.into_iter().map(rule).collect::<Result<Vec<_>, _>>()?;
        // Arguments of a collective are no proof for kernels that only multiply or copy under its operator;
        // for exchanges they are the better one.
        let proof = rules.iter().position(|r| r.needs_collective_arg).unwrap_or(rules.len());
        let mut of_libraries = Vec::new();
        for library in file.library {
            of_libraries.extend(library_rules(library)?);
        }
        let order = |r: &ClassRule| r.role.map_or(0, |role| 1 + u8::from(role.is_fused()));
        let (mut first, then): (Vec<_>, Vec<_>) =
            of_libraries.into_iter().partition(|r| r.role.is_none_or(|role| role.kind().is_none()));
        first.sort_by_key(order);
        let after = rules.split_off((proof + 1).min(rules.len()));
        let proof = rules.split_off(proof);
        let rules = [rules, first, proof, then, after].into_iter().flatten().collect();
        Ok(Self { rules, words: OnceLock::new() })
    }

    /// These rules followed by `other`, which decide where these do not match.
    pub fn before(mut self, other: ClassRules) -> Self {
        self.rules.extend(other.rules);
        Self { rules: self.rules, words: OnceLock::new() }
    }

    fn rule(&self, index: u16) -> Option<&ClassRule> {
        self.rules.get(usize::from(index))
    }

    /// Reason of rule `index`; the index after the last stands for the default.
    pub fn reason(&self, index: u16) -> &str {
        self.rule(index).map_or(DEFAULT_REASON, |r| &r.reason)
    }

    /// Class of rule `index`; compute for the default.
    pub fn work(&self, index: u16) -> WorkClass {
        self.rule(index).map_or(WorkClass::Compute, |r| r.work)
    }

    /// Role in an exchange that rule `index` gives.
    pub fn role(&self, index: u16) -> Option<KernelRole> {
        self.rule(index)?.role
    }

    /// Place of the reason of rule `index` among the reasons of all rules; that of the default is the last.
    pub fn place(&self, index: u16) -> u32 {
        let mut seen: Vec<&str> = Vec::new();
        for rule in self.rules.iter().filter(|r| !r.is_default()) {
            if !seen.contains(&rule.reason.as_str()) {
                seen.push(&rule.reason);
            }
        }
        seen.iter().position(|r| *r == self.reason(index)).unwrap_or(seen.len()) as u32
    }

    /// A matcher for one trace, which remembers what it has found for a name.
    pub(crate) fn matcher<'a>(&'a self, strings: &'a TraceTexts) -> Matcher<'a> {
        let words = self.words.get_or_init(|| RuleWords::new(&self.rules));
        Matcher { rules: self, words, strings, names: HashMap::new(), ops: HashMap::new() }
    }
}

fn lower_words(words: Vec<String>) -> Vec<String> {
    words.iter().map(|w| w.to_ascii_lowercase()).collect()
}

fn rule(raw: RawClassRule) -> Result<ClassRule, String> {
    let RawClassRule { reason, class, role, category, name, any, not_name, arg, op } = raw;
    let pattern = |text: Option<String>| text.map(LazyRegex::new);
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
    let role = role.map(|name| role_named(&name, &reason)).transpose()?;
    Ok(ClassRule {
        work: work.ok_or_else(|| {
            format!("rule `{reason}`: expected compute, communication or memory, found `{class}`")
        })?,
        role,
        any: lower_words(any.unwrap_or_default()),
        category: categories.transpose()?,
        name: pattern(name),
        not_name: pattern(not_name),
        path: None,
        function: None,
        needs_collective_arg: arg.is_some(),
        op: pattern(op),
        reason,
    })
}

fn role_named(name: &str, of: &str) -> Result<KernelRole, String> {
    KernelRole::named(name).ok_or_else(|| format!("rule `{of}`: `{name}` is no role"))
}

/// The rules of a library, one for each role. `none` is a kernel that has no part in an exchange.
fn library_rules(raw: RawLibrary) -> Result<Vec<ClassRule>, String> {
    let RawLibrary { library, reason, any, path, whole, roles, .. } = raw;
    let any = lower_words(any);
    let pattern = |text: &str| LazyRegex::new(format!("(?-u){text}"));
    let path = path.as_deref().map(|text| Arc::new(pattern(text)));
    let role = |name: &String| (name != "none").then(|| role_named(name, &library)).transpose();
    let mut roles =
        roles.iter().map(|(name, text)| Ok((role(name)?, text))).collect::<Result<Vec<_>, String>>()?;
    roles.sort();
    roles
        .into_iter()
        .map(|(role, text)| {
            let is_exchange = role.is_some_and(|r| r.kind().is_some());
            let work = if is_exchange { WorkClass::Communication } else { WorkClass::Compute };
            let known = reason.clone().filter(|_| is_exchange);
            if is_exchange && known.is_none() {
                return Err(format!("library `{library}`: exchanges need a `reason`"));
            }
            Ok(ClassRule {
                reason: known.unwrap_or_else(|| DEFAULT_REASON.to_string()),
                work,
                role,
                any: any.clone(),
                category: None,
                name: whole.then(|| pattern(text)),
                not_name: None,
                path: path.clone(),
                function: (!whole).then(|| pattern(&format!("^(?:{text})$"))),
                needs_collective_arg: false,
                op: None,
            })
        })
        .collect()
}

/// Finds the rule of each activity; results that depend only on a name are cached.
pub(crate) struct Matcher<'a> {
    rules: &'a ClassRules,
    words: &'a RuleWords,
    strings: &'a TraceTexts,
    /// Rules that a name matches, in order.
    names: HashMap<StrId, Vec<u16>>,
    /// Whether an operator is one that a rule asks for, of all rules.
    ops: HashMap<StrId, Vec<bool>>,
}

impl Matcher<'_> {
    /// Index of the first rule that matches, or the index after the last.
    pub fn find(&mut self, class: Class, name: StrId, has_collective_arg: bool, op: Option<StrId>) -> u16 {
        let (rules, strings, words) = (self.rules, self.strings, self.words);
        let by_name = self.names.entry(name).or_insert_with(|| {
            let text = strings.get(name);
            let mut found = words.of(text);
            let spellings = LazyCell::new(|| Spellings::new(text));
            found.retain(|i| rules.rule(*i).is_some_and(|r| r.is_for_all() || r.fits(&spellings)));
            found
        });
        let by_op = op.map(|op| {
            &*self.ops.entry(op).or_insert_with(|| {
                let text = strings.get(op);
                rules.rules.iter().map(|r| r.op.as_ref().is_none_or(|x| x.is_in(text))).collect()
            })
        });
        let found = by_name.iter().copied().find(|i| {
            rules.rule(*i).is_some_and(|r| {
                r.category.as_ref().is_none_or(|c| c.contains(&class))
                    && (!r.needs_collective_arg || has_collective_arg)
                    && (r.op.is_none() || by_op.is_some_and(|ops| ops[usize::from(*i)]))
            })
        });
        found.unwrap_or(rules.rules.len() as u16)
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
    fn every_library_decides_its_tests() {
        let file: ClassRulesFile = toml::from_str(BUILTIN).unwrap();
        let rules = ClassRules::parse(BUILTIN).unwrap();
        for library in &file.library {
            assert!(!library.source.is_empty() && !library.tests.is_empty(), "{}", library.library);
            for (role, names) in &library.tests {
                assert!(library.roles.contains_key(role), "{}: {role}", library.library);
                for name in names {
                    let mut strings = Interner::default();
                    let id = strings.intern(name);
                    let found = rules.matcher(&strings.finish()).find(Class::Kernel, id, false, None);
                    assert_eq!(rules.role(found).map_or("none", KernelRole::name), role, "{name}");
                }
            }
        }
    }

    #[test]
    fn an_argument_decides_behind_local_steps_and_before_exchanges() {
        let fused = class("kernel_consumer_gemm_persistent", Class::Kernel, true, Some("symm_mem::x"));
        assert_eq!(fused, (WorkClass::Compute, "default".to_string()));
        let exchange = class("kuserbuffers_pushsend(int*)", Class::Kernel, true, None);
        assert_eq!(exchange, (WorkClass::Communication, "collective_args".to_string()));
        let made = class("triton_poi_fused_all_reduce_1", Class::Kernel, true, Some("record_param_comms"));
        assert_eq!(made, (WorkClass::Compute, "default".to_string()));
        let own = "[[rule]]\nreason = \"mine\"\nclass = \"communication\"\nrole = \"dispatch\"\nname = '^acme::ship'\n";
        let rules = ClassRules::parse(own).unwrap().before(ClassRules::builtin());
        let mut strings = Interner::default();
        let id = strings.intern("_ZN4acme4shipEv.kd");
        let found = rules.matcher(&strings.finish()).find(Class::Kernel, id, false, None);
        assert_eq!(
            (rules.reason(found), rules.role(found), rules.place(found)),
            ("mine", Some(KernelRole::Dispatch), 0)
        );
    }

    #[test]
    fn whatever_a_shipped_pattern_matches_has_one_of_its_words() {
        let plain = |text: &str| {
            ["(?-u)", "^", "$", "\\b"].iter().fold(text.to_string(), |t, mark| t.replace(mark, ""))
        };
        let rules = ClassRules::parse(BUILTIN).unwrap();
        let mut runner = TestRunner::deterministic();
        for (rule, name) in rules.rules.iter().filter_map(|r| Some((r, r.name.as_ref()?))) {
            assert!(!rule.any.is_empty(), "{}", name.text);
            let matches = string_regex(&plain(&name.text)).unwrap();
            for _ in 0..500 {
                let text = matches.new_tree(&mut runner).unwrap().current().to_ascii_lowercase();
                assert!(rule.any.iter().any(|word| text.contains(word)), "{}: {text}", name.text);
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
