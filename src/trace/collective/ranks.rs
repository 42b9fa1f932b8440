//! The ranks of a group in words: its members, and those of them that are missing.

use crate::collective::Members;
use hta_base::wording::ranks::{rank_list, run_list};

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
    fn members_are_shown_as_the_list_of_them() {
        for ranks in [
            vec![4],
            vec![4, 5],
            vec![4, 5, 6],
            vec![1, 3, 5],
            vec![0, 1, 9],
            (0..40).map(|i| 8 * i).collect(),
        ] {
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
