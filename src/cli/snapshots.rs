//! `hta memory` on memory snapshots and timelines, which are not traces and so do not go through the pipeline.
//!
//! Whether the inputs are such files is decided by their content, before a trace would be read.

use crate::analysis::api::{Output, View};
use crate::cli::args::{RankRanges, parse_ranks};
use crate::cli::exit::Exit;
use crate::cli::memory;
use crate::cli::output::{note, print, width};
use crate::cli::table::OutputArgs;
use crate::error::SetError;
use crate::health::{Health, Severity};
use crate::output::inputs::Inputs;
use crate::output::{text, visible};
use crate::read::discover::{assign_ranks, discover, natural_key};
use crate::read::input::Input;
use crate::read::snapshot::{MemoryFile, SnapshotError, load_snapshot, load_timeline, memory_file};
use crate::read::source::ByteCount;
use crate::snapshot::content::{Key, allocated, parts};
use crate::snapshot::device::{OnlyDevice, devices};
use crate::snapshot::findings::{Finding, findings, uneven};
use crate::snapshot::history::Until;
use crate::snapshot::moment::Moment;
use crate::snapshot::report::{ReportOptions, views};
use crate::snapshot::rows::{DeviceRows, TABLES, stacks};
use crate::snapshot::site::Sites;
use crate::snapshot::tables::MemoryStacks;
use crate::snapshot::timeline::Levels;
use crate::table::schema::{Batch, TableSpec};
use crate::units::{MemoryLimit, fmt_count};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Number of rows of each table of the report.
const TOP: usize = 16;

/// Options that the analysis of traces has, too, with other values.
const SHARED: [&str; 3] = ["by", "at", "device"];

/// The subcommand by itself.
pub fn command() -> Command {
    let command = Command::new("memory").about("Memory of GPUs: peaks, what holds them, leaks, fragmentation");
    with_options(OutputArgs::augment_args(command))
}

/// Adds the options that snapshots take to a command, except those that it has already.
pub fn with_options(mut command: Command) -> Command {
    let traces =
        Arg::new("traces").value_name("SNAPSHOT").required(true).num_args(1..).value_parser(value_parser!(PathBuf));
    let options = [
        traces.help("Memory snapshots (pickles) and memory timelines: files, folders (one level deep) or patterns"),
        text_option("by", "KEY", "Key of what holds the memory: line (default), stack, node (of autograd) or phase"),
        text_option("at", "WHEN", "Moment of the content: peak (default), end, entry:N or nanoseconds since the epoch"),
        text_option("device", "N", "Only this device"),
        text_option("until", "WHEN", "When freed memory stops counting: completed (default) or requested"),
        text_option(
            "folded",
            "WHAT",
            "Print stacks with bytes for a flame graph: alloc (all allocations), peak or end",
        ),
        Arg::new("top")
            .long("top")
            .value_name("N")
            .value_parser(value_parser!(usize))
            .help("Rows to print of each table [default: 16]"),
        Arg::new("ranks")
            .long("ranks")
            .value_name("LIST")
            .value_parser(parse_ranks)
            .help("Only these ranks, e.g. 0,3,8-15"),
        Arg::new("memory_limit")
            .long("memory-limit")
            .value_name("SIZE")
            .value_parser(memory::parse)
            .help("Memory limit, e.g. 4GB"),
        Arg::new("strict")
            .long("strict")
            .action(ArgAction::SetTrue)
            .help("Treat any loss in the input as an error: exit 2"),
    ];
    for option in options {
        if !command.get_arguments().any(|a| a.get_id() == option.get_id()) {
            command = command.arg(option);
            continue;
        }
        // Snapshots take other values than traces; each kind of input checks its own.
        let (name, help) = (option.get_id().to_string(), option.get_help().cloned());
        if SHARED.contains(&name.as_str()) {
            command = command.mut_arg(name, |arg| match (arg.get_help().cloned(), help) {
                (Some(own), Some(help)) => {
                    arg.value_parser(value_parser!(String)).help(format!("{own}; snapshots: {help}"))
                }
                _ => arg.value_parser(value_parser!(String)),
            });
        }
    }
    command
}

