//! A mapped set from its tables. Any tables give a set or a flaw.

use crate::analysis::registry::ANALYSES;
use crate::error::ReadError;
use crate::health::{COUNTERS, Health};
use crate::job::Part;
use crate::partial::constant::constant;
use crate::partial::state::{ERAS, SET, SOURCES, spec_of};
use crate::partial::tables::{Contents, Files, MappedRanks, Partials, Tallies};
use crate::read::input::Input;
use crate::run::Done;
use crate::store::{INVENTORY, PART, PartialStore, Place, RANK, StateTable, StoredPartial};
use crate::table::checked::{Cells, Flaw};
use crate::table::schema::{Batch, TableSpec};
use crate::units::MemoryLimit;
use arrow::array::RecordBatch;
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
    /// In order of rank. Their rows are those of `tables` until these are moved into a store.
    pub ranks: Vec<Done>,
    tables: Vec<StateTable>,
}

impl State {
    /// Moves what the ranks left into a store.
    ///
    /// # Errors
    /// When rows cannot be spooled.
    pub fn move_into(&mut self, store: &PartialStore) -> io::Result<()> {
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

/// Files and ranks from their tables.
///
/// # Errors
/// The first cell that cannot be.
pub fn state(stored: Vec<StateTable>) -> Result<State, Flaw> {
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
        return Err(cells.flaw(i, RANK, rank[i], "another rank"));
    }
    let mut ranks = Vec::new();
    for (i, &rank) in rank.iter().enumerate() {
        let (partials, part) = tables.partials(rank, has_part[i])?;
        let mut partials = partials.into_iter();
        let inventory = partials.next().ok_or_else(|| cells.flaw(i, "rank", "its inventory", "none"))?;
        ranks.push(Done {
            rank,
            source: source[i],
            file: file[i].to_string(),
            partials: partials.collect(),
            inventory,
            part,
            health: tables.health(rank, defects[i] as usize)?,
            era: era[i],
            base: base[i],
            world: world[i],
            unpacked: unpacked[i],
        });
    }
    let files = seen(&tables.rest(Files::SPEC)?, &ranks)?;
    tables.all_taken()?;
    Ok(State { files, ranks, tables: tables.0.into_values().map(|(table, _)| table).collect() })
}

fn check_part(rank: u32, tables: &[Batch]) -> Result<(), Flaw> {
    let part = Part::from_tables(tables)?;
    if part.rank != rank {
        let (table, column) = ("part", "rank");
        let (expected, found) = (rank.to_string(), part.rank.to_string());
        return Err(Flaw { table, row: 0, column, expected, found });
    }
    Ok(())
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

/// Tables and how many of their rows are taken.
struct Tables(BTreeMap<(&'static str, &'static str), (StateTable, usize)>);

impl Tables {
    /// The next `count` rows of a table, which must be of `rank`.
    fn take(
        &mut self,
        of: &'static str,
        spec: &'static TableSpec,
        rank: u32,
        count: usize,
    ) -> Result<(Place, Batch), Flaw> {
        let none = Batch { spec, rows: RecordBatch::new_empty(spec.schema()) };
        if count == 0 {
            return Ok((Place { spec, first_row: 0, row_count: 0 }, none));
        }
        let missing = || Cells(&none).flaw(0, RANK, format!("{count} rows of rank {rank}"), "none");
        let (stored, at) = self.0.get_mut(&(of, spec.name)).ok_or_else(missing)?;
        let (ranks, first_row) = (&stored.ranks, *at);
        let end = first_row.checked_add(count).filter(|e| *e <= ranks.len());
        let Some(end) = end.filter(|e| ranks[first_row..*e].iter().all(|r| *r == rank)) else {
            return Err(Cells(&none).flaw(first_row, RANK, format!("{count} rows of rank {rank}"), "others"));
        };
        *at = end;
        let rows = stored.rows.slice(first_row, count);
        Ok((Place { spec, first_row, row_count: count }, Batch { spec, rows }))
    }

    /// That every row has been taken.
    fn all_taken(&self) -> Result<(), Flaw> {
        let left = self.0.values().find(|(s, at)| *at < s.ranks.len());
        left.map_or(Ok(()), |(s, at)| {
            let (table, row) = (s.spec.name, *at);
            let (expected, found) = ("no more rows".to_string(), format!("{}", s.ranks.len() - at));
            Err(Flaw { table, row, column: RANK, expected, found })
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
        Ok(self.take(SET, spec, rank, count)?.1)
    }

    /// The partials of a rank, the inventory first, and its part.
    fn partials(&mut self, rank: u32, has_part: bool) -> Result<(Vec<StoredPartial>, Option<StoredPartial>), Flaw> {
        let list = self.of_set(Partials::SPEC, rank)?;
        let cells = Cells(&list);
        let (analysis, own_rank) = (cells.texts("analysis")?, cells.u32s("own_rank")?);
        let (reason, count) = (cells.opt_texts("reason")?, cells.u32s("table_count")?);
        let expected: Vec<&'static str> = std::iter::once(INVENTORY).chain(ANALYSES.iter().map(|a| a.stem())).collect();
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
            let places = own.into_iter().map(|(of, spec, n)| Ok(self.take(of, spec, rank, *n)?.0));
            let tables = places.collect::<Result<Vec<_>, _>>()?;
            let why = |text: &str| {
                constant(text).ok_or_else(|| cells.flaw(i, "reason", "a short reason", format!("{} bytes", text.len())))
            };
            out.push(StoredPartial {
                of: expected[i],
                rank: own_rank[i],
                tables,
                reason: reason[i].map(why).transpose()?,
            });
        }
        let taken = contents.iter().filter(|c| c.0 == PART).map(|(of, spec, n)| self.take(of, spec, rank, *n));
        let (tables, batches): (Vec<Place>, Vec<Batch>) = taken.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
        if !has_part {
            return Ok((out, None));
        }
        check_part(rank, &batches)?;
        Ok((out, Some(StoredPartial { of: PART, rank, reason: None, tables })))
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
        let (_, list) = self.take(SET, Tallies::SPEC, rank, count)?;
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
