//! Ranks of the job are not among the files. Who waits for whom in a group with a missing member is not
//! known: its communication is divided into neither waiting nor transfer, and what is told about ranks is a
//! bound.

use crate::recording::capability::{Capability, Grade};
use crate::recording::limit::Limit;
use crate::recording::rules::Recorded;
use hta_base::units::fmt_count;
use hta_base::wording::counts::plural;
use hta_base::wording::ranks::run_list;
use hta_trace::collective::ranks::{absent_runs, missing_ranks};
use hta_trace::meta::RankSource;

/// Name of the rule.
pub const NAME: &str = "missing_ranks";

/// Largest number of ranges of ranks that are looked for in a group.
const RUNS: usize = 64;

pub fn find(recorded: &Recorded) -> Vec<Limit> {
    let present: Vec<u32> = recorded.ranks.iter().map(|r| r.rank).collect();
    let world = recorded.ranks.iter().filter_map(|r| r.world_size).max();
    let (list, count) = match world.map(|world| missing_ranks(world, &present)) {
        Some((list, count)) if count > 0 => (list, count),
        _ => in_groups(recorded, &present),
    };
    if count == 0 {
        return Vec::new();
    }
    let (all, s) = (count + present.len() as u64, if count == 1 { "" } else { "s" });
    let limit = Limit {
        rank: None,
        capability: Capability::Ranks,
        grade: Grade::AtMost,
        rule: NAME,
        measured: format!("{} missing: {list}", plural(usize::try_from(count).unwrap_or(usize::MAX), "rank")),
        limit: "none".to_string(),
        sentence: format!("{} of {} ranks not recorded (rank{s} {list})", fmt_count(count), fmt_count(all)),
        next: "collect the traces of the other ranks and analyse them together".to_string(),
    };
    // The ranks of one file stand in it one behind the other.
    let cut = recorded.cut(|r| r.rank_source == RankSource::Process.name());
    limit.behind_cut(&cut).of_all(&[Capability::Ranks, Capability::Transfer])
}

/// Members of groups that are not present, as a list, and their number.
fn in_groups(recorded: &Recorded, present: &[u32]) -> (String, u64) {
    let members = recorded.job.matched.groups.iter().filter_map(|g| g.members.as_ref());
    let mut runs: Vec<(u32, u32)> = members.flat_map(|m| absent_runs(m, present, RUNS)).collect();
    runs.sort_unstable();
    let mut joined: Vec<(u32, u32)> = Vec::new();
    for (first, last) in runs {
        match joined.last_mut() {
            Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
            _ => joined.push((first, last)),
        }
    }
    let count = joined.iter().map(|(a, b)| u64::from(b - a) + 1).sum();
    (run_list(joined.into_iter()), count)
}

#[cfg(test)]
mod tests {
    use crate::recording::rules::testing::{found, rank};

    #[test]
    fn ranks_of_the_world_that_are_not_there_are_named() {
        let with = |world: Option<u32>| {
            found("missing_ranks", vec![rank(0, |r| r.world_size = world), rank(2, |r| r.world_size = world)])
        };
        assert_eq!(with(None), []);
        assert_eq!(with(Some(4))[0].sentence, "2 of 4 ranks not recorded (ranks 1, 3)");
    }
}
