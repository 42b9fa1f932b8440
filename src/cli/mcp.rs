//! `hta mcp`: answers an assistant's questions about results and traces.

use crate::cli::exit::Exit;
use crate::cli::results::RESULTS_FOLDER;
use crate::cli::{explain, memory, stores};
use crate::mcp::{Setup, serve};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use hta_read::files::{Location, Stores};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Args)]
pub struct McpArgs {
    #[arg(value_name = "PATH", help = paths_help())]
    paths: Vec<PathBuf>,
    /// Folder below which results and traces may be named in questions; may be given several times
    #[arg(long, value_name = "DIR")]
    allow: Vec<PathBuf>,
    #[arg(long, value_name = "SIZE", value_parser = memory::parse, help = memory_limit_help())]
    memory_limit: Option<u64>,
    /// Time limit of a statement, seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=3600))]
    time_limit: u32,
    /// Time limit of reading traces, for their analysis and for a timeline, seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=86_400))]
    analysis_time_limit: u32,
    /// Leave the events out when traces are analysed; the table `events` is then missing
    #[arg(long)]
    no_events: bool,
}

const AFTER_HELP: &str = "\
A client of the Model Context Protocol starts this command and speaks with it on standard input and output:
  hta mcp hta-out
  hta mcp before/ after/ --allow /data/results
  hta mcp s3://bucket/job-7-hta

It only reads, and only at and below these paths. Traces are analysed at the first question about them, into \
a temporary \
folder. See docs/agents.md.";

pub fn command() -> Command {
    let about = "Answer an assistant's questions about results and traces (Model Context Protocol)";
    McpArgs::augment_args(Command::new("mcp").about(about)).after_help(AFTER_HELP)
}

fn paths_help() -> String {
    format!(
        "Results folders, traces and folders of traces that may be asked about, or URLs of them [default: \
         {RESULTS_FOLDER}]"
    )
}

fn memory_limit_help() -> String {
    let share = memory::SHARE_PERCENT;
    format!(
        "Memory limit of a statement, of the tables that a tool reads, and of the analysis of traces, \
         e.g. 4GB; default: {share}% of the available memory"
    )
}

pub fn run(matches: &ArgMatches, stores: &Stores) -> anyhow::Result<Exit> {
    let args = McpArgs::from_arg_matches(matches)?;
    let paths = match (args.paths.is_empty(), args.allow.is_empty()) {
        (true, true) => vec![PathBuf::from(RESULTS_FOLDER)],
        _ => args.paths,
    };
    serve(Setup {
        paths: paths.iter().map(|path| Location::new(path, stores)).collect(),
        allow: args.allow,
        memory: memory::limit(args.memory_limit),
        time: Duration::from_secs(u64::from(args.time_limit)),
        analysis_time: Duration::from_secs(u64::from(args.analysis_time_limit)),
        store: stores::arguments(matches),
        events: !args.no_events,
        explain: explain::page,
        names: explain::names,
    })?;
    Ok(Exit::Done)
}
