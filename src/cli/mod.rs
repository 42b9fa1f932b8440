//! The command line: arguments, progress, exit codes. No other module imports this one.

mod analysis;
mod analyze;
mod args;
mod browser;
mod captures;
mod command;
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

pub use command::command;

use clap::error::{ContextKind, ContextValue};
use clap::{ArgMatches, FromArgMatches};
use command::{EXPORT, plain};
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
        Some(("completions", m)) => completions::run(m, command()),
        Some(("man", m)) => man::run(&parsed(m)?, command()),
        Some(("explain", m)) => {
            let words = m.get_many::<String>("name").into_iter().flatten();
            explain::run(&words.map(String::as_str).collect::<Vec<_>>(), command)
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
