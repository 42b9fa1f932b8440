//! Process groups: how much of each was matched, and problems with its calls.

use crate::collectives::GroupSelection;
use crate::collectives::tables::{ProcessGroupRow, ProcessGroups};
use hta_base::table::schema::Batch;
use hta_base::wording::counts::plural;
use hta_base::wording::ranks::{rank_list, run_list};
use hta_job::{Instance, Job, MatchMethod};
use hta_trace::collective::ranks::{absent_runs, member_list};
use std::collections::BTreeMap;

/// Statistics of matching for one group.
#[derive(Default)]
pub(crate) struct MatchedShare {
    calls: u64,
    matched: u64,
    instances: u64,
    complete: u64,
    disagree: u64,
    impossible: u64,
    methods: BTreeMap<MatchMethod, u64>,
}

pub(crate) fn shares(job: &Job) -> Vec<MatchedShare> {
    let mut shares: Vec<MatchedShare> = Vec::new();
    shares.resize_with(job.matched.groups.len(), MatchedShare::default);
    for (id, i) in job.instances().iter().enumerate() {
        let Some(s) = shares.get_mut(i.group as usize) else { continue };
        s.calls += i.len() as u64;
        s.instances += 1;
        s.complete += u64::from(i.is_complete());
        s.disagree += u64::from(i.disagrees);
        s.impossible += u64::from(job.arrivals(id).is_impossible);
        if i.len() > 1 {
            s.matched += i.len() as u64;
            *s.methods.entry(i.method).or_default() += i.len() as u64;
        }
    }
    for (group, _, kinds) in &job.matched.conflicts {
        if let Some(s) = shares.get_mut(*group as usize) {
            s.disagree += kinds.len() as u64;
        }
    }
    shares
}

fn methods(s: &MatchedShare) -> String {
    s.methods.keys().map(|m| m.name()).collect::<Vec<_>>().join(", ")
}

pub(crate) fn group_table(job: &Job, shares: &[MatchedShare], shown: &GroupSelection) -> Batch {
    let mut table = ProcessGroups::default();
    for (g, (group, s)) in job.matched.groups.iter().zip(shares).enumerate() {
        if !shown.has(g as u32) {
            continue;
        }
        let members = group.members.as_ref().map(member_list);
        table.push(ProcessGroupRow {
            process_group: shown.name(g as u32),
            name: group.name.as_deref(),
            description: group.desc.as_deref(),
            members: members.as_deref(),
            member_count: group.expected() as u32,
            present_count: group.uses.len() as u32,
            dimension: job.mesh.dimension_of(g as u32),
            is_inferred: group.is_inferred,
            matched_by: &methods(s),
            call_count: s.calls,
            matched_count: s.matched,
            matched_pct: (s.calls > 0).then(|| 100.0 * s.matched as f64 / s.calls as f64),
            collective_count: s.instances,
            complete_count: s.complete,
            disagreement_count: s.disagree,
            end_before_last_arrival_count: s.impossible,
        });
    }
    table.finish()
}

/// Collectives whose members end apart.
fn strays(job: &Job) -> Option<String> {
    let farthest = job.strays.iter().max_by_key(|s| s.apart.abs())?;
    Some(format!(
        "{} whose members end apart, although each waits for all (ends_apart): left out of transfer and \
         bandwidth; {}",
        plural(job.strays.len(), "collective"),
        job.stray_in_words(farthest)
    ))
}

/// Problems with the calls or with the clocks.
pub fn warnings(job: &Job) -> Vec<String> {
    let mut out = Vec::new();
    out.extend(incomplete(job));
    let impossible = (0..job.instances().len()).filter(|i| job.arrivals(*i).is_impossible).count();
    if impossible > 0 {
        out.push(format!(
            "{} ended on some rank before the last one arrived (collective_end_before_last_arrival): clocks \
             differ, or a match is wrong; left out of bandwidth, and of the alignment while they are few",
            plural(impossible, "collective")
        ));
    }
    out.extend(strays(job));
    for i in job.instances().iter().filter(|i| i.disagrees).take(3) {
        out.push(disagreement(job, i));
    }
    for (g, seq, kinds) in job.matched.conflicts.iter().take(3) {
        let kinds: Vec<&str> = kinds.iter().map(|k| k.name()).collect();
        let group = job.matched.groups.get(*g as usize).map(|g| g.shown(&job.parts)).unwrap_or_default();
        out.push(format!("group {group}: members disagree about number {seq}: {}", kinds.join(", ")));
    }
    let mut groupless: Vec<u32> = Vec::new();
    let mut without_origin: Vec<u32> = Vec::new();
    for (part, p) in job.parts.iter().enumerate() {
        if !p.has_origin && !p.calls.calls.is_empty() {
            without_origin.push(p.rank);
        } else if p.calls.calls.iter().any(|c| job.matched.group_of(part as u32, c.shape.group).is_none()) {
            groupless.push(p.rank);
        }
    }
    if !groupless.is_empty() {
        out.push(format!(
            "ranks {}: some calls name no group, and it cannot be inferred from the calls of the ranks: left \
             unmatched",
            rank_list(&groupless)
        ));
    }
    if job.is_origin_proved {
        out.push(
            "times have no recorded origin, but collectives end together on all ranks: they have one"
                .to_string(),
        );
    }
    if !without_origin.is_empty() {
        out.push(format!(
            "ranks {}: times without a known origin cannot be compared: left unmatched",
            rank_list(&without_origin)
        ));
    }
    out
}

fn disagreement(job: &Job, i: &Instance) -> String {
    let sizes: Vec<String> = job
        .members(i)
        .iter()
        .map(|m| {
            let c = job.call(*m);
            let dtype = job.parts[m.part as usize].calls.dtype(c).unwrap_or("-");
            let size = c.shape.bytes.map_or("-".to_string(), |b| format!("{b} bytes"));
            format!("rank {} {size} {dtype}", job.parts[m.part as usize].rank)
        })
        .take(4)
        .collect();
    format!("members disagree about one {}: {}", i.kind.name(), sizes.join(", "))
}

/// Largest number of ranges of absent ranks collected: more than a real job has, and little memory whatever
/// sizes groups claim.
const ABSENT_KEPT: usize = 1 << 20;

/// A warning if the set lacks members of groups.
fn incomplete(job: &Job) -> Option<String> {
    let mut present: Vec<u32> = job.parts.iter().map(|p| p.rank).collect();
    present.sort_unstable();
    let mut absent: Vec<(u32, u32)> = Vec::new();
    for members in job.matched.groups.iter().filter_map(|g| g.members.as_ref()) {
        absent.extend(absent_runs(members, &present, ABSENT_KEPT.saturating_sub(absent.len())));
    }
    absent.sort_unstable();
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for (first, last) in absent {
        match runs.last_mut() {
            Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
            _ => runs.push((first, last)),
        }
    }
    (!runs.is_empty()).then(|| {
        format!(
            "traces of {}{} are missing: waiting for one of them looks like transfer, and it cannot be named",
            if matches!(runs.as_slice(), [(a, b)] if a == b) { "rank " } else { "ranks " },
            run_list(runs.into_iter())
        )
    })
}
