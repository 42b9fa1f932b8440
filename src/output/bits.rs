//! Numbers in few bits, as Parquet writes them: variable-length integers, runs and bit-packed groups of
//! eight (`hybrid`), and packed differences (`DELTA_BINARY_PACKED`). Little endian, lowest bit first.

use crate::trace::varint;
use crate::trace::varint::zigzag;

/// Values of a block of differences, and of each of its four parts with a width of its own.
const BLOCK: usize = 128;
const PART: usize = 32;

/// Equal values from which a run is written instead of packed groups.
const RUN: usize = 16;

/// Packs values of `width` bits each; their number is a multiple of eight.
fn pack(values: impl Iterator<Item = u64>, width: u32, out: &mut Vec<u8>) {
    if width == 0 {
        return;
    }
    if width <= 32 {
        let (mut held, mut bits) = (0u64, 0);
        for v in values {
            held |= v << bits;
            bits += width;
            if bits >= 32 {
                out.extend_from_slice(&(held as u32).to_le_bytes());
                held >>= 32;
                bits -= 32;
            }
        }
        out.extend_from_slice(&held.to_le_bytes()[..bits.div_ceil(8) as usize]);
        return;
    }
    let (mut held, mut bits) = (0u128, 0);
    for v in values {
        held |= u128::from(v) << bits;
        bits += width;
        while bits >= 8 {
            out.push(held as u8);
            held >>= 8;
            bits -= 8;
        }
    }
}

/// Runs of one value, and bit-packed groups of eight between them.
pub fn hybrid(values: &[u32], width: u8, out: &mut Vec<u8>) {
    let mut at = 0;
    while at < values.len() {
        let run = run_at(values, at);
        if run >= RUN || (at == 0 && run == values.len()) {
            varint::write(out, (run as u64) << 1);
            out.extend_from_slice(&values[at].to_le_bytes()[..usize::from(width).div_ceil(8)]);
            at += run;
            continue;
        }
        // whole groups up to the next long run, which starts at a group's start
        let from = at;
        while at < values.len() && (at == from || run_at(values, at) < RUN) {
            at = (at + 8).min(values.len());
        }
        let groups = (at - from).div_ceil(8);
        varint::write(out, ((groups as u64) << 1) | 1);
        let padding = groups * 8 - (at - from);
        let padded = values[from..at].iter().map(|v| u64::from(*v)).chain(std::iter::repeat_n(0, padding));
        pack(padded, u32::from(width), out);
    }
}

fn run_at(values: &[u32], at: usize) -> usize {
    values[at..].iter().take_while(|v| **v == values[at]).count()
}

