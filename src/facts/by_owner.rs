//! Time by owner: sums of what each owner is charged with, window by window.
//!
//! An owner is what an analysis divides time by: an operator, a source line, an annotation, a kernel. What
//! is charged (a piece of host time, a call, an activity) belongs to the windows of its step
//! ([`crate::step_scopes`]):
//!
//! ```text
//!   charged       step   owner        sums   capture   step 0   step 1
//!   [mm 5 ns)     0      aten::mm            7         5        2
//!   [mm 2 ns)     1      aten::mm
//!   [copy 1 ns)   1      aten::copy_         1                  1
//! ```
//!
//! Owners are numbered, so a key is hashed once for what is charged and not again for each window: the sums
//! of the capture are found by the number of the owner, those of other windows by two numbers.

use crate::calls::forest::NOWHERE;
use hashbrown::HashMap;
use std::hash::Hash;

/// Owner of GPU work without a launch record.
pub const UNLINKED: &str = "[unlinked]";
/// Owner of what no operator did.
pub const NO_OPERATOR: &str = "[no operator]";
/// Owner of what is in no module.
pub const NO_MODULE: &str = "[no module]";

/// Number of an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OwnerId(u32);

/// Sums by window and owner.
pub struct ByOwner<K, S> {
    ids: HashMap<K, OwnerId>,
    /// Each owner, with the index of its sums in the first window, in which nearly all of them are charged.
    owners: Vec<(K, u32)>,
    /// Index into `sums` by window and owner, of the other windows.
    places: HashMap<(u32, OwnerId), u32>,
    sums: Vec<(u32, OwnerId, S)>,
}

impl<K, S> Default for ByOwner<K, S> {
    fn default() -> Self {
        Self { ids: HashMap::new(), owners: Vec::new(), places: HashMap::new(), sums: Vec::new() }
    }
}

impl<K: Copy + Eq + Hash, S: Default> ByOwner<K, S> {
    /// The number of an owner.
    pub fn id(&mut self, owner: K) -> OwnerId {
        let new = OwnerId(self.owners.len() as u32);
        let id = *self.ids.entry(owner).or_insert(new);
        if id == new {
            self.owners.push((owner, NOWHERE));
        }
        id
    }

    /// The sums of an owner in a window.
    pub fn at(&mut self, window: usize, owner: OwnerId) -> &mut S {
        let new = self.sums.len() as u32;
        let place = match self.owners.get_mut(owner.0 as usize) {
            Some((_, first)) if window == 0 => {
                *first = if *first == NOWHERE { new } else { *first };
                *first
            }
            _ => *self.places.entry((window as u32, owner)).or_insert(new),
        };
        if place == new {
            self.sums.push((window as u32, owner, S::default()));
        }
        &mut self.sums[place as usize].2
    }

    /// Charges an owner in each of some windows.
    pub fn charge(&mut self, windows: impl Iterator<Item = usize>, owner: K, mut change: impl FnMut(&mut S)) {
        let id = self.id(owner);
        windows.for_each(|window| change(self.at(window, id)));
    }

    /// Window, owner and sums, in the order in which they were first charged.
    pub fn into_rows(self) -> impl Iterator<Item = (usize, K, S)> {
        let Self { owners, sums, .. } = self;
        sums.into_iter().map(move |(window, id, sums)| (window as usize, owners[id.0 as usize].0, sums))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_charged_in_each_window_of_what_it_did() {
        let mut by_name: ByOwner<&str, i64> = ByOwner::default();
        for (owner, step, ns) in [("mm", 1, 5), ("mm", 2, 2), ("copy", 2, 1)] {
            by_name.charge([0, step].into_iter(), owner, |sum| *sum += ns);
        }
        let rows: Vec<(usize, &str, i64)> = by_name.into_rows().collect();
        assert_eq!(rows, [(0, "mm", 7), (1, "mm", 5), (2, "mm", 2), (0, "copy", 1), (2, "copy", 1)]);
    }
}
