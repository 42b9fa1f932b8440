//! Joins begins with their ends.
//!
//! torch writes a group of begins and then their ends in the same order, sorted neither by time nor by
//! nesting, so that an end belongs to the begin at its position:
//!
//! ```text
//!   file      begin a   begin b   begin c   end   end   end   begin d ...
//!                |         |         |       a     b     c
//! ```
//!
//! Other writers, and damaged groups, have a stack per track, in order of time.

use crate::room::of_map;
use hashbrown::HashMap;
use hta_base::units::Ns;

/// A slice whose end was not read yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OpenSlice {
    pub(super) track: u64,
    pub(super) ts: Ns,
    /// Its row; none if it is not kept.
    pub(super) row: Option<u32>,
    /// Whether its extent counts although it has no row.
    pub(super) reaches: bool,
}

/// An end: its track and its time.
type SliceEnd = (u64, Ns);

/// A slice with its end.
pub(super) type ClosedSlice = (OpenSlice, Ns);

/// Joins begins and ends.
pub(super) enum Pairing {
    ByPosition(SliceGroups),
    Stacks(SliceStacks),
}

/// Groups of begins and ends.
#[derive(Default)]
pub(super) struct SliceGroups {
    begins: Vec<OpenSlice>,
    ends: Vec<SliceEnd>,
    /// Begins and ends of groups that are damaged: the time, and the begin or the track of an end.
    loose: Vec<(Ns, Result<OpenSlice, u64>)>,
}

/// Stacks of tracks, of begins and ends in order of time.
#[derive(Default)]
pub(super) struct SliceStacks {
    open: HashMap<u64, Vec<OpenSlice>>,
    /// Number of slices that are open.
    depth: usize,
    without_begin: u64,
}

/// What is left at the end of a file.
#[derive(Default)]
pub(super) struct Unpaired {
    /// In order of their rows.
    pub(super) open: Vec<OpenSlice>,
    /// Number of ends without a begin.
    pub(super) without_begin: u64,
}

impl Pairing {
    /// Adds a begin. `close` takes the slices that are known to have ended.
    pub(super) fn begin(&mut self, slice: OpenSlice, close: &mut dyn FnMut(ClosedSlice)) {
        match self {
            Pairing::ByPosition(groups) => {
                if !groups.ends.is_empty() {
                    groups.settle(false, close);
                }
                groups.begins.push(slice);
            }
            Pairing::Stacks(stacks) => stacks.begin(slice),
        }
    }

    pub(super) fn end(&mut self, track: u64, ts: Ns, close: &mut dyn FnMut(ClosedSlice)) {
        match self {
            Pairing::ByPosition(groups) => groups.ends.push((track, ts)),
            Pairing::Stacks(stacks) => stacks.end(track, ts, close),
        }
    }

    /// Closes what can be closed at the end of the file. `is_cut`: packets are missing there.
    pub(super) fn finish(self, is_cut: bool, close: &mut dyn FnMut(ClosedSlice)) -> Unpaired {
        let mut left = Unpaired::default();
        let stacks = match self {
            Pairing::ByPosition(mut groups) => {
                left.open = groups.settle(is_cut, close);
                groups.loose.sort_by_key(|(ts, _)| *ts);
                let mut stacks = SliceStacks::default();
                for (ts, mark) in groups.loose {
                    match mark {
                        Ok(slice) => stacks.begin(slice),
                        Err(track) => stacks.end(track, ts, close),
                    }
                }
                stacks
            }
            Pairing::Stacks(stacks) => stacks,
        };
        left.without_begin = stacks.without_begin;
        left.open.extend(stacks.open.into_values().flatten());
        left.open.sort_by_key(|slice| (slice.row, slice.ts, slice.track));
        left
    }

    /// Memory of what is open, bytes.
    pub(super) fn held(&self) -> u64 {
        match self {
            Pairing::ByPosition(groups) => {
                (size_of_val(groups.begins.as_slice())
                    + size_of_val(groups.ends.as_slice())
                    + size_of_val(groups.loose.as_slice())) as u64
            }
            Pairing::Stacks(stacks) => {
                // Each stack has room for some, and for up to twice as many as there are.
                let places = 4 * stacks.open.len() + 2 * stacks.depth;
                of_map(&stacks.open) + (places * size_of::<OpenSlice>()) as u64
            }
        }
    }
}

