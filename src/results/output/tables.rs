//! A folder of Parquet tables that grow rank by rank. A row group contains one large rank or several small
//! ones.

use crate::output::parquet::RowGroups;
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use arrow_select::concat::concat_batches;
use hta_base::table::schema::{Batch, TableSpec};
use hta_base::units::fmt_count;
use hta_base::wording::counts::wrapped;
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Size of the buffered rows from which a row group is written while the table is small, bytes.
const GROUP_BYTES: usize = 256 << 10;

/// Assumed size of the metadata of one row group, bytes. Row groups grow with the square root of the table's
/// size, so that the rows buffered for a group and the metadata of all groups grow equally.
const GROUP_NOTES: usize = 16 << 10;

/// Number of buffered batches from which they are merged. An Arrow column takes some hundred bytes before its
/// first value, so the small batches of many ranks are merged.
const WAITING: usize = 8;

/// Size of a table up to which its rows stay in memory for what is made of the results in the same run,
/// bytes, and (next) the number of its batches.
const KEPT_BYTES: usize = 128 << 10;
const KEPT_BATCHES: usize = 64;

/// What a row group of a table contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowGrouping {
    /// One rank.
    ByRank,
    /// One large rank, or several small ones.
    ByWeight,
}

/// One table that grows rank by rank.
struct GrowingTable {
    spec: &'static TableSpec,
    path: PathBuf,
    /// `None` before the first row group: a table without rows has no file.
    file: Option<RowGroups<File>>,
    /// Rows of the next row group. A batch contains all rows of a rank, or a long piece of them, and is never
    /// divided.
    waiting: Vec<RecordBatch>,
    waiting_bytes: usize,
    written_bytes: usize,
    row_count: u64,
    /// All rows, while they are few.
    kept: Option<Vec<Batch>>,
}

impl GrowingTable {
    fn push(&mut self, rows: &RecordBatch, groups: RowGrouping) -> io::Result<()> {
        self.row_count += rows.num_rows() as u64;
        let enough = match groups {
            RowGrouping::ByRank => 0,
            RowGrouping::ByWeight => GROUP_BYTES.max((self.written_bytes * GROUP_NOTES).isqrt()),
        };
        self.waiting_bytes += rows.columns().iter().map(|c| weight(c)).sum::<usize>();
        let is_small = self.written_bytes + self.waiting_bytes <= KEPT_BYTES;
        self.kept = self.kept.take().filter(|kept| is_small && kept.len() < KEPT_BATCHES);
        if let Some(kept) = &mut self.kept {
            kept.push(Batch::new(self.spec, rows.clone()));
        }
        self.waiting.push(rows.clone());
        if self.waiting_bytes >= enough {
            return self.flush();
        }
        if self.waiting.len() >= WAITING {
            let one = concat_batches(&rows.schema(), &self.waiting).map_err(io::Error::other)?;
            self.waiting = vec![one];
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.written_bytes += std::mem::take(&mut self.waiting_bytes);
        let waiting = std::mem::take(&mut self.waiting);
        if waiting.is_empty() {
            return Ok(());
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(RowGroups::new(File::create(&self.path)?, self.spec.schema())?),
        };
        file.write(|i| waiting.iter().map(|rows| ArrayRef::clone(rows.column(i))).collect())
    }

    /// Completes the file, and returns the rows if they are few, none without a file.
    fn finish(mut self) -> io::Result<Option<Vec<Batch>>> {
        self.flush()?;
        if let Some(file) = self.file {
            file.finish_noted(&self.spec.noted_schema())?;
        }
        Ok(self.kept)
    }
}

/// Size of a column in a row group, computed from its type and the texts that occur, and not from the size of
/// its buffers. So the same rows always make the same groups.
fn weight(column: &dyn Array) -> usize {
    let rows = column.len();
    match column.data_type() {
        DataType::Boolean => rows / 8,
        DataType::UInt32 => rows * 4,
        DataType::Dictionary(_, _) => rows * 4 + bytes_of_texts(column),
        _ => rows * 8,
    }
}

/// Length of all distinct texts that occur.
fn bytes_of_texts(column: &dyn Array) -> usize {
    let Some(column) = column.as_dictionary_opt::<Int32Type>() else { return 0 };
    let Some(texts) = column.values().as_string_opt::<i32>() else { return 0 };
    let mut seen = vec![false; texts.len()];
    let new = |key: &usize| seen.get_mut(*key).is_some_and(|seen| !std::mem::replace(seen, true));
    let occur = column.keys_iter().flatten().filter(new);
    occur.map(|key| texts.value_length(key) as usize).sum()
}

/// A folder of tables that grow rank by rank. Several threads may write different tables at once.
pub(crate) struct FolderTables {
    folder: PathBuf,
    /// Tables by name; `None` if the table is complete.
    open: Mutex<BTreeMap<&'static str, Option<Arc<Mutex<GrowingTable>>>>>,
    /// The rows of complete tables that are small; of those without a file there are none.
    kept: Mutex<BTreeMap<&'static str, Vec<Batch>>>,
    /// By name: what a table that is closed is, and how many rows it has.
    closed: Mutex<BTreeMap<&'static str, (&'static TableSpec, u64)>>,
    groups: RowGrouping,
}

