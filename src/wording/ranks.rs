//! Lists of ranks, shortened to ranges.

use crate::trace::collective::Members;

/// A list with its noun: `rank 3`, `ranks 0-7`.
pub fn ranks_named(ranks: &[u32]) -> String {
    format!("rank{} {}", if ranks.len() == 1 { "" } else { "s" }, rank_list(ranks))
}

/// A list such as `1, 2, 5-7`, limited to `RUNS_SHOWN` ranges.
pub fn rank_list(ranks: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for &rank in ranks {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(rank) => *last = rank,
            _ => runs.push((rank, rank)),
        }
    }
    run_list(runs.into_iter())
}

/// Like [`rank_list`], from ranges (first, last).
pub fn run_list(runs: impl ExactSizeIterator<Item = (u32, u32)>) -> String {
    let more = runs.len().saturating_sub(RUNS_SHOWN);
    let shown = |(first, last): (u32, u32)| match last - first {
        0 => first.to_string(),
        1 => format!("{first}, {last}"),
        _ => format!("{first}-{last}"),
    };
    let mut parts: Vec<String> = runs.take(RUNS_SHOWN).map(shown).collect();
    if more > 0 {
        parts.push(format!("... ({more} more)"));
    }
    parts.join(", ")
}

/// Largest number of ranges shown.
const RUNS_SHOWN: usize = 12;

/// The members of a group as [`rank_list`] shows them, without materializing the list.
pub fn member_list(members: &Members) -> String {
    match members {
        Members::Regular { first, stride: 1, count } => {
            run_list(std::iter::once((*first, first.saturating_add(count.saturating_sub(1)))))
        }
        Members::Regular { first, stride, count } => {
            let member = |i: u32| first.saturating_add(stride.saturating_mul(i));
            run_list((0..*count).map(|i| (member(i), member(i))))
        }
        Members::Listed(ranks) => rank_list(ranks),
    }
}

/// Ranges of members that are not in `present` (ascending), at most `most` of them.
pub fn absent_runs(members: &Members, present: &[u32], most: usize) -> Vec<(u32, u32)> {
    let is_present = |rank: &u32| present.binary_search(rank).is_ok();
    let Members::Regular { first, stride: 1, count } = members else {
        return members.iter().filter(|r| !is_present(r)).map(|r| (r, r)).take(most).collect();
    };
    let (mut next, last) = (*first, first.saturating_add(count.saturating_sub(1)));
    let mut runs = Vec::new();
    for &rank in present.iter().filter(|r| (*first..=last).contains(r)) {
        if rank > next {
            runs.push((next, rank - 1));
        }
        next = rank.saturating_add(1);
    }
    if next <= last && !is_present(&last) {
        runs.push((next, last));
    }
    runs.truncate(most);
    runs
}

/// Ranks of a job of `world` ranks that are not in `present`, as [`rank_list`] shows them, and their number.
pub fn missing_ranks(world: u32, present: &[u32]) -> (String, u64) {
    let runs = Members::regular(0, 1, world).map_or(Vec::new(), |all| absent_runs(&all, present, usize::MAX));
    let count = runs.iter().map(|(a, b)| u64::from(b - a) + 1).sum();
    (run_list(runs.into_iter()), count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_ranks_are_shortened() {
        assert_eq!(rank_list(&[1, 2, 5, 6, 7, 9]), "1, 2, 5-7, 9");
        assert_eq!(rank_list(&[]), "");
    }

    #[test]
    fn members_are_shown_as_the_list_of_them() {
        for ranks in
            [vec![4], vec![4, 5], vec![4, 5, 6], vec![1, 3, 5], vec![0, 1, 9], (0..40).map(|i| 8 * i).collect()]
        {
            assert_eq!(member_list(&Members::listed(ranks.clone())), rank_list(&ranks));
        }
        let all = Members::regular(1, 2, 1 << 30).expect("ranks");
        assert!(member_list(&all).ends_with("21, 23, ... (1073741812 more)"), "{}", member_list(&all));
    }

    #[test]
    fn absent_members_are_those_of_the_group_that_are_not_there() {
        let absent = |members: Vec<u32>, present: &[u32]| absent_runs(&Members::listed(members), present, 3);
        assert_eq!(absent(vec![0, 1, 2, 3, 4, 5], &[0, 3, 9]), [(1, 2), (4, 5)]);
        assert_eq!(absent(vec![2, 3, 4], &[1, 4]), [(2, 3)]);
        assert_eq!(absent(vec![2, 3], &[2, 3]), []);
        assert_eq!(absent(vec![0, 2, 4, 6, 8], &[4]), [(0, 0), (2, 2), (6, 6)]);
        assert_eq!(missing_ranks(u32::MAX, &[1, 2]), ("0, 3-4294967294".to_string(), 4_294_967_293));
        assert_eq!(missing_ranks(0, &[]), (String::new(), 0));
    }
}
