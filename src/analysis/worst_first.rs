//! Printed tables for many ranks: one row for each of the worst ranks, and one row for all others.

use crate::population::{SelectedRows, Summable, Windowed};
use hta_base::table::schema::ColumnsOf;
use hta_base::units::percent;
use std::cmp::Reverse;

/// The items of a printed table.
pub(crate) struct WorstFirst<'a, T> {
    /// Items with their own row: all in their order if they fit, or else the worst first.
    pub(crate) each: Vec<&'a T>,
    /// Items that share one row.
    pub(crate) others: Vec<&'a T>,
}

impl<'a, T> WorstFirst<'a, T> {
    /// `loss` ranks the items, largest first; equal ones keep their order.
    pub(crate) fn new<K: Ord>(all: &'a [T], top: usize, loss: impl Fn(&T) -> K) -> Self {
        let mut each: Vec<&T> = all.iter().collect();
        if each.len() <= top {
            return Self { each, others: Vec::new() };
        }
        each.sort_by_key(|t| Reverse(loss(t)));
        let others = each.split_off(top);
        Self { each, others }
    }

    /// The rows; `cells` makes a row from a name and the items that it represents.
    pub(crate) fn rows(
        &self,
        name: impl Fn(&T) -> String,
        cells: impl Fn(String, &[&'a T]) -> Vec<String>,
    ) -> Vec<Vec<String>> {
        let each = self.each.iter().map(|t| (name(t), std::slice::from_ref(t)));
        let others = (!self.others.is_empty()).then(|| (self.others_name(), self.others.as_slice()));
        each.chain(others).map(|(name, of)| cells(name, of)).collect()
    }

    /// Name of the row for the others.
    pub(crate) fn others_name(&self) -> String {
        format!("+{}", self.others.len())
    }

    /// The note below the table about the row for the others; `None` if there is no such row. `how` says how
    /// the items are combined, `why` in what they are better.
    pub(crate) fn others_note(&self, noun: &str, how: &str, why: &str) -> Option<String> {
        let s = if self.others.len() == 1 { "" } else { "s" };
        let note =
            format!("{}: {how} of the other {noun}{s}, {why}; each is in the table", self.others_name());
        (!self.others.is_empty()).then_some(note)
    }
}

/// Several groups of windows as one row.
pub(crate) struct MergedGroups<'g, 'a, T: Windowed>(pub &'g [&'g SelectedRows<'a, T>]);

impl<'a, T: Windowed> MergedGroups<'_, 'a, T> {
    /// Sum of a column over the windows of all groups.
    pub(crate) fn sum<V: Summable<'a>>(&self, column: impl Fn(&ColumnsOf<'a, T>) -> V) -> i64 {
        self.0.iter().map(|g| g.sum(&column)).sum()
    }

    /// Mean of a column over the windows of all groups (rounded down).
    pub(crate) fn mean<V: Summable<'a>>(&self, column: impl Fn(&ColumnsOf<'a, T>) -> V) -> i64 {
        self.sum(column) / self.windows()
    }

    /// Sum of a column as a percentage of the windows.
    pub fn percent<V: Summable<'a>>(&self, column: impl Fn(&ColumnsOf<'a, T>) -> V) -> Option<f64> {
        percent(self.sum(column), self.0.iter().map(|g| g.dur()).sum())
    }

    /// Number of windows, at least one.
    pub(crate) fn windows(&self) -> i64 {
        self.0.iter().map(|g| g.rows.len() as i64).sum::<i64>().max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_come_first_and_the_others_are_one() {
        let losses = [3, 9, 1, 9, 5];
        let few = WorstFirst::new(&losses, 5, |n| *n);
        assert_eq!((few.each, few.others.len()), (losses.iter().collect(), 0));
        let many = WorstFirst::new(&losses, 3, |n| *n);
        assert_eq!((&many.each, &many.others), (&vec![&9, &9, &5], &vec![&3, &1]));
        assert_eq!(many.others_name(), "+2");
        let note = many.others_note("rank", "means", "which lose less");
        assert_eq!(
            note.as_deref(),
            Some("+2: means of the other ranks, which lose less; each is in the table")
        );
    }
}
