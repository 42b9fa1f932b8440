//! The interface of an analysis: `map` reduces one rank to bounded data, `reduce` turns the data of all ranks
//! into tables, and `sentences` says what they show.

use crate::printed::View;
use crate::settings::{Setting, Settings};
use crate::verdict::JobVerdict;
use hta_base::table::rollup::Rollup;
use hta_base::table::schema::{Batch, ColumnsOf, Table, TableSpec};
use hta_base::table::view::ViewSpec;
use hta_base::table::view_rows::ViewRows;
use hta_base::units::Ns;
use hta_facts::collectives::collectives;
use hta_job::recording::capability::{Capability, Grade};
use hta_job::{ClockMode, Job, MeshShape};
use hta_trace::flops::peaks::Peaks;
use hta_trace::rank_trace::{ModelOptions, RankTrace};
use std::collections::BTreeSet;

/// Options of all analyses.
pub struct Options {
    pub model: ModelOptions,
    /// Peak rates of devices.
    pub peaks: Peaks,
    /// A wait after the launch call that is shorter than this is a kernel wait, ns.
    pub kernel_wait_max: Ns,
    /// Number of rows printed; tables are never shortened.
    pub top: usize,
    pub across: AcrossOptions,
    /// Options that analyses declare themselves.
    pub settings: Settings,
    pub wanted: Wanted,
}

/// Longest wait after a launch that counts as kernel wait, ns.
pub const KERNEL_WAIT_MAX: Ns = 30_000;

/// Rows of each table that are printed.
pub const TOP: usize = 16;

impl Default for Options {
    /// The options of a command without arguments.
    fn default() -> Self {
        Self {
            model: ModelOptions::default(),
            peaks: Peaks::builtin().clone(),
            kernel_wait_max: KERNEL_WAIT_MAX,
            top: TOP,
            across: AcrossOptions::default(),
            settings: Settings::default(),
            wanted: Wanted::default(),
        }
    }
}

/// Which tables with rows per event the caller keeps; an analysis need not make the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wanted {
    #[default]
    All,
    /// All except tables with a row for every event.
    NoEvents,
    /// Only this table.
    Only(&'static str),
}

impl Options {
    /// The scope whose rows are printed: `step` if the user selected steps, else `whole`.
    pub(crate) fn printed_scope(&self, whole: &'static str) -> &'static str {
        if self.model.steps.is_some() { "step" } else { whole }
    }

    /// Whether the caller keeps this table.
    pub fn wants(&self, spec: &TableSpec) -> bool {
        match self.wanted {
            Wanted::All | Wanted::NoEvents => true,
            Wanted::Only(name) => name == spec.name,
        }
    }

    /// Whether the caller keeps this table, which has a row for every event.
    pub(crate) fn wants_per_event(&self, spec: &TableSpec) -> bool {
        self.wanted != Wanted::NoEvents && self.wants(spec)
    }
}

/// Options of the analyses that compare ranks.
#[derive(Debug, Clone)]
pub struct AcrossOptions {
    pub clock: ClockMode,
    /// Smallest gain for which a rank is named, percent of the median step.
    pub straggler_min_pct: f64,
    /// Process groups to report, by name or description; all if empty.
    pub groups: Vec<String>,
    /// Take files for ranks of one job although they look like captures of one process, or like two jobs.
    pub by_position: bool,
    /// The mesh of the job, if it is told.
    pub mesh: Option<MeshShape>,
    /// Whether the ranks are chosen by their coordinates in it.
    pub chooses_by_mesh: bool,
}

/// An option that changes the results of some analyses only. Given to another one it is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcrossOption {
    /// `--group`
    Group,
    /// `--straggler-min-pct`
    StragglerMin,
    /// `--kernel-wait-max-us`
    KernelWaitMax,
}

impl AcrossOption {
    pub const ALL: [AcrossOption; 3] = [Self::Group, Self::StragglerMin, Self::KernelWaitMax];
}

/// Smallest gain for which a rank is named, percent of the median step.
pub const STRAGGLER_MIN_PCT: f64 = 2.0;

impl Default for AcrossOptions {
    fn default() -> Self {
        Self {
            clock: ClockMode::default(),
            straggler_min_pct: STRAGGLER_MIN_PCT,
            groups: Vec::new(),
            by_position: false,
            mesh: None,
            chooses_by_mesh: false,
        }
    }
}

/// One rank's bounded contribution.
#[derive(Debug, Clone, Default)]
pub struct Partial {
    pub rank: u32,
    pub tables: Vec<Batch>,
    /// The reason why there are no rows, if there are none.
    pub reason: Option<&'static str>,
}

