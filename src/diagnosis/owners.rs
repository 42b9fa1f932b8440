//! Assigns every piece of lost time to a cause.

use crate::CauseKind;
use crate::account::{CellOfStep, JobAccount, JobStep, Lost, TimePart};
use crate::bubbles;
use crate::collected::{CauseKey, CausedWaits, CollectedCause, collect, key_of};
use crate::first_steps;
use crate::host_ranges::QUIET_MIN;
use crate::late_ranks::LateRanks;
use crate::rule::OPEN_PCT;
use crate::transfer::{self, LostByCell};
use hta_analysis::efficiency::account::PartDevice;
use hta_analysis::efficiency::delay_cost;
use hta_base::order_statistics::median;
use hta_base::units::{Ns, percent};
use hta_base::wording::names::frame_parts;
use hta_job::Job;
use hta_job::delay::StepKey;
use std::collections::BTreeMap;

/// The owners of all lost time.
pub(crate) fn owners(
    job: &Job,
    account: &JobAccount,
    late: &LateRanks,
) -> BTreeMap<CauseKey, CollectedCause> {
    let mut all: BTreeMap<CauseKey, CollectedCause> = BTreeMap::new();
    for (step, place, cell) in account.cells() {
        for lost in &cell.lost {
            collect(&mut all, (step, place), lost);
        }
    }
    merge_spread_code(account, &mut all);
    first_steps::merge_compilers(account, &mut all);
    first_steps::assign(job, account, late, &mut all);
    assign_excess(account, late, &mut all);
    let communication = transfer::find(job, account);
    let mut waits = assign_waits(job, account, late);
    bubbles::limit_hosts(job, account, &communication, &mut waits);
    for ((key, cell), ns) in waits {
        *all.entry(key).or_default().owned.entry((cell.0, cell.1, TimePart::Waiting)).or_default() += ns;
    }
    release_small(account, &mut all);
    assign_communication(account, communication, &mut all);
    bubbles::idle(job, account, &mut all);
    all
}

/// Takes the waits from causes that are too small to be told, so that another cause can own them.
fn release_small(account: &JobAccount, all: &mut BTreeMap<CauseKey, CollectedCause>) {
    for (_, found) in all.iter_mut().filter(|((kind, _), _)| *kind != CauseKind::Straggler) {
        let sum = found.owned.values().sum();
        if percent(sum, account.all()).is_some_and(|p| p < OPEN_PCT) {
            found.owned.retain(|(.., part), _| *part != TimePart::Waiting);
        }
    }
}

/// Gives transfers, and waits between stages that nobody owns yet, to causes in the communication itself.
fn assign_communication(
    account: &JobAccount,
    found: LostByCell,
    all: &mut BTreeMap<CauseKey, CollectedCause>,
) {
    let mut waits: BTreeMap<(usize, PartDevice), Ns> = BTreeMap::new();
    for ((s, place, _), ns) in
        all.values().flat_map(|c| &c.owned).filter(|((_, _, part), _)| *part == TimePart::Waiting)
    {
        *waits.entry((*s, *place)).or_default() += ns;
    }
    for (cell, lost) in found {
        let of_cell = account.steps[cell.0].cells.get(&cell.1);
        let waiting = of_cell.map_or(0, |c| c.parts.waiting);
        let mut left = (waiting - waits.get(&cell).copied().unwrap_or(0)).max(0);
        for lost in lost {
            let time = if lost.part == TimePart::Waiting { lost.time.min(left) } else { lost.time };
            if lost.part == TimePart::Waiting {
                left -= time;
            }
            collect(all, cell, &Lost { time, ..lost });
        }
    }
}

