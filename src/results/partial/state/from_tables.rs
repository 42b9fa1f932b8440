//! Reads a mapped set back from its tables. Any tables give a set or an error.

use crate::partial::state::{SET, spec_of};
use crate::partial::tables::{FileRow, Files, PartialContents, PartialRanks, PartialRow, Partials, Tallies};
use crate::results::constant::constant;
use crate::run::RankResults;
use crate::store::{INVENTORY, PART, PartialStore, RANK, StateTable, StoredPartial, StoredRows};
use arrow_array::RecordBatch;
use hta_base::health::Health;
use hta_base::table::checked::InvalidCell;
use hta_base::table::schema::{Batch, Table, TableSpec};
use hta_base::table::stored::Stored;
use hta_base::units::MemoryLimit;
use hta_diagnosis::registry::ANALYSES;
use hta_job::RankSummary;
use hta_read::error::ReadError;
use hta_read::input::{Input, ToldRole};
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// Why a file was refused. Returns `None` if the cells do not describe an error.
fn error_of(row: FileRow) -> Option<ReadError> {
    let file = row.file.to_string();
    let text = row.error_text;
    Some(match row.error? {
        "io" => ReadError::io(&file, io::Error::other(text?.to_string())),
        "empty" => ReadError::Empty { file },
        kind @ ("not_a_trace" | "other_format") => {
            let is_known = kind == "other_format";
            ReadError::NotATrace { file, what: constant(text?)?, hint: constant(row.error_hint?)?, is_known }
        }
        "other_database" => ReadError::OtherDatabase { file, tables: text?.to_string() },
        "front_end" => ReadError::FrontEnd { file },
        "merged" => ReadError::Merged { file, what: text?.to_string() },
        "merged_copy" => ReadError::MergedCopy { file },
        "twin_of_json" => ReadError::TwinOfJson { file },
        "without_rank" => ReadError::WithoutRank { file },
        "other_events" => ReadError::OtherEvents { file, categories: text?.to_string() },
        "nothing_recorded" => ReadError::NothingRecorded { file, what: text?.to_string() },
        "unknown_content" => ReadError::UnknownContent { file, what: text?.to_string() },
        "damaged" => ReadError::Damaged { file, reason: text?.to_string() },
        "cut" => ReadError::Cut { file },
        "no_events" => ReadError::NoEvents { file, health: Box::default() },
        "too_large" => {
            let limit = MemoryLimit { bytes: row.error_limit?, given: row.error_limit_given? };
            ReadError::TooLarge { file, needs: row.error_byte, limit }
        }
        "dump" => {
            let hint = row.error_hint.and_then(constant);
            ReadError::Dump { file, problem: text?.to_string(), hint }
        }
        "interleaved" => ReadError::Interleaved { file, byte: row.error_byte? },
        _ => return None,
    })
}

/// How a file was processed.
#[derive(Debug)]
pub enum Fate {
    /// It was mapped as this rank.
    Mapped(u32),
    RefusedAtHead(ReadError),
    Refused(ReadError),
    LeftOut,
}

/// An input file.
#[derive(Debug)]
pub struct Seen {
    pub(crate) input: Input,
    pub(crate) claim: Option<u32>,
    pub(crate) world: Option<u32>,
    pub(crate) fate: Fate,
}

/// Files and ranks of one partial.
pub struct PartialState {
    pub files: Vec<Seen>,
    /// In order of rank. Their places refer to rows of `tables` until these are moved into a store.
    pub ranks: Vec<RankResults>,
    tables: Vec<StateTable>,
}

impl PartialState {
    /// Moves the tables of the ranks into a store.
    ///
    /// # Errors
    /// When rows cannot be spooled.
    pub(crate) fn move_into(&mut self, store: &PartialStore) -> io::Result<()> {
        let tables = std::mem::take(&mut self.tables);
        let keys: Vec<_> = tables.iter().map(|t| (t.of, t.spec.name)).collect();
        let first_rows: BTreeMap<_, _> = keys.into_iter().zip(store.add(tables)?).collect();
        for d in &mut self.ranks {
            for partial in d.partials.iter_mut().chain([&mut d.inventory]).chain(&mut d.part) {
                for place in &mut partial.tables {
                    place.first_row += first_rows.get(&(partial.of, place.spec.name)).copied().unwrap_or(0);
                }
            }
        }
        Ok(())
    }
}

