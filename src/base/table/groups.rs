//! Groups of rows with equal keys.

use crate::table::schema::Batch;
use crate::table::value::{Codes, Value};
use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;

/// The distinct keys, numbered in order of their first row.
pub(super) struct Groups {
    /// The distinct values of each key column.
    codes: Vec<Codes>,
    /// The codes of each group, one after the other.
    keys: Vec<u32>,
    table: HashTable<u32>,
    count: usize,
    hasher: DefaultHashBuilder,
}

impl Groups {
    pub(super) fn new(columns: usize) -> Self {
        let mut codes = Vec::new();
        codes.resize_with(columns, Codes::default);
        Self {
            codes,
            keys: Vec::new(),
            table: HashTable::new(),
            count: 0,
            hasher: DefaultHashBuilder::default(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// The group of each of some rows of a batch.
    pub(super) fn of_rows<'n>(
        &mut self,
        batch: &Batch,
        names: impl Iterator<Item = &'n str>,
        rows: &[usize],
    ) -> Vec<u32> {
        let width = self.codes.len();
        let mut cells: Vec<u32> = vec![0; rows.len() * width];
        for (at, (codes, name)) in self.codes.iter_mut().zip(names).enumerate() {
            let of_rows = codes.of_rows(batch.column(name), rows);
            cells
                .iter_mut()
                .skip(at)
                .step_by(width.max(1))
                .zip(of_rows)
                .for_each(|(cell, code)| *cell = code);
        }
        (0..rows.len()).map(|row| self.group(&cells[row * width..(row + 1) * width])).collect()
    }

    fn group(&mut self, key: &[u32]) -> u32 {
        let (keys, hasher, width) = (&self.keys, &self.hasher, key.len());
        let key_of = |group: u32| &keys[group as usize * width..(group as usize + 1) * width];
        let hash = hasher.hash_one(key);
        if let Some(&group) = self.table.find(hash, |&group| key_of(group) == key) {
            return group;
        }
        let group = self.count as u32;
        self.count += 1;
        self.keys.extend_from_slice(key);
        let (keys, hasher) = (&self.keys, &self.hasher);
        let key_of = |group: u32| &keys[group as usize * width..(group as usize + 1) * width];
        self.table.insert_unique(hash, group, |&group| hasher.hash_one(key_of(group)));
        group
    }

    /// The values of a key column, by group.
    pub(super) fn values(&self, column: usize) -> Vec<Value> {
        let Some(codes) = self.codes.get(column) else { return Vec::new() };
        let of_column = self.keys.iter().skip(column).step_by(self.codes.len().max(1));
        of_column.map(|code| codes.value(*code)).collect()
    }
}
