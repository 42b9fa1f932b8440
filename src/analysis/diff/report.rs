//! The report of a diff: the step before and after, what the change is made of, and how sure that is.

use super::exact::Exact;
use super::names::{By, Label, Named, compare as compare_names, share, trees};
use super::population::{Chosen, Nothing, Population};
use super::set::{Basis, Set, Side};
use super::summary::{Metric, Pair, pair};
use super::threshold::{Threshold, Verdict, noise};
use super::{BY, Names, SHORT_NAMES, STEM, Summaries, names, summary};
use crate::analysis::api::{Align, Certainty, Finding, Options, Output, View};
use crate::analysis::kernels::{clip, short_name};
use crate::analysis::population::{plural, rank_list};
use crate::model::timeline::Work;
use crate::units::{Ns, fmt_count, fmt_ns, fmt_pct};
use std::collections::BTreeSet;

/// Characters of the bar of the longer side.
const BAR: usize = 40;

/// A name's change below this share of the step is no finding, percent.
const FINDING_MIN_PCT: f64 = 1.0;

/// Findings about names.
const NAMED_FINDINGS: usize = 3;

/// Compares two sets: tables, sentences, views, and what came of the thresholds.
///
/// # Errors
/// When a set has none of the steps asked for.
pub fn compare(
    base: &Set,
    test: &Set,
    thresholds: &[Threshold],
    options: &Options,
) -> Result<(Output, Vec<Verdict>), Nothing> {
    let p = Population::choose(base, test, options.model.steps.is_some())?;
    let verdicts: Vec<Verdict> = thresholds.iter().map(|t| t.judge(&p)).collect();
    let short = options.settings.flag(&SHORT_NAMES);
    let by = match options.settings.text(&BY) {
        Some("op" | "module") => By::Owner { short },
        _ if short => By::ShortName,
        _ => By::Name,
    };
    let rows = compare_names(&p, by);
    let tables = vec![summary::table(&p), names::table(&p, &rows), summary::steps(&p)];
    let mut views = vec![head(&p, options), parts(&p)];
    if !verdicts.is_empty() {
        views.insert(1, judged(&verdicts));
    }
    views.extend(named(&p, &rows, Side::Gpu, options));
    views.extend(named(&p, &rows, Side::Host, options));
    Ok((Output { tables, findings: findings(&p, &rows), views, raw: None }, verdicts))
}

fn ns(x: Exact) -> Ns {
    x.value().round() as Ns
}

fn signed(x: Exact) -> String {
    format!("{}{}", if x.num > 0 { "+" } else { "" }, fmt_ns(ns(x)))
}

fn signed_pct(x: Option<f64>) -> String {
    x.map_or_else(|| "-".to_string(), |v| format!("{v:+.1} %"))
}

/// What was compared, and the two steps as bars.
///
/// ```text
///   base  100 ms  ####################======---.........
///   test  112 ms  ########################=====--............
/// ```
fn head(p: &Population, options: &Options) -> View {
    let step = pair(p, Metric::StepTime);
    let longest = step.base.mean.value().max(step.test.mean.value());
    let row = |name: &str, side: fn(&Pair) -> Exact| -> Vec<String> {
        vec![name.to_string(), fmt_ns(ns(side(&step))), bar(p, side, longest)]
    };
    View {
        title: format!("Before and after, mean per {}", p.scope()),
        columns: vec![("set", Align::Left), ("step", Align::Right), ("#compute =comm -mem .idle", Align::Left)],
        rows: vec![row("base", |pair| pair.base.mean), row("test", |pair| pair.test.mean)],
        notes: notes(p, options),
    }
}

fn bar(p: &Population, side: fn(&Pair) -> Exact, longest: f64) -> String {
    let marks = ['#', '=', '-', '.'];
    let (mut out, mut sum) = (String::new(), 0.0);
    for (metric, mark) in Metric::PARTS.into_iter().zip(marks) {
        sum += side(&pair(p, metric)).value();
        let upto = if longest > 0.0 { (sum / longest * BAR as f64).round() as usize } else { 0 };
        while out.len() < upto.min(BAR) {
            out.push(mark);
        }
    }
    out
}

