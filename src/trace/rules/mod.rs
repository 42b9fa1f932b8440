//! Kernel classes from an ordered table of rules (`data/kernel_rules.toml`, or the user's `--rules`).

mod file;
mod kinds;
mod rule;

pub use kinds::{collective_kind, copy_kind};

use crate::category::Class;
use crate::collective::KernelRole;
use crate::strings::{StrId, TraceTexts};
use crate::timeline::WorkClass;
use file::{ClassRulesFile, library_rules, rule};
use hashbrown::HashMap;
use rule::{ClassRule, DEFAULT_REASON, FUSED, RuleWords, Spellings};
use std::cell::LazyCell;
use std::sync::OnceLock;

/// The built-in rules.
const BUILTIN: &str = include_str!("../../../data/kernel_rules.toml");

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
        // More than half of the text is comments, which need not be parsed.
        let lines = BUILTIN.lines().filter(|line| !line.starts_with('#'));
        let text = lines.fold(String::with_capacity(BUILTIN.len()), |text, line| text + line + "\n");
        Self::read(&text).expect("a test reads the built-in rules")
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

    /// Place of the reason of rule `index` among the reasons of all rules, then that of the default, then
    /// that of fused kernels.
    pub fn place(&self, index: u16) -> u32 {
        let mut seen: Vec<&str> = Vec::new();
        for rule in &self.rules {
            if ![DEFAULT_REASON, FUSED].contains(&rule.reason.as_str()) && !seen.contains(&&*rule.reason) {
                seen.push(&rule.reason);
            }
        }
        seen.extend([DEFAULT_REASON, FUSED]);
        seen.iter().position(|r| *r == self.reason(index)).unwrap_or(seen.len()) as u32
    }

    /// A matcher for one trace, which remembers what it has found for a name.
    pub(crate) fn matcher<'a>(&'a self, strings: &'a TraceTexts) -> Matcher<'a> {
        let words = self.words.get_or_init(|| RuleWords::new(&self.rules));
        Matcher { rules: self, words, strings, names: HashMap::new(), ops: HashMap::new() }
    }
}

/// Finds the rule of each activity; results that depend only on a name are cached.
pub(crate) struct Matcher<'a> {
    rules: &'a ClassRules,
    words: &'a RuleWords,
    strings: &'a TraceTexts,
    /// Rules that a name matches, in order, to the first that needs nothing else.
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
            // Rules behind one that the name alone decides are not asked.
            let mut is_decided = false;
            found.retain(|i| {
                let rule = rules.rule(*i).filter(|r| !is_decided && (r.is_for_all() || r.fits(&spellings)));
                is_decided |= rule.is_some_and(ClassRule::is_by_name);
                rule.is_some()
            });
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strings::Interner;
    use proptest::strategy::{Strategy, ValueTree};
    use proptest::string::string_regex;
    use proptest::test_runner::TestRunner;
    use std::collections::BTreeMap;

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
        // The lines `# test: role = [names]` below the roles of a library are comments, so that a run need not read
        // them.
        let blocks: Vec<&str> = BUILTIN.split("[[library]]").skip(1).collect();
        assert_eq!(blocks.len(), file.library.len());
        for (library, block) in file.library.iter().zip(blocks) {
            let lines: Vec<&str> = block.lines().filter_map(|line| line.strip_prefix("# test: ")).collect();
            let tests: BTreeMap<String, Vec<String>> = toml::from_str(&lines.join("\n")).unwrap();
            assert!(!library.source.is_empty() && !tests.is_empty(), "{}", library.library);
            for (role, names) in &tests {
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
        assert_eq!(fused, (WorkClass::Fused, FUSED.to_string()));
        let exchange = class("kuserbuffers_pushsend(int*)", Class::Kernel, true, None);
        assert_eq!(exchange, (WorkClass::Communication, "collective_args".to_string()));
        let made = class("triton_poi_fused_all_reduce_1", Class::Kernel, true, Some("record_param_comms"));
        assert_eq!(made, (WorkClass::Compute, "default".to_string()));
        let own = "[[rule]]\nreason = \"mine\"\nclass = \"communication\"\nrole = \"dispatch\"\n\
                   name = '^acme::ship'\n";
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
            "rule `x`: expected compute, communication, memory or fused_communication, found `fast`"
        );
        let role = |class: &str, role: &str| {
            let text = format!("[[rule]]\nreason = \"x\"\nclass = \"{class}\"\nrole = \"{role}\"\n");
            ClassRules::parse(&text).map(|_| ())
        };
        for (class, name) in [
            ("compute", "dispatch"),
            ("communication", "prepare"),
            ("communication", "gemm+combine"),
            ("fused_communication", "dispatch"),
        ] {
            assert!(role(class, name).unwrap_err().contains(&format!("not {class}")), "{class} {name}");
        }
        assert!(role("communication", "dispach").unwrap_err().contains("send_recv"));
        assert_eq!(role("fused_communication", "gemm+combine"), Ok(()));
        assert!(
            ClassRules::parse("[[rule]]\nreason = \"x\"\nclass = \"compute\"\nname = '('\n")
                .unwrap_err()
                .contains("rule `x`")
        );
    }
}
