//! The role of the process that wrote a file, in a job of several programs: actor, critic, rollout engine ...
//! It is told by `--role`, by the name of the file, or by that of its folder.
//!
//! ```text
//!   actor_train_rank0-of-4_tp0-pp0-dp0-cp0_pid7_17.json.gz      verl: the role is the first word
//!   rollout_1_rank0.json                                        role and number of the program
//!   rollout/engine_1/rank0.json                                 the nearest folder with the name of a role
//! ```
//!
//! Only known names count, because any other folder may be that of a run: two runs are no two roles.

use crate::error::SetError;
use crate::input::{Input, ToldRole};
use glob::Pattern;
use regex::Regex;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

/// A value of `--role`: files of this pattern are of this role.
#[derive(Debug, Clone)]
pub struct RolePattern {
    name: String,
    pattern: Pattern,
    text: String,
}

impl RolePattern {
    /// Reads `NAME=GLOB`.
    ///
    /// # Errors
    /// When there is no name, or no pattern.
    pub fn parse(text: &str) -> Result<Self, String> {
        let expected = || format!("expected NAME=GLOB, e.g. rollout=engines/*, found `{text}`");
        let (name, pattern) = text.split_once('=').ok_or_else(expected)?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if name.is_empty() || pattern.is_empty() || !name.chars().all(is_name) {
            return Err(expected());
        }
        let read = Pattern::new(pattern.trim_end_matches('/')).map_err(|e| e.to_string())?;
        Ok(Self { name: name.to_string(), pattern: read, text: text.to_string() })
    }

    /// Whether the pattern fits a path: the whole, its end, or one of its folders.
    fn fits(&self, path: &str) -> bool {
        let text = path.replace('\\', "/");
        let starts = std::iter::once(0).chain(text.match_indices('/').map(|(at, _)| at + 1));
        let ends = || text.match_indices('/').map(|(at, _)| at).chain([text.len()]);
        starts.into_iter().any(|from| {
            ends()
                .filter(|to| *to > from)
                .any(|to| text.get(from..to).is_some_and(|t| self.pattern.matches(t)))
        })
    }
}

/// Sets the roles of files by the patterns; the first that fits decides. Several patterns of one name are
/// several programs of this role.
///
/// # Errors
/// When a pattern fits no file, or patterns are given and a file has no role.
pub fn set_roles(inputs: &mut [Input], patterns: &[RolePattern]) -> Result<(), SetError> {
    let refuse = |value: &str, reason: String| {
        Err(SetError::Argument { option: "--role", value: value.to_string(), reason })
    };
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    patterns.iter().for_each(|p| *counts.entry(&p.name).or_default() += 1);
    let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
    for pattern in patterns {
        let number = seen.entry(&pattern.name).or_default();
        let replica = counts.get(pattern.name.as_str()).is_some_and(|n| *n > 1).then_some(*number);
        *number += 1;
        let mut fits_any = false;
        for input in inputs.iter_mut().filter(|i| pattern.fits(&i.shown)) {
            fits_any = true;
            input.role.get_or_insert_with(|| ToldRole { name: pattern.name.clone(), replica });
        }
        if !fits_any {
            return refuse(&pattern.text, "it fits none of the files".to_string());
        }
    }
    let without = inputs.iter().find(|input| role_of(input).is_none());
    match (patterns.first(), without) {
        (Some(first), Some(input)) => {
            refuse(&first.text, format!("{} is of no role; give one for each file", input.shown))
        }
        _ => Ok(()),
    }
}

/// The role of a file's process, if something tells it. A part of a merged file has none.
pub fn role_of(input: &Input) -> Option<ToldRole> {
    if input.process.is_some() {
        return None;
    }
    input.role.clone().or_else(|| role_in_path(Path::new(&input.shown)))
}

/// Names of roles, in lower case.
const ROLES: [&str; 27] = [
    "actor",
    "critic",
    "ref",
    "reference",
    "ref_policy",
    "rollout",
    "rollouts",
    "generator",
    "generation",
    "sampler",
    "engine",
    "engines",
    "vllm",
    "sglang",
    "inference",
    "reward",
    "reward_model",
    "rm",
    "scorer",
    "teacher",
    "policy",
    "learner",
    "trainer",
    "train",
    "training",
    "prefill",
    "decode",
];

/// How many folders above a file may say its role.
const FOLDERS: usize = 3;

static NUMBERED: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^([a-z]+(?:_[a-z]+)?)(?:[-_.]?([0-9]+))?$").ok());

/// A role, perhaps a number, and after something else the rank.
static PREFIX: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^([a-z]+?(?:_(?:policy|model))?)(?:[-_.]?([0-9]+))?[-_.](?:.*[-_.])?rank").ok()
});

