//! The clock that a device could have in a step, from those of the devices of its model.
//!
//! ```text
//!   1410 1410 1980 1980      two groups, half of the devices each: 1980
//!   1410 1700 1980 1980      three groups: 1980
//!   1410 1410 1410 1980      most are lower, by far: 1980
//!   1860 1860 1870 1980      most are lower, by 6 %: that one is faster, and nothing is wrong
//!   1900 1920 1940 1980      no groups: the lower median of the others
//! ```

use hta_base::order_statistics::median_of_others;

/// Smallest distance of clocks, thousandths. Devices of a model differ by less at the same work, and a rank
/// that is 3 % slower is late by that.
pub(super) const LOWER_MILLE: i128 = 25;
/// The same where most devices are lower than a few. Chips of one model differ: at a power cap one good
/// chip of eight reaches 5 % more than the others, and nothing is wrong with these. That nearly all are
/// slowed down is the less usual explanation, so it is told only from a distance on that good chips do not
/// have.
const MOST_LOWER_MILLE: i128 = 100;

/// Whether a clock is below another one by so many thousandths of that.
pub(super) fn is_below(clock: i64, other: i64, mille: i128) -> bool {
    (i128::from(other) - i128::from(clock)) * 1000 >= i128::from(other) * mille
}

/// For each of the clocks of devices of one model, in order, the clock to compare it with: the lower median
/// of the fastest group, or of all others if there are no groups. `None` for a single clock.
pub(super) fn references(sorted: &[i64]) -> Vec<Option<i64>> {
    let fastest = fastest_group(sorted).and_then(|of| of.get((of.len() - 1) / 2)).copied();
    (0..sorted.len()).map(|i| fastest.or_else(|| median_of_others(sorted, i))).collect()
}

/// The fastest devices, if they are apart from those that are slower.
fn fastest_group(sorted: &[i64]) -> Option<&[i64]> {
    let is_apart = |at: &usize| {
        let is_half = (sorted.len() - at) * 2 >= sorted.len();
        is_below(sorted[at - 1], sorted[*at], if is_half { LOWER_MILLE } else { MOST_LOWER_MILLE })
    };
    (1..sorted.len()).rev().find(is_apart).map(|at| &sorted[at..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all_have(sorted: &[i64], reference: i64) {
        assert_eq!(references(sorted), vec![Some(reference); sorted.len()], "{sorted:?}");
    }

    #[test]
    fn groups_are_compared_with_the_fastest() {
        all_have(&[1410, 1980], 1980);
        all_have(&[1410, 1410, 1980, 1980], 1980);
        all_have(&[1410, 1410, 1700, 1700, 1970, 1975, 1980, 1985], 1975);
        // 3 % are a group if these are at least half, and 10 % if they are fewer.
        all_have(&[1920, 1920, 1980, 1980], 1980);
        all_have(&[1410, 1410, 1410, 1980], 1980);
        all_have(&[1782, 1782, 1782, 1980], 1980);
        all_have(&[1783, 1783, 1783, 1980], 1783);
    }

    #[test]
    fn one_that_is_a_little_faster_is_no_group() {
        assert_eq!(references(&[1920, 1920, 1920, 1980]), [Some(1920); 4]);
        let one_of_eight = references(&[1851, 1856, 1858, 1860, 1863, 1870, 1877, 1980]);
        assert!(
            one_of_eight.iter().all(|r| r.is_some_and(|r| (1858..=1863).contains(&r))),
            "{one_of_eight:?}"
        );
        // It does not hide one that is far slower.
        all_have(&[1410, 1920, 1920, 1980], 1920);
        assert_eq!(references(&[1900, 1920, 1940, 1980]), [1940, 1940, 1920, 1920].map(Some));
        assert_eq!((references(&[1980]), references(&[])), (vec![None], vec![]));
    }

    proptest! {
        /// With one slow device, or none, all others are alike, and it is compared with their lower median.
        #[test]
        fn one_slow_device_is_compared_with_the_middle_of_the_others(
            slow in 1000i64..1900,
            others in prop::collection::vec(1970i64..1990, 1..9),
        ) {
            let mut sorted = others;
            sorted.push(slow);
            sorted.sort_unstable();
            prop_assert_eq!(references(&sorted)[0], median_of_others(&sorted, 0));
        }
    }
}
