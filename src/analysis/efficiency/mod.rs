//! Efficiency: which share of all ranks' time was compute, and which factor costs most.

pub mod account;
pub mod delay_cost;

use crate::api::{About, AcrossOption, Analysis, Options, Output, Partial, RowEmitter};
use crate::collectives::GroupSelection;
use account::{Account, StepAccount, steps};
use hta_base::table;
use hta_base::table::schema::Text;
use hta_base::table::view::{Keep, Note, TableError, ViewScope, ViewSpec};
use hta_base::units::{Ns, fmt_pct, percent};
use hta_job::Job;
use hta_job::delay::StepKey;
use hta_job::recording::capability::Capability;
use hta_job::recording::rules::fused_share;
use hta_job::replay::{ReplayLimits, ReplayedJob};
use hta_trace::rank_trace::RankTrace;
use std::collections::BTreeMap;

table! {
    /// The time of the devices of the job, of a process group or of a step; compute + fused + waiting +
    /// transfer + unmatched + copies + idle + finished_early = device_count * time, and parallel_efficiency =
    /// load_balance * communication_efficiency * orchestration_efficiency.
    pub struct Efficiencies, EfficiencyRow = "efficiency" by "scope, process_group, step" {
        scope: Text, "", "job, group or step";
        process_group: Option<Text>, "", "name and members of the group; null: all ranks", "ranks";
        step: Option<u32>, "", "index of the step in time, for steps without a number";
        step_label;
        device_count: u32, "", "devices; a rank without devices counts as one";
        step_count: u32, "", "steps in the sums; the recorded span counts as one";
        time_ns: i64, "ns", "T: sum over the steps of the longest window of the devices", "step"
            => sum(time_ns);
        compute_ns: i64, "ns", "U: compute runs; sum over devices and steps, as all of the following";
        fused_ns: i64, "ns", "X: fused kernels (exchange and product in one) run and no compute";
        waiting_ns: i64, "ns", "S: exposed communication that waits for other ranks";
        transfer_ns: i64, "ns", "F: exposed communication that transfers";
        unmatched_ns: i64, "ns", "N: exposed communication without a match";
        copies_ns: i64, "ns", "M: copies and sets of memory without compute and communication";
        idle_ns: i64, "ns", "I: nothing runs";
        finished_early_ns: i64, "ns", "D: the step of the job is longer than the device's window";
        parallel_efficiency: Option<f64>, "share",
            "sum of U / (n T); null without compute, as all of the following", "compute";
        load_balance: Option<f64>, "share", "sum of U / (n max U)";
        communication_efficiency: Option<f64>, "share", "max U / max (U + X + S + F + N + M)",
            "communication";
        orchestration_efficiency: Option<f64>, "share", "max (U + X + S + F + N + M) / T", "orchestration";
        replayed_ns: Option<i64>, "ns",
            "T0: the replay of the job; null without collectives of several ranks or without devices, as all \
             of the following";
        instant_network_ns: Option<i64>, "ns", "T1: the same when transfers take no time; at least T2";
        instant_hosts_ns: Option<i64>, "ns",
            "T2: in addition hosts and copies take no time, and all ranks start together; at least max U";
        replayed_parallel_efficiency: Option<f64>, "share",
            "sum of U / (n T0) = load_balance * the following three", "compute";
        serialization_efficiency: Option<f64>, "share", "max U / T2", "serialization";
        replayed_orchestration_efficiency: Option<f64>, "share", "T2 / T1", "orchestration";
        transfer_efficiency: Option<f64>, "share", "T1 / T0", "transfer";
    }
}

const VIEWS: [ViewSpec; 2] = [
    ViewSpec {
        title: "Efficiency: the compute share of all time, and its factors",
        columns: &[
            "process_group",
            "time_ns",
            "parallel_efficiency",
            "load_balance",
            "communication_efficiency",
            "orchestration_efficiency",
        ],
        nulls: &[("process_group", "all")],
        keep: &[Keep::Is("scope", &["job", "group"])],
        per: "step_count",
        notes: &[Note::Made(fused)],
        ..ViewSpec::of(Efficiencies::SPEC)
    },
    // The factors by replay, which tell hosts from the network.
    ViewSpec {
        title: "Efficiency by replay: hosts and network apart",
        columns: &[
            "replayed_parallel_efficiency",
            "load_balance",
            "serialization_efficiency",
            "replayed_orchestration_efficiency",
            "transfer_efficiency",
        ],
        keep: &[Keep::Is("scope", &["job"]), Keep::Known("replayed_parallel_efficiency")],
        ..ViewSpec::of(Efficiencies::SPEC)
    },
];

/// Between which bounds the compute share lies, where fused kernels have an unknown part of it.
fn fused(scope: &ViewScope) -> Result<Option<String>, TableError> {
    let mut bounds = None;
    scope.each::<Efficiencies>(|r| {
        let whole = r.time_ns * Ns::from(r.device_count);
        let parts = percent(r.compute_ns, whole).zip(fused_share(r.fused_ns, whole));
        bounds = bounds.or(parts.filter(|_| r.scope == "job"));
    })?;
    Ok(bounds.map(|(least, more)| {
        format!(
            "compute: at least {}, at most {}; fused kernels (exchange and product in one) count as lost, as \
             if they were all communication",
            fmt_pct(Some(least)),
            fmt_pct(Some(least + more))
        )
    }))
}

