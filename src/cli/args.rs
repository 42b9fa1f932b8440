//! Arguments that all commands on traces share, and their conversion to the library's options.

use crate::analysis::api::{AcrossOptions, Analysis, Options, Wanted};
use crate::analysis::settings::Settings;
use crate::cli::memory;
use crate::compat;
use crate::compat::Compat;
use crate::error::SetError;
use crate::files::{Location, Stores};
use crate::flops::peaks::Peaks;
use crate::job::ClockMode;
use crate::output::inputs::Inputs;
use crate::output::unfinished::UnfinishedFile;
use crate::partial::OptionTexts;
use crate::read::discover::discover;
use crate::read::input::Input;
use crate::read::options::LoadOptions;
use crate::run::{CaptureError, read_captures};
use crate::trace::graph_capture::Captures;
use crate::trace::rank_trace::{ModelOptions, StepFilter};
use crate::trace::rules::Rules;
use crate::trace::step::StepWindow;
use anyhow::Context;
use clap::{Args, ValueEnum};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Default of `--kernel-wait-max-us`, ns.
const KERNEL_WAIT_MAX: i64 = 30_000;

// One set of traces. Not a doc comment: clap would use it as the description of every command.
#[derive(Debug, Args)]
pub struct TraceArgs {
    /// Traces: files, folders (one level deep) or patterns; `-` is standard input
    #[arg(value_name = "TRACE", required_unless_present = "rank_dir")]
    pub traces: Vec<PathBuf>,
    /// A folder with one trace per rank
    #[arg(long, value_name = "DIR")]
    pub rank_dir: Option<PathBuf>,
    #[command(flatten)]
    pub common: CommonArgs,
    #[command(flatten)]
    pub across: AcrossArgs,
}

// Options that apply to the comparison of ranks. Not a doc comment, as above.
#[derive(Debug, Args)]
pub struct AcrossArgs {
    /// Longest wait after a launch that counts as kernel wait, us
    #[arg(long, value_name = "US", default_value_t = 30)]
    pub kernel_wait_max_us: u32,
    /// Correct clocks between ranks by the ends of collectives: where the offset is clear, always, or never
    #[arg(long, value_enum, default_value_t = ClockArg::Auto)]
    pub clock: ClockArg,
    /// Smallest gain for which a rank is reported as a straggler, percent of the median step
    #[arg(long, value_name = "PCT", default_value_t = 5.0, value_parser = parse_percent)]
    pub straggler_min_pct: f64,
    /// Only these process groups, by name or description
    #[arg(long, value_name = "NAME")]
    pub group: Vec<String>,
}

// Options for reading traces, for commands on one set and on two sets. Not a doc comment, as above.
#[derive(Debug, Args)]
pub struct CommonArgs {
    /// Only these ranks, e.g. 0,3,8-15
    #[arg(long, visible_alias = "rank", value_name = "LIST", value_parser = parse_ranks)]
    pub ranks: Option<RankRanges>,
    /// Take the files for ranks of one job although they look like captures of one process, or like two jobs
    #[arg(long)]
    pub ranks_by_position: bool,
    /// Only these steps: labels (3,5-7 or 5..7), or positions (@0,@2-4)
    #[arg(long, visible_alias = "step", value_name = "LIST", value_parser = parse_steps)]
    pub steps: Option<StepFilter>,
    /// Steps are annotations whose name matches this regular expression
    #[arg(long, value_name = "REGEX")]
    pub step_pattern: Option<String>,
    /// Window of a step: its annotation (host), or until the work that it launched has ended (device); auto: device where
    /// the device lags behind its host
    #[arg(long, value_enum, default_value_t = WindowArg::Auto)]
    pub step_window: WindowArg,
    /// Shortest wait of a stream's first launched activity that is evidence of work from before the recording, us
    #[arg(long, value_name = "US", default_value_t = 1000)]
    pub hidden_min_us: u32,
    /// Leave out GPU activities without a launch record
    #[arg(long)]
    pub linked_only: bool,
    /// Answer in another tool's definitions
    #[arg(long, value_enum)]
    pub compat: Option<CompatArg>,
    /// Trace in which the engine captured its graphs, or a folder of such traces: names the kernels of their replays; may
    /// be given several times
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
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub top: usize,
    /// Threads to use; all cores by default
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub threads: Option<usize>,
    /// Memory limit, e.g. 4GB or 512MiB: fewer ranks are analysed at once, and a rank that cannot fit is refused;
    /// default: 80% of the memory that is available on the machine or in its control group
    #[arg(long, value_name = "SIZE", value_parser = memory::parse)]
    pub memory_limit: Option<u64>,
    /// Treat any loss in the input as an error: exit 2, write nothing
    #[arg(long)]
    pub strict: bool,
}

