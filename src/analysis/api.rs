//! The contract of an analysis: map one rank to bounded data, reduce all ranks to tables and findings.

use crate::analysis::settings::{Setting, Settings};
use crate::facts::collectives::collectives;
use crate::job::{ClockMode, Job};
use crate::table::schema::{Batch, TableSpec};
use crate::trace::rank_trace::{ModelOptions, RankTrace};
use crate::units::Ns;
use serde::Serialize;

/// What all analyses are told.
pub struct Options {
    pub model: ModelOptions,
    /// Below this length, a wait after the launch call is a kernel wait, ns.
    pub kernel_wait_max: Ns,
    /// Rows that are printed; tables are never shortened.
    pub top: usize,
    pub across: AcrossOptions,
    /// Options that analyses declare themselves.
    pub settings: Settings,
    pub wanted: Wanted,
}

/// Row tables that the caller keeps; an analysis need not make the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wanted {
    #[default]
    All,
    /// Not those with a row for every event.
    NoEvents,
    /// One table.
    Only(&'static str),
}

impl Options {
    /// The rows of a table per window that are printed: those of the steps asked for, else those of `whole`.
    pub fn printed_scope(&self, whole: &'static str) -> &'static str {
        if self.model.steps.is_some() { "step" } else { whole }
    }

    /// Whether a row table is kept.
    pub fn wants(&self, spec: &TableSpec) -> bool {
        match self.wanted {
            Wanted::All | Wanted::NoEvents => true,
            Wanted::Only(name) => name == spec.name,
        }
    }

    /// Whether a table with a row for every event is kept.
    pub fn wants_per_event(&self, spec: &TableSpec) -> bool {
        self.wanted != Wanted::NoEvents && self.wants(spec)
    }
}

/// What the analyses across ranks are told.
#[derive(Debug, Clone)]
pub struct AcrossOptions {
    pub clock: ClockMode,
    /// Gain from which a rank is named, percent of the median step.
    pub straggler_min_pct: f64,
    /// Process groups to answer for, by name or description; all when empty.
    pub groups: Vec<String>,
}

impl Default for AcrossOptions {
    fn default() -> Self {
        Self { clock: ClockMode::default(), straggler_min_pct: 5.0, groups: Vec::new() }
    }
}

/// One rank's bounded contribution.
#[derive(Debug, Clone, Default)]
pub struct Partial {
    pub rank: u32,
    pub tables: Vec<Batch>,
    /// Why there are no rows.
    pub reason: Option<&'static str>,
}

impl Partial {
    /// For an analysis that reads the joined ranks: nothing of its own, and why it will have no rows of this rank.
    pub fn joined_later(trace: &RankTrace) -> Self {
        let reason = collectives(trace).calls.is_empty().then_some("no collectives recorded");
        Self { rank: trace.rank, tables: Vec::new(), reason }
    }

    /// The rank's rows of a table.
    pub fn table(&self, spec: &TableSpec) -> Option<&Batch> {
        self.tables.iter().find(|b| b.spec.name == spec.name)
    }
}

/// Takes rows of tables that are not kept: a whole table or, of a long one, piece by piece while the others are made.
pub type Give<'a> = dyn FnMut(Batch) + 'a;

/// How sure a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// Follows from recorded times alone.
    Measured,
    /// Rests on an interpretation that the sentence names.
    Inferred,
}

/// Something a person can act on.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    pub analysis: &'static str,
    pub ranks: Vec<u32>,
    /// Labels of the steps it is about; empty: all, or there are none.
    pub steps: Vec<String>,
    /// What it costs, ns per step (or per window where there are no steps).
    pub cost_ns_per_step: Ns,
    /// The same as a share of the step.
    pub share_of_step: Option<f64>,
    pub certainty: Certainty,
    pub sentence: String,
    /// Table with the rows it stands on.
    pub table: &'static str,
}

/// How a column of a view is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

/// A small table for people: strings, ready to be set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    pub title: String,
    pub columns: Vec<(&'static str, Align)>,
    pub rows: Vec<Vec<String>>,
    /// Lines below the table.
    pub notes: Vec<String>,
}

/// What `reduce` gives.
#[derive(Debug, Clone, Default)]
pub struct Output {
    pub tables: Vec<Batch>,
    pub findings: Vec<Finding>,
    pub views: Vec<View>,
    /// Stands for views and findings on standard output, as it is: folded stacks, say.
    pub raw: Option<String>,
}

/// One analysis. Adding one is a new file and a line in the registry.
pub trait Analysis: Sync {
    /// Subcommand, file and section. An answer in other definitions has that of the analysis it stands for.
    fn stem(&self) -> &'static str;
    /// One line for `hta list`.
    fn title(&self) -> &'static str;
    /// What it measures, formulas, and when it misleads: the page of `hta explain`.
    fn explain(&self) -> &'static str;
    /// Tables it writes; the subcommand prints the first.
    fn tables(&self) -> &'static [&'static TableSpec];
    /// Tables that only its partials hold, for reducing: those are written where partials are.
    fn kept_tables(&self) -> &'static [&'static TableSpec] {
        &[]
    }
    /// Options of its own.
    fn settings(&self) -> &'static [Setting] {
        &[]
    }
    /// Whether it needs the arguments that otherwise only the `events` table shows.
    fn reads_event_args(&self, _options: &Options) -> bool {
        false
    }
    /// One rank. Pure, so ranks run in parallel. What is returned is kept until all ranks are joined, so it is bounded;
    /// tables with a row for every kernel, launch or gap go to `give`.
    fn map(&self, trace: &RankTrace, options: &Options, give: &mut Give) -> Partial;
    /// Whether mapping takes longer, or more memory, than most others do: it is then started first.
    fn is_long(&self) -> bool {
        false
    }
    /// The other tool in whose definitions it answers; `None`: they are hta's own.
    fn definitions(&self) -> Option<&'static str> {
        None
    }
    /// Whether a trace is refused in which no event is of a kind that hta knows.
    fn needs_known_events(&self) -> bool {
        true
    }
    /// Index and label of the steps that `--steps` chooses from; `None` where they are those of the trace.
    fn steps(&self, _trace: &RankTrace) -> Option<Vec<(u32, Option<i64>)>> {
        None
    }
    /// Whether the text of one of its settings selects something of a rank; `None` where the usual rule of the setting
    /// says so.
    fn selects(&self, _trace: &RankTrace, _setting: &Setting, _text: &str) -> Option<bool> {
        None
    }
    /// Whether `--steps` changes its answer.
    fn takes_steps(&self) -> bool {
        self.definitions().is_none()
    }
    /// Whether `--group` changes its answer.
    fn takes_groups(&self) -> bool {
        false
    }
    /// Whether it compares ranks: only then are they joined.
    fn joins_ranks(&self) -> bool {
        false
    }
    /// Whether it says more where several ranks are joined: a run of one rank does not pay for it.
    fn joins_peers(&self) -> bool {
        false
    }
    /// All ranks, in order of rank. `job` may have no ranks unless this analysis joins them.
    fn reduce(&self, partials: &[Partial], job: &Job, options: &Options) -> Output;
}
