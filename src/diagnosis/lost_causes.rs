//! Causes of idle time, of waiting behind it, and of exposed copies.

use crate::CauseKind;
use crate::account::{Lost, TimePart};
use crate::cause::{Cause, GainBasis, finding_id};
use crate::certainty::CauseCertainty;
use crate::collected::CollectedCause;
use crate::context::{BESIDES_PCT, Context, MEMBER_PCT, SOLE_PCT};
use crate::evidence::{Evidence, of_finding, of_ranks, of_text};
use crate::gain::{self, OwnedTime};
use crate::host_ranges::QUIET_MIN;
use crate::lost::OTHER_NAMES;
use crate::lost_words::{LARGE_PART_PCT, LostWords, NamedTime, shown};
use crate::rule::{LostPlace, LostRule};
use hta_base::order_statistics::median;
use hta_base::units::{Ns, fmt_count, fmt_ns, fmt_pct, percent};
use hta_base::wording::counts::counted;
use hta_base::wording::names::frame_parts;
use hta_facts::host_activity::HostActivity;
use hta_job::RankSummary;
use hta_job::delay::StepKey;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Share of a cause's time in less than half of the steps from which these are named, percent.
const FEW_STEPS_PCT: Ns = 80;
/// The same share for steps that are few among all,
const MOST_PCT: Ns = 50;
/// of which all are at least so many times as many.
const FEW_OF: usize = 10;

/// Ranks own clearly more of a cause than others if the gap is this part of what those own.
const UNEVEN: Ns = 5;

/// A step that owns this part of a cause owns much of it.
const LARGE_STEP: Ns = 20;

