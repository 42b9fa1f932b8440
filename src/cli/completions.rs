//! `hta completions SHELL`: scripts with which a shell completes commands, options, and names of pages and
//! tables.

use crate::cli::exit::Exit;
use crate::cli::output::print;
use clap::{Arg, ArgMatches, Command, value_parser};
use clap_complete::{Shell, generate};
use std::fmt::Write;

const AFTER_HELP: &str = "\
Once, for this user:
  bash        hta completions bash > ~/.local/share/bash-completion/completions/hta
  zsh         hta completions zsh > DIR/_hta        (DIR: any folder of $fpath)
  fish        hta completions fish > ~/.config/fish/completions/hta.fish
  elvish      hta completions elvish >> ~/.config/elvish/rc.elv
  powershell  hta completions powershell >> $PROFILE

For this session alone:
  bash, zsh   source <(hta completions bash)
  fish        hta completions fish | source";

pub fn command() -> Command {
    let shell = Arg::new("shell").required(true).value_name("SHELL").value_parser(value_parser!(Shell));
    Command::new("completions")
        .about("Write a script with which a shell completes commands, options and names")
        .after_help(AFTER_HELP)
        .arg(shell.help("the shell that it is for"))
}

pub fn run(matches: &ArgMatches, mut root: Command) -> anyhow::Result<Exit> {
    let Some(&shell) = matches.get_one::<Shell>("shell") else { return Ok(Exit::Nothing) };
    let mut bytes = Vec::new();
    generate(shell, &mut root, "hta", &mut bytes);
    if shell == Shell::Fish {
        bytes.extend(names_for_fish(&root).into_bytes());
    }
    print(&bytes)?;
    Ok(Exit::Done)
}

/// Completions of positional arguments, which clap leaves out for fish.
fn names_for_fish(root: &Command) -> String {
    let mut out = String::new();
    for command in root.get_subcommands() {
        for value in command.get_positionals().flat_map(Arg::get_possible_values) {
            let title = value.get_help().map(ToString::to_string).unwrap_or_default();
            let title = title.replace('\\', "\\\\").replace('\'', "\\'");
            let condition = format!("__fish_hta_using_subcommand {}", command.get_name());
            let _ = writeln!(
                out,
                "complete -c hta -n \"{condition}\" -f -a \"{}\" -d '{title}'",
                value.get_name()
            );
        }
    }
    out
}