/// Code outside operators that no frame stands for, and long parts of operators that are too small to be
/// told, are a part of launching one by one, if that takes longer.
fn merge_spread_code(account: &JobAccount, all: &mut BTreeMap<CauseKey, CollectedCause>) {
    let launching = (CauseKind::HostDispatch, String::new());
    let sum = |of: &CollectedCause| of.owned.values().sum::<Ns>();
    let most = all.get(&launching).map_or(0, sum);
    let is_small =
        |of| (1..=most).contains(&of) && percent(of, account.all()).is_some_and(|pct| pct < OPEN_PCT);
    // A host that stands still for long launches nothing meanwhile, whatever it does.
    let is_long = |of: &CollectedCause| {
        let long = of.names.values().filter(|(ns, count)| *ns >= QUIET_MIN * (*count).cast_signed());
        long.map(|(ns, _)| *ns).sum::<Ns>() * 2 > sum(of)
    };
    let is_spread = |(kind, key): &CauseKey, of: &CollectedCause| {
        *kind == CauseKind::HostPython
            && (key.is_empty() && (1..=most).contains(&sum(of)) && !is_long(of)
                || frame_parts(key).is_none() && is_small(sum(of)))
    };
    let spread: Vec<CauseKey> =
        all.iter().filter(|(key, of)| is_spread(key, of)).map(|(key, _)| key.clone()).collect();
    for code in spread {
        let (Some(code), Some(to)) = (all.remove(&code), all.get_mut(&launching)) else { continue };
        code.owned.into_iter().for_each(|(cell, ns)| *to.owned.entry(cell).or_default() += ns);
        for (name, (ns, count)) in code.names {
            let sum = to.names.entry(name).or_default();
            sum.0 += ns;
            sum.1 += count;
        }
    }
}

/// Gives a straggler what its host does longer than those of the others: above the lower median of the other
/// devices.
fn assign_excess(account: &JobAccount, late: &LateRanks, all: &mut BTreeMap<CauseKey, CollectedCause>) {
    for (s, step) in account.steps.iter().enumerate() {
        for place in step.cells.keys() {
            let Some(straggler) = late.of(place.0, step.key).and_then(|i| late.stragglers.get(i)) else {
                continue;
            };
            let idle = |c: &CellOfStep, kind: CauseKind, key: &str| -> Ns {
                let of =
                    c.lost.iter().filter(|l| l.part == TimePart::Idle && l.kind == kind && key_of(l) == key);
                of.map(|l| l.time).sum()
            };
            let mut moved = 0;
            for ((kind, key), found) in all.iter_mut().filter(|((k, _), _)| straggler.host_kinds.contains(k))
            {
                let mut others: Vec<Ns> = step
                    .cells
                    .iter()
                    .filter(|(p, _)| *p != place)
                    .map(|(_, c)| idle(c, *kind, key))
                    .collect();
                let usual = median(&mut others).unwrap_or(0);
                let Some(ns) = found.owned.get_mut(&(s, *place, TimePart::Idle)) else { continue };
                let part = (*ns - usual).max(0);
                *ns -= part;
                moved += part;
            }
            if moved > 0 {
                let to = all.entry((CauseKind::Straggler, straggler.index.to_string())).or_default();
                *to.owned.entry((s, *place, TimePart::Idle)).or_default() += moved;
            }
        }
    }
}

/// Who caused the waiting of each step: a straggler, or what held the host of the late rank up.
fn assign_waits(job: &Job, account: &JobAccount, late: &LateRanks) -> CausedWaits {
    let mut out = CausedWaits::new();
    // By step (without steps: all together) and part.
    let has_steps = account.steps.iter().any(|s| s.key.is_some());
    let mut charges: BTreeMap<Option<StepKey>, BTreeMap<u32, Ns>> = BTreeMap::new();
    for ((part, key), cost) in delay_cost::costs(job).iter() {
        let of_step = charges.entry(key.filter(|_| has_steps)).or_default();
        *of_step.entry(*part).or_default() += cost.direct + cost.propagated;
    }
    for (s, step) in account.steps.iter().enumerate() {
        let Some(charged) = charges.get(&step.key) else { continue };
        let total: Ns = charged.values().sum();
        if total <= 0 {
            continue;
        }
        // Shares of the waiting, by owner.
        let mut owners: BTreeMap<CauseKey, Ns> = BTreeMap::new();
        let idles = StepIdles::of(step);
        for (part, ns) in charged {
            match (late.of(*part, step.key), late.by_tokens(*part, step.key)) {
                (Some(i), _) => *owners.entry((CauseKind::Straggler, i.to_string())).or_default() += ns,
                (None, Some(None)) => {}
                (None, Some(Some(share))) => {
                    let key = (CauseKind::Straggler, share.index.to_string());
                    *owners.entry(key).or_default() += share.of(*ns);
                }
                (None, None) => {
                    let cells = step.cells.range((*part, None)..=(*part, Some(i64::MAX))).map(|(_, c)| c);
                    let mut left = *ns;
                    for (key, share) in of_late_rank(cells, *ns, &idles) {
                        left -= share;
                        *owners.entry(key).or_default() += share;
                    }
                    if let Some(i) = late.behind_all(step.key) {
                        *owners.entry((CauseKind::Straggler, i.to_string())).or_default() += left;
                    }
                }
            }
        }
        for (place, cell) in &step.cells {
            for (key, ns) in &owners {
                let share = (i128::from(cell.parts.waiting) * i128::from(*ns) / i128::from(total)) as Ns;
                if share > 0 {
                    out.insert((key.clone(), (s, *place)), share);
                }
            }
        }
    }
    out
}

