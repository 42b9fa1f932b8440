//! How far a change between two sets can be said to come from the program: what of both is the same.
//!
//! ```text
//!   sure       devices, versions, ranks, kind of step, input shapes and recording are the same; enough steps
//!   likely     something is not recorded, or differs that seldom matters: versions, stacks, ranks left out
//!   at most    the change may come from what differs: devices, input shapes, or too few steps to tell; or
//!              stands behind the cut of a file
//!   withheld   a step is other work: `--force` compares the sets nevertheless
//! ```

use crate::diff::comparable::{SetDifferences, cut_ranks, values};
use crate::diff::population::Population;
use crate::diff::set::SetRank;
use hta_base::table;
use hta_base::table::compare::MIN_STEPS;
use hta_base::table::schema::{Batch, Text};
use hta_diagnosis::CauseCertainty;
use std::collections::BTreeSet;

table! {
    /// What is the same in both sets, and how sure a change between them comes from the program.
    pub struct Comparability, ComparabilityRow = "diff_comparability" by "aspect: all, then each in turn" {
        aspect: Text, "",
            "all: the grade of the comparison; devices; drivers and runtimes (torch, where it is named); \
             ranks; kinds of steps; input shapes; ways of recording; steps";
        base: Option<Text>, "", "value of base; null: not recorded";
        test: Option<Text>, "", "value of test";
        is_same: Option<bool>, "", "null: not known";
        certainty: Text, "", "sure, likely, at most or withheld: the best that this allows";
    }
}

/// One thing that should be the same.
struct Aspect {
    name: &'static str,
    values: [Option<String>; 2],
    is_same: Option<bool>,
    certainty: CauseCertainty,
}

impl Aspect {
    /// Compares what the ranks say. `other` is the certainty if it differs, `unknown` if it is not recorded.
    fn new(name: &'static str, values: [BTreeSet<String>; 2], [other, unknown]: [CauseCertainty; 2]) -> Self {
        let is_known = values.iter().all(|side| !side.is_empty());
        let is_same = is_known.then(|| values[0] == values[1]);
        let certainty = match is_same {
            Some(true) => CauseCertainty::Sure,
            Some(false) => other,
            None => unknown,
        };
        let shown = |side: BTreeSet<String>| {
            let text = side.into_iter().collect::<Vec<_>>().join("; ");
            Some(text).filter(|text| !text.is_empty())
        };
        Self { name, values: values.map(shown), is_same, certainty }
    }
}

/// The grade of a comparison, with its reasons.
pub(crate) struct ComparisonGrade {
    aspects: Vec<Aspect>,
    certainty: CauseCertainty,
    by_step: bool,
    /// Whether a compared file ends in the middle of its events.
    is_cut: bool,
}

impl ComparisonGrade {
    pub(crate) fn new(p: &Population, found: &SetDifferences) -> Self {
        use CauseCertainty::{AtMost, Likely, Sure, Withheld};
        let each = |of: &dyn Fn(&SetRank) -> Option<String>| values(p, of);
        // A program without ranks writes no world size.
        let world =
            |r: &SetRank| Some(r.world.map_or("one process".to_string(), |w| format!("of {w} ranks")));
        let ranks = Aspect::new("ranks", each(&world), [Likely, Likely]);
        let are_left_out = !p.same_ranks || p.left_out().iter().any(|ranks| !ranks.is_empty());
        let ranks = match ranks.certainty {
            Sure if are_left_out => Aspect { is_same: Some(false), certainty: Likely, ..ranks },
            _ => ranks,
        };
        let mut kinds = Aspect::new("kinds of steps", each(&|r| Some(r.step_rule.clone())), [Likely, Likely]);
        if !p.by_step {
            kinds.certainty = AtMost;
        }
        let recording = |r: &SetRank| {
            let with = |what, flag| match flag {
                Some(true) => format!(", with {what}"),
                _ => String::new(),
            };
            let (stacks, shapes) = (with("stacks", r.has_frames), with("shapes", r.has_shapes));
            Some(format!("{}{stacks}{shapes}", r.recorder.name()))
        };
        let vendor = |r: &SetRank| Some(r.vendor.clone()).filter(|vendor| !vendor.is_empty());
        let device = |r: &SetRank| r.device_name.clone().or_else(|| vendor(r));
        let counts = [&p.base, &p.test].map(|side| side.samples.len());
        let are_enough = p.by_step && p.fewest_steps() >= MIN_STEPS;
        let steps = Aspect {
            name: STEPS,
            values: counts.map(|n| Some(n.to_string())),
            is_same: Some(counts[0] == counts[1]),
            certainty: if are_enough { Sure } else { AtMost },
        };
        let aspects = vec![
            Aspect::new("devices", each(&device), [AtMost, Likely]),
            Aspect::new("drivers and runtimes", each(&|r| r.versions.clone()), [Likely, Likely]),
            ranks,
            kinds,
            Aspect::new("input shapes", each(&|r| r.input_shapes.clone()), [AtMost, Sure]),
            Aspect::new("ways of recording", each(&recording), [Likely, Likely]),
            steps,
        ];
        let is_cut = cut_ranks(p).iter().any(|ranks| !ranks.is_empty());
        let best = match (found.refusals.is_empty(), found.warnings.is_empty()) {
            (false, _) => Withheld,
            (true, false) if is_cut => AtMost,
            (true, false) => Likely,
            (true, true) => Sure,
        };
        let certainty = aspects.iter().map(|a| a.certainty).fold(best, Ord::max);
        Self { aspects, certainty, by_step: p.by_step, is_cut }
    }

    /// The grade and its reasons.
    pub(crate) fn sentence(&self) -> String {
        let named = |is_same: Option<bool>| {
            let of = self.aspects.iter().filter(|a| a.name != STEPS && a.is_same == is_same);
            of.map(|a| a.name).collect::<Vec<_>>().join(", ")
        };
        let (differ, unknown, same) = (named(Some(false)), named(None), named(Some(true)));
        let mut reasons = Vec::new();
        for (names, what) in [(&differ, "differ"), (&unknown, "not recorded")] {
            if !names.is_empty() {
                reasons.push(format!("{names} {what}"));
            }
        }
        if self.is_cut {
            reasons.push("files are cut".to_string());
        }
        if reasons.is_empty() {
            reasons.push(format!("same {same}"));
        }
        let steps = self.aspects.iter().find(|a| a.name == STEPS);
        if !self.by_step {
            reasons.push("whole captures, which do not tell the noise".to_string());
        } else if let Some(Aspect { values: [Some(base), Some(test)], certainty, .. }) = steps {
            let few = if *certainty == CauseCertainty::Sure { "" } else { ", of which three are needed" };
            reasons.push(format!("{base} and {test} steps{few}"));
        }
        format!("comparable: {}: {}", self.certainty.name(), reasons.join("; "))
    }

    pub(crate) fn table(&self) -> Batch {
        let mut table = Comparability::default();
        table.push(ComparabilityRow {
            aspect: "all",
            base: None,
            test: None,
            is_same: Some(self.aspects.iter().all(|a| a.is_same == Some(true))),
            certainty: self.certainty.name(),
        });
        for aspect in &self.aspects {
            let [base, test] = &aspect.values;
            table.push(ComparabilityRow {
                aspect: aspect.name,
                base: base.as_deref(),
                test: test.as_deref(),
                is_same: aspect.is_same,
                certainty: aspect.certainty.name(),
            });
        }
        table.finish()
    }
}

/// The aspect whose values are numbers of steps, which need not be the same.
const STEPS: &str = "steps";
