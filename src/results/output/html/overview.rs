//! Sections on the input, and on its problems.

use crate::output::html::grid::{Cell, Section};
use crate::output::html::tally::Tally;
use crate::output::html::texts::Texts;
use crate::results::{Results, ResultsError, columns};
use hta_analysis::counters::CounterMeans;
use hta_analysis::counters::recorded::{DeviceOfRank, HardwareByRank, KnownEnergy, energy_of_devices};
use hta_analysis::inventory;
use hta_analysis::inventory::HealthTable;
use hta_analysis::inventory::edge_notes::{self, Noted};
use hta_analysis::inventory::record_edges::RecordEdgeTable;
use hta_base::health::Severity;
use hta_base::table;
use hta_base::table::schema::Text;
use hta_base::units::Span;
use hta_base::wording::ranks::rank_list;
use hta_job::recording::facts::{IN_EVENTS, RECORDED, Recordings};
use hta_job::recording::step_noun;
use hta_trace::collective::ranks::missing_ranks;
use hta_trace::step::StepRule;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

table! {
    /// What was read.
    struct ShownRanks, ShownRankRow = "ranks" by "rank" {
        rank;
        host_name: Option<Text>, "", "host", "host";
        devices: Text, "", "device indices that were used", "device";
        device_name: Option<Text>, "", "name of the device";
        step_count: u64, "", "steps";
        length_ns: i64, "ns", "first to last recorded event", "recorded";
        event_count: u64, "", "complete events";
        activity_count: u64, "", "kernels, copies and sets", "GPU activities";
        unlinked_count: u64, "", "GPU activities whose launch was not recorded", "without launch";
        clock_state: Option<Text>, "", "state of its clock offset; `hta explain clocks`", "clock";
        clock_offset_ns: Option<i64>, "ns", "what was subtracted from its times to compare ranks", "offset";
        unpacked_bytes: u64, "bytes", "size of the trace, unpacked", "JSON";
        file: Text, "", "trace file";
    }
}

table! {
    /// Problems of the input by kind.
    struct ProblemKinds, ProblemKindRow = "health" by "severity, counter" {
        severity: Text, "", "fatal, lost, corrected or info";
        counter: Text, "", "`hta explain health` lists every counter", "what";
        count: i64, "", "over all ranks", "cases";
        ranks: u64, "", "ranks that have it";
        description: Option<Text>, "", "what it is, and what was done", "meaning";
        file: Option<Text>, "", "first file that has it", "first in";
        example: Option<Text>, "", "the first that was found";
    }
}

table! {
    /// Files that were not analysed.
    struct RefusedFiles, RefusedFileRow = "health" by "file" {
        severity: Text, "",
            "fatal: named on the command line, or damaged; info: merely found in the folder";
        file: Text, "", "file that was not analysed";
        reason: Text, "", "why not", "why";
    }
}

/// Largest number of ranks that have their own row.
pub(crate) const MOST_RANKS: usize = 2_048;

/// Later times count from 1970; the first profiler of this format is younger, ns.
const DATED: i64 = 1_500_000_000_000_000_000;

/// Largest number of kinds of problems, and of refused files, shown.
const MOST_PROBLEMS: usize = 300;

columns! {
    Edge of RecordEdgeTable {
        rank, device, scope: Option<Text>, from_ns: i64, to_ns: i64, launches: u64, excerpt: bool,
    }
}

columns! {
    Rank of inventory::Ranks {
        rank, host_name: Option<Text>, devices: Text, device_name: Option<Text>, step_count: u32, first_ts_ns: i64,
        last_ts_ns: i64, event_count: u64, activity_count: u64, unlinked_count: u64, clock_state: Option<Text>,
        clock_offset_ns: Option<i64>, unpacked_bytes: u64, file: Text, world_size: Option<u32>, step_rule: Text,
    }
}

columns! {
    Recorded of Recordings { rank, device_state: Text, lost_launch_count: u64, file_end: Text, }
}

columns! {
    Energies of HardwareByRank {
        rank, device, energy_j: Option<f64>, step_energy_j: Option<f64>, token_energy_j: Option<f64>,
    }
}

columns! {
    Working of CounterMeans { rank, device, }
}

columns! {
    Problem of HealthTable {
        counter: Text, severity: Text, count: u64, file: Text, example: Option<Text>, description: Text,
        rank: Option<u32>,
    }
}

/// What a section says that has nothing to show: the reason, or that the files of all ranks are cut. Where
/// one is whole, what is missing from it too was not recorded.
///
/// # Errors
/// When the table is damaged.
pub(crate) fn nothing(results: &Results, reason: &str) -> Result<String, ResultsError> {
    let (mut ranks, mut cut) = (0, 0);
    results.read::<Recorded>(|r| {
        ranks += 1;
        cut += usize::from(r.file_end == IN_EVENTS);
    })?;
    let behind = "Nothing of this stands before the cut of a file: get the whole files.";
    Ok(if cut > 0 && cut == ranks { behind } else { reason }.to_string())
}

