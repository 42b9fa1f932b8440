//! Arguments that all commands on traces share, and their conversion to the library's options.

use crate::cli::memory;
use crate::cli::ranks::{RanksArg, range};
use crate::cli::strict::StrictArg;
use crate::cli::threads::ThreadsArg;
use crate::cli::traces::{TracePaths, Traces, read_text};
use clap::builder::{PossibleValuesParser, TypedValueParser, ValueParser};
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, ValueEnum};
use hta_analysis::api::{AcrossOptions, Analysis, KERNEL_WAIT_MAX, Options, STRAGGLER_MIN_PCT, TOP};
use hta_analysis::settings::regex;
use hta_base::units::Ns;
use hta_compat as compat;
use hta_compat::Compat;
use hta_job::ClockMode;
use hta_read::discover::discover;
use hta_read::error::SetError;
use hta_read::files::{Location, Stores};
use hta_read::options::LoadOptions;
use hta_results::output::inputs::Inputs;
use hta_results::partial::{OptionTexts, RULES};
use hta_results::results::ResultsError;
use hta_results::run::{CaptureError, read_captures};
use hta_trace::graph_capture::Captures;
use hta_trace::rank_trace::{ModelOptions, StepFilter};
use hta_trace::record_edges::HIDDEN_MIN;
use hta_trace::step::StepWindow;
use std::path::PathBuf;
use std::sync::Arc;

// One set of traces. Not a doc comment: clap would use it as the description of every command.
#[derive(Debug, Args)]
pub struct TraceArgs {
    #[command(flatten)]
    pub paths: TracePaths,
    #[command(flatten)]
    pub common: CommonArgs,
    #[command(flatten)]
    pub across: AcrossArgs,
}

// Options that apply to the comparison of ranks. Not a doc comment, as above.
#[derive(Debug, Args)]
pub struct AcrossArgs {
    /// Longest wait after a launch that counts as kernel wait, us
    #[arg(long, value_name = "US", default_value_t = micros(KERNEL_WAIT_MAX))]
    pub kernel_wait_max_us: u32,
    /// Correct clocks between ranks by the ends of collectives: where the offset is clear, always, or never
    #[arg(long, default_value = ClockMode::default().name())]
    #[arg(value_parser = one_of(ClockMode::ALL, ClockMode::name))]
    pub clock: ClockMode,
    /// Smallest gain for which a rank is reported as a straggler, percent of the median step
    #[arg(long, value_name = "PCT", default_value_t = STRAGGLER_MIN_PCT, value_parser = parse_percent)]
    pub straggler_min_pct: f64,
    /// Only these process groups, by name or description
    #[arg(long, value_name = "NAME")]
    pub group: Vec<String>,
}

// Options for reading traces, for commands on one set and on two sets. Not a doc comment, as above.
#[derive(Debug, Args)]
pub struct CommonArgs {
    #[command(flatten)]
    pub ranks: RanksArg,
    /// Take the files for ranks of one job although they look like captures of one process, or like two jobs
    #[arg(long)]
    pub ranks_by_position: bool,
    /// Only these steps: labels (3,5-7 or 5..7), or positions (@0,@2-4)
    #[arg(long, visible_alias = "step", value_name = "LIST", value_parser = parse_steps)]
    pub steps: Option<StepFilter>,
    /// Steps are annotations whose name matches this regular expression
    #[arg(long, value_name = "REGEX")]
    pub step_pattern: Option<String>,
    /// Window of a step: its annotation (host), or until the work that it launched has ended (device); auto:
    /// device where the device lags behind its host
    #[arg(long, default_value = StepWindow::default().name())]
    #[arg(value_parser = one_of(StepWindow::ALL, StepWindow::name))]
    pub step_window: StepWindow,
    /// Shortest wait of a stream's first launched activity that is evidence of work from before the
    /// recording, us
    #[arg(long, value_name = "US", default_value_t = micros(HIDDEN_MIN))]
    pub hidden_min_us: u32,
    /// Leave out GPU activities without a launch record
    #[arg(long)]
    pub linked_only: bool,
    /// Answer in another tool's definitions
    #[arg(long, value_parser = one_of(Compat::TOOLS, Compat::name))]
    pub compat: Option<Compat>,
    /// Trace in which the engine captured its graphs, or a folder of such traces: names the kernels of their
    /// replays; may be given several times
    #[arg(long, value_name = "FILE|FOLDER")]
    pub graph_capture: Vec<PathBuf>,
    /// File with kernel rules that take precedence over the built-in ones
    #[arg(long, value_name = "FILE")]
    pub rules: Option<PathBuf>,
    /// File with peak rates of devices that take precedence over the built-in ones
    #[arg(long, value_name = "FILE")]
    pub peaks: Option<PathBuf>,
    /// Do not load these events; they are counted
    #[arg(long, value_enum, value_delimiter = ',')]
    pub skip: Vec<SkipArg>,
    /// Rows to print of each table
    #[arg(long, value_name = "N", default_value_t = TOP)]
    pub top: usize,
    #[command(flatten)]
    pub threads: ThreadsArg,
    #[arg(long, value_name = "SIZE", value_parser = memory::parse, help = memory_limit_help())]
    pub memory_limit: Option<u64>,
    #[command(flatten)]
    pub strict: StrictArg,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum SkipArg {
    /// Python frames
    PythonFunction,
    /// Records of allocations and frees
    Memory,
}

/// A time in the unit of the options.
const fn micros(ns: Ns) -> u32 {
    (ns / 1000) as u32
}

fn memory_limit_help() -> String {
    format!(
        "Memory limit, e.g. 4GB or 512MiB: fewer ranks are analysed at once, and a rank that cannot fit is \
         refused; default: {}% of the memory that is available on the machine or in its control group",
        memory::SHARE_PERCENT
    )
}

/// Accepts the names of some values.
fn one_of<T: Copy + Send + Sync + 'static, const N: usize>(
    all: [T; N],
    name: fn(T) -> &'static str,
) -> ValueParser {
    let of = move |text: String| all.into_iter().find(|v| name(*v) == text).ok_or("not one of the names");
    PossibleValuesParser::new(all.map(name)).try_map(of).into()
}

