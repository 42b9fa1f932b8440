//! `hta man`: manual pages. A page has what clap knows of a command, followed by its `hta explain` page,
//! because that defines its numbers.

use crate::cli::exit::{CODES, Exit};
use crate::cli::known;
use crate::cli::output::{note, print};
use crate::cli::questions;
use anyhow::Context;
use clap::builder::{Resettable, StyledStr};
use clap::{Args, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use hta_read::error::SetError;
use hta_results::output::unfinished::write;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Longest line that is printed without filling, characters.
const WIDEST_LINE: usize = 90;

#[derive(Debug, Args)]
pub struct ManArgs {
    /// Command whose page to write; without one, the page of hta itself
    #[arg(value_name = "COMMAND", conflicts_with = "out")]
    command: Option<String>,
    /// Write the pages of all commands into this folder, e.g. ~/.local/share/man/man1
    #[arg(short, long, alias = "output", value_name = "DIR")]
    out: Option<PathBuf>,
}

fn command() -> Command {
    Command::new("man").about("Write the manual page of a command, or the pages of all").after_help(
        "To read one: hta man stragglers > hta-stragglers.1 && man ./hta-stragglers.1\n\
         To keep all: hta man --out ~/.local/share/man/man1, then `man hta-stragglers`",
    )
}

/// Adds this command, with shell completion of all command names.
pub fn add(root: Command) -> Command {
    static NAMES: OnceLock<Vec<(String, String)>> = OnceLock::new();
    let root = root.subcommand(ManArgs::augment_args(command()));
    let about = |c: &Command| c.get_about().map(ToString::to_string).unwrap_or_default();
    let names = NAMES.get_or_init(|| visible(&root).map(|c| (c.get_name().to_string(), about(c))).collect());
    let names = names.iter().map(|(name, about)| (name.as_str(), about.as_str())).collect();
    root.mut_subcommand("man", |man| man.mut_arg("command", |arg| known::complete(arg, names)))
}

pub fn run(args: &ManArgs, command_line: Command) -> anyhow::Result<Exit> {
    let mut root = command_line.disable_help_subcommand(true);
    root.build();
    let Some(folder) = &args.out else {
        let page = page(find(&root, args.command.as_deref())?)?;
        print(&page)?;
        return Ok(Exit::Done);
    };
    all(&root, folder)?;
    Ok(Exit::Done)
}

fn all(root: &Command, folder: &Path) -> anyhow::Result<()> {
    let cannot = |path: &Path| format!("cannot write {}", path.display());
    std::fs::create_dir_all(folder).with_context(|| cannot(folder))?;
    let commands: Vec<&Command> = std::iter::once(root).chain(visible(root)).collect();
    for command in &commands {
        let path = folder.join(format!("{}.1", name(command)));
        write(&path, &page(command)?).with_context(|| cannot(&path))?;
    }
    note(&format!("hta: {} manual pages in {}", commands.len(), folder.display()));
    Ok(())
}

/// The commands without those that are other names of a part of one.
fn visible(root: &Command) -> impl Iterator<Item = &Command> {
    root.get_subcommands().filter(|c| !c.is_hide_set())
}

fn find<'a>(root: &'a Command, wanted: Option<&str>) -> Result<&'a Command, SetError> {
    let Some(wanted) = wanted else { return Ok(root) };
    root.get_subcommands().find(|c| c.get_name() == wanted).ok_or_else(|| {
        let known: Vec<&str> = visible(root).map(Command::get_name).collect();
        let reason = format!("expected a command: {}", known.join(", "));
        SetError::Argument { option: "man", value: wanted.to_string(), reason }
    })
}

/// The name of the page, e.g. `hta-analyze`.
fn name(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

fn page(command: &Command) -> std::io::Result<Vec<u8>> {
    let after_help = command.get_after_help().map(ToString::to_string);
    // clap_mangen would fill the lines of the help into one paragraph; they are added verbatim below.
    let plain = command.clone().after_help(Resettable::<StyledStr>::Reset);
    let source = concat!("hta ", env!("CARGO_PKG_VERSION"));
    let mut out = Vec::new();
    Man::new(plain).source(source).manual("hta manual").render(&mut out)?;
    let mut rest = Roff::new();
    if let Some(text) = after_help {
        rest.control("SH", ["NOTES"]);
        verbatim(&mut rest, &text);
    }
    let stem = command.get_name();
    let asked: Vec<&str> = questions::analyses(stem).iter().map(|a| a.stem()).collect();
    let pages = if asked.is_empty() { vec![stem] } else { asked };
    for (i, text) in pages.into_iter().flat_map(crate::cli::explain::page).enumerate() {
        if i == 0 {
            rest.control("SH", ["DEFINITIONS"]);
        }
        verbatim(&mut rest, &text);
    }
    rest.control("SH", ["EXIT STATUS"]);
    for (code, meaning) in CODES {
        rest.control("TP", []);
        rest.text([bold(code)]);
        rest.text([roman(meaning)]);
    }
    rest.control("SH", ["SEE ALSO"]);
    let see = if stem == "hta" {
        "`hta list`, `hta explain NAME`".to_string()
    } else {
        "hta(1), `hta list`".to_string()
    };
    rest.text([roman(see)]);
    rest.to_writer(&mut out)?;
    Ok(out)
}

/// Copies lines verbatim. Headings of the text become headings of the page, and its title is dropped.
fn verbatim(out: &mut Roff, text: &str) {
    out.control("nf", []);
    for line in text.lines().skip_while(|l| l.starts_with("# ") || l.is_empty()) {
        match line.strip_prefix("## ") {
            Some(heading) => {
                out.control("fi", []);
                out.control("SS", [heading]);
                out.control("nf", []);
            }
            // A long line is a paragraph without line breaks and is filled; indented lines are tables.
            None if line.chars().count() > WIDEST_LINE && !line.starts_with(' ') => {
                out.control("fi", []);
                out.text([roman(line)]);
                out.control("nf", []);
            }
            None => {
                out.text([roman(line)]);
            }
        }
    }
    out.control("fi", []);
}
