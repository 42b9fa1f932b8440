//! Parquet writing: one file per table, a row group for each large rank or for several small ones.
//!
//! Until a file is closed its row groups have to be remembered, and rows that wait for theirs. A job of a thousand ranks
//! would hold little but that, so the one is kept as it will be written, and the others without what Arrow puts around them.

use crate::output::chunk::Encoder;
use crate::output::footer::Footer;
use crate::table::appended::Appended;
use crate::table::schema::{Batch, TableSpec};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Int32Type, SchemaRef};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// What a Parquet file begins and ends with.
const MAGIC: &[u8] = b"PAR1";

/// Encoded columns are written in pieces of about this size, bytes.
const PIECE: usize = 64 << 10;

/// A Parquet file whose row groups are encoded column by column.
///
/// General writers keep an encoder and a compressor per column until a row group ends; with a hundred
/// columns that is many times the data. Here each column is made, encoded and dropped before the next.
pub struct RowGroups<W: io::Write> {
    out: W,
    schema: SchemaRef,
    /// Bytes that are written or about to be.
    at: u64,
    footer: Footer,
}

impl<W: io::Write> RowGroups<W> {
    /// # Errors
    /// When the file's head cannot be written.
    pub fn new(mut out: W, schema: SchemaRef) -> io::Result<Self> {
        out.write_all(MAGIC)?;
        Ok(Self { out, schema, at: MAGIC.len() as u64, footer: Footer::default() })
    }

    /// Writes one row group; `column` makes the array of each position.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&mut self, encoder: &mut Encoder, mut column: impl FnMut(usize) -> ArrayRef) -> io::Result<()> {
        let start = self.at;
        encoder.out.clear();
        let mut chunks = Vec::with_capacity(self.schema.fields().len());
        for (i, field) in self.schema.fields().iter().enumerate() {
            let chunk = encoder.column(field.is_nullable(), &column(i))?;
            self.at += chunk.packed;
            chunks.push(chunk);
            if encoder.out.len() >= PIECE {
                self.out.write_all(&encoder.out)?;
                encoder.out.clear();
            }
        }
        self.out.write_all(&encoder.out)?;
        self.footer.push(&self.schema, start, &chunks);
        Ok(())
    }

    /// Ends the file, with the schema of its rows.
    ///
    /// # Errors
    /// When the file's end cannot be written.
    pub fn finish(self) -> io::Result<()> {
        let schema = SchemaRef::clone(&self.schema);
        self.finish_noted(&schema)
    }

    /// Ends the file, with a schema that says more than that of the rows.
    ///
    /// # Errors
    /// When the file's end cannot be written.
    pub fn finish_noted(mut self, schema: &SchemaRef) -> io::Result<()> {
        let mut end = self.footer.finish(schema);
        let length = u32::try_from(end.len()).map_err(io::Error::other)?;
        end.extend_from_slice(&length.to_le_bytes());
        end.extend_from_slice(MAGIC);
        self.out.write_all(&end)?;
        self.out.flush()
    }
}

/// Writes one table to any sink, a row group per batch.
///
/// # Errors
/// When it cannot be written.
pub fn write_to<W: io::Write>(out: W, spec: &TableSpec, batches: &[Batch]) -> io::Result<()> {
    let file = groups(out, spec.schema(), batches.iter().map(|b| &b.rows))?;
    file.finish_noted(&spec.noted_schema())
}

/// The same of rows without a declaration; their columns are of the types that tables have.
///
/// # Errors
/// When it cannot be written.
pub fn write_rows<'a, W: io::Write>(
    out: W,
    schema: SchemaRef,
    batches: impl IntoIterator<Item = &'a RecordBatch>,
) -> io::Result<()> {
    groups(out, schema, batches)?.finish()
}

fn groups<'a, W: io::Write>(
    out: W,
    schema: SchemaRef,
    batches: impl IntoIterator<Item = &'a RecordBatch>,
) -> io::Result<RowGroups<W>> {
    let mut file = RowGroups::new(out, schema)?;
    let mut encoder = Encoder::new()?;
    for rows in batches.into_iter().filter(|b| b.num_rows() > 0) {
        file.write(&mut encoder, |i| ArrayRef::clone(rows.column(i)))?;
    }
    Ok(file)
}

/// Bytes of rows from which a row group is written, at first.
const GROUP_BYTES: usize = 256 << 10;

/// Groups get larger as the table does: by the root of it, so that what waits for a group and what is noted of all
/// groups grow alike. This is a group's share of both, bytes.
const GROUP_NOTES: usize = 8 << 10;

/// What a row group of a table holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Groups {
    /// One rank.
    ByRank,
    /// One large rank, or several small ones.
    ByWeight,
}

/// One table that grows rank by rank.
struct Growing {
    spec: &'static TableSpec,
    file: RowGroups<File>,
    /// Rows of the next row group. A batch is all that a rank has for the table, or a long piece of it; none is divided.
    held: Held,
    held_bytes: usize,
    written_bytes: usize,
}

