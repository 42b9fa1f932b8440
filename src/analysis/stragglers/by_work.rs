//! Late ranks by their work: ranks that work longer than their peers at the same places of a step, wherever
//! the waiting for them shows.
//!
//! Chains of one group do not show every late rank. In a tensor-parallel group whose ranks are all slow,
//! these meet so often that none of them is late for the group of the replicas; in a pipeline a slow stage
//! makes its neighbours late. So the work of each rank in a step is compared with that of its peers, which
//! are the ranks with the same calls (in a pipeline: those of the same stage), and the replay says what a
//! step would take without the difference.
//!
//! ```text
//!   balance of a rank in a step = sum of its local times - the peers' lower median of that
//! ```
//!
//! The ranks with at least half of the largest mean balance are the late ones, if they are at most half of
//! all ranks, and one rank or a group that the job has (process group, host).

use crate::api::Options;
use crate::stragglers::chance::{APART_PCT, Balances, P_MOST, is_always_ahead};
use crate::stragglers::straggler::{Judgement, NoChance, Pattern, Straggler};
use hta_base::order_statistics::median;
use hta_base::units::{Ns, percent};
use hta_job::delay::StepKey;
use hta_job::pipeline_places::PipelinePlaces;
use hta_job::replay::ReplayedJob;
use hta_job::{Job, RankSummary};
use hta_trace::collective::CollectiveKind;
use std::collections::{BTreeMap, BTreeSet};

/// Fewest ranks among which one is late.
const RANKS: usize = 4;
/// Fewest ranks with the same calls.
const PEERS: usize = 3;
/// Fewest steps.
const STEPS: usize = 2;

/// Adds the late ranks, unless chains showed some that are late in most steps.
pub(crate) fn add(job: &Job, options: &Options, judged: &mut Judgement, replayed: &ReplayedJob) {
    // Who is late behind ranks that are not confirmed may be one of a group with them.
    let is_lasting =
        |s: &Straggler| matches!(s.pattern, Pattern::Persistent | Pattern::Together) && s.behind.is_empty();
    if options.model.steps.is_some() || judged.stragglers.iter().any(is_lasting) {
        return;
    }
    if let Some(found) = find(job, options, judged, replayed) {
        // Who waits for them, or is late behind them, is not told.
        (judged.unproven, judged.unconfirmed) = Default::default();
        judged.stragglers.retain(|s| s.parts.iter().all(|p| found.parts.contains(p)));
        judged.stragglers.insert(0, found);
        if judged.steps.is_empty() {
            // No chain says which steps are judged: all were.
            judged.steps.clone_from(&judged.length.keys);
        }
    }
}

/// The late ranks, if there are any.
fn find(job: &Job, options: &Options, judged: &Judgement, replayed: &ReplayedJob) -> Option<Straggler> {
    let steps: Vec<StepKey> = judged.length.keys.clone();
    let by_part = balances(job, replayed, &steps);
    let parts: Vec<u32> = by_part.keys().copied().collect();
    if steps.len() < STEPS || parts.len() < RANKS {
        return None;
    }
    let usual = |part: &u32| median(&mut by_part.get(part).cloned().unwrap_or_default()).unwrap_or(0);
    let most = parts.iter().map(usual).max().unwrap_or(0);
    let min_pct = options.across.straggler_min_pct;
    if percent(most, judged.length.step()).is_none_or(|p| p < min_pct) {
        return None;
    }
    let late: Vec<u32> = parts.iter().copied().filter(|p| usual(p) * 2 >= most).collect();
    if late.len() * 2 > parts.len() || !(late.len() == 1 || is_group(job, &late)) {
        return None;
    }
    let gain = replayed.gain_of(|part, _| late.binary_search(&part).is_ok(), &steps);
    let is_small = percent(gain, judged.length.time).is_none_or(|p| p < APART_PCT);
    let evidence = evidence(&by_part, &parts, &late, is_small)?;
    let excess = late.iter().flat_map(|p| by_part.get(p)).flatten().map(|b| (*b).max(0)).sum();
    percent(gain, judged.length.time).is_some_and(|p| p >= min_pct).then(|| Straggler {
        pattern: if late.len() == 1 { Pattern::Persistent } else { Pattern::Together },
        steps: steps.iter().map(|k| (*k, late.clone())).collect(),
        parts: late,
        gain,
        excess,
        behind: Vec::new(),
        is_brief: evidence.1,
        is_beside_tokens: false,
        evidence: evidence.0,
    })
}

