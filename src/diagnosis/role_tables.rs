//! What the roles of a job do in each period of its loop.

use hta_analysis::api::ViewNote;
use hta_base::table;
use hta_base::table::rollup::Rollup;
use hta_base::table::schema::{Batch, Text};
use hta_base::units::{Ns, percent};
use hta_job::loops::{JobLoops, LoopPeriod};
use hta_job::{Job, RankSummary};
use hta_trace::role_phase::LoopPhase;
use std::collections::BTreeMap;

pub(super) const ROLES: &str = "Roles in the periods of the loop";

table! {
    /// What each rank does in a period of a loop of several roles (reinforcement learning): phases and idle
    /// time in order, which sum to the period.
    pub struct RolePhaseTable, RolePhaseRow = "role_phases" by "rank, period, start_ns" {
        rank;
        role: Option<Text>, "", "role of its program; null: the job is one program";
        replica: Option<u32>, "", "which of several programs of this role";
        role_rank: Option<u32>, "", "rank inside its program";
        period: u32, "", "period of the loop, from 0";
        start_ns: i64, "ns", "start on the common axis";
        phase: Text, "", "rollout, reward, scoring, train, weight_sync, or idle: in no phase";
        waits_for: Option<Text>, "", "of idle time: the phase that another rank is in; null: none";
        time_ns: i64, "ns", "time; over the rows of a rank and period it sums to the period";
        busy_ns: i64, "ns", "part of it in which a device worked; of idle time 0";
        period_ns: i64, "ns", "length of the period";
    }
}

table! {
    /// One row per period of a loop of several roles, and role; times summed over its ranks.
    pub struct RoleLoops, RoleLoopRow = "role_loops" by "period, role" {
        period: u32, "", "period of the loop, from 0";
        role: Text, "", "role of the programs; of a job of one program `all`";
        start_ns: i64, "ns", "start of the period on the common axis";
        period_ns: i64, "ns", "its length";
        rank_count: u32, "", "ranks of the role with phases";
        phase_ns: i64, "ns", "time in phases";
        idle_ns: i64, "ns", "time in none; both sum to the period times the ranks";
        idle_pct: Option<f64>, "%", "idle time, of the period";
        waits_rollout_ns: i64, "ns", "part of the idle time in which another rank generates";
        waits_train_ns: i64, "ns", "part in which another rank trains";
        tail_ns: Option<i64>, "ns",
            "end of the rollout in which one engine of several works, or fewer than a quarter; null: no \
             rollout in the role, or one engine";
        tail_pct: Option<f64>, "%", "the tail, of the period";
        engine_count: Option<u32>, "",
            "engines of the rollout: ranks that share collectives meanwhile are one";
        rank_time_ns: i64, "ns", "phase_ns + idle_ns: the period times the ranks";
    }
}

table! {
    /// The roles of a job over all periods of its loop.
    pub(crate) struct RolesOverPeriods, RoleOverPeriodsRow = "roles_over_periods" by "role" {
        role: Text, "", "role of the programs; of a job of one program `all`";
        rank_count: u32, "", "ranks of the role with phases" => max(rank_count);
        period_count: u64, "", "periods", "periods" => rows;
        period_sum_ns: i64, "ns", "length of all periods" => sum(period_ns);
        period_ns: Option<f64>, "ns", "mean period" => ratio(period_sum_ns, period_count);
        rank_time_ns: i64, "ns", "periods times the ranks" => sum(rank_time_ns);
        phase_ns: i64, "ns", "time in phases" => sum(phase_ns);
        phase_pct: Option<f64>, "%", "of the ranks' time", "in phases" => percent(phase_ns, rank_time_ns);
        idle_ns: i64, "ns", "time in none" => sum(idle_ns);
        idle_pct: Option<f64>, "%", "of the ranks' time", "idle" => percent(idle_ns, rank_time_ns);
        waits_rollout_ns: i64, "ns", "part of the idle time in which another rank generates"
            => sum(waits_rollout_ns);
        waits_rollout_pct: Option<f64>, "%", "of the ranks' time", "others generate"
            => percent(waits_rollout_ns, rank_time_ns);
        waits_train_ns: i64, "ns", "part in which another rank trains" => sum(waits_train_ns);
        waits_train_pct: Option<f64>, "%", "of the ranks' time", "others train"
            => percent(waits_train_ns, rank_time_ns);
        tail_ns: Option<i64>, "ns", "ends of the rollouts, as in role_loops" => sum(tail_ns);
        tail_pct: Option<f64>, "%", "of the periods", "rollout tail" => percent(tail_ns, period_sum_ns);
    }
}

