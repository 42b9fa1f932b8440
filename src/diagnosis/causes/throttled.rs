//! `throttled`: the clock of devices is lower than it could be, and their kernels take longer by that.

use crate::CauseKind;
use crate::cause::Cause;
use crate::cause_words::CauseWords;
use crate::certainty::CauseCertainty;
use crate::clocks::{
    DeviceFall, SeenOfRanks, SlowerClock, SlowerWords, StepClock, do_most_fall, is_shown_by, megahertz,
    peers_of,
};
use crate::context::Context;
use crate::evidence::{Evidence, of_ranks};
use crate::gain::{self, OwnedTime};
use crate::late::{LateFacts, LateWords};
use crate::rule::{CauseFamily, CauseRule, LateRule};
use hta_analysis::counters::recorded::EnergyTable;
use hta_analysis::efficiency::account::PartDevice;
use hta_base::order_statistics::median;
use hta_base::units::{Ns, fmt_ns, fmt_pct, percent};
use hta_base::wording::counts::capital;
use hta_job::cause::DelayCause;
use hta_job::delay::StepKey;
use hta_job::recording::capability::Capability;
use hta_trace::hardware_counters::HardwareCounter;
use std::collections::BTreeSet;

pub(super) const RULE: CauseRule = CauseRule {
    name: "throttled",
    certainty: CauseCertainty::Likely,
    evidence: "the SM clock of ranks is 2.5 % below that of the fastest ranks with the same device (10 % if \
               these are fewer than half), in 3 steps and more, and most of what their kernels take longer \
               is by that; or the clocks of most devices fall: 5 % below the highest for 10 % of the busy \
               time, or steadily by 2.5 % where kernels take longer by that. Not while metrics are sampled, \
               which holds the clocks",
    command: "counters",
    owns: "S, own excess; or compute at a low clock",
    shown_by: "tests/it/analyses/throttled.rs",
    open_pct: LEAST_PCT,
    listed_pct: LEAST_PCT,
    family: CauseFamily::Late(LateRule { words, of_all }),
    ..CauseRule::LATE
};

/// Smallest gain that is told, percent of the time of the job. A device that is 3 % slower for some steps
/// costs little, but it is broken, or in a wrong place, and costs as much in every job to come.
const LEAST_PCT: f64 = 0.3;
/// Share of its late steps in which the clock of a rank must be lower, percent.
const SAME_STEPS_PCT: usize = 50;

fn words(late: &LateFacts) -> Option<LateWords> {
    use DelayCause::{SlowDevice, SlowKernel};
    let slower: Vec<&SlowerClock> =
        late.straggler.parts.iter().map(|part| late.clocks.slower_part(*part)).collect::<Option<_>>()?;
    // Where most ranks are slower, they are the typical ones, so that no difference to these says why.
    let are_most = slower.iter().any(|s| s.are_most);
    if !are_most && !matches!(late.main, None | Some(SlowDevice | SlowKernel)) {
        return None;
    }
    let steps: Vec<(StepKey, u32)> = late
        .straggler
        .steps
        .iter()
        .flat_map(|(key, parts)| parts.iter().map(move |part| (*key, *part)))
        .collect();
    let is_slower =
        |(key, part): &&(StepKey, u32)| late.clocks.slower_part(*part).is_some_and(|s| s.steps.contains(key));
    if steps.iter().filter(is_slower).count() * 100 < steps.len() * SAME_STEPS_PCT {
        return None;
    }
    let words = SlowerWords::new(late.job, &slower, &late.job.words.named(late.ranks));
    let rank = |s: &SlowerClock| Some(late.job.parts.get(s.place.0 as usize)?.rank);
    let seen = SeenOfRanks::new(slower.iter().filter_map(|s| Some((rank(s)?, s.seen, s.is_state_recorded))));
    let SlowerWords { clocks, longer, has_levels } = words;
    let only_if = match late.clocks.recorded.is_model_assumed {
        true => ", by the clock if the devices are of one model",
        false => "",
    };
    Some(LateWords {
        instead: format!("{}: {longer}{only_if}", capital(&clocks)),
        are_most,
        is_open: late.clocks.recorded.is_model_assumed,
        has_levels,
        beside: seen.words(late.job),
        action: seen.action(late.job),
        evidence: evidence(late.ranks, clocks, &seen, energy_of_slower(late, &slower)),
        ..LateWords::default()
    })
}

