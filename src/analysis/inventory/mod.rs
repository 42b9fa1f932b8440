//! The tables that every run writes, whatever its analyses: ranks, how they were recorded, health, edges of
//! the recordings, kernels, host events by name. (Steps are an analysis.)

pub mod cut_ends;
pub mod edge_notes;
pub mod host_by_name;
mod kernels;
pub mod notes;
pub(crate) mod profiler_calls;
pub mod record_edges;
pub mod recorders;
pub mod validator_rules;
pub mod without_rows;

use crate::api::{Options, Partial, RowEmitter, rows};
use crate::inventory::host_by_name::HostByName;
use crate::inventory::kernels::KernelsTable;
use crate::inventory::notes::Notes;
use crate::inventory::record_edges::RecordEdgeTable;
use crate::inventory::recorders::Recorders;
use crate::inventory::validator_rules::ValidatorRules;
use crate::inventory::without_rows::WithoutRows;
use hta_base::health::Counter;
use hta_base::table;
use hta_base::table::schema::{Batch, Table, TableSpec, Text};
use hta_base::wording::names::clip;
use hta_facts::machine::LaunchShapes;
use hta_facts::serving_mode::ServingMode;
use hta_job::Clock;
use hta_job::recording::belong::{FileOrigin, captures};
use hta_job::recording::facts::{Recordings, of_rank};
use hta_job::recording::limit::TrustTable;
use hta_read::input::is_packets_name;
use hta_trace::meta::{RankSource, Recorder};
use hta_trace::rank_trace::{ModelOptions, RankTrace};
use hta_trace::step::{StepRule, Steps};
use hta_trace::timeline::WorkClass;
use std::collections::BTreeMap;
use std::path::Path;

table! {
    /// One row per rank.
    pub struct Ranks, RankRow = "ranks" by "rank" {
        rank;
        rank_source: Text, "",
            "file, name, position, or process (engines of one server, which are no ranks of one job)";
        role: Option<Text>, "",
            "role of its program in a job of several: actor, rollout ...; null: a job of one program";
        replica: Option<u32>, "", "which of several programs of this role; null: there is one";
        role_rank: Option<u32>, "", "rank inside its program, as the file tells it";
        file: Text, "", "source file";
        recorder: Text, "",
            "who wrote the file: kineto, cuspy, converted (a Perfetto trace made from Chrome JSON), nsys, \
             nvprof or memory_dump";
        host_name: Option<Text>, "", "host";
        backend: Option<Text>, "", "backend of the process group: nccl, gloo, mpi, ...";
        world_size: Option<u32>, "ranks",
            "ranks of the job, as recorded in the file; of a job of several programs, of all";
        devices: Text, "", "devices that the rank used, by index";
        device_name: Option<Text>, "", "name of the first of them";
        time_era: Text, "", "how the file writes times";
        base_ns: Option<i64>, "ns", "base time that was added";
        unpacked_bytes: u64, "bytes", "size of the JSON text";
        event_count: u64, "", "complete events";
        other_event_count: u64, "", "instants, counters, flows and labels, which are in no table";
        activity_count: u64, "", "GPU activities";
        unlinked_count: u64, "", "GPU activities without a launch record";
        unlinked_ns: i64, "ns", "summed duration of those";
        gpu_sum_ns: i64, "ns", "summed duration of all activities";
        first_ts_ns: i64, "ns", "start of the first recorded event";
        last_ts_ns: i64, "ns", "end of the last recorded event";
        step_rule: Text, "", "how steps were found";
        step_count: u32, "", "steps";
        step_window: Text, "", "whose windows steps have: host or device (see hta explain windows)";
        step_lag_ns: Option<i64>, "ns",
            "median over steps of the last end of what a step launched minus the end of its annotation; \
             null: no launches, or no steps";
        repeated: Option<Text>, "",
            "what repeats without being steps, and why; null: nothing, or there are steps";
        is_serving: bool, "",
            "it serves requests: an engine names its steps, or half of its GPU time is in graphs and there \
             is no ProfilerStep";
        clock_offset_ns: Option<i64>, "ns",
            "offset to subtract from this rank's times at clock_at_ts_ns, 0 if none is applied; null: no \
             analysis of the run compares ranks";
        clock_state: Option<Text>, "",
            "applied, reported (found, and too small or unsure to apply) or unaligned (shares no collective \
             with others)";
        clock_found_ns: Option<i64>, "ns", "offset as found from the ends of collectives";
        clock_residual_ns: Option<i64>, "ns",
            "median absolute deviation of its ends from those of the other ranks";
        clock_drift_ns_per_s: Option<i64>, "ns/s", "change of the offset, as found";
        clock_is_linear: Option<bool>, "",
            "the drift is beyond chance: the offset at t is clock_offset_ns + drift x (t - clock_at_ts_ns)";
        clock_at_ts_ns: Option<i64>, "ns", "time at which the offset holds";
        clock_instances: Option<u32>, "", "collectives used";
    }
}