pub(super) const ROLLUPS: [Rollup; 1] = [Rollup::of(RoleLoops::SPEC, RolesOverPeriods::SPEC)];

/// The tables of the loops of a job; without rows if it has none.
pub(super) fn role_tables(job: &Job) -> [Batch; 2] {
    let loops = JobLoops::of(job);
    let (mut phases, mut sums) = (RolePhaseTable::default(), RoleLoops::default());
    let mut rows: Vec<(u32, u32, usize)> = Vec::new();
    for (number, period) in (0u32..).zip(&loops.periods) {
        rows.extend(period.ranks.iter().enumerate().map(|(at, of)| (of.part, number, at)));
        push_sums(&mut sums, job, number, period);
    }
    rows.sort_unstable();
    for (part, number, at) in rows {
        if let Some(period) = loops.periods.get(number as usize) {
            push_rank(&mut phases, job, part, (number, period, at));
        }
    }
    [phases.finish(), sums.finish()]
}

fn push_rank(
    table: &mut RolePhaseTable,
    job: &Job,
    part: u32,
    (number, period, at): (u32, &LoopPeriod, usize),
) {
    let (Some(p), Some(of)) = (job.parts.get(part as usize), period.ranks.get(at)) else { return };
    for s in &of.stretches {
        let (phase, waits_for, busy_ns) = match s.does {
            Ok((phase, busy)) => (phase.name(), None, busy),
            Err(waits_for) => ("idle", waits_for.map(LoopPhase::name), 0),
        };
        table.push(RolePhaseRow {
            rank: p.rank,
            role: p.role_name(),
            replica: p.role.as_ref().and_then(|role| role.replica),
            role_rank: p.role.as_ref().map(|role| role.rank),
            period: number,
            start_ns: s.span.start,
            phase,
            waits_for,
            time_ns: s.span.len(),
            busy_ns,
            period_ns: period.span.len(),
        });
    }
}

/// Sums of the ranks of a role in a period.
#[derive(Default)]
struct RoleSums {
    ranks: u32,
    phases: Ns,
    idle: Ns,
    rollout: Ns,
    train: Ns,
    generates: bool,
}

/// The name of a rank's role.
fn role_name(job: &Job, part: u32) -> &str {
    job.parts.get(part as usize).and_then(RankSummary::role_name).unwrap_or("all")
}

fn sums<'j>(job: &'j Job, period: &LoopPeriod) -> BTreeMap<&'j str, RoleSums> {
    let mut by_role: BTreeMap<&str, RoleSums> = BTreeMap::new();
    for of in &period.ranks {
        let sum = by_role.entry(role_name(job, of.part)).or_default();
        sum.ranks += 1;
        sum.phases += of.phases.values().map(|(time, _)| time).sum::<Ns>();
        sum.idle += of.idle_ns();
        let waits = |phase| of.idle.get(&Some(phase)).copied().unwrap_or(0);
        sum.rollout += waits(LoopPhase::Rollout);
        sum.train += waits(LoopPhase::Train);
        sum.generates |= of.does(LoopPhase::Rollout);
    }
    by_role
}

fn push_sums(table: &mut RoleLoops, job: &Job, number: u32, period: &LoopPeriod) {
    let length = period.span.len();
    for (role, sum) in sums(job, period) {
        let tail = period.tail.filter(|_| sum.generates);
        table.push(RoleLoopRow {
            period: number,
            role,
            start_ns: period.span.start,
            period_ns: length,
            rank_count: sum.ranks,
            phase_ns: sum.phases,
            idle_ns: sum.idle,
            idle_pct: percent(sum.idle, length * Ns::from(sum.ranks)),
            waits_rollout_ns: sum.rollout,
            waits_train_ns: sum.train,
            tail_ns: tail.map(|tail| tail.span.len()),
            tail_pct: tail.and_then(|tail| percent(tail.span.len(), length)),
            engine_count: tail.map(|tail| tail.engines),
            rank_time_ns: sum.phases + sum.idle,
        });
    }
}

/// Why the roles are not compared, if they are not.
pub(super) fn note(job: &Job) -> Option<ViewNote> {
    let why = JobLoops::of(job).withheld?;
    let text = format!(
        "phases of roles are not compared: {why}; record all processes on one host, or with times since 1970"
    );
    Some(ViewNote { view: ROLES, text })
}
