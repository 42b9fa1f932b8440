//! A mapped set from its tables. Any tables give a set or a flaw.

use crate::analysis::api::Partial;
use crate::analysis::kept::Keeper;
use crate::analysis::registry::ANALYSES;
use crate::error::ReadError;
use crate::health::{COUNTERS, Health};
use crate::job::Part;
use crate::partial::constant::constant;
use crate::partial::state::{ERAS, INVENTORY, PART, SET, SOURCES, spec_of};
use crate::partial::stored::Stored;
use crate::partial::tables::{Contents, Files, MappedRanks, Partials, Tallies};
use crate::read::input::Input;
use crate::run::Done;
use crate::table::cells::Texts;
use crate::table::checked::{Cells, Flaw};
use crate::table::schema::{Batch, TableSpec};
use crate::units::MemoryLimit;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::Int32Type;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

fn error_of(
    file: &str,
    kind: &str,
    text: Option<&str>,
    hint: Option<&str>,
    byte: Option<u64>,
    limit: Option<MemoryLimit>,
) -> Option<ReadError> {
    let file = file.to_string();
    Some(match kind {
        "io" => ReadError::Io { file, source: io::Error::other(text?.to_string()) },
        "empty" => ReadError::Empty { file },
        "not_a_trace" | "other_format" => {
            let is_known = kind == "other_format";
            ReadError::NotATrace { file, what: constant(text?)?, hint: constant(hint?)?, is_known }
        }
        "unknown_content" => ReadError::UnknownContent { file, what: text?.to_string() },
        "damaged" => ReadError::Damaged { file, reason: text?.to_string() },
        "cut" => ReadError::Cut { file },
        "no_events" => ReadError::NoEvents { file, health: Box::default() },
        "too_large" => ReadError::TooLarge { file, needs: byte, limit: limit? },
        "interleaved" => ReadError::Interleaved { file, byte: byte? },
        _ => return None,
    })
}

/// What became of a file.
#[derive(Debug)]
pub enum Fate {
    /// It is this rank.
    Mapped(u32),
    RefusedAtHead(ReadError),
    Refused(ReadError),
    LeftOut,
}

/// A file that was given.
#[derive(Debug)]
pub struct Seen {
    pub input: Input,
    pub claim: Option<u32>,
    pub fate: Fate,
}

/// Files and ranks of one partial.
pub struct State {
    pub files: Vec<Seen>,
    /// In order of rank.
    pub ranks: Vec<Done>,
}

/// Files and ranks from their tables.
///
/// # Errors
/// The first cell that cannot be.
pub fn state(stored: Vec<Stored>) -> Result<State, Flaw> {
    let mut tables = Tables(stored.into_iter().map(|s| ((s.of, s.spec.name), (s, 0))).collect());
    let of_rows = tables.0.get(&(SET, MappedRanks::SPEC.name)).map_or(Vec::new(), |(s, _)| s.ranks.clone());
    let list = tables.rest(MappedRanks::SPEC)?;
    let cells = Cells(&list);
    let (rank, file) = (cells.u32s("rank")?, cells.texts("file")?);
    let source = cells.named("rank_source", |t| SOURCES.into_iter().find(|s| s.name() == t))?;
    let era = cells.named("time_era", |t| ERAS.into_iter().find(|e| e.name() == t))?;
    let (base, world) = (cells.opt_i64s("base_ns")?, cells.opt_u32s("world_size")?);
    let (unpacked, has_part) = (cells.u64s("unpacked_bytes")?, cells.flags("has_part")?);
    let defects = cells.u32s("defect_count")?;
    if let Some(i) = rank.windows(2).position(|w| w[0] >= w[1]) {
        return Err(cells.flaw(i + 1, "rank", format!("a rank above {}", rank[i]), rank[i + 1]));
    }
    if let Some(i) = (0..rank.len()).find(|&i| of_rows.get(i) != Some(&rank[i])) {
        return Err(cells.flaw(i, RANK_COLUMN, rank[i], "another rank"));
    }
    let count = rank.len();
    let keeper = Keeper::new(count, ANALYSES.len());
    let mut ranks = Vec::new();
    for (i, &rank) in rank.iter().enumerate() {
        let (partials, of_part) = tables.partials(rank)?;
        let mut partials = partials.into_iter();
        let inventory = partials.next().ok_or_else(|| cells.flaw(i, "rank", "its inventory", "none"))?;
        ranks.push(Done {
            rank,
            source: source[i],
            file: file[i].to_string(),
            partials: partials.enumerate().map(|(i, p)| keeper.analysis(i, p)).collect(),
            inventory: keeper.inventory(inventory),
            part: if has_part[i] { Some(keeper.part(part(rank, &of_part)?)) } else { None },
            health: tables.health(rank, defects[i] as usize)?,
            era: era[i],
            base: base[i],
            world: world[i],
            unpacked: unpacked[i],
        });
    }
    let files = seen(&tables.rest(Files::SPEC)?, &ranks)?;
    tables.all_taken()?;
    Ok(State { files, ranks })
}

