//! Moves the rows of partials into a result: row tables row group by row group in order of rank, and events
//! files unchanged.

use crate::partial::error::PartialError;
use crate::partial::folder::{EVENTS, PartialFolder, TABLES};
use crate::results::declared;
use crate::run::RowSink;
use crate::store::{Damage, contained, sound};
use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use hta_base::table::schema::{Batch, TableSpec};
use hta_read::files::{Location, Stored};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use parquet::file::reader::Length;
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{self, File};
use std::io;
use std::path::Path;

/// The key column that every table with rows of ranks has, whatever its other columns.
const RANK: &str = "rank";

/// Maximum number of rows per byte of a file. No real table has so many; the limit bounds the memory that a
/// forged file can request.
const DENSEST: u64 = 1 << 12;

/// The file of one table in one partial.
struct TableSource {
    partial: String,
    name: String,
    path: Location,
    /// Rank of each row group.
    ranks: Vec<u32>,
}

/// Writes the rows of all partials to `sink`, and links or copies their events to the folder `events`, if
/// given.
///
/// # Errors
/// When a table has other columns or no rank, rows cannot be written, or events cannot be linked or copied.
pub fn stream(
    partials: &[PartialFolder],
    sink: &dyn RowSink,
    events: Option<&Path>,
) -> Result<(), PartialError> {
    let mut tables: BTreeMap<&str, Vec<&PartialFolder>> = BTreeMap::new();
    for p in partials {
        for f in p.manifest.below(TABLES) {
            tables.entry(&f.name).or_default().push(p);
        }
    }
    tables.into_iter().collect::<Vec<_>>().into_par_iter().with_max_len(1).try_for_each(|(name, of)| {
        let open = |p: &&PartialFolder| source(p, name).map_err(|d| damaged(p.shown(), name.to_string(), d));
        let (specs, sources): (Vec<_>, Vec<_>) =
            of.iter().map(open).collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
        specs.first().copied().map_or(Ok(()), |spec| rows(spec, &sources, sink))
    })?;
    let Some(events) = events else { return Ok(()) };
    for p in partials {
        for f in p.manifest.below(EVENTS) {
            let own = f.name.rsplit('/').next().unwrap_or_default();
            let (from, to) = (p.path.join(&f.name), events.join(own));
            let copied = fs::hard_link(&from, &to).or_else(|_| copy(&from, &to));
            copied.map_err(|source| PartialError::Write { path: to.display().to_string(), source })?;
        }
    }
    Ok(())
}

/// Copies a file. Never overwrites an existing file, because that can be a link to the file of another
/// partial.
fn copy(from: &Location, to: &Path) -> io::Result<()> {
    let mut copy = File::create_new(to)?;
    io::copy(&mut from.open()?, &mut copy).map(|_| ())
}

fn damaged(path: String, file: String, d: Damage) -> PartialError {
    PartialError::Damaged { path, file, expected: d.expected, found: d.found }
}

fn source(p: &PartialFolder, name: &str) -> Result<(&'static TableSpec, TableSource), Damage> {
    let table = name.rsplit('/').next().and_then(|n| n.strip_suffix(".parquet")).unwrap_or_default();
    let spec = declared(table).ok_or_else(|| Damage::new("a known table", format!("`{table}`")))?;
    let path = p.path.join(name);
    contained(|| {
        let (file, metadata) = described(spec, &path)?;
        let at = spec.columns.iter().position(|c| c.name == "rank");
        let at = at.ok_or_else(|| Damage::new("a column `rank`", "none"))?;
        let groups = 0..metadata.metadata().row_groups().len();
        let ranks = groups.map(|g| first_rank(&file, &metadata, g, at)).collect::<Result<Vec<_>, _>>()?;
        Ok((spec, TableSource { partial: p.shown(), name: name.to_string(), path, ranks }))
    })
}