/// The note on recordings that begin or end in the middle of work.
///
/// # Errors
/// When the table is damaged.
pub(crate) fn record_note(results: &Results, ranks: &PageRanks) -> Result<Option<String>, ResultsError> {
    let (mut noted, mut lost, mut cut) = (Vec::new(), BTreeMap::new(), BTreeSet::new());
    results.read::<Recorded>(|r| {
        if r.device_state != RECORDED {
            lost.insert(r.rank, r.lost_launch_count);
        }
        if r.file_end == IN_EVENTS {
            cut.insert(r.rank);
        }
    })?;
    results.read::<Edge>(|r| {
        let Some(scope @ ("lead" | "lost_tail")) = r.scope else { return };
        if lost.get(&r.rank).is_some_and(|lost| !edge_notes::is_edge_of_lost(scope, r.launches, *lost)) {
            return;
        }
        noted.push(Noted {
            rank: r.rank,
            device: r.device,
            is_lead: scope == "lead",
            span: Span::new(r.from_ns, r.to_ns),
            launches: r.launches as i64,
            excerpt: r.excerpt,
            is_cut: cut.contains(&r.rank),
            recorded: ranks.captures.get(&r.rank).map_or(0, |c| c.last - c.first),
        });
    })?;
    Ok(edge_notes::sentences(&noted, ranks.set.ranks))
}

/// Key figures of the set.
#[derive(Default, Serialize)]
pub(crate) struct SetSummary {
    pub(crate) ranks: usize,
    pub(crate) rank_list: String,
    pub(crate) world_size: Option<u32>,
    pub(crate) missing: String,
    pub(crate) hosts: usize,
    pub(crate) events: u64,
    pub(crate) activities: u64,
    pub(crate) json_bytes: u64,
    pub(crate) min_steps: u32,
    pub(crate) max_steps: u32,
    pub(crate) step_rules: Vec<String>,
    pub(crate) devices: Vec<String>,
    pub(crate) length_ns: i64,
    /// What its devices take, in one line, where their power is recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) energy: Option<String>,
    /// When the recording began, ms since 1970 (UTC); `None` where times count from another moment.
    pub(crate) began_ms: Option<i64>,
}

/// Start and end of a rank's recording, ns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Capture {
    pub(crate) first: i64,
    pub(crate) last: i64,
}

#[derive(Default)]
pub struct PageRanks {
    pub(crate) set: SetSummary,
    /// Captures of the ranks, on the common clock.
    pub(crate) captures: BTreeMap<u32, Capture>,
    pub(crate) offsets: BTreeMap<u32, i64>,
}

impl PageRanks {
    /// Whether all ranks were recorded at the same time, so that one time axis can show them.
    pub(crate) fn are_together(&self) -> bool {
        let first = self.captures.values().map(|c| c.first).max();
        first < self.captures.values().map(|c| c.last).min() || self.captures.len() < 2
    }
}

/// Reads the table of ranks.
///
/// # Errors
/// When the table is damaged.
pub fn ranks(results: &Results, texts: &mut Texts) -> Result<(PageRanks, Section), ResultsError> {
    let mut all = PageRanks::default();
    let mut shown = ShownRanks::default();
    let mut names: [BTreeSet<String>; 3] = Default::default();
    let mut left = [0; 4];
    let there = results.read::<Rank>(|r| {
        let offset = r.clock_offset_ns.unwrap_or(0);
        let capture = Capture { first: r.first_ts_ns - offset, last: r.last_ts_ns - offset };
        all.captures.insert(r.rank, capture);
        all.offsets.insert(r.rank, offset);
        let set = &mut all.set;
        for (names, name) in names.iter_mut().zip([r.host_name, r.device_name, Some(r.step_rule)]) {
            names.extend(name.map(str::to_string));
        }
        set.min_steps = if set.ranks == 0 { r.step_count } else { set.min_steps.min(r.step_count) };
        set.max_steps = set.max_steps.max(r.step_count);
        set.ranks += 1;
        set.events += r.event_count;
        set.activities += r.activity_count;
        set.json_bytes += r.unpacked_bytes;
        set.world_size = set.world_size.max(r.world_size);
        if set.ranks > MOST_RANKS {
            let counts = [r.event_count, r.activity_count, r.unlinked_count, r.unpacked_bytes];
            left.iter_mut().zip(counts).for_each(|(sum, n)| *sum += n);
            return;
        }
        shown.push(ShownRankRow {
            rank: r.rank,
            host_name: r.host_name,
            devices: r.devices,
            device_name: r.device_name,
            step_count: u64::from(r.step_count),
            length_ns: capture.last - capture.first,
            event_count: r.event_count,
            activity_count: r.activity_count,
            unlinked_count: r.unlinked_count,
            clock_state: r.clock_state,
            clock_offset_ns: r.clock_offset_ns,
            unpacked_bytes: r.unpacked_bytes,
            file: r.file,
        });
    })?;
    if !there || all.captures.is_empty() {
        return Ok((all, Section::without("The table `ranks` is missing or empty.")));
    }
    let mut grid = texts.grid(shown);
    let [events, activities, unlinked, bytes] = left.map(Cell::from);
    let none = Cell::Nothing;
    let sums =
        vec![none, none, none, none, none, none, events, activities, unlinked, none, none, bytes, none];
    grid.leave_out(all.captures.len() - grid.len(), sums);
    let known: Vec<u32> = all.captures.keys().copied().collect();
    all.set.rank_list = rank_list(&known);
    let world = all.set.world_size.unwrap_or(0);
    (all.set.missing, _) = missing_ranks(world, &known);
    let [hosts, devices, rules] = names;
    all.set.hosts = hosts.len();
    all.set.devices = devices.into_iter().collect();
    all.set.step_rules = rules.into_iter().collect();
    let began = all.captures.values().map(|c| c.first).min();
    all.set.began_ms = began.filter(|ns| *ns > DATED).map(|ns| ns / 1_000_000);
    all.set.length_ns = all.captures.values().map(|c: &Capture| c.last - c.first).max().unwrap_or(0);
    Ok((all, Section::default().with("ranks", grid)))
}

