//! Whether two sets can be compared: what makes their steps different work, and what makes the comparison
//! less exact.

use crate::diff::population::Population;
use crate::diff::set::{Basis, SetRank, WorkSide};
use hta_base::table::schema::{Batch, Table};
use hta_base::units::{Ns, fmt_pct, percent};
use hta_base::wording::ranks::ranks_named;
use hta_diagnosis::CauseKind;
use hta_diagnosis::{FindingRow, Findings};
use hta_job::recording::limit::{WHOLE_FILE, cut_files};
use hta_trace::step::HELD_PCT;
use std::collections::{BTreeMap, BTreeSet};

/// Operator counts that overlap less than this are of different programs, percent.
const SIMILAR_PCT: f64 = 50.0;

/// Fewest names of operators from which a program can be recognised.
const NAMES: usize = 10;

/// Difference of the profiler's own share of the time from which it may explain a change, percentage points.
const OVERHEAD_POINTS: f64 = 5.0;

/// What differs between two sets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SetDifferences {
    /// Reasons for which a step of one set is other work than a step of the other.
    pub refusals: Vec<String>,
    /// Reasons for which part of a change may not come from the program.
    pub(crate) warnings: Vec<String>,
}

/// The reason for which a set has no diagnosis, from its table `findings`.
pub fn withheld(tables: &[Batch]) -> Option<String> {
    let found = tables.iter().filter(|b| b.spec.name == Findings::SPEC.name).flat_map(Findings::rows);
    let incomplete = |r: &FindingRow| r.kind == CauseKind::InputIncomplete.name();
    found.into_iter().find(incomplete).and_then(|r| r.reason.map(str::to_string))
}

/// Compares what was recorded. `withheld` are the reasons for which the sets have no diagnosis, base and
/// test.
pub(crate) fn differences(p: &Population, withheld: [Option<&str>; 2]) -> SetDifferences {
    let mut out = SetDifferences::default();
    let worlds = values(p, |r| r.world.map(|w| w.to_string()));
    out.refusals.extend(told("world sizes", &worlds));
    let have_steps = sides(p).map(|ranks| ranks.iter().all(|r| r.windows.iter().any(|w| w.step.is_some())));
    if have_steps[0] != have_steps[1] {
        let without = if have_steps[0] { "test" } else { "base" };
        out.refusals
            .push(format!("{without} has no steps, the other set has: a whole capture is not a step"));
    }
    if let Some(similarity) = similarity(p).filter(|s| *s < SIMILAR_PCT) {
        let overlap = format!("the counts of operators overlap by {}", fmt_pct(Some(similarity)));
        // Iterations of an engine differ in what they do; those that are alike are compared with each other.
        match p.iterations().iter().all(|side| !side.is_empty()) {
            true => out.warnings.push(overlap),
            false => out.refusals.push(format!("{overlap}: this is another program")),
        }
    }
    for (side, ranks) in ["base", "test"].into_iter().zip(sides(p)) {
        let missed: Vec<u32> = ranks.iter().filter(|r| p.by_step && r.is_missed).map(|r| r.rank).collect();
        if !missed.is_empty() {
            let of = ranks_named(&missed);
            out.refusals.push(format!(
                "the windows of steps that --step-window host takes hold less than {HELD_PCT} % of what the \
                 steps of {side} ({of}) launch: compare without it"
            ));
        }
    }
    if let [Some(why), None] | [None, Some(why)] = withheld {
        let side = if withheld[0].is_some() { "base" } else { "test" };
        let sentence = format!("{side} cannot be diagnosed: {why}");
        // Of two recorders, one may see less of the same work.
        let to = if p.has_two_recorders() { &mut out.warnings } else { &mut out.refusals };
        to.push(sentence);
    }
    if let left_out @ [_, ..] = p.base.set.left_out.as_slice() {
        let of = ranks_named(left_out);
        let sides = [("base", &p.base), ("test", &p.test)].into_iter();
        let why = sides.filter_map(|(side, of)| Some(format!("{side}: {}", of.set.why_left_out.as_ref()?)));
        let why = why.collect::<Vec<_>>().join("; ");
        out.warnings.push(format!("{of} left out of both sides: {why} (table trust)"));
    }
    for (side, cut) in ["base", "test"].into_iter().zip(cut_ranks(p)) {
        if !cut.is_empty() {
            out.warnings.push(format!(
                "{side}: {}: part of a change may stand behind the cut; {WHOLE_FILE}",
                cut_files(&cut)
            ));
        }
    }
    if p.has_two_recorders() {
        out.warnings.extend(told("recorders", &values(p, |r| Some(r.recorder.name().to_string()))));
        let one_sided: Vec<String> =
            p.one_sided().iter().map(|(class, side)| format!("{class} ({side})")).collect();
        if !one_sided.is_empty() {
            out.warnings
                .push(format!("left out, because one recorder does not have them: {}", one_sided.join(", ")));
        }
    }
    out.warnings.extend(told("devices", &values(p, |r| r.device_name.clone())));
    out.warnings.extend(told("what the parts are made of", &bases(p)));
    let recorded = |flag: bool| if flag { "recorded" } else { "not recorded" }.to_string();
    out.warnings.extend(told("Python stacks", &values(p, |r| r.has_frames.map(recorded))));
    out.warnings.extend(told("shapes", &values(p, |r| r.has_shapes.map(recorded))));
    // Recorders say different versions: of the driver, or of their own exports.
    out.warnings.extend(
        told("drivers and runtimes", &values(p, |r| r.versions.clone())).filter(|_| !p.has_two_recorders()),
    );
    let overhead = sides(p).map(|ranks| {
        let sum = |of: fn(&SetRank) -> Ns| ranks.iter().map(|r| of(r)).sum::<Ns>();
        percent(sum(|r| r.overhead), sum(|r| r.recorded)).unwrap_or(0.0)
    });
    if (overhead[0] - overhead[1]).abs() > OVERHEAD_POINTS {
        let shown = overhead.map(|share| fmt_pct(Some(share)));
        out.warnings
            .push(format!("the profiler itself worked {} of the time before, {} after", shown[0], shown[1]));
    }
    out
}