fn notes(p: &Population, options: &Options) -> Vec<String> {
    let mut notes = Vec::new();
    for (name, side) in [("base", &p.base), ("test", &p.test)] {
        let ranks: Vec<u32> = side.ranks.iter().map(|r| r.rank.rank).collect();
        notes.push(format!("{name}: {}: {}, {}", end_of(&side.set.shown), rank_noun(&ranks), counted(side, p.by_step)));
        if side.counts_partial {
            notes.push(format!("{name}: a rank has no full step, so its partial ones count"));
        }
        if !side.without_steps.is_empty() {
            notes.push(format!("{name}: none of the steps asked for on {}", rank_noun(&side.without_steps)));
        }
    }
    if !p.same_ranks {
        notes.push("the sets share no rank number: the mean of all ranks of one against all of the other".to_string());
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
            "{}: no steps found, so whole captures are compared, which differ by what was recorded; mark steps, or \
             name them with --step-pattern",
            missing.join(" and ")
        ));
    }
    notes.extend(differences(p));
    if options.settings.text(&BY) == Some("module")
        && !p.base.ranks.iter().chain(&p.test.ranks).any(|r| r.rank.has_modules)
    {
        notes.push("--by module: no nn.Module frames are recorded (profile with with_stack=True)".to_string());
    }
    notes
}

/// Characters of a path that are printed.
const PATH: usize = 60;

/// The end of a long path: it has no blank at which a line could break.
fn end_of(path: &str) -> String {
    let n = path.chars().count();
    if n <= PATH { path.to_string() } else { format!("...{}", path.chars().skip(n + 3 - PATH).collect::<String>()) }
}

/// `ranks 0-3`.
fn rank_noun(ranks: &[u32]) -> String {
    format!("{} {}", if ranks.len() == 1 { "rank" } else { "ranks" }, rank_list(ranks))
}

/// How many steps a side's figures stand on.
fn counted(side: &Chosen, by_step: bool) -> String {
    let steps: BTreeSet<usize> = side.ranks.iter().map(|r| r.steps.len()).collect();
    match (by_step, steps.first(), side.ranks.len()) {
        (false, ..) => "the whole capture".to_string(),
        (true, Some(n), 2..) if steps.len() == 1 => format!("{} each", plural(*n, "step")),
        (true, _, 2..) => format!("{} in all", plural(side.step_count() as usize, "step")),
        _ => plural(side.step_count() as usize, "step"),
    }
}

/// What else differs between the sets, so that a step of one is not a step of the other.
fn differences(p: &Population) -> Vec<String> {
    let mut notes = Vec::new();
    let both = |text: fn(&Chosen) -> BTreeSet<String>| (text(&p.base), text(&p.test));
    let mut tell = |what: &str, (base, test): (BTreeSet<String>, BTreeSet<String>)| {
        if base != test && !base.is_empty() && !test.is_empty() {
            let list = |s: BTreeSet<String>| s.into_iter().collect::<Vec<_>>().join(", ");
            notes.push(format!("{what} differ: {} before, {} after", list(base), list(test)));
        }
    };
    tell("world sizes", both(|s| s.ranks.iter().filter_map(|r| r.rank.world).map(|w| w.to_string()).collect()));
    tell("devices", both(|s| s.ranks.iter().filter_map(|r| r.rank.device_name.clone()).collect()));
    let basis = |s: &Chosen| -> BTreeSet<String> {
        let of = s.ranks.iter().flat_map(|r| &r.rank.windows).map(|w| w.basis);
        of.filter(|b| *b != Basis::None).map(|b| b.name().to_string()).collect()
    };
    tell("what the parts are made of", both(basis));
    notes
}

fn judged(verdicts: &[Verdict]) -> View {
    let row =
        |v: &Verdict| vec![v.text.clone(), if v.is_crossed { "crossed" } else { "ok" }.to_string(), v.found.clone()];
    let unknown = verdicts.iter().filter(|v| v.is_unknown);
    View {
        title: "Thresholds".to_string(),
        columns: vec![("--fail-if", Align::Left), ("", Align::Left), ("base -> test", Align::Left)],
        rows: verdicts.iter().map(row).collect(),
        notes: verdicts
            .iter()
            .filter(|v| v.is_crossed)
            .map(|v| format!("{}: {}", v.text, v.noise))
            .chain(unknown.map(|v| format!("{}: nothing of that name is in either set", v.text)))
            .collect(),
    }
}

