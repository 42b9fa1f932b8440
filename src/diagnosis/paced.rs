//! Loops that a clock drives, such as that of a camera: a step starts when its turn comes, whatever the one
//! before it cost. Faster work only waits longer, so nothing can be saved.
//!
//! ```text
//!   turns    |         |         |         |
//!   work     [====)....[======)..[==)......[=====)
//! ```
//!
//! A loop that is slowed by its host has equal steps, too, but equal work in them, or a host that launches
//! all the time; and its deviations add up, whereas those of a clock do not.

use crate::CauseKind;
use crate::account::{JobAccount, JobStep, TimePart};
use crate::cause::Cause;
use crate::certainty::CauseCertainty;
use hta_base::order_statistics::median;
use hta_base::units::{Ns, fmt_ns, fmt_number};
use hta_job::Job;
use hta_job::delay::StepKey;
use std::collections::BTreeMap;

/// Fewest steps by which a clock can be told: in which deviations that add up would be larger than those of
/// single periods, and (next field) if there are hardly any, below `EXACT` of the period.
const STEPS: usize = 40;
const EXACT_STEPS: usize = 16;
const EXACT: Ns = 1_000;

/// Largest spread of the periods, and least spread of the work in them, percent of the period.
const PERIOD_PCT: Ns = 10;
const WORK_PCT: Ns = 10;

/// The work varies at least so many times as much as the period,
const TIMES: Ns = 3;
/// and the deviations from the turns are at most this share of those of the periods, percent.
const TURNS_PCT: Ns = 90;

/// Parts of names of what waits for a turn or for a frame.
const WAITING: [&str; 9] =
    ["sleep", "wait", "grab", "recv", "poll", "acquire", "retrieve", "camera", "videocapture"];

/// A loop of one device that a clock drives.
#[derive(Debug, Clone, Copy)]
struct PacedLoop {
    period: Ns,
    /// Whether there are enough steps to tell; else a clock is possible.
    is_sure: bool,
}

/// Takes their gain from the causes of a loop that a clock drives, and returns its period, ns; where a clock
/// is only possible, idle time saves at most what it takes.
pub(crate) fn limit(job: &Job, account: &JobAccount, causes: &mut [Cause]) -> Option<Ns> {
    let found = find(job, account)?;
    for c in causes {
        if found.is_sure {
            c.gain = 0;
        } else if c.kind.lost().is_some() {
            c.certainty = CauseCertainty::AtMost;
        }
    }
    found.is_sure.then_some(found.period)
}

/// When the steps of a device begin by their own windows, before these were stretched to the end of the step
/// before, which varies with the work.
pub(crate) fn own_starts(job: &Job, step: &JobStep) -> BTreeMap<StepKey, Ns> {
    let part = step.cells.first_key_value().and_then(|((part, _), _)| job.parts.get(*part as usize));
    let steps = part.into_iter().flat_map(|p| &p.steps);
    steps.map(|s| (StepKey::new(s.index, s.label), s.window.start)).collect()
}

fn find(job: &Job, account: &JobAccount) -> Option<PacedLoop> {
    if account.devices != 1 || account.steps.len() < EXACT_STEPS || is_slowed(account) {
        return None;
    }
    let own = own_starts(job, account.steps.first()?);
    let (mut starts, mut work, mut waits) = (Vec::new(), Vec::new(), Vec::new());
    for step in &account.steps {
        let (_, cell) = step.cells.first_key_value()?;
        starts.push(*own.get(&step.key?)?);
        work.push(step.time - cell.parts.idle - cell.parts.finished_early);
        waits.push(cell.host.get(&None).copied().unwrap_or(0));
    }
    // The last step has no end that a clock gives.
    work.pop();
    waits.pop();
    let periods: Vec<Ns> = starts.windows(2).map(|w| w[1] - w[0]).collect();
    let period = median(&mut periods.clone()).filter(|p| *p > 0)?;
    let of_period = spread(periods.clone());
    let varies = |of: Ns| of * 100 >= period * WORK_PCT && of >= of_period * TIMES;
    let is_even = of_period * 100 <= period * PERIOD_PCT;
    let of_turns = spread(deviations(&periods, period));
    let is_exact = of_turns.max(of_period) <= period / EXACT;
    let is_clock = is_exact || of_turns * 100 <= of_period * TURNS_PCT;
    let is_clock = is_clock && !is_in_work(account);
    let is_sure = is_clock && (is_exact || starts.len() >= STEPS);
    // What a host waits for its device varies, and the rest of the step makes up for it: something else keeps
    // the period, a clock or another thread.
    let is_kept = is_clock || varies(spread(waits));
    (varies(spread(work)) && is_even && is_kept).then_some(PacedLoop { period, is_sure })
}

