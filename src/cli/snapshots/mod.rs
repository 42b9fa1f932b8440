//! `hta memory` on memory snapshots and timelines, which are not traces and so do not go through the pipeline.
//!
//! Whether the inputs are such files is decided by their content, before a trace would be read.

pub mod diff;
mod inputs;
mod options;

pub use inputs::{FoundInputs, MemoryInput, inputs};
pub use options::{refuse_for_traces, with_options};

use crate::cli::analysis::{self, Beside};
use crate::cli::args::CommonArgs;
use crate::cli::exit::Exit;
use crate::cli::output::{note, width};
use crate::cli::snapshots::options::{Folded, SnapshotChoice};
use crate::cli::table::OutputArgs;
use crate::cli::watch::{Watch, WatchLimits};
use anyhow::Context;
use clap::{ArgMatches, FromArgMatches};
use hta_analysis::api::{Output, Partial, View};
use hta_analysis::snapshot::content::{ContentKey, allocated, parts};
use hta_analysis::snapshot::device::{OnlyDevice, devices};
use hta_analysis::snapshot::findings::{Finding, findings, uneven};
use hta_analysis::snapshot::flame::stack_nodes;
use hta_analysis::snapshot::leak::MarkedSteps;
use hta_analysis::snapshot::report::{ReportOptions, views};
use hta_analysis::snapshot::rows::{DeviceRows, TABLES};
use hta_analysis::snapshot::site::Sites;
use hta_analysis::snapshot::state_rows::stacks;
use hta_analysis::snapshot::summary::{DeviceSummary, report};
use hta_analysis::snapshot::tables::MemoryStacks;
use hta_analysis::snapshot::timeline::Levels;
use hta_analysis::stacks::{StackUnit, speedscope_file};
use hta_base::health::{Health, Severity};
use hta_base::table::schema::{Batch, TableSpec};
use hta_base::units::fmt_count;
use hta_read::discover::assign_ranks;
use hta_read::error::SetError;
use hta_read::files::{Location, Stores};
use hta_read::input::Input;
use hta_read::snapshot::{MemoryFile, SnapshotError, load_snapshot, load_timeline};
use hta_read::source::ByteCount;
use hta_results::output::inputs::Inputs;
use hta_results::output::text;
use std::collections::BTreeSet;
use std::fmt::Write;

/// Largest number of names of annotations of a file that are kept for a message, and that it shows.
const MOST_NAMES: usize = 1_000;
const SHOWN_NAMES: usize = 5;

/// The note on files without segments and entries.
const NOTHING: &str = "no segments and no history: call torch.cuda.memory._record_memory_history() before the work, on the \
                       process that uses the GPU";

/// What all files gave so far.
#[derive(Default)]
struct SnapshotAnswer {
    batches: Vec<Batch>,
    devices: Vec<DeviceSummary>,
    /// Tables of each device for the report.
    views: Vec<Vec<View>>,
    findings: Vec<Finding>,
    folded: String,
    /// A part for each device, with its stacks.
    stacks: Vec<Partial>,
    /// Whether a device has the moment of `--at`, or the steps of `--steps-by`.
    has_moment: bool,
    has_steps: bool,
    /// Names of annotations.
    annotations: BTreeSet<String>,
    has_loss: bool,
}

/// Runs the command on files about memory.
///
/// # Errors
/// When an option cannot be used or nothing can be written.
pub fn run(matches: &ArgMatches, files: &[MemoryInput]) -> anyhow::Result<Exit> {
    let output = OutputArgs::from_arg_matches(matches)?;
    let Beside { batches, text, exit, .. } = answer(matches, files)?;
    if exit != Exit::Nothing {
        output.write(output.table(TABLES)?, &batches, || text)?;
    }
    Ok(exit)
}

/// Runs the command on files about memory and on the traces beside them: one report after the other, and the rows of one
/// table together, told apart by the column `source`.
///
/// # Errors
/// As [`run`], and if an option cannot be used for both.
pub fn run_with_traces(matches: &ArgMatches, files: &[MemoryInput], stores: &Stores) -> anyhow::Result<Exit> {
    if let Some(path) = SnapshotChoice::new(matches, &CommonArgs::from_arg_matches(matches)?)?.speedscope {
        let reason = "snapshots and traces would write the same file: run `hta memory` on each kind".to_string();
        return Err(SetError::Argument { option: "--speedscope", value: path, reason }.into());
    }
    match answer(matches, files)? {
        Beside { exit: Exit::Nothing, .. } => Ok(Exit::Nothing),
        beside => analysis::run_beside("memory", matches, beside, stores),
    }
}