impl SliceGroups {
    /// Closes the slices of a group. Of a group that is cut, returns the begins whose ends are missing.
    fn settle(&mut self, is_cut: bool, close: &mut dyn FnMut(ClosedSlice)) -> Vec<OpenSlice> {
        let (begins, ends) = (&self.begins, &self.ends);
        let is_group = begins.len() == ends.len() || is_cut && ends.len() < begins.len();
        let fits = |(slice, end): (&OpenSlice, &SliceEnd)| slice.track == end.0 && slice.ts <= end.1;
        let mut left = Vec::new();
        if is_group && begins.iter().zip(ends).all(fits) {
            begins.iter().zip(ends).for_each(|(slice, (_, ts))| close((*slice, *ts)));
            left = begins.get(ends.len()..).unwrap_or_default().to_vec();
        } else {
            self.loose.extend(begins.iter().map(|slice| (slice.ts, Ok(*slice))));
            self.loose.extend(ends.iter().map(|(track, ts)| (*ts, Err(*track))));
        }
        self.begins.clear();
        self.ends.clear();
        left
    }
}

impl SliceStacks {
    fn begin(&mut self, slice: OpenSlice) {
        self.depth += 1;
        self.open.entry(slice.track).or_default().push(slice);
    }

    fn end(&mut self, track: u64, ts: Ns, close: &mut dyn FnMut(ClosedSlice)) {
        match self.open.get_mut(&track).and_then(Vec::pop) {
            Some(slice) => {
                self.depth -= 1;
                close((slice, ts));
            }
            None => self.without_begin += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Marks of a track: a positive time begins a slice, a negative one ends one.
    fn paired(mut pairing: Pairing, marks: &[(u64, Ns)], is_cut: bool) -> (Vec<(Ns, Ns)>, Vec<Ns>, u64) {
        let mut closed = Vec::new();
        let mut close = |(slice, end): ClosedSlice| closed.push((slice.ts, end));
        for (row, (track, time)) in (0..).zip(marks) {
            let slice = OpenSlice { track: *track, ts: *time, row: Some(row), reaches: false };
            match time {
                0.. => pairing.begin(slice, &mut close),
                _ => pairing.end(*track, -time, &mut close),
            }
        }
        let left = pairing.finish(is_cut, &mut close);
        closed.sort_unstable();
        (closed, left.open.iter().map(|slice| slice.ts).collect(), left.without_begin)
    }

    fn groups() -> Pairing {
        Pairing::ByPosition(SliceGroups::default())
    }

    #[test]
    fn ends_of_a_group_are_in_the_order_of_its_begins() {
        let marks = [(2, 10), (2, 12), (3, 11), (2, -40), (2, -12), (3, -50), (2, 60), (2, -70)];
        assert_eq!(
            paired(groups(), &marks, false),
            (vec![(10, 40), (11, 50), (12, 12), (60, 70)], vec![], 0)
        );
    }

    #[test]
    fn a_group_that_does_not_match_has_a_stack_per_track() {
        // Another writer: nested slices, in order of time.
        let marks = [(2, 10), (2, 12), (2, -20), (2, 25), (2, -30), (2, -40)];
        assert_eq!(paired(groups(), &marks, false), (vec![(10, 40), (12, 20), (25, 30)], vec![], 0));
        // The end of the first slice is missing.
        let marks = [(2, 10), (3, 12), (3, -20), (2, 30), (2, -40)];
        assert_eq!(paired(groups(), &marks, false), (vec![(12, 20), (30, 40)], vec![10], 0));
    }

    #[test]
    fn a_cut_group_keeps_the_positions_of_its_ends() {
        let marks = [(2, 10), (2, 12), (2, 14), (2, -90), (2, -13)];
        assert_eq!(paired(groups(), &marks, true), (vec![(10, 90), (12, 13)], vec![14], 0));
    }

    #[test]
    fn converted_slices_are_nested() {
        let marks = [(2, 10), (2, 10), (2, -10), (2, 10), (2, -15), (2, -20), (2, -30), (2, 40)];
        let stacks = Pairing::Stacks(SliceStacks::default());
        assert_eq!(paired(stacks, &marks, false), (vec![(10, 10), (10, 15), (10, 20)], vec![40], 1));
    }
}
