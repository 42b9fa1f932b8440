//! Numbers in as few bytes as the largest of them needs.
//!
//! Most arguments of events are small: streams, devices, ids that count from 1, numbers of texts. A trace has millions of
//! them, and they stay in memory while it is analysed. A column begins with one byte a value and is copied to the next width
//! when a value does not fit, at most three times.

/// Values of 64 bits, kept in 1, 2, 4 or 8 bytes each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Narrow {
    One(Vec<u8>),
    Two(Vec<u16>),
    Four(Vec<u32>),
    Eight(Vec<u64>),
}

impl Default for Narrow {
    fn default() -> Self {
        Narrow::One(Vec::new())
    }
}

/// What is kept for a value: -1, which stands for no device and no stream, is then as short as any.
fn kept(value: u64) -> u64 {
    value.wrapping_add(1)
}

/// A type of so many bytes.
trait Width: Copy {
    fn fitting(kept: u64) -> Option<Self>;
    fn kept(self) -> u64;
}

macro_rules! width {
    ($($ty:ty),+) => {$(
        impl Width for $ty {
            #[inline]
            fn fitting(kept: u64) -> Option<Self> {
                let short = kept as $ty;
                (short as u64 == kept).then_some(short)
            }

            #[inline]
            fn kept(self) -> u64 {
                self as u64
            }
        }
    )+};
}

width!(u8, u16, u32, u64);

#[inline]
fn push<T: Width>(values: &mut Vec<T>, kept: u64) -> bool {
    T::fitting(kept).map(|v| values.push(v)).is_some()
}

#[inline]
fn set<T: Width>(values: &mut [T], i: usize, kept: u64) -> bool {
    T::fitting(kept).map(|v| values[i] = v).is_some()
}

fn wider<A: Width, B: Width>(from: &[A]) -> Vec<B> {
    // room to go on: it was about to grow
    let mut to = Vec::with_capacity(from.len() + from.len() / 2 + 8);
    to.extend(from.iter().filter_map(|v| B::fitting(v.kept())));
    to
}

/// Does the same with the vector, whatever the width of its elements.
macro_rules! each {
    ($me:expr, $v:ident => $do:expr) => {
        match $me {
            Narrow::One($v) => $do,
            Narrow::Two($v) => $do,
            Narrow::Four($v) => $do,
            Narrow::Eight($v) => $do,
        }
    };
}

impl Narrow {
    pub fn len(&self) -> usize {
        each!(self, v => v.len())
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory of the values, bytes.
    pub fn held_bytes(&self) -> u64 {
        each!(self, v => size_of_val(v.as_slice()) as u64)
    }

    pub fn get(&self, i: usize) -> Option<u64> {
        let kept = each!(self, v => v.get(i)?.kept());
        Some(kept.wrapping_sub(1))
    }

    #[inline]
    pub fn push(&mut self, value: u64) {
        let kept = kept(value);
        while !each!(self, v => push(v, kept)) {
            self.widen();
        }
    }

    pub fn pop(&mut self) -> Option<u64> {
        let kept = each!(self, v => v.pop()?.kept());
        Some(kept.wrapping_sub(1))
    }

    /// So many times one value.
    pub fn filled(len: usize, value: u64) -> Self {
        let mut made = Narrow::default();
        made.push(value);
        each!(&mut made, v => v.resize(len, v[0]));
        made
    }

    /// Changes a value, which must be there.
    #[inline]
    pub fn set(&mut self, i: usize, value: u64) {
        let kept = kept(value);
        while !each!(self, v => set(v, i, kept)) {
            self.widen();
        }
    }

    #[cold]
    fn widen(&mut self) {
        *self = match self {
            Narrow::One(v) => Narrow::Two(wider(v)),
            Narrow::Two(v) => Narrow::Four(wider(v)),
            Narrow::Four(v) => Narrow::Eight(wider(v)),
            Narrow::Eight(_) => return,
        }
    }

    fn width(&self) -> u32 {
        match self {
            Narrow::One(_) => 0,
            Narrow::Two(_) => 1,
            Narrow::Four(_) => 2,
            Narrow::Eight(_) => 3,
        }
    }

    /// Adds all values of another column.
    pub fn append(&mut self, other: &Narrow) {
        while self.width() < other.width() {
            self.widen();
        }
        match (self, other) {
            (Narrow::One(to), Narrow::One(from)) => to.extend_from_slice(from),
            (Narrow::Two(to), Narrow::Two(from)) => to.extend_from_slice(from),
            (Narrow::Four(to), Narrow::Four(from)) => to.extend_from_slice(from),
            (Narrow::Eight(to), Narrow::Eight(from)) => to.extend_from_slice(from),
            (to, from) => from.iter().for_each(|v| to.push(v)),
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = u64> {
        (0..self.len()).map_while(|i| self.get(i))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value() -> impl Strategy<Value = u64> {
        prop_oneof![
            4 => 0u64..300,
            2 => 65_000u64..70_000,
            1 => (u64::from(u32::MAX) - 3)..=(u64::from(u32::MAX) + 3),
            1 => Just(u64::MAX),
            1 => any::<u64>(),
        ]
    }

    #[test]
    fn small_values_and_minus_one_take_a_byte() {
        let mut n = Narrow::default();
        [0, 7, 254, u64::MAX].into_iter().for_each(|v| n.push(v));
        assert_eq!((n.held_bytes(), n.iter().collect::<Vec<_>>()), (4, vec![0, 7, 254, u64::MAX]));
        n.push(255);
        assert_eq!((n.held_bytes(), n.get(4)), (10, Some(255)));
        assert!(Narrow::filled(3, u64::MAX).iter().eq([u64::MAX; 3]));
        assert!(Narrow::filled(0, 7).is_empty());
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
            prop_assert_eq!(joined.len(), all.len());
            prop_assert_eq!(joined.get(all.len()), None);
            let (mut changed, mut expected) = (joined.clone(), all.clone());
            for (i, value) in a.iter().enumerate() {
                let last = expected.len() - 1 - i;
                changed.set(last, *value);
                expected[last] = *value;
            }
            prop_assert!(changed.iter().eq(expected));
            prop_assert_eq!(joined.pop(), all.last().copied());
        }
    }
}
