//! Numbers of 64 bits, kept in 4 bytes each until one of them needs 8.
//!
//! Most arguments of events are small: streams, devices, ids that count from 1, numbers of texts. A trace has
//! millions of them, and they stay in memory while it is analysed.

/// Values of 64 bits. Those kept in 4 bytes are read with their sign, so that -1 is as short as any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Narrow {
    Four(Vec<i32>),
    Eight(Vec<u64>),
}

impl Default for Narrow {
    fn default() -> Self {
        Narrow::Four(Vec::new())
    }
}

fn wide(short: i32) -> u64 {
    i64::from(short) as u64
}

impl Narrow {
    pub(crate) fn len(&self) -> usize {
        match self {
            Narrow::Four(v) => v.len(),
            Narrow::Eight(v) => v.len(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory of the values, bytes.
    pub(crate) fn held_bytes(&self) -> u64 {
        match self {
            Narrow::Four(v) => size_of_val(v.as_slice()) as u64,
            Narrow::Eight(v) => size_of_val(v.as_slice()) as u64,
        }
    }

    #[inline]
    pub(crate) fn get(&self, i: usize) -> Option<u64> {
        match self {
            Narrow::Four(v) => v.get(i).map(|short| wide(*short)),
            Narrow::Eight(v) => v.get(i).copied(),
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, value: u64) {
        match self {
            Narrow::Four(v) => match i32::try_from(value as i64) {
                Ok(short) => v.push(short),
                Err(_) => {
                    // room to go on: the column was about to grow
                    let mut values = Vec::with_capacity(v.len() + v.len() / 2 + 8);
                    values.extend(v.iter().map(|short| wide(*short)));
                    values.push(value);
                    *self = Narrow::Eight(values);
                }
            },
            Narrow::Eight(v) => v.push(value),
        }
    }

    pub(crate) fn pop(&mut self) -> Option<u64> {
        match self {
            Narrow::Four(v) => v.pop().map(wide),
            Narrow::Eight(v) => v.pop(),
        }
    }

    /// Adds all values of another column.
    pub(crate) fn append(&mut self, other: &Narrow) {
        match (self, other) {
            (Narrow::Four(to), Narrow::Four(from)) => to.extend_from_slice(from),
            (Narrow::Eight(to), Narrow::Eight(from)) => to.extend_from_slice(from),
            (to, from) => from.iter().for_each(|v| to.push(v)),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> {
        (0..self.len()).map_while(|i| self.get(i))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value() -> impl Strategy<Value = u64> {
        let around = |v: u64| v.wrapping_sub(3)..=v + 3;
        prop_oneof![4 => 0u64..300, 1 => around(i32::MAX as u64), 1 => around(u64::from(u32::MAX)), 1 => Just(u64::MAX), 1 => any::<u64>()]
    }

    #[test]
    fn small_values_and_minus_one_take_four_bytes() {
        let mut n = Narrow::default();
        [0, 7, i32::MAX as u64, u64::MAX].into_iter().for_each(|v| n.push(v));
        assert_eq!(
            (n.held_bytes(), n.iter().collect::<Vec<_>>()),
            (16, vec![0, 7, i32::MAX as u64, u64::MAX])
        );
        n.push(1 << 31);
        assert_eq!((n.held_bytes(), n.get(3), n.get(4)), (40, Some(u64::MAX), Some(1 << 31)));
    }

    proptest! {
        #[test]
        fn what_was_pushed_is_there(a in prop::collection::vec(value(), 0..40), b in prop::collection::vec(value(), 0..40)) {
            let of = |values: &[u64]| {
                let mut n = Narrow::default();
                values.iter().for_each(|v| n.push(*v));
                n
            };
            let (mut joined, end) = (of(&a), of(&b));
            joined.append(&end);
            let all: Vec<u64> = a.iter().chain(&b).copied().collect();
            prop_assert_eq!(joined.iter().collect::<Vec<_>>(), all.clone());
            prop_assert_eq!((joined.len(), joined.get(all.len())), (all.len(), None));
            prop_assert_eq!(joined.pop(), all.last().copied());
        }
    }
}