table! {
    /// What a rank cost the others: waiting in matched collectives. direct + propagated, summed over all
    /// rows, are the waits of all calls.
    pub struct DelayCosts, DelayCostRow = "delay_cost" by "rank, step" {
        rank;
        step: Option<u32>, "", "index of the step in time, for steps without a number";
        step_label;
        direct_ns: i64, "ns",
            "waiting of others, summed over them, because the rank worked longer than they did";
        propagated_ns: i64, "ns", "the same behind a rank that had waited for this one in another group";
        imposed_last_ns: i64, "ns", "all waiting in the instances in which the rank came last";
    }
}

pub struct Efficiency;

impl Analysis for Efficiency {
    fn about(&self) -> About {
        About {
            stem: "efficiency",
            title: "the compute share of all ranks' time, and the factors that reduce it",
            explain: include_str!("page.md"),
            tables: &[Efficiencies::SPEC, DelayCosts::SPEC],
            views: &VIEWS,
            takes: &[AcrossOption::Group],
            joins_ranks: true,
            replays: true,
            needs: &[Capability::DeviceTime, Capability::Ranks],
            ..About::DEFAULT
        }
    }

    fn map(&self, trace: &RankTrace, _: &Options, _: &mut RowEmitter) -> Partial {
        let reason = trace.without_devices();
        Partial { rank: trace.rank, tables: Vec::new(), reason }
    }

    fn reduce(&self, _: &[Partial], job: &Job, options: &Options) -> Output {
        let steps = steps(job);
        let shown = GroupSelection::new(job, options);
        let mut table = Efficiencies::default();
        let limits = JobLimits::new(job, &steps);
        if let Some(all) = Account::new(&steps, |_| true) {
            push(&mut table, "job", None, None, (&all, limits.of(None)));
        }
        for (id, group) in job.matched.groups.iter().enumerate().filter(|(id, _)| shown.has(*id as u32)) {
            let name = shown.name(id as u32);
            let of_group = |(part, _): account::PartDevice| group.parts().any(|p| p == part);
            if let Some(account) = Account::new(&steps, of_group) {
                push(&mut table, "group", Some(name), None, (&account, limits.of(None)));
            }
        }
        for step in steps.iter().filter(|s| s.key.is_some()) {
            if let Some(account) = Account::new(std::slice::from_ref(step), |_| true) {
                push(&mut table, "step", None, step.key, (&account, limits.of(step.key)));
            }
        }
        let mut costs = DelayCosts::default();
        for ((part, key), c) in delay_cost::costs(job).iter() {
            let (step, step_label) = StepKey::cells(*key);
            let rank = job.parts[*part as usize].rank;
            let (direct_ns, propagated_ns, imposed_last_ns) = (c.direct, c.propagated, c.imposed_last);
            costs.push(DelayCostRow { rank, step, step_label, direct_ns, propagated_ns, imposed_last_ns });
        }
        Output { tables: vec![table.finish(), costs.finish()], ..Output::default() }
    }
}

/// The replay of the job without network, and without hosts.
#[derive(Default)]
struct JobLimits {
    /// `None` if the account has other steps than the replay.
    all: Option<ReplayLimits>,
    steps: BTreeMap<StepKey, ReplayLimits>,
}

impl JobLimits {
    fn new(job: &Job, steps: &[StepAccount]) -> Self {
        let Some((all, of_steps)) = ReplayedJob::of(job).and_then(|r| r.limits(job)) else {
            return Self::default();
        };
        let steps_of_replay: BTreeMap<StepKey, ReplayLimits> = of_steps.into_iter().collect();
        let is_same = steps.iter().all(|s| s.key.is_none_or(|k| steps_of_replay.contains_key(&k)))
            && (steps.len() == steps_of_replay.len() || steps.iter().all(|s| s.key.is_none()));
        Self { all: is_same.then_some(all), steps: steps_of_replay }
    }

    fn of(&self, key: Option<StepKey>) -> Option<ReplayLimits> {
        match key {
            None => self.all,
            Some(key) => self.steps.get(&key).copied(),
        }
    }
}

fn push(
    table: &mut Efficiencies,
    scope: &str,
    process_group: Option<&str>,
    key: Option<StepKey>,
    (a, limits): (&Account, Option<ReplayLimits>),
) {
    let (step, step_label) = StepKey::cells(key);
    let limits = limits.map(|l| l.at_least(a.most_compute));
    let by_replay = limits.and_then(|l| a.replay_factors(l));
    table.push(EfficiencyRow {
        scope,
        process_group,
        step,
        step_label,
        device_count: a.devices,
        step_count: a.steps,
        time_ns: a.time,
        compute_ns: a.parts.compute,
        fused_ns: a.parts.fused,
        waiting_ns: a.parts.waiting,
        transfer_ns: a.parts.transfer,
        unmatched_ns: a.parts.unmatched,
        copies_ns: a.parts.copies,
        idle_ns: a.parts.idle,
        finished_early_ns: a.parts.finished_early,
        parallel_efficiency: a.factors.map(|f| f.parallel),
        load_balance: a.factors.map(|f| f.load_balance),
        communication_efficiency: a.factors.map(|f| f.communication),
        orchestration_efficiency: a.factors.map(|f| f.orchestration),
        replayed_ns: limits.map(|l| l.replayed),
        instant_network_ns: limits.map(|l| l.instant_network),
        instant_hosts_ns: limits.map(|l| l.instant_hosts),
        replayed_parallel_efficiency: by_replay.map(|f| f.parallel),
        serialization_efficiency: by_replay.map(|f| f.serialization),
        replayed_orchestration_efficiency: by_replay.map(|f| f.orchestration),
        transfer_efficiency: by_replay.map(|f| f.transfer),
    });
}
