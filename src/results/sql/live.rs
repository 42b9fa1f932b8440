//! Tables made from traces for one statement. Only the analyses whose tables the statement names are run, and
//! only the columns that it needs are kept, in memory. Rows and their order are those of `hta analyze`.

use crate::output::events;
use crate::results::{EVENTS, declared, declared_tables};
use crate::run::{Outcome, RowSink};
use crate::sql::QueryError;
use crate::sql::load::GrowingFrame;
use crate::sql::results::no_table;
use crate::sql::statement::Statement;
use arrow_array::RecordBatch;
use hta_analysis::api::{Analysis, Output, Wanted};
use hta_analysis::inventory;
use hta_analysis::inventory::without_rows::WithoutRows;
use hta_analysis::inventory::{HealthTable, Ranks};
use hta_base::table::schema::Batch;
use hta_diagnosis::registry::ANALYSES;
use hta_trace::rank_trace::RankTrace;
use polars::prelude::{IntoLazy, LazyFrame};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub fn names() -> Vec<String> {
    let names: BTreeSet<String> =
        declared_tables().map(|s| s.name.to_string()).chain([EVENTS.to_string()]).collect();
    names.into_iter().collect()
}

/// The columns of a table; empty if there is no such table.
pub fn columns(table: &str) -> Vec<String> {
    if table == EVENTS {
        return events::schema(false).fields().iter().map(|f| f.name().clone()).collect();
    }
    let spec = declared(table);
    spec.iter().flat_map(|s| s.columns.iter().map(|c| c.name.to_string())).collect()
}

/// The tables that a statement needs from traces, and the rows collected for them.
pub struct Live {
    wanted: Vec<LiveTable>,
    kept: Mutex<KeptRowsOfRun>,
}

struct LiveTable {
    name: String,
    columns: Vec<String>,
}

#[derive(Default)]
struct KeptRowsOfRun {
    /// Rows by table, in order of rank.
    rows: BTreeMap<String, Vec<RecordBatch>>,
    /// Events by rank, because ranks arrive in any order.
    events: BTreeMap<u32, RecordBatch>,
}

impl Live {
    /// # Errors
    /// When no analysis makes one of the statement's tables.
    pub fn new(statement: &Statement) -> Result<Self, QueryError> {
        let table = |name: &String| {
            let all = columns(name);
            if all.is_empty() {
                return Err(no_table(name, "these traces".to_string(), names()));
            }
            let all: Vec<&str> = all.iter().map(String::as_str).collect();
            let columns = statement.columns(&all).into_iter().map(str::to_string).collect();
            Ok(LiveTable { name: name.clone(), columns })
        };
        let wanted = statement.tables.iter().map(table).collect::<Result<_, _>>()?;
        Ok(Self { wanted, kept: Mutex::default() })
    }

    fn find(&self, name: &str) -> Option<&LiveTable> {
        self.wanted.iter().find(|t| t.name == name)
    }

    /// Whether the statement needs events and their arguments.
    pub fn needs_events(&self) -> bool {
        self.find(EVENTS).is_some()
    }

    /// The analyses that make the statement's tables, in the order of the registry.
    pub fn analyses(&self) -> Vec<&'static dyn Analysis> {
        // It tells of every analysis why it has no rows.
        let all = self.find(WithoutRows::SPEC.name).is_some();
        let makes = |a: &&dyn Analysis| all || a.tables().iter().any(|t| self.find(t.name).is_some());
        let mut analyses: Vec<_> = ANALYSES.iter().copied().filter(makes).collect();
        // The table of ranks contains clock offsets, which only an analysis that compares ranks computes.
        if self.find(Ranks::SPEC.name).is_some() && !analyses.iter().any(|a| a.about().joins_ranks) {
            analyses.extend(ANALYSES.iter().copied().find(|a| a.about().joins_ranks));
        }
        analyses
    }

    /// The tables with rows per event that the analyses have to make.
    pub fn rows_wanted(&self) -> Wanted {
        let made = |t: &LiveTable| declared(&t.name).map(|s| s.name);
        match self.wanted.iter().filter_map(made).collect::<Vec<_>>().as_slice() {
            [one] => Wanted::Only(one),
            _ => Wanted::All,
        }
    }

    /// The complete tables, including those that are known only after all ranks have been mapped.
    ///
    /// # Errors
    /// When Polars refuses a column.
    pub fn tables(self, outcome: &Outcome) -> Result<Vec<(String, LazyFrame)>, QueryError> {
        let mut kept = self.kept.into_inner().unwrap_or_else(PoisonError::into_inner);
        let health = outcome.health_table();
        let mut tables = Vec::new();
        for table in self.wanted {
            let mut rows = kept.rows.remove(&table.name).unwrap_or_default();
            if table.name == EVENTS {
                rows.extend(std::mem::take(&mut kept.events).into_values());
            } else if table.name == HealthTable::SPEC.name {
                rows.extend(table.pick(&health.rows()));
            } else if let Some(spec) = inventory::TABLES.iter().find(|s| s.name == table.name) {
                rows.extend(
                    outcome
                        .inventory
                        .iter()
                        .filter_map(|p| p.table(spec))
                        .filter_map(|b| table.pick(&b.rows())),
                );
            }
            let schema = match declared(&table.name) {
                Some(spec) => spec.schema(),
                None => events::schema(false),
            };
            let fields = schema.fields().iter().filter(|f| table.columns.contains(f.name()));
            let kinds = fields.map(|f| (f.name().as_str(), f.data_type()));
            let mut growing = GrowingFrame::new(&format!("the table {}", table.name), kinds)?;
            for batch in rows {
                growing.push(&batch)?;
            }
            tables.push((table.name, growing.finish()?.lazy()));
        }
        Ok(tables)
    }

    fn kept(&self) -> MutexGuard<'_, KeptRowsOfRun> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, batches: &[Batch]) {
        for batch in batches {
            if let Some(rows) = self.find(batch.spec.name).and_then(|t| t.pick(&batch.rows())) {
                self.kept().rows.entry(batch.spec.name.to_string()).or_default().push(rows);
            }
        }
    }
}

impl LiveTable {
    /// The needed columns of a batch; `None` if it has no rows.
    fn pick(&self, rows: &RecordBatch) -> Option<RecordBatch> {
        let fields = rows.schema_ref().fields();
        let wanted: Vec<usize> =
            (0..fields.len()).filter(|&i| self.columns.contains(fields[i].name())).collect();
        rows.project(&wanted).ok().filter(|r| r.num_rows() > 0)
    }
}

impl RowSink for Live {
    fn rows(&self, rows: Batch) -> io::Result<()> {
        self.keep(&[rows]);
        Ok(())
    }

    fn reduced(&self, _: &dyn Analysis, output: &mut Output) -> io::Result<()> {
        self.keep(&std::mem::take(&mut output.tables));
        Ok(())
    }

    fn trace(&self, trace: &RankTrace) -> io::Result<()> {
        if let Some(table) = self.find(EVENTS) {
            let rows =
                events::rows(trace, |c| table.columns.iter().any(|w| w == c)).map_err(io::Error::other)?;
            self.kept().events.insert(trace.rank, rows);
        }
        Ok(())
    }

    fn void(&self) -> io::Result<()> {
        *self.kept() = KeptRowsOfRun::default();
        Ok(())
    }
}