/// The clocks of all devices of a job fall, or of most, so that none is slower than the middle of the others.
struct AllFalls<'a> {
    context: &'a Context<'a>,
    /// Whether there are no other devices.
    is_all: bool,
    falls: Vec<(PartDevice, &'a DeviceFall)>,
    seen: SeenOfRanks,
    /// Whether kernels of these devices take longer by that.
    is_shown: bool,
}

fn of_all(context: &Context) -> Option<Cause> {
    let account = context.account;
    let all = AllFalls::of(context)?;
    let told: BTreeSet<PartDevice> = all.told().map(|(place, _)| *place).collect();
    // Devices at a high clock wait for those at a low one.
    let gain =
        gain::of_steps(account, |step, place| told.contains(&place).then(|| all.saved(step.key, place)));
    let ranks: BTreeSet<u32> = all.falls.iter().map(|((part, _), _)| context.rank(*part)).collect();
    let ranks: Vec<u32> = ranks.into_iter().collect();
    let (from_to, low, busy) = (all.fall_words(), all.sum(|f| f.low), all.sum(|f| f.busy));
    let clocks = format!("{from_to} in {} of {} of busy time", fmt_ns(low), fmt_ns(busy));
    let evidence = evidence(&ranks, clocks, &all.seen, all.energy());
    let action = all.seen.action(context.job);
    let mut cause = context.cause(CauseKind::Throttled, "all", ranks, OwnedTime::new(), gain);
    cause.needs = &[Capability::DeviceTime];
    cause.certainty = if all.is_shown { CauseCertainty::Likely } else { CauseCertainty::AtMost };
    let keys = || account.steps.iter().map(|step| step.key);
    cause.compute = told.iter().flat_map(|place| keys().map(|key| all.saved(key, *place))).sum();
    cause.words = CauseWords::new(all.sentence(&from_to, percent(low, busy)), all.detail(), action);
    cause.evidence = evidence;
    Some(cause)
}

impl<'a> AllFalls<'a> {
    fn of(context: &'a Context<'a>) -> Option<Self> {
        let places: BTreeSet<PartDevice> = context.account.cells().map(|(_, place, _)| place).collect();
        let fall = |place: &PartDevice| Some((*place, context.clocks.recorded.falls.get(place)?));
        let falls: Vec<(PartDevice, &DeviceFall)> = places.iter().filter_map(fall).collect();
        if !do_most_fall(falls.iter().map(|(_, fall)| *fall), places.len()) {
            return None;
        }
        let seen = |((part, _), fall): &(PartDevice, &DeviceFall)| {
            (context.rank(*part), fall.seen(), fall.is_state_recorded())
        };
        let seen = SeenOfRanks::new(falls.iter().map(seen));
        let is_shown = is_shown_by(falls.iter().filter(|(_, f)| f.is_shown()).count(), falls.len());
        let is_all = falls.len() == places.len();
        Some(Self { context, is_all, seen, falls, is_shown })
    }

    /// Devices that lose time by it.
    fn told(&self) -> impl Iterator<Item = &(PartDevice, &'a DeviceFall)> {
        self.falls.iter().filter(|(_, fall)| fall.is_told())
    }

    /// What a device saves in a step at its highest clock, at most, ns.
    fn saved(&self, key: Option<StepKey>, place: PartDevice) -> Ns {
        let steps = self.context.clocks.recorded.steps.get(&place);
        steps.and_then(|steps| steps.get(&key)).map_or(0, |step| step.saved)
    }

    fn sum(&self, of: impl Fn(&DeviceFall) -> Ns) -> Ns {
        self.falls.iter().map(|(_, fall)| of(fall)).sum()
    }

    /// A middle clock over devices, in words.
    fn middle(&self, of: impl Fn(&DeviceFall) -> i64) -> String {
        megahertz(median(&mut self.falls.iter().map(|(_, fall)| of(fall)).collect::<Vec<i64>>()).unwrap_or(0))
    }

    fn fall_words(&self) -> String {
        format!("from {} to {} MHz", self.middle(|f| f.clocks[0]), self.middle(|f| f.clocks[1]))
    }

    fn sentence(&self, from_to: &str, share: Option<f64>) -> String {
        let n = self.falls.len();
        let (whose, fall, are) = match (n, self.is_all) {
            (1, _) => ("SM clock".to_string(), "falls", "is"),
            (_, true) => ("SM clocks of all devices".to_string(), "fall", "are"),
            (_, false) => (format!("SM clocks of {n} devices"), "fall", "are"),
        };
        let share = fmt_pct(share);
        match self.since() {
            Some(since) => format!("{whose} {fall} {from_to} during {share} of busy time since {since}"),
            None => format!(
                "{whose} {are} at {} MHz from the start on and during {share} of busy time, else at {}",
                self.middle(|f| f.clocks[1]),
                self.middle(|f| f.clocks[0])
            ),
        }
    }