/// Rows that wait.
#[derive(Default)]
enum Held {
    #[default]
    Nothing,
    /// As they came: in a run of one rank no others follow.
    One(Batch),
    Many(Vec<Appended>),
}

impl Held {
    fn push(&mut self, batch: &Batch) {
        let append = |columns: &mut [Appended], batch: &Batch| {
            columns.iter_mut().zip(batch.rows.columns()).for_each(|(held, column)| held.append(column));
        };
        match self {
            Self::Nothing => *self = Self::One(batch.clone()),
            Self::One(first) => {
                let schema = first.rows.schema();
                let mut columns: Vec<_> = schema.fields().iter().map(|f| Appended::new(f.data_type())).collect();
                append(&mut columns, first);
                append(&mut columns, batch);
                *self = Self::Many(columns);
            }
            Self::Many(columns) => append(columns, batch),
        }
    }
}

impl Growing {
    fn push(&mut self, batch: &Batch, groups: Groups, encoder: &mut Encoder) -> io::Result<()> {
        let bytes = batch.rows.columns().iter().map(|c| weight(c)).sum::<usize>();
        let enough = match groups {
            Groups::ByRank => 0,
            Groups::ByWeight => GROUP_BYTES.max((self.written_bytes * GROUP_NOTES).isqrt()),
        };
        if bytes >= enough && matches!(self.held, Held::Nothing) {
            self.written_bytes += bytes;
            return self.file.write(encoder, |i| ArrayRef::clone(batch.rows.column(i)));
        }
        self.held.push(batch);
        self.held_bytes += bytes;
        if self.held_bytes >= enough { self.flush(encoder) } else { Ok(()) }
    }

    fn flush(&mut self, encoder: &mut Encoder) -> io::Result<()> {
        self.written_bytes += std::mem::take(&mut self.held_bytes);
        match std::mem::take(&mut self.held) {
            Held::Nothing => Ok(()),
            Held::One(batch) => self.file.write(encoder, |i| ArrayRef::clone(batch.rows.column(i))),
            Held::Many(columns) => {
                let mut columns = columns.into_iter();
                self.file.write(encoder, |_| columns.next().expect("a column for each field of the schema").finish())
            }
        }
    }

    fn finish(mut self, encoder: &mut Encoder) -> io::Result<()> {
        self.flush(encoder)?;
        self.file.finish_noted(&self.spec.noted_schema())
    }
}

/// What rows weigh in a row group. By type and by the texts that occur, not by what a buffer happens to hold, so that the
/// same rows make the same groups wherever they come from.
fn weight(column: &dyn Array) -> usize {
    let rows = column.len();
    match column.data_type() {
        DataType::Boolean => rows / 8,
        DataType::UInt32 => rows * 4,
        DataType::Dictionary(_, _) => rows * 4 + bytes_of_texts(column),
        _ => rows * 8,
    }
}

/// Length of all texts that occur, each counted once.
fn bytes_of_texts(column: &dyn Array) -> usize {
    let Some(column) = column.as_dictionary_opt::<Int32Type>() else { return 0 };
    let Some(texts) = column.values().as_string_opt::<i32>() else { return 0 };
    let mut seen = vec![false; texts.len()];
    let new = |key: &usize| seen.get_mut(*key).is_some_and(|seen| !std::mem::replace(seen, true));
    let occur = column.keys_iter().flatten().filter(new);
    occur.map(|key| texts.value_length(key) as usize).sum()
}

/// A folder of tables that grow rank by rank. Several threads may write different tables at once.
pub struct Tables {
    folder: PathBuf,
    /// By name; `None`: it is whole.
    open: Mutex<BTreeMap<&'static str, Option<Arc<Mutex<Growing>>>>>,
    groups: Groups,
    /// Those that nobody uses now: there are as many as threads that write at once.
    encoders: Mutex<Vec<Encoder>>,
}

