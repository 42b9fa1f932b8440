//! What only the first steps have: caches, allocators and kernels are filled and loaded in them, and
//! programs are compiled.
//!
//! ```text
//!   steps   [==........==......][==.==][==.==][==.==]
//!   owner    what idles longer in the first one than in the others is the cold start's
//! ```

use crate::CauseKind;
use crate::account::{JobAccount, TimePart};
use crate::collected::{CauseKey, CollectedCause};
use crate::compilers::{AGAIN, FIRST_STEPS};
use crate::late_ranks::LateRanks;
use hta_analysis::efficiency::account::PartDevice;
use hta_base::order_statistics::median;
use hta_base::units::Ns;
use hta_job::Job;
use hta_job::recording::Recording;
use std::collections::{BTreeMap, BTreeSet};

/// Smallest excess of idle time of a device in a cold step, percent of the usual step.
const EXCESS_PCT: Ns = 25;

/// Number of steps at the beginning that take 1.5 times the median step and more; 0 if they are not fewer
/// than half, or if a later step is as long, so that such steps come again.
pub(super) fn cold_steps(account: &JobAccount) -> usize {
    let mut times: Vec<Ns> = account.steps.iter().map(|s| s.time).collect();
    let usual = median(&mut times).unwrap_or(0);
    let is_long = |time: Ns| time * 2 > usual * 3;
    let cold = account.steps.iter().take_while(|s| is_long(s.time)).count();
    let least = account.steps.iter().take(cold).map(|s| s.time).min().unwrap_or(0);
    let comes_again = account.steps.iter().skip(cold).any(|s| (s.time - usual) * 2 > least - usual);
    if cold * 2 >= account.steps.len() || comes_again { 0 } else { cold }
}

/// Gives what devices idle longer in the first steps than in the others to the cold start, if nearly all
/// devices do: a rank that is cold alone makes the others wait.
pub(super) fn assign(
    job: &Job,
    account: &JobAccount,
    late: &LateRanks,
    all: &mut BTreeMap<CauseKey, CollectedCause>,
) {
    let cold = cold_steps(account);
    if cold == 0 || Recording::of_job(job).has_iterations() {
        return;
    }
    let mut times: Vec<Ns> = account.steps.iter().skip(cold).map(|s| s.time).collect();
    let usual_step = median(&mut times).unwrap_or(0);
    for (s, step) in account.steps.iter().enumerate().take(cold) {
        let mut moved: BTreeMap<PartDevice, Vec<(CauseKey, Ns)>> = BTreeMap::new();
        for place in step.cells.keys().filter(|place| late.of(place.0, step.key).is_none()) {
            for (key, found) in
                all.iter().filter(|((kind, key), _)| kind.lost().is_some_and(|rule| (rule.is_cold)(key)))
            {
                let of = |s: usize| found.owned.get(&(s, *place, TimePart::Idle)).copied().unwrap_or(0);
                let mut others: Vec<Ns> = (cold..account.steps.len()).map(of).collect();
                let excess = of(s) - median(&mut others).unwrap_or(0);
                if excess > 0 {
                    moved.entry(*place).or_default().push((key.clone(), excess));
                }
            }
        }
        moved.retain(|_, of| of.iter().map(|(_, ns)| ns).sum::<Ns>() * 100 >= usual_step * EXCESS_PCT);
        if moved.len() * 4 < step.cells.len() * 3 {
            continue;
        }
        for (place, of) in moved {
            for (key, ns) in of {
                if let Some(owned) =
                    all.get_mut(&key).and_then(|c| c.owned.get_mut(&(s, place, TimePart::Idle)))
                {
                    *owned -= ns;
                }
                let to = all.entry((CauseKind::ColdStart, String::new())).or_default();
                *to.owned.entry((s, place, TimePart::Idle)).or_default() += ns;
            }
        }
    }
}

/// What is compiled in most of the later steps is not compiled once in the first ones.
pub(super) fn merge_compilers(account: &JobAccount, all: &mut BTreeMap<CauseKey, CollectedCause>) {
    let key = |again: &str| (CauseKind::HostCompile, again.to_string());
    let steps: BTreeSet<usize> =
        all.get(&key(AGAIN)).into_iter().flat_map(|c| &c.owned).map(|((s, ..), _)| *s).collect();
    if steps.len() * 2 > account.steps.len().saturating_sub(FIRST_STEPS)
        && let Some(first) = all.remove(&key(""))
    {
        let to = all.entry(key(AGAIN)).or_default();
        first.owned.into_iter().for_each(|(cell, ns)| *to.owned.entry(cell).or_default() += ns);
    }
}
