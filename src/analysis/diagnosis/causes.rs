//! Makes the causes of a job from what each owns: with gain, trust and words, the most important first.

use crate::api::{Options, Partial, rows};
use crate::diagnosis::account::{JobAccount, TimePart};
use crate::diagnosis::advice;
use crate::diagnosis::cause::{Cause, GainBasis};
use crate::diagnosis::context::Context;
use crate::diagnosis::evidence::Evidence;
use crate::diagnosis::gain::{self, OwnedTime};
use crate::diagnosis::grouping::Topology;
use crate::diagnosis::host::HostPauses;
use crate::diagnosis::host_operators;
use crate::diagnosis::kind::{CauseKind, Confidence};
use crate::diagnosis::late;
use crate::diagnosis::memory;
use crate::diagnosis::mix_causes;
use crate::diagnosis::owners::{CauseKey, CollectedCause, OPEN_PCT, owners};
use crate::diagnosis::repair::Repairs;
use crate::diagnosis::slow_groups::{self, SlowGroups};
use crate::diagnosis::trust::{RecordingTrust, Trust};
use crate::efficiency::account::PartDevice;
use crate::facts::vendor::DeviceVendor;
use crate::job::Job;
use crate::job::delay::StepKey;
use crate::recording::Recording;
use crate::recording::capability::{Capability, Grade};
use hta_base::units::{Ns, fmt_count, fmt_ns, fmt_pct, percent};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The account of a job with the owner of every piece, and the causes.
pub(crate) struct Diagnosis {
    pub(crate) account: JobAccount,
    /// The best first.
    pub(crate) causes: Vec<Cause>,
    pub(crate) trust: RecordingTrust,
    pub(crate) topology: Topology,
    /// Own time of the operators of a job without devices by name, and of all others together under the empty name, ns.
    pub(crate) operators: BTreeMap<String, Ns>,
    /// Ranks that may be late by chance, in words.
    pub(crate) unproven: Vec<String>,
}

/// Smallest gain of a cause in the iterations of an inference engine, percent of the time of the job.
const SERVING_PCT: f64 = 5.0;

/// Share of a cause's time in less than half of the steps from which these are named, percent.
const FEW_STEPS_PCT: Ns = 80;

/// Smallest share of unmatched communication that is a cause, percent of the time of all devices.
const UNMATCHED_PCT: f64 = 5.0;

pub(crate) fn diagnose(job: &Job, partials: &[Partial], options: &Options) -> Diagnosis {
    let account = JobAccount::new(job, partials);
    let trust = RecordingTrust::of(Recording::of_job(job));
    let topology = Topology::of(job);
    let late = late::find(job, options);
    let mut all = owners(job, &account, &late);
    let pauses = pauses(partials);
    let repairs = Repairs::new(job, partials);
    let context =
        Context { job, account: &account, trust: &trust, topology: &topology, pauses: &pauses, repairs: &repairs };
    let mut causes: Vec<Cause> = late.stragglers.iter().map(|s| context.straggler(s, &mut all)).collect();
    for ((kind, key), found) in &all {
        let is_of_transfer = kind.is_of_transfer();
        causes.extend(context.lost(*kind, key, found).filter(|_| !is_of_transfer));
        causes.extend(is_of_transfer.then(|| context.transfer(*kind, key, found)).flatten());
    }
    let in_transfer: OwnedTime =
        all.iter().filter(|((kind, _), _)| kind.is_of_transfer()).fold(OwnedTime::new(), |mut sum, (_, found)| {
            found.owned.iter().for_each(|(cell, ns)| *sum.entry(*cell).or_default() += ns);
            sum
        });
    causes.extend(context.communication(&in_transfer));
    causes.extend(mix_causes::causes(&context));
    causes.extend(context.long_steps(&causes, &late));
    causes.extend(context.incomplete());
    let is_open = |c: &Cause| {
        percent(c.gain, account.time).is_some_and(|p| p >= OPEN_PCT)
            || percent(c.owned_sum(), account.all()).is_some_and(|p| p >= OPEN_PCT)
    };
    causes.retain(|c| c.kind == CauseKind::InputIncomplete || is_open(c));
    causes.extend(memory::causes(&context, partials));
    for c in &mut causes {
        if c.kind != CauseKind::InputIncomplete && !c.kind.is_of_memory() {
            c.trust = trust.of_cause(c.kind, account.steps.len());
        }
        if matches!(c.trust, Trust::Downgraded(_)) {
            c.confidence = Confidence::Bound;
        }
    }
    let order = |c: &Cause| {
        // A job whose requests for memory fail has no greater trouble.
        let first = match c.kind {
            CauseKind::MemoryFailed => 0,
            CauseKind::InputIncomplete => 1,
            _ => 2,
        };
        // Of an engine, the gap and its owner first.
        let serving = if c.kind.is_of_serving() { c.kind as usize } else { usize::MAX };
        (first, serving, Reverse(c.rank_weight().round() as i64), Reverse(c.owned_sum()), c.kind, c.key.clone())
    };
    causes.sort_by_key(order);
    let operators = match trust.vendor {
        DeviceVendor::Host => host_operators::sums(partials),
        _ => BTreeMap::new(),
    };
    Diagnosis { account, causes, trust, topology, operators, unproven: late.unproven }
}