/// A file of a table, and what it says of its row groups, checked.
fn described(spec: &TableSpec, path: &Location) -> Result<(Stored, ArrowReaderMetadata), Damage> {
    let file = Stored::open(path).map_err(|e| Damage::new("a file", e))?;
    let len = file.len();
    let metadata = ArrowReaderMetadata::load(&file, ArrowReaderOptions::default())?;
    if metadata.schema().fields() != spec.noted_schema().fields() {
        return Err(Damage::new(format!("the columns of `{}`", spec.name), "others"));
    }
    sound(metadata.metadata(), len)?;
    let groups = metadata.metadata().row_groups();
    if groups.iter().any(|g| g.num_rows().unsigned_abs() > len.saturating_mul(DENSEST)) {
        return Err(Damage::new("as many rows as the file has room for", "more"));
    }
    Ok((file, metadata))
}

/// The rank of a row group's first row. When the group is read, all its rows are checked to have this rank.
fn first_rank(
    file: &Stored,
    metadata: &ArrowReaderMetadata,
    group: usize,
    column: usize,
) -> Result<u32, Damage> {
    let file = file.try_clone().map_err(|e| Damage::new("a file", e))?;
    let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata.clone());
    let only = ProjectionMask::leaves(builder.parquet_schema(), [column]);
    let mut reader = builder.with_row_groups(vec![group]).with_projection(only).with_limit(1).build()?;
    let first = reader.next().transpose()?;
    let rank =
        first.as_ref().and_then(|b| b.columns().first()?.as_primitive_opt::<UInt32Type>()?.iter().next()?);
    rank.ok_or_else(|| Damage::new("row groups with a rank", "one without"))
}

fn rows(spec: &'static TableSpec, sources: &[TableSource], sink: &dyn RowSink) -> Result<(), PartialError> {
    let of_source = |(i, s): (usize, &TableSource)| {
        s.ranks.iter().enumerate().map(|(g, r)| (*r, i, g)).collect::<Vec<_>>()
    };
    let mut groups: Vec<(u32, usize, usize)> = sources.iter().enumerate().flat_map(of_source).collect();
    // Each rank is in only one partial, so its row groups keep their order.
    groups.sort_unstable();
    let write = |rows: RecordBatch| {
        let path = format!("the table `{}`", spec.name);
        sink.rows(Batch::new(spec, rows)).map_err(|source| PartialError::Write { path, source })
    };
    if groups.is_empty() {
        return write(RecordBatch::new_empty(spec.schema()));
    }
    // What a file says of its row groups takes more memory than their rows, so it is read again when its
    // first rank comes, and dropped behind its last.
    let mut open: BTreeMap<usize, (ArrowReaderMetadata, usize)> = BTreeMap::new();
    for (rank, i, group) in groups {
        let Some(source) = sources.get(i) else { continue };
        let damaged = |d| damaged(source.partial.clone(), source.name.clone(), d);
        let (metadata, left) = match open.entry(i) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let (_, metadata) = contained(|| described(spec, &source.path)).map_err(damaged)?;
                new.insert((metadata, source.ranks.len()))
            }
        };
        let batch = contained(|| row_group(spec, source, metadata, (group, rank))).map_err(damaged)?;
        *left -= 1;
        if *left == 0 {
            open.remove(&i);
        }
        write(batch)?;
    }
    Ok(())
}

fn row_group(
    spec: &TableSpec,
    source: &TableSource,
    metadata: &ArrowReaderMetadata,
    (group, rank): (usize, u32),
) -> Result<RecordBatch, Damage> {
    let file = Stored::open(&source.path).map_err(|e| Damage::new("a file", e))?;
    let count = metadata.metadata().row_groups().get(group).map_or(0, |g| g.num_rows());
    let count = usize::try_from(count).map_err(|e| Damage::new("a number of rows", e))?;
    let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata.clone())
        .with_row_groups(vec![group])
        .with_batch_size(count.max(1))
        .build()?;
    let batches = reader.collect::<Result<Vec<_>, _>>()?;
    let [batch] = batches.as_slice() else {
        return Err(Damage::new(format!("{count} rows at once"), format!("{} batches", batches.len())));
    };
    let ranks = batch.column_by_name(RANK).and_then(|a| a.as_primitive_opt::<UInt32Type>());
    if batch.num_rows() != count || ranks.is_none_or(|r| r.values().iter().any(|v| *v != rank)) {
        return Err(Damage::new(format!("{count} rows of rank {rank}"), "others"));
    }
    // This checks types and nulls against the declaration.
    Ok(RecordBatch::try_new(spec.schema(), batch.columns().to_vec())?)
}