/// Reads files and ranks from their tables.
///
/// # Errors
/// The first invalid cell.
pub fn state(stored: Vec<StateTable>) -> Result<PartialState, InvalidCell> {
    let mut tables = TakenTables(stored.into_iter().map(|s| ((s.of, s.spec.name), (s, 0))).collect());
    let of_rows = tables.0.get(&(SET, PartialRanks::SPEC.name)).map_or(Vec::new(), |(s, _)| s.ranks.clone());
    let list = tables.rest(PartialRanks::SPEC)?;
    let mut ranks: Vec<RankResults> = Vec::new();
    for (i, whole) in PartialRanks::wholes(&list).enumerate() {
        let (mut of_rank, defect_count, has_part) = whole?;
        let rank = of_rank.rank;
        if let Some(before) = ranks.last().filter(|d| d.rank >= rank) {
            return Err(InvalidCell::new::<PartialRanks>(
                i,
                "rank",
                format!("a rank above {}", before.rank),
                rank,
            ));
        }
        if of_rows.get(i) != Some(&rank) {
            return Err(InvalidCell::new::<PartialRanks>(i, RANK, rank, "another rank"));
        }
        let (partials, part) = tables.partials(rank, has_part)?;
        let mut partials = partials.into_iter();
        let inventory = partials.next();
        of_rank.inventory =
            inventory.ok_or_else(|| InvalidCell::new::<PartialRanks>(i, "rank", "its inventory", "none"))?;
        of_rank.partials = partials.collect();
        of_rank.part = part;
        of_rank.health = tables.health(rank, defect_count as usize)?;
        ranks.push(of_rank);
    }
    let files = seen(&tables.rest(Files::SPEC)?, &ranks)?;
    tables.all_taken()?;
    Ok(PartialState { files, ranks, tables: tables.0.into_values().map(|(table, _)| table).collect() })
}

fn check_part(rank: u32, tables: &[Batch]) -> Result<(), InvalidCell> {
    let part = RankSummary::from_tables(tables)?;
    if part.rank != rank {
        let (table, column) = ("part", "rank");
        let (expected, found) = (rank.to_string(), part.rank.to_string());
        return Err(InvalidCell { table, row: 0, column, expected, found });
    }
    Ok(())
}

fn seen(list: &Batch, ranks: &[RankResults]) -> Result<Vec<Seen>, InvalidCell> {
    let mut mapped = BTreeSet::new();
    let mut out = Vec::new();
    for (i, row) in Files::rows(list).enumerate() {
        let invalid =
            |column, expected: &str, found: String| InvalidCell::new::<Files>(i, column, expected, found);
        let error = || {
            error_of(row).ok_or_else(|| {
                invalid("error", "why it was refused", row.error.unwrap_or("none").to_string())
            })
        };
        let fate = match row.state {
            "mapped" => {
                let is_new = |r: &u32| ranks.binary_search_by_key(r, |d| d.rank).is_ok() && mapped.insert(*r);
                let rank = row.rank.filter(is_new);
                Fate::Mapped(
                    rank.ok_or_else(|| invalid("rank", "one of the ranks, once", format!("{:?}", row.rank)))?,
                )
            }
            "refused_at_head" => Fate::RefusedAtHead(error()?),
            "refused" => Fate::Refused(error()?),
            "left_out" => Fate::LeftOut,
            other => return Err(invalid("state", "what became of the file", format!("`{other}`"))),
        };
        let role = row.role.map(|name| ToldRole { name: name.to_string(), replica: row.replica });
        let input = Input { named: row.is_named, role, ..Input::named(row.name).shown_as(row.file) };
        out.push(Seen { input, claim: row.claim, world: row.world_size, fate });
    }
    if mapped.len() != ranks.len() {
        return Err(InvalidCell::new::<Files>(
            out.len(),
            "rank",
            format!("files of {} ranks", ranks.len()),
            mapped.len(),
        ));
    }
    Ok(out)
}

/// Tables, each with the number of its rows that have been taken.
struct TakenTables(BTreeMap<(&'static str, &'static str), (StateTable, usize)>);

impl TakenTables {
    /// Takes the next `count` rows of a table. All must be of `rank`.
    fn take(
        &mut self,
        of: &'static str,
        spec: &'static TableSpec,
        rank: u32,
        count: usize,
    ) -> Result<(StoredRows, Batch), InvalidCell> {
        let none = Batch::new(spec, RecordBatch::new_empty(spec.schema()));
        if count == 0 {
            return Ok((StoredRows { spec, first_row: 0, row_count: 0 }, none));
        }
        let invalid = |row, found: &str| {
            let (expected, found) = (format!("{count} rows of rank {rank}"), found.to_string());
            InvalidCell { table: spec.name, row, column: RANK, expected, found }
        };
        let (stored, at) = self.0.get_mut(&(of, spec.name)).ok_or_else(|| invalid(0, "none"))?;
        let (ranks, first_row) = (&stored.ranks, *at);
        let end = first_row.checked_add(count).filter(|e| *e <= ranks.len());
        let Some(end) = end.filter(|e| ranks[first_row..*e].iter().all(|r| *r == rank)) else {
            return Err(invalid(first_row, "others"));
        };
        *at = end;
        let rows = stored.rows.slice(first_row, count);
        Ok((StoredRows { spec, first_row, row_count: count }, Batch::new(spec, rows)))
    }

