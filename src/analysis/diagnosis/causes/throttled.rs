//! `throttled`: the clock of devices is lower than it could be, and their kernels take longer by that.

use crate::diagnosis::CauseKind;
use crate::diagnosis::cause::Cause;
use crate::diagnosis::cause_words::CauseWords;
use crate::diagnosis::certainty::CauseCertainty;
use crate::diagnosis::clocks::{DeviceFall, SlowerClock, megahertz, performance};
use crate::diagnosis::context::Context;
use crate::diagnosis::evidence::{Evidence, of_ranks};
use crate::diagnosis::gain::{self, OwnedTime};
use crate::diagnosis::late::{LateFacts, LateWords};
use crate::diagnosis::rule::{CauseFamily, CauseRule, LateRule};
use crate::efficiency::account::PartDevice;
use crate::job::cause::DelayCause;
use crate::job::delay::StepKey;
use crate::job::median;
use crate::recording::capability::Capability;
use hta_base::units::{Ns, fmt_ns, fmt_pct, percent};
use hta_base::wording::counts::capital;
use std::collections::BTreeSet;

pub(super) const RULE: CauseRule = CauseRule {
    name: "throttled",
    certainty: CauseCertainty::Likely,
    evidence: "the SM clock of a rank is 2.5 % below that of ranks with the same device, in 3 steps and more, \
               and most of what its kernels take longer is by that; or all clocks fall: 5 % below the highest \
               for 10 % of the busy time, or steadily by 2.5 % where kernels take longer by that. Not while \
               metrics are sampled, which holds the clocks; page of `hta explain diagnosis`",
    owns: "S, own excess; or compute at a low clock",
    shown_by: "tests/it/analyses/throttled.rs",
    open_pct: LEAST_PCT,
    listed_pct: LEAST_PCT,
    family: CauseFamily::Late(LateRule { words, of_all }),
    ..CauseRule::LATE
};

/// Smallest gain that is told, percent of the time of the job. A device that is 3 % slower for some steps costs
/// little, but it is broken, or in a wrong place, and costs as much in every job to come.
const LEAST_PCT: f64 = 0.3;
/// Share of its late steps in which the clock of a rank must be lower, percent.
const SAME_STEPS_PCT: usize = 50;

fn words(late: &LateFacts) -> Option<LateWords> {
    use DelayCause::{SlowDevice, SlowKernel};
    if !matches!(late.main, None | Some(SlowDevice | SlowKernel)) {
        return None;
    }
    let slower: Vec<&SlowerClock> =
        late.straggler.parts.iter().map(|part| late.clocks.slower_part(*part)).collect::<Option<_>>()?;
    let first = *slower.first()?;
    let steps: Vec<(StepKey, u32)> = late
        .straggler
        .steps
        .iter()
        .flat_map(|(key, parts)| parts.iter().map(move |part| (*key, *part)))
        .collect();
    let is_slower =
        |(key, part): &&(StepKey, u32)| slower.iter().any(|s| s.place.0 == *part && s.steps.contains(key));
    if steps.iter().filter(is_slower).count() * 100 < steps.len() * SAME_STEPS_PCT {
        return None;
    }
    let middle = |of: &dyn Fn(&SlowerClock) -> i64| {
        median(&mut slower.iter().map(|s| of(s)).collect::<Vec<i64>>()).unwrap_or(0)
    };
    let (own, others) = (middle(&|s| s.own), middle(&|s| s.others));
    let who = late.job.words.named(late.ranks);
    let (run, kernels) =
        if late.ranks.len() == 1 { ("runs", "its kernels are") } else { ("run", "their kernels are") };
    let clocks = format!("at {} MHz, the others at {}", megahertz(own), megahertz(others));
    let seen = first.seen.filter(|_| slower.iter().all(|s| s.seen.is_some()));
    let filter = of_ranks(late.ranks);
    let mut evidence = vec![Evidence {
        table: "hardware_counters",
        filter: format!("{filter} AND kind = 'sm_clock'"),
        words: format!("{run} {clocks}"),
    }];
    evidence.extend(seen.map(|seen| Evidence {
        table: "hardware_counters",
        filter: format!("{filter} AND kind = '{}'", seen.counter()),
        words: seen.words(),
    }));
    Some(LateWords {
        instead: format!("{} {run} {clocks}: {kernels} {:.2} x longer", capital(&who), first.longer),
        beside: seen.map_or(String::new(), |seen| seen.words()),
        action: performance(
            seen,
            slower.iter().all(|s| s.is_state_recorded),
            &late.job.words.plain(late.ranks),
        ),
        evidence,
        ..LateWords::default()
    })
}