impl Tables {
    /// # Errors
    /// When the folder cannot be made.
    pub fn create(folder: &Path, groups: Groups) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        Ok(Self { folder: folder.to_path_buf(), open: Mutex::default(), groups, encoders: Mutex::default() })
    }

    /// Appends rows. A batch is never divided between row groups.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn append(&self, batch: &Batch) -> io::Result<()> {
        let table = self.table(batch.spec)?;
        if batch.is_empty() {
            return Ok(());
        }
        let table = table.ok_or_else(|| io::Error::other(format!("rows of `{}` after its end", batch.spec.name)))?;
        self.encode(|encoder| table.lock().map_err(|_| failed())?.push(batch, self.groups, encoder))
    }

    /// Makes sure that a table exists, with its schema, also without rows.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn declare(&self, spec: &'static TableSpec) -> io::Result<()> {
        self.table(spec).map(|_| ())
    }

    fn table(&self, spec: &'static TableSpec) -> io::Result<Option<Arc<Mutex<Growing>>>> {
        let mut open = self.open.lock().map_err(|_| failed())?;
        match open.entry(spec.name) {
            Entry::Occupied(open) => Ok(open.get().clone()),
            Entry::Vacant(slot) => {
                let file = File::create(self.folder.join(format!("{}.parquet", spec.name)))?;
                let file = RowGroups::new(file, spec.schema())?;
                let table = Growing { spec, file, held: Held::Nothing, held_bytes: 0, written_bytes: 0 };
                Ok(slot.insert(Some(Arc::new(Mutex::new(table)))).clone())
            }
        }
    }

    fn encode(&self, write: impl FnOnce(&mut Encoder) -> io::Result<()>) -> io::Result<()> {
        let free = self.encoders.lock().map_err(|_| failed())?.pop();
        let mut encoder = free.map_or_else(Encoder::new, Ok)?;
        let written = write(&mut encoder);
        encoder.rest();
        self.encoders.lock().map_err(|_| failed())?.push(encoder);
        written
    }

    /// Closes the files of tables that get no more rows, so that nothing of them stays in memory.
    ///
    /// # Errors
    /// When the last bytes cannot be written.
    pub fn end(&self, specs: &[&TableSpec]) -> io::Result<()> {
        let taken = |spec: &&TableSpec| self.open.lock().ok()?.get_mut(spec.name)?.take();
        specs.iter().filter_map(taken).try_for_each(|table| self.close(table))
    }

    fn close(&self, table: Arc<Mutex<Growing>>) -> io::Result<()> {
        let table = Arc::into_inner(table).and_then(|t| t.into_inner().ok()).ok_or_else(failed)?;
        self.encode(|encoder| table.finish(encoder))
    }

    /// Closes all files.
    ///
    /// # Errors
    /// When the last bytes cannot be written.
    pub fn finish(&self) -> io::Result<()> {
        let open = std::mem::take(&mut *self.open.lock().map_err(|_| failed())?);
        let open: Vec<_> = open.into_values().flatten().collect();
        open.into_par_iter().with_max_len(1).try_for_each(|table| self.close(table))
    }
}

/// Another thread has failed while it held a lock.
pub(super) fn failed() -> io::Error {
    io::Error::other("another thread failed while writing tables")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::every::{Every, Row, batch};
    use arrow::array::{Array, AsArray};
    use arrow::compute::{concat_batches, max, min};
    use arrow::datatypes::Int64Type;
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
    use parquet::file::statistics::Statistics;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_reader_that_is_not_ours_finds_schema_bounds_and_rows(
            lists in prop::collection::vec(prop::collection::vec(any::<Row>(), 1..90), 0..4),
        ) {
            let batches: Vec<Batch> = lists.iter().map(|l| batch(l)).collect();
            let mut file = tempfile::tempfile().unwrap();
            write_to(&mut file, Every::SPEC, &batches).unwrap();
            let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
            prop_assert_eq!(reader.schema(), &Every::SPEC.noted_schema());
            let metadata = Arc::clone(reader.metadata());
            prop_assert_eq!(metadata.num_row_groups(), batches.len());
            for (group, batch) in metadata.row_groups().iter().zip(&batches) {
                let times = batch.rows.column(1).as_primitive::<Int64Type>();
                let Some(Statistics::Int64(found)) = group.column(1).statistics() else { panic!("no bounds") };
                prop_assert_eq!(found.null_count_opt(), Some(times.null_count() as u64));
                prop_assert_eq!((found.min_opt().copied(), found.max_opt().copied()), (min(times), max(times)));
            }
            let read = reader.build().unwrap().collect::<Result<Vec<_>, _>>().unwrap();
            let (schema, all) = (Every::SPEC.noted_schema(), batch(&lists.concat()));
            let read = concat_batches(&schema, &read).unwrap();
            prop_assert_eq!(read.columns(), all.rows.columns());
        }
    }

    #[test]
    fn rows_of_many_ranks_are_one_group_until_they_weigh_enough_and_a_closed_table_takes_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let tables = Tables::create(folder.path(), Groups::ByWeight).unwrap();
        let row = |rank: u32| (rank, None, Some(1), None, None, Some(format!("host {}", rank % 3)));
        let rank = |rank: u32| batch(&vec![row(rank); 100]);
        (0..300).for_each(|r| tables.append(&rank(r)).unwrap());
        tables.end(&[Every::SPEC]).unwrap();
        tables.declare(Every::SPEC).unwrap();
        assert!(tables.append(&rank(300)).is_err());
        tables.finish().unwrap();
        let file = File::open(folder.path().join("every.parquet")).unwrap();
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
        let groups: Vec<i64> = reader.metadata().row_groups().iter().map(|g| g.num_rows()).collect();
        assert_eq!(groups.iter().sum::<i64>(), 30_000);
        assert!((2..30).contains(&groups.len()) && groups.iter().all(|n| n % 100 == 0), "{groups:?}");
    }
}
