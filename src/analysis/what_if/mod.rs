//! What-if: how much shorter steps would be without stragglers, and which fix helps most.

use crate::api::{About, AcrossOption, Analysis, Options, Output, Partial, RowEmitter, TOP, ViewNote};
use crate::efficiency::account::StepLength;
use crate::experts::imbalance::ExpertImbalance;
use crate::settings::{Setting, ValueType};
use crate::stragglers::{Judged, StepDifferences, judged};
use hashbrown::HashMap;
use hta_base::table;
use hta_base::table::schema::Text;
use hta_base::table::view::{Keep, RowTest, TableError, ViewScope, ViewSpec};
use hta_base::units::{Ns, fmt_ns, percent};
use hta_base::wording::ranks::rank_list;
use hta_job::Job;
use hta_job::balanced::BalancedExperts;
use hta_job::cause::{DelayCause, Difference};
use hta_job::delay::StepKey;
use hta_job::experts::JobLayers;
use hta_job::recording::capability::Capability;
pub use hta_job::replay::RELIABLE_PCT;
use hta_job::replay::{Replay, ReplayedJob, StepEnds};
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;
use std::collections::BTreeMap;

table! {
    /// What a repair would gain. Row `all`: every local segment takes its usual time.
    pub struct WhatIfs, WhatIfRow = "what_if" by "scope, gain_ns descending" key "scope, what" {
        scope: Text, "",
            "all, rank, ranks (late together), step or cause; with --method published also stage, dp_rank, \
             op_type, m_s, m_w", "fix of";
        what: Text, "", "what is fixed; with --method published: what keeps its own durations";
        step_ns: Option<i64>, "ns", "mean step less the gain", "step then";
        gain_ns: Option<i64>, "ns",
            "by how much the replay is shorter with the fix, mean of a step", "saves per step";
        gain_pct: Option<f64>, "%", "of the mean step, as in `efficiency`", "of the step";
        gain_device_only_ns: Option<i64>, "ns",
            "the same by a replay in which no host is ever late; null with --method published";
        share_of_slowdown_pct: Option<f64>, "%", "of what fixing all saves, at most 100", "of all savings";
        slowdown: Option<f64>, "",
            "S: row `all` and `step`: replayed over ideal; --method published: replayed with its own \
             durations over ideal";
        replay_error_pct: f64, "%", "deviation of the replay without fixes from the measured steps";
        is_reliable: bool, "", "the replay error is at most 5 %";
    }
}

/// Whose definitions are used; those of the paper are an answer of `compat`.
const METHOD: Setting = Setting {
    stem: "what-if",
    flag: "--method",
    value: "METHOD",
    help: "replay: the job again, with one delay less; published: as in the OSDI'25 paper, on its own \
           timeline format",
    kind: ValueType::Choice(&["replay", "published"]),
};

/// Smallest gain that is shown, percent of the mean step.
const SHOWN_PCT: f64 = 0.1;

const VIEWS: [ViewSpec; 1] = [ViewSpec {
    title: "What a fix would save",
    columns: &["scope", "what", "step_ns", "gain_ns", "gain_pct", "share_of_slowdown_pct"],
    keep: &[Keep::Made(&["scope", "gain_pct"], is_shown)],
    by: "gain_ns",
    ..ViewSpec::of(WhatIfs::SPEC)
}];

fn is_shown(_: &ViewScope) -> Result<RowTest, TableError> {
    Ok(Box::new(|c, row| c[0].text(row) == Some("all") || c[1].float(row).is_some_and(|p| p >= SHOWN_PCT)))
}

pub struct WhatIf;

impl Analysis for WhatIf {
    fn about(&self) -> About {
        About {
            stem: "what-if",
            title: "the step time without stragglers, and which fix helps most",
            explain: include_str!("page.md"),
            tables: &[WhatIfs::SPEC],
            views: &VIEWS,
            settings: &[METHOD],
            takes_steps: false,
            joins_ranks: true,
            replays: true,
            needs: &[Capability::Ranks],
            takes: &[AcrossOption::StragglerMin, AcrossOption::KernelWaitMax],
            ..About::DEFAULT
        }
    }