fn text_option(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

/// A file about memory.
pub struct MemoryInput {
    input: Input,
    kind: MemoryFile,
}

/// The files of the arguments, if all are snapshots or timelines; `None` if none is.
///
/// # Errors
/// When there are traces among them.
pub fn inputs(matches: &ArgMatches) -> Result<Option<Vec<MemoryInput>>, SetError> {
    let paths = matches.try_get_many::<PathBuf>("traces").ok().flatten();
    let (mut found, mut other): (Vec<MemoryInput>, Option<Input>) = (Vec::new(), None);
    for path in paths.into_iter().flatten() {
        let named =
            if path.is_dir() { in_folder(path) } else { discover(std::slice::from_ref(path)).unwrap_or_default() };
        if named.is_empty() && path.as_os_str() != "-" {
            // Told by the reader of traces, as for other commands.
            return Ok(None);
        }
        for input in named {
            match memory_file(&input.path) {
                Ok(Some(kind)) => found.push(MemoryInput { input, kind }),
                // A folder may hold anything beside.
                _ if !input.named => {}
                _ => other = Some(input),
            }
        }
    }
    match (found.is_empty(), other) {
        (true, _) => Ok(None),
        (false, None) => Ok(Some(found)),
        (false, Some(other)) => Err(SetError::Argument {
            option: "the inputs",
            value: other.shown,
            reason:
                "expected only memory snapshots and timelines, or only traces: they measure different bytes, so run \
                     `hta memory` on each kind by itself"
                    .to_string(),
        }),
    }
}

/// Why inputs cannot be used none of which is a snapshot or timeline.
pub fn refusal(matches: &ArgMatches) -> SetError {
    let paths: Vec<PathBuf> = matches.try_get_many("traces").ok().flatten().into_iter().flatten().cloned().collect();
    let found = match discover(&paths) {
        Ok(found) => found,
        Err(e) => return e,
    };
    let value = found.first().map_or_else(String::new, |i| i.shown.clone());
    let reason = "expected a memory snapshot (pickle) or a memory timeline".to_string();
    SetError::Argument { option: "hta memory", value, reason }
}

/// The files of a folder in natural order.
fn in_folder(folder: &Path) -> Vec<Input> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.map(|e| e.path()).filter(|p| p.is_file());
    let mut inputs: Vec<Input> =
        files.map(|path| Input { shown: path.display().to_string(), path, named: false, process: None }).collect();
    inputs.sort_by_cached_key(|i| natural_key(&i.shown));
    inputs
}

/// What `--folded` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Folded {
    Alloc,
    At(Moment),
}

struct Chosen {
    by: Key,
    at: Option<Moment>,
    device: OnlyDevice,
    until: Until,
    folded: Option<Folded>,
    top: usize,
    limit: Option<MemoryLimit>,
}

impl Chosen {
    fn new(m: &ArgMatches) -> Result<Self, SetError> {
        let text = |name: &str| m.try_get_one::<String>(name).ok().flatten();
        let bad = |option, value: &str, reason: &str| SetError::Argument {
            option,
            value: value.to_string(),
            reason: reason.to_string(),
        };
        let by = match text("by").map(String::as_str) {
            None => Key::Line,
            Some(name) => Key::ALL.into_iter().find(|k| k.name() == name).ok_or_else(|| {
                bad("--by", name, "a snapshot has no operators or modules: expected line, stack, node or phase")
            })?,
        };
        let at = match text("at") {
            None => None,
            Some(at) => Some(Moment::parse(at).map_err(|reason| bad("--at", at, &reason))?),
        };
        let device = match text("device").map(String::as_str) {
            None => OnlyDevice::Any,
            Some("cpu") => OnlyDevice::Host,
            Some(d) => match d.strip_prefix("cuda:").unwrap_or(d).parse() {
                Ok(number) => OnlyDevice::Number(number),
                Err(_) => {
                    return Err(bad("--device", d, "expected 0, cuda:0 or another index, or cpu for pinned memory"));
                }
            },
        };
        let until = match text("until").map(String::as_str) {
            None | Some("completed") => Until::Completed,
            Some("requested") => Until::Requested,
            Some(other) => return Err(bad("--until", other, "expected completed or requested")),
        };
        let folded = match text("folded").map(String::as_str) {
            None => None,
            Some("alloc") => Some(Folded::Alloc),
            Some("peak") => Some(Folded::At(Moment::Peak)),
            Some("end") => Some(Folded::At(Moment::End)),
            Some(other) => return Err(bad("--folded", other, "expected alloc, peak or end")),
        };
        let top = m.try_get_one::<usize>("top").ok().flatten().copied().unwrap_or(TOP);
        let limit = memory::limit(m.try_get_one::<u64>("memory_limit").ok().flatten().copied());
        Ok(Self { by, at, device, until, folded, top, limit })
    }
}

/// What all files gave so far.
#[derive(Default)]
struct Answer {
    batches: Vec<Batch>,
    views: Vec<View>,
    findings: Vec<Finding>,
    /// Rank, device and peak of each device with a history.
    peaks: Vec<(u32, String, i64)>,
    folded: String,
    devices: u64,
    /// Whether a device has the moment of `--at`.
    has_moment: bool,
    has_loss: bool,
}

