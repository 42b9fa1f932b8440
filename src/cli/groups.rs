//! The commands by the question that each answers, with an example each. `hta --help` prints them so.

use clap::Command;
use hta_results::output::columns::hanging;
use std::fmt::Write;

/// A question and the commands that answer it, each with an example.
type CommandGroup = (&'static str, &'static [(&'static str, &'static str)]);

/// All commands, in the order of `hta --help`.
const GROUPS: &[CommandGroup] = &[
    (
        "Start here",
        &[
            ("analyze", "hta analyze ./traces -o hta-out"),
            ("open", "hta open hta-out"),
            ("explain", "hta explain waiting"),
            ("list", "hta list analyses"),
        ],
    ),
    (
        "Where the time goes",
        &[
            ("diagnosis", "hta diagnosis ./traces"),
            ("breakdown", "hta breakdown hta-out"),
            ("mesh", "hta mesh ./traces"),
            ("steps", "hta steps hta-out"),
            ("critical-path", "hta critical-path hta-out"),
            ("what-if", "hta what-if hta-out"),
        ],
    ),
    (
        "Who is late, and communication",
        &[
            ("stragglers", "hta stragglers hta-out"),
            ("pipeline", "hta pipeline hta-out"),
            ("experts", "hta experts hta-out"),
            ("fabric", "hta fabric hta-out"),
            ("communication", "hta communication hta-out"),
        ],
    ),
    (
        "GPU",
        &[
            ("kernels", "hta kernels hta-out --top 20"),
            ("patterns", "hta patterns ./traces"),
            ("graph-ops", "hta graph-ops ./traces"),
        ],
    ),
    (
        "Host",
        &[
            ("idle", "hta idle hta-out"),
            ("launches", "hta launches hta-out"),
            ("ops", "hta ops hta-out --by shape"),
            ("lines", "hta lines hta-out"),
            ("annotations", "hta annotations hta-out"),
        ],
    ),
    ("Memory", &[("memory", "hta memory snapshot.pickle"), ("copies", "hta copies hta-out")]),
    ("Serving", &[("iterations", "hta iterations hta-out")]),
    (
        "Compare two runs",
        &[("diff", "hta diff before after"), ("report", "hta report after --against before")],
    ),
    (
        "Other formats",
        &[
            ("overlay", "hta overlay ./traces -o all.json.gz"),
            ("export", "hta export nsys-stats cuda_gpu_kern_sum rank_0.json.gz"),
        ],
    ),
    (
        "Tables, parts and tools",
        &[
            ("query", "hta query 'SELECT sentence, recoverable_pct FROM findings' hta-out"),
            ("merge", "hta merge part-0 part-1 -o hta-out"),
            ("inputs", "hta inputs ./traces"),
            ("files", "hta files s3://bucket/hta-out"),
            ("mcp", "hta mcp hta-out"),
            ("completions", "hta completions bash"),
            ("man", "hta man analyze"),
        ],
    ),
];

/// Hidden other names, by which people look for a command.
const ALIASES: &[(&str, &[&str])] =
    &[("diff", &["compare"]), ("ops", &["mfu", "flame"]), ("overlay", &["timeline"])];

/// Width of the help, and of the column of names.
const WIDTH: usize = 80;
const NAME: usize = 15;

/// Lists the commands by group in the help of the program, and adds its example to the help of each.
pub fn arrange(mut root: Command) -> Command {
    let mut listed = String::new();
    for (heading, commands) in GROUPS {
        let _ = writeln!(listed, "{heading}:");
        for (name, example) in *commands {
            let Some(about) = root.find_subcommand(name).and_then(Command::get_about) else { continue };
            hanging(&mut listed, &format!("  {name:<NAME$}"), &about.to_string(), WIDTH);
            root = root.mut_subcommand(name, |command| with_example(command, example));
        }
        listed.push('\n');
    }
    root = with_aliases(root);
    let template = format!("{{about}}\n\n{{usage-heading}} {{usage}}\n\n{listed}{{options}}{{after-help}}");
    root.help_template(template)
}

/// Adds the hidden other names.
pub fn with_aliases(mut root: Command) -> Command {
    for (name, aliases) in ALIASES {
        root = root.mut_subcommand(name, |command| command.aliases(*aliases));
    }
    root
}

fn with_example(command: Command, example: &str) -> Command {
    let rest = command.get_after_help().map(ToString::to_string);
    let has_own = rest.as_ref().is_some_and(|text| text.starts_with("Example:"));
    match rest {
        Some(_) if has_own => command,
        Some(text) => command.after_help(format!("Example:\n  {example}\n\n{text}")),
        None => command.after_help(format!("Example:\n  {example}")),
    }
}

#[cfg(test)]
mod tests {
    use super::GROUPS;
    use crate::cli::command::command;
    use std::collections::BTreeSet;

    #[test]
    fn every_command_has_one_group_and_an_example_that_is_accepted() {
        let root = command();
        let all: Vec<&str> =
            root.get_subcommands().filter(|c| !c.is_hide_set()).map(|c| c.get_name()).collect();
        let listed: Vec<&str> = GROUPS.iter().flat_map(|(_, of)| of.iter().map(|(name, _)| *name)).collect();
        let unique: BTreeSet<&str> = listed.iter().copied().collect();
        assert_eq!(unique.len(), listed.len());
        assert_eq!(unique, all.into_iter().filter(|name| *name != "help").collect());
        for (name, example) in GROUPS.iter().flat_map(|(_, of)| *of) {
            let words = example.split('\'').enumerate().flat_map(|(i, part)| {
                if i % 2 == 1 { vec![part] } else { part.split_whitespace().collect() }
            });
            let parsed = command().try_get_matches_from(words);
            assert_eq!(
                parsed.map(|m| m.subcommand_name().map(str::to_string)).ok().flatten().as_deref(),
                Some(*name),
                "{example}"
            );
        }
    }
}
