//! Medians and percentiles. Each is one of the values: for an even number of values, the median is the lower
//! of the two in the middle.

/// The lower median of values in any order, which it rearranges.
pub fn median<T: Ord + Copy>(values: &mut [T]) -> Option<T> {
    let middle = values.len().checked_sub(1)? / 2;
    Some(*values.select_nth_unstable(middle).1)
}

/// The lower median of values that are sorted, by whatever order.
pub fn median_of_sorted<T: Copy>(sorted: &[T]) -> Option<T> {
    sorted.get(sorted.len().checked_sub(1)? / 2).copied()
}

/// The lower median of all sorted values except the one at index `own`.
pub fn median_of_others<T: Copy>(sorted: &[T], own: usize) -> Option<T> {
    let middle = sorted.len().checked_sub(2)? / 2;
    sorted.get(if middle < own { middle } else { middle + 1 }).copied()
}

/// The smallest value that has, together with all values below it, at least `percent` of the weight. Leaves
/// the values sorted.
pub fn weighted_percentile<T, W>(values: &mut [(T, W)], percent: u8) -> Option<T>
where
    T: Ord + Copy,
    W: Ord + Copy + Into<i128>,
{
    values.sort_unstable();
    let all: i128 = values.iter().map(|(_, weight)| (*weight).into()).sum();
    let mut below = 0i128;
    values.iter().find_map(|(value, weight)| {
        below += (*weight).into();
        (below * 100 >= all * i128::from(percent)).then_some(*value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_values_in_the_middle_the_lower_one_is_the_median() {
        assert_eq!(median(&mut [4, 1, 3, 2]), Some(2));
        assert_eq!(median(&mut [5, 1, 3]), Some(3));
        assert_eq!(median::<i64>(&mut []), None);
        assert_eq!([median_of_sorted(&[0.5, 1.5]), median_of_sorted(&[])], [Some(0.5), None]);
    }

    #[test]
    fn the_median_of_others_leaves_out_one_place() {
        let sorted = [10, 20, 30, 40];
        let of = |own| median_of_others(&sorted, own);
        assert_eq!([0, 1, 2, 3].map(of), [Some(30), Some(30), Some(20), Some(20)]);
        assert_eq!([median_of_others(&[7], 0), median_of_others(&[7, 9], 0)], [None, Some(9)]);
    }

    #[test]
    fn a_weighted_percentile_is_the_first_value_with_its_share_below() {
        let mut of = [(30, 5), (10, 94), (20, 1)];
        assert_eq!([94, 95, 96].map(|p| weighted_percentile(&mut of, p)), [Some(10), Some(20), Some(30)]);
        assert_eq!(weighted_percentile(&mut [(1, 5u32), (2, 5)], 50), Some(1));
        assert_eq!(weighted_percentile::<i64, u32>(&mut [], 50), None);
    }
}
