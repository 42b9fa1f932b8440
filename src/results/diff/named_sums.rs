//! Counts and times of a run by name and step, as they are read from its tables.

use crate::diff::set::{CellKey, KeyedStep, SetRank, SetTexts, WorkSide};
use hashbrown::HashMap;
use std::collections::BTreeMap;

/// Side, class, name and owner.
pub(crate) type NamedKey<'a> = (WorkSide, &'a str, &'a str, Option<&'a str>);

/// Sums of ranks by key and step: devices of a rank are one.
#[derive(Default)]
pub(crate) struct NamedSums {
    texts: SetTexts,
    ranks: BTreeMap<u32, SumsOfRank>,
}

#[derive(Default)]
struct SumsOfRank {
    keys: HashMap<CellKey, u32>,
    cells: HashMap<(u32, Option<u32>), KeyedStep>,
}

impl NamedSums {
    /// Adds a count, a time, and the part of the time without enclosed events.
    pub(crate) fn add(
        &mut self,
        rank: u32,
        (side, class, name, owner): NamedKey,
        step: Option<u32>,
        [count, ns, own]: [i64; 3],
    ) {
        let texts = &mut self.texts;
        let (class, name) = (texts.one(class), texts.one(name));
        let key = CellKey { side, class, name, owner: owner.map(|owner| texts.one(owner)) };
        let SumsOfRank { keys, cells } = self.ranks.entry(rank).or_default();
        let next = keys.len() as u32;
        let key = *keys.entry(key).or_insert(next);
        let cell = cells.entry((key, step)).or_insert(KeyedStep { key, step, count: 0, ns: 0, own: 0 });
        cell.count += count;
        cell.ns += ns;
        cell.own += own;
    }

    /// Gives a rank its sums, sorted by the texts of keys.
    pub(crate) fn give(&mut self, rank: &mut SetRank) {
        let Some(SumsOfRank { keys, cells }) = self.ranks.remove(&rank.rank) else { return };
        let mut order: Vec<(CellKey, u32)> = keys.into_iter().collect();
        order.sort_unstable();
        let mut place = vec![0u32; order.len()];
        for (i, (_, key)) in (0..).zip(&order) {
            place[*key as usize] = i;
        }
        rank.cells =
            cells.into_values().map(|cell| KeyedStep { key: place[cell.key as usize], ..cell }).collect();
        rank.cells.sort_unstable_by_key(|cell| (cell.key, cell.step));
        rank.keys = order.into_iter().map(|(key, _)| key).collect();
    }
}
