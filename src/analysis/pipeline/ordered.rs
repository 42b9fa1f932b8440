//! The chunks of a schedule, the shape of a pipeline, and the places of chunks in interleaved schedules.

use hta_facts::chunks::ChunkKind;

/// One chunk of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ChunkKey {
    pub(crate) kind: ChunkKind,
    pub(crate) stage: u32,
    pub(crate) batch: u32,
}

impl ChunkKey {
    pub(crate) fn new(kind: ChunkKind, stage: u32, batch: u32) -> Self {
        Self { kind, stage, batch }
    }

    /// As people write it: `2F5`.
    pub(crate) fn shown(self) -> String {
        format!("{}{}{}", self.stage, self.kind.letter(), self.batch)
    }
}

/// What a rank does at one place of its order: one chunk, or a forward and a backward chunk at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct OrderedChunk {
    pub(crate) first: ChunkKey,
    pub(crate) with: Option<ChunkKey>,
}

impl OrderedChunk {
    pub(crate) fn of(kind: ChunkKind, stage: u32, batch: u32) -> Self {
        Self { first: ChunkKey::new(kind, stage, batch), with: None }
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = ChunkKey> {
        std::iter::once(self.first).chain(self.with)
    }

    pub(crate) fn has(&self, holds: impl Fn(ChunkKind) -> bool) -> bool {
        self.keys().any(|k| holds(k.kind))
    }

    /// As people write it: `2F5`, or `0F7+7B3`.
    pub(crate) fn shown(&self) -> String {
        self.keys().map(ChunkKey::shown).collect::<Vec<_>>().join("+")
    }
}

/// Ranks, stages of a rank, and micro-batches of a pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PipelineShape {
    pub(crate) p: u32,
    pub(crate) v: u32,
    pub(crate) m: u32,
}

impl PipelineShape {
    /// Micro-batches of a round of an interleaved schedule: torch and Megatron go through `p` at a time, or
    /// as close to it as divides `m`.
    pub(crate) fn round(self) -> Option<u32> {
        let rounds = (self.m / self.p.max(1)).max(1);
        self.m.is_multiple_of(rounds).then_some(self.m / rounds)
    }
}

/// The k-th forward and backward chunk of a rank in an interleaved schedule, by rounds of micro-batches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InterleavedPlaces {
    pub(crate) shape: PipelineShape,
    pub(crate) position: u32,
    pub(crate) round: u32,
}

impl InterleavedPlaces {
    pub(crate) fn of(shape: PipelineShape, position: u32) -> Option<Self> {
        Some(Self { shape, position, round: shape.round()? })
    }

    /// Chunks of each direction.
    pub(crate) fn total(&self) -> u32 {
        self.shape.v * self.shape.m
    }

    pub(crate) fn forward(&self, k: u32) -> ChunkKey {
        self.key(ChunkKind::Forward, k, (k / self.round) % self.shape.v)
    }

    pub(crate) fn backward(&self, kind: ChunkKind, k: u32) -> ChunkKey {
        self.key(kind, k, self.shape.v - 1 - (k / self.round) % self.shape.v)
    }

    /// Forward chunks before the first backward one, where each hop to the last stage adds `hop`.
    pub(crate) fn warm_up(&self, hop: u32) -> u32 {
        let last = (self.shape.v - 1) * self.round;
        (last + hop * (self.shape.p - 1 - self.position)).min(self.total())
    }

    fn key(&self, kind: ChunkKind, k: u32, local: u32) -> ChunkKey {
        let of_round = self.round * self.shape.v;
        let batch = (k / of_round) * self.round + k % self.round;
        ChunkKey::new(kind, local * self.shape.p + self.position, batch)
    }
}
