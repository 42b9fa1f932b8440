//! What is kept of a rank until all are there: its partials, packed where there are many ranks.

use super::api::Partial;
use crate::model::packed::Packed;
use crate::model::schema::Batch;

/// Ranks from which partials are packed: packing pays by the rank, and a few ranks are small anyway.
const MANY: usize = 16;

/// A partial at rest.
#[derive(Debug, Clone)]
pub struct Kept {
    pub rank: u32,
    reason: Option<&'static str>,
    tables: Tables,
}

#[derive(Debug, Clone)]
enum Tables {
    Open(Vec<Batch>),
    Packed(Packed),
}

impl Kept {
    /// Keeps the partial of one of so many ranks.
    pub fn new(partial: Partial, ranks: usize) -> Self {
        let tables =
            if ranks < MANY { Tables::Open(partial.tables) } else { Tables::Packed(Packed::new(&partial.tables)) };
        Self { rank: partial.rank, reason: partial.reason, tables }
    }

    /// Memory that it takes, bytes.
    pub fn bytes(&self) -> u64 {
        match &self.tables {
            Tables::Open(tables) => tables.iter().map(Batch::held_bytes).sum(),
            Tables::Packed(packed) => packed.size() as u64,
        }
    }

    /// The partial as it was.
    pub fn open(&self) -> Partial {
        let tables = match &self.tables {
            Tables::Open(tables) => tables.clone(),
            Tables::Packed(packed) => packed.open(),
        };
        Partial { rank: self.rank, tables, reason: self.reason }
    }
}
