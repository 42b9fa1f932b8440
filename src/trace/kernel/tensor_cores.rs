//! Whether a kernel computes on matrix units (tensor cores, matrix cores), by its name.
//!
//! Three answers: a kernel that no rule knows may do either. The rules are data (`data/tensor_cores.toml`);
//! the first that matches decides.

use crate::kernel_name::patterns::NamePatterns;
use serde::Deserialize;
use std::sync::OnceLock;

const RULES: &str = include_str!("../../../data/tensor_cores.toml");

/// Whether matrix units compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TensorCores {
    Yes,
    No,
    Unknown,
}

impl TensorCores {
    /// As in the tables.
    pub fn name(self) -> &'static str {
        match self {
            TensorCores::Yes => "yes",
            TensorCores::No => "no",
            TensorCores::Unknown => "unknown",
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTensorRule {
    uses: Uses,
    name: String,
    #[serde(default)]
    ignore_case: bool,
    /// Least compute capability, major and minor, for which an NVIDIA kernel of this name uses them.
    since: Option<[u32; 2]>,
    #[serde(default)]
    #[allow(dead_code, reason = "for readers of the file")]
    source: String,
    #[serde(default)]
    #[allow(dead_code, reason = "checked by a test")]
    examples: Vec<String>,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Uses {
    Yes,
    No,
    Unknown,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TensorCoresFile {
    rule: Vec<RawTensorRule>,
}

struct TensorRule {
    uses: TensorCores,
    since: Option<[u32; 2]>,
}

/// The rules, and the patterns of their names.
type TensorRules = (NamePatterns, Vec<TensorRule>);

fn read() -> Result<TensorRules, String> {
    let file: TensorCoresFile = toml::from_str(RULES).map_err(|e| e.to_string())?;
    let rule = |r: &RawTensorRule| {
        let uses = match r.uses {
            Uses::Yes => TensorCores::Yes,
            Uses::No => TensorCores::No,
            Uses::Unknown => TensorCores::Unknown,
        };
        TensorRule { uses, since: r.since }
    };
    let name = |r: &RawTensorRule| format!("{}{}", if r.ignore_case { "(?i)" } else { "" }, r.name);
    let names: Vec<String> = file.rule.iter().map(name).collect();
    Ok((NamePatterns::new(&names)?, file.rule.iter().map(rule).collect()))
}

fn rules() -> Option<&'static TensorRules> {
    static MADE: OnceLock<Option<TensorRules>> = OnceLock::new();
    // The file is part of the program; a test reads it.
    MADE.get_or_init(|| read().ok()).as_ref()
}

/// Major and minor number of a compute capability such as `9.0`.
pub fn capability(text: &str) -> Option<[u32; 2]> {
    let (major, minor) = text.split_once('.').unwrap_or((text, "0"));
    Some([major.parse().ok()?, minor.parse().ok()?])
}

/// What the full name of a kernel says. `capability` is that of an NVIDIA device; `None` for others, and if
/// unknown.
pub fn by_name(name: &str, capability: Option<[u32; 2]>) -> TensorCores {
    // NVIDIA's first tensor cores came with 7.0.
    if capability.is_some_and(|c| c < [7, 0]) {
        return TensorCores::No;
    }
    let Some((names, rules)) = rules() else { return TensorCores::Unknown };
    let found = names.matches(name);
    let mut matching = found.iter().filter_map(|id| rules.get(id.as_usize()));
    let fits = |r: &&TensorRule| r.since.zip(capability).is_none_or(|(since, c)| c >= since);
    matching.find(fits).map_or(TensorCores::Unknown, |r| r.uses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_matches_its_examples_first() {
        let file: TensorCoresFile = toml::from_str(RULES).unwrap();
        let (names, _) = read().unwrap();
        for (i, raw) in file.rule.iter().enumerate() {
            assert!(!raw.examples.is_empty(), "rule `{}` has no example", raw.name);
            for example in &raw.examples {
                assert_eq!(names.first(example), Some(i), "`{example}` of rule `{}`", raw.name);
            }
        }
    }

    #[test]
    fn devices_without_tensor_cores_use_none() {
        assert_eq!(by_name("volta_h884gemm_128x64_nn", Some([6, 0])), TensorCores::No);
        assert_eq!(by_name("volta_h884gemm_128x64_nn", Some([7, 0])), TensorCores::Yes);
        assert_eq!(by_name("nvjet_tst_128x64_nn", None), TensorCores::Yes);
        assert_eq!(by_name("a_kernel_of_somebody", Some([9, 0])), TensorCores::Unknown);
    }
}