    fn map(&self, trace: &RankTrace, _: &Options, _: &mut RowEmitter) -> Partial {
        Partial::joined_later(trace)
    }

    fn reduce(&self, _: &[Partial], job: &Job, options: &Options) -> Output {
        replayed(job, options)
    }
}

const NOT_RELIABLE: &str = ": NOT RELIABLE, the replay does not reproduce the measured step";

/// One repair with the resulting mean step.
struct JobRepair {
    scope: &'static str,
    what: String,
    step: Ns,
    /// The gain if no host could be late, ns.
    device_only: Ns,
}

/// The mean step now, and if every rank took its usual time.
struct RepairScale {
    step: Ns,
    best: Ns,
}

impl RepairScale {
    fn gain(&self, with: Ns) -> Ns {
        self.step - with
    }

    fn gain_pct(&self, with: Ns) -> Option<f64> {
        percent(self.gain(with), self.step)
    }

    fn of_slowdown(&self, with: Ns) -> Option<f64> {
        percent(self.gain(with).min(self.gain(self.best)), self.gain(self.best))
    }
}

fn replayed(job: &Job, options: &Options) -> Output {
    let output = |table: WhatIfs, text: String| Output {
        tables: vec![table.finish()],
        notes: vec![ViewNote::first(text)],
        ..Output::default()
    };
    let Some(base) = ReplayedJob::of(job) else {
        let why = "nothing to replay: no collectives that several ranks recorded";
        return output(WhatIfs::default(), why.to_string());
    };
    let error = base.error_pct().unwrap_or(0.0);
    let ReplayedJob { replay, actual, .. } = base.as_ref();
    let length = StepLength::of(job);
    let _n = length.keys.len().max(1) as i64;
    let step = length.step();
    // The step of the account less what the replay gains.
    let mean = |t: &StepEnds| step - length.per_step(base.gain(t, &length.keys));
    let device_gain = |t: &StepEnds, all: &StepEnds| length.per_step((all.total() - t.total()).max(0));
    let ideal = replay.run_repaired(|_| true);
    let best = mean(&ideal);
    let judged = judged(job, options);
    let on_devices = replay.run_on_devices(|i| replay.local(i));
    let repairs = repairs(job, replay, &judged, (&mean, &|t| device_gain(t, &on_devices)));
    let scale = RepairScale { step, best };
    let row = |table: &mut WhatIfs,
               scope: &str,
               what: &str,
               (with, device_only): (Ns, Ns),
               slowdown: Option<f64>| {
        table.push(WhatIfRow {
            scope,
            what,
            step_ns: Some(with),
            gain_ns: Some(scale.gain(with)),
            gain_pct: scale.gain_pct(with),
            gain_device_only_ns: Some(device_only),
            share_of_slowdown_pct: scale.of_slowdown(with),
            slowdown,
            replay_error_pct: error,
            is_reliable: error <= RELIABLE_PCT,
        });
    };
    let mut table = WhatIfs::default();
    let slowdown = hta_base::units::ratio(step, best);
    let best_on_devices = device_gain(&replay.run_on_devices(|i| replay.usual(i).local), &on_devices);
    row(&mut table, "all", "all ranks and steps", (best, best_on_devices), slowdown);
    let (steps_own, steps_ideal) = (actual.steps(), ideal.steps());
    for r in &repairs {
        let of_step = (r.scope == "step")
            .then(|| replay.steps.iter().position(|s| s.shown() == r.what))
            .flatten()
            .and_then(|k| hta_base::units::ratio(*steps_own.get(k)?, *steps_ideal.get(k)?));
        row(&mut table, r.scope, &r.what, (r.step, r.device_only), of_step);
    }
    let told = format!(
        "slowdown S = {:.3}: a step takes {}, and {} if every rank took its usual time; replay error \
         {error:.2} %{}",
        slowdown.unwrap_or(1.0),
        fmt_ns(step),
        fmt_ns(best),
        if error > RELIABLE_PCT { NOT_RELIABLE } else { "" }
    );
    output(table, told)
}