/// Runs the command on files about memory.
///
/// # Errors
/// When an option cannot be used or nothing can be written.
pub fn run(matches: &ArgMatches, files: Vec<MemoryInput>) -> anyhow::Result<Exit> {
    let output = OutputArgs::from_arg_matches(matches)?;
    let chosen = Chosen::new(matches)?;
    let table = output.table(TABLES)?;
    let inputs: Vec<Input> = files.iter().map(|f| f.input.clone()).collect();
    output.allow(&Inputs::of_traces(&inputs))?;
    let ranks = assign_ranks(&inputs, &vec![None; inputs.len()]);
    let wanted = matches.try_get_one::<RankRanges>("ranks").ok().flatten();
    let is_wanted = |rank: u32| wanted.is_none_or(|w| w.0.iter().any(|(a, b)| (*a..=*b).contains(&rank)));
    let mut answer = Answer::default();
    let mut read: Vec<(&MemoryInput, u32)> = Vec::new();
    for (file, (rank, _)) in files.iter().zip(&ranks).filter(|(_, (rank, _))| is_wanted(*rank)) {
        read.push((file, *rank));
    }
    read.sort_by_key(|(_, rank)| *rank);
    if read.is_empty() {
        let all: Vec<String> = ranks.iter().map(|(r, _)| r.to_string()).collect();
        let reason = format!("the files are of ranks {}", all.join(", "));
        return Err(SetError::Argument { option: "--ranks", value: "these ranks".to_string(), reason }.into());
    }
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
    if refused == read.len() {
        return Ok(Exit::Nothing);
    }
    answer.has_loss |= refused > 0;
    let strict = matches.try_get_one::<bool>("strict").ok().flatten().copied().unwrap_or(false);
    if strict && answer.has_loss {
        note("hta: cannot go on with --strict: something in the input could not be used");
        return Ok(Exit::Nothing);
    }
    if chosen.device != OnlyDevice::Any && answer.devices == 0 {
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
    write(&output, table, answer, &chosen)
}

fn write(output: &OutputArgs, table: &'static TableSpec, answer: Answer, chosen: &Chosen) -> anyhow::Result<Exit> {
    let exit = if answer.has_loss { Exit::Partly } else { Exit::Done };
    if chosen.folded.is_some() && output.is_text() {
        print(visible::lines(&answer.folded).as_bytes())?;
        return Ok(exit);
    }
    let mut found = answer.findings;
    found.extend(uneven(&answer.peaks));
    found.sort_by_key(|(subject, _)| *subject);
    let observations = found.into_iter().map(|(_, observation)| observation).collect();
    let report = Output { observations, views: answer.views, ..Output::default() };
    output.write(table, &answer.batches, || text::one_output(&report, width()))?;
    Ok(exit)
}

/// Prints what was lost in a file.
fn tell_losses(answer: &mut Answer, health: &Health, file: &str, rank: u32) {
    answer.has_loss |= health.has_loss();
    for (counter, tally) in health.iter().filter(|(c, _)| c.spec().severity >= Severity::Loss) {
        let spec = counter.spec();
        note(&format!("hta: rank {rank} ({file}): {} x {}: {}", fmt_count(tally.count), spec.name, spec.doc));
    }
}

fn add_snapshot(
    answer: &mut Answer,
    input: &Input,
    rank: u32,
    chosen: &Chosen,
    wanted: Option<&'static TableSpec>,
) -> Result<(), SnapshotError> {
    let snapshot = load_snapshot(&input.path, &input.shown, chosen.limit, &ByteCount::default())?;
    let sites = Sites::new(&snapshot);
    let mut health = snapshot.health.clone();
    for device in devices(&snapshot, chosen.until, chosen.device, &mut health) {
        let rows = DeviceRows { rank, device: &device, sites: &sites };
        answer.devices += 1;
        answer.has_moment |= chosen.at.is_some_and(|at| rows.held(at).is_some());
        if let Some(replay) = &device.replay {
            answer.peaks.push((rank, device.name(), replay.peak.bytes));
        }
        match (wanted, chosen.folded) {
            (Some(table), _) => answer.batches.extend(rows.table(table, chosen.at)),
            (None, Some(folded)) => {
                let parts = match folded {
                    Folded::Alloc => allocated(&device, &sites, Key::Stack),
                    Folded::At(moment) => {
                        let held = rows.held(moment).map(|(_, held)| held).unwrap_or_default();
                        parts(&device, &sites, held, Key::Stack)
                    }
                };
                for part in parts {
                    let _ = writeln!(answer.folded, "rank {rank};{};{} {}", device.name(), part.key, part.bytes);
                }
            }
            (None, None) => {
                answer.findings.extend(findings(&rows));
                let options = ReportOptions { by: chosen.by, at: chosen.at.unwrap_or_default(), top: chosen.top };
                answer.views.extend(views(&rows, options));
            }
        }
    }
    if wanted.is_some_and(|t| t.name == MemoryStacks::SPEC.name) {
        answer.batches.push(stacks(&snapshot, rank));
    }
    tell_losses(answer, &health, &input.shown, rank);
    Ok(())
}

fn add_timeline(
    answer: &mut Answer,
    input: &Input,
    rank: u32,
    chosen: &Chosen,
    wanted: Option<&'static TableSpec>,
) -> Result<(), SnapshotError> {
    let timeline = load_timeline(&input.path, &input.shown, chosen.limit, &ByteCount::default())?;
    let levels = Levels::new(&timeline);
    answer.devices += 1;
    answer.peaks.push((rank, "timeline".to_string(), levels.peak_bytes()));
    let at = chosen.at.unwrap_or_default();
    let view = levels.view(rank, at);
    answer.has_moment |= view.is_some();
    match wanted {
        Some(table) => answer.batches.extend(levels.table(table, rank, chosen.at)),
        None if chosen.folded.is_none() => answer.views.extend(view),
        None => {}
    }
    tell_losses(answer, &timeline.health, &input.shown, rank);
    Ok(())
}
