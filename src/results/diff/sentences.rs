//! What stands out in a comparison, in sentences: the step, the parts that changed, and the names behind it.

use crate::diff::names::NameChange;
use crate::diff::population::Population;
use crate::diff::set::WorkSide;
use crate::diff::summary::{LEAST_CHANGE_PCT, Metric, MetricPair, is_fused_apart, pair};
use crate::diff::threshold::noise;
use crate::diff::words::{kind, ns, short, signed, signed_pct, whole};
use hta_base::table::compare::{MIN_STEPS, Trend};
use hta_base::units::{fmt_ns, fmt_pct};
use hta_base::wording::names::clip;

/// Largest number of sentences about names.
const NAMED_FINDINGS: usize = 3;

/// How the step, or the capture, changed as a whole.
fn of_whole(p: &Population, step: &MetricPair) -> String {
    let what = whole(p);
    let (before, now) = (fmt_ns(ns(step.base.mean)), fmt_ns(ns(step.test.mean)));
    let change = format!("{before} -> {now} ({}, {})", signed(step.delta()), signed_pct(step.delta_pct()));
    if step.delta().num == 0 {
        return format!("The {what} takes as long as before: {now}");
    }
    if !step.is_changed() {
        return format!("The {what} takes as long as before, within 1 %: {change}");
    }
    match step.trend() {
        trend @ (Trend::Slower | Trend::Faster | Trend::Same) => {
            format!("The {what} is {}: {change}; {}", trend.name(), noise(step))
        }
        Trend::WithinNoise => {
            format!("The {what} shows no change that can be told from noise: {change}; {}", noise(step))
        }
        Trend::Unknown => format!("The {what} takes {change}; {}", too_few(p)),
    }
}

/// Why nothing is said about the noise.
fn too_few(p: &Population) -> String {
    match (p.by_step, p.fewest_steps()) {
        (false, _) => "one capture: cannot tell a change from noise".to_string(),
        (true, 0 | 1) => "one step on a side: cannot tell a change from noise".to_string(),
        (true, n) => {
            format!("{n} steps on a side, of which {MIN_STEPS} are needed: cannot tell a change from noise")
        }
    }
}

/// What the change of the whole consists of, or what cancels out where the whole hardly changes.
fn of_parts(p: &Population, step: &MetricPair) -> Option<String> {
    let is_told = |pair: &MetricPair| !matches!(pair.trend(), Trend::Same | Trend::WithinNoise);
    if is_fused_apart(p) {
        return None;
    }
    let parts = || Metric::PARTS.into_iter().map(|m| (m, pair(p, m))).filter(|(_, pair)| is_told(pair));
    if !step.is_changed() {
        let of_step = |pair: &MetricPair| pair.delta().percent_of(step.base.mean).unwrap_or(0.0).abs();
        let changed: Vec<(Metric, MetricPair)> =
            parts().filter(|(_, pair)| of_step(pair) >= LEAST_CHANGE_PCT).collect();
        let told = changed.iter().map(|(m, pair)| format!("{} {}", m.words(), signed(pair.delta())));
        let told = told.collect::<Vec<_>>().join(", ");
        return match changed.len() {
            0 => None,
            1 => Some(format!("One part of it changed, which the others cancel out: {told}")),
            _ => Some(format!("Parts of it changed and cancel each other out: {told}")),
        };
    }
    if step.trend() == Trend::WithinNoise {
        return None;
    }
    // The part with the largest change in the same direction as the total.
    let (metric, part) = parts().max_by_key(|(_, pair)| match step.delta().num >= 0 {
        true => pair.delta().num,
        false => pair.delta().num.saturating_neg(),
    })?;
    let share = step.share_of_change(part.delta());
    Some(format!(
        "{} of the change is {}: {} ({} of it), {} -> {}",
        if share.is_some_and(|s| s > 50.0) { "Most" } else { "The largest part" },
        metric.words(),
        signed(part.delta()),
        fmt_pct(share),
        fmt_ns(ns(part.base.mean)),
        fmt_ns(ns(part.test.mean))
    ))
}

fn of_name(n: &NameChange, p: &Population, step: &MetricPair) -> String {
    let what = whole(p);
    let times = match n.change() {
        "increased" | "decreased" => {
            format!(", {:.1} -> {:.1} calls per {what}", n.count[0].value(), n.count[1].value())
        }
        _ => String::new(),
    };
    let verb = match kind(n) {
        "" => "takes".to_string(),
        kind => format!("is {kind}:"),
    };
    let of_step = n.ns.delta().percent_of(step.base.mean).map(f64::abs);
    format!(
        "`{}` ({}) {verb} {} -> {} per {what}{times} ({}, {} of the {what})",
        clip(&short(&n.label), 60),
        n.label.class,
        fmt_ns(ns(n.ns.base.mean)),
        fmt_ns(ns(n.ns.test.mean)),
        signed(n.ns.delta()),
        fmt_pct(of_step)
    )
}

pub(crate) fn sentences(p: &Population, rows: &[NameChange]) -> Vec<String> {
    let step = pair(p, Metric::StepTime);
    let mut all = vec![of_whole(p, &step)];
    all.extend(of_parts(p, &step));
    let is_notable = |n: &&NameChange| {
        let of_step = n.ns.delta().percent_of(step.base.mean);
        n.label.side == WorkSide::Gpu
            && n.ns.trend() != Trend::WithinNoise
            && of_step.is_some_and(|pct| pct.abs() >= LEAST_CHANGE_PCT)
    };
    all.extend(rows.iter().filter(is_notable).take(NAMED_FINDINGS).map(|n| of_name(n, p, &step)));
    all
}