/// A number of a step, ns.
type OfStep<'a> = dyn Fn(&StepEnds) -> Ns + 'a;

/// Repairs of single ranks, steps and causes, largest gain first within their scope.
fn repairs(
    job: &Job,
    replay: &Replay,
    judged: &Judged,
    (mean, device_gain): (&OfStep, &OfStep),
) -> Vec<JobRepair> {
    let fix = |is_fixed: &(dyn Fn(usize) -> bool + Sync)| {
        let with_hosts = replay.run_repaired(is_fixed);
        let on_devices =
            replay.run_on_devices(|i| if is_fixed(i) { replay.usual(i).local } else { replay.local(i) });
        (mean(&with_hosts), device_gain(&on_devices))
    };
    // Each repair costs a replay, so try only ranks with a delay: a rank that is never last cannot gain.
    let mut delays: BTreeMap<u32, Ns> = BTreeMap::new();
    let mut by_step: BTreeMap<StepKey, Ns> = BTreeMap::new();
    for ((part, step), gain) in &judged.judgement.own_gains {
        *delays.entry(*part).or_default() += gain;
        if let Some(step) = step {
            *by_step.entry(*step).or_default() += gain;
        }
    }
    let largest = |sums: Vec<(u64, Ns)>| -> Vec<u64> {
        let mut sums: Vec<_> = sums.into_iter().filter(|(_, g)| *g > 0).collect();
        sums.sort_by_key(|(k, g)| (std::cmp::Reverse(*g), *k));
        sums.into_iter().take(TOP).map(|(k, _)| k).collect()
    };
    let mut out = Vec::new();
    for part in largest(delays.into_iter().map(|(p, g)| (u64::from(p), g)).collect()) {
        // A straggler is repaired where it is one, as in the other answers.
        let named =
            judged.judgement.stragglers.iter().find(|s| s.parts == [part as u32] && s.behind.is_empty());
        let is_there = |i: usize| named.is_none_or(|s| s.is_late(replay.part(i), replay.step(i)));
        let (step, device_only) = fix(&|i| u64::from(replay.part(i)) == part && is_there(i));
        out.push(JobRepair {
            scope: "rank",
            what: job.parts[part as usize].rank.to_string(),
            step,
            device_only,
        });
    }
    for s in judged.judgement.stragglers.iter().filter(|s| s.parts.len() > 1 && s.behind.is_empty()) {
        let (step, device_only) = fix(&|i| s.is_late(replay.part(i), replay.step(i)));
        let ranks: Vec<u32> = s.parts.iter().map(|p| job.parts[*p as usize].rank).collect();
        out.push(JobRepair { scope: "ranks", what: rank_list(&ranks), step, device_only });
    }
    let steps: Vec<StepKey> = by_step.keys().copied().collect();
    let sums = by_step.values().enumerate().map(|(i, g)| (i as u64, *g)).collect();
    // Repairing the only step would be the same as repairing everything.
    for k in largest(sums).into_iter().filter(|_| steps.len() > 1) {
        let Some(key) = steps.get(k as usize) else { continue };
        let (step, device_only) = fix(&|i| replay.step(i) == Some(*key));
        out.push(JobRepair { scope: "step", what: key.shown(), step, device_only });
    }
    out.extend(causes(job, replay, &judged.why, (mean, device_gain)));
    out.extend(balanced_experts(job, replay, (mean, device_gain)));
    let scope = |s: &str| ["rank", "ranks", "step", "cause"].iter().position(|x| *x == s);
    out.sort_by(|a, b| (scope(a.scope), a.step, &a.what).cmp(&(scope(b.scope), b.step, &b.what)));
    out
}