fn parse_percent(text: &str) -> Result<f64, String> {
    let percent = text.trim_end_matches('%').parse().ok().filter(|p: &f64| p.is_finite() && *p >= 0.0);
    percent.ok_or_else(|| format!("expected a percentage from 0, found `{text}`"))
}

fn parse_steps(text: &str) -> Result<StepFilter, String> {
    let mut filter = StepFilter::default();
    for part in text.split(',') {
        let part = part.trim().replace("..", "-");
        match part.strip_prefix('@') {
            Some(index) => filter.indices.push(range(&index.replace("-@", "-"))?),
            None => filter.labels.push(range(&part)?),
        }
    }
    Ok(filter)
}

impl TraceArgs {
    /// Resolves the arguments to files.
    pub fn traces(&self, stores: &Stores) -> anyhow::Result<Traces> {
        let mut traces = self.paths.find(stores)?;
        self.common.guard(&mut traces.guarded);
        Ok(traces)
    }

    pub fn options(&self, stores: &Stores) -> anyhow::Result<Options> {
        options(&self.common, &self.across, stores)
    }
}

/// The files of `--rules` and `--peaks`, with what they hold.
const KERNEL_RULES: &str = "kernel rules";
const DEVICE_PEAKS: &str = "device peaks";

/// Options of reading traces that results take, too.
const FOR_RESULTS: [&str; 3] = ["top", "threads", "memory_limit"];

/// Adds the options that choose and read traces, and those that compare ranks, to a command.
pub fn with_readers(command: Command) -> Command {
    AcrossArgs::augment_args(CommonArgs::augment_args(command))
}

/// Options that choose ranks, steps and groups, which some commands take with results, too.
pub const NARROWING: [&str; 3] = ["ranks", "steps", "group"];

/// Refuses options that choose or read traces, because results hold what was analysed. `own` are further
/// options of the command that only traces take, `taken` those that it takes with results.
///
/// # Errors
/// When one is given.
pub fn refuse_for_results(
    matches: &ArgMatches,
    own: &[&str],
    taken: &[&str],
    results: &Location,
) -> Result<(), ResultsError> {
    let readers = with_readers(Command::new("traces"));
    let of_traces =
        readers.get_arguments().map(|arg| arg.get_id().as_str()).filter(|id| !FOR_RESULTS.contains(id));
    let of_traces = of_traces.filter(|id| !taken.contains(id));
    // A command need not have all of them.
    let has = |id: &&str| matches.try_contains_id(id).is_ok();
    let given = |id: &&str| matches.value_source(id) == Some(ValueSource::CommandLine);
    let Some(id) = of_traces.chain(own.iter().copied()).filter(has).find(given) else { return Ok(()) };
    let (option, place) = (format!("--{}", id.replace('_', "-")), results.display().to_string());
    Err(ResultsError::OnlyForTraces { option, place })
}

/// Options of the analyses, including those that compare ranks.
pub fn options(common: &CommonArgs, across: &AcrossArgs, stores: &Stores) -> anyhow::Result<Options> {
    let mut options = common.options(stores)?;
    options.kernel_wait_max = i64::from(across.kernel_wait_max_us) * 1000;
    options.across = AcrossOptions {
        clock: across.clock,
        straggler_min_pct: across.straggler_min_pct,
        groups: across.group.clone(),
        ..options.across
    };
    Ok(options)
}

