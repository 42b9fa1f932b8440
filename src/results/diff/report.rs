//! The report of a diff: the step before and after, what the change consists of, and its significance.

use crate::diff::comparability::ComparisonGrade;
use crate::diff::comparable::{SetDifferences, differences};
use crate::diff::exact::ExactFraction;
use crate::diff::iterations::{DiffIterations, IterationChanges};
use crate::diff::names::{DiffKey, NameChange, compare as compare_names, share, trees};
use crate::diff::notes::{notes, of_population};
use crate::diff::population::{Population, PopulationError};
use crate::diff::sentences::sentences;
use crate::diff::set::{Set, WorkSide};
use crate::diff::summary::{Metric, MetricPair, is_fused_apart, pair};
use crate::diff::threshold::{Threshold, ThresholdVerdict};
use crate::diff::words::{WITHIN, kind, ns, short, signed, signed_pct, whole};
use crate::diff::{BY, DiffNames, names, summary};
use hta_analysis::api::{Options, Output};
use hta_analysis::printed::{View, number, text};
use hta_analysis::settings::SHORT_NAMES;
use hta_base::units::{fmt_count, fmt_ns, fmt_pct};
use hta_base::wording::counts::{counted, plural};

/// Length of the bar of the longer side, characters.
const BAR: usize = 40;

/// Compares two sets and makes tables, sentences, views and the verdicts on thresholds. `forced`: also
/// sets whose steps are different work.
///
/// # Errors
/// When a set has none of the selected steps, or a step of one is different work than a step of the other.
pub(crate) fn compare(
    base: &Set,
    test: &Set,
    thresholds: &[Threshold],
    forced: bool,
    options: &Options,
) -> Result<(Output, Vec<ThresholdVerdict>), PopulationError> {
    let p = Population::choose(base, test, options.model.steps.is_some())?;
    let mut found = found(&p, options);
    if !forced && !found.refusals.is_empty() {
        return Err(PopulationError::Different { reasons: found.refusals });
    }
    let verdicts: Vec<ThresholdVerdict> = thresholds.iter().map(|t| t.judge(&p)).collect();
    // Recorders write the same name differently.
    let short = options.settings.flag(&SHORT_NAMES) || p.has_two_recorders();
    let key = key(&p, options);
    let by = match key {
        "name" if short => DiffKey::ShortName,
        "name" => DiffKey::Name,
        _ => DiffKey::Owner { short },
    };
    let rows = compare_names(&p, by);
    let grade = ComparisonGrade::new(&p, &found);
    let mut tables = vec![summary::table(&p), names::table(&p, &rows), summary::steps(&p), grade.table()];
    let iterations = IterationChanges::of_both(p.iterations());
    tables.push(
        iterations.as_ref().map_or_else(|| DiffIterations::default().finish(), IterationChanges::table),
    );
    if let Some(changes) = &iterations {
        found.warnings.extend(changes.warning());
    }
    let mut said = iterations.as_ref().map_or_else(Vec::new, IterationChanges::sentences);
    said.extend(sentences(&p, &rows));
    let mut views = vec![head(&p, &found, options), parts(&p)];
    if !verdicts.is_empty() {
        views.insert(1, judged(&verdicts));
    }
    views.extend(iterations.map(|changes| changes.view(options.top)));
    views.extend(named(&p, &rows, (WorkSide::Gpu, key), options));
    views.extend(named(&p, &rows, (WorkSide::Host, "name"), options));
    Ok((Output { tables, sentences: said, views, ..Output::default() }, verdicts))
}

/// What GPU rows are: kernels of different makers of devices are other kernels, so that only what they do can
/// be compared.
fn key<'a>(p: &Population, options: &'a Options) -> &'a str {
    let is_open = p.has_two_vendors() && !options.settings.is_given(&BY);
    if is_open { "category" } else { options.settings.text(&BY).unwrap_or("name") }
}

/// What two sets are compared by.
pub struct DiffBasis {
    /// How far the sets can be compared, then ranks and steps, in sentences.
    pub population: Vec<String>,
    pub(crate) differences: SetDifferences,
}

