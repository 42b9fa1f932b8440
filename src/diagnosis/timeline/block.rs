//! Blocks: stretches of a device's time that follow one another without a gap, and their merging to a bounded
//! number.
//!
//! ```text
//!   pieces    |CCC|.|CC|.|KKKKKKKKKKK|C|.|C|..........|
//!   blocks    |C: 5, idle: 2|K       |C: 2, idle: 1|.  |      short neighbours share a block, long ones stand alone
//! ```
//!
//! A block knows how much of it each part takes, so sums over blocks are those over pieces, to the
//! nanosecond.

use hta_base::units::Ns;

/// What a moment of a device is, as in the breakdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockPart {
    /// Some compute runs.
    Compute,
    /// Communication runs, and no compute.
    Communication,
    /// Only copies and sets run.
    Memory,
    Idle,
    /// A fused kernel runs, and no compute.
    Fused,
}

/// Number of parts.
const PARTS: usize = 5;

impl BlockPart {
    pub(crate) const ALL: [BlockPart; PARTS] =
        [BlockPart::Compute, BlockPart::Communication, BlockPart::Memory, BlockPart::Idle, BlockPart::Fused];

    pub(crate) fn name(self) -> &'static str {
        match self {
            BlockPart::Compute => "compute",
            BlockPart::Communication => "communication",
            BlockPart::Memory => "memory",
            BlockPart::Idle => "idle",
            BlockPart::Fused => "fused",
        }
    }

    pub fn named(name: &str) -> Option<BlockPart> {
        Self::ALL.into_iter().find(|p| p.name() == name)
    }
}

/// One or more pieces of a device's time that follow one another. `L` says what a piece is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimelineBlock<L> {
    pub start: Ns,
    /// Time by part, in the order of [`BlockPart::ALL`]; its sum is the block's length, ns.
    pub times: [Ns; PARTS],
    /// Number of pieces.
    pub count: u32,
    /// Length, part and label of its longest piece; of equal ones the first.
    pub longest: (Ns, BlockPart, L),
}

impl<L: Copy> TimelineBlock<L> {
    /// A block of one piece.
    pub(crate) fn of_piece(start: Ns, len: Ns, part: BlockPart, label: L) -> Self {
        let mut times = [0; PARTS];
        times[part as usize] = len;
        Self { start, times, count: 1, longest: (len, part, label) }
    }

    /// Length, ns.
    pub fn duration(&self) -> Ns {
        self.times.iter().sum()
    }

    /// Adds the block that follows.
    fn join(&mut self, next: &Self) {
        self.times.iter_mut().zip(next.times).for_each(|(own, more)| *own += more);
        self.count = self.count.saturating_add(next.count);
        if next.longest.0 > self.longest.0 {
            self.longest = next.longest;
        }
    }
}

/// Merges neighbours until there are at most `most` blocks (at least one). The resolution, below which
/// neighbours share a block, is doubled until that is so. The blocks are asked for twice, because there may
/// be far more than remain.
pub fn merge<L: Copy>(
    blocks: impl Iterator<Item = TimelineBlock<L>> + Clone,
    most: usize,
) -> Vec<TimelineBlock<L>> {
    let most = most.max(1);
    let (count, whole) = blocks.clone().fold((0, 0), |(count, sum), b| (count + 1, sum + b.duration()));
    if count <= most {
        return blocks.collect();
    }
    let mut least: Ns = (whole / (4 * most as Ns)).max(1);
    let mut merged = joined(blocks, least);
    while merged.len() > most {
        least = least.saturating_mul(2);
        merged = joined(merged.into_iter(), least);
    }
    merged
}

/// Joins neighbours that are both shorter than `least`.
fn joined<L: Copy>(blocks: impl Iterator<Item = TimelineBlock<L>>, least: Ns) -> Vec<TimelineBlock<L>> {
    let mut joined: Vec<TimelineBlock<L>> = Vec::new();
    for block in blocks {
        match joined.last_mut() {
            Some(last) if last.duration() < least && block.duration() < least => last.join(&block),
            _ => joined.push(block),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Blocks of one piece each, from 0 on, labelled by their position.
    fn line(pieces: &[(Ns, usize)]) -> Vec<TimelineBlock<usize>> {
        let mut at = 0;
        let mut out = Vec::new();
        for (i, (len, part)) in pieces.iter().enumerate() {
            out.push(TimelineBlock::of_piece(at, *len, BlockPart::ALL[*part], i));
            at += len;
        }
        out
    }

    #[test]
    fn the_short_pieces_of_the_picture_share_a_block() {
        let pieces = [(3, 0), (1, 3), (2, 0), (1, 3), (11, 1), (1, 0), (1, 3), (1, 0), (10, 3)];
        let got = merge(line(&pieces).into_iter(), 4);
        let shown: Vec<_> = got.iter().map(|b| (b.start, b.times, b.count, b.longest.2)).collect();
        let want = [
            (0, [5, 0, 0, 2, 0], 4, 0),
            (7, [0, 11, 0, 0, 0], 1, 4),
            (18, [2, 0, 0, 1, 0], 3, 5),
            (21, [0, 0, 0, 10, 0], 1, 8),
        ];
        assert_eq!(shown, want);
    }

    proptest! {
        #[test]
        fn merging_keeps_sums_order_and_the_bound(
            pieces in prop::collection::vec((1i64..1000, 0usize..4), 0..80),
            most in 0usize..40,
        ) {
            let blocks = line(&pieces);
            let merged = merge(blocks.iter().copied(), most);
            prop_assert!(merged.len() <= most.max(1));
            for part in 0..4 {
                let sum = |of: &[TimelineBlock<usize>]| of.iter().map(|b| b.times[part]).sum::<Ns>();
                prop_assert_eq!(sum(&merged), sum(&blocks));
            }
            prop_assert_eq!(merged.iter().map(|b| b.count as usize).sum::<usize>(), pieces.len());
            let mut at = 0;
            for b in &merged {
                prop_assert_eq!(b.start, at);
                at += b.duration();
                let (len, part, place) = b.longest;
                prop_assert_eq!((len, part as usize), pieces[place]);
            }
            if pieces.len() <= most {
                prop_assert_eq!(merged, blocks);
            }
        }
    }
}