fn answer(matches: &ArgMatches, files: &[MemoryInput]) -> anyhow::Result<Beside> {
    let output = OutputArgs::from_arg_matches(matches)?;
    let common = CommonArgs::from_arg_matches(matches)?;
    let chosen = SnapshotChoice::new(matches, &common)?;
    let table = output.table(TABLES)?;
    let inputs: Vec<Input> = files.iter().map(|f| f.input.clone()).collect();
    output.allow(&Inputs::of_traces(&inputs))?;
    let ranks = assign_ranks(&inputs, &vec![None; inputs.len()]);
    let mut answer = SnapshotAnswer::default();
    let mut read: Vec<(&MemoryInput, u32)> = Vec::new();
    for (file, (rank, _)) in files.iter().zip(&ranks).filter(|(_, (rank, _))| common.ranks.has(*rank)) {
        read.push((file, *rank));
    }
    read.sort_by_key(|(_, rank)| *rank);
    if read.is_empty() {
        let all: Vec<String> = ranks.iter().map(|(r, _)| r.to_string()).collect();
        let reason = format!("the files are of ranks {}", all.join(", "));
        return Err(SetError::Argument { option: "--ranks", value: "these ranks".to_string(), reason }.into());
    }
    let _watch = Watch::start(WatchLimits::of_snapshots(chosen.limit));
    let mut refused = 0;
    for (file, rank) in &read {
        let wanted = (!output.is_text()).then_some(table);
        let added = match file.kind {
            MemoryFile::Snapshot => add_snapshot(&mut answer, &file.input, *rank, &chosen, wanted),
            MemoryFile::Timeline => add_timeline(&mut answer, &file.input, *rank, &chosen, wanted),
        };
        if let Err(e) = added {
            refused += 1;
            note(&format!("hta: {e}"));
            if let Some(hint) = e.hint() {
                note(&format!("hint: {hint}"));
            }
        }
    }
    let nothing = || Beside { files: Vec::new(), batches: Vec::new(), text: String::new(), exit: Exit::Nothing };
    if refused == read.len() {
        return Ok(nothing());
    }
    answer.has_loss |= refused > 0;
    if common.strict.refuses_loss(answer.has_loss) {
        return Ok(nothing());
    }
    if chosen.device != OnlyDevice::Any && answer.devices.is_empty() {
        let value = match chosen.device {
            OnlyDevice::Number(number) => number.to_string(),
            _ => "cpu".to_string(),
        };
        let reason = "no input has such a device".to_string();
        return Err(SetError::Argument { option: "--device", value, reason }.into());
    }
    if let Some(at) = chosen.at.filter(|_| !answer.has_moment) {
        let reason = "no history has that moment; without times only entry:N can be meant".to_string();
        return Err(SetError::Argument { option: "--at", value: at.name(), reason }.into());
    }
    if let Some(value) = chosen.steps_by.clone().filter(|_| !answer.has_steps) {
        let mut names: Vec<&str> = answer.annotations.iter().map(String::as_str).collect();
        names.truncate(SHOWN_NAMES);
        let reason = match names.is_empty() {
            true => "the snapshots have no annotations".to_string(),
            false => format!("no annotation of the snapshots begins so; expected for example {}", names.join(", ")),
        };
        return Err(SetError::Argument { option: "--steps-by", value, reason }.into());
    }
    let files = inputs.into_iter().map(|i| i.path).collect();
    finish(&output, answer, &chosen, files)
}

fn finish(
    output: &OutputArgs,
    answer: SnapshotAnswer,
    chosen: &SnapshotChoice,
    files: Vec<Location>,
) -> anyhow::Result<Beside> {
    if let (Some(path), Some(folded)) = (&chosen.speedscope, chosen.stacks()) {
        let file = speedscope_file(path, folded.title(), StackUnit::Bytes, &answer.stacks);
        std::fs::write(path, file.text).with_context(|| format!("cannot write {path}"))?;
    }
    let exit = Exit::of_loss(answer.has_loss);
    let text = match () {
        () if !output.is_text() => String::new(),
        () if chosen.folded.is_some() => answer.folded,
        () => {
            let mut found = answer.findings;
            found.extend(uneven(&answer.devices));
            found.sort_by_key(|(order, _)| *order);
            let observations = found.into_iter().map(|(_, observation)| observation).collect();
            let mut views = report(&answer.devices, answer.views, chosen.top);
            if answer.devices.is_empty() {
                let notes = vec![NOTHING.to_string()];
                views.push(View { title: "Memory".to_string(), columns: Vec::new(), rows: Vec::new(), notes });
            }
            text::one_output(&Output { observations, views, ..Output::default() }, width())
        }
    };
    Ok(Beside { files, batches: answer.batches, text, exit })
}