table! {
    /// One row per kind of defect in a file.
    pub struct HealthTable, HealthRow = "health" by "rank, severity, counter" {
        rank: Option<u32>, "", "rank; null where the file was refused";
        file: Text, "", "source file";
        counter: Text, "", "name of the counter";
        severity: Text, "", "info, corrected, lost or fatal";
        count: u64, "", "occurrences";
        first_byte: Option<u64>, "bytes", "offset of the first occurrence in the unpacked file";
        example: Option<Text>, "", "the first occurrence";
        description: Text, "", "meaning of the counter";
    }
}

table! {
    /// Kernels by the rule that gave their class.
    pub struct KernelRules, KernelRuleRow = "kernel_rules" by "rank, rule" {
        rank;
        rule: u32, "", "position of the rule";
        class_reason: Text, "", "its name";
        class: Text, "", "class it gives";
        count: u64, "", "activities";
        sum_ns: i64, "ns", "their summed duration";
    }
}

/// Every table of this module. Those of the health, of trust and of reasons are made when all ranks are
/// known.
pub const TABLES: &[&TableSpec] = &[
    Ranks::SPEC,
    Recorders::SPEC,
    Recordings::SPEC,
    TrustTable::SPEC,
    ValidatorRules::SPEC,
    HealthTable::SPEC,
    RecordEdgeTable::SPEC,
    KernelRules::SPEC,
    KernelsTable::SPEC,
    HostByName::SPEC,
    WithoutRows::SPEC,
    Notes::SPEC,
];

pub fn map(trace: &RankTrace, options: &Options, give: &mut RowEmitter) -> Partial {
    kernels::rows(trace, options, give);
    host_by_name::rows(trace, options, give);
    let mut tables = vec![
        rank(trace),
        recorder(trace),
        of_rank(trace),
        validator_rules::table(trace),
        health(trace),
        kernel_rules(trace, &options.model),
    ];
    tables.extend(record_edges::map(trace, options.model.hidden_min));
    Partial { rank: trace.rank, tables, reason: None }
}

/// Width of the name of what repeats, characters.
const NAME_WIDTH: usize = 60;

/// Largest number of files that the note about processes names.
const NAMED_PROCESSES: usize = 8;

/// What is to be known of a set of processes that are no ranks of one job; `None` for ranks.
pub fn processes_note(partials: &[Partial]) -> Option<String> {
    let of: Vec<RankRow> =
        rows::<Ranks>(partials).filter(|r| r.rank_source == RankSource::Process.name()).collect();
    if of.is_empty() {
        return None;
    }
    let mut names: Vec<String> =
        of.iter().take(NAMED_PROCESSES).map(|r| format!("{} {}", r.rank, base_name(r.file))).collect();
    if of.len() > NAMED_PROCESSES {
        names.push("...".to_string());
    }
    let batches = partials.iter().filter_map(|p| p.table(Recordings::SPEC));
    let origins: Vec<FileOrigin> = batches.flat_map(Recordings::rows).map(FileOrigin::from).collect();
    let are_converted = of.iter().all(|r| r.recorder == Recorder::Converted.key());
    let are_packets = of.iter().all(|r| is_packets_name(Path::new(r.file)));
    let (who, needed) = match captures(&origins).is_empty() {
        true if are_converted => ("converted traces, which have no clock in common", "capture"),
        true if are_packets => ("Perfetto traces, of which not every name gives a rank", "capture"),
        true => ("of several engines of one server", "engine"),
        false => ("captures that a process wrote one after the other", "capture"),
    };
    Some(format!(
        "processes, not ranks of one job: these files are {who}, so nothing is compared across them (a \
         diagnosis needs the files of one {needed}): {}",
        names.join(", ")
    ))
}

