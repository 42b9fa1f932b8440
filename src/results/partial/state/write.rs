//! Writes a mapped set as tables.

use crate::partial::state::{SET, spec_of};
use crate::partial::tables::{
    ContentRow, FileRow, Files, PartialContents, PartialRanks, PartialRow, Partials, Tallies,
};
use crate::run::{MappedSet, Task};
use crate::store::{PartialStore, RankRows, StoredPartial};
use hta_base::table::schema::{Batch, TableSpec};
use hta_base::table::stored::Stored;
use hta_diagnosis::registry::ANALYSES;
use hta_read::error::ReadError;
use hta_trace::meta::RankSource;
use std::collections::BTreeMap;
use std::io;

/// Passes the tables of a set to `each`, one by one. At most the tables of one analysis for all ranks are in
/// memory at once.
///
/// # Errors
/// When an analysis does not declare one of its tables, rows cannot be read back, or `each` fails.
pub fn write_state(set: &MappedSet, each: &mut EachTable) -> io::Result<()> {
    let mut own = StateTables::default();
    own.push(SET, 0, files(set))?;
    for d in &set.ranks {
        let (mut partials, mut contents) = (Partials::default(), PartialContents::default());
        for p in std::iter::once(&d.inventory).chain(&d.partials) {
            let table_count = p.tables.len() as u32;
            partials.push(PartialRow { analysis: p.of, own_rank: p.rank, reason: p.reason, table_count });
            list(&mut contents, p);
        }
        if let Some(part) = &d.part {
            list(&mut contents, part);
        }
        let mut tallies = Tallies::default();
        d.health.iter().for_each(|(counter, tally)| tallies.put((&counter, tally)));
        let defects = d.health.iter().count() as u32;
        let rank = PartialRanks::of([(d, &defects, &d.part.is_some())]);
        for batch in [rank.finish(), tallies.finish(), partials.finish(), contents.finish()] {
            own.push(SET, d.rank, batch)?;
        }
    }
    own.give(each)?;
    let store = &set.store;
    of_all_ranks(store, set.ranks.iter().map(|d| Ok((d.rank, &d.inventory))), each)?;
    for i in 0..ANALYSES.len() {
        of_all_ranks(store, set.ranks.iter().filter_map(|d| Some(Ok((d.rank, d.partials.get(i)?)))), each)?;
    }
    of_all_ranks(store, set.ranks.iter().filter_map(|d| Some(Ok((d.rank, d.part.as_ref()?)))), each)
}

/// Receives a table over all ranks: what it belongs to, its declaration and its rows.
pub(crate) type EachTable<'a> =
    dyn FnMut(&'static str, &'static TableSpec, &[RankRows]) -> io::Result<()> + 'a;

fn list(contents: &mut PartialContents, partial: &StoredPartial) {
    for place in &partial.tables {
        contents.push(ContentRow {
            analysis: partial.of,
            table: place.spec.name,
            row_count: place.row_count as u64,
        });
    }
}

/// Passes on the tables of one analysis for all ranks.
fn of_all_ranks<'a>(
    store: &PartialStore,
    partials: impl Iterator<Item = io::Result<(u32, &'a StoredPartial)>>,
    each: &mut EachTable,
) -> io::Result<()> {
    let (ranks, stored): (Vec<u32>, Vec<&StoredPartial>) =
        partials.collect::<io::Result<Vec<_>>>()?.into_iter().unzip();
    let mut tables = StateTables::default();
    for ((rank, stored), partial) in ranks.into_iter().zip(&stored).zip(store.open(&stored)?) {
        partial.tables.into_iter().try_for_each(|batch| tables.push(stored.of, rank, batch))?;
    }
    tables.give(each)
}

