//! A mapped set as tables.

use crate::analysis::kept::KeptPart;
use crate::analysis::registry::ANALYSES;
use crate::error::ReadError;
use crate::health::Health;
use crate::partial::state::{INVENTORY, PART, SET, spec_of};
use crate::partial::tables::{
    ContentRow, Contents, FileRow, Files, MappedRankRow, MappedRanks, PartialRow, Partials, Tallies, TallyRow,
};
use crate::run::{Done, MappedSet};
use crate::table::schema::{Batch, TableSpec};
use arrow::array::RecordBatch;
use std::collections::BTreeMap;
use std::io;

/// Batches of one table with their ranks.
pub struct Shelf {
    pub of: &'static str,
    pub spec: &'static TableSpec,
    pub batches: Vec<(u32, RecordBatch)>,
}

/// All tables of a set, by what they belong to and name.
///
/// # Errors
/// A partial with a table that its analysis does not declare.
pub fn shelves(set: &MappedSet) -> io::Result<Vec<Shelf>> {
    let mut shelves = Shelves::default();
    shelves.put(SET, 0, files(set))?;
    for d in &set.ranks {
        shelves.put(SET, d.rank, rank(d))?;
        shelves.put(SET, d.rank, health(&d.health))?;
        let (mut partials, mut contents) = (Partials::default(), Contents::default());
        let own = ANALYSES.iter().map(|a| a.stem()).zip(&d.partials);
        for (of, kept) in std::iter::once((INVENTORY, &d.inventory)).chain(own) {
            let p = kept.open();
            let table_count = p.tables.len() as u32;
            partials.push(PartialRow { analysis: of, own_rank: p.rank, reason: p.reason, table_count });
            for batch in &p.tables {
                shelves.content(&mut contents, of, d.rank, batch.clone())?;
            }
        }
        for batch in d.part.iter().flat_map(KeptPart::tables) {
            shelves.content(&mut contents, PART, d.rank, batch)?;
        }
        shelves.put(SET, d.rank, partials.finish())?;
        shelves.put(SET, d.rank, contents.finish())?;
    }
    Ok(shelves.0.into_values().collect())
}

#[derive(Default)]
struct Shelves(BTreeMap<(&'static str, &'static str), Shelf>);

impl Shelves {
    fn put(&mut self, of: &'static str, rank: u32, batch: Batch) -> io::Result<()> {
        let name = batch.spec.name;
        let known = spec_of(of, name);
        let (of, spec) =
            known.ok_or_else(|| io::Error::other(format!("`{of}` does not declare its table `{name}`")))?;
        if !batch.is_empty() {
            let shelf = self.0.entry((of, name)).or_insert_with(|| Shelf { of, spec, batches: Vec::new() });
            shelf.batches.push((rank, batch.rows));
        }
        Ok(())
    }

    fn content(&mut self, contents: &mut Contents, of: &'static str, rank: u32, batch: Batch) -> io::Result<()> {
        contents.push(ContentRow { analysis: of, table: batch.spec.name, row_count: batch.len() as u64 });
        self.put(of, rank, batch)
    }
}

fn rank(d: &Done) -> Batch {
    let mut table = MappedRanks::default();
    table.push(MappedRankRow {
        rank: d.rank,
        rank_source: d.source.name(),
        file: &d.file,
        time_era: d.era.name(),
        base_ns: d.base,
        world_size: d.world,
        unpacked_bytes: d.unpacked,
        defect_count: d.health.iter().count() as u32,
        has_part: d.part.is_some(),
    });
    table.finish()
}

fn health(health: &Health) -> Batch {
    let mut table = Tallies::default();
    for (counter, tally) in health.iter() {
        let (first_byte, example) = (tally.first_byte, tally.example.as_str());
        table.push(TallyRow { counter: counter.spec().name, count: tally.count, first_byte, example });
    }
    table.finish()
}

fn files(set: &MappedSet) -> Batch {
    let mut table = Files::default();
    let heads = set.claims.refused.iter().flatten().count();
    // behind those refused at their heads stand those of the tasks, in their order
    let mut late = set.refused.iter().skip(heads);
    let mut at_read: BTreeMap<usize, Option<&ReadError>> = BTreeMap::new();
    for t in &set.tasks {
        let is_mapped = set.ranks.binary_search_by_key(&t.rank, |d| d.rank).is_ok();
        at_read.insert(t.input, if is_mapped { None } else { late.next().map(|r| &r.error) });
    }
    let task_of: BTreeMap<usize, u32> = set.tasks.iter().map(|t| (t.input, t.rank)).collect();
    for (i, input) in set.inputs.iter().enumerate() {
        let head = set.claims.refused.get(i).and_then(Option::as_ref);
        let (state, error) = match (head, at_read.get(&i)) {
            (Some(e), _) => ("refused_at_head", Some(e)),
            (None, Some(Some(e))) => ("refused", Some(*e)),
            (None, Some(None)) => ("mapped", None),
            (None, None) => ("left_out", None),
        };
        let (kind, text, hint, byte) = error.map_or((None, None, None, None), error_parts);
        let limit = if let Some(ReadError::TooLarge { limit, .. }) = error { Some(limit) } else { None };
        let name = input.path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        table.push(FileRow {
            file: &input.shown,
            name: &name,
            is_named: input.named,
            claim: set.claims.ranks.get(i).copied().flatten(),
            state,
            rank: if state == "mapped" { task_of.get(&i).copied() } else { None },
            error: kind,
            error_text: text.as_deref(),
            error_hint: hint,
            error_byte: byte,
            error_limit: limit.map(|l| l.bytes),
            error_limit_given: limit.map(|l| l.given),
        });
    }
    table.finish()
}

type ErrorParts = (Option<&'static str>, Option<String>, Option<&'static str>, Option<u64>);

/// Kind, text, hint and byte; the counters of a file without events are not shown anywhere.
fn error_parts(error: &ReadError) -> ErrorParts {
    match error {
        ReadError::Io { source, .. } => (Some("io"), Some(source.to_string()), None, None),
        ReadError::Empty { .. } => (Some("empty"), None, None, None),
        ReadError::NotATrace { what, hint, is_known, .. } => {
            let kind = if *is_known { "other_format" } else { "not_a_trace" };
            (Some(kind), Some((*what).to_string()), Some(hint), None)
        }
        ReadError::UnknownContent { what, .. } => (Some("unknown_content"), Some(what.clone()), None, None),
        ReadError::Damaged { reason, .. } => (Some("damaged"), Some(reason.clone()), None, None),
        ReadError::Cut { .. } => (Some("cut"), None, None, None),
        ReadError::NoEvents { .. } => (Some("no_events"), None, None, None),
        ReadError::TooLarge { needs, .. } => (Some("too_large"), None, None, *needs),
        ReadError::Interleaved { byte, .. } => (Some("interleaved"), None, None, Some(*byte)),
    }
}
