//! The partials of all ranks, table by table.
//!
//! ```text
//!   table    rows of rank 0, rank 3, rank 1 | of rank 2 ...      in the order in which ranks finish
//!            piece in the spool file          batches in memory
//! ```
//!
//! Each partial knows which rows of each table are its own. When the rows in memory take too much memory, all
//! of them are spooled together. Each table becomes one more piece, so an analysis can be read back without
//! the others. The file has no name, so a killed run leaves no file behind.

use crate::store::state_table::{RankRows, StateTable, bytes, read};
use arrow_array::{Array, RecordBatch};
use arrow_schema::ArrowError;
use arrow_select::concat::concat_batches;
use hta_analysis::api::Partial;
use hta_base::table::schema::{Batch, TableSpec};
use hta_job::RankSummary;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Owners of tables that belong to no analysis.
pub const INVENTORY: &str = "inventory";
pub const PART: &str = "part";

/// Batches below this size, bytes, are concatenated, because an Arrow column takes some hundred bytes before
/// its first value.
const SMALL: usize = 64 << 10;
/// Number of small batches that are concatenated at a time.
const TOGETHER: usize = 8;

/// Memory of a column without its values, bytes.
const COLUMN_BYTES: usize = 256;

/// Where and when partials are spooled.
#[derive(Debug, Clone)]
pub struct Spool {
    /// Folder of the file.
    pub folder: PathBuf,
    /// Size of the rows in memory above which they are spooled, bytes.
    pub above: usize,
}

impl Spool {
    /// Spools into a folder above 8 MiB. Most jobs then stay in memory, and with many ranks each rank adds
    /// little to it.
    pub(crate) fn into_folder(folder: PathBuf) -> Self {
        Self { folder, above: 8 << 20 }
    }
}

impl Default for Spool {
    fn default() -> Self {
        Self::into_folder(std::env::temp_dir())
    }
}

/// Keeps partials until they are reduced.
#[derive(Debug)]
pub struct PartialStore {
    spool: Spool,
    inner: Mutex<Inner>,
}

/// What a table belongs to, and its name.
type StoredTable = (&'static str, &'static str);

#[derive(Debug, Default)]
struct Inner {
    tables: BTreeMap<StoredTable, StoreTable>,
    /// Memory of all rows that are not spooled, bytes.
    held_bytes: usize,
    file: Option<File>,
    /// Length of the file, bytes.
    end: u64,
}

#[derive(Debug)]
struct StoreTable {
    spec: &'static TableSpec,
    row_count: usize,
    spooled: Vec<SpooledPiece>,
    held: Vec<HeldRows>,
}

/// Rows in the file.
#[derive(Debug, Clone)]
struct SpooledPiece {
    /// Range of rows of the table.
    rows: Range<usize>,
    start: u64,
    length: usize,
}

/// Rows in memory.
#[derive(Debug)]
struct HeldRows {
    /// Range of rows of the table.
    rows: Range<usize>,
    /// Rank of each row.
    ranks: Vec<u32>,
    batch: RecordBatch,
    bytes: usize,
}

/// A table whose rows are handed out.
struct OpenedTable {
    /// Each with the index of its first row.
    chunks: Vec<(usize, Batch)>,
    /// For all partials without rows, because the columns of an empty batch take as much as those of one row.
    none: Batch,
}

/// The rows of a table that belong to a partial.
#[derive(Debug, Clone, Copy)]
pub struct StoredRows {
    pub(crate) spec: &'static TableSpec,
    pub(crate) first_row: usize,
    pub(crate) row_count: usize,
}

/// A partial that is in a store.
#[derive(Debug, Default)]
pub struct StoredPartial {
    /// Stem of its analysis, or [`INVENTORY`] or [`PART`].
    pub(crate) of: &'static str,
    pub(crate) rank: u32,
    pub(crate) reason: Option<&'static str>,
    pub(crate) tables: Box<[StoredRows]>,
}

