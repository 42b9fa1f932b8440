//! The report of a diff: the step before and after, what the change consists of, and its significance.

use crate::diff::comparable::{SetDifferences, differences};
use crate::diff::exact::ExactFraction;
use crate::diff::iterations::{DiffIterations, IterationChanges};
use crate::diff::names::{DiffKey, NameChange, NameKey, compare as compare_names, share, trees};
use crate::diff::notes::{notes, of_population};
use crate::diff::population::{Population, PopulationError};
use crate::diff::set::{Set, WorkSide};
use crate::diff::summary::{Metric, MetricPair, pair};
use crate::diff::threshold::{Threshold, ThresholdVerdict, noise};
use crate::diff::{BY, DiffNames, STEM, Summaries, names, summary};
use hta_analysis::api::{Align, Certainty, Observation, Options, Output, View};
use hta_analysis::settings::SHORT_NAMES;
use hta_base::units::{Ns, fmt_count, fmt_ns, fmt_pct};
use hta_base::wording::counts::{counted, plural};
use hta_base::wording::names::clip;
use hta_trace::kernel::short_name;

/// Length of the bar of the longer side, characters.
const BAR: usize = 40;

/// Least change of a name that makes an observation, percent of the step.
const FINDING_MIN_PCT: f64 = 1.0;

/// Largest number of observations about names.
const NAMED_FINDINGS: usize = 3;

/// Compares two sets and makes tables, observations, views and the verdicts on thresholds. `forced`: also
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
    let by = match options.settings.text(&BY) {
        None | Some("name") if short => DiffKey::ShortName,
        None | Some("name") => DiffKey::Name,
        Some(_) => DiffKey::Owner { short },
    };
    let rows = compare_names(&p, by);
    let mut tables = vec![summary::table(&p), names::table(&p, &rows), summary::steps(&p)];
    let [before, after] = p.iterations();
    let iterations = IterationChanges::new(&before, &after);
    tables.push(
        iterations.as_ref().map_or_else(|| DiffIterations::default().finish(), IterationChanges::table),
    );
    if let Some(changes) = &iterations {
        found.warnings.extend(changes.warning());
    }
    let mut seen = iterations.as_ref().map_or_else(Vec::new, IterationChanges::observations);
    seen.extend(observations(&p, &rows));
    let mut views = vec![head(&p, &found, options), parts(&p)];
    if !verdicts.is_empty() {
        views.insert(1, judged(&verdicts));
    }
    views.extend(iterations.map(|changes| changes.view(options.top)));
    views.extend(named(&p, &rows, WorkSide::Gpu, options));
    views.extend(named(&p, &rows, WorkSide::Host, options));
    Ok((Output { tables, observations: seen, views, ..Output::default() }, verdicts))
}

/// What two sets are compared by.
pub(crate) struct DiffBasis {
    /// Ranks and steps, in sentences.
    pub(crate) population: Vec<String>,
    pub(crate) differences: SetDifferences,
}

/// Says what [`compare`] compares, and what differs besides the figures.
///
/// # Errors
/// When a set has none of the selected steps.
pub(crate) fn compared(base: &Set, test: &Set, options: &Options) -> Result<DiffBasis, PopulationError> {
    let p = Population::choose(base, test, options.model.steps.is_some())?;
    Ok(DiffBasis { population: of_population(&p), differences: found(&p, options) })
}

fn found(p: &Population, options: &Options) -> SetDifferences {
    let mut found = differences(p, [&p.base, &p.test].map(|side| side.set.withheld.as_deref()));
    if p.has_two_recorders() && !options.settings.flag(&SHORT_NAMES) {
        found.warnings.push(
            "names are compared as with --short-names, because recorders write them differently".to_string(),
        );
    }
    found
}

fn ns(x: ExactFraction) -> Ns {
    x.value().round() as Ns
}

fn signed(x: ExactFraction) -> String {
    format!("{}{}", if x.num > 0 { "+" } else { "" }, fmt_ns(ns(x)))
}

fn signed_pct(x: Option<f64>) -> String {
    x.map_or_else(|| "-".to_string(), |v| format!("{v:+.1} %"))
}

/// The first view: what was compared, and the two steps as bars.
///
/// ```text
///   base  100 ms  ####################======---.........
///   test  112 ms  ########################=====--............
/// ```
fn head(p: &Population, found: &SetDifferences, options: &Options) -> View {
    let step = pair(p, Metric::StepTime);
    let longest = step.base.mean.value().max(step.test.mean.value());
    let row = |name: &str, side: fn(&MetricPair) -> ExactFraction| -> Vec<String> {
        vec![name.to_string(), fmt_ns(ns(side(&step))), bar(p, side, longest)]
    };
    View {
        title: format!("Before and after, mean per {}", p.scope()),
        columns: vec![
            ("set", Align::Left),
            ("step", Align::Right),
            ("#compute =comm -mem .idle", Align::Left),
        ],
        rows: vec![row("base", |pair| pair.base.mean), row("test", |pair| pair.test.mean)],
        notes: notes(p, found, options),
    }
}