/// Tables over several ranks, by what they belong to and by name.
#[derive(Default)]
struct StateTables(BTreeMap<(&'static str, &'static str), (&'static TableSpec, Vec<RankRows>)>);

impl StateTables {
    fn push(&mut self, of: &'static str, rank: u32, batch: Batch) -> io::Result<()> {
        let name = batch.spec.name;
        let known = spec_of(of, name);
        let (of, spec) =
            known.ok_or_else(|| io::Error::other(format!("`{of}` does not declare its table `{name}`")))?;
        if !batch.is_empty() {
            let rows = RankRows { ranks: vec![rank; batch.len()], rows: batch.rows() };
            self.0.entry((of, name)).or_insert_with(|| (spec, Vec::new())).1.push(rows);
        }
        Ok(())
    }

    fn give(self, each: &mut EachTable) -> io::Result<()> {
        self.0.into_iter().try_for_each(|((of, _), (spec, rows))| each(of, spec, &rows))
    }
}

fn files(set: &MappedSet) -> Batch {
    let mut table = Files::default();
    let heads = set.claims.refused.iter().flatten().count();
    // `refused` lists the files that were refused at their heads first, then those of the tasks, in the order
    // of the tasks.
    let mut late = set.refused.iter().skip(heads);
    let mut at_read: BTreeMap<usize, Option<&ReadError>> = BTreeMap::new();
    for t in &set.tasks {
        let is_mapped = set.ranks.binary_search_by_key(&t.rank, |d| d.rank).is_ok();
        at_read.insert(t.input, if is_mapped { None } else { late.next().map(|r| &r.error) });
    }
    let task_of: BTreeMap<usize, &Task> = set.tasks.iter().map(|t| (t.input, t)).collect();
    // The rank in the file may have come after the events, so that reading the head did not find it.
    let in_file = |task: &&Task| {
        let found = set.ranks.binary_search_by_key(&task.rank, |d| d.rank);
        found.ok().and_then(|at| set.ranks.get(at)).is_some_and(|d| d.source == RankSource::File)
    };
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
            claim: match task_of.get(&i).copied().filter(in_file) {
                Some(task) => Some(task.own_rank()),
                None => set.claims.ranks.get(i).copied().flatten(),
            },
            world_size: set.claims.worlds.get(i).copied().flatten(),
            role: input.role.as_ref().map(|role| role.name.as_str()),
            replica: input.role.as_ref().and_then(|role| role.replica),
            state,
            rank: if state == "mapped" { task_of.get(&i).map(|t| t.rank) } else { None },
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

/// Kind, text, hint and byte of an error. The counters of a file without events are dropped, because nothing
/// shows them.
fn error_parts(error: &ReadError) -> ErrorParts {
    match error {
        ReadError::Io { source, .. } => (Some("io"), Some(source.to_string()), None, None),
        ReadError::Empty { .. } => (Some("empty"), None, None, None),
        ReadError::NotATrace { what, hint, is_known, .. } => {
            let kind = if *is_known { "other_format" } else { "not_a_trace" };
            (Some(kind), Some((*what).to_string()), Some(hint), None)
        }
        ReadError::OtherDatabase { tables, .. } => (Some("other_database"), Some(tables.clone()), None, None),
        ReadError::FrontEnd { .. } => (Some("front_end"), None, None, None),
        ReadError::Merged { what, .. } => (Some("merged"), Some(what.clone()), None, None),
        ReadError::MergedCopy { .. } => (Some("merged_copy"), None, None, None),
        ReadError::TwinOfJson { .. } => (Some("twin_of_json"), None, None, None),
        ReadError::WithoutRank { .. } => (Some("without_rank"), None, None, None),
        ReadError::OtherEvents { categories, .. } => {
            (Some("other_events"), Some(categories.clone()), None, None)
        }
        ReadError::NothingRecorded { what, .. } => (Some("nothing_recorded"), Some(what.clone()), None, None),
        ReadError::UnknownContent { what, .. } => (Some("unknown_content"), Some(what.clone()), None, None),
        ReadError::Damaged { reason, .. } => (Some("damaged"), Some(reason.clone()), None, None),
        ReadError::Cut { .. } => (Some("cut"), None, None, None),
        ReadError::NoEvents { .. } => (Some("no_events"), None, None, None),
        ReadError::TooLarge { needs, .. } => (Some("too_large"), None, None, *needs),
        ReadError::Dump { problem, hint, .. } => (Some("dump"), Some(problem.clone()), *hint, None),
        ReadError::Interleaved { byte, .. } => (Some("interleaved"), None, None, Some(*byte)),
    }
}
