//! What the repair of a cause gives: the job is replayed without exactly the time that the cause owns.
//!
//! Idle time that a cause owns is known by step and device. In the replay it goes where the rank's local work
//! has such idle time (the loader, an allocation call, ...), in proportion. Pauses go where they were,
//! whether or not the device waited for them: they hide behind the waiting for others that pause.

use crate::CauseKind;
use crate::account::TimePart;
use crate::gain::OwnedTime;
use crate::pauses::HostPauses;
use hta_analysis::api::{Partial, rows};
use hta_analysis::efficiency::account::StepLength;
use hta_base::units::{Ns, Span};
use hta_job::replay::{Removed, ReplayedJob, is_host_use};
use hta_job::{Job, LocalEntry, Member, TimeUse};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The replay of a job, for the gains of causes.
pub(crate) struct Repairs {
    replayed: Option<Arc<ReplayedJob>>,
    length: StepLength,
    /// By rank: when a launching thread stood still, and for how long beyond the usual, on the rank's own
    /// clock.
    pauses: BTreeMap<u32, Vec<(Span, Ns)>>,
    /// By rank: the causes whose pauses its device waited for.
    paused_by: BTreeMap<u32, BTreeSet<(CauseKind, String)>>,
}

impl Repairs {
    pub(crate) fn new(
        job: &Job,
        partials: &[Partial],
        paused_by: BTreeMap<u32, BTreeSet<(CauseKind, String)>>,
    ) -> Self {
        let mut pauses: BTreeMap<u32, Vec<(Span, Ns)>> = BTreeMap::new();
        for row in rows::<HostPauses>(partials) {
            pauses
                .entry(row.rank)
                .or_default()
                .push((Span::new(row.ts_ns, row.ts_ns + row.dur_ns), row.excess_ns));
        }
        let replayed = ReplayedJob::of(job).filter(|r| r.is_reliable() && job.parts.len() > 1);
        Self { replayed, length: StepLength::of(job), pauses, paused_by }
    }

    /// The gain if the idle time and copies that a cause owns itself go away, ns; the idle time where the
    /// local work of a rank has one of the `uses`. `None` without a reliable replay.
    pub(crate) fn of_idle(&self, job: &Job, owned: &OwnedTime, uses: Option<&[TimeUse]>) -> Option<Ns> {
        let replayed = self.replayed.as_ref()?;
        let mut removed = Removed::default();
        idle(job, replayed, uses, owned, &mut removed);
        Some(replayed.gain_without(&removed, &self.length.keys))
    }

    /// The same if the pauses of a cause go away, with those that hide behind them: of ranks whose devices
    /// waited for no pause. None gains more than it lasted.
    pub(crate) fn of_pauses(&self, job: &Job, cause: &(CauseKind, String)) -> Option<Ns> {
        let replayed = self.replayed.as_ref()?;
        let mut removed = Removed::default();
        let all = self.pauses(job, replayed, cause, &mut removed);
        Some(replayed.gain_without(&removed, &self.length.keys).min(all))
    }

    /// The gain if no transfer took time, ns.
    pub(crate) fn of_network(&self) -> Option<Ns> {
        Some(self.replayed.as_ref()?.gain_of_network(&self.length.keys))
    }

    /// The gain if calls take less time to transfer, ns, and at most that of a network that is instant:
    /// `saved` by call.
    pub(crate) fn of_transfers(&self, saved: &BTreeMap<Member, Ns>) -> Option<Ns> {
        let replayed = self.replayed.as_ref()?;
        let of = |m: Member| saved.get(&m).copied().unwrap_or(0);
        Some(replayed.gain_of_transfers(of, &self.length.keys).min(self.of_network()?))
    }

    /// Whether hosts keep their times in a replay, because what they wait for is not recorded.
    pub(crate) fn keeps_hosts(&self) -> bool {
        self.replayed.as_ref().is_some_and(|r| r.replay.keeps_hosts())
    }