impl CommonArgs {
    /// Options of the analyses; those that compare ranks have their defaults.
    pub fn options(&self, stores: &Stores) -> anyhow::Result<Options> {
        let step_pattern = match &self.step_pattern {
            None => None,
            Some(text) => Some(regex(text).map_err(|reason| SetError::Argument {
                option: "--step-pattern",
                value: text.clone(),
                reason,
            })?),
        };
        let mut options = Options {
            model: ModelOptions {
                step_pattern,
                step_window: self.step_window,
                linked_only: self.linked_only,
                steps: self.steps.clone(),
                hidden_min: i64::from(self.hidden_min_us) * 1000,
                graph_captures: Arc::new(self.graph_captures(stores)?),
                ..ModelOptions::default()
            },
            top: self.top,
            across: AcrossOptions {
                by_position: self.ranks_by_position,
                mesh: self.ranks.mesh.clone(),
                chooses_by_mesh: self.ranks.are_along(),
                ..AcrossOptions::default()
            },
            ..Options::default()
        };
        self.texts()?.apply(&mut options).map_err(|(option, reason)| match option {
            RULES => bad_file(KERNEL_RULES, &self.rules, reason),
            _ => bad_file(DEVICE_PEAKS, &self.peaks, reason),
        })?;
        Ok(options)
    }

    /// The graphs of the captures that were given.
    fn graph_captures(&self, stores: &Stores) -> anyhow::Result<Captures> {
        if self.graph_capture.is_empty() {
            return Ok(Captures::default());
        }
        let files: Vec<Location> =
            self.graph_capture.iter().map(|path| Location::new(path, stores)).collect();
        let read = read_captures(&discover(&files)?, self.load(true, false));
        read.map_err(|e| match e {
            CaptureError::Read(e) => e.into(),
            CaptureError::Set(e) => e.into(),
        })
    }

    /// The tool in whose definitions some of the analyses are to answer.
    ///
    /// # Errors
    /// When none of them can.
    pub fn compat(&self, analyses: &[&'static dyn Analysis]) -> Result<Option<Compat>, SetError> {
        let Some(tool) = self.compat else { return Ok(None) };
        if analyses.iter().any(|a| compat::find(tool, a.stem()).is_some()) {
            return Ok(Some(tool));
        }
        let reason = "this analysis has no answer in that tool's definitions".to_string();
        Err(SetError::Argument { option: "--compat", value: tool.name().to_string(), reason })
    }

    /// Adds the files that these options name to the files that must not be overwritten.
    pub fn guard(&self, inputs: &mut Inputs) {
        self.rules.iter().chain(&self.peaks).for_each(|path| inputs.add_file(path));
        for path in &self.graph_capture {
            match path.is_dir() {
                true => inputs.add_folder(path),
                false => inputs.add_file(path),
            }
        }
    }

    /// The texts of the user's rules and peaks.
    pub fn texts(&self) -> Result<OptionTexts, SetError> {
        let read = |holds: &'static str, path: &Option<PathBuf>| {
            let text = path.as_deref().map(read_text).transpose();
            text.map_err(|e| bad_file(holds, path, e.to_string()))
        };
        Ok(OptionTexts { rules: read(KERNEL_RULES, &self.rules)?, peaks: read(DEVICE_PEAKS, &self.peaks)? })
    }

    pub fn load(&self, event_args: bool, rest_args: bool) -> LoadOptions {
        LoadOptions {
            event_args,
            rest_args,
            memory: memory::limit(self.memory_limit),
            skip_python: self.skip.contains(&SkipArg::PythonFunction),
            skip_memory: self.skip.contains(&SkipArg::Memory),
            ..LoadOptions::default()
        }
    }
}

fn bad_file(holds: &'static str, path: &Option<PathBuf>, reason: String) -> SetError {
    SetError::OptionFile { holds, path: path.clone().unwrap_or_default(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::ranks::parse_ranks;

    #[test]
    fn ranges_are_read() {
        assert_eq!(parse_ranks("0,3,8-15").unwrap().0, [(0, 0), (3, 3), (8, 15)]);
        assert!(parse_ranks("5-3").is_err());
        let f = parse_steps("10,12-14,@0").unwrap();
        assert!(f.keeps(0, None) && f.keeps(9, Some(13)) && !f.keeps(9, Some(11)));
        assert_eq!(parse_steps("3..7,@1..@2").unwrap(), parse_steps("3-7,@1-2").unwrap());
    }

    #[test]
    fn the_command_line_is_consistent() {
        crate::cli::command::command().debug_assert();
    }
}