fn parts(p: &Population) -> View {
    let step = pair(p, Metric::StepTime).delta();
    let row = |metric: Metric| {
        let pair = pair(p, metric);
        vec![
            metric.name().replace('_', " "),
            fmt_ns(ns(pair.base.mean)),
            fmt_ns(ns(pair.test.mean)),
            signed(pair.delta()),
            signed_pct(pair.delta_pct()),
            fmt_pct(if metric.has_share() { pair.delta().percent_of(step) } else { None }),
            surety(&pair).to_string(),
        ]
    };
    View {
        title: format!("What the {} consists of", if p.by_step { "step" } else { "capture" }),
        columns: vec![
            ("", Align::Left),
            ("base", Align::Right),
            ("test", Align::Right),
            ("change", Align::Right),
            ("of base", Align::Right),
            ("share", Align::Right),
            ("noise", Align::Left),
        ],
        rows: Metric::ALL.into_iter().map(row).collect(),
        notes: vec![
            "share: of the change of the step time; the first four parts sum to it".to_string(),
            "noise: beyond, or within three standard errors over steps (- : fewer than three steps on a side)"
                .to_string(),
        ],
    }
}

fn surety(pair: &Pair) -> &'static str {
    match pair.is_significant() {
        _ if pair.delta().num == 0 => "",
        Some(true) => "beyond",
        Some(false) => "within",
        None => "-",
    }
}

/// Marks a change that may be noise.
const WITHIN: &str = "~";

/// Of the noise of a host row nothing is said: it is that of its whole time.
fn mark(n: &Named) -> &'static str {
    if n.ns.delta().num != 0 && n.ns.is_significant() == Some(false) { WITHIN } else { "" }
}

/// What fits a line; the table has the full name.
fn short(label: &Label) -> String {
    if &*label.class == Work::Memory.name() { label.name.to_string() } else { short_name(&label.name) }
}

/// In words, first what appeared or went.
fn kind(n: &Named) -> &'static str {
    match n.change() {
        change @ ("added" | "deleted") => change,
        _ => n.trend(),
    }
}

/// The names that changed most on one side; on the host by self time, since its rows are nested.
fn named(p: &Population, rows: &[Named], side: Side, options: &Options) -> Option<View> {
    let trees = trees(rows);
    let own = |n: &Named| n.own_delta();
    let mut changed: Vec<&Named> = rows.iter().filter(|n| n.label.side == side).collect();
    let all = changed.len();
    let changed_count = |n: &&Named| own(n).num != 0 || n.count_delta().num != 0;
    changed.retain(changed_count);
    if all == 0 {
        return None;
    }
    changed
        .sort_by(|a, b| own(b).num.unsigned_abs().cmp(&own(a).num.unsigned_abs()).then_with(|| a.label.cmp(&b.label)));
    let shown: Vec<Vec<String>> = changed
        .iter()
        .take(options.top)
        .map(|n| {
            vec![
                kind(n).to_string(),
                if side == Side::Gpu { short(&n.label) } else { n.label.name.to_string() },
                fmt_ns(ns(n.own[0])),
                fmt_ns(ns(n.own[1])),
                signed(own(n)),
                fmt_pct(share(n, &trees)),
                if side == Side::Gpu { mark(n).to_string() } else { String::new() },
            ]
        })
        .collect();
    let count = |what: &str| changed.iter().filter(|n| kind(n) == what).count();
    let counts: Vec<String> = ["slower", "faster", "added", "deleted"]
        .iter()
        .map(|k| (*k, count(k)))
        .filter(|(_, n)| *n > 0)
        .map(|(k, n)| format!("{} {k}", fmt_count(n as u64)))
        .collect();
    let of = fmt_count(all as u64);
    let mut notes = vec![if counts.is_empty() {
        format!("none of {of} names differs")
    } else {
        format!("of {of} names: {}", counts.join(", "))
    }];
    if changed.len() > options.top {
        notes.push(format!("{} more are in the table {}", changed.len() - options.top, Names::SPEC.name));
    }
    let mut columns = vec![
        ("", Align::Left),
        ("name", Align::Left),
        ("base", Align::Right),
        ("test", Align::Right),
        ("change", Align::Right),
        ("share", Align::Right),
    ];
    let title = match side {
        Side::Gpu => {
            columns.push(("", Align::Left));
            notes.push("share: of the change of all GPU time; what runs at once counts twice".to_string());
            if shown.iter().any(|r| r.last().is_some_and(|m| m == WITHIN)) {
                notes.push(format!("{WITHIN} within the noise of the steps"));
            }
            format!("GPU time by {}, per {}", options.settings.text(&BY).unwrap_or("name"), p.scope())
        }
        Side::Host => {
            notes.push("without what an event encloses; share: of the change of its call tree".to_string());
            format!("Host time by name, per {}", p.scope())
        }
    };
    Some(View { title, columns, rows: shown, notes })
}

