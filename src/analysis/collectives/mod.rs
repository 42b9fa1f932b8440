//! Collectives of the job: every call with its waiting and transfer time, bandwidth, and statistics of
//! matching.

use crate::api::{About, AcrossOption, Analysis, Options, Output, Partial, RowEmitter, ViewNote};
use groups::{group_table, shares};
use hta_base::table::schema::Batch;
use hta_base::units::Ns;
use hta_job::Job;
use hta_job::end_together::{KernelsEndTogether, ends_together_table};
use hta_job::recording::capability::Capability;
use hta_trace::collective::CollectiveKind;
use hta_trace::rank_trace::RankTrace;
use std::collections::BTreeMap;
use summary::{summaries, summary_table, title_table};
use tables::{
    CollectiveRankRow, CollectiveRanks, CollectiveRow, CollectiveSummaries, CollectiveTitles, Collectives,
    MATCHING, ProcessGroups, VIEWS,
};

mod groups;
mod shown;
mod summary;
pub mod tables;

pub use groups::warnings;
pub use shown::GroupSelection;

pub struct CollectivesOf;

impl Analysis for CollectivesOf {
    fn about(&self) -> About {
        About {
            stem: "collectives",
            title: "collectives matched across ranks: wait, transfer, bandwidth, skew",
            explain: include_str!("page.md"),
            tables: &[
                CollectiveSummaries::SPEC,
                CollectiveRanks::SPEC,
                Collectives::SPEC,
                CollectiveTitles::SPEC,
                ProcessGroups::SPEC,
                KernelsEndTogether::SPEC,
            ],
            views: &VIEWS,
            takes_steps: false,
            takes: &[AcrossOption::Group],
            joins_ranks: true,
            needs: &[Capability::Transfer],
            ..About::DEFAULT
        }
    }

    fn map(&self, trace: &RankTrace, _: &Options, _: &mut RowEmitter) -> Partial {
        Partial::joined_later(trace)
    }

    fn reduce(&self, _: &[Partial], job: &Job, options: &Options) -> Output {
        let shown = GroupSelection::new(job, options);
        let sums = summaries(job, &shown);
        let mut tables = vec![summary_table(&sums, &shown), rank_table(job, &shown)];
        tables.extend((0..job.parts.len()).map(|p| calls(job, &shown, p as u32)));
        let groups = group_table(job, &shares(job), &shown);
        tables.extend([title_table(job, &shown), groups, ends_together_table(job)]);
        let notes = warnings(job).into_iter().map(|text| ViewNote { view: MATCHING, text });
        Output { tables, notes: notes.collect(), ..Output::default() }
    }
}

/// One row per call of a part, in order of start.
fn calls(job: &Job, shown: &GroupSelection, part: u32) -> Batch {
    let p = &job.parts[part as usize];
    let mut order: Vec<usize> = (0..p.calls.calls.len()).collect();
    order.sort_by_key(|&i| (p.calls.calls[i].span.start, p.calls.calls[i].event));
    let mut table = Collectives::default();
    for i in order {
        let c = &p.calls.calls[i];
        let member = hta_job::Member { part, call: i as u32 };
        let (id, outcome) = (job.instance_of(member), job.outcome(member));
        let instance = id.and_then(|id| job.instances().get(id as usize));
        let group = instance.map(|i| i.group).or_else(|| job.matched.group_of(part, c.shape.group));
        if !group.map_or(shown.has_groupless(), |g| shown.has(g)) {
            continue;
        }
        let arrivals = outcome.map(|o| job.arrivals(o.instance as usize));
        let last = instance.zip(arrivals).and_then(|(i, a)| job.members(i).get(a.last_member as usize));
        let step = p.step_of(c);
        let dur = c.span.len();
        table.push(CollectiveRow {
            rank: p.rank,
            event_id: c.event,
            collective: id,
            process_group: group.map(|g| shown.name(g)),
            kind: c.shape.kind.name(),
            title: p.calls.title(c),
            seq: c.seq,
            size_bytes: c.shape.bytes,
            dtype: p.calls.dtype(c),
            device: c.shape.device,
            stream: c.shape.stream,
            step: c.step,
            step_label: step.and_then(|s| s.label),
            submit_ns: job.aligned(part, c.submit),
            ts_ns: job.aligned(part, c.span.start),
            dur_ns: dur,
            arrival_ns: job.aligned(part, c.arrival()),
            last_arrival_ns: arrivals.map(|a| a.last),
            last_rank: last.map(|m| job.parts[m.part as usize].rank),
            wait_ns: job.told_wait(member).map(|o| o.wait),
            transfer_ns: job.transfer_ns(member),
            ends_before_last_arrival: outcome.map(|o| o.is_impossible),
            ends_apart: outcome.map(|o| job.is_stray(o.instance)),
            member_count: instance.map_or(1, |i| i.len() as u32),
            expected_count: instance.map(|i| i.expected),
            matched_by: instance.map(|i| i.method.name()),
            wait_upper_ns: outcome.filter(|_| c.shape.kind == CollectiveKind::Fused).map(|o| o.wait),
        });
    }
    table.finish()
}

fn rank_table(job: &Job, shown: &GroupSelection) -> Batch {
    #[derive(Default)]
    struct GroupSums {
        calls: u64,
        unmatched: u64,
        bytes: i64,
        unsized_calls: u64,
        dur: Ns,
        wait: Option<Ns>,
        divided_dur: Ns,
        last: u64,
    }
    let mut table = CollectiveRanks::default();
    for (part, p) in job.parts.iter().enumerate() {
        let part = part as u32;
        let mut rows: BTreeMap<(Option<u32>, CollectiveKind), GroupSums> = BTreeMap::new();
        for (i, c) in p.calls.calls.iter().enumerate() {
            let member = hta_job::Member { part, call: i as u32 };
            let outcome = job.told_wait(member);
            let instance = job.instance_of(member).and_then(|id| job.instances().get(id as usize));
            let group = instance.map(|i| i.group).or_else(|| job.matched.group_of(part, c.shape.group));
            if !group.map_or(shown.has_groupless(), |g| shown.has(g)) {
                continue;
            }
            let row = rows.entry((group, c.shape.kind)).or_default();
            row.calls += 1;
            row.bytes += c.shape.bytes.unwrap_or(0);
            row.unsized_calls += u64::from(c.shape.bytes.is_none());
            row.dur += c.span.len();
            row.unmatched += u64::from(instance.is_none());
            if let Some((instance, o)) = instance.zip(outcome) {
                *row.wait.get_or_insert(0) += o.wait;
                row.divided_dur += c.span.len();
                let a = job.arrivals(o.instance as usize);
                row.last += u64::from(job.members(instance).get(a.last_member as usize) == Some(&member));
            }
        }
        for ((group, kind), r) in rows {
            table.push(CollectiveRankRow {
                rank: p.rank,
                process_group: group.map(|g| shown.name(g)),
                kind: kind.name(),
                count: r.calls,
                unmatched_count: r.unmatched,
                size_sum_bytes: r.bytes,
                unsized_count: r.unsized_calls,
                dur_sum_ns: r.dur,
                wait_sum_ns: r.wait,
                transfer_sum_ns: r.wait.map(|wait| r.divided_dur - wait),
                unmatched_sum_ns: r.dur - r.divided_dur,
                last_count: r.last,
            });
        }
    }
    table.finish()
}