/// The clocks of all devices fall, so that none is slower than the others.
fn of_all(context: &Context) -> Option<Cause> {
    let (account, clocks) = (context.account, context.clocks);
    let places: BTreeSet<PartDevice> = account.cells().map(|(_, place, _)| place).collect();
    let falls: Vec<(PartDevice, &DeviceFall)> = places
        .iter()
        .map(|place| clocks.falls.get(place).filter(|fall| fall.is_told()).map(|fall| (*place, fall)))
        .collect::<Option<_>>()?;
    let (_, worst) = falls.iter().max_by_key(|(place, fall)| (fall.low, std::cmp::Reverse(*place)))?;
    let saved = |key: Option<StepKey>, place: PartDevice| {
        clocks.steps.get(&place).and_then(|steps| steps.get(&key)).map_or(0, |step| step.saved)
    };
    let gain = gain::of_steps(account, |step, place| saved(step.key, place));
    let ranks: BTreeSet<u32> = places.iter().map(|(part, _)| context.rank(*part)).collect();
    let ranks: Vec<u32> = ranks.into_iter().collect();
    let filter = of_ranks(&ranks);
    let mut cause = context.cause(CauseKind::Throttled, "all", ranks, OwnedTime::new(), gain);
    cause.needs = &[Capability::DeviceTime];
    let is_shown = falls.iter().all(|(_, fall)| fall.is_shown());
    cause.certainty = if is_shown { CauseCertainty::Likely } else { CauseCertainty::AtMost };
    cause.compute = account.steps.iter().flat_map(|s| s.cells.keys().map(|p| saved(s.key, *p))).sum();
    let middle = |of: &dyn Fn(&DeviceFall) -> i64| {
        median(&mut falls.iter().map(|(_, fall)| of(fall)).collect::<Vec<i64>>()).unwrap_or(0)
    };
    let clocks_told = format!(
        "from {} to {} MHz",
        megahertz(middle(&|f| f.clocks[0])),
        megahertz(middle(&|f| f.clocks[1]))
    );
    let sum = |of: fn(&DeviceFall) -> Ns| falls.iter().map(|(_, fall)| of(fall)).sum::<Ns>();
    let share = fmt_pct(percent(sum(|f| f.low), sum(|f| f.busy)));
    let since = since(context, &falls).map_or(String::new(), |since| format!(" since {since}"));
    let subject = if falls.len() == 1 { "SM clock falls" } else { "SM clocks of all devices fall" };
    let what = format!("{subject} {clocks_told} during {share} of busy time{since}");
    let seen =
        worst.seen().filter(|_| falls.iter().filter(|(_, f)| f.seen().is_some()).count() * 2 > falls.len());
    let mut why = seen.map_or(String::new(), |seen| capital(&seen.words()));
    if is_shown && !worst.kernel.is_empty() {
        let longer = worst.lengths[1] as f64 / worst.lengths[0].max(1) as f64;
        let join = if why.is_empty() { "Its" } else { "; its" };
        why.push_str(&format!("{join} kernel `{}` takes {longer:.2} x as long then", worst.kernel));
    }
    let who = context.job.words.plain(&cause.ranks);
    let action = performance(seen, falls.iter().all(|(_, f)| f.is_state_recorded()), &who);
    cause.words = CauseWords::new(what, why, action);
    cause.evidence = vec![Evidence {
        table: "hardware_counters",
        filter: format!("{filter} AND kind = 'sm_clock'"),
        words: format!(
            "{clocks_told} in {} of {} of busy time",
            fmt_ns(sum(|f| f.low)),
            fmt_ns(sum(|f| f.busy))
        ),
    }];
    cause.evidence.extend(seen.map(|seen| Evidence {
        table: "hardware_counters",
        filter: format!("{filter} AND kind = '{}'", seen.counter()),
        words: seen.words(),
    }));
    Some(cause)
}

/// When the first device falls: a step if there are steps, else a time of the capture. Nothing if it is so from
/// the start on.
fn since(context: &Context, falls: &[(PartDevice, &DeviceFall)]) -> Option<String> {
    let (place, fall) = falls.iter().min_by_key(|(place, fall)| (fall.since, *place))?;
    let is_low = |key: Option<StepKey>| {
        let step = context.clocks.steps.get(place).and_then(|steps| steps.get(&key));
        step.is_some_and(|step| step.low * 2 >= step.busy && step.busy > 0)
    };
    let steps: Vec<Option<StepKey>> = context.account.steps.iter().map(|s| s.key).collect();
    match steps.iter().position(|key| is_low(*key)) {
        Some(0) => None,
        Some(i) => steps.get(i).copied().flatten().map(|key| format!("step {}", key.shown())),
        None => fall.since.map(|at| format!("{} after the start", fmt_ns(at))),
    }
}
