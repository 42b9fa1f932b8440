//! HTA's union of rows: groups of rows that touch, including the lengths of -1 that result from rounding.

use crate::hta::loader::HtaRow;

/// Merges rows as HTA does: in the order of their starts, a row that starts after all earlier ends begins a
/// new group. A single row of length -1 makes a group of length -1.
pub(super) fn merge(rows: impl Iterator<Item = HtaRow>) -> Vec<(i64, i64)> {
    let mut all: Vec<(i64, i64)> = rows.map(|r| (r.ts, r.end())).collect();
    all.sort_by_key(|r| r.0);
    let mut groups: Vec<(i64, i64)> = Vec::new();
    let mut latest = i64::MIN;
    for (start, end) in all {
        match groups.last_mut() {
            Some(last) if start <= latest => last.1 = last.1.max(end),
            _ => groups.push((start, end)),
        }
        latest = latest.max(end);
    }
    groups
}

pub(super) fn length(groups: &[(i64, i64)]) -> i64 {
    groups.iter().map(|(a, b)| b - a).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hta::loader::HtaClass;

    #[test]
    fn a_row_of_length_minus_one_subtracts() {
        let row = |ts, dur| HtaRow {
            id: 0,
            ts,
            dur,
            stream: 7,
            kind: HtaClass::Computation,
            partner_ts: None,
            partner: None,
        };
        let groups = merge([row(0, 10), row(20, -1), row(5, 10)].into_iter());
        assert_eq!(groups, [(0, 15), (20, 19)]);
        assert_eq!(length(&groups), 14);
    }
}