    /// The most that this can gain where hosts wait for devices in ways that are not recorded, ns.
    pub(crate) fn most_of_transfers(&self, saved: &BTreeMap<Member, Ns>) -> Option<Ns> {
        let of = |m: Member| saved.get(&m).copied().unwrap_or(0);
        Some(self.replayed.as_ref()?.most_of_transfers(of))
    }

    /// Removes the pauses of a cause, and returns their sum, ns.
    fn pauses(
        &self,
        job: &Job,
        replayed: &ReplayedJob,
        cause: &(CauseKind, String),
        removed: &mut Removed,
    ) -> Ns {
        let mut all = 0;
        for (part, p) in (0u32..).zip(&job.parts) {
            let is_other = self.paused_by.get(&p.rank).is_some_and(|of| !of.contains(cause));
            let Some(pauses) = self.pauses.get(&p.rank).filter(|_| !is_other) else { continue };
            let stretches = replayed.replay.host_stretches(job, part);
            for (span, excess) in pauses {
                all += excess;
                // The submission that the pause delayed: the first one after it, if the host worked for it
                // since.
                let next = stretches.partition_point(|(s, _)| s.end < span.end);
                if let Some((stretch, node)) = stretches.get(next).filter(|(s, _)| s.start < span.end) {
                    removed.host(*node, (*excess).min(stretch.intersect(*span).len()));
                }
            }
        }
        all
    }
}

/// Removes owned idle time and copies where the local work of the rank has them.
fn idle(
    job: &Job,
    replayed: &ReplayedJob,
    uses: Option<&[TimeUse]>,
    owned: &OwnedTime,
    removed: &mut Removed,
) {
    let mut sums: BTreeMap<(u32, Option<i64>, TimePart), Ns> = BTreeMap::new();
    for ((_, (part, device), time_part), ns) in owned {
        if matches!(time_part, TimePart::Idle | TimePart::Copies) {
            *sums.entry((*part, *device, *time_part)).or_default() += ns;
        }
    }
    let replay = &replayed.replay;
    for ((part, device, time_part), ns) in sums {
        let is_here = |i: &usize| {
            let lane = job.parts[part as usize].lanes.get(replay.lane(*i) as usize);
            lane.is_some_and(|l| l.device == device)
        };
        let nodes: Vec<usize> = replay.of_part(part).filter(|i| is_here(i)).collect();
        let last = replay.last_of(part).filter(is_here);
        let sums_of = |is: &dyn Fn(&LocalEntry) -> bool| {
            let time =
                |uses: &mut dyn Iterator<Item = LocalEntry>| uses.filter(is).map(|e| e.time).sum::<Ns>();
            let of: Vec<Ns> = nodes.iter().map(|i| time(&mut replay.local_uses(job, *i))).collect();
            let tail = last.map_or(0, |i| time(&mut replay.tail_uses(job, i)));
            let all = of.iter().sum::<Ns>() + tail;
            (of, tail, all)
        };
        let named = |e: &LocalEntry| uses.is_none_or(|of| of.contains(&e.what));
        let (of, tail, all) = match time_part {
            TimePart::Copies => sums_of(&|e| e.what == TimeUse::Copy),
            _ => {
                let narrow = sums_of(&|e| (is_host_use(e.what) || e.what == TimeUse::KernelWait) && named(e));
                if narrow.2 * 2 >= ns { narrow } else { sums_of(&|e| is_host_use(e.what)) }
            }
        };
        // Of what is not found there is nothing to remove, so never more than there is.
        let share = |time: Ns| (i128::from(ns.min(all)) * i128::from(time) / i128::from(all.max(1))) as Ns;
        for (i, time) in nodes.into_iter().zip(of).filter(|(_, time)| *time > 0) {
            match time_part {
                TimePart::Copies => removed.busy(i, share(time)),
                _ => removed.idle(i, share(time)),
            }
        }
        if let Some(last) = last {
            removed.tail(last, share(tail));
        }
    }
}