impl Partial {
    /// For an analysis that uses only the joined ranks: an empty partial, with the reason if it will have no
    /// rows of this rank.
    pub(crate) fn joined_later(trace: &RankTrace) -> Self {
        let reason = collectives(trace).calls.is_empty().then_some("no collectives recorded");
        Self { rank: trace.rank, tables: Vec::new(), reason }
    }

    pub fn table(&self, spec: &TableSpec) -> Option<&Batch> {
        self.tables.iter().find(|b| b.spec.name == spec.name)
    }

    /// The columns of the rank's rows of a table.
    pub(crate) fn columns<T: Table>(&self) -> Option<ColumnsOf<'_, T>> {
        self.table(T::SPEC).map(T::read)
    }

    /// The rank's rows of a table; empty if it has no such table.
    pub fn rows<T: Table>(&self) -> impl Iterator<Item = T::Row<'_>> {
        self.table(T::SPEC).into_iter().flat_map(T::rows)
    }
}

/// The rows of a table, for all ranks.
pub fn rows<T: Table>(partials: &[Partial]) -> impl Iterator<Item = T::Row<'_>> {
    partials.iter().flat_map(Partial::rows::<T>)
}

/// Receives rows of tables that are not kept in memory: a whole table, or a long one piece by piece.
pub type RowEmitter<'a> = dyn FnMut(Batch) + 'a;

/// A file that the user's options name, for the command to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputFile {
    pub path: String,
    pub text: String,
}

/// A line below a view that follows from more than its table: from the job, or from the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewNote {
    /// Title of the view; empty: the first that is printed.
    pub view: &'static str,
    pub text: String,
}

impl ViewNote {
    /// A line below the first view.
    pub fn first(text: String) -> Self {
        Self { view: "", text }
    }
}

/// The result of `reduce`.
#[derive(Debug, Clone, Default)]
pub struct Output {
    pub tables: Vec<Batch>,
    /// What is printed of two runs beside each other, and in the format of another tool.
    pub views: Vec<View>,
    /// What answers its question, above its views.
    pub sentences: Vec<String>,
    /// Lines below its views that no table has.
    pub notes: Vec<ViewNote>,
    /// Its declared views with their rows, once they are made of the tables.
    pub shown: Vec<ViewRows>,
    /// What users of such jobs look for first, in one line under the head of a report.
    pub headline: Option<String>,
    /// The energy that the devices take, in one line under the head of a report.
    pub energy: Option<String>,
    /// Operators with the most GPU time of their own and their shares of all of it, percent; for the end of a
    /// short report.
    pub operators: Vec<(String, f64)>,
    /// Replaces what is printed on standard output, unchanged: folded stacks, for example.
    pub raw: Option<String>,
    /// Files to write besides.
    pub files: Vec<OutputFile>,
    /// What the job needs most; made by the diagnosis alone.
    pub verdict: Option<JobVerdict>,
    /// Why sentences are bounds, or left out. Made from what the analysis needs, not by it.
    pub trust: SectionTrust,
}

impl Output {
    /// Adds a line below the first view.
    pub fn note(&mut self, text: String) {
        self.notes.push(ViewNote::first(text));
    }
}

/// How far the recording carries what an analysis says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SectionTrust {
    pub grade: Grade,
    /// The reasons, for people; printed above the section.
    pub lines: Vec<String>,
}

/// What an analysis is called and explains, what it writes, and what it needs.
#[derive(Clone, Copy)]
pub struct About {
    /// Name of the subcommand, the file and the section. An analysis in another tool's definitions has the
    /// stem of the analysis that it replaces.
    pub stem: &'static str,
    /// One line for `hta list`.
    pub title: &'static str,
    /// The page of `hta explain`: what the analysis measures, formulas, and when the result misleads.
    pub explain: &'static str,
    /// Tables that the analysis writes; the subcommand prints the first.
    pub tables: &'static [&'static TableSpec],
    /// What is printed, in this order, from its tables: views that have rows, or else the first.
    pub views: &'static [ViewSpec],
    /// Tables that are made of others of its own, in this order.
    pub rollups: &'static [Rollup],
    /// Tables that only its partials contain, for reducing. They are written only to partials.
    pub kept_tables: &'static [&'static TableSpec],
    /// Options that only this analysis has.
    pub settings: &'static [Setting],
    /// Whether mapping takes more time or memory than in most analyses. Such analyses are started first, in
    /// the order of the list, so that what they hold is freed before the facts that analyses share are all
    /// there.
    pub is_long: bool,
    /// The other tool whose definitions the analysis uses; `None` for hta's own definitions.
    pub definitions: Option<&'static str>,
    /// Whether a trace is refused if none of its events is of a known kind.
    pub needs_known_events: bool,
    /// Whether it tells what runs beside what, so that it says where a recorder does not record that.
    pub tells_overlap: bool,
    /// Whether `--steps` changes the result.
    pub takes_steps: bool,
    /// Which options that compare ranks change the result, besides `--clock`, which does so in all that join
    /// ranks.
    pub takes: &'static [AcrossOption],
    /// What its figures and [`Analysis::sentences`] rest on. Where the recording does not carry it, these are
    /// left out, and the reason is printed.
    pub needs: &'static [Capability],
    /// Whether it answers for dumps of memory, which have no events. Of a set of dumps no other analysis is
    /// asked.
    pub reads_dumps: bool,
    /// Whether the analysis compares ranks. Ranks are joined only if an analysis needs it.
    pub joins_ranks: bool,
    /// True if the analysis uses the joined job when there is more than one rank.
    pub joins_peers: bool,
    /// Whether it replays the joined job, and so is reduced after those that do not: the replay takes as much
    /// memory as the job.
    pub replays: bool,
}