fn sides<'a>(p: &Population<'a>) -> [Vec<&'a SetRank>; 2] {
    [&p.base, &p.test].map(|side| side.ranks.iter().map(|r| r.rank).collect())
}

/// Compared ranks of each side whose files end in the middle of their events.
pub(crate) fn cut_ranks(p: &Population) -> [Vec<u32>; 2] {
    sides(p).map(|ranks| ranks.into_iter().filter(|r| r.is_cut).map(|r| r.rank).collect())
}

/// The values of both sides.
pub(crate) fn values(p: &Population, of: impl Fn(&SetRank) -> Option<String>) -> [BTreeSet<String>; 2] {
    sides(p).map(|ranks| ranks.into_iter().filter_map(&of).collect())
}

fn bases(p: &Population) -> [BTreeSet<String>; 2] {
    sides(p).map(|ranks| {
        let of = ranks.into_iter().flat_map(|r| &r.windows).map(|w| w.basis);
        of.filter(|b| *b != Basis::None).map(|b| b.name().to_string()).collect()
    })
}

/// Says that known values differ.
fn told(what: &str, [base, test]: &[BTreeSet<String>; 2]) -> Option<String> {
    let list = |s: &BTreeSet<String>| s.iter().cloned().collect::<Vec<_>>().join(", ");
    let differ = base != test && !base.is_empty() && !test.is_empty();
    differ.then(|| format!("{what} differ: {} before, {} after", list(base), list(test)))
}

/// Overlap of the operators of a step, percent: the smaller of the two counts of each name, over the larger.
/// Without steps, of the shares of the names, because captures differ in length. `None` if a side has too few
/// names.
fn similarity(p: &Population) -> Option<f64> {
    let counts = [&p.base, &p.test].map(|side| {
        let mut counts: BTreeMap<&str, f64> = BTreeMap::new();
        for of in &side.ranks {
            for cell in of.rank.cells.iter().filter(|c| of.steps.contains(&c.step)) {
                let Some(key) = of.rank.keys.get(cell.key as usize) else { continue };
                if key.side == WorkSide::Host && &*key.class == "operator" {
                    *counts.entry(&key.name).or_default() += cell.count as f64;
                }
            }
        }
        let of_all: f64 = if p.by_step { side.step_count() as f64 } else { counts.values().sum() };
        counts.values_mut().for_each(|n| *n /= of_all.max(1.0));
        counts
    });
    if counts.iter().any(|c| c.len() < NAMES) {
        return None;
    }
    let names: BTreeSet<&str> = counts.iter().flat_map(|c| c.keys().copied()).collect();
    let of = |side: usize, name: &str| counts[side].get(name).copied().unwrap_or(0.0);
    let sum = |of: &dyn Fn(&str) -> f64| names.iter().map(|n| of(n)).sum::<f64>();
    let (both, any) = (sum(&|n| of(0, n).min(of(1, n))), sum(&|n| of(0, n).max(of(1, n))));
    (any > 0.0).then(|| 100.0 * both / any)
}