/// Values as differences, each block's packed above its least one. `SHORT`: they are of 32 bits, signed or not.
pub fn delta_packed<const SHORT: bool>(values: &[i64], out: &mut Vec<u8>) {
    // differences wrap in the width of the type
    let signed = |v: i64| if SHORT { i64::from(v as i32) } else { v };
    let unsigned = |v: i64| if SHORT { u64::from(v as u32) } else { v as u64 };
    varint::write(out, BLOCK as u64);
    varint::write(out, (BLOCK / PART) as u64);
    varint::write(out, values.len() as u64);
    varint::write(out, zigzag(signed(values.first().copied().unwrap_or(0))));
    let mut differences = [0i64; BLOCK];
    let mut at = 1;
    while at < values.len() {
        let n = (values.len() - at).min(BLOCK);
        for (d, pair) in differences.iter_mut().zip(values[at - 1..at + n].windows(2)) {
            *d = signed(pair[1].wrapping_sub(pair[0]));
        }
        let least = differences[..n].iter().copied().min().unwrap_or(0);
        varint::write(out, zigzag(least));
        // what pads the last part is the least difference
        differences[n..].fill(least);
        let part = |i: usize| differences[i * PART..(i + 1) * PART].iter().map(|d| unsigned(d.wrapping_sub(least)));
        let widths: [u32; BLOCK / PART] =
            std::array::from_fn(|i| u64::BITS - part(i).fold(0, |all, d| all | d).leading_zeros());
        out.extend(widths.map(|w| w as u8));
        for (i, width) in widths.into_iter().enumerate().take(n.div_ceil(PART)) {
            pack(part(i), width, out);
        }
        at += n;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct Reader<'a>(&'a [u8]);

    impl Reader<'_> {
        fn varint(&mut self) -> u64 {
            let (mut v, mut shift) = (0, 0);
            loop {
                let b = self.0[0];
                self.0 = &self.0[1..];
                v |= u64::from(b & 0x7f) << shift;
                shift += 7;
                if b < 0x80 {
                    return v;
                }
            }
        }

        fn zigzag(&mut self) -> i64 {
            let v = self.varint();
            (v >> 1) as i64 ^ -((v & 1) as i64)
        }

        fn packed(&mut self, n: usize, width: usize) -> Vec<u64> {
            let bit = |i: usize| u64::from(self.0[i / 8] >> (i % 8) & 1);
            let values = (0..n).map(|k| (0..width).map(|b| bit(k * width + b) << b).sum()).collect();
            self.0 = &self.0[(n * width).div_ceil(8)..];
            values
        }
    }

    proptest! {
        #[test]
        fn runs_and_groups_read_back(parts in prop::collection::vec((0u32..9, 1usize..40), 0..12), wide in any::<bool>()) {
            let values: Vec<u32> = parts.iter().flat_map(|(v, n)| vec![if wide { v << 28 } else { *v }; *n]).collect();
            let width = if wide { 32 } else { 4 };
            let mut bytes = Vec::new();
            hybrid(&values, width as u8, &mut bytes);
            let mut r = Reader(&bytes);
            let mut got: Vec<u64> = Vec::new();
            while !r.0.is_empty() {
                let head = r.varint();
                if head & 1 == 1 {
                    got.extend(r.packed((head >> 1) as usize * 8, width));
                } else {
                    let v = r.packed(1, width.div_ceil(8) * 8)[0];
                    got.extend(vec![v; (head >> 1) as usize]);
                }
            }
            prop_assert!(got.len() < values.len() + 8);
            prop_assert_eq!(&got[..values.len()], &values.iter().map(|v| u64::from(*v)).collect::<Vec<_>>()[..]);
        }

        #[test]
        fn differences_read_back(values in prop::collection::vec(prop_oneof![any::<i64>(), -9i64..9], 0..300)) {
            let mut bytes = Vec::new();
            delta_packed::<false>(&values, &mut bytes);
            let mut r = Reader(&bytes);
            prop_assert_eq!((r.varint(), r.varint(), r.varint()), (128, 4, values.len() as u64));
            let mut got = vec![r.zigzag()];
            while got.len() < values.len() {
                let least = r.zigzag();
                let widths = r.0[..4].to_vec();
                r.0 = &r.0[4..];
                for w in widths {
                    if got.len() < values.len() {
                        for d in r.packed(32, usize::from(w)) {
                            got.push(got[got.len() - 1].wrapping_add(least).wrapping_add(d as i64));
                        }
                    }
                }
            }
            got.truncate(values.len());
            prop_assert_eq!(got, values);
            prop_assert!(r.0.is_empty());
        }
    }

    #[test]
    fn differences_of_32_bits_wrap() {
        let values = [0i64, i64::from(u32::MAX), 0, 1 << 31];
        let mut bytes = Vec::new();
        delta_packed::<true>(&values, &mut bytes);
        let mut r = Reader(&bytes);
        assert_eq!((r.varint(), r.varint(), r.varint(), r.zigzag()), (128, 4, 4, 0));
        let least = r.zigzag();
        let width = usize::from(r.0[0]);
        r.0 = &r.0[4..];
        let mut got = vec![0u32];
        for d in r.packed(32, width).into_iter().take(3) {
            got.push(got[got.len() - 1].wrapping_add(least as u32).wrapping_add(d as u32));
        }
        assert_eq!(got.iter().map(|v| i64::from(*v)).collect::<Vec<_>>(), values);
    }
}