fn part(rank: u32, tables: &[Batch]) -> Result<Part, Flaw> {
    let part = Part::from_tables(tables)?;
    if part.rank != rank {
        let (table, column) = ("part", "rank");
        let (expected, found) = (rank.to_string(), part.rank.to_string());
        return Err(Flaw { table, row: 0, column, expected, found });
    }
    Ok(part)
}

fn seen(list: &Batch, ranks: &[Done]) -> Result<Vec<Seen>, Flaw> {
    let cells = Cells(list);
    let (file, name, is_named) = (cells.texts("file")?, cells.texts("name")?, cells.flags("is_named")?);
    let (claim, state, rank) = (cells.opt_u32s("claim")?, cells.texts("state")?, cells.opt_u32s("rank")?);
    let (kind, text) = (cells.opt_texts("error")?, cells.opt_texts("error_text")?);
    let (hint, byte) = (cells.opt_texts("error_hint")?, cells.opt_u64s("error_byte")?);
    let (bytes, given) = (cells.opt_u64s("error_limit")?, cells.opt_flags("error_limit_given")?);
    let limit = |i: usize| Some(MemoryLimit { bytes: bytes[i]?, given: given[i]? });
    let mut mapped = std::collections::BTreeSet::new();
    let mut out = Vec::new();
    for i in 0..file.len() {
        let error = || {
            let error = kind[i].and_then(|k| error_of(file[i], k, text[i], hint[i], byte[i], limit(i)));
            error.ok_or_else(|| cells.flaw(i, "error", "why it was refused", kind[i].unwrap_or("none")))
        };
        let fate = match state[i] {
            "mapped" => {
                let known = rank[i].filter(|r| ranks.binary_search_by_key(r, |d| d.rank).is_ok() && mapped.insert(*r));
                Fate::Mapped(
                    known.ok_or_else(|| cells.flaw(i, "rank", "one of the ranks, once", format!("{:?}", rank[i])))?,
                )
            }
            "refused_at_head" => Fate::RefusedAtHead(error()?),
            "refused" => Fate::Refused(error()?),
            "left_out" => Fate::LeftOut,
            other => return Err(cells.flaw(i, "state", "what became of the file", format!("`{other}`"))),
        };
        let input = Input { path: PathBuf::from(name[i]), shown: file[i].to_string(), named: is_named[i] };
        out.push(Seen { input, claim: claim[i], fate });
    }
    if mapped.len() != ranks.len() {
        return Err(cells.flaw(file.len(), "rank", format!("files of {} ranks", ranks.len()), mapped.len()));
    }
    Ok(out)
}

/// Column that says what rank a row is of.
const RANK_COLUMN: &str = "of_rank";

/// Rows with texts of their own, in order of appearance, as the table's builder made them.
fn fresh(rows: &RecordBatch) -> Option<RecordBatch> {
    let column = |array: &ArrayRef| -> Option<ArrayRef> {
        let Some(texts) = array.as_dictionary_opt::<Int32Type>() else { return Some(array.clone()) };
        let values = texts.values().as_string_opt::<i32>()?;
        let mut fresh = Texts::default();
        for key in texts.keys() {
            match key {
                None => fresh.push(None),
                Some(key) => {
                    let key = usize::try_from(key).ok().filter(|k| *k < values.len())?;
                    fresh.push(Some(values.value(key)));
                }
            }
        }
        Some(fresh.finish())
    };
    let columns = rows.columns().iter().map(column).collect::<Option<Vec<_>>>()?;
    RecordBatch::try_new(rows.schema(), columns).ok()
}

/// Tables and how many of their rows are taken.
struct Tables(BTreeMap<(&'static str, &'static str), (Stored, usize)>);

impl Tables {
    /// The next `count` rows of a table, which must be of `rank`.
    fn take(&mut self, of: &'static str, spec: &'static TableSpec, rank: u32, count: usize) -> Result<Batch, Flaw> {
        let empty = || Batch { spec, rows: RecordBatch::new_empty(spec.schema()) };
        if count == 0 {
            return Ok(empty());
        }
        let none = empty();
        let missing = || Cells(&none).flaw(0, RANK_COLUMN, format!("{count} rows of rank {rank}"), "none");
        let (stored, at) = self.0.get_mut(&(of, spec.name)).ok_or_else(missing)?;
        let end = at.checked_add(count).filter(|e| *e <= stored.ranks.len());
        let Some(end) = end.filter(|e| stored.ranks[*at..*e].iter().all(|r| *r == rank)) else {
            let row = *at;
            return Err(Cells(&none).flaw(row, RANK_COLUMN, format!("{count} rows of rank {rank}"), "others"));
        };
        let rows = fresh(&stored.rows.slice(*at, count));
        *at = end;
        let rows = rows.ok_or_else(missing)?;
        Ok(Batch { spec, rows })
    }