fn findings(p: &Population, rows: &[Named]) -> Vec<Finding> {
    let step = pair(p, Metric::StepTime);
    let delta = step.delta();
    let finding = |cost: Exact, certainty, sentence, table| Finding {
        analysis: STEM,
        ranks: Vec::new(),
        steps: Vec::new(),
        cost_ns_per_step: ns(cost),
        share_of_step: step.base.mean.num.ne(&0).then(|| cost.value() / step.base.mean.value()),
        certainty,
        sentence,
        table,
    };
    let what = if p.by_step { "step" } else { "capture" };
    let mut all = vec![finding(
        delta,
        if step.is_significant() == Some(true) { Certainty::Measured } else { Certainty::Inferred },
        match delta.num {
            0 => format!("The {what} takes as long as before: {}", fmt_ns(ns(step.test.mean))),
            _ => format!(
                "The {what} is {}: {} -> {} ({}, {}); {}",
                if delta.num > 0 { "slower" } else { "faster" },
                fmt_ns(ns(step.base.mean)),
                fmt_ns(ns(step.test.mean)),
                signed(delta),
                signed_pct(step.delta_pct()),
                noise(&step)
            ),
        },
        Summaries::SPEC.name,
    )];
    // the part that goes the same way and farthest
    let largest = Metric::PARTS.into_iter().map(|m| (m, pair(p, m))).max_by_key(|(_, x)| match delta.num >= 0 {
        true => x.delta().num,
        false => x.delta().num.saturating_neg(),
    });
    if let Some((metric, part)) = largest.filter(|(_, x)| delta.num != 0 && x.delta().num != 0) {
        let share = part.delta().percent_of(delta);
        all.push(finding(
            part.delta(),
            Certainty::Measured,
            format!(
                "{} of the change is {}: {} ({} of it), {} -> {}",
                if share.is_some_and(|s| s > 50.0) { "Most" } else { "The largest part" },
                metric.name().replace('_', " "),
                signed(part.delta()),
                fmt_pct(share),
                fmt_ns(ns(part.base.mean)),
                fmt_ns(ns(part.test.mean))
            ),
            Summaries::SPEC.name,
        ));
    }
    let notable = rows
        .iter()
        .filter(|n| n.label.side == Side::Gpu && n.ns.is_significant() != Some(false))
        .filter(|n| n.ns.delta().percent_of(step.base.mean).is_some_and(|s| s.abs() >= FINDING_MIN_PCT));
    for n in notable.take(NAMED_FINDINGS) {
        let of_step = n.ns.delta().percent_of(step.base.mean);
        let times = match n.change() {
            "increased" | "decreased" => {
                format!(", {:.1} -> {:.1} calls per {what}", n.count[0].value(), n.count[1].value())
            }
            _ => String::new(),
        };
        all.push(finding(
            n.ns.delta(),
            Certainty::Measured,
            format!(
                "`{}` ({}) is {}: {} -> {} per {what}{times}; {} is {} of the {what}",
                clip(&short(&n.label), 60),
                n.label.class,
                kind(n),
                fmt_ns(ns(n.ns.base.mean)),
                fmt_ns(ns(n.ns.test.mean)),
                signed(n.ns.delta()),
                signed_pct(of_step)
            ),
            Names::SPEC.name,
        ));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_path_the_end_is_printed() {
        let path = format!("/{}/rank_0.json.gz", "x".repeat(90));
        let shown = end_of(&path);
        assert!(shown.starts_with("...xx") && shown.ends_with("x/rank_0.json.gz") && shown.len() == PATH, "{shown}");
        assert_eq!(end_of("before/"), "before/");
    }
}