    fn detail(&self) -> String {
        let mut parts = vec![self.seen.words(self.context.job)];
        parts.retain(|words| !words.is_empty());
        let longest = self.told().max_by_key(|(place, fall)| (fall.low, std::cmp::Reverse(*place)));
        match longest.map(|(_, fall)| fall).filter(|fall| self.is_shown && !fall.kernel.is_empty()) {
            Some(fall) => {
                let longer = fall.lengths[1] as f64 / fall.lengths[0].max(1) as f64;
                parts.push(format!("kernel `{}` takes {longer:.2} x as long then", fall.kernel));
            }
            None => {
                parts.push("no kernel runs often enough at both clocks to compare its length".to_string())
            }
        }
        parts.push("what a higher clock saves is an upper bound".to_string());
        capital(&parts.join("; "))
    }

    /// The energy of a step with the low clock, and of the other steps.
    fn energy(&self) -> Option<String> {
        let clocks = &self.context.clocks.recorded;
        let of = |is_low: bool| {
            let places = self.falls.iter().map(|(place, _)| *place);
            clocks.step_energy(places, |key, step| key.is_some() && step.is_low() == is_low)
        };
        let (low, per) = (of(true)?, self.context.trust.per_step());
        let whose = if self.falls.len() == 1 { "" } else { " of a device" };
        let other = of(false).map_or(String::new(), |other| format!(", {other} at the other"));
        Some(format!("energy{whose}: {low}{per} at the low clock{other}"))
    }

    /// When the first device falls: a step if there are steps, else a time of the capture. Nothing if it is
    /// so from the start on.
    fn since(&self) -> Option<String> {
        let (place, fall) = self.falls.iter().min_by_key(|(place, fall)| (fall.since, *place))?;
        let is_low = |key: Option<StepKey>| {
            let step = self.context.clocks.recorded.steps.get(place).and_then(|steps| steps.get(&key));
            step.is_some_and(StepClock::is_low)
        };
        let mut keys = self.context.account.steps.iter().map(|s| s.key).enumerate();
        match keys.find(|(_, key)| key.is_some() && is_low(*key)) {
            Some((0, _)) => None,
            Some((_, key)) => key.map(|key| format!("{} {}", self.context.trust.step_noun(), key.told())),
            None => fall.since.filter(|at| *at > 0).map(|at| format!("{} after the start", fmt_ns(at))),
        }
    }
}

/// The energy of the slower devices in their steps, and of those that they are compared with in the same.
fn energy_of_slower(late: &LateFacts, slower: &[&SlowerClock]) -> Option<String> {
    let clocks = &late.clocks.recorded;
    let keys: BTreeSet<StepKey> = slower.iter().flat_map(|s| &s.steps).copied().collect();
    let of = |places: BTreeSet<PartDevice>| {
        clocks.step_energy(places, |key, _| key.is_some_and(|key| keys.contains(&key)))
    };
    let own = of(slower.iter().map(|s| s.place).collect())?;
    let others = of(peers_of(slower));
    let others = others.map_or(String::new(), |others| format!(", of the others {others}"));
    let whose = if slower.len() == 1 { "" } else { " of a device" };
    Some(format!("energy{whose}: {own} a step{others}"))
}

/// The samples that show a lower clock, what is seen beside it, and the energy of a step.
fn evidence(ranks: &[u32], clocks: String, seen: &SeenOfRanks, energy: Option<String>) -> Vec<Evidence> {
    let row = |kind: &str, ranks: &[u32], words| Evidence {
        table: "hardware_counters",
        filter: format!("{} AND kind = '{kind}'", of_ranks(ranks)),
        words,
    };
    let clocks = row(HardwareCounter::SmClock.key(), ranks, clocks);
    let energy = energy.map(|words| Evidence {
        table: EnergyTable::SPEC.name,
        filter: format!("{} AND scope = 'step'", of_ranks(ranks)),
        words,
    });
    let seen = seen.shown().map(|(kind, ranks, words)| row(kind, &ranks, words));
    [clocks].into_iter().chain(seen).chain(energy).collect()
}