/// Says what [`compare`] compares, and what differs besides the figures.
///
/// # Errors
/// When a set has none of the selected steps.
pub(crate) fn compared(base: &Set, test: &Set, options: &Options) -> Result<DiffBasis, PopulationError> {
    let p = Population::choose(base, test, options.model.steps.is_some())?;
    let differences = found(&p, options);
    let mut population = vec![ComparisonGrade::new(&p, &differences).sentence()];
    population.extend(of_population(&p));
    Ok(DiffBasis { population, differences })
}

fn found(p: &Population, options: &Options) -> SetDifferences {
    let mut found = differences(p, [&p.base, &p.test].map(|side| side.set.withheld.as_deref()));
    if p.has_two_recorders() && !options.settings.flag(&SHORT_NAMES) {
        found.warnings.push(
            "names are compared as with --short-names, because recorders write them differently".to_string(),
        );
    }
    if p.has_two_vendors() && !options.settings.is_given(&BY) {
        found.warnings.push(
            "GPU time is compared by category, because kernels of different makers have different names"
                .to_string(),
        );
    }
    found
}

/// The first view: what was compared, and the two steps as bars.
///
/// ```text
///   base  100 ms  ####################~~~===---.........
///   test  112 ms  ########################~~===--............
/// ```
fn head(p: &Population, found: &SetDifferences, options: &Options) -> View {
    let step = pair(p, Metric::StepTime);
    let longest = step.base.mean.value().max(step.test.mean.value());
    let row = |name: &str, side: fn(&MetricPair) -> ExactFraction| -> Vec<String> {
        vec![name.to_string(), fmt_ns(ns(side(&step))), bar(p, side, longest)]
    };
    let fused = pair(p, Metric::Fused);
    let has_fused = fused.base.mean.num > 0 || fused.test.mean.num > 0;
    let marks = match has_fused {
        true => "compute # fused + waiting ~ transfer = unmatched ? copies - idle .",
        false => "compute # waiting ~ transfer = unmatched ? copies - idle .",
    };
    View {
        title: format!("Before and after, mean per {}", p.scope()),
        columns: vec![text("set"), number("step"), text(marks)],
        rows: vec![row("base", |pair| pair.base.mean), row("test", |pair| pair.test.mean)],
        notes: notes(p, found, options),
    }
}

