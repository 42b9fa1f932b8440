//! Notes of the report: which ranks and steps were compared, and what else differs between the sets.

use crate::diff::BY;
use crate::diff::comparability::ComparisonGrade;
use crate::diff::comparable::SetDifferences;
use crate::diff::population::{ChosenRanks, Population};
use crate::diff::summary::is_fused_apart;
use hta_analysis::api::Options;
use hta_base::wording::counts::plural;
use hta_base::wording::ranks::rank_list;
use std::collections::BTreeSet;

pub(crate) fn notes(p: &Population, found: &SetDifferences, options: &Options) -> Vec<String> {
    let mut notes = vec![ComparisonGrade::new(p, found).sentence()];
    notes.extend(of_population(p));
    if is_fused_apart(p) {
        notes.push(
            "one set exchanges inside fused kernels, where exchange, product and waiting cannot be told \
             apart: steps are compared; compute, communication, waiting and transfer are not"
                .to_string(),
        );
    }
    notes.extend(found.refusals.iter().chain(&found.warnings).cloned());
    if options.settings.text(&BY) == Some("module")
        && !p.base.ranks.iter().chain(&p.test.ranks).any(|r| r.rank.has_modules)
    {
        notes
            .push("--by module: no nn.Module frames are recorded (profile with with_stack=True)".to_string());
    }
    notes
}

/// Which ranks and steps were compared.
pub(crate) fn of_population(p: &Population) -> Vec<String> {
    let mut notes = Vec::new();
    for (name, side) in [("base", &p.base), ("test", &p.test)] {
        let ranks: Vec<u32> = side.ranks.iter().map(|r| r.rank.rank).collect();
        let windows =
            if p.by_step { format!("{}{}", periods_of(side), windows_of(side)) } else { String::new() };
        notes.push(format!(
            "{name}: {}: {}, {}{windows}",
            end_of(&side.set.shown),
            rank_noun(&ranks),
            counted(side, p.by_step)
        ));
        if side.counts_partial {
            notes.push(format!("{name}: a rank has no full step, so its partial ones count"));
        }
        if !side.without_steps.is_empty() {
            notes.push(format!("{name}: none of the steps asked for on {}", rank_noun(&side.without_steps)));
        }
    }
    if !p.same_ranks {
        notes.push(
            "the sets share no rank number: the mean over all ranks of each set is compared".to_string(),
        );
    }
    for (name, ranks) in ["base", "test"].iter().zip(p.left_out()).filter(|(_, r)| !r.is_empty()) {
        notes.push(format!("left out, because only {name} has them: {}", rank_noun(&ranks)));
    }
    if !p.by_step {
        let missing: Vec<&str> = [("base", &p.base), ("test", &p.test)]
            .iter()
            .filter(|(_, s)| s.ranks.iter().any(|r| r.rank.windows.iter().all(|w| w.step.is_none())))
            .map(|(name, _)| *name)
            .collect();
        notes.push(format!(
            "{}: no steps found, so whole captures are compared, which differ by what was recorded; mark \
             steps, or name them with --step-pattern",
            missing.join(" and ")
        ));
    }
    notes
}

/// Largest length of a printed path, characters.
const PATH: usize = 60;

/// The end of a long path. Paths have no spaces at which a line could break.
fn end_of(path: &str) -> String {
    let n = path.chars().count();
    if n <= PATH {
        path.to_string()
    } else {
        format!("...{}", path.chars().skip(n + 3 - PATH).collect::<String>())
    }
}

/// A list such as `ranks 0-3`.
fn rank_noun(ranks: &[u32]) -> String {
    format!("{} {}", if ranks.len() == 1 { "rank" } else { "ranks" }, rank_list(ranks))
}

/// Whose windows the steps of a side have, if they are not the host's.
fn windows_of(side: &ChosenRanks) -> &'static str {
    let on_device = side.ranks.iter().filter(|r| r.rank.is_on_device).count();
    match on_device {
        0 => "",
        n if n == side.ranks.len() => ", windows on the device (--step-window)",
        _ => ", windows on the device where it lags (--step-window)",
    }
}

/// That steps of accumulated gradients are compared as whole periods.
fn periods_of(side: &ChosenRanks) -> String {
    let every = side.ranks.iter().filter_map(|r| r.rank.period).max();
    every.map_or_else(String::new, |k| format!(", of which every {k} are a unit"))
}

/// The number of steps on which a side's figures are based.
fn counted(side: &ChosenRanks, by_step: bool) -> String {
    let steps: BTreeSet<usize> = side.ranks.iter().map(|r| r.steps.len()).collect();
    match (by_step, steps.first(), side.ranks.len()) {
        (false, ..) => "the whole capture".to_string(),
        (true, Some(n), 2..) if steps.len() == 1 => format!("{} each", plural(*n, "step")),
        (true, _, 2..) => format!("{} in all", plural(side.step_count() as usize, "step")),
        _ => plural(side.step_count() as usize, "step"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_path_the_end_is_printed() {
        let path = format!("/{}/rank_0.json.gz", "x".repeat(90));
        let shown = end_of(&path);
        assert!(
            shown.starts_with("...xx") && shown.ends_with("x/rank_0.json.gz") && shown.len() == PATH,
            "{shown}"
        );
        assert_eq!(end_of("before/"), "before/");
    }
}
