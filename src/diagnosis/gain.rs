//! What the repair of one cause would give: a bound that no replay is needed for.
//!
//! A step ends when the slowest device does, and a device is no faster than its own work and its host allow:
//!
//! ```text
//!   gain of a step = min(T - max over devices of max(D, H), largest owned time of a device)
//!
//!   D  compute time and communication and copies that stay
//!   H  host time of the launching thread outside calls that wait, less the cause
//! ```

use crate::CauseKind;
use crate::account::{CellOfStep, JobAccount, JobStep, TimePart};
use hta_analysis::efficiency::account::PartDevice;
use hta_base::units::Ns;
use std::collections::BTreeMap;

/// Owned time by step, place and part, ns.
pub(crate) type OwnedTime = BTreeMap<(usize, PartDevice, TimePart), Ns>;

/// Owned time, ns, and the number of its pieces by name, detail and part of the job.
pub(crate) type OwnedNames = BTreeMap<(String, String, u32), (Ns, u64)>;

/// The gain over all steps if a cause on the host, or a way of copying, is repaired on all its ranks, ns.
/// `saves` is the host time that this saves, from the time that the host does it and the idle time that the
/// cause owns; a step becomes shorter by no more than what a device owns in `parts`.
pub(crate) fn of_host(
    account: &JobAccount,
    kind: CauseKind,
    owned: &OwnedTime,
    saves: fn(Ns, Ns) -> Ns,
    parts: &[TimePart],
) -> Ns {
    let of = |step: usize, place: PartDevice, part: TimePart| {
        owned.get(&(step, place, part)).copied().unwrap_or(0)
    };
    let mut gain = 0;
    for (s, step) in account.steps.iter().enumerate() {
        let stays = |place: PartDevice, c: &CellOfStep| {
            let device = c.parts.compute + c.parts.transfer + c.parts.unmatched + c.parts.copies
                - of(s, place, TimePart::Copies);
            let idle = of(s, place, TimePart::Idle).min(c.host_time());
            let host = c.host_time() - saves(c.host_of(kind), idle);
            device.max(host)
        };
        let longest = step.cells.iter().map(|(place, c)| stays(*place, c)).max().unwrap_or(step.time);
        let most = step
            .cells
            .keys()
            .map(|p| parts.iter().map(|part| of(s, *p, *part)).sum::<Ns>())
            .max()
            .unwrap_or(0);
        gain += (step.time - longest).clamp(0, most);
    }
    gain
}

/// What the device with most owns of some parts in each step, over all steps, ns.
pub(crate) fn most(owned: &OwnedTime, counts: impl Fn(TimePart) -> bool) -> Ns {
    let mut by_cell: BTreeMap<(usize, PartDevice), Ns> = BTreeMap::new();
    for ((step, place, part), ns) in owned {
        *by_cell.entry((*step, *place)).or_default() += if counts(*part) { *ns } else { 0 };
    }
    let mut by_step: BTreeMap<usize, Ns> = BTreeMap::new();
    for ((step, _), ns) in by_cell {
        let most = by_step.entry(step).or_default();
        *most = ns.max(*most);
    }
    by_step.values().sum()
}

/// The gain over all steps if some of what every device does went away, ns: `saved` per cell. A step does not
/// become shorter than its hosts need.
pub(crate) fn of_devices(account: &JobAccount, saved: impl Fn(&CellOfStep) -> Ns) -> Ns {
    of_steps(account, |step, place| step.cells.get(&place).map(&saved))
}

/// The same with what is saved by step and device; nothing for devices that wait for the others.
pub(crate) fn of_steps(account: &JobAccount, saved: impl Fn(&JobStep, PartDevice) -> Option<Ns>) -> Ns {
    let gain = |step: &JobStep| {
        let least = step.cells.keys().filter_map(|place| saved(step, *place)).min().unwrap_or(0);
        let host = step.cells.values().map(CellOfStep::host_time).max().unwrap_or(0);
        least.min(step.time - host).max(0)
    };
    account.steps.iter().map(gain).sum()
}

/// The least time of a part over devices, summed over steps, ns.
pub(crate) fn least(account: &JobAccount, part: TimePart) -> Ns {
    account.steps.iter().map(|step| step.cells.values().map(|c| part.of(&c.parts)).min().unwrap_or(0)).sum()
}
