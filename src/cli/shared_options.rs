//! Options that all commands on traces share. The help of a command does not repeat them; `hta help options`
//! lists them once.

use crate::cli::args::with_readers;
use clap::{Arg, Command};
use hta_results::output::columns::hanging;

/// The name under which `hta help` lists them.
pub const NAME: &str = "options";

/// Shared options that are shown with every command, because most people need one of them.
const SHOWN: [&str; 3] = ["ranks", "steps", "top"];

const SEE: &str = "Options that commands on traces share: hta help options";

/// Width of the help, and of the column of options.
const WIDTH: usize = 80;
const COLUMN: usize = 31;

/// The command line as its help shows it.
pub fn arrange(mut root: Command) -> Command {
    let readers = with_readers(Command::new(NAME));
    let shared: Vec<&str> =
        readers.get_arguments().map(|a| a.get_id().as_str()).filter(|id| !SHOWN.contains(id)).collect();
    let names: Vec<String> = root.get_subcommands().map(|c| c.get_name().to_string()).collect();
    for name in names {
        root = root.mut_subcommand(name, |command| without(command, &shared));
    }
    let everywhere: Vec<Arg> = root.get_arguments().filter(|a| a.is_global_set()).cloned().collect();
    let list = Command::new(NAME)
        .hide(true)
        .about("Options that commands on traces share")
        .after_help(for_all(&everywhere))
        .help_template("{about}\n\n{options}{after-help}");
    let ids = everywhere.iter().map(|a| a.get_id().to_string());
    root = ids.fold(root, |root, id| root.mut_arg(id, |arg| arg.hide(true)));
    root.subcommand(with_readers(list))
}

/// A command, and those below it, without some options in the help.
fn without(mut command: Command, shared: &[&str]) -> Command {
    let nested: Vec<String> = command.get_subcommands().map(|c| c.get_name().to_string()).collect();
    for name in nested {
        command = command.mut_subcommand(name, |below| without(below, shared));
    }
    let own: Vec<String> = command.get_arguments().map(|a| a.get_id().to_string()).collect();
    let hidden: Vec<&String> = own.iter().filter(|id| shared.contains(&id.as_str())).collect();
    if hidden.is_empty() {
        return command;
    }
    for id in hidden {
        command = command.mut_arg(id, |arg| arg.hide(true));
    }
    let rest = command.get_after_help().map_or_else(String::new, |text| format!("{text}\n\n"));
    command.after_help(format!("{rest}{SEE}"))
}

/// The options that every command has.
fn for_all(options: &[Arg]) -> String {
    let mut out = String::from("Of every command:\n");
    for arg in options {
        let value = arg.get_value_names().and_then(|v| v.first()).map_or("", |v| v.as_str());
        let option = format!("    --{} <{value}>", arg.get_long().unwrap_or_default());
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        hanging(&mut out, &format!("{option:<COLUMN$}"), &help, WIDTH);
    }
    out
}
