//! The options of `hta memory` for snapshots and timelines.

use crate::cli::args::CommonArgs;
use crate::cli::memory;
use clap::{Arg, ArgMatches, Command, value_parser};
use hta_analysis::snapshot::content::ContentKey;
use hta_analysis::snapshot::device::OnlyDevice;
use hta_analysis::snapshot::history::Until;
use hta_base::units::MemoryLimit;
use hta_read::error::SetError;
use hta_trace::memory_moment::MemoryMoment;

/// Adds the options that only snapshots take to the command of the analysis of traces, and to the help of the shared ones
/// what they mean for snapshots.
pub fn with_options(command: Command) -> Command {
    let shared = [
        ("by", "Key of what holds the memory: line (default), stack, node (of autograd) or phase"),
        ("at", "Moment of the content: peak (default), end, entry:N or nanoseconds since the epoch"),
        ("device", "Only this device"),
        ("folded", "Print stacks with bytes for a flame graph: alloc (all allocations), peak or end"),
    ];
    let steps_by = "Annotations that mark steps: what each step leaves behind is a leak (snapshots)";
    let until = "When freed memory stops counting: completed (default) or requested";
    let command = command.arg(text_option("steps-by", "NAME", steps_by)).arg(text_option("until", "WHEN", until));
    // Snapshots take other values than traces; each kind of input checks its own.
    shared.into_iter().fold(command, |command, (name, help)| {
        command.mut_arg(name, |arg| {
            let own = arg.get_help().map(ToString::to_string).unwrap_or_default();
            arg.value_parser(value_parser!(String)).help(format!("{own}; snapshots: {help}"))
        })
    })
}

/// Refuses options that only snapshots have, for inputs that are only traces.
///
/// # Errors
/// When one is given.
pub fn refuse_for_traces(m: &ArgMatches) -> Result<(), SetError> {
    for (name, option) in [("until", "--until"), ("steps-by", "--steps-by")] {
        if let Some(value) = m.try_get_one::<String>(name).ok().flatten() {
            let reason = "it is for memory snapshots, and none is among the inputs".to_string();
            return Err(SetError::Argument { option, value: value.clone(), reason });
        }
    }
    Ok(())
}

fn text_option(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

/// What `--folded` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Folded {
    Alloc,
    At(MemoryMoment),
}

impl Folded {
    pub fn title(self) -> &'static str {
        match self {
            Folded::Alloc => "allocated memory",
            Folded::At(MemoryMoment::End) => "memory at the end",
            Folded::At(_) => "memory at the peak",
        }
    }
}

/// What the options say.
pub struct SnapshotChoice {
    pub by: ContentKey,
    pub at: Option<MemoryMoment>,
    pub device: OnlyDevice,
    pub until: Until,
    /// Start of the names of the annotations that mark steps.
    pub steps_by: Option<String>,
    pub folded: Option<Folded>,
    pub speedscope: Option<String>,
    pub min_bytes: i64,
    pub top: usize,
    pub limit: Option<MemoryLimit>,
}

impl SnapshotChoice {
    /// The stacks that are asked for.
    pub fn stacks(&self) -> Option<Folded> {
        self.folded.or(self.speedscope.is_some().then_some(Folded::At(MemoryMoment::Peak)))
    }

    pub fn new(m: &ArgMatches, common: &CommonArgs) -> Result<Self, SetError> {
        let text = |name: &str| m.try_get_one::<String>(name).ok().flatten();
        let bad = |option, value: &str, reason: &str| SetError::Argument {
            option,
            value: value.to_string(),
            reason: reason.to_string(),
        };
        let by = match text("by").map(String::as_str) {
            None => ContentKey::Line,
            Some(name) => ContentKey::ALL.into_iter().find(|k| k.name() == name).ok_or_else(|| {
                bad("--by", name, "a snapshot has no operators or modules: expected line, stack, node or phase")
            })?,
        };
        let at = match text("at") {
            None => None,
            Some(at) => match MemoryMoment::parse(at) {
                None => return Err(bad("--at", at, &format!("expected {}", MemoryMoment::EXPECTED))),
                Some(MemoryMoment::Step(_)) => {
                    return Err(bad(
                        "--at",
                        at,
                        "a snapshot has no steps: expected peak, end, entry:N or a time in ns",
                    ));
                }
                moment => moment,
            },
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
            None | Some("none") => None,
            Some("alloc") => Some(Folded::Alloc),
            Some("peak") => Some(Folded::At(MemoryMoment::Peak)),
            Some("end") => Some(Folded::At(MemoryMoment::End)),
            Some(other) => return Err(bad("--folded", other, "expected alloc, peak or end")),
        };
        let min_bytes = match text("min-bytes").map(String::as_str) {
            None => 0,
            Some(n) => n.parse().map_err(|_| bad("--min-bytes", n, "expected a whole number of bytes"))?,
        };
        let steps_by = text("steps-by").cloned();
        let speedscope = text("speedscope").cloned();
        let limit = memory::limit(common.memory_limit);
        Ok(Self { by, at, device, until, steps_by, folded, speedscope, min_bytes, top: common.top, limit })
    }
}