/// The name of a file without its folders.
pub(crate) fn base_name(file: &str) -> &str {
    file.rsplit(['/', '\\']).next().unwrap_or(file)
}

fn rank(trace: &RankTrace) -> Batch {
    let mut table = Ranks::default();
    let m = &trace.meta;
    let devices: Vec<i64> = trace.devices.iter().filter_map(|d| d.device).collect();
    let shown: Vec<String> = devices.iter().map(i64::to_string).collect();
    let device = devices.first().and_then(|d| trace.device_properties(Some(*d)));
    let other: u64 = trace.columns.phases.iter().filter(|(p, _)| **p != b'X').map(|(_, n)| n).sum();
    let other = other.saturating_sub(trace.columns.counter_samples.len() as u64);
    table.push(RankRow {
        rank: trace.rank,
        rank_source: trace.rank_source.name(),
        role: m.role.as_ref().map(|role| role.name.as_str()),
        replica: m.role.as_ref().and_then(|role| role.replica),
        role_rank: m.role.as_ref().map(|_| trace.group_rank()),
        file: &trace.file,
        recorder: m.recorder.key(),
        host_name: m.host_name.as_deref(),
        backend: m.backend.as_deref(),
        world_size: m.world_size,
        devices: &shown.join(","),
        device_name: device.map(|d| d.display_name()).as_deref(),
        time_era: m.era.name(),
        base_ns: m.base_ns,
        unpacked_bytes: trace.unpacked_bytes,
        event_count: trace.columns.len() as u64,
        other_event_count: other,
        activity_count: trace.activities.len() as u64,
        unlinked_count: trace.launches().unlinked.len() as u64,
        unlinked_ns: trace.unlinked_ns(),
        gpu_sum_ns: trace.gpu_ns(),
        first_ts_ns: trace.recorded.start,
        last_ts_ns: trace.recorded.end,
        step_rule: trace.steps.rule.name(),
        step_count: trace.steps.steps.len() as u32,
        step_window: if trace.steps.is_on_device { "device" } else { "host" },
        step_lag_ns: trace.steps.lag.median.filter(|_| trace.steps.rule != StepRule::Capture),
        repeated: repeated(&trace.steps).as_deref(),
        is_serving: ServingMode::of(trace).is_serving,
        clock_offset_ns: None,
        clock_state: None,
        clock_found_ns: None,
        clock_residual_ns: None,
        clock_drift_ns_per_s: None,
        clock_is_linear: None,
        clock_at_ts_ns: None,
        clock_instances: None,
    });
    table.finish()
}

/// What repeats without being steps, in words.
fn repeated(steps: &Steps) -> Option<String> {
    let r = steps.repeated.as_ref()?;
    let name = match r.name.as_str() {
        "" => "equal sequences of kernels".to_string(),
        name => format!("ranges `{}`", clip(name, NAME_WIDTH)),
    };
    Some(format!("{} {name} are {}, no steps: {}", r.count, r.what, r.why))
}

fn recorder(trace: &RankTrace) -> Batch {
    let mut table = Recorders::default();
    let (versions, shapes) = (recorders::versions(&trace.meta), recorders::input_shapes(trace));
    table.push(recorders::row(trace, versions.as_deref(), &shapes));
    table.finish()
}