    /// That every row has been taken.
    fn all_taken(&self) -> Result<(), Flaw> {
        let left = self.0.values().find(|(s, at)| *at < s.ranks.len());
        left.map_or(Ok(()), |(s, at)| {
            let (table, row) = (s.spec.name, *at);
            let (expected, found) = ("no more rows".to_string(), format!("{}", s.ranks.len() - at));
            Err(Flaw { table, row, column: RANK_COLUMN, expected, found })
        })
    }

    /// How many of the next rows are of `rank`.
    fn count(&self, spec: &'static TableSpec, rank: u32) -> usize {
        let found = self.0.get(&(SET, spec.name));
        found.map_or(0, |(s, at)| s.ranks.iter().skip(*at).take_while(|r| **r == rank).count())
    }

    /// All rows of a table of the set, whatever ranks they are of.
    fn rest(&mut self, spec: &'static TableSpec) -> Result<Batch, Flaw> {
        let rows = self.0.remove(&(SET, spec.name)).map(|(s, _)| s.rows);
        Ok(Batch { spec, rows: rows.unwrap_or_else(|| RecordBatch::new_empty(spec.schema())) })
    }

    fn of_set(&mut self, spec: &'static TableSpec, rank: u32) -> Result<Batch, Flaw> {
        let count = self.count(spec, rank);
        self.take(SET, spec, rank, count)
    }

    /// The partials of a rank, the inventory first, and the tables of its part.
    fn partials(&mut self, rank: u32) -> Result<(Vec<Partial>, Vec<Batch>), Flaw> {
        let list = self.of_set(Partials::SPEC, rank)?;
        let cells = Cells(&list);
        let (analysis, own_rank) = (cells.texts("analysis")?, cells.u32s("own_rank")?);
        let (reason, count) = (cells.opt_texts("reason")?, cells.u32s("table_count")?);
        let expected: Vec<&str> = std::iter::once(INVENTORY).chain(ANALYSES.iter().map(|a| a.stem())).collect();
        if analysis != expected {
            return Err(cells.flaw(0, "analysis", expected.join(", "), analysis.join(", ")));
        }
        let contents = self.contents(rank)?;
        let mut out = Vec::new();
        for i in 0..analysis.len() {
            let own: Vec<_> = contents.iter().filter(|c| c.0 == analysis[i]).collect();
            if own.len() != count[i] as usize {
                return Err(cells.flaw(i, "table_count", own.len(), count[i]));
            }
            let tables = own.into_iter().map(|(of, spec, n)| self.take(of, spec, rank, *n));
            let tables = tables.collect::<Result<Vec<_>, _>>()?;
            let why = |text: &str| {
                constant(text).ok_or_else(|| cells.flaw(i, "reason", "a short reason", format!("{} bytes", text.len())))
            };
            out.push(Partial { rank: own_rank[i], tables, reason: reason[i].map(why).transpose()? });
        }
        let tables = contents.iter().filter(|c| c.0 == PART).map(|(of, spec, n)| self.take(of, spec, rank, *n));
        Ok((out, tables.collect::<Result<Vec<_>, _>>()?))
    }

    fn contents(&mut self, rank: u32) -> Result<Vec<(&'static str, &'static TableSpec, usize)>, Flaw> {
        let list = self.of_set(Contents::SPEC, rank)?;
        let cells = Cells(&list);
        let (analysis, table, count) = (cells.texts("analysis")?, cells.texts("table")?, cells.u64s("row_count")?);
        let mut out = Vec::new();
        for i in 0..analysis.len() {
            let known = spec_of(analysis[i], table[i]);
            let (of, spec) = known.ok_or_else(|| cells.flaw(i, "table", "a known table", format!("`{}`", table[i])))?;
            let count = usize::try_from(count[i]).map_err(|e| cells.flaw(i, "row_count", "a number of rows", e))?;
            out.push((of, spec, count));
        }
        Ok(out)
    }

    fn health(&mut self, rank: u32, count: usize) -> Result<Health, Flaw> {
        let list = self.take(SET, Tallies::SPEC, rank, count)?;
        let cells = Cells(&list);
        let counter = cells.named("counter", |t| COUNTERS.iter().find(|c| c.name == t).map(|c| c.id))?;
        let (count, first_byte) = (cells.u64s("count")?, cells.opt_u64s("first_byte")?);
        let example = cells.texts("example")?;
        let mut health = Health::default();
        for i in 0..counter.len() {
            if health.count(counter[i]) > 0 {
                return Err(cells.flaw(i, "counter", "each once", counter[i].spec().name));
            }
            health.add(counter[i], count[i], first_byte[i], example[i]);
        }
        Ok(health)
    }
}