fn role_in_path(path: &Path) -> Option<ToldRole> {
    let lower = |name: &std::ffi::OsStr| name.to_string_lossy().to_lowercase();
    let told = |pattern: &LazyLock<Option<Regex>>, name: &str| {
        let found = pattern.as_ref()?.captures(name)?;
        let role = found.get(1)?.as_str();
        let replica = found.get(2).and_then(|digits| digits.as_str().parse().ok());
        ROLES.contains(&role).then(|| ToldRole { name: role.to_string(), replica })
    };
    let name = lower(path.file_name()?);
    if let Some(role) = told(&PREFIX, &name) {
        return Some(role);
    }
    let folders: Vec<String> =
        path.ancestors().skip(1).take(FOLDERS).filter_map(|f| Some(lower(f.file_name()?))).collect();
    let found: Vec<Option<ToldRole>> = folders.iter().map(|name| told(&NUMBERED, name)).collect();
    let nearest = found.iter().position(Option::is_some)?;
    match found.get(nearest..)? {
        // The folder of one program inside that of its role: `rollout/engine_1`.
        [Some(own), Some(outer), ..] if own.replica.is_some() && outer.replica.is_none() => {
            Some(ToldRole { replica: own.replica, name: outer.name.clone() })
        }
        [own, ..] => own.clone(),
        [] => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coordinates::NamedPlace;

    fn role(path: &str) -> Option<(String, Option<u32>)> {
        role_of(&Input::named(path)).map(|r| (r.name, r.replica))
    }

    #[test]
    fn names_of_files_and_folders_tell_the_role() {
        let of = |name: &str, replica| Some((name.to_string(), replica));
        assert_eq!(role("x/actor/rank0.json"), of("actor", None));
        assert_eq!(role("x/Rollout_1/rank0.json"), of("rollout", Some(1)));
        assert_eq!(role("x/rollout/engine_1/rank0.json"), of("rollout", Some(1)));
        assert_eq!(role("x/rollout/run/rank0.json"), of("rollout", None));
        let verl = "out/e2e/critic_update_rank3-of-4_tp0-pp0-dp3-cp0_pid77_17.json.gz";
        assert_eq!(role(verl), of("critic", None));
        let place = NamedPlace::of(&Input::named(verl)).expect("a place");
        assert_eq!((place.world, place.along("dp"), place.along("ep")), (Some(4), Some(3), None));
        assert_eq!(role("rollout_2_rank0.json"), of("rollout", Some(2)));
        assert_eq!(role("ref_policy-rank1.json"), of("ref_policy", None));
    }

    #[test]
    fn other_names_tell_none() {
        for path in
            ["run1/rank0.json", "actors_of_run/rank0.json", "x-TP-0-DECODE.trace.json", "exp/actor.json"]
        {
            assert_eq!(role(path), None, "{path}");
        }
    }

    #[test]
    fn patterns_fit_the_end_of_a_path_or_a_folder() {
        let fits = |pattern: &str, path: &str| {
            RolePattern::parse(&format!("r={pattern}")).expect("a pattern").fits(path)
        };
        assert!(fits("eng0", "a/eng0/rank0.json") && fits("eng0/*", "a/eng0/rank0.json"));
        assert!(fits("a/*", "a/eng0/rank0.json") && fits("rank0.json", "a/rank0.json"));
        assert!(!fits("eng", "a/eng0/rank0.json") && !fits("b*", "a/eng0/rank0.json"));
        assert!(RolePattern::parse("rollout").is_err() && RolePattern::parse("=x").is_err());
    }

    #[test]
    fn several_patterns_of_a_name_are_several_programs() {
        let mut inputs = ["a/e0/rank0.json", "a/e1/rank0.json", "a/t/rank0.json"].map(Input::named).to_vec();
        let patterns = |texts: &[&str]| -> Vec<RolePattern> {
            texts.iter().map(|t| RolePattern::parse(t).expect("a pattern")).collect()
        };
        set_roles(&mut inputs, &patterns(&["gen=e0", "gen=e1", "learn=t"])).expect("each has a role");
        let told: Vec<_> = inputs.iter().filter_map(role_of).map(|r| (r.name, r.replica)).collect();
        let of = |name: &str, replica| (name.to_string(), replica);
        assert_eq!(told, [of("gen", Some(0)), of("gen", Some(1)), of("learn", None)]);
        let mut inputs = ["a/e0/rank0.json", "a/x/rank0.json"].map(Input::named).to_vec();
        assert!(set_roles(&mut inputs, &patterns(&["gen=e0"])).is_err(), "a file is of no role");
        assert!(set_roles(&mut inputs, &patterns(&["gen=none"])).is_err(), "a pattern fits nothing");
    }
}