/// Sets the columns of the ranks' clocks, which are known only when all ranks are. `clocks` are those of the
/// ranks, in the same order.
pub fn set_clocks(partials: &mut [Partial], clocks: &[(u32, Clock)]) {
    let mut ranks = Ranks::default();
    let mut tables: Vec<&mut Batch> = Vec::new();
    for (partial, (rank, clock)) in partials.iter_mut().zip(clocks) {
        let is_its_own = partial.rank == *rank;
        for table in partial.tables.iter_mut().filter(|t| is_its_own && t.spec.name == Ranks::SPEC.name) {
            Ranks::rows(table).for_each(|row| ranks.push(with_clock(row, clock)));
            tables.push(table);
        }
    }
    let all = ranks.finish();
    let mut first = 0;
    for table in tables {
        let rows = first..first + table.len();
        first = rows.end;
        *table = all.slice(rows);
    }
}

fn with_clock<'a>(row: RankRow<'a>, clock: &Clock) -> RankRow<'a> {
    let state = match (clock.is_applied, clock.is_aligned) {
        (true, _) => "applied",
        (false, true) => "reported",
        (false, false) => "unaligned",
    };
    RankRow {
        clock_offset_ns: Some(if clock.is_applied { clock.offset } else { 0 }),
        clock_state: Some(state),
        clock_found_ns: Some(clock.offset),
        clock_residual_ns: Some(clock.residual),
        clock_drift_ns_per_s: Some(clock.drift),
        clock_is_linear: Some(clock.is_linear),
        clock_at_ts_ns: Some(clock.at),
        clock_instances: Some(clock.instances),
        ..row
    }
}

fn health(trace: &RankTrace) -> Batch {
    let mut launches = LaunchShapes::new(trace);
    let wrong = trace.activities.iter().filter(|a| launches.wrongly_zero(a).is_some()).count();
    let mut health = trace.health.clone();
    health.add(Counter::OccupancyZero, wrong as u64, None, "");
    let mut table = HealthTable::default();
    push_health(&mut table, Some(trace.rank), &trace.file, &health);
    table.finish()
}

/// Adds a file's counters, worst first.
pub fn push_health(
    table: &mut HealthTable,
    rank: Option<u32>,
    file: &str,
    health: &hta_base::health::Health,
) {
    for (counter, tally) in health.iter() {
        push_counter(table, rank, file, counter, tally.count, tally.first_byte, &tally.example);
    }
}

/// Adds a counter.
pub fn push_counter(
    table: &mut HealthTable,
    rank: Option<u32>,
    file: &str,
    counter: Counter,
    count: u64,
    first_byte: Option<u64>,
    example: &str,
) {
    let spec = counter.spec();
    table.push(HealthRow {
        rank,
        file,
        counter: spec.name,
        severity: spec.severity.name(),
        count,
        first_byte,
        example: (!example.is_empty()).then_some(example),
        description: spec.doc,
    });
}

fn kernel_rules(trace: &RankTrace, options: &ModelOptions) -> Batch {
    let mut by_rule: BTreeMap<u16, (u64, i64)> = BTreeMap::new();
    for a in &trace.activities {
        let sum = by_rule.entry(a.rule).or_default();
        sum.0 += 1;
        sum.1 += a.span.len();
    }
    // Several rules have one reason: those of libraries.
    let mut sums: BTreeMap<(u32, WorkClass), (&str, u64, i64)> = BTreeMap::new();
    for (rule, (count, sum_ns)) in by_rule {
        let key = (options.rules.place(rule), options.rules.work(rule));
        let sum = sums.entry(key).or_insert((options.rules.reason(rule), 0, 0));
        sum.1 += count;
        sum.2 += sum_ns;
    }
    let mut table = KernelRules::default();
    for ((rule, class), (class_reason, count, sum_ns)) in sums {
        table.push(KernelRuleRow {
            rank: trace.rank,
            rule,
            class_reason,
            class: class.name(),
            count,
            sum_ns,
        });
    }
    table.finish()
}