/// What the devices of a step idled for by cause, ascending, with the sums up to each, ns.
struct StepIdles {
    cells: Ns,
    by_cause: BTreeMap<CauseKey, Vec<(Ns, Ns)>>,
}

impl StepIdles {
    fn of(step: &JobStep) -> Self {
        let mut times: BTreeMap<CauseKey, Vec<Ns>> = BTreeMap::new();
        for cell in step.cells.values() {
            idle_of(cell).into_iter().for_each(|(key, ns)| times.entry(key).or_default().push(ns));
        }
        let summed = |mut times: Vec<Ns>| {
            times.sort_unstable();
            let sums = times.iter().scan(0, |sum, ns| {
                *sum += ns;
                Some(*sum)
            });
            let sums: Vec<Ns> = sums.collect();
            times.into_iter().zip(sums).collect()
        };
        let by_cause = times.into_iter().map(|(key, times)| (key, summed(times))).collect();
        Self { cells: step.cells.len() as Ns, by_cause }
    }

    /// The longest that the others can have waited while a device idled for a cause, ns: nobody waits for
    /// what it does itself meanwhile. Pauses do not come at the same time on all ranks.
    fn most_waited(&self, key: &CauseKey, own: Ns) -> Ns {
        if key.0.is_of_pauses() {
            return own.saturating_mul(self.cells - 1);
        }
        let times = self.by_cause.get(key).map_or(&[][..], Vec::as_slice);
        let below = times.partition_point(|(ns, _)| *ns < own);
        let of_below = below.checked_sub(1).and_then(|i| times.get(i)).map_or(0, |(_, sum)| *sum);
        // The devices that did not idle for it are not in the list.
        let fewer = self.cells - times.len() as Ns + below as Ns;
        own.saturating_mul(fewer) - of_below
    }
}

/// What a device idled for, by cause, ns.
fn idle_of(cell: &CellOfStep) -> BTreeMap<CauseKey, Ns> {
    let mut out: BTreeMap<CauseKey, Ns> = BTreeMap::new();
    for lost in cell.lost.iter().filter(|l| l.part == TimePart::Idle) {
        *out.entry((lost.kind, key_of(lost).to_string())).or_default() += lost.time;
    }
    out
}

/// Divides the waiting that a late rank caused in proportion to what its own device idled for.
fn of_late_rank<'a>(
    cells: impl Iterator<Item = &'a CellOfStep>,
    ns: Ns,
    idles: &StepIdles,
) -> Vec<(CauseKey, Ns)> {
    let mut own: BTreeMap<CauseKey, Ns> = BTreeMap::new();
    for (key, time) in cells.flat_map(idle_of) {
        *own.entry(key).or_default() += time;
    }
    let idle: Ns = own.values().sum();
    let share = |time: Ns| (i128::from(ns) * i128::from(time) / i128::from(idle.max(1))) as Ns;
    own.into_iter()
        .filter(|((kind, _), _)| *kind != CauseKind::NotExplained)
        .map(|(key, time)| {
            let most = idles.most_waited(&key, time);
            (key, share(time).min(most))
        })
        .collect()
}