    /// Checks that every row has been taken.
    fn all_taken(&self) -> Result<(), InvalidCell> {
        let left = self.0.values().find(|(s, at)| *at < s.ranks.len());
        left.map_or(Ok(()), |(s, at)| {
            let (table, row) = (s.spec.name, *at);
            let (expected, found) = ("no more rows".to_string(), format!("{}", s.ranks.len() - at));
            Err(InvalidCell { table, row, column: RANK, expected, found })
        })
    }

    /// Number of the next rows that are of `rank`.
    fn count(&self, spec: &'static TableSpec, rank: u32) -> usize {
        let found = self.0.get(&(SET, spec.name));
        found.map_or(0, |(s, at)| s.ranks.iter().skip(*at).take_while(|r| **r == rank).count())
    }

    /// Takes all rows of a table of the set, of all ranks.
    fn rest(&mut self, spec: &'static TableSpec) -> Result<Batch, InvalidCell> {
        let rows = self.0.remove(&(SET, spec.name)).map(|(s, _)| s.rows);
        Ok(Batch::new(spec, rows.unwrap_or_else(|| RecordBatch::new_empty(spec.schema()))))
    }

    fn of_set(&mut self, spec: &'static TableSpec, rank: u32) -> Result<Batch, InvalidCell> {
        let count = self.count(spec, rank);
        Ok(self.take(SET, spec, rank, count)?.1)
    }

    /// Takes the partials of a rank, the inventory first, and its part.
    fn partials(
        &mut self,
        rank: u32,
        has_part: bool,
    ) -> Result<(Vec<StoredPartial>, Option<StoredPartial>), InvalidCell> {
        let list = self.of_set(Partials::SPEC, rank)?;
        let rows: Vec<PartialRow> = Partials::rows(&list).collect();
        let analyses: Vec<&str> = rows.iter().map(|r| r.analysis).collect();
        let expected: Vec<&'static str> =
            std::iter::once(INVENTORY).chain(ANALYSES.iter().map(|a| a.stem())).collect();
        if analyses != expected {
            return Err(InvalidCell::new::<Partials>(
                0,
                "analysis",
                expected.join(", "),
                analyses.join(", "),
            ));
        }
        let contents = self.contents(rank)?;
        let mut out = Vec::new();
        for (i, (row, of)) in rows.iter().zip(expected).enumerate() {
            let own: Vec<_> = contents.iter().filter(|c| c.0 == of).collect();
            if own.len() != row.table_count as usize {
                return Err(InvalidCell::new::<Partials>(i, "table_count", own.len(), row.table_count));
            }
            let places = own.into_iter().map(|(of, spec, n)| Ok(self.take(of, spec, rank, *n)?.0));
            let tables = places.collect::<Result<Box<[_]>, _>>()?;
            let why = |text: &str| {
                constant(text).ok_or_else(|| {
                    InvalidCell::new::<Partials>(
                        i,
                        "reason",
                        "a short reason",
                        format!("{} bytes", text.len()),
                    )
                })
            };
            out.push(StoredPartial {
                of,
                rank: row.own_rank,
                tables,
                reason: row.reason.map(why).transpose()?,
            });
        }
        let taken =
            contents.iter().filter(|c| c.0 == PART).map(|(of, spec, n)| self.take(of, spec, rank, *n));
        let (tables, batches): (Vec<StoredRows>, Vec<Batch>) =
            taken.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
        if !has_part {
            return Ok((out, None));
        }
        check_part(rank, &batches)?;
        Ok((out, Some(StoredPartial { of: PART, rank, reason: None, tables: tables.into() })))
    }

    fn contents(&mut self, rank: u32) -> Result<Vec<(&'static str, &'static TableSpec, usize)>, InvalidCell> {
        let list = self.of_set(PartialContents::SPEC, rank)?;
        let mut out = Vec::new();
        for (i, row) in PartialContents::rows(&list).enumerate() {
            let known = spec_of(row.analysis, row.table);
            let (of, spec) = known.ok_or_else(|| {
                InvalidCell::new::<PartialContents>(i, "table", "a known table", format!("`{}`", row.table))
            })?;
            let count = usize::try_from(row.row_count);
            out.push((
                of,
                spec,
                count.map_err(|e| {
                    InvalidCell::new::<PartialContents>(i, "row_count", "a number of rows", e)
                })?,
            ));
        }
        Ok(out)
    }

    fn health(&mut self, rank: u32, count: usize) -> Result<Health, InvalidCell> {
        let (_, list) = self.take(SET, Tallies::SPEC, rank, count)?;
        let mut health = Health::default();
        for (i, whole) in Tallies::wholes(&list).enumerate() {
            let (counter, tally) = whole?;
            if health.count(counter) > 0 {
                return Err(InvalidCell::new::<Tallies>(i, "counter", "each once", counter.spec().name));
            }
            health.add(counter, tally.count, tally.first_byte, &tally.example);
        }
        Ok(health)
    }
}