impl About {
    /// No name and no tables; for the rest, what holds for most analyses.
    pub const DEFAULT: About = About {
        stem: "",
        title: "",
        explain: "",
        tables: &[],
        views: &[],
        rollups: &[],
        kept_tables: &[],
        settings: &[],
        is_long: false,
        definitions: None,
        needs_known_events: true,
        tells_overlap: false,
        takes_steps: true,
        takes: &[],
        needs: &[],
        reads_dumps: false,
        joins_ranks: false,
        joins_peers: false,
        replays: false,
    };
}

/// One analysis. To add one, write a new folder and add a line to the registry.
pub trait Analysis: Sync {
    fn about(&self) -> About;
    /// Whether the analysis needs arguments that are otherwise loaded only for the `events` table.
    fn reads_event_args(&self, _options: &Options) -> bool {
        false
    }
    /// Index and label of the steps from which `--steps` chooses; `None` for the steps of the trace.
    fn steps(&self, _trace: &RankTrace) -> Option<Vec<(u32, Option<i64>)>> {
        None
    }
    /// Whether the text of one of its settings selects something on a rank; `None` if the setting's usual
    /// rule applies.
    fn selects(&self, _trace: &RankTrace, _setting: &Setting, _text: &str) -> Option<bool> {
        None
    }
    /// Maps one rank. Must be pure, because ranks run in parallel. The returned data is kept until all ranks
    /// are joined, so it must be bounded; rows per kernel, launch or gap go to `give`.
    fn map(&self, trace: &RankTrace, options: &Options, give: &mut RowEmitter) -> Partial;
    /// What follows only from all ranks together, in order of rank. Tables of the partials pass through by
    /// themselves, and rollups are made behind it. `job` has no ranks unless this analysis joins them.
    fn reduce(&self, _partials: &[Partial], _job: &Job, _options: &Options) -> Output {
        Output::default()
    }
    /// What its figures show beyond its tables, for [`Output::sentences`]. `partials` are those of ranks
    /// whose recording carries what the analysis needs; where it does for none, nothing is asked.
    fn sentences(&self, _partials: &[Partial], _job: &Job, _options: &Options) -> Vec<String> {
        Vec::new()
    }
}

impl dyn Analysis + '_ {
    /// Shorthand for the most used part of [`About`].
    pub fn stem(&self) -> &'static str {
        self.about().stem
    }

    /// Adds to what was reduced the tables of the partials that it lacks, and the rollups.
    pub fn complete(&self, partials: &[Partial], output: &mut Output) {
        let about = self.about();
        let made: BTreeSet<&str> = output.tables.iter().map(|b| b.spec.name).collect();
        let is_rolled = |spec: &TableSpec| about.rollups.iter().any(|r| r.table.name == spec.name);
        let is_written = |spec: &TableSpec| about.tables.iter().any(|t| t.name == spec.name);
        for spec in about.tables.iter().filter(|spec| !made.contains(spec.name) && !is_rolled(spec)) {
            output.tables.extend(partials.iter().filter_map(|p| p.table(spec).cloned()));
        }
        for rollup in about.rollups {
            let own = output.tables.iter().filter(|b| rollup.reads(b.spec));
            let is_given = |b: &&Batch| !made.contains(b.spec.name) && !is_written(b.spec);
            let kept = partials.iter().flat_map(|p| &p.tables).filter(is_given);
            output.tables.push(rollup.fold(own.chain(kept.filter(|b| rollup.reads(b.spec)))));
        }
    }

    /// Shorthand for the tables of [`About`].
    pub fn tables(&self) -> &'static [&'static TableSpec] {
        self.about().tables
    }
}