/// Ranges of ranks as in `0,3,8-15`, both ends inclusive.
#[derive(Debug, Clone)]
pub struct RankRanges(pub Vec<(u32, u32)>);

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum WindowArg {
    Auto,
    Host,
    Device,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum ClockArg {
    Auto,
    Collectives,
    None,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum CompatArg {
    Hta,
    Tracelens,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum SkipArg {
    /// Python frames
    PythonFunction,
    /// Records of allocations and frees
    Memory,
}

fn range<T: std::str::FromStr + PartialOrd + Copy>(text: &str) -> Result<(T, T), String> {
    let number = |t: &str| t.trim().parse::<T>().map_err(|_| format!("expected a number, found `{t}`"));
    let (a, b) = match text.split_once('-') {
        Some((a, b)) if !a.is_empty() => (number(a)?, number(b)?),
        _ => (number(text)?, number(text)?),
    };
    if b < a { Err(format!("expected a range upwards, found `{text}`")) } else { Ok((a, b)) }
}

/// Largest number of threads accepted: more threads than cores only cost memory and time.
const MOST_THREADS: usize = 512;

pub fn parse_threads(text: &str) -> Result<usize, String> {
    let threads = text.parse().ok().filter(|n| (1..=MOST_THREADS).contains(n));
    threads.ok_or_else(|| format!("expected a number of threads from 1 to {MOST_THREADS}, found `{text}`"))
}

fn parse_percent(text: &str) -> Result<f64, String> {
    let percent = text.trim_end_matches('%').parse().ok().filter(|p: &f64| p.is_finite() && *p >= 0.0);
    percent.ok_or_else(|| format!("expected a percentage from 0, found `{text}`"))
}

pub fn parse_ranks(text: &str) -> Result<RankRanges, String> {
    text.split(',').map(range).collect::<Result<_, _>>().map(RankRanges)
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

/// The traces of the command line. Standard input is stored in a temporary file that lives as long as this value.
pub struct Traces {
    pub inputs: Vec<Input>,
    /// Files that no output may overwrite: the traces and the other files that the command reads.
    pub guarded: Inputs,
    _spool: Option<UnfinishedFile>,
}

impl TraceArgs {
    /// Resolves the arguments to files.
    pub fn traces(&self, stores: &Stores) -> anyhow::Result<Traces> {
        let mut traces = traces(&self.traces, self.rank_dir.as_deref(), stores)?;
        self.common.guard(&mut traces.guarded);
        Ok(traces)
    }

    pub fn options(&self, stores: &Stores) -> anyhow::Result<Options> {
        options(&self.common, &self.across, stores)
    }
}

/// Resolves paths and a folder of ranks to files.
pub fn traces(paths: &[PathBuf], rank_dir: Option<&Path>, stores: &Stores) -> anyhow::Result<Traces> {
    let (mut found, mut spool) = (Vec::new(), None);
    for path in paths.iter().map(PathBuf::as_path).chain(rank_dir) {
        if path.as_os_str() == "-" && spool.is_none() {
            // Standard input cannot be rewound, and a trace may have to be read twice.
            spool = Some(spooled()?);
        } else {
            found.push(Location::new(path, stores));
        }
    }
    if let Some(dir) = found.last().filter(|d| rank_dir.is_some() && !d.is_dir() && !d.is_remote()) {
        return Err(SetError::Missing { what: format!("the folder `{}`", dir.display()) }.into());
    }
    let mut inputs = Vec::new();
    if let Some(file) = &spool {
        inputs.push(Input::named(file.path()).shown_as("<stdin>"));
    }
    if !found.is_empty() {
        inputs.extend(discover(&found)?);
    }
    let mut guarded = Inputs::of_traces(&inputs);
    // What is no file of a store by its own name is a folder or a pattern there.
    let is_own = |path: &Location| inputs.iter().any(|i| i.path == *path);
    let is_folder = |path: &&Location| path.is_dir() || path.is_remote() && !is_own(path);
    found.iter().filter(is_folder).for_each(|folder| guarded.add_folder(folder));
    Ok(Traces { inputs, guarded, _spool: spool })
}

/// Copies standard input to a temporary file that only the user may read.
fn spooled() -> anyhow::Result<UnfinishedFile> {
    let folder = std::env::temp_dir();
    let keep = || format!("cannot keep standard input in a file in {} (TMPDIR)", folder.display());
    let file = UnfinishedFile::create_private_in(&folder, "stdin").with_context(keep)?;
    let mut out = file.reopen().with_context(keep)?;
    let mut input = std::io::stdin().lock();
    let mut block = vec![0; 1 << 16];
    loop {
        let length = match input.read(&mut block) {
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            read => read.context("cannot read standard input")?,
        };
        if length == 0 {
            return Ok(file);
        }
        std::io::Write::write_all(&mut out, block.get(..length).unwrap_or_default()).with_context(keep)?;
    }
}

/// Largest size of a rules file or a statement, bytes. The limit protects against endless inputs such as devices.
const LONGEST_TEXT: u64 = 1 << 20;

/// Reads a short text file.
///
/// # Errors
/// When it cannot be read, is not UTF-8, or is longer than `LONGEST_TEXT`.
pub fn read_text(path: &Path) -> std::io::Result<String> {
    text_of(File::open(path)?)
}

/// Like [`read_text`], from an open reader.
pub fn text_of(file: impl Read) -> std::io::Result<String> {
    let mut text = String::new();
    file.take(LONGEST_TEXT + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LONGEST_TEXT {
        return Err(std::io::Error::other(format!("expected a text of at most {LONGEST_TEXT} bytes, found more")));
    }
    Ok(text)
}

/// What the files of `--rules` and `--peaks` hold.
const KERNEL_RULES: &str = "kernel rules";
const DEVICE_PEAKS: &str = "device peaks";

fn bad_file(holds: &'static str, path: &Path, reason: String) -> SetError {
    SetError::OptionFile { holds, path: path.to_path_buf(), reason }
}

/// Options of the analyses, including those that compare ranks.
pub fn options(common: &CommonArgs, across: &AcrossArgs, stores: &Stores) -> anyhow::Result<Options> {
    let mut options = common.options(stores)?;
    options.kernel_wait_max = i64::from(across.kernel_wait_max_us) * 1000;
    options.across = AcrossOptions {
        clock: match across.clock {
            ClockArg::Auto => ClockMode::Auto,
            ClockArg::Collectives => ClockMode::Collectives,
            ClockArg::None => ClockMode::None,
        },
        straggler_min_pct: across.straggler_min_pct,
        groups: across.group.clone(),
        ..options.across
    };
    Ok(options)
}

impl CommonArgs {
    /// Options of the analyses; those that compare ranks have their defaults.
    pub fn options(&self, stores: &Stores) -> anyhow::Result<Options> {
        let builtin = Rules::builtin().map_err(anyhow::Error::msg)?;
        let texts = self.texts()?;
        let rules = match (&self.rules, texts.rules) {
            (Some(path), Some(text)) => {
                Rules::parse(&text).map_err(|reason| bad_file(KERNEL_RULES, path, reason))?.before(builtin)
            }
            _ => builtin,
        };
        let peaks = match (&self.peaks, texts.peaks) {
            (Some(path), Some(text)) => {
                Peaks::parse(&text).map_err(|reason| bad_file(DEVICE_PEAKS, path, reason))?.before(Peaks::builtin())
            }
            _ => Peaks::builtin().clone(),
        };
        let step_pattern = match &self.step_pattern {
            None => None,
            Some(text) => Some(regex::Regex::new(text).map_err(|e| SetError::Argument {
                option: "--step-pattern",
                value: text.clone(),
                reason: e.to_string().lines().last().unwrap_or("not a regular expression").trim().to_string(),
            })?),
        };
        Ok(Options {
            model: ModelOptions {
                rules,
                step_pattern,
                step_window: match self.step_window {
                    WindowArg::Auto => StepWindow::Auto,
                    WindowArg::Host => StepWindow::Host,
                    WindowArg::Device => StepWindow::Device,
                },
                linked_only: self.linked_only,
                steps: self.steps.clone(),
                hidden_min: i64::from(self.hidden_min_us) * 1000,
                graph_captures: Arc::new(self.graph_captures(stores)?),
            },
            peaks,
            kernel_wait_max: KERNEL_WAIT_MAX,
            top: self.top,
            across: AcrossOptions { by_position: self.ranks_by_position, ..AcrossOptions::default() },
            settings: Settings::default(),
            wanted: Wanted::default(),
        })
    }

    /// The graphs of the captures that were given.
    fn graph_captures(&self, stores: &Stores) -> anyhow::Result<Captures> {
        if self.graph_capture.is_empty() {
            return Ok(Captures::default());
        }
        let files: Vec<Location> = self.graph_capture.iter().map(|path| Location::new(path, stores)).collect();
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
        let Some(arg) = self.compat else { return Ok(None) };
        let tool = match arg {
            CompatArg::Hta => Compat::Hta,
            CompatArg::Tracelens => Compat::TraceLens,
        };
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
            let read = |path: &PathBuf| read_text(path).map_err(|e| bad_file(holds, path, e.to_string()));
            path.as_ref().map(read).transpose()
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

    pub fn rank_ranges(&self) -> &[(u32, u32)] {
        self.ranks.as_ref().map_or(&[], |r| &r.0)
    }

    /// Runs `work` on the number of threads asked for.
    pub fn on_threads<T: Send>(&self, work: impl FnOnce() -> T + Send) -> anyhow::Result<T> {
        on_threads(self.threads, work)
    }
}

/// Runs `work` on a pool of `threads` threads (default: one per core). The calling thread is part of the pool, because
/// each thread has its own allocator arena, and a thread that only waits would waste one.
pub fn on_threads<T: Send>(threads: Option<usize>, work: impl FnOnce() -> T + Send) -> anyhow::Result<T> {
    let pool = || rayon::ThreadPoolBuilder::new().num_threads(threads.unwrap_or(0));
    // A thread cannot belong to two pools; without it in the pool the work still runs.
    let pool = pool().use_current_thread().build().or_else(|_| pool().build());
    Ok(pool.context("cannot start threads")?.install(work))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        crate::cli::command().debug_assert();
    }
}