impl PartialStore {
    pub fn new(spool: Spool) -> Self {
        Self { spool, inner: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Ignore the poisoning: a thread that panicked has ended the run anyway.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Memory of the rows that are not spooled, bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.lock().held_bytes
    }

    /// Adds the partial of an analysis for one rank.
    ///
    /// # Errors
    /// When rows cannot be spooled.
    pub(crate) fn put(&self, of: &'static str, partial: Partial) -> io::Result<StoredPartial> {
        let Partial { rank, tables, reason } = partial;
        let counts: Vec<(&'static TableSpec, usize)> = tables.iter().map(|b| (b.spec, b.len())).collect();
        let tables = tables.into_iter().map(|batch| {
            let ranks = vec![rank; batch.len()];
            StateTable { of, spec: batch.spec, ranks, rows: batch.rows() }
        });
        let first_rows = self.add(tables)?;
        let place = |((spec, row_count), first_row)| StoredRows { spec, first_row, row_count };
        let tables = counts.into_iter().zip(first_rows).map(place).collect();
        Ok(StoredPartial { of, rank, reason, tables })
    }

    /// Adds a rank's part.
    ///
    /// # Errors
    /// When rows cannot be spooled.
    pub(crate) fn put_part(&self, part: RankSummary) -> io::Result<StoredPartial> {
        let partial = Partial { rank: part.rank, tables: part.tables(), reason: None };
        drop(part);
        self.put(PART, partial)
    }

    /// Adds rows to tables, and then spools all rows if they take too much memory. Returns the index of the
    /// first added row for each table.
    ///
    /// # Errors
    /// When rows cannot be spooled.
    pub(crate) fn add(&self, tables: impl IntoIterator<Item = StateTable>) -> io::Result<Vec<usize>> {
        let mut inner = self.lock();
        let first_rows =
            tables.into_iter().map(|t| inner.add(t)).collect::<Result<_, _>>().map_err(io::Error::other)?;
        if inner.held_bytes > self.spool.above {
            inner.spool(&self.spool)?;
        }
        Ok(first_rows)
    }

    /// Returns copies of partials as they were added.
    ///
    /// # Errors
    /// When spooled rows cannot be read back.
    pub fn open(&self, partials: &[&StoredPartial]) -> io::Result<Vec<Partial>> {
        let mut wanted: BTreeMap<StoredTable, (&'static TableSpec, Range<usize>)> = BTreeMap::new();
        for (p, place) in partials.iter().flat_map(|p| p.tables.iter().map(move |place| (p, place))) {
            let rows = place.rows();
            let (_, all) = wanted.entry(p.key(place)).or_insert_with(|| (place.spec, rows.clone()));
            *all = all.start.min(rows.start)..all.end.max(rows.end);
        }
        let read = |(key, (spec, rows)): (StoredTable, (&'static TableSpec, Range<usize>))| {
            let none = Batch::new(spec, RecordBatch::new_empty(spec.schema()));
            let chunks = self.chunks(key, &rows)?.into_iter();
            let chunks = chunks.map(|(first_row, rows)| (first_row, Batch::new(spec, rows))).collect();
            Ok((key, OpenedTable { chunks, none }))
        };
        let opened = wanted.into_iter().map(read).collect::<io::Result<BTreeMap<_, _>>>()?;
        let open = |p: &StoredPartial| {
            let table = |place: &StoredRows| {
                opened.get(&p.key(place)).map_or_else(|| Err(place.gone()), |t| place.of(t))
            };
            let tables = p.tables.iter().map(table).collect::<io::Result<_>>()?;
            Ok(Partial { rank: p.rank, tables, reason: p.reason })
        };
        partials.iter().copied().map(open).collect()
    }

    /// Returns all partials of an analysis as they were added, and removes them from the store.
    ///
    /// # Errors
    /// When spooled rows cannot be read back.
    pub(crate) fn take(&self, partials: Vec<StoredPartial>) -> io::Result<Vec<Partial>> {
        let partials: Vec<&StoredPartial> = partials.iter().collect();
        let opened = self.open(&partials)?;
        self.forget(&partials);
        Ok(opened)
    }

    /// Returns the parts of all ranks as they were added, and removes them from the store.
    ///
    /// # Errors
    /// When spooled rows cannot be read back.
    pub(crate) fn take_parts(&self, parts: Vec<StoredPartial>) -> io::Result<Vec<RankSummary>> {
        let mut opened = Vec::with_capacity(parts.len());
        let mut stored: Vec<_> =
            parts.into_iter().enumerate().map(|(i, partial)| (i, self.piece_of(&partial), partial)).collect();
        // Open the parts piece by piece, so that the tables of one piece are freed before the next is read.
        stored.sort_by_key(|(_, piece, _)| *piece);
        for same in stored.chunk_by(|a, b| a.1 == b.1) {
            let partials: Vec<&StoredPartial> = same.iter().map(|(_, _, partial)| partial).collect();
            for ((i, ..), partial) in same.iter().zip(self.open(&partials)?) {
                opened.push((*i, RankSummary::from_tables(&partial.tables).map_err(io::Error::other)?));
            }
        }
        self.forget(&stored.iter().map(|(_, _, partial)| partial).collect::<Vec<_>>());
        opened.sort_by_key(|(i, _)| *i);
        Ok(opened.into_iter().map(|(_, part)| part).collect())
    }

    /// Index of the piece that contains a partial, judged by its first table.
    fn piece_of(&self, partial: &StoredPartial) -> usize {
        let inner = self.lock();
        let first = partial.tables.first();
        let table = first.and_then(|place| Some((place, inner.tables.get(&partial.key(place))?)));
        table.map_or(0, |(place, t)| t.spooled.partition_point(|piece| piece.rows.end <= place.first_row))
    }

    fn forget(&self, partials: &[&StoredPartial]) {
        let mut inner = self.lock();
        for key in partials.iter().flat_map(|p| p.tables.iter().map(|place| p.key(place))) {
            let freed = inner.tables.remove(&key).map_or(0, |t| t.held_bytes());
            inner.held_bytes -= freed;
        }
    }

    /// The chunks of a table that overlap a range of rows, each with the index of its first row.
    fn chunks(&self, key: StoredTable, wanted: &Range<usize>) -> io::Result<Vec<(usize, RecordBatch)>> {
        let overlaps = |rows: &Range<usize>| rows.start < wanted.end && wanted.start < rows.end;
        let (spec, pieces, held) = {
            let inner = self.lock();
            let Some(table) = inner.tables.get(&key) else { return Ok(Vec::new()) };
            let pieces: Vec<SpooledPiece> =
                table.spooled.iter().filter(|p| overlaps(&p.rows)).cloned().collect();
            let held =
                table.held.iter().filter(|h| overlaps(&h.rows)).map(|h| (h.rows.start, h.batch.clone()));
            (table.spec, pieces, held.collect::<Vec<_>>())
        };
        let mut chunks = Vec::with_capacity(pieces.len() + held.len());
        for piece in pieces {
            let bytes = self.lock().read(&piece)?;
            // Decode without the lock, so that other threads do not wait.
            let table = read(bytes, &|_, _| Some((key.0, spec))).map_err(io::Error::other)?;
            chunks.push((piece.rows.start, table.rows));
        }
        chunks.extend(held);
        Ok(chunks)
    }
}

impl StoredPartial {
    fn key(&self, place: &StoredRows) -> StoredTable {
        (self.of, place.spec.name)
    }
}

impl StoredRows {
    fn rows(&self) -> Range<usize> {
        self.first_row..self.first_row + self.row_count
    }

    /// The rows of this place. They are all in one of the chunks of the table.
    fn of(&self, table: &OpenedTable) -> io::Result<Batch> {
        if self.row_count == 0 {
            return Ok(table.none.clone());
        }
        let after = table.chunks.partition_point(|(first_row, _)| *first_row <= self.first_row);
        let chunk = after.checked_sub(1).and_then(|i| table.chunks.get(i));
        let whole = chunk.filter(|(first_row, rows)| self.rows().end - first_row <= rows.len());
        let (first_row, rows) = whole.ok_or_else(|| self.gone())?;
        Ok(rows.slice(self.first_row - first_row..self.rows().end - first_row))
    }

    fn gone(&self) -> io::Error {
        io::Error::other(format!("rows of `{}` are gone", self.spec.name))
    }
}

impl Inner {
    /// Adds rows to a table. Returns the index of the first one.
    fn add(&mut self, rows: StateTable) -> Result<usize, ArrowError> {
        let StateTable { of, spec, ranks, rows } = rows;
        let empty = || StoreTable { spec, row_count: 0, spooled: Vec::new(), held: Vec::new() };
        let table = self.tables.entry((of, spec.name)).or_insert_with(empty);
        let first_row = table.row_count;
        if !ranks.is_empty() {
            let before = table.held_bytes();
            table.push(ranks, rows)?;
            self.held_bytes = self.held_bytes - before + table.held_bytes();
        }
        Ok(first_row)
    }

    /// Moves all rows in memory to the file.
    fn spool(&mut self, spool: &Spool) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(tempfile::tempfile_in(&spool.folder)?),
        };
        file.seek(SeekFrom::Start(self.end))?;
        for ((of, _), table) in &mut self.tables {
            let held = std::mem::take(&mut table.held);
            let Some(first) = held.first().map(|h| h.rows.start) else { continue };
            let rows: Vec<RankRows> =
                held.into_iter().map(|h| RankRows { ranks: h.ranks, rows: h.batch }).collect();
            let bytes = bytes(of, table.spec, &rows).map_err(io::Error::other)?;
            file.write_all(&bytes)?;
            table.spooled.push(SpooledPiece {
                rows: first..table.row_count,
                start: self.end,
                length: bytes.len(),
            });
            self.end += bytes.len() as u64;
        }
        self.held_bytes = 0;
        Ok(())
    }

    fn read(&mut self, piece: &SpooledPiece) -> io::Result<Vec<u8>> {
        let file = self.file.as_mut().ok_or_else(|| io::Error::other("nothing was spooled"))?;
        let mut bytes = vec![0; piece.length];
        file.seek(SeekFrom::Start(piece.start))?;
        file.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}

impl StoreTable {
    fn held_bytes(&self) -> usize {
        self.held.iter().map(|h| h.bytes).sum()
    }

    fn push(&mut self, ranks: Vec<u32>, batch: RecordBatch) -> Result<(), ArrowError> {
        let first_row = self.row_count;
        self.row_count += ranks.len();
        self.held.push(HeldRows::new(first_row, ranks, batch));
        let small = self.held.iter().rev().take_while(|h| h.bytes < SMALL).count();
        if small >= TOGETHER {
            let last = self.held.split_off(self.held.len() - small);
            let first_row = last.first().map_or(first_row, |h| h.rows.start);
            let batch = concat_batches(&self.spec.schema(), last.iter().map(|h| &h.batch))?;
            let ranks = last.into_iter().flat_map(|h| h.ranks).collect();
            self.held.push(HeldRows::new(first_row, ranks, batch));
        }
        Ok(())
    }
}

impl HeldRows {
    fn new(first_row: usize, ranks: Vec<u32>, batch: RecordBatch) -> Self {
        // A batch can be a slice of a larger one, so count only the memory of the slice.
        let values = |c: &dyn Array| c.to_data().get_slice_memory_size().unwrap_or(0);
        let columns = batch.columns().iter().map(|c| COLUMN_BYTES + values(c));
        let bytes = columns.sum::<usize>() + size_of_val(&ranks[..]);
        Self { rows: first_row..first_row + ranks.len(), ranks, batch, bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hta_testkit::every::{AllColumnTypes, AnyRow, batch};
    use proptest::prelude::*;

    fn partial(rank: u32, rows: &[AnyRow]) -> Partial {
        Partial { rank, tables: vec![batch(rows), batch(&[]), batch(&rows[rows.len() / 2..])], reason: None }
    }

    fn store(above: usize) -> PartialStore {
        PartialStore::new(Spool { above, ..Spool::default() })
    }

    fn is_equal(a: &Batch, b: &Batch) -> bool {
        let rows =
            |batch: &Batch| concat_batches(&batch.rows().schema(), [&batch.rows()]).map(|b| format!("{b:?}"));
        let texts = |batch: &Batch, i: usize| batch.text("host", i).map(str::to_string);
        let same_texts = (0..a.len()).all(|i| texts(a, i) == texts(b, i));
        let numbers = |batch: &Batch| batch.rows().columns()[..5].to_vec();
        a.len() == b.len() && same_texts && numbers(a) == numbers(b) && rows(a).is_ok()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn what_is_opened_is_what_was_put(
            ranks in prop::collection::vec(prop::collection::vec(any::<AnyRow>(), 0..40), 1..30),
            above in prop::sample::select(vec![0, 1 << 12, 1 << 14, usize::MAX]),
        ) {
            let store = store(above);
            let partials: Vec<Partial> = (0..).zip(&ranks).map(|(rank, rows)| partial(rank, rows)).collect();
            let stored: Vec<StoredPartial> = partials.iter().map(|p| store.put("every", p.clone()).unwrap()).collect();
            prop_assert!(store.held_bytes() <= above);
            let opened = [store.open(&stored.iter().collect::<Vec<_>>()).unwrap(), store.take(stored).unwrap()];
            prop_assert_eq!(store.held_bytes(), 0);
            for opened in opened {
                prop_assert_eq!(opened.len(), partials.len());
                for (a, b) in partials.iter().zip(&opened) {
                    prop_assert_eq!((a.rank, a.tables.len()), (b.rank, b.tables.len()));
                    prop_assert!(a.tables.iter().zip(&b.tables).all(|(a, b)| is_equal(a, b)));
                }
            }
        }
    }

    #[test]
    fn small_batches_of_many_ranks_take_little_more_than_their_values() {
        let store = store(usize::MAX);
        let row = |rank: u32| (rank, Some(1), None, Some(0.5), None, Some("gemm".to_string()));
        for rank in 0..4096 {
            store.put("every", Partial { rank, tables: vec![batch(&[row(rank)])], reason: None }).unwrap();
        }
        let values = 4096 * (4 + 4 + 8 + 8 + 8 + 4);
        assert!(store.held_bytes() < 2 * values, "{}", store.held_bytes());
        assert_eq!(
            store.lock().tables.get(&("every", AllColumnTypes::SPEC.name)).map(|t| t.row_count),
            Some(4096)
        );
    }
}
