//! Printed tables for many ranks: one row for each of the worst ranks, or for several whose rows are equal,
//! and one row for all others.

use crate::population::{SelectedRows, Summable, Windowed};
use hta_base::table::schema::ColumnsOf;
use hta_base::units::percent;
use hta_base::wording::ranks::ranks_in_column;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::Hash;

/// The items of a printed table: all in their order if they fit, or else the worst first.
pub(crate) struct WorstFirst<'a, T> {
    all: Vec<&'a T>,
    top: usize,
}

/// The rows of a printed table.
pub(crate) struct FoldedRows {
    pub(crate) rows: Vec<Vec<String>>,
    /// Number of items that share the last row.
    others: usize,
}

impl<'a, T> WorstFirst<'a, T> {
    /// `loss` ranks the items, largest first; equal ones keep their order.
    pub(crate) fn new<K: Ord>(all: &'a [T], top: usize, loss: impl Fn(&T) -> K) -> Self {
        let mut all: Vec<&T> = all.iter().collect();
        if all.len() > top {
            all.sort_by_key(|t| Reverse(loss(t)));
        }
        Self { all, top }
    }

    /// The rows. Items whose rows are equal share one. `of` gives the rank of an item and what else tells it
    /// from others, such as a device; `cells` makes a row from a name and the items that it represents.
    pub(crate) fn rows(
        &self,
        of: impl Fn(&T) -> (u32, String),
        cells: impl Fn(String, &[&'a T]) -> Vec<String>,
    ) -> FoldedRows {
        let row = |item: &&'a T| cells(String::new(), std::slice::from_ref(item));
        let mut equal = alike(self.all.iter().copied(), |item| (of(item).1, row(item)));
        let others: Vec<&T> = equal.drain(self.top.min(equal.len())..).flatten().collect();
        let mut rows: Vec<Vec<String>> = Vec::new();
        for items in equal {
            let mut ranks: Vec<u32> = items.iter().map(|item| of(item).0).collect();
            ranks.sort_unstable();
            let name = ranks_in_column(&ranks) + &of(items[0]).1;
            rows.push(cells(name, &items[..1]));
        }
        if !others.is_empty() {
            rows.push(cells(others_name(others.len()), &others));
        }
        FoldedRows { rows, others: others.len() }
    }
}

/// Items of equal keys together, in the order of the first of each.
pub(crate) fn alike<T, K: Eq + Hash>(items: impl Iterator<Item = T>, key: impl Fn(&T) -> K) -> Vec<Vec<T>> {
    let mut out: Vec<Vec<T>> = Vec::new();
    let mut known: HashMap<K, usize> = HashMap::new();
    for item in items {
        let at = *known.entry(key(&item)).or_insert(out.len());
        match out.get_mut(at) {
            Some(equal) => equal.push(item),
            None => out.push(vec![item]),
        }
    }
    out
}

/// Name of the row for items without a row of their own.
fn others_name(n: usize) -> String {
    format!("{n} other{}", if n == 1 { "" } else { "s" })
}

impl FoldedRows {
    /// The note below the table about the row for the others; `None` if there is no such row. `how` says how
    /// the items are combined, `why` in what they are better.
    pub(crate) fn others_note(&self, noun: &str, how: &str, why: &str) -> Option<String> {
        let s = if self.others == 1 { "" } else { "s" };
        let name = others_name(self.others);
        (self.others > 0).then(|| format!("{name}: {how} of the {noun}{s} {why}; each is in the table"))
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

    fn table(losses: &[i32], top: usize) -> FoldedRows {
        let all: Vec<(u32, i32)> = losses.iter().enumerate().map(|(i, loss)| (i as u32, *loss)).collect();
        let shown = WorstFirst::new(&all, top, |(_, loss)| *loss);
        shown.rows(
            |(rank, _)| (*rank, String::new()),
            |name, of| vec![name, of.iter().map(|(_, loss)| loss).sum::<i32>().to_string()],
        )
    }

    #[test]
    fn the_worst_come_first_and_the_others_are_one() {
        let few = table(&[3, 9, 1, 7, 5], 5);
        assert_eq!((few.rows[0].join(" "), few.rows.len(), few.others), ("0 3".to_string(), 5, 0));
        let many = table(&[3, 9, 1, 7, 5], 3);
        let rows: Vec<String> = many.rows.iter().map(|r| r.join(" ")).collect();
        assert_eq!(rows, ["1 9", "3 7", "4 5", "2 others 4"]);
        let note = many.others_note("rank", "means", "that lose less");
        assert_eq!(
            note.as_deref(),
            Some("2 others: means of the ranks that lose less; each is in the table")
        );
    }

    #[test]
    fn items_with_equal_rows_share_one() {
        let many = table(&[3, 9, 3, 9, 3, 1, 1], 2);
        let rows: Vec<String> = many.rows.iter().map(|r| r.join(" ")).collect();
        assert_eq!(rows, ["1, 3 9", "0, 2, 4 3", "2 others 2"]);
    }
}
