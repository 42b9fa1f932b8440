//! What a run leaves: what one rank left, what all left, and the answers.

use crate::results::{Results, ResultsError, SaidOfRun};
use crate::run::claims::{RankClaims, Task};
use crate::run::error::{Refused, is_loss};
use crate::store::{PartialStore, StoredPartial};
use hta_analysis::api::{Analysis, Options, Output, Partial};
use hta_analysis::inventory;
use hta_base::health::{Counter, Health};
use hta_base::table::schema::Batch;
use hta_job::Clock;
use hta_job::recording::Recording;
use hta_job::recording::capability::Capability;
use hta_job::recording::limit::Limit;
use hta_read::files::Location;
use hta_read::input::Input;
use hta_trace::meta::{RankSource, TimeEra};
use std::sync::Arc;

/// What a run found.
pub struct Outcome {
    /// Partials of the inventory (ranks, health, kernel rules), in order of rank.
    pub inventory: Vec<Partial>,
    /// Answers of the analyses, in the order of the request, without the tables that the sink has moved out.
    pub outputs: Vec<(&'static dyn Analysis, Output)>,
    pub refused: Vec<Refused>,
    /// Counters of the set as a whole.
    pub(crate) set_health: Health,
    /// Rank, file and counters of each rank.
    pub rank_health: Vec<(u32, String, Health)>,
    pub(crate) unpacked_bytes: u64,
    /// Clocks of the ranks, if an analysis joined them.
    pub clocks: Vec<(u32, Clock)>,
    /// What was recorded, and what may be said from it.
    pub recording: Arc<Recording>,
}

impl Outcome {
    /// Whether some input could not be used: a lost event, or a refused file that counts as a loss.
    pub fn has_loss(&self) -> bool {
        is_loss(&self.refused) || self.rank_health.iter().any(|(_, _, h)| h.has_loss())
    }

    /// What is withheld of what was asked for: of the verdict, or without one of all analyses.
    pub fn withheld(&self) -> Option<&Limit> {
        let has_verdict = self.outputs.iter().any(|(_, o)| o.verdict.is_some());
        let asked = self.outputs.iter().filter(|(_, o)| o.verdict.is_some() || !has_verdict);
        let needs: Vec<Capability> =
            asked.flat_map(|(analysis, _)| analysis.about().needs).copied().collect();
        self.recording.withheld(&needs)
    }

    /// The `health` table: the set's counters, then each rank's, then the refused files.
    pub fn health_table(&self) -> Batch {
        let mut table = inventory::HealthTable::default();
        inventory::push_health(&mut table, None, "", &self.set_health);
        for (rank, file, health) in &self.rank_health {
            inventory::push_health(&mut table, Some(*rank), file, health);
        }
        for r in &self.refused {
            table.push(inventory::HealthRow {
                rank: None,
                file: &r.input.shown,
                counter: Counter::FileRefused.spec().name,
                severity: if r.is_loss() { "fatal" } else { "info" },
                count: 1,
                first_byte: None,
                example: None,
                description: &r.error.to_string(),
            });
        }
        table.finish()
    }

    /// The tables of the run as results in memory: those that the sink has left here, and the rows that it
    /// has kept.
    pub fn results(&self, place: impl Into<Location>, rows: Vec<Batch>) -> Results {
        let tables = self.outputs.iter().flat_map(|(_, output)| &output.tables);
        let tables = self.inventory.iter().flat_map(|p| &p.tables).chain(tables).cloned();
        Results::in_memory(place, tables.chain(rows))
    }

    /// Makes the declared views of all analyses, of the tables in `results`, which are those of this run.
    ///
    /// # Errors
    /// When a table is damaged.
    pub fn show(&mut self, results: &Results, options: &Options) -> Result<(), ResultsError> {
        let said = SaidOfRun::read(results)?;
        for (analysis, output) in &mut self.outputs {
            output.shown = said.shown(results, &analysis.about(), options)?;
        }
        Ok(())
    }

    pub fn ranks(&self) -> Vec<u32> {
        self.inventory.iter().map(|p| p.rank).collect()
    }
}

/// The results of mapping one rank.
pub struct RankResults {
    pub rank: u32,
    pub(crate) source: RankSource,
    pub(crate) file: String,
    /// By analysis of the run.
    pub(crate) partials: Box<[StoredPartial]>,
    pub(crate) inventory: StoredPartial,
    /// For the analyses that compare ranks, where the run has one.
    pub(crate) part: Option<StoredPartial>,
    pub(crate) health: Health,
    pub(crate) era: TimeEra,
    /// `baseTimeNanoseconds`, which was added to the times, ns.
    pub(crate) base: Option<i64>,
    /// World size, ranks.
    pub(crate) world: Option<u32>,
    /// Size of the JSON text, bytes.
    pub(crate) unpacked: u64,
    /// The front end of an engine, mapped because no other file was there: with other ranks it is left out.
    pub(crate) is_front_end: bool,
}

/// The results of mapping some files of a job: everything that [`reduce`](crate::run::reduce) needs.
pub struct MappedSet {
    /// The input files, in natural order.
    pub(crate) inputs: Vec<Input>,
    pub(crate) claims: RankClaims,
    /// Files that were read or tried, in order of rank.
    pub(crate) tasks: Vec<Task>,
    /// Ranks that were mapped, in order of rank.
    pub ranks: Vec<RankResults>,
    /// Their partials.
    pub(crate) store: PartialStore,
    /// Files that are no traces, in order of the files; then those that turned out unreadable, in order of
    /// rank.
    pub refused: Vec<Refused>,
}

impl MappedSet {
    /// Whether some input could not be used, as in [`Outcome::has_loss`].
    pub fn has_loss(&self) -> bool {
        is_loss(&self.refused) || self.ranks.iter().any(|d| d.health.has_loss())
    }
}
