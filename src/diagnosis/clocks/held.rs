//! Values of a counter, with the time for which each holds.

use hta_base::order_statistics::weighted_percentile;
use hta_base::units::{Ns, Span};
use hta_trace::hardware_counters::RecordedCounter;
use hta_trace::interval::Union;

/// A value that holds for a part of the time in which a device works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HeldValue {
    pub(super) cell: Span,
    /// In millionths of the unit of the counter.
    pub(super) value: i64,
    /// The part of the cell that counts, ns.
    pub(super) time: Ns,
}

/// The values while a device works, in order, of samples that were taken then. A device lowers its clock
/// while it idles, so that a sample from such a moment says nothing about the work beside it.
pub(super) fn held_while(counter: &RecordedCounter, busy: &Union) -> Vec<HeldValue> {
    let is_inside = |ts: Ns| busy.len_in(Span::new(ts, ts.saturating_add(1))) == 1;
    let cells = counter.samples.iter().zip(&counter.cells).filter(|((ts, _), _)| is_inside(*ts));
    let held = cells.filter_map(|(_, cell)| {
        let value = i64::try_from(cell.millionths?).ok()?;
        Some(HeldValue { cell: cell.span, value, time: busy.len_in(cell.span) })
    });
    held.filter(|h| h.time > 0).collect()
}

/// Of values in order those that hold in a set of time.
pub(super) fn within(held: &[HeldValue], set: &Union) -> Vec<HeldValue> {
    let inside = set.overlaps(held, |h| h.cell).into_iter();
    inside.map(|(h, time)| HeldValue { time, ..*h }).collect()
}

/// Time of all values together, ns.
pub(super) fn time_of<'a>(held: impl IntoIterator<Item = &'a HeldValue>) -> Ns {
    held.into_iter().map(|h| h.time).sum()
}

/// The smallest value that holds, with all below it, for so many percent of the time.
pub(super) fn percentile_by_time<'a>(
    held: impl IntoIterator<Item = &'a HeldValue>,
    percent: u8,
) -> Option<i64> {
    let mut values: Vec<(i64, Ns)> = held.into_iter().map(|h| (h.value, h.time)).collect();
    weighted_percentile(&mut values, percent)
}

/// The lower median by time.
pub(super) fn median_by_time<'a>(held: impl IntoIterator<Item = &'a HeldValue>) -> Option<i64> {
    percentile_by_time(held, 50)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn held(values: &[(i64, Ns)]) -> Vec<HeldValue> {
        values
            .iter()
            .map(|(value, time)| HeldValue { cell: Span::new(0, *time), value: *value, time: *time })
            .collect()
    }

    #[test]
    fn values_weigh_by_their_time() {
        let of = held(&[(30, 5), (10, 94), (20, 1)]);
        assert_eq!(
            [percentile_by_time(&of, 94), percentile_by_time(&of, 95), percentile_by_time(&of, 96)],
            [Some(10), Some(20), Some(30)]
        );
        assert_eq!([median_by_time(&held(&[(1, 5), (2, 5)])), median_by_time(&[])], [Some(1), None]);
    }

    proptest! {
        #[test]
        fn percentiles_are_those_of_every_ns(
            values in prop::collection::vec((0i64..9, 1i64..9), 1..9),
            percent in 1u8..=100,
        ) {
            let mut each: Vec<i64> = values.iter().flat_map(|(v, n)| vec![*v; *n as usize]).collect();
            each.sort_unstable();
            let at = (each.len() * usize::from(percent)).div_ceil(100) - 1;
            prop_assert_eq!(percentile_by_time(&held(&values), percent), Some(each[at]));
        }
    }
}
