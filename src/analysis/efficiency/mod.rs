//! Efficiency: which share of all ranks' time was useful, and which factor costs most.

pub mod account;
pub mod delay_cost;

use crate::analysis::api::{About, Align, Analysis, Options, Output, Partial, RowEmitter, View};
use crate::analysis::collectives::GroupSelection;
use crate::analysis::population::reasons;
use crate::job::Job;
use crate::job::delay::StepKey;
use crate::table;
use crate::table::schema::Text;
use crate::trace::rank_trace::RankTrace;
use crate::units::{fmt_ns, fmt_pct, percent};
use account::{Account, steps};

table! {
    /// The time of the devices of the job, of a process group or of a step; useful + synchronizing + transfer + unmatched + exposed_copies + idle + deficit = device_count * time, and parallel_efficiency = load_balance * communication_efficiency * orchestration_efficiency.
    pub struct Efficiencies, EfficiencyRow = "efficiency" by "scope, process_group, step" {
        scope: Text, "", "job, group or step";
        process_group: Option<Text>, "", "name and members of the group; null: all ranks";
        step: Option<u32>, "", "index of the step in time, for steps without a number";
        step_label;
        device_count: u32, "", "devices; a rank without devices counts as one";
        step_count: u32, "", "steps in the sums; the recorded span counts as one";
        time_ns: i64, "ns", "T: sum over the steps of the longest window of the devices";
        useful_ns: i64, "ns", "U: compute runs; sum over devices and steps, as all of the following";
        synchronizing_ns: i64, "ns", "S: exposed communication that waits for other ranks";
        transfer_ns: i64, "ns", "F: exposed communication that transfers";
        unmatched_ns: i64, "ns", "N: exposed communication without a match";
        exposed_copies_ns: i64, "ns", "M: copies and sets of memory without compute and communication";
        idle_ns: i64, "ns", "I: nothing runs";
        deficit_ns: i64, "ns", "D: the step of the job is longer than the device's window";
        parallel_efficiency: Option<f64>, "", "sum of U / (n T); null without compute, as all of the following";
        load_balance: Option<f64>, "", "sum of U / (n max U)";
        communication_efficiency: Option<f64>, "", "max U / max (U + S + F + N + M)";
        orchestration_efficiency: Option<f64>, "", "max (U + S + F + N + M) / T";
    }
}

table! {
    /// What a rank cost the others: waiting in matched collectives. direct + propagated, summed over all rows, are the waits of all calls.
    pub struct DelayCosts, DelayCostRow = "delay_cost" by "rank, step" {
        rank;
        step: Option<u32>, "", "index of the step in time, for steps without a number";
        step_label;
        direct_ns: i64, "ns", "waiting of others, summed over them, because the rank worked longer than they did";
        propagated_ns: i64, "ns", "the same behind a rank that had waited for this one in another group";
        imposed_last_ns: i64, "ns", "all waiting in the instances in which the rank came last";
    }
}

pub struct Efficiency;

impl Analysis for Efficiency {
    fn about(&self) -> About {
        About {
            stem: "efficiency",
            title: "the useful share of all ranks' time, and the factors that reduce it",
            explain: include_str!("page.md"),
            tables: &[Efficiencies::SPEC, DelayCosts::SPEC],
            takes_groups: true,
            joins_ranks: true,
            ..About::DEFAULT
        }
    }

    fn map(&self, trace: &RankTrace, _: &Options, _: &mut RowEmitter) -> Partial {
        let reason = trace.devices.is_empty().then_some("no GPU activity and no operators");
        Partial { rank: trace.rank, tables: Vec::new(), reason }
    }

    fn reduce(&self, partials: &[Partial], job: &Job, options: &Options) -> Output {
        let steps = steps(job);
        let shown = GroupSelection::new(job, options);
        let mut table = Efficiencies::default();
        let mut view = View {
            title: "Efficiency: the useful share of all time, and its factors".to_string(),
            columns: vec![
                ("ranks", Align::Left),
                ("step", Align::Right),
                ("useful", Align::Right),
                ("load balance", Align::Right),
                ("communication", Align::Right),
                ("orchestration", Align::Right),
            ],
            rows: Vec::new(),
            notes: reasons(partials),
        };
        if let Some(all) = Account::new(&steps, |_| true) {
            push(&mut table, "job", None, None, &all);
            view.rows.push(cells("all".to_string(), &all));
        }
        for (id, group) in job.matched.groups.iter().enumerate().filter(|(id, _)| shown.has(*id as u32)) {
            let name = shown.name(id as u32);
            let of_group = |(part, _): account::Place| group.uses.iter().any(|(p, _)| *p == part);
            if let Some(account) = Account::new(&steps, of_group) {
                push(&mut table, "group", Some(name), None, &account);
                if view.rows.len() <= options.top {
                    view.rows.push(cells(name.to_string(), &account));
                }
            }
        }
        for step in steps.iter().filter(|s| s.key.is_some()) {
            if let Some(account) = Account::new(std::slice::from_ref(step), |_| true) {
                push(&mut table, "step", None, step.key, &account);
            }
        }
        let mut costs = DelayCosts::default();
        for ((part, key), c) in delay_cost::costs(job) {
            let (step, step_label) = StepKey::cells(key);
            let rank = job.parts[part as usize].rank;
            let (direct_ns, propagated_ns, imposed_last_ns) = (c.direct, c.propagated, c.imposed_last);
            costs.push(DelayCostRow { rank, step, step_label, direct_ns, propagated_ns, imposed_last_ns });
        }
        Output { tables: vec![table.finish(), costs.finish()], views: vec![view], ..Output::default() }
    }
}

fn push(table: &mut Efficiencies, scope: &str, process_group: Option<&str>, key: Option<StepKey>, a: &Account) {
    let (step, step_label) = StepKey::cells(key);
    table.push(EfficiencyRow {
        scope,
        process_group,
        step,
        step_label,
        device_count: a.devices,
        step_count: a.steps,
        time_ns: a.time,
        useful_ns: a.parts.useful,
        synchronizing_ns: a.parts.synchronizing,
        transfer_ns: a.parts.transfer,
        unmatched_ns: a.parts.unmatched,
        exposed_copies_ns: a.parts.copies,
        idle_ns: a.parts.idle,
        deficit_ns: a.parts.deficit,
        parallel_efficiency: a.factors.map(|f| f.parallel),
        load_balance: a.factors.map(|f| f.load_balance),
        communication_efficiency: a.factors.map(|f| f.communication),
        orchestration_efficiency: a.factors.map(|f| f.orchestration),
    });
}

fn cells(name: String, a: &Account) -> Vec<String> {
    let percent_of = |factor: Option<f64>| fmt_pct(factor.map(|f| 100.0 * f));
    let factors = [a.factors.map(|f| f.load_balance), a.factors.map(|f| f.communication)];
    let mut row = vec![name, fmt_ns(a.time / i64::from(a.steps.max(1)))];
    row.push(fmt_pct(percent(a.parts.useful, i64::from(a.devices) * a.time)));
    row.extend(factors.into_iter().chain([a.factors.map(|f| f.orchestration)]).map(percent_of));
    row
}
