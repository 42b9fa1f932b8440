//! The command line: arguments, progress, exit codes. No other module imports this one.

mod analysis;
mod analyze;
mod args;
mod browser;
mod captures;
mod completions;
mod contents;
mod diff;
mod exit;
mod explain;
mod glossary;
mod groups;
mod inputs;
mod interrupt;
mod kept_rows;
mod known;
mod list;
mod man;
mod mcp;
mod memory;
mod merge;
mod nsys_stats;
mod open;
mod output;
mod overlay;
mod progress;
mod pyprof;
mod query;
mod questions;
mod ranks;
mod report;
mod results;
mod shared_options;
mod stores;
mod strict;
mod table;
mod threads;
mod topics;
mod traces;
mod values;
mod watch;

use clap::error::{ContextKind, ContextValue};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use exit::Exit;
use hta_read::files::{Stores, without_secrets};
use hta_results::output::visible;
use std::borrow::Cow;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// Parses the arguments and runs the command.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let (arguments, queries) = without_secrets(arguments);
    // Groups, examples and what is hidden matter to the help alone, and take longer than a small trace.
    let root = match asks_for_help(&arguments) {
        true => shared_options::arrange(command()),
        false => groups::with_aliases(plain()),
    };
    let matches = match root.try_get_matches_from(arguments) {
        Ok(m) => m,
        Err(e) => {
            // clap reports help and version as errors, too; only the others are bad arguments.
            let plain = e.render().to_string();
            // The message may quote file names with control characters, e.g. from a shell pattern.
            match visible::lines(&plain) {
                Cow::Borrowed(_) => drop(e.print()),
                Cow::Owned(safe) => output::note(safe.trim_end()),
            }
            if let Some(path) = path_for_command(&e) {
                output::note(&format!("hint: hta analyze {path}"));
            }
            return if e.use_stderr() { Exit::Nothing.code() } else { Exit::Done.code() };
        }
    };
    output::choose_color(&matches);
    // Before there is another thread, which takes address space of its own.
    let result = threads::check_space(&matches).and_then(|()| {
        interrupt::watch();
        let _watch = watch::of_limit(&matches);
        run(&matches, &stores::of(&matches, queries)?)
    });
    interrupt::stand_still_if_interrupted();
    match result {
        Ok(exit) => exit.code(),
        Err(e) => exit::report(&e).code(),
    }
}

/// Whether help may be printed. Without arguments it is, too.
fn asks_for_help(arguments: &[OsString]) -> bool {
    let words = ["-h", "--help", "help", shared_options::NAME];
    arguments.len() < 2 || arguments.iter().skip(1).any(|a| words.iter().any(|word| a == word))
}

/// The path that was given where a command is expected, if there is such a file or folder.
fn path_for_command(error: &clap::Error) -> Option<String> {
    match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(given)) if Path::new(given).exists() => Some(given.clone()),
        _ => None,
    }
}

fn run(matches: &ArgMatches, stores: &Stores) -> anyhow::Result<Exit> {
    match matches.subcommand() {
        Some(("analyze", m)) => analyze::run(&parsed(m)?, stores),
        Some(("merge", m)) => merge::run(&parsed(m)?, stores),
        Some(("open", m)) => open::run(&parsed(m)?, stores),
        Some(("report", m)) => report::run(&parsed(m)?, stores),
        Some(("diff", m)) => diff::run(m, stores),
        Some(("overlay", m)) => overlay::run(&parsed(m)?, stores),
        Some((EXPORT, m)) => run(m, stores),
        Some((shared_options::NAME, _)) => print_shared_options(),
        Some(("pyprof", m)) => pyprof::run(&parsed(m)?, stores),
        Some(("nsys-stats", m)) => nsys_stats::run(&parsed(m)?, stores),
        Some(("query", m)) => query::run(m, stores),
        Some(("inputs", m)) => inputs::run(&parsed(m)?, stores),
        Some(("files", m)) => contents::run(&parsed(m)?, stores),
        Some(("mcp", m)) => mcp::run(m, stores),
        Some(("list", m)) => list::run(m.get_one::<String>("what").map(String::as_str)),
        Some(("completions", m)) => completions::run(m),
        Some(("man", m)) => man::run(&parsed(m)?),
        Some(("explain", m)) => {
            let words = m.get_many::<String>("name").into_iter().flatten();
            explain::run(&words.map(String::as_str).collect::<Vec<_>>())
        }
        Some((stem, m)) => analysis::run(stem, m, stores),
        None => Ok(Exit::Nothing),
    }
}

