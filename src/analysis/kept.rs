//! What is kept of a rank until all are there: its partials and its part, packed where there are many ranks.

use crate::analysis::api::Partial;
use crate::job::Part;
use crate::table::packed::{Place, Store};
use crate::table::schema::Batch;
use std::sync::Arc;

/// Ranks from which partials are packed: packing pays by the rank, and a few ranks are small anyway.
const MANY: usize = 16;

/// Where partials are kept: a store for the inventory, for the parts and for each analysis, so that each can be opened
/// and dropped by itself.
pub struct Keeper(Option<Vec<Arc<Store>>>);

impl Keeper {
    const INVENTORY: usize = 0;
    const PART: usize = 1;
    const ANALYSES: usize = 2;

    /// A place for so many ranks and analyses.
    pub fn new(ranks: usize, analyses: usize) -> Self {
        let stores = || std::iter::repeat_with(Arc::default).take(Self::ANALYSES + analyses);
        Self((ranks >= MANY).then(|| stores().collect()))
    }

    fn keep(&self, store: usize, partial: Partial) -> Kept {
        let Partial { rank, tables, reason } = partial;
        let tables = match self.0.as_ref().and_then(|s| s.get(store)) {
            Some(store) => Tables::Packed(Arc::clone(store), store.put(&tables)),
            None => Tables::Open(tables),
        };
        Kept { rank, reason, tables }
    }

    /// Keeps a rank's partial of the inventory.
    pub fn inventory(&self, partial: Partial) -> Kept {
        self.keep(Self::INVENTORY, partial)
    }

    /// Keeps a rank's partial of the analysis at a position.
    pub fn analysis(&self, position: usize, partial: Partial) -> Kept {
        self.keep(Self::ANALYSES + position, partial)
    }

    /// Keeps a rank's part.
    pub fn part(&self, part: Part) -> KeptPart {
        match &self.0 {
            Some(_) => {
                let partial = Partial { rank: part.rank, tables: part.tables(), reason: None };
                drop(part);
                KeptPart::Packed(self.keep(Self::PART, partial))
            }
            None => KeptPart::Open(Box::new(part)),
        }
    }
}

/// A partial at rest.
#[derive(Debug)]
pub struct Kept {
    pub rank: u32,
    reason: Option<&'static str>,
    tables: Tables,
}

#[derive(Debug)]
enum Tables {
    Open(Vec<Batch>),
    Packed(Arc<Store>, Place),
}

impl Kept {
    /// Memory that it takes, bytes: no less, and no more than without compression.
    pub fn bytes(&self) -> u64 {
        match &self.tables {
            Tables::Open(tables) => tables.iter().map(Batch::held_bytes).sum(),
            Tables::Packed(_, place) => place.bytes() as u64,
        }
    }

    fn store(&self) -> Option<(&Arc<Store>, Place)> {
        match &self.tables {
            Tables::Open(_) => None,
            Tables::Packed(store, place) => Some((store, *place)),
        }
    }

    fn tables(&self) -> Vec<Batch> {
        match &self.tables {
            Tables::Open(tables) => tables.clone(),
            Tables::Packed(store, place) => store.open(&[*place]).into_iter().flatten().collect(),
        }
    }

    /// The partial as it was.
    pub fn open(&self) -> Partial {
        Partial { rank: self.rank, tables: self.tables(), reason: self.reason }
    }

    /// Partials of one analysis as they were, and nothing of how they were kept.
    pub fn open_all(kept: Vec<Kept>) -> Vec<Partial> {
        let mut out = Vec::with_capacity(kept.len());
        for same in
            kept.chunk_by(|a, b| a.store().map(|(s, _)| Arc::as_ptr(s)) == b.store().map(|(s, _)| Arc::as_ptr(s)))
        {
            let Some((store, _)) = same.first().and_then(Kept::store) else {
                out.extend(same.iter().map(Kept::open));
                continue;
            };
            let places: Vec<Place> = same.iter().filter_map(Kept::store).map(|(_, place)| place).collect();
            let opened = same.iter().zip(store.open(&places));
            out.extend(opened.map(|(k, tables)| Partial { rank: k.rank, tables, reason: k.reason }));
        }
        out
    }
}

/// A part at rest.
pub enum KeptPart {
    Open(Box<Part>),
    Packed(Kept),
}

impl KeptPart {
    /// The part as it was.
    pub fn open(self) -> Part {
        match self {
            Self::Open(part) => *part,
            Self::Packed(kept) => Part::from_tables(&kept.tables()).expect("the tables of a part are those of a part"),
        }
    }

    /// The part as tables, those of its declaration in their order.
    pub fn tables(&self) -> Vec<Batch> {
        match self {
            Self::Open(part) => part.tables(),
            Self::Packed(kept) => kept.tables(),
        }
    }
}