/// Whether the host launches for half of the time, or a loader owns half of the idle time.
fn is_slowed(account: &JobAccount) -> bool {
    let launching: Ns = account.cells().map(|(_, _, cell)| cell.host_of(CauseKind::HostDispatch)).sum();
    launching * 2 >= account.time || owns_half(account, |kind, _| kind == CauseKind::DataLoader)
}

/// Whether functions whose names are not of waiting own half of the idle time.
fn is_in_work(account: &JobAccount) -> bool {
    owns_half(account, |kind, key| {
        let lower = key.to_ascii_lowercase();
        let is_work = !key.is_empty() && !WAITING.iter().any(|word| lower.contains(word));
        kind == CauseKind::DataLoader || (kind == CauseKind::HostPython && is_work)
    })
}

fn owns_half(account: &JobAccount, is_one: impl Fn(CauseKind, &str) -> bool) -> bool {
    let idle = account.cells().flat_map(|(_, _, cell)| &cell.lost).filter(|l| l.part == TimePart::Idle);
    let owned: Ns = idle.filter(|l| is_one(l.kind, &l.key)).map(|l| l.time).sum();
    owned > 0 && owned * 2 >= account.sum(TimePart::Idle)
}

/// How far each step begins from its turn, without a constant drift; a missed turn counts as none. ns.
fn deviations(periods: &[Ns], period: Ns) -> Vec<Ns> {
    let mut sum = 0;
    let from_turn = periods.iter().map(|p| {
        let turns = ((*p + period / 2) / period).max(1);
        sum += *p - turns * period;
        sum
    });
    let all: Vec<Ns> = from_turn.collect();
    let middle = (all.len() as f64 - 1.0) / 2.0;
    let at = |i: usize| i as f64 - middle;
    let squares: f64 = (0..all.len()).map(|i| at(i) * at(i)).sum();
    let slope = all.iter().enumerate().map(|(i, d)| at(i) * *d as f64).sum::<f64>() / squares.max(1.0);
    all.iter().enumerate().map(|(i, d)| d - (slope * at(i)) as Ns).collect()
}

/// Between the tenth and the ninetieth percentile.
fn spread(mut all: Vec<Ns>) -> Ns {
    all.sort_unstable();
    let at = |pct: usize| all.get(all.len().saturating_sub(1) * pct / 100).copied().unwrap_or(0);
    at(90) - at(10)
}

/// What is to be said of such a loop.
pub(crate) fn words(period: Ns) -> String {
    format!(
        "Paced: period {} ({} a second) whatever the work costs, so nothing is to be saved",
        fmt_ns(period),
        fmt_number(1e9 / period.max(1) as f64)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviations_of_a_clock_do_not_add_up() {
        // Turns every 100: each step is late by 0 to 3, one turn is missed.
        let late = [0, 3, 1, 2, 0, 3, 1];
        let turns = [0, 1, 2, 3, 5, 6, 7];
        let starts: Vec<Ns> = turns.iter().zip(late).map(|(turn, late)| turn * 100 + late).collect();
        let periods: Vec<Ns> = starts.windows(2).map(|w| w[1] - w[0]).collect();
        assert!(deviations(&periods, 100).iter().all(|d| d.abs() <= 3));
        // A host that is slower by 2 in the second half drifts from any line.
        let slower: Vec<Ns> = (0..20).map(|i| if i < 10 { 100 } else { 104 }).collect();
        assert!(spread(deviations(&slower, 102)) > 4);
    }
}