/// Repairs of the most expensive causes: removes the excess time of each over the typical rank.
fn causes(
    job: &Job,
    replay: &Replay,
    why: &[StepDifferences],
    (mean, device_gain): (&OfStep, &OfStep),
) -> Vec<JobRepair> {
    type Key = (DelayCause, StrId, StrId);
    // What tokens cost is repaired by balancing them (`balanced_experts`).
    let are_balanced = ExpertImbalance::of(job).is_some();
    let mut sums: BTreeMap<Key, Ns> = BTreeMap::new();
    let mut at: BTreeMap<Key, HashMap<(u32, u32), Ns>> = BTreeMap::new();
    for e in why {
        let is_alone =
            |d: &&Difference| d.delta() > 0 && !(are_balanced && d.cause == DelayCause::MoreTokens);
        for d in e.differences.iter().filter(is_alone) {
            let key = (d.cause.whatever_count(), d.name, d.detail);
            *sums.entry(key).or_default() += d.delta();
            *at.entry(key).or_default().entry((e.part, e.call)).or_default() += d.delta();
        }
    }
    let nodes: HashMap<(u32, u32), usize> =
        (0..replay.node_count()).map(|i| ((replay.part(i), replay.call(i)), i)).collect();
    let mut sums: Vec<(Key, Ns)> = sums.into_iter().collect();
    sums.sort_by_key(|(k, t)| (std::cmp::Reverse(*t), *k));
    sums.into_iter()
        .take(TOP)
        .map(|(key, _)| {
            let mut off: HashMap<usize, Ns> = HashMap::new();
            for (call, time) in at.get(&key).into_iter().flatten() {
                if let Some(node) = nodes.get(call) {
                    take_off(replay, *node, *time, &mut off);
                }
            }
            let of = |i: usize| off.get(&i).copied().unwrap_or(0);
            let on_host = key.0.is_of_host();
            let step = mean(&replay.run(|i| replay.less(i, of(i), on_host)));
            let device_only = device_gain(&replay.run_on_devices(|i| replay.local(i) - of(i)));
            let (name, detail) = (job.names.get(key.1), job.names.get(key.2));
            let mut what = key.0.name().to_string();
            for text in [name, detail].into_iter().filter(|t| !t.is_empty()) {
                what = format!("{what}: {text}");
            }
            JobRepair { scope: "cause", what, step, device_only }
        })
        .collect()
}

/// Experts with equal numbers of tokens, where unequal ones cost time. Tokens are conserved, so nobody
/// becomes as the others are.
fn balanced_experts(
    job: &Job,
    replay: &Replay,
    (mean, device_gain): (&OfStep, &OfStep),
) -> Option<JobRepair> {
    let balanced =
        ExpertImbalance::of(job).is_some().then(|| BalancedExperts::of(job, &JobLayers::of(job), true))?;
    Some(JobRepair {
        scope: "cause",
        what: format!("{}: balanced experts", DelayCause::MoreTokens.name()),
        step: mean(&balanced.run(replay, false)),
        device_only: device_gain(&balanced.run(replay, true)),
    })
}

/// Distributes the time of a cause in a local window over its segments, in proportion to their lengths.
fn take_off(replay: &Replay, node: usize, time: Ns, off: &mut HashMap<usize, Ns>) {
    let segments = replay.segments(node);
    let length = |i: &usize| replay.local(*i).max(0);
    let mut all: i128 = segments.iter().map(|i| i128::from(length(i))).sum();
    let mut left = i128::from(time).min(all);
    for i in segments {
        let own = i128::from(length(&i));
        let part = if all == 0 { 0 } else { left * own / all };
        *off.entry(i).or_default() += part as Ns;
        left -= part;
        all -= own;
    }
}
