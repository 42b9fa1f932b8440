//! The head of the report: what was read, on which devices, and how steps were found.

use crate::output::columns::wrap;
use crate::output::text::indented;
use crate::output::visible;
use crate::run::Outcome;
use hta_analysis::api;
use hta_analysis::inventory::{self, RankRow, Ranks, edge_notes};
use hta_analysis::verdict::JobVerdict;
use hta_base::units::{fmt_bytes, fmt_count, fmt_ns, fmt_pct, percent};
use hta_base::wording::counts::{counted, plural};
use hta_base::wording::ranks::{rank_list, ranks_named};
use hta_trace::collective::ranks::missing_ranks;
use hta_trace::meta::RankSource;
use hta_trace::step::StepRule;
use std::collections::BTreeSet;
use std::fmt::Write;

/// Ranks, hosts, devices and steps in one line, then what the recording lacks. All that was found on reading
/// follows in a full report.
pub(super) fn header(
    out: &mut String,
    outcome: &Outcome,
    told: Option<&JobVerdict>,
    width: usize,
    is_full: bool,
) {
    let rows: Vec<RankRow> = api::rows::<Ranks>(&outcome.inventory).collect();
    let ranks = outcome.ranks();
    let world = rows.iter().filter_map(|r| r.world_size).max();
    for l in wrap(&about(&rows, &ranks, told), width) {
        let _ = writeln!(out, "{l}");
    }
    if let Some(told) = told {
        indented(out, "recorded: ", &told.recorded, width);
    }
    let notes = inventory::processes_note(&outcome.inventory)
        .into_iter()
        .chain(edge_notes::note(&outcome.inventory).map(|note| format!("note: {note}")));
    for note in notes {
        indented(out, "", &note, width);
    }
    if !is_full {
        return;
    }
    let line = format!(
        "hta {}: {}, {} of traces; ranks {}",
        env!("CARGO_PKG_VERSION"),
        counted(rows.iter().map(|r| r.event_count).sum(), "event"),
        fmt_bytes(outcome.unpacked_bytes),
        rank_list(&ranks)
    );
    for l in wrap(&line, width) {
        let _ = writeln!(out, "{l}");
    }
    let mut notes: Vec<String> = Vec::new();
    if let Some(world) = world {
        let (missing, count) = missing_ranks(world, &ranks);
        if count > 0 {
            notes.push(format!("missing: rank{} {missing}", if count == 1 { "" } else { "s" }));
        }
    }
    let rules: Vec<&str> = rows.iter().map(|r| r.step_rule).collect::<BTreeSet<_>>().into_iter().collect();
    let steps = rows.iter().map(|r| r.step_count);
    let (low, high) = (steps.clone().min().unwrap_or(0), steps.max().unwrap_or(0));
    let count = if low == high { low.to_string() } else { format!("{low} to {high}") };
    notes.push(match rules.as_slice() {
        ["capture"] => format!("steps: none found, the whole capture counts as one{}", repeated(&rows)),
        [one] => format!("steps: {count} per rank, from {}{}", step_rule(one), device_windows(&rows)),
        _ => {
            format!(
                "steps: {count} per rank, found in different ways ({}): compare ranks by capture",
                rules.join(", ")
            )
        }
    });
    let unlinked = rows.iter().map(|r| r.unlinked_count).sum::<u64>();
    if unlinked > 0 {
        notes.push(format!(
            "unlinked: {} of {} GPU activities ({} of GPU time) have no launch record",
            fmt_count(unlinked),
            fmt_count(rows.iter().map(|r| r.activity_count).sum()),
            fmt_pct(percent(
                rows.iter().map(|r| r.unlinked_ns).sum(),
                rows.iter().map(|r| r.gpu_sum_ns).sum()
            ))
        ));
    }
    for note in notes {
        for (k, l) in wrap(&note, width.saturating_sub(2)).iter().enumerate() {
            let _ = writeln!(out, "{}{l}", if k == 0 { "" } else { "  " });
        }
    }
}

/// How many ranks there are, on what, and how many steps they take for how long.
fn about(rows: &[RankRow], ranks: &[u32], told: Option<&JobVerdict>) -> String {
    let world = rows.iter().filter_map(|r| r.world_size).max();
    let are_processes = rows.iter().any(|r| r.rank_source == RankSource::Process.name());
    let mut what = vec![match (are_processes, world) {
        (true, _) => format!("{} processes", ranks.len()),
        (_, Some(world)) if world as usize != ranks.len() => format!("{} of {world} ranks", ranks.len()),
        _ => plural(ranks.len(), "rank"),
    }];
    let hosts = rows.iter().filter_map(|r| r.host_name).collect::<BTreeSet<_>>().len();
    if hosts > 1 {
        what[0] = format!("{} on {hosts} hosts", what[0]);
    }
    let devices: BTreeSet<&str> = rows.iter().filter_map(|r| r.device_name).collect();
    what.extend(devices.into_iter().map(str::to_string));
    if let Some(totals) = told.map(|t| &t.totals).filter(|t| t.step_count > 0) {
        let each = fmt_ns(totals.time_ns / i64::from(totals.step_count));
        let has_steps = rows.iter().all(|r| r.step_count > 0);
        let noun = if rows.iter().any(|r| is_iteration(r.step_rule)) { "iteration" } else { "step" };
        what.push(match has_steps {
            true => format!("{} of {each}", plural(totals.step_count as usize, noun)),
            false => format!("{each} recorded, without steps"),
        });
    }
    what.join(", ")
}

/// What repeats without being steps, on the first rank that has such.
fn repeated(rows: &[RankRow]) -> String {
    rows.iter().find_map(|r| r.repeated).map_or_else(String::new, |what| format!("; {}", visible::line(what)))
}

/// The ranks whose steps have the windows of the device, if they are not iterations, which always have.
fn device_windows(rows: &[RankRow]) -> String {
    let of: Vec<&RankRow> =
        rows.iter().filter(|r| r.step_window == "device" && !is_iteration(r.step_rule)).collect();
    let Some(most) = of.iter().filter_map(|r| r.step_lag_ns).max() else { return String::new() };
    let ranks: Vec<u32> = of.iter().map(|r| r.rank).collect();
    let whose =
        if ranks.len() == rows.len() { String::new() } else { format!(" of {}", ranks_named(&ranks)) };
    let lag = if rows.len() == 1 { fmt_ns(most) } else { format!("up to {}", fmt_ns(most)) };
    match most > 0 {
        true => format!(
            "; windows{whose} on the device, whose work ends {lag} after the host's step (--step-window)"
        ),
        false => format!("; windows{whose} on the device (--step-window)"),
    }
}

fn is_iteration(rule: &str) -> bool {
    StepRule::ALL.iter().any(|r| r.name() == rule && r.is_iteration())
}

fn step_rule(name: &str) -> &'static str {
    match name {
        "profiler_step" => "`ProfilerStep#n` annotations",
        "pattern" => "--step-pattern",
        "iteration" => "the names of an engine's iterations",
        "annotation" => "annotations that repeat",
        "inner_annotation" => "annotations that repeat inside another one",
        "repeat" => "kernels that repeat, because no range names a step",
        _ => "the whole capture",
    }
}
