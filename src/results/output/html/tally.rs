//! Sums by name over all ranks, with the number of ranks and the rank with the largest value.

use crate::output::html::grid::{Cell, Grid};
use crate::output::html::texts::Texts;
use hashbrown::HashMap;
use std::cmp::Reverse;

/// The sums of one key.
pub(crate) struct KeySums<const K: usize, const N: usize> {
    key: [u32; K],
    pub(crate) sums: [i64; N],
    pub(crate) ranks: usize,
    /// The largest value of the first sum on one rank, and that rank.
    pub(crate) most: (i64, u32),
    rank: Option<u32>,
    of_rank: i64,
}

/// The last cells of a row: the ranks that have its key, and the largest value of one with that rank.
pub(crate) fn of_ranks<const K: usize, const N: usize>(row: &KeySums<K, N>, _: &mut Texts) -> Vec<Cell> {
    vec![row.ranks.into(), row.most.0.into(), row.most.1.into()]
}

/// Sums by key; a key has `K` texts. Rows must come in order of rank.
pub(crate) struct Tally<const K: usize, const N: usize> {
    ids: HashMap<Box<str>, u32>,
    texts: Vec<Box<str>>,
    rows: HashMap<[u32; K], KeySums<K, N>>,
}

impl<const K: usize, const N: usize> Default for Tally<K, N> {
    fn default() -> Self {
        Self { ids: HashMap::new(), texts: Vec::new(), rows: HashMap::new() }
    }
}

impl<const K: usize, const N: usize> Tally<K, N> {
    fn id(&mut self, text: &str) -> u32 {
        if let Some(id) = self.ids.get(text) {
            return *id;
        }
        let id = u32::try_from(self.texts.len()).unwrap_or(u32::MAX);
        self.texts.push(text.into());
        self.ids.insert(text.into(), id);
        id
    }

    pub(crate) fn add(&mut self, key: [&str; K], rank: u32, values: [i64; N]) {
        let key = key.map(|t| self.id(t));
        let fresh =
            || KeySums { key, sums: [0; N], ranks: 0, most: (i64::MIN, rank), rank: None, of_rank: 0 };
        let row = self.rows.entry(key).or_insert_with(fresh);
        if row.rank != Some(rank) {
            row.rank = Some(rank);
            row.ranks += 1;
            row.of_rank = 0;
        }
        for (sum, value) in row.sums.iter_mut().zip(values) {
            *sum = sum.saturating_add(value);
        }
        row.of_rank = row.of_rank.saturating_add(values.first().copied().unwrap_or(0));
        if row.of_rank > row.most.0 {
            row.most = (row.of_rank, rank);
        }
    }

    /// The sums of a key.
    pub fn of(&self, key: [&str; K]) -> Option<&KeySums<K, N>> {
        let mut ids = [0; K];
        for (id, text) in ids.iter_mut().zip(key) {
            *id = *self.ids.get(text)?;
        }
        self.rows.get(&ids)
    }

    /// The texts of a row's key.
    pub(crate) fn key(&self, row: &KeySums<K, N>) -> [&str; K] {
        row.key.map(|id| self.text(id))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn text(&self, id: u32) -> &str {
        self.texts.get(id as usize).map_or("", |t| t)
    }

    /// Adds the `most` largest rows to a grid, and the sums of the others below. A row of the grid begins
    /// with the texts and the sums; `tail` gives the remaining cells.
    pub(crate) fn fill(
        &self,
        grid: &mut Grid,
        texts: &mut Texts,
        most: usize,
        tail: impl Fn(&KeySums<K, N>, &mut Texts) -> Vec<Cell>,
    ) {
        self.fill_with_last(grid, texts, most, |_| false, tail);
    }

    /// Like [`Tally::fill`], with the rows whose keys are in `last` after all others.
    pub(crate) fn fill_with_last(
        &self,
        grid: &mut Grid,
        texts: &mut Texts,
        most: usize,
        last: impl Fn([&str; K]) -> bool,
        tail: impl Fn(&KeySums<K, N>, &mut Texts) -> Vec<Cell>,
    ) {
        let mut rows: Vec<&KeySums<K, N>> = self.rows.values().collect();
        let order = |r: &&KeySums<K, N>| (last(self.key(r)), Reverse(r.sums));
        rows.sort_by(|a, b| order(a).cmp(&order(b)).then_with(|| self.key(a).cmp(&self.key(b))));
        for row in rows.iter().take(most) {
            let mut cells: Vec<Cell> = self.key(row).iter().map(|t| texts.cell(t)).collect();
            cells.extend(row.sums.iter().map(|v| Cell::Int(*v)));
            cells.extend(tail(row, texts));
            grid.push(cells);
        }
        let others = rows.get(most..).unwrap_or_default();
        let mut rest = vec![Cell::Nothing; K];
        rest.extend((0..N).map(|i| Cell::Int(others.iter().filter_map(|r| r.sums.get(i)).sum())));
        grid.leave_out(others.len(), rest);
    }
}