/// Number and sum of the pauses, by rank.
fn pauses(partials: &[Partial]) -> BTreeMap<u32, (u64, Ns)> {
    let mut out: BTreeMap<u32, (u64, Ns)> = BTreeMap::new();
    for row in rows::<HostPauses>(partials) {
        let sum = out.entry(row.rank).or_default();
        sum.0 += 1;
        sum.1 += row.excess_ns;
    }
    out
}

impl Context<'_> {
    /// Adds the ranks whose hosts do the same for as long: their devices do not wait for it only because they wait for
    /// the first ones.
    fn with_alike(&self, kind: CauseKind, ranks: Vec<u32>) -> Vec<u32> {
        if !kind.is_on_host() || ranks.is_empty() {
            return ranks;
        }
        let mut times: BTreeMap<u32, Ns> = BTreeMap::new();
        for (_, (part, _), cell) in self.account.cells() {
            *times.entry(self.rank(part)).or_default() += cell.host_of(kind);
        }
        let of = |rank: &u32| times.get(rank).copied().unwrap_or(0);
        let least = ranks.iter().map(of).max().unwrap_or(0) / 2;
        let is_alike = |rank: &u32| ranks.binary_search(rank).is_ok() || (least > 0 && of(rank) >= least);
        times.keys().copied().filter(is_alike).collect()
    }

    fn straggler(&self, s: &late::LateRank, all: &mut BTreeMap<CauseKey, CollectedCause>) -> Cause {
        let found = all.remove(&(CauseKind::Straggler, s.index.to_string())).unwrap_or_default();
        let mut cause = self.cause(s.kind, &s.key, s.ranks.clone(), found.owned, s.gain);
        cause.basis = GainBasis::Replay;
        cause.p_value = s.p_value;
        cause.steps = s.steps.clone();
        cause.sentence = s.sentence.clone();
        cause.action = s.action.clone();
        cause.evidence = s.evidence.clone();
        cause
    }

    /// A cause of idle time, of waiting behind it, or of exposed copies.
    fn lost(&self, kind: CauseKind, key: &str, found: &CollectedCause) -> Option<Cause> {
        let by_replay = self.repairs.of_lost(self.job, kind, &found.owned);
        let gain = by_replay.unwrap_or_else(|| gain::of_host(self.account, kind, &found.owned));
        let members = self.members(&found.owned);
        let ranks = match self.sole_rank(&found.owned) {
            Some(rank) if members.contains(&rank) => vec![rank],
            _ if kind == CauseKind::HostPython && !key.is_empty() => members,
            _ => self.with_alike(kind, members),
        };
        if ranks.is_empty() || kind == CauseKind::Straggler {
            return None;
        }
        // Without a device nothing waits for launches; only code that can be named is a cause.
        let is_named = kind == CauseKind::DataLoader || (kind == CauseKind::HostPython && !key.is_empty());
        if self.trust.vendor == DeviceVendor::Host && !is_named {
            return None;
        }
        let is_small = |least: f64| percent(gain, self.account.time).is_none_or(|p| p < least);
        if kind.is_of_serving() && is_small(SERVING_PCT) {
            return None;
        }
        // Where graphs are replayed, launching one by one costs nothing; what does is told by part of the iteration. An
        // engine has no loader of data.
        let is_beside = (self.trust.by_graph && kind == CauseKind::HostDispatch) || kind == CauseKind::DataLoader;
        if self.trust.is_serving && is_beside {
            return None;
        }
        // Between graph launches a host has little to do; small gaps there are not worth a finding.
        if self.trust.by_graph && kind == CauseKind::HostDispatch && is_small(10.0) {
            return None;
        }
        let mut cause = self.cause(kind, key, ranks, found.owned.clone(), gain);
        if by_replay.is_some() {
            cause.basis = GainBasis::Replay;
        } else if self.job.parts.len() > 1 && self.account.sum(TimePart::Synchronizing) > 0 {
            // Without a replay nobody knows what the others do meanwhile.
            cause.confidence = Confidence::Bound;
        }
        if kind == CauseKind::HostPython && key.is_empty() {
            // What the code is was not recorded.
            cause.confidence = cause.confidence.max(Confidence::Interpreted);
        }
        let mut names: Vec<_> = found.names.iter().collect();
        names.sort_by_key(|(name, (ns, _))| (Reverse(*ns), (*name).clone()));
        let n = self.account.steps.len().max(1) as Ns * self.devices_of(&cause.ranks);
        let all: Ns = names.iter().map(|(_, (ns, _))| *ns).sum();
        let top: Vec<advice::NamedTime> = names
            .iter()
            .filter(|((name, _), _)| !name.is_empty())
            .take(3)
            .map(|((name, detail), (ns, count))| advice::NamedTime {
                name,
                detail,
                per_step: ns / n,
                share: percent(*ns, all).unwrap_or(0.0),
                count: *count,
            })
            .collect();
        let all_cells = self.account.steps.len().max(1) as Ns * i64::from(self.account.devices.max(1));
        let words = advice::LostWords {
            idle: cause.owned_part(TimePart::Idle) / n,
            copies: cause.owned_part(TimePart::Copies) / n,
            waits: cause.owned_part(TimePart::Synchronizing) / all_cells,
            idle_all: self.idle_of(&cause.ranks) / n,
            step: self.account.step_time(),
            top,
            trust: self.trust,
        };
        let is_large = percent(cause.gain, self.account.time).is_some_and(|p| p >= 10.0);
        if kind == CauseKind::HostDispatch && !is_large && advice::has_large_part(&words) {
            return None;
        }
        (cause.sentence, cause.action) = advice::lost(kind, key, &cause.rank_label, &words);
        self.name_steps(&mut cause);
        if kind.is_of_serving() && self.is_only_of_first(&cause.owned) {
            cause.sentence.push_str(" (first iteration after the profiler started)");
        }
        cause.evidence = advice::evidence(kind, &words, self.account.steps.iter().any(|s| s.key.is_some()));
        if matches!(kind, CauseKind::HostPause | CauseKind::HostLock) {
            cause.evidence.insert(0, self.pause_evidence(&cause.ranks));
        }
        Some(cause)
    }

    /// Whether only the first iteration after the profiler started owns time. It is not how an engine runs.
    fn is_only_of_first(&self, owned: &OwnedTime) -> bool {
        let is_first = |s: &usize| self.account.steps.get(*s).is_some_and(|step| step.key == Some(StepKey::Index(0)));
        self.trust.has_first_iteration && owned.iter().filter(|(_, ns)| **ns > 0).all(|((s, ..), _)| is_first(s))
    }

    /// Number and sum of the pauses of each rank, as ranges.
    fn pause_evidence(&self, ranks: &[u32]) -> Evidence {
        let of_ranks = || ranks.iter().filter_map(|r| self.pauses.get(r));
        let (counts, sums) = (of_ranks().map(|(n, _)| *n), of_ranks().map(|(_, ns)| *ns));
        let range = |least: String, most: String| if least == most { least } else { format!("{least} to {most}") };
        let count = range(fmt_count(counts.clone().min().unwrap_or(0)), fmt_count(counts.max().unwrap_or(0)));
        let sum = range(fmt_ns(sums.clone().min().unwrap_or(0)), fmt_ns(sums.max().unwrap_or(0)));
        Evidence {
            table: "host_pauses",
            filter: "excess_ns >= 1000000".to_string(),
            words: format!("{count} pauses of 1 ms and more a rank, {sum} together"),
        }
    }

    /// Names the steps of a cause that lies in less than half of them.
    fn name_steps(&self, cause: &mut Cause) {
        let n = self.account.steps.len();
        let mut by_step: Vec<(Ns, usize)> = vec![(0, 0); n];
        by_step.iter_mut().enumerate().for_each(|(i, of)| of.1 = i);
        for ((s, ..), ns) in &cause.owned {
            by_step[*s].0 += ns;
        }
        by_step.sort_by_key(|(ns, s)| (Reverse(*ns), *s));
        let most = &by_step[..(n.saturating_sub(1)) / 2];
        let usual: Ns = by_step.iter().map(|(ns, _)| *ns).sum::<Ns>() / n.max(1) as Ns;
        let mut steps: Vec<usize> = most.iter().filter(|(ns, _)| *ns > usual).map(|(_, s)| *s).collect();
        steps.sort_unstable();
        let inside: Ns = most.iter().filter(|(ns, _)| *ns > usual).map(|(ns, _)| ns).sum();
        if steps.is_empty() || inside * 100 < cause.owned_sum() * FEW_STEPS_PCT {
            return;
        }
        cause.steps = steps.iter().filter_map(|s| Some(self.account.steps.get(*s)?.key?.shown())).collect();
        let list = cause.steps.join(", ");
        let noun = if cause.steps.len() == 1 { "step" } else { "steps" };
        cause.sentence.push_str(&format!(", nearly all in {noun} {list} ({} of {n})", cause.steps.len()));
    }

    /// Idle time of some ranks, over steps, ns.
    fn idle_of(&self, ranks: &[u32]) -> Ns {
        let is_of = |part: u32| ranks.binary_search(&self.rank(part)).is_ok();
        self.account.cells().filter(|(_, (part, _), _)| is_of(*part)).map(|(_, _, c)| c.parts.idle).sum()
    }

    /// Number of devices of some ranks, at least one.
    fn devices_of(&self, ranks: &[u32]) -> Ns {
        let is_of = |part: u32| ranks.binary_search(&self.rank(part)).is_ok();
        // Steps that not all devices have are no steps of the account.
        let places = self.account.steps.first().map_or(0, |s| s.cells.keys().filter(|p| is_of(p.0)).count());
        places.max(1) as Ns
    }

    /// A cause in the communication itself.
    fn transfer(&self, kind: CauseKind, key: &str, found: &CollectedCause) -> Option<Cause> {
        let part = if kind == CauseKind::PipelineBubble { TimePart::Synchronizing } else { TimePart::Transfer };
        let mut ranks = self.members_by(&found.owned, |_| true);
        if ranks.is_empty() {
            return None;
        }
        // A step is shorter by what every device saves.
        let bound: Ns = self
            .account
            .steps
            .iter()
            .enumerate()
            .map(|(s, step)| {
                let of = |place: &PartDevice| found.owned.get(&(s, *place, part)).copied().unwrap_or(0);
                step.cells.keys().map(of).min().unwrap_or(0)
            })
            .sum();
        let slow =
            (kind == CauseKind::TransferBandwidth && key == slow_groups::KEY).then(|| self.job.shared(SlowGroups::of));
        let by_replay = slow.as_ref().and_then(|slow| self.repairs.of_transfers(&slow.saved));
        let gain = match self.repairs.of_network() {
            _ if by_replay.is_some() => by_replay.unwrap_or(0),
            Some(all) if part == TimePart::Transfer => bound.min(all),
            _ => bound,
        };
        if let Some(slow) = &slow {
            ranks = slow.ranks.clone();
        }
        let mut cause = self.cause(kind, key, ranks, found.owned.clone(), gain);
        let n = self.account.steps.len().max(1) as Ns * cause.ranks.len().max(1) as Ns;
        let largest = found.names.iter().max_by_key(|(name, (ns, _))| (*ns, Reverse((*name).clone())));
        let group = largest.map_or("", |((_, group), _)| group);
        let time = cause.owned_part(part) / n;
        let share = fmt_pct(percent(time, self.account.step_time()));
        let shown = format!("{}{} ({share})", fmt_ns(time), self.trust.per_step());
        (cause.sentence, cause.action) = advice::transfer(kind, key, group, &cause.rank_label, &shown);
        if let Some(slow) = slow {
            (cause.sentence, cause.action) = (slow.sentence.clone(), slow.action.clone());
            cause.confidence = Confidence::Interpreted;
            if by_replay.is_some() {
                cause.basis = GainBasis::Replay;
            }
        }
        let count: u64 = found.names.values().map(|(_, count)| count).sum();
        cause.evidence = vec![Evidence {
            table: "collectives",
            filter: match kind {
                CauseKind::PipelineBubble => "kind IN ('send', 'recv')".to_string(),
                _ if key == slow_groups::KEY => String::new(),
                _ => format!("kind = '{key}'"),
            },
            words: format!(
                "{}{} in {} exposed pieces of {key}",
                fmt_ns(time),
                self.trust.per_step_and_rank(),
                fmt_count(count)
            ),
        }];
        Some(cause)
    }

    /// Causes of exposed communication that are not waiting; `taken` is what others own.
    fn communication(&self, taken: &OwnedTime) -> Vec<Cause> {
        let mut out = Vec::new();
        for (kind, part) in
            [(CauseKind::CommUnmatched, TimePart::Unmatched), (CauseKind::TransferBare, TimePart::Transfer)]
        {
            let owned: OwnedTime = self
                .account
                .cells()
                .map(|(s, place, c)| ((s, place, part), part.of(&c.parts) - taken.get(&(s, place, part)).unwrap_or(&0)))
                .filter(|(_, ns)| *ns > 0)
                .collect();
            let sum: Ns = owned.values().sum();
            let ranks = self.members(&owned);
            let is_small = percent(sum, self.account.all()).is_none_or(|p| p < UNMATCHED_PCT);
            if ranks.is_empty() || (kind == CauseKind::CommUnmatched && is_small) {
                continue;
            }
            // Whatever the hosts could do meanwhile, this much of the time is not known.
            let gain = if kind == CauseKind::CommUnmatched {
                gain::least(self.account, part)
            } else {
                let bound = gain::of_devices(self.account, |c| part.of(&c.parts)).min(sum);
                self.repairs.of_network().map_or(bound, |all| bound.min(all))
            };
            let mut cause = self.cause(kind, "", ranks, owned, gain);
            let n = self.account.steps.len().max(1) as Ns * self.devices_of(&cause.ranks);
            (cause.sentence, cause.action) = advice::communication(kind, sum / n, self.account.step_time(), self.trust);
            cause.evidence = vec![Evidence {
                table: "sync",
                filter: "process_group IS NULL".to_string(),
                words: format!(
                    "exposed {}: {}{}",
                    if part == TimePart::Transfer { "transfer" } else { "unmatched" },
                    fmt_ns(sum / n),
                    self.trust.per_step_and_rank()
                ),
            }];
            out.push(cause);
        }
        out
    }

    /// What the recording lacks, if that withholds findings.
    fn incomplete(&self) -> Option<Cause> {
        let recording = &self.trust.recording;
        let limit = recording.reason(Capability::Idle).filter(|l| l.grade == Grade::Withheld)?;
        let ranks = self.job.parts.iter().map(|p| p.rank).collect();
        let mut cause = self.cause(CauseKind::InputIncomplete, "", ranks, OwnedTime::new(), 0);
        cause.trust = Trust::Withheld(limit.sentence.clone());
        cause.sentence = format!("Cannot tell where the time goes: {}", limit.sentence);
        cause.action = limit.next.clone();
        Some(cause)
    }
}
