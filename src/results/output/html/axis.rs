//! An axis of ranks or steps. If there are too many to show each one, consecutive ones share a place.

use hashbrown::HashMap;
use std::collections::BTreeSet;
use std::hash::Hash;

/// Identifies a step across ranks, by its label or else by its index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum PageStep {
    Label(i64),
    Index(u32),
}

impl PageStep {
    pub(crate) fn new(index: Option<u32>, label: Option<i64>) -> Option<Self> {
        label.map(PageStep::Label).or(index.map(PageStep::Index))
    }
}

impl std::fmt::Display for PageStep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PageStep::Label(n) => write!(f, "{n}"),
            PageStep::Index(n) => write!(f, "@{n}"),
        }
    }
}

pub(crate) struct PageAxis<T> {
    places: HashMap<T, usize>,
    /// First and last item of each place.
    ends: Vec<(T, T)>,
    /// Largest number of items that share a place.
    pub(crate) joined: usize,
}

impl<T: Copy + Ord + Hash + std::fmt::Display> PageAxis<T> {
    /// An axis with at most `most` places.
    pub(crate) fn new(all: &BTreeSet<T>, most: usize) -> Self {
        let joined = all.len().div_ceil(most.max(1)).max(1);
        let mut places = HashMap::new();
        let mut ends: Vec<(T, T)> = Vec::new();
        for (i, v) in all.iter().enumerate() {
            places.insert(*v, i / joined);
            match ends.get_mut(i / joined) {
                Some(pair) => pair.1 = *v,
                None => ends.push((*v, *v)),
            }
        }
        Self { places, ends, joined }
    }

    pub(crate) fn place(&self, of: &T) -> Option<usize> {
        self.places.get(of).copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Label of a place: `3`, or `3-6`.
    pub(crate) fn label(&self, place: usize) -> String {
        match self.ends.get(place) {
            Some((a, b)) if a == b => a.to_string(),
            Some((a, b)) => format!("{a}-{b}"),
            None => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consecutive_ranks_share_a_place_when_there_are_too_many() {
        let axis = PageAxis::new(&(0..10u32).collect(), 4);
        assert_eq!((axis.len(), axis.joined), (4, 3));
        assert_eq!(axis.label(0), "0-2");
        assert_eq!(axis.label(3), "9");
        assert_eq!(axis.place(&5), Some(1));
        let few = PageAxis::new(&(0..3u32).collect(), 4);
        assert_eq!((few.len(), few.joined, few.label(2)), (3, 1, "2".to_string()));
    }
}