/// The energy of the devices that work, as the report has it.
///
/// # Errors
/// When a table is damaged.
pub(crate) fn energy(results: &Results, set: &SetSummary) -> Result<Option<String>, ResultsError> {
    let mut known: BTreeMap<DeviceOfRank, KnownEnergy> = BTreeMap::new();
    results.read::<Energies>(|r| {
        let energy = KnownEnergy { step: r.step_energy_j, token: r.token_energy_j, capture: r.energy_j };
        known.insert((r.rank, r.device), energy);
    })?;
    if known.values().all(|energy| *energy == KnownEnergy::default()) {
        return Ok(None);
    }
    let mut working: BTreeSet<DeviceOfRank> = BTreeSet::new();
    results.read::<Working>(|r| {
        working.insert((r.rank, r.device));
    })?;
    let noun = step_noun(set.step_rules.iter().any(|rule| StepRule::names_iterations(rule)));
    Ok(energy_of_devices(&working, &known, noun))
}

/// The section on problems of the input by kind, and on refused files.
///
/// # Errors
/// When the table is damaged.
pub(crate) fn health(results: &Results, texts: &mut Texts) -> Result<Section, ResultsError> {
    let mut kinds: BTreeMap<(usize, String), [Option<String>; 4]> = BTreeMap::new();
    let mut counts: Tally<2, 1> = Tally::default();
    let mut refused: Vec<(String, String, String)> = Vec::new();
    let there = results.read::<Problem>(|r| {
        if r.counter == "file_refused" {
            refused.push((r.severity.to_string(), r.file.to_string(), r.description.to_string()));
            return;
        }
        let order = Severity::ALL.iter().rev().position(|severity| severity.name() == r.severity);
        counts.add([r.severity, r.counter], r.rank.unwrap_or(u32::MAX), [r.count as i64]);
        let kind = kinds.entry((order.unwrap_or(usize::MAX), r.counter.to_string())).or_default();
        for (kept, found) in
            kind.iter_mut().zip([Some(r.severity), Some(r.description), Some(r.file), r.example])
        {
            *kept = kept.take().or(found.map(str::to_string));
        }
    })?;
    if !there {
        return Ok(Section::without("The table `health` is missing."));
    }
    let mut problems = ProblemKinds::default();
    for ((_, counter), [severity, description, file, example]) in kinds.iter().take(MOST_PROBLEMS) {
        let severity = severity.as_deref().unwrap_or_default();
        let (count, ranks) = counts.of([severity, counter]).map_or((0, 0), |t| (t.sums[0], t.ranks));
        problems.push(ProblemKindRow {
            severity,
            counter,
            count,
            ranks: ranks as u64,
            description: description.as_deref(),
            file: file.as_deref(),
            example: example.as_deref(),
        });
    }
    let mut files = RefusedFiles::default();
    for (severity, file, reason) in refused.iter().take(MOST_PROBLEMS) {
        files.push(RefusedFileRow { severity, file, reason });
    }
    let mut files = texts.grid(files);
    files.leave_out(refused.len().saturating_sub(MOST_PROBLEMS), Vec::new());
    if kinds.is_empty() && refused.is_empty() {
        return Ok(Section::without("Nothing was dropped, repaired or odd."));
    }
    Ok(Section::default().with("problems", texts.grid(problems)).with("refused", files))
}