fn bar(p: &Population, side: fn(&MetricPair) -> ExactFraction, longest: f64) -> String {
    let marks = ['#', '+', '~', '=', '?', '-', '.'];
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

fn judged(verdicts: &[ThresholdVerdict]) -> View {
    let row = |v: &ThresholdVerdict| {
        vec![v.text.clone(), if v.is_crossed { "crossed" } else { "ok" }.to_string(), v.found.clone()]
    };
    let unknown = verdicts.iter().filter(|v| v.is_unknown);
    View {
        title: "Thresholds".to_string(),
        columns: vec![text("--fail-if"), text(""), text("base -> test")],
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
    let step = pair(p, Metric::StepTime);
    let all: Vec<(Metric, MetricPair)> = Metric::ALL.into_iter().map(|m| (m, pair(p, m))).collect();
    let (has_shares, has_noise) = (step.is_changed(), step.compared().error.is_some());
    // What neither side has is left out, but not that a part is gone.
    let is_shown = |(metric, pair): &&(Metric, MetricPair)| {
        *metric == Metric::StepTime || pair.base.mean.num != 0 || pair.test.mean.num != 0
    };
    let shown: Vec<&(Metric, MetricPair)> = all.iter().filter(is_shown).collect();
    let is_apart = is_fused_apart(p);
    let row = |(metric, pair): &&(Metric, MetricPair)| {
        let is_told = !(is_apart && metric.is_of_exchange());
        let name = if *metric == Metric::StepTime { format!("{} time", whole(p)) } else { metric.words() };
        let mut row = vec![
            name,
            fmt_ns(ns(pair.base.mean)),
            fmt_ns(ns(pair.test.mean)),
            if is_told { signed(pair.delta()) } else { "-".to_string() },
            signed_pct(pair.delta_pct().filter(|_| is_told)),
        ];
        if has_shares {
            let share = if is_told && metric.has_share() { step.share_of_change(pair.delta()) } else { None };
            row.push(fmt_pct(share));
        }
        if has_noise {
            row.push(if is_told { pair.trend().noise() } else { "-" }.to_string());
        }
        row
    };
    let what = whole(p);
    let mut columns = vec![text(""), number("base"), number("test"), number("change")];
    columns.push(number("of base"));
    let mut notes = vec![format!("the rows from compute to idle sum to the {what} time")];
    if has_shares {
        columns.push(number("share"));
        notes.push(format!("share: of the change of the {what} time"));
    } else {
        notes.push(format!("no shares: a {what} that changes by less than 1 % has no change to divide"));
    }
    if has_noise {
        columns.push(text("noise"));
        notes.push("noise: beyond, or within three standard errors over steps".to_string());
    }
    if shown.iter().any(|(metric, _)| *metric == Metric::Unmatched) {
        notes.push("unmatched: communication that cannot be divided into waiting and transfer".to_string());
    }
    let title = format!("What the {what} consists of");
    View { title, columns, rows: shown.iter().map(row).collect(), notes }
}

/// How many names changed in which way.
fn counts(changed: &[&NameChange], all: usize) -> String {
    let of = counted(all as u64, "name");
    let count = |what: &str| changed.iter().filter(|n| kind(n) == what).count();
    let kinds =
        [("slower", "slower"), ("faster", "faster"), ("added", "added"), ("deleted", "deleted")].into_iter();
    let more = [(WITHIN, "not to tell from noise"), ("", "changed")].into_iter();
    let told: Vec<String> = kinds
        .chain(more)
        .map(|(kind, words)| (count(kind), words))
        .filter(|(n, _)| *n > 0)
        .map(|(n, words)| format!("{} {words}", fmt_count(n as u64)))
        .collect();
    if told.is_empty() { format!("none of {of} differs") } else { format!("of {of}: {}", told.join(", ")) }
}

/// The names that changed most on one side. They are compared by their time without enclosed events, because
/// host rows are nested.
fn named(
    p: &Population,
    rows: &[NameChange],
    (side, key): (WorkSide, &str),
    options: &Options,
) -> Option<View> {
    let trees = trees(p, rows);
    let mut changed: Vec<&NameChange> = rows.iter().filter(|n| n.label.side == side).collect();
    let all = changed.len();
    changed.retain(|n: &&NameChange| n.own.delta().num != 0 || n.count_delta().num != 0);
    if all == 0 {
        return None;
    }
    changed.sort_by(|a, b| {
        let size = |n: &NameChange| n.own.delta().num.unsigned_abs();
        size(b).cmp(&size(a)).then_with(|| a.label.cmp(&b.label))
    });
    let shown: Vec<&NameChange> = changed.iter().take(options.top).copied().collect();
    let has_shares = shown.iter().any(|n| share(n, &trees).is_some());
    let row = |n: &&NameChange| {
        let name = if side == WorkSide::Gpu { short(&n.label) } else { n.label.name.to_string() };
        let mut row = vec![
            kind(n).to_string(),
            name,
            fmt_ns(ns(n.own.base.mean)),
            fmt_ns(ns(n.own.test.mean)),
            signed(n.own.delta()),
        ];
        row.extend(has_shares.then(|| fmt_pct(share(n, &trees))));
        row
    };
    let mut notes = vec![counts(&changed, all)];
    if changed.len() > options.top {
        let more = plural(changed.len() - options.top, "more name");
        notes.push(format!("{more} in the table {}", DiffNames::SPEC.name));
    }
    let (title, meaning, of) = match side {
        WorkSide::Gpu => ("GPU time", "kernels that run at the same time count twice", "all GPU time"),
        WorkSide::Host => ("Host time", "time without what an event encloses", "its call tree"),
    };
    if !shown.is_empty() {
        notes.push(meaning.to_string());
        notes.push(match has_shares {
            true => format!("share: of the change of {of}"),
            false => format!("no shares: the {} or {of} changes by less than 1 %", whole(p)),
        });
    }
    if shown.iter().any(|n| kind(n) == WITHIN) {
        notes.push(format!("{WITHIN}: the change is within three standard errors over steps"));
    }
    let mut columns = vec![text(""), text("name"), number("base"), number("test"), number("change")];
    columns.extend(has_shares.then_some(number("share")));
    let title = format!("{title} by {key}, per {}", p.scope());
    Some(View { title, columns, rows: shown.iter().map(row).collect(), notes })
}