impl FolderTables {
    /// # Errors
    /// When the folder cannot be created.
    pub(crate) fn create(folder: &Path, groups: RowGrouping) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        Ok(Self {
            folder: folder.to_path_buf(),
            open: Mutex::default(),
            kept: Mutex::default(),
            closed: Mutex::default(),
            groups,
        })
    }

    /// Appends rows. A batch is never divided between row groups.
    ///
    /// # Errors
    /// When the rows cannot be written.
    pub(crate) fn append(&self, batch: &Batch) -> io::Result<()> {
        let table = self.table(batch.spec)?;
        if batch.is_empty() {
            return Ok(());
        }
        let table =
            table.ok_or_else(|| io::Error::other(format!("rows of `{}` after its end", batch.spec.name)))?;
        table.lock().map_err(|_| failed())?.push(&batch.rows(), self.groups)
    }

    /// Adds a table if it does not exist yet. Its file is created with its first rows.
    ///
    /// # Errors
    /// When the table cannot be created.
    pub(crate) fn declare(&self, spec: &'static TableSpec) -> io::Result<()> {
        self.table(spec).map(|_| ())
    }

    fn table(&self, spec: &'static TableSpec) -> io::Result<Option<Arc<Mutex<GrowingTable>>>> {
        let mut open = self.open.lock().map_err(|_| failed())?;
        match open.entry(spec.name) {
            Entry::Occupied(open) => Ok(open.get().clone()),
            Entry::Vacant(slot) => {
                let table = GrowingTable {
                    spec,
                    path: self.folder.join(format!("{}.parquet", spec.name)),
                    file: None,
                    waiting: Vec::new(),
                    waiting_bytes: 0,
                    written_bytes: 0,
                    row_count: 0,
                    kept: Some(Vec::new()),
                };
                Ok(slot.insert(Some(Arc::new(Mutex::new(table)))).clone())
            }
        }
    }

    /// Closes the files of tables that get no more rows, to free their memory.
    ///
    /// # Errors
    /// When the last bytes cannot be written.
    pub(crate) fn end(&self, specs: &[&TableSpec]) -> io::Result<()> {
        let open = specs.iter().filter_map(|spec| self.open.lock().ok()?.get_mut(spec.name)?.take());
        open.into_iter().try_for_each(|table| self.close(table))
    }

    /// Closes all files.
    ///
    /// # Errors
    /// When the last bytes cannot be written.
    pub(crate) fn finish(&self) -> io::Result<()> {
        let open = std::mem::take(&mut *self.open.lock().map_err(|_| failed())?);
        let open: Vec<_> = open.into_values().flatten().collect();
        open.into_par_iter().with_max_len(1).try_for_each(|table| self.close(table))
    }

    fn close(&self, table: Arc<Mutex<GrowingTable>>) -> io::Result<()> {
        let table = Arc::into_inner(table).and_then(|t| t.into_inner().ok()).ok_or_else(failed)?;
        let (spec, name) = (table.spec, table.spec.name);
        self.closed.lock().map_err(|_| failed())?.insert(name, (spec, table.row_count));
        if let Some(kept) = table.finish()? {
            self.kept.lock().map_err(|_| failed())?.insert(name, kept);
        }
        Ok(())
    }

    /// Names of the complete tables that have no rows, sorted.
    pub(crate) fn empty(&self) -> Vec<&'static str> {
        let Ok(kept) = self.kept.lock() else { return Vec::new() };
        kept.iter().filter(|(_, rows)| rows.is_empty()).map(|(name, _)| *name).collect()
    }

    /// A line for each table that has rows, with their number, then the names of those without.
    pub(crate) fn index(&self) -> String {
        let Ok(closed) = self.closed.lock() else { return String::new() };
        let widest = closed.keys().map(|name| name.len()).max().unwrap_or(0);
        let mut out = String::from(INDEX_HEAD);
        for (name, (spec, rows)) in closed.iter().filter(|(_, (_, rows))| *rows > 0) {
            let about = spec.doc.split_whitespace().collect::<Vec<_>>().join(" ");
            let about = about.split_inclusive(". ").next().unwrap_or_default().trim_end();
            out.push_str(&format!("{name:<widest$}  {:>10}  {about}\n", fmt_count(*rows)));
        }
        let empty: Vec<&str> =
            closed.iter().filter(|(_, (_, rows))| *rows == 0).map(|(name, _)| *name).collect();
        if !empty.is_empty() {
            out.push_str("\nWithout rows, and so without a file (hta ANALYSIS says why):\n");
            for line in wrapped(empty.iter().map(|name| format!("{name},")), 78) {
                out.push_str(&format!("  {}\n", line.trim_end_matches(',')));
            }
        }
        out
    }

    /// The rows of the complete tables that are small, by their names.
    pub(crate) fn kept(&self) -> BTreeMap<&'static str, Vec<Batch>> {
        self.kept.lock().map(|kept| kept.clone()).unwrap_or_default()
    }
}

