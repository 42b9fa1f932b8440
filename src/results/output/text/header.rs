//! The head of the report: what was read, on which devices, and how steps were found.

use crate::output::columns::hanging;
use crate::output::visible;
use crate::run::Outcome;
use hta_analysis::api;
use hta_analysis::inventory::{self, RankRow, Ranks, edge_notes};
use hta_analysis::verdict::JobVerdict;
use hta_base::units::{fmt_bytes, fmt_count, fmt_ns, fmt_pct, percent};
use hta_base::wording::counts::{counted, plural};
use hta_base::wording::ranks::{rank_list, ranks_in_column};
use hta_job::recording::capability::Capability;
use hta_job::recording::limit::Limit;
use hta_job::recording::step_noun;
use hta_trace::meta::RankSource;
use hta_trace::step::StepRule;
use std::collections::BTreeSet;

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
    // Device rows may stand behind the cut of a file.
    let is_cut = outcome.recording.worst(&[Capability::DeviceTime]).is_some_and(Limit::is_behind_cut);
    let is_of_host = !is_cut && told.is_some_and(JobVerdict::is_of_host);
    hanging(out, "", &about(&rows, &ranks, told, is_of_host), width);
    let headline = told.and_then(|t| t.headline.as_deref());
    headline.into_iter().for_each(|line| hanging(out, "", line, width));
    let energy = told.and_then(|t| t.energy.as_deref());
    energy.into_iter().for_each(|line| hanging(out, "energy: ", line, width));
    let (found, is_usual) = steps(&rows);
    let has_events = rows.iter().any(|r| r.event_count > 0);
    if has_events && (is_full || !is_usual) {
        hanging(out, "steps: ", &found, width);
    }
    if let Some(told) = told {
        hanging(out, "recorded: ", &told.recorded, width);
    }
    let notes = inventory::processes_note(&outcome.inventory)
        .into_iter()
        .chain(edge_notes::moved_clocks(&outcome.inventory).map(|note| format!("note: {note}")))
        .chain(edge_notes::note(&outcome.inventory).map(|note| format!("note: {note}")));
    for note in notes {
        hanging(out, "", &note, width);
    }
    if !is_full {
        return;
    }
    let line = format!(
        "hta {}: {}, {} of traces",
        env!("CARGO_PKG_VERSION"),
        counted(rows.iter().map(|r| r.event_count).sum(), "event"),
        fmt_bytes(outcome.unpacked_bytes),
    );
    hanging(out, "", &line, width);
    let unlinked = rows.iter().map(|r| r.unlinked_count).sum::<u64>();
    if unlinked > 0 {
        let sum = |of: fn(&RankRow) -> i64| rows.iter().map(of).sum::<i64>();
        let line = format!(
            "{} of {} GPU activities ({} of GPU time) have no launch record",
            fmt_count(unlinked),
            fmt_count(rows.iter().map(|r| r.activity_count).sum()),
            fmt_pct(percent(sum(|r| r.unlinked_ns), sum(|r| r.gpu_sum_ns)))
        );
        hanging(out, "unlinked: ", &line, width);
    }
}

/// How steps were found and what their windows are; and whether that is what everybody expects: annotations
/// of the training loop, with the windows of the host.
fn steps(rows: &[RankRow]) -> (String, bool) {
    let rules: Vec<&str> = rows.iter().map(|r| r.step_rule).collect::<BTreeSet<_>>().into_iter().collect();
    let (low, high) = rows
        .iter()
        .map(|r| r.step_count)
        .fold((u64::MAX, 0), |(low, high), n| (low.min(u64::from(n)), high.max(u64::from(n))));
    let count = if low == high { low.to_string() } else { format!("{low} to {high}") };
    let windows = device_windows(rows);
    match rules.as_slice() {
        ["capture"] => (format!("none found, the whole capture counts as one{}", repeated(rows)), false),
        [one] => {
            let is_usual = [StepRule::ProfilerStep, StepRule::Iteration].iter().any(|r| r.name() == *one);
            let is_usual = is_usual && windows.is_empty() && low == high;
            (format!("{count} per rank, from {}{windows}", step_rule(one)), is_usual)
        }
        _ => {
            let rules = rules.join(", ");
            (
                format!("{count} per rank, found in different ways ({rules}): whole recordings are compared"),
                false,
            )
        }
    }
}