impl Context<'_> {
    pub(crate) fn lost(
        &self,
        (kind, rule): (CauseKind, &LostRule),
        key: &str,
        found: &CollectedCause,
    ) -> Option<Cause> {
        let by_replay = match rule.of_pauses {
            Some(_) => self.repairs.of_pauses(self.job, &(kind, key.to_string())),
            None => self.repairs.of_idle(self.job, &found.owned, rule.uses),
        };
        // What others wait for behind it is no time of its own: only pauses come one after the other on many
        // ranks.
        let parts = [TimePart::Idle, TimePart::Copies, TimePart::Waiting];
        let parts = if rule.of_pauses.is_some() { &parts[..] } else { &parts[..2] };
        let gain =
            by_replay.unwrap_or_else(|| gain::of_host(self.account, kind, &found.owned, rule.saves, parts));
        // Pauses hide behind each other, whoever owns the time. Else no more is gained than is owned.
        let gain = if rule.of_pauses.is_some() { gain } else { gain.min(gain::most(&found.owned, |_| true)) };
        // Pauses come now on this rank and now on that one, so that each owns only its part.
        let turns = if rule.of_pauses.is_some() { self.job.parts.len().max(1) } else { 1 };
        let members = self.members(&found.owned, MEMBER_PCT / turns as f64);
        let ranks = match self.sole_rank(&found.owned) {
            Some(rank) if members.contains(&rank) => vec![rank],
            _ if rule.joins_alike => self.with_alike((kind, rule), key, members),
            _ => members,
        };
        if ranks.is_empty() {
            return None;
        }
        let mut cause = self.cause(kind, key, ranks, found.owned.clone(), gain);
        if by_replay.is_some() {
            cause.basis = GainBasis::Replay;
        } else if self.job.parts.len() > 1 && self.account.sum(TimePart::Waiting) > 0 {
            // Without a replay nobody knows what the others do meanwhile.
            cause.certainty = CauseCertainty::AtMost;
        }
        let rank_label = cause.rank_label.clone();
        cause.names = found.names.clone();
        let words = self.lost_words(&cause, &rank_label, key, found);
        if !(rule.is_told)(&words) {
            return None;
        }
        cause.words = (rule.words)(&words);
        cause.place = found.place().to_string();
        self.name_steps(&mut cause);
        cause.evidence = self.evidence_of_lost(&cause, rule, &words);
        (rule.finish)(self, &mut cause);
        if let Some((ranks, words)) = self.uneven(&cause) {
            let filter = of_finding(&finding_id(&cause), &ranks);
            cause.words.why.push_str(&format!("; most on {words}"));
            if let Some(longer) = self.longer_on(&cause, &ranks).filter(|_| key.is_empty()) {
                cause.words.why.push_str(&format!(", whose hosts take longer in {}", longer.plural()));
            }
            cause.evidence.push(Evidence { table: "time_account", filter, words });
        }
        if self.takes_turns(&cause.owned) {
            cause.words.what.push_str(", each time on another rank");
        }
        Some(cause)
    }

    /// What the hosts of some ranks do longer than those of the others, if that is recorded and at least half
    /// of the idle time that a cause owns on them, or of what it gains. Their devices may idle under what all
    /// hosts do as long.
    fn longer_on(&self, cause: &Cause, ranks: &[u32]) -> Option<HostActivity> {
        let (some, others): (Vec<_>, Vec<_>) = self.job.parts.iter().partition(|p| ranks.contains(&p.rank));
        let time = |p: &&RankSummary, a: HostActivity| p.steps.iter().map(|s| s.host[a as usize]).sum::<Ns>();
        let count = some.len().max(1) as Ns;
        let longer = |a: &HostActivity| {
            let usual = median(&mut others.iter().map(|p| time(p, *a)).collect::<Vec<_>>());
            some.iter().map(|p| time(p, *a)).sum::<Ns>() / count - usual.unwrap_or(Ns::MAX)
        };
        // A host that is behind stays so: its device idles in each of the steps that follow.
        let least = cause.gain.min(self.owned_on(ranks, &cause.owned, TimePart::Idle) / count);
        let most = HostActivity::ALL.into_iter().max_by_key(longer)?;
        (most != HostActivity::Untracked && longer(&most) * 2 >= least).then_some(most)
    }

    /// The numbers of a cause, with its three largest names.
    fn lost_words<'a>(
        &'a self,
        cause: &Cause,
        rank_label: &'a str,
        key: &'a str,
        found: &'a CollectedCause,
    ) -> LostWords<'a> {
        let is_of = |part: u32| cause.ranks.binary_search(&self.rank(part)).is_ok();
        let mut names: Vec<_> = found.names_of(is_of).into_iter().collect();
        names.sort_by_key(|(name, (ns, _))| (Reverse(*ns), *name));
        let n = self.account.steps.len().max(1) as Ns * self.devices_of(&cause.ranks);
        let all: Ns = names.iter().map(|(_, (ns, _))| *ns).sum();
        let is_unrecorded = |(name, detail): &(&str, &str)| name.is_empty() && *detail != OTHER_NAMES;
        let unrecorded: Ns =
            names.iter().filter(|(name, _)| is_unrecorded(name)).map(|(_, (ns, _))| *ns).sum();
        // A function of Python may be the loop around everything.
        let is_known = |(name, detail): &(&str, &str)| {
            name.is_empty() && !["", OTHER_NAMES].contains(detail) && frame_parts(detail).is_none()
        };
        let inside = names.iter().filter(|(name, _)| is_known(name)).take(3);
        let inside =
            inside.map(|((_, detail), (ns, _))| (*detail, percent(*ns, all).unwrap_or(0.0))).collect();
        let named = names.into_iter().filter(|((name, _), _)| !name.is_empty());
        let top = named.take(3).map(|((name, detail), (ns, count))| NamedTime {
            name,
            detail,
            per_step: ns / n,
            share: percent(ns, all).unwrap_or(0.0),
            count,
        });
        let all_cells = self.account.steps.len().max(1) as Ns * i64::from(self.account.devices.max(1));
        LostWords {
            key,
            rank_label,
            idle: self.owned_on(&cause.ranks, &cause.owned, TimePart::Idle) / n,
            copies: self.owned_on(&cause.ranks, &cause.owned, TimePart::Copies) / n,
            waits: cause.owned_part(TimePart::Waiting) / all_cells,
            idle_all: self.idle_of(&cause.ranks) / n,
            step: self.account.step_time(),
            gain_pct: percent(cause.gain, self.account.length),
            top: top.collect(),
            inside,
            unrecorded: percent(unrecorded, all).unwrap_or(0.0),
            large_steps: self.large_steps(cause),
            step_count: self.account.steps.len(),
            trust: self.trust,
        }
    }

    fn evidence_of_lost(&self, cause: &Cause, rule: &LostRule, words: &LostWords) -> Vec<Evidence> {
        let of_cause = of_finding(&finding_id(cause), self.unless_all(&cause.ranks));
        let per = words.trust.per_step();
        let whole = if words.trust.has_steps { words.trust.step_noun() } else { "recording" };
        let part = |ns: Ns| fmt_pct(percent(ns, words.step));
        let is_idle = rule.place != LostPlace::Copies;
        let time = words.idle + if is_idle { 0 } else { words.copies };
        let of = if is_idle { format!(" of {} idle time", fmt_ns(words.idle_all)) } else { String::new() };
        let besides = self.gained_besides(cause.gain, &cause.owned, time);
        let number = format!("{}{of}{per} ({} of the {whole}){besides}", fmt_ns(time), part(time));
        let mut out = vec![Evidence { table: "time_account", filter: of_cause.clone(), words: number }];
        let is_named = (rule.names_parts)(words);
        let rows = |n: &NamedTime| format!("{} AND {}", of_text("name", n.name), of_text("detail", n.detail));
        out.extend(words.top.iter().filter(|_| is_named).map(|n| Evidence {
            table: "finding_names",
            filter: format!("{of_cause} AND {}", rows(n)),
            words: format!("{}{per} in {} ({} times)", fmt_ns(n.per_step), shown(n.name), fmt_count(n.count)),
        }));
        out
    }

    /// Adds the ranks whose hosts do the same for as long: their devices do not wait for it only because they
    /// wait for the first ones. Time that is lost for another key of the kind is not the same.
    fn with_alike(&self, (kind, rule): (CauseKind, &LostRule), key: &str, ranks: Vec<u32>) -> Vec<u32> {
        if ranks.is_empty() {
            return ranks;
        }
        // The time of all code tells nothing of a part of it that has a name.
        let named = self.account.named_host.get(&(kind, key.to_string()));
        let is_known = |of: &&BTreeMap<u32, Ns>| ranks.iter().all(|rank| of.contains_key(rank));
        let times = named.filter(is_known).cloned().unwrap_or_else(|| {
            let mut times: BTreeMap<u32, Ns> = BTreeMap::new();
            for (_, (part, _), cell) in self.account.cells() {
                let is_other = |l: &&Lost| l.kind == kind && (rule.key)(&l.key) != key;
                let others: Ns = cell.lost.iter().filter(is_other).map(|l| l.time).sum();
                *times.entry(self.rank(part)).or_default() += cell.host_of(kind) - others;
            }
            times
        });
        let of = |rank: &u32| times.get(rank).copied().unwrap_or(0);
        let least = ranks.iter().map(of).max().unwrap_or(0) / 2;
        let is_alike = |rank: &u32| ranks.binary_search(rank).is_ok() || (least > 0 && of(rank) >= least);
        times.keys().copied().filter(is_alike).collect()
    }

    /// The ranks that own more of a cause than all others, and how much more in words; `None` if there is no
    /// large gap between them and the others.
    fn uneven(&self, cause: &Cause) -> Option<(Vec<u32>, String)> {
        let mut times: Vec<(Ns, u32)> = cause.ranks.iter().map(|rank| (0, *rank)).collect();
        for ((_, (part, _), of), ns) in &cause.owned {
            let at = cause.ranks.binary_search(&self.rank(*part)).ok();
            if let Some(at) = at.filter(|_| *of != TimePart::Waiting) {
                times[at].0 += ns;
            }
        }
        times.sort_unstable();
        let (least, _) = *times.first()?;
        let gap = |at: &usize| times[*at].0 - times[*at - 1].0;
        let at = (1..times.len()).max_by_key(gap).filter(|at| (times.len() - at) * 2 <= times.len())?;
        let (below, gap) = (times[at - 1].0, gap(&at));
        let is_clear = gap * UNEVEN >= below && gap >= below - least;
        // A rank that owns next to nothing only does the same.
        let share = |ns: Ns| percent(ns, self.account.length).unwrap_or(0.0);
        let is_large = share(gap) >= BESIDES_PCT && share(below) >= MEMBER_PCT;
        (is_clear && is_large).then(|| {
            let mut ranks: Vec<u32> = times[at..].iter().map(|(_, rank)| *rank).collect();
            ranks.sort_unstable();
            let (steps, count) = (self.account.steps.len().max(1) as Ns, ranks.len() as Ns);
            let most = fmt_ns(times[at..].iter().map(|(ns, _)| ns).sum::<Ns>() / steps / count);
            let (who, below) = (self.job.words.named(&ranks), fmt_ns(below / steps));
            (ranks, format!("{who}: {most}, on the others {below} at most"))
        })
    }

    /// Whether only the first iteration after the profiler started owns time. It is not how an engine runs.
    pub(crate) fn is_only_of_first(&self, owned: &OwnedTime) -> bool {
        let is_first =
            |s: &usize| self.account.steps.get(*s).is_some_and(|step| step.key == Some(StepKey::Index(0)));
        self.trust.has_first_iteration
            && owned.iter().filter(|(_, ns)| **ns > 0).all(|((s, ..), _)| is_first(s))
    }

    /// The name in which the pauses of ranks are longest, with their number and sum.
    fn longest_pauses(&self, ranks: &[u32]) -> Option<(&str, (u64, Ns))> {
        let mut out: BTreeMap<&str, (u64, Ns)> = BTreeMap::new();
        for ((_, name), all) in self.pauses.iter().filter(|((rank, _), _)| ranks.binary_search(rank).is_ok())
        {
            let sum = out.entry(name).or_default();
            *sum = (sum.0 + all.len() as u64, sum.1 + all.iter().sum::<Ns>());
        }
        out.into_iter().max_by_key(|(_, (_, ns))| *ns)
    }

    /// Adds words on the pauses of some ranks in one name.
    fn tell_pauses(cause: &mut Cause, name: &str, words: String) {
        cause.words.why.push_str(&format!("; {words}"));
        let filter = format!("{} AND {}", self::of_ranks(&cause.ranks), of_text("name", name));
        cause.evidence.push(Evidence { table: "host_pauses", filter, words });
    }

    /// Says in which calls the hosts of late ranks stood still, if that is a large part of what it costs.
    pub(crate) fn name_still_calls(&self, cause: &mut Cause) {
        let Some((name, (count, time))) = self.longest_pauses(&cause.ranks) else { return };
        let is_large = percent(time, cause.gain).is_some_and(|share| share >= LARGE_PART_PCT);
        if is_large && !cause.words.what.contains(name) && !cause.words.why.contains(name) {
            let calls = counted(count, "call");
            let words = format!("{calls} of {} stood still for {} together", shown(name), fmt_ns(time));
            Self::tell_pauses(cause, name, words);
        }
    }

    /// Adds number and sum of the pauses of a cause, and the sums of its ranks, to its evidence; to its
    /// numbers the name in which they are longest, if that is a large part and not what it is about.
    pub(crate) fn add_pauses(&self, cause: &mut Cause) {
        let ranks = cause.ranks.clone();
        let own = || self.pauses.iter().filter(|((rank, _), _)| ranks.binary_search(rank).is_ok());
        let mut by_rank: BTreeMap<u32, Ns> = BTreeMap::new();
        own().for_each(|((rank, _), all)| *by_rank.entry(*rank).or_default() += all.iter().sum::<Ns>());
        let filter = self::of_ranks(&ranks);
        let sums = || by_rank.values().copied();
        if let Some((name, (_, most))) = self.longest_pauses(&ranks).filter(|_| cause.key.is_empty())
            && percent(most, sums().sum()).is_some_and(|share| share >= LARGE_PART_PCT)
        {
            let words = format!("{} of the pauses are in {}", fmt_ns(most), shown(name));
            Self::tell_pauses(cause, name, words);
        }
        let (least, most) = (fmt_ns(sums().min().unwrap_or(0)), fmt_ns(sums().max().unwrap_or(0)));
        let of_rank = match () {
            () if sums().count() < 2 => String::new(),
            () if least == most => format!(" ({least} a rank)"),
            () => format!(" ({least} to {most} a rank)"),
        };
        let lengths = || own().flat_map(|(_, pauses)| pauses);
        let (count, shortest) = (lengths().count() as u64, lengths().min().copied().unwrap_or(0));
        let (pauses, sum) = (counted(count, "pause"), fmt_ns(sums().sum()));
        let length = if shortest >= QUIET_MIN { "1 ms".to_string() } else { fmt_ns(shortest) };
        let words = format!("{pauses} of {length} and more, {sum} together{of_rank}");
        cause.evidence.insert(0, Evidence { table: "host_pauses", filter, words });
    }

    /// Whether several devices idle for a cause, in each step that has much of it another one.
    fn takes_turns(&self, owned: &OwnedTime) -> bool {
        const TIMES: usize = 3;
        let mut by_step: BTreeMap<usize, BTreeMap<u32, Ns>> = BTreeMap::new();
        for ((step, (part, _), _), ns) in owned.iter().filter(|((.., part), _)| *part == TimePart::Idle) {
            *by_step.entry(*step).or_default().entry(*part).or_default() += ns;
        }
        let all: Ns = by_step.values().flat_map(BTreeMap::values).sum();
        let sum = |of: &BTreeMap<u32, Ns>| of.values().sum::<Ns>();
        let large = by_step.values().filter(|of| sum(of) * LARGE_STEP >= all && sum(of) > 0);
        let sole = |of: &BTreeMap<u32, Ns>| {
            let (part, most) = of.iter().max_by_key(|(_, ns)| **ns)?;
            percent(*most, sum(of)).is_some_and(|p| p > SOLE_PCT).then_some(*part)
        };
        let turns: Vec<Option<u32>> = large.map(sole).collect();
        turns.len() >= TIMES && turns.iter().all(Option::is_some) && turns.windows(2).all(|w| w[0] != w[1])
    }

    /// Names the steps of a cause that lies in less than half of them.
    pub(crate) fn name_steps(&self, cause: &mut Cause) {
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
        let share = inside * 100 / cause.owned_sum().max(1);
        let how_much = match share {
            _ if steps.is_empty() => return,
            share if share >= FEW_STEPS_PCT => "nearly all",
            // A few steps among many are told before what all have.
            share if share >= MOST_PCT && steps.len() * FEW_OF <= n => "most",
            _ => return,
        };
        cause.steps = steps.iter().filter_map(|s| Some(self.account.steps.get(*s)?.key?.shown())).collect();
        // The mark of steps without a number is for `--steps`.
        let list = cause.steps.join(", ").replace('@', "");
        // The sentence may name them itself.
        let noun = self.trust.step_noun();
        if cause.words.what.contains(&format!(" in {noun}")) {
            return;
        }
        let plural = if cause.steps.len() == 1 { "" } else { "s" };
        let of = format!("{} of {n}", cause.steps.len());
        cause.words.what.push_str(&format!(", {how_much} in {noun}{plural} {list} ({of})"));
    }

    /// Steps that own a twentieth of a cause and more.
    fn large_steps(&self, cause: &Cause) -> Vec<String> {
        let mut by_step: BTreeMap<usize, Ns> = BTreeMap::new();
        for ((s, ..), ns) in &cause.owned {
            *by_step.entry(*s).or_default() += ns;
        }
        let all: Ns = by_step.values().sum();
        let large = by_step.into_iter().filter(|(_, ns)| *ns > 0 && *ns * LARGE_STEP >= all);
        large.filter_map(|(s, _)| Some(self.account.steps.get(s)?.key?.told())).collect()
    }

    /// Idle time of some ranks, over steps, ns.
    fn idle_of(&self, ranks: &[u32]) -> Ns {
        let is_of = |part: u32| ranks.binary_search(&self.rank(part)).is_ok();
        self.account.cells().filter(|(_, (part, _), _)| is_of(*part)).map(|(_, _, c)| c.parts.idle).sum()
    }

    /// Number of devices of some ranks, at least one.
    pub(crate) fn devices_of(&self, ranks: &[u32]) -> Ns {
        let is_of = |part: u32| ranks.binary_search(&self.rank(part)).is_ok();
        // Steps that not all devices have are no steps of the account.
        let places = self.account.steps.first().map_or(0, |s| s.cells.keys().filter(|p| is_of(p.0)).count());
        places.max(1) as Ns
    }
}
