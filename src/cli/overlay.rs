//! `hta overlay`: writes one trace file of chosen ranks for a viewer.

use crate::cli::args::TraceArgs;
use crate::cli::browser;
use crate::cli::exit::Exit;
use crate::cli::output::{note, print_text};
use crate::cli::progress::Bar;
use crate::cli::ranks::{RankRanges, parse_ranks};
use crate::overlay::serve::{OverlayServer, Served};
use crate::overlay::{
    OverlayError, OverlayOutput, OverlayRequest, OverlaySummary, Passes, RankStats, Target, overlay,
};
use anyhow::Context;
use clap::{Args, ValueEnum};
use hta_analysis::counters::series::DeviceCounter;
use hta_analysis::critical_path::{ANNOTATION, CAPTURE};
use hta_analysis::filters;
use hta_base::units::{fmt_count, fmt_ns};
use hta_job::ClockMode;
use hta_read::error::SetError;
use hta_read::files::Stores;
use hta_results::output::inputs::Inputs;
use hta_results::output::text::loss_lines;
use hta_results::output::unfinished::UnfinishedFile;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub const AFTER_HELP: &str = "\
Examples:
  hta overlay rank_0.json.gz -o seen.json.gz --critical-path
  hta overlay traces/ -o seen.json.gz --ranks 0-7 --draw 0,5
  hta overlay traces/ -o seen.json.gz --counter none --no-compare
  hta overlay traces/ --open

Open the file in https://ui.perfetto.dev, or let --open do it. `hta explain overlay` says what is drawn and \
what is changed.";

#[derive(Debug, Args)]
pub struct OverlayArgs {
    #[command(flatten)]
    traces: TraceArgs,
    /// File to write, compressed according to its name (.gz, .zst); `-` is standard output
    /// [default: overlay.json.gz]
    #[arg(short, long, alias = "output", value_name = "FILE")]
    out: Option<PathBuf>,
    /// Open it in the browser at https://ui.perfetto.dev, which loads it from port 9001 of this machine;
    /// without --out the file is temporary
    #[arg(long)]
    open: bool,
    /// Time for which --open waits for the browser, seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300, requires = "open")]
    open_wait: u32,
    /// Replace an existing file, but never one of the traces
    #[arg(long)]
    force: bool,
    /// Draw only these ranks; the others are still compared
    #[arg(long, value_name = "LIST", value_parser = parse_ranks)]
    draw: Option<RankRanges>,
    /// Counters to draw
    #[arg(long, value_enum, value_delimiter = ',', default_value = "all")]
    counter: Vec<CounterArg>,
    /// Draw the critical path of the median step, or of what --steps, --annotation or --capture select
    #[arg(long)]
    critical_path: bool,
    /// Find the path of the k-th occurrence of an annotation, from 0, instead of a step
    #[arg(long, value_name = "NAME[:k]", requires = "critical_path")]
    annotation: Option<String>,
    /// Find the path of the whole recording instead of a step
    #[arg(long, requires = "critical_path")]
    capture: bool,
    /// Do not compare ranks: leave clocks as recorded, and mark no late ranks
    #[arg(long)]
    no_compare: bool,
}

/// The file that is written if none is named.
const DEFAULT_OUT: &str = "overlay.json.gz";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum CounterArg {
    All,
    None,
    /// Number of waiting launches, by stream
    QueueLength,
    /// Bandwidth of copies, by direction
    MemoryBandwidth,
    /// Share of each bucket in which a kernel runs
    GpuUtilization,
    /// Share of the multiprocessors that have blocks
    SmEfficiency,
    /// Occupancy as estimated by the profiler
    EstOccupancy,
}