/// Prints what was lost in a file. Returns whether something was.
fn tell_losses(health: &Health, file: &str, rank: u32) -> bool {
    for (counter, tally) in health.iter().filter(|(c, _)| c.spec().severity >= Severity::Loss) {
        let spec = counter.spec();
        note(&format!("hta: rank {rank} ({file}): {} x {}: {}", fmt_count(tally.count), spec.name, spec.doc));
    }
    health.has_loss()
}

fn add_snapshot(
    answer: &mut SnapshotAnswer,
    input: &Input,
    rank: u32,
    chosen: &SnapshotChoice,
    wanted: Option<&'static TableSpec>,
) -> Result<(), SnapshotError> {
    let snapshot = load_snapshot(&input.path, &input.shown, chosen.limit, &ByteCount::default())?;
    let sites = Sites::new(&snapshot);
    let mut health = snapshot.health.clone();
    let names = snapshot.annotations.iter().map(|a| snapshot.texts.get(a.name));
    answer.annotations.extend(names.take(MOST_NAMES).map(str::to_string));
    for device in devices(&snapshot, chosen.until, chosen.device, &mut health) {
        let steps = chosen.steps_by.as_ref().map(|name| MarkedSteps::new(&snapshot, device.device, name));
        answer.has_steps |= steps.as_ref().is_some_and(|s| !s.is_empty());
        let steps = steps.as_ref().filter(|s| !s.is_empty());
        let rows = DeviceRows { rank, device: &device, sites: &sites, steps };
        answer.devices.push(DeviceSummary::new(rank, &device));
        answer.has_moment |= chosen.at.is_some_and(|at| rows.held(at).is_some());
        match (wanted, chosen.stacks()) {
            (Some(table), _) => answer.batches.extend(rows.table(table, chosen.at)),
            (None, Some(folded)) => {
                let parts = match folded {
                    Folded::Alloc => allocated(&device, &sites, ContentKey::Stack),
                    Folded::At(moment) => {
                        let held = rows.held(moment).map(|(_, held)| held).unwrap_or_default();
                        parts(&device, &sites, held, ContentKey::Stack)
                    }
                };
                let root = format!("{} of rank {rank}", device.name());
                answer.stacks.push(Partial { rank, tables: vec![stack_nodes(&root, &parts)], reason: None });
                for part in parts {
                    let _ = writeln!(answer.folded, "rank {rank};{};{} {}", device.name(), part.key, part.bytes);
                }
            }
            (None, None) => {
                answer.findings.extend(findings(&rows));
                let options = ReportOptions {
                    by: chosen.by,
                    at: chosen.at.unwrap_or_default(),
                    top: chosen.top,
                    min_bytes: chosen.min_bytes,
                };
                answer.views.push(views(&rows, options));
            }
        }
    }
    if wanted.is_some_and(|t| t.name == MemoryStacks::SPEC.name) {
        answer.batches.push(stacks(&snapshot, rank));
    }
    answer.has_loss |= tell_losses(&health, &input.shown, rank);
    Ok(())
}

fn add_timeline(
    answer: &mut SnapshotAnswer,
    input: &Input,
    rank: u32,
    chosen: &SnapshotChoice,
    wanted: Option<&'static TableSpec>,
) -> Result<(), SnapshotError> {
    let timeline = load_timeline(&input.path, &input.shown, chosen.limit, &ByteCount::default())?;
    let levels = Levels::new(&timeline);
    answer.devices.push(DeviceSummary::of_timeline(rank, levels.peak_bytes()));
    let at = chosen.at.unwrap_or_default();
    let view = levels.view(rank, at);
    answer.has_moment |= view.is_some();
    match wanted {
        Some(table) => answer.batches.extend(levels.table(table, rank, chosen.at)),
        None if chosen.folded.is_none() => answer.views.push(view.into_iter().collect()),
        None => {}
    }
    answer.has_loss |= tell_losses(&timeline.health, &input.shown, rank);
    Ok(())
}
