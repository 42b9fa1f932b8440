//! Replays a pipeline in its recorded order with chunks of given lengths.
//!
//! ```text
//!   F(s-1,b) -> F(s,b) -> B(s,b)        a chunk starts when its rank is done with the chunk before
//!               B(s+1,b) -> B(s,b)      and its inputs are there; I and B give gradients, I comes before W
//! ```

use crate::pipeline::ordered::{ChunkKey, OrderedChunk};
use hta_base::units::Ns;
use hta_facts::chunks::ChunkKind;
use std::collections::BTreeMap;

/// Place of a chunk: position of its rank, and index in the rank's order.
pub(crate) type ChunkPlace = (usize, usize);

/// The orders of all ranks, with the inputs of every chunk.
#[derive(Debug, Clone)]
pub(crate) struct OrderGraph {
    /// By rank and chunk: where its inputs come from.
    inputs: Vec<Vec<Vec<ChunkPlace>>>,
    /// All chunks so that inputs and the chunk before on the rank come first.
    sequence: Vec<ChunkPlace>,
}

/// The chunks that a chunk needs.
fn needs(key: ChunkKey) -> Vec<ChunkKey> {
    let at = |kind, stage| ChunkKey { kind, stage, batch: key.batch };
    match key.kind {
        ChunkKind::Forward => {
            key.stage.checked_sub(1).map(|before| at(ChunkKind::Forward, before)).into_iter().collect()
        }
        ChunkKind::Backward | ChunkKind::Input => vec![
            at(ChunkKind::Forward, key.stage),
            at(ChunkKind::Backward, key.stage + 1),
            at(ChunkKind::Input, key.stage + 1),
        ],
        // A first stage may have no gradients of inputs: then it waits for those behind it itself.
        ChunkKind::Weight => vec![
            at(ChunkKind::Input, key.stage),
            at(ChunkKind::Forward, key.stage),
            at(ChunkKind::Backward, key.stage + 1),
            at(ChunkKind::Input, key.stage + 1),
        ],
    }
}

impl OrderGraph {
    /// `None` if the orders wait for each other in a circle.
    pub(crate) fn of(orders: &[Vec<OrderedChunk>]) -> Option<Self> {
        let mut place_of: BTreeMap<ChunkKey, ChunkPlace> = BTreeMap::new();
        for (r, order) in orders.iter().enumerate() {
            for (i, chunk) in order.iter().enumerate() {
                chunk.keys().for_each(|key| {
                    place_of.insert(key, (r, i));
                });
            }
        }
        let inputs_of = |place: ChunkPlace, chunk: &OrderedChunk| {
            let found = chunk.keys().flat_map(needs).filter_map(|key| place_of.get(&key).copied());
            let mut found: Vec<ChunkPlace> = found.filter(|from| *from != place).collect();
            found.sort_unstable();
            found.dedup();
            found
        };
        let of_rank = |(r, order): (usize, &Vec<OrderedChunk>)| {
            order.iter().enumerate().map(|(i, chunk)| inputs_of((r, i), chunk)).collect()
        };
        let inputs: Vec<Vec<Vec<ChunkPlace>>> = orders.iter().enumerate().map(of_rank).collect();
        let sequence = sequence(&inputs)?;
        Some(Self { inputs, sequence })
    }

    /// Where the inputs of a chunk come from.
    pub(crate) fn inputs(&self, (rank, chunk): ChunkPlace) -> &[ChunkPlace] {
        self.inputs.get(rank).and_then(|r| r.get(chunk)).map_or(&[], Vec::as_slice)
    }

    /// The time from the first start to the last end, ns. `length` gives that of a chunk, `transfer` how long
    /// its result is under way to another, or holds up the next chunk of its own rank.
    pub(crate) fn time(
        &self,
        length: impl Fn(ChunkPlace) -> Ns,
        transfer: impl Fn(ChunkPlace, ChunkPlace) -> Ns,
    ) -> Ns {
        self.ends(length, transfer).into_iter().flatten().max().unwrap_or(0)
    }

    /// The end of every chunk, ns after the first start.
    pub(crate) fn ends(
        &self,
        length: impl Fn(ChunkPlace) -> Ns,
        transfer: impl Fn(ChunkPlace, ChunkPlace) -> Ns,
    ) -> Vec<Vec<Ns>> {
        let mut ends: Vec<Vec<Ns>> = self.inputs.iter().map(|r| vec![0; r.len()]).collect();
        for &place in &self.sequence {
            let end =
                |(rank, chunk): ChunkPlace| ends.get(rank).and_then(|r| r.get(chunk)).copied().unwrap_or(0);
            let before = place.1.checked_sub(1).map(|i| (place.0, i));
            let before = before.map_or(0, |from| end(from) + transfer(from, place));
            let arrived = self.inputs(place).iter().map(|from| end(*from) + transfer(*from, place)).max();
            let own = before.max(arrived.unwrap_or(0)) + length(place);
            if let Some(end) = ends.get_mut(place.0).and_then(|r| r.get_mut(place.1)) {
                *end = own;
            }
        }
        ends
    }
}

/// Chunks so that what each needs comes before it; `None` if there is a circle.
fn sequence(inputs: &[Vec<Vec<ChunkPlace>>]) -> Option<Vec<ChunkPlace>> {
    let total: usize = inputs.iter().map(Vec::len).sum();
    let mut next = vec![0; inputs.len()];
    let mut out: Vec<ChunkPlace> = Vec::with_capacity(total);
    while out.len() < total {
        let known = out.len();
        for (r, of_rank) in inputs.iter().enumerate() {
            while let Some(needed) = next.get(r).and_then(|i| of_rank.get(*i)) {
                let is_done = |(rank, chunk): &ChunkPlace| next.get(*rank).is_some_and(|n| chunk < n);
                if !needed.iter().all(is_done) {
                    break;
                }
                out.extend(next.get(r).map(|i| (r, *i)));
                next.iter_mut().skip(r).take(1).for_each(|n| *n += 1);
            }
        }
        if out.len() == known {
            return None;
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests;