impl CounterArg {
    fn counters(self) -> &'static [DeviceCounter] {
        match self {
            CounterArg::All => &DeviceCounter::ALL,
            CounterArg::None => &[],
            CounterArg::QueueLength => &[DeviceCounter::QueueLength],
            CounterArg::MemoryBandwidth => &[DeviceCounter::MemoryBandwidth],
            CounterArg::GpuUtilization => &[DeviceCounter::GpuUtilization],
            CounterArg::SmEfficiency => &[DeviceCounter::SmEfficiency],
            CounterArg::EstOccupancy => &[DeviceCounter::EstOccupancy],
        }
    }
}

pub fn run(args: &OverlayArgs, stores: &Stores) -> anyhow::Result<Exit> {
    let mut options = args.traces.options(stores)?;
    args.traces.common.compat(&[])?;
    let counters = args.counters()?;
    let given = [(&ANNOTATION, args.annotation.as_deref()), (&CAPTURE, args.capture.then_some(""))];
    for (setting, text) in given.into_iter().filter_map(|(s, t)| Some((s, t?))) {
        options.settings.set(setting, text).map_err(|reason| SetError::Argument {
            option: setting.flag,
            value: text.to_string(),
            reason,
        })?;
    }
    filters::one_window(&options)?;
    let (path, temporary) = args.place()?;
    // Take the port first: if it is in use, the work would be for nothing.
    let server = args.open.then(|| OverlayServer::bind(&path)).transpose()?;
    let traces = args.traces.traces(stores)?;
    if path.as_os_str() != "-" {
        let mut guarded = Inputs::default();
        args.traces.common.guard(&mut guarded);
        guarded.allow_file(&path)?;
    }
    let target = match path.as_os_str() == "-" {
        true => Target::Stdout,
        false if temporary.is_some() => Target::Scratch(path.clone()),
        false => Target::File { path: path.clone(), force: args.force },
    };
    let mut out = OverlayOutput::create(&target, &traces.inputs)?;
    let ranks = args.traces.common.ranks.ranges(&traces.inputs)?;
    let request = OverlayRequest {
        inputs: &traces.inputs,
        ranks: &ranks,
        draw: args.draw.as_ref().map_or(&[], |d| &d.0),
        options: &options,
        load: args.traces.common.load(false, false),
        counters: &counters,
        critical_path: args.critical_path,
        compares: !args.no_compare,
    };
    let (survey, marks, copy) = (Bar::default(), Bar::default(), Bar::default());
    let passes = Passes { survey: &survey, marks: &marks, copy: &copy };
    let made = args.traces.common.threads.run(|| overlay(&request, &mut out, &passes))?;
    let summary = match made {
        Ok(s) => s,
        // The reader of standard output closed the pipe; that is not an error.
        Err(OverlayError::Write { source, .. })
            if target == Target::Stdout && source.kind() == std::io::ErrorKind::BrokenPipe =>
        {
            return Ok(Exit::Done);
        }
        Err(OverlayError::Run(e)) => return Err(e.into()),
        Err(e) => return Err(e.into()),
    };
    if let Some(outcome) = &summary.outcome {
        filters::check_pattern(&outcome.inventory)?;
    }
    warn(&summary);
    if args.traces.common.strict.refuses_loss(summary.has_loss()) {
        return Ok(Exit::Nothing);
    }
    match out.finish() {
        Err(OverlayError::Write { source, .. })
            if target == Target::Stdout && source.kind() == std::io::ErrorKind::BrokenPipe => {}
        other => other?,
    }
    let clocks_off = !request.compares || matches!(options.across.clock, ClockMode::None);
    let mut text = report(&summary, clocks_off);
    if matches!(target, Target::File { .. }) {
        text.push_str(&format!("\nresult: {} (open it in https://ui.perfetto.dev)\n", path.display()));
    }
    match target {
        Target::Stdout => text.lines().for_each(note),
        Target::File { .. } | Target::Scratch(_) => drop(print_text(&text)?),
    }
    let served = server.map_or(Ok(Served::Whole), |server| show(server, &path, args.open_wait))?;
    Ok(Exit::of_loss(served != Served::Whole || summary.has_loss()))
}