/// By part: its balance in each step. Ranks without peers have none.
fn balances(job: &Job, replayed: &ReplayedJob, steps: &[StepKey]) -> BTreeMap<u32, Vec<Ns>> {
    let replay = &replayed.replay;
    let places = PipelinePlaces::of(job);
    // By step and part: its calls, and the sum of its local times.
    type Calls = Vec<(&'static str, Option<i64>)>;
    let mut work: BTreeMap<(usize, u32), (Calls, Ns)> = BTreeMap::new();
    for i in 0..replay.node_count() {
        let Some(s) = replay.step(i).and_then(|k| steps.binary_search(&k).ok()) else { continue };
        let (calls, sum) = work.entry((s, replay.part(i))).or_default();
        let c = job.call(replay.member(i));
        calls.push((c.shape.kind.name(), c.shape.bytes.filter(|_| c.shape.kind != CollectiveKind::AllToAll)));
        *sum += replay.local(i);
    }
    // Peers are of one role, and of one stage: stages differ by what they work.
    type PeerKey<'j> = (usize, Option<&'j str>, Option<(usize, usize)>, Calls);
    let mut alike: BTreeMap<PeerKey, Vec<(u32, Ns)>> = BTreeMap::new();
    for ((s, part), (mut calls, sum)) in work {
        calls.sort_unstable();
        let role = job.parts.get(part as usize).and_then(RankSummary::role_name);
        alike.entry((s, role, places.stage(part), calls)).or_default().push((part, sum));
    }
    let mut out: BTreeMap<u32, Vec<Ns>> = BTreeMap::new();
    for ((s, ..), peers) in alike.iter().filter(|(_, peers)| peers.len() >= PEERS) {
        let usual = median(&mut peers.iter().map(|(_, sum)| *sum).collect::<Vec<_>>()).unwrap_or(0);
        for (part, sum) in peers {
            let of_part = out.entry(*part).or_insert_with(|| vec![0; steps.len()]);
            of_part[*s] += sum - usual;
        }
    }
    out
}

/// Whether these parts are the members of one process group, or all parts of one host.
fn is_group(job: &Job, parts: &[u32]) -> bool {
    let host = |p: &u32| job.parts.get(*p as usize).and_then(|p| p.host.as_deref());
    let is_host = parts
        .first()
        .and_then(host)
        .is_some_and(|h| (0..job.parts.len() as u32).all(|p| (host(&p) == Some(h)) == parts.contains(&p)));
    is_host
        || job.matched.groups.iter().any(|g: &hta_job::Group| {
            let members: BTreeSet<u32> = g.parts().collect();
            members.len() == parts.len() && parts.iter().all(|p| members.contains(p))
        })
}

/// Why this is not chance, and whether jitter that lasts would look the same. A small delay must also stand
/// apart.
fn evidence(
    by_part: &BTreeMap<u32, Vec<Ns>>,
    parts: &[u32],
    late: &[u32],
    is_small: bool,
) -> Option<(NoChance, bool)> {
    let steps = by_part.values().next()?.len();
    let by_step: Vec<Vec<Ns>> = (0..steps).map(|s| by_part.values().map(|b| b[s]).collect()).collect();
    let places: Vec<usize> = late.iter().filter_map(|p| parts.binary_search(p).ok()).collect();
    let balances = Balances(&by_step);
    if is_small && !balances.stand_apart(&places) {
        return None;
    }
    let is_brief = is_small || balances.is_brief(&places);
    // Sets of several sizes could have been found.
    let tried = if late.len() > 1 { (parts.len() / 2).max(1) as f64 } else { 1.0 };
    let p_value = balances.p_values(std::slice::from_ref(&places)).and_then(|p| p.first().copied());
    if let Some(p) = p_value.filter(|p| *p * tried <= P_MOST) {
        return Some((NoChance::Permutation(p), is_brief));
    }
    let least = |s: usize| places.iter().map(|i| by_step[s][*i]).min().unwrap_or(0);
    let others = |s: usize| (0..parts.len()).filter(|i| !places.contains(i)).map(|i| by_step[s][i]).collect();
    let ahead: Vec<(Ns, Vec<Ns>)> = (0..steps).map(|s| (least(s), others(s))).collect();
    is_always_ahead(&ahead).then_some((NoChance::Ahead, is_brief))
}