fn print_shared_options() -> anyhow::Result<Exit> {
    let mut root = shared_options::arrange(command());
    if let Some(options) = root.find_subcommand_mut(shared_options::NAME) {
        output::print_text(&options.render_help().to_string())?;
    }
    Ok(Exit::Done)
}

fn parsed<A: FromArgMatches>(matches: &ArgMatches) -> Result<A, clap::Error> {
    A::from_arg_matches(matches)
}

/// The command of formats of other tools.
const EXPORT: &str = "export";

/// The whole command line, with a subcommand for every analysis of the registry, and its help.
pub fn command() -> Command {
    groups::arrange(plain())
}

/// The command line without groups, examples and other names.
fn plain() -> Command {
    let analyze = Command::new("analyze").about("Run every analysis and write tables, events and a report");
    let mut root = Command::new("hta")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Where the time went in a PyTorch job, from the Kineto traces of its ranks")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .after_help("`hta list` names the analyses, `hta explain NAME` says what a number means.")
        .subcommand(analyze::AnalyzeArgs::augment_args(analyze));
    root = root.subcommands(questions::commands(analysis::command));
    let overlay = Command::new("overlay")
        .about("Write one trace file of chosen ranks for a viewer, with counters and marks added");
    let pyprof = Command::new("pyprof").about("Print every kernel with the columns of NVIDIA's PyProf");
    let nsys_stats = Command::new("nsys-stats")
        .about("Print a report of NVIDIA's `nsys stats`, for traces of any recorder");
    let pyprof = pyprof::PyProfArgs::augment_args(pyprof).after_help(pyprof::AFTER_HELP);
    let nsys_stats = nsys_stats::NsysStatsArgs::augment_args(nsys_stats).after_help(nsys_stats::after_help());
    let export = Command::new(EXPORT)
        .about("Print kernels with the columns of PyProf, or the reports of `nsys stats`")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(pyprof.clone())
        .subcommand(nsys_stats.clone());
    let merge =
        Command::new("merge").about("Merge partial results of `hta analyze --partial` into complete results");
    let inputs =
        Command::new("inputs").about("List the files that would be read, with the rank and size of each");
    let files =
        Command::new("files").about("List the files of results in a folder or store, or print one of them");
    let report = Command::new("report")
        .about("Write report.html again from a results folder, or compare it with another one");
    let open = Command::new("open").about("Show the page of results in a browser");
    root = root
        .subcommand(open::OpenArgs::augment_args(open).after_help(open::AFTER_HELP))
        .subcommand(merge::MergeArgs::augment_args(merge).after_help(merge::AFTER_HELP))
        .subcommand(report::ReportArgs::augment_args(report).after_help(report::AFTER_HELP))
        .subcommand(diff::command())
        .subcommand(overlay::OverlayArgs::augment_args(overlay).after_help(overlay::AFTER_HELP))
        .subcommand(export)
        // Their names before there was `export`.
        .subcommand(pyprof.hide(true))
        .subcommand(nsys_stats.hide(true))
        .subcommand(query::command())
        .subcommand(inputs::InputsArgs::augment_args(inputs).after_help(inputs::AFTER_HELP))
        .subcommand(contents::FilesArgs::augment_args(files).after_help(contents::AFTER_HELP))
        .subcommand(mcp::command())
        .subcommand(
            Command::new("list")
                .about("List the analyses, queries, tables and topics")
                .arg(clap::Arg::new("what").value_parser(list::PARTS).help("only these; all by default")),
        )
        .subcommand(
            Command::new("explain")
                .about(
                    "Explain an analysis, a query, a table or a topic: definitions, columns, units, caveats",
                )
                .arg(
                    known::arg("name", explain::names())
                        .num_args(0..)
                        .help("an analysis, query, table or topic; none lists them"),
                ),
        )
        .subcommand(completions::command());
    man::add(stores::with_options(output::with_color(root)))
}
