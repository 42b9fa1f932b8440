//! Integers in as few bytes as they need: seven bits a byte, lowest first, the highest bit says that more
//! follow.

/// Appends a number.
pub fn write(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

/// Takes a number off the front; `None` where the bytes end before it does.
pub fn read<'a>(bytes: &mut impl Iterator<Item = &'a u8>) -> Option<u64> {
    let mut n = 0;
    for (k, byte) in bytes.by_ref().enumerate() {
        n |= u64::from(byte & 0x7f) << (7 * k);
        if *byte < 0x80 {
            return Some(n);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_are_read_as_they_were_written(values in prop::collection::vec(any::<u64>(), 0..9)) {
            let mut bytes = Vec::new();
            values.iter().for_each(|v| write(&mut bytes, *v));
            let mut rest = bytes.iter();
            let got: Vec<u64> = std::iter::from_fn(|| read(&mut rest)).collect();
            prop_assert_eq!(got, values);
        }
    }
}