/// How many ranks there are, on what, and how many steps they take for how long.
fn about(rows: &[RankRow], ranks: &[u32], told: Option<&JobVerdict>, is_of_host: bool) -> String {
    let world = rows.iter().filter_map(|r| r.world_size).max();
    let are_processes = rows.iter().any(|r| r.rank_source == RankSource::Process.name());
    let count = match (are_processes, world) {
        (true, _) => format!("{} processes", ranks.len()),
        (_, Some(world)) if world as usize != ranks.len() => format!("{} of {world} ranks", ranks.len()),
        (_, Some(2)) => "both ranks".to_string(),
        (_, Some(world)) if world > 2 => format!("all {world} ranks"),
        _ => plural(ranks.len(), "rank"),
    };
    let mut what = vec![format!("{count} ({})", programs(rows).unwrap_or_else(|| rank_list(ranks)))];
    let hosts = rows.iter().filter_map(|r| r.host_name).collect::<BTreeSet<_>>().len();
    if hosts > 1 {
        what[0] = format!("{} on {hosts} hosts", what[0]);
    }
    let devices: BTreeSet<&str> = rows.iter().filter_map(|r| r.device_name).collect();
    what.extend(devices.into_iter().map(str::to_string));
    if is_of_host {
        what.push("CPU".to_string());
    }
    if let Some(totals) = told.map(|t| &t.totals).filter(|t| t.step_count > 0) {
        let each = fmt_ns(totals.length_ns / i64::from(totals.step_count));
        let is_one_rule = rows.windows(2).all(|w| w[0].role != w[1].role || w[0].step_rule == w[1].step_rule);
        let has_steps = is_one_rule && rows.iter().all(|r| r.step_rule != StepRule::Capture.name());
        let noun = step_noun(rows.iter().any(|r| StepRule::names_iterations(r.step_rule)));
        // The mean of two that differ is the length of neither.
        let longest = totals.longest_step_ns;
        let shortest = totals.length_ns - longest;
        let each = match totals.step_count {
            2 if longest * 2 > shortest * 3 => format!("{} and {}", fmt_ns(shortest), fmt_ns(longest)),
            _ => each,
        };
        what.push(match has_steps {
            true => format!("{} of {each}", plural(totals.step_count as usize, noun)),
            false => format!("{each} from the first to the last work, without steps"),
        });
    }
    what.join(", ")
}

/// The roles of a job of several programs with their ranks: `actor 0-3, rollout 4, 5`.
fn programs(rows: &[RankRow]) -> Option<String> {
    let mut by_role: Vec<(&str, Vec<u32>)> = Vec::new();
    for row in rows {
        let role = row.role?;
        match by_role.iter_mut().find(|(name, _)| *name == role) {
            Some((_, ranks)) => ranks.push(row.rank),
            None => by_role.push((role, vec![row.rank])),
        }
    }
    let shown = by_role.iter().map(|(role, ranks)| format!("{role} {}", rank_list(ranks)));
    Some(shown.collect::<Vec<_>>().join(", ")).filter(|text| !text.is_empty())
}

/// What repeats without being steps, on the first rank that has such.
fn repeated(rows: &[RankRow]) -> String {
    rows.iter().find_map(|r| r.repeated).map_or_else(String::new, |what| format!("; {}", visible::line(what)))
}

/// The ranks whose steps have the windows of the device, if they are not iterations, which always have.
fn device_windows(rows: &[RankRow]) -> String {
    let of: Vec<&RankRow> = rows
        .iter()
        .filter(|r| r.step_window == "device" && !StepRule::names_iterations(r.step_rule))
        .collect();
    let Some(most) = of.iter().filter_map(|r| r.step_lag_ns).max() else { return String::new() };
    let ranks: Vec<u32> = of.iter().map(|r| r.rank).collect();
    let whose = match ranks.len() == rows.len() {
        true => String::new(),
        false => format!(" of ranks {}", ranks_in_column(&ranks)),
    };
    let lag = if rows.len() == 1 { fmt_ns(most) } else { format!("up to {}", fmt_ns(most)) };
    match most > 0 {
        true => format!(
            "; windows{whose} on the device, whose work ends {lag} after the host's step (--step-window)"
        ),
        false => format!("; windows{whose} on the device (--step-window)"),
    }
}

fn step_rule(name: &str) -> &'static str {
    match name {
        "profiler_step" => "`ProfilerStep#n` annotations",
        "pattern" => "--step-pattern",
        "iteration" => "the names of an engine's iterations",
        "loop" => "the turns of a loop of several roles",
        "annotation" => "annotations that repeat",
        "inner_annotation" => "annotations that repeat inside another one",
        "repeat" => "kernels that repeat, because no range names a step",
        _ => "the whole capture",
    }
}