fn bar(p: &Population, side: fn(&MetricPair) -> ExactFraction, longest: f64) -> String {
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

fn judged(verdicts: &[ThresholdVerdict]) -> View {
    let row = |v: &ThresholdVerdict| {
        vec![v.text.clone(), if v.is_crossed { "crossed" } else { "ok" }.to_string(), v.found.clone()]
    };
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

fn surety(pair: &MetricPair) -> &'static str {
    match pair.is_significant() {
        _ if pair.delta().num == 0 => "",
        Some(true) => "beyond",
        Some(false) => "within",
        None => "-",
    }
}

/// Marks a change that is within the noise.
const WITHIN: &str = "~";

/// Marks a GPU row whose change is within the noise. Host rows have no mark, because their noise is known
/// only for the total time, not for the self time.
fn mark(n: &NameChange) -> &'static str {
    if n.ns.delta().num != 0 && n.ns.is_significant() == Some(false) { WITHIN } else { "" }
}

/// A name that is short enough for a line; the table has the full name.
fn short(label: &NameKey) -> String {
    short_name(&label.name)
}

/// The kind of change in words; appearing and disappearing come before slower and faster.
fn kind(n: &NameChange) -> &'static str {
    match n.change() {
        change @ ("added" | "deleted") => change,
        _ => n.trend(),
    }
}

/// The names that changed most on one side. On the host they are compared by self time, because host rows are
/// nested.
fn named(p: &Population, rows: &[NameChange], side: WorkSide, options: &Options) -> Option<View> {
    let trees = trees(rows);
    let own = |n: &NameChange| n.own_delta();
    let mut changed: Vec<&NameChange> = rows.iter().filter(|n| n.label.side == side).collect();
    let all = changed.len();
    changed.retain(|n: &&NameChange| own(n).num != 0 || n.count_delta().num != 0);
    if all == 0 {
        return None;
    }
    changed.sort_by(|a, b| {
        own(b).num.unsigned_abs().cmp(&own(a).num.unsigned_abs()).then_with(|| a.label.cmp(&b.label))
    });
    let shown: Vec<Vec<String>> = changed
        .iter()
        .take(options.top)
        .map(|n| {
            vec![
                kind(n).to_string(),
                if side == WorkSide::Gpu { short(&n.label) } else { n.label.name.to_string() },
                fmt_ns(ns(n.own[0])),
                fmt_ns(ns(n.own[1])),
                signed(own(n)),
                fmt_pct(share(n, &trees)),
                if side == WorkSide::Gpu { mark(n).to_string() } else { String::new() },
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
    let of = counted(all as u64, "name");
    let mut notes = vec![if counts.is_empty() {
        format!("none of {of} differs")
    } else {
        format!("of {of}: {}", counts.join(", "))
    }];
    if changed.len() > options.top {
        notes.push(format!(
            "{} in the table {}",
            plural(changed.len() - options.top, "more name"),
            DiffNames::SPEC.name
        ));
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
        WorkSide::Gpu => {
            columns.push(("", Align::Left));
            notes.push("share: of the change of all GPU time; what runs at once counts twice".to_string());
            if shown.iter().any(|r| r.last().is_some_and(|m| m == WITHIN)) {
                notes.push(format!("{WITHIN} within the noise of the steps"));
            }
            format!("GPU time by {}, per {}", options.settings.text(&BY).unwrap_or("name"), p.scope())
        }
        WorkSide::Host => {
            notes.push("without what an event encloses; share: of the change of its call tree".to_string());
            format!("Host time by name, per {}", p.scope())
        }
    };
    Some(View { title, columns, rows: shown, notes })
}

/// How the step, or the capture, changed as a whole.
fn of_whole(what: &str, step: &MetricPair) -> String {
    let delta = step.delta();
    let (before, now) = (fmt_ns(ns(step.base.mean)), fmt_ns(ns(step.test.mean)));
    if delta.num == 0 {
        return format!("The {what} takes as long as before: {now}");
    }
    let slower = if delta.num > 0 { "slower" } else { "faster" };
    let (change, share) = (signed(delta), signed_pct(step.delta_pct()));
    format!("The {what} is {slower}: {before} -> {now} ({change}, {share}); {}", noise(step))
}

fn observations(p: &Population, rows: &[NameChange]) -> Vec<Observation> {
    let step = pair(p, Metric::StepTime);
    let delta = step.delta();
    let observation = |cost: ExactFraction, certainty, sentence, table| Observation {
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
    let mut all = vec![observation(
        delta,
        if step.is_significant() == Some(true) { Certainty::Measured } else { Certainty::Inferred },
        of_whole(what, &step),
        Summaries::SPEC.name,
    )];
    // The part with the largest change in the same direction as the total.
    let largest =
        Metric::PARTS.into_iter().map(|m| (m, pair(p, m))).max_by_key(|(_, x)| match delta.num >= 0 {
            true => x.delta().num,
            false => x.delta().num.saturating_neg(),
        });
    if let Some((metric, part)) = largest.filter(|(_, x)| delta.num != 0 && x.delta().num != 0) {
        let share = part.delta().percent_of(delta);
        all.push(observation(
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
        .filter(|n| n.label.side == WorkSide::Gpu && n.ns.is_significant() != Some(false))
        .filter(|n| n.ns.delta().percent_of(step.base.mean).is_some_and(|s| s.abs() >= FINDING_MIN_PCT));
    for n in notable.take(NAMED_FINDINGS) {
        let of_step = n.ns.delta().percent_of(step.base.mean);
        let times = match n.change() {
            "increased" | "decreased" => {
                format!(", {:.1} -> {:.1} calls per {what}", n.count[0].value(), n.count[1].value())
            }
            _ => String::new(),
        };
        all.push(observation(
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
            DiffNames::SPEC.name,
        ));
    }
    all
}