impl OverlayArgs {
    fn counters(&self) -> Result<Vec<DeviceCounter>, SetError> {
        if self.counter.len() > 1 && self.counter.contains(&CounterArg::None) {
            let reason = "expected none alone, or counters".to_string();
            return Err(SetError::Argument { option: "--counter", value: "none".to_string(), reason });
        }
        let mut counters: Vec<DeviceCounter> =
            self.counter.iter().flat_map(|c| c.counters().iter().copied()).collect();
        counters.sort_unstable();
        counters.dedup();
        Ok(counters)
    }

    /// The file to write; with `--open` and without `--out` a private one that is removed in the end.
    fn place(&self) -> anyhow::Result<(PathBuf, Option<UnfinishedFile>)> {
        match &self.out {
            Some(path) if self.open && path.as_os_str() == "-" => {
                let reason = "--open needs a file".to_string();
                Err(SetError::Argument { option: "--out", value: "-".to_string(), reason }.into())
            }
            Some(path) => Ok((path.clone(), None)),
            None if !self.open => Ok((PathBuf::from(DEFAULT_OUT), None)),
            None => {
                let folder = std::env::temp_dir();
                let keep = || format!("cannot keep the overlay in a file in {} (TMPDIR)", folder.display());
                let file = UnfinishedFile::create_private_in(&folder, "overlay").with_context(keep)?;
                Ok((file.path().to_path_buf(), Some(file)))
            }
        }
    }
}

/// Opens the file in the browser, and waits until it has been loaded.
fn show(server: OverlayServer, file: &Path, wait: u32) -> anyhow::Result<Served> {
    let link = server.link();
    let how = if browser::open(&link) { "opened in the browser" } else { "open this link in a browser" };
    print_text(&format!("{how}: {link}\n"))?;
    let served = server.serve(file, Duration::from_secs(u64::from(wait)))?;
    if served == Served::NobodyCame {
        note(&format!("hta: no browser has loaded the file in {wait} s"));
        note(
            "hint: on another machine, forward the port (ssh -L 9001:127.0.0.1:9001 HOST) and open the link \
             there",
        );
    }
    Ok(served)
}

fn warn(summary: &OverlaySummary) {
    crate::cli::output::warn(&summary.refused);
    let analysed = summary.outcome.as_ref().map(loss_lines).unwrap_or_default();
    for line in summary.losses.iter().filter(|l| !analysed.contains(l)).chain(&analysed) {
        note(line);
    }
}

fn plural(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", fmt_count(n), if n == 1 { one } else { many })
}

fn report(summary: &OverlaySummary, clocks_off: bool) -> String {
    let several = summary.drawn.len() > 1;
    let one = |d: &RankStats| {
        let mut parts = vec![plural(d.events, "event", "events")];
        if d.counters > 0 {
            let samples = plural(d.samples, "sample", "samples");
            parts.push(format!("{} ({samples})", plural(d.counters, "counter", "counters")));
        }
        if d.segments > 0 {
            parts.push(format!("critical path of {}", plural(d.segments, "segment", "segments")));
        }
        if d.marks > 0 {
            parts.push(format!("late {}", plural(d.marks, "time", "times")));
        }
        if d.clock_offset != 0 {
            parts.push(format!("clock moved by {}", fmt_ns(-d.clock_offset)));
        }
        if d.mended > 0 {
            parts.push(format!("{} mended to be JSON", plural(d.mended, "event", "events")));
        }
        format!("  rank {}: {}\n", d.rank, parts.join(", "))
    };
    let mut text = format!("overlay of {}\n", plural(summary.drawn.len() as u64, "rank", "ranks"));
    summary.drawn.iter().for_each(|d| text.push_str(&one(d)));
    if several && !clocks_off && summary.drawn.iter().all(|d| d.clock_offset == 0) {
        text.push_str("  clocks: no offset is clear enough to be applied\n");
    }
    for line in &summary.notes {
        text.push_str(&format!("  {line}\n"));
    }
    text
}