/// What stands above the list of tables.
const INDEX_HEAD: &str = "\
Tables of this run as Parquet, with their rows. hta explain TABLE has the columns,
hta query 'SELECT * FROM TABLE LIMIT 5' FOLDER shows rows.

";

/// The error if another thread failed while it held a lock.
pub(super) fn failed() -> io::Error {
    io::Error::other("another thread failed while writing tables")
}

#[cfg(test)]
mod tests {
    use super::*;
    use hta_testkit::every::{AllColumnTypes, batch};
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    #[test]
    fn rows_of_many_ranks_are_one_group_until_they_weigh_enough_and_a_closed_table_takes_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let tables = FolderTables::create(folder.path(), RowGrouping::ByWeight).unwrap();
        let row = |rank: u32| (rank, None, Some(1), None, None, Some(format!("host {}", rank % 3)));
        let rank = |rank: u32| batch(&vec![row(rank); 100]);
        (0..300).for_each(|r| tables.append(&rank(r)).unwrap());
        tables.end(&[AllColumnTypes::SPEC]).unwrap();
        tables.declare(AllColumnTypes::SPEC).unwrap();
        assert!(tables.append(&rank(300)).is_err());
        tables.finish().unwrap();
        let file = File::open(folder.path().join("every.parquet")).unwrap();
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
        let groups: Vec<i64> = reader.metadata().row_groups().iter().map(|g| g.num_rows()).collect();
        assert_eq!(groups.iter().sum::<i64>(), 30_000);
        assert!((2..30).contains(&groups.len()) && groups.iter().all(|n| n % 100 == 0), "{groups:?}");
        let rows = reader.build().unwrap().map(Result::unwrap);
        for texts in rows.map(|b| ArrayRef::clone(b.column(5))) {
            assert_eq!(texts.as_dictionary::<Int32Type>().values().len(), 3);
        }
    }
}
