//! Shell completions and manual pages, which are generated from the command line itself.

use clap::Command as Clap;
use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Output, Stdio};

const SHELLS: &[&str] = &["bash", "elvish", "fish", "powershell", "zsh"];

fn hta(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hta")).args(args).output().unwrap()
}

/// Standard output of a command that must succeed.
fn answer(args: &[&str]) -> String {
    let run = hta(args);
    assert!(run.status.success(), "{args:?}: {}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout).unwrap()
}

/// The commands as clap has built them.
fn root() -> Clap {
    let mut root = hta::cli::command().disable_help_subcommand(true);
    root.build();
    root
}

/// The commands that help, completions and manual list; old names are hidden.
fn commands(root: &Clap) -> impl Iterator<Item = &Clap> {
    root.get_subcommands().filter(|c| !c.is_hide_set())
}

fn options(command: &Clap) -> Vec<String> {
    command
        .get_arguments()
        .filter(|a| !a.is_hide_set())
        .filter_map(|a| a.get_long())
        .map(str::to_string)
        .collect()
}

/// Text without roff markup inside words.
fn plain(page: &str) -> String {
    page.replace("\\-", "-").replace("\\fB", "").replace("\\fR", "").replace("\\fI", "")
}

/// Completions that bash offers for these words; the last one is being typed.
fn bash_offers(words: &[&str]) -> Option<BTreeSet<String>> {
    let mut shell = Command::new("bash");
    shell.arg("-s").arg("--").args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut shell = match shell.spawn() {
        Ok(shell) => shell,
        Err(e) => {
            eprintln!("skipped: no bash here: {e}");
            return None;
        }
    };
    let drive = "\nCOMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1))\n\
                 _hta hta \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD-1]}\"\n\
                 printf '%s\\n' \"${COMPREPLY[@]}\"\n";
    let script = answer(&["completions", "bash"]) + drive;
    shell.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let run = shell.wait_with_output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    Some(String::from_utf8(run.stdout).unwrap().lines().map(str::to_string).collect())
}

#[test]
fn every_command_and_option_is_completed_in_every_shell() {
    let root = root();
    for shell in SHELLS {
        let script = answer(&["completions", shell]);
        for command in commands(&root) {
            assert!(script.contains(command.get_name()), "{shell}: {}", command.get_name());
            for option in options(command) {
                assert!(script.contains(&option), "{shell}: {} --{option}", command.get_name());
            }
        }
    }
}

#[test]
fn bash_offers_commands_options_values_and_names() {
    let cases: &[(&[&str], &[&str])] = &[
        (&["hta", "st"], &["steps", "stragglers"]),
        (
            &["hta", "sync", "--st"],
            &[
                "--steps",
                "--step",
                "--step-pattern",
                "--step-window",
                "--store-timeout",
                "--strict",
                "--straggler-min-pct",
            ],
        ),
        (&["hta", "sync", "x.json", "--format", ""], &["text", "csv", "json", "parquet"]),
        (
            &["hta", "explain", "mem"],
            &[
                "memory",
                "memory-limit",
                "memory_allocated",
                "memory_allocations",
                "memory_bandwidth",
                "memory_blocks",
                "memory_bound_operators",
                "memory_categories",
                "memory_content",
                "memory_copies",
                "memory_copy_rules",
                "memory_curve",
                "memory_devices",
                "memory_diff",
                "memory_events",
                "memory_growth_by_step",
                "memory_highest",
                "memory_leaks",
                "memory_operators",
                "memory_peak_holders",
                "memory_peaks",
                "memory_reserved",
                "memory_segments",
                "memory_stacks",
                "memory_steps",
            ],
        ),
        (
            &["hta", "idle", "x.json", "--table", "idle"],
            &["idle", "idle_by_device", "idle_causes_over_ranks", "idle_host", "idle_gaps"],
        ),
        (&["hta", "diff", "a", "b", "--table", "diff_s"], &["diff_summary", "diff_steps"]),
        (&["hta", "man", "crit"], &["critical-path"]),
        (&["hta", "completions", "z"], &["zsh"]),
    ];
    for (words, expected) in cases {
        let Some(offers) = bash_offers(words) else { return };
        assert_eq!(offers, expected.iter().map(|w| (*w).to_string()).collect(), "{words:?}");
    }
}

#[test]
fn a_path_is_left_to_the_completion_of_files() {
    let Some(offers) = bash_offers(&["hta", "analyze", "data/"]) else { return };
    assert_eq!(offers, BTreeSet::from([String::new()]));
}

#[test]
fn a_name_that_no_page_has_is_still_answered_by_the_command() {
    for (args, words) in [(["explain", "nope"], "topic: diagnosis"), (["man", "nope"], "command: analyze")] {
        let run = hta(&args);
        let errors = String::from_utf8_lossy(&run.stderr).into_owned();
        assert_eq!(run.status.code(), Some(2));
        assert!(errors.contains("`nope`") && errors.contains(words), "{errors}");
    }
}

#[test]
fn help_does_not_list_the_names_that_are_completed() {
    assert!(!answer(&["explain", "--help"]).contains("possible values"));
    assert!(!answer(&["idle", "--help"]).contains("idle_host"));
}

#[test]
fn every_command_has_a_manual_page_with_its_options() {
    let root = root();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("man1");
    answer(&["man", "--out", out.to_str().unwrap()]);
    let mut expected = BTreeSet::from(["hta.1".to_string()]);
    for command in commands(&root) {
        let name = command.get_name();
        let file = format!("hta-{name}.1");
        let page = std::fs::read_to_string(out.join(&file)).unwrap();
        assert_eq!(page, answer(&["man", name]), "{name}");
        let page = plain(&page);
        assert!(page.contains(&format!(".TH hta-{name} 1")), "{page}");
        assert!(page.contains(&command.get_about().unwrap().to_string().replace('\'', "\\*(Aq")), "{name}");
        for option in options(command) {
            assert!(page.contains(&format!("--{option}")), "{name} --{option}");
        }
        expected.insert(file);
    }
    let top = plain(&std::fs::read_to_string(out.join("hta.1")).unwrap());
    assert_eq!(top, plain(&answer(&["man"])));
    for command in commands(&root) {
        assert!(top.contains(&format!("hta-{}(1)", command.get_name())));
    }
    let found: BTreeSet<String> =
        std::fs::read_dir(&out).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(found, expected);
}

#[test]
fn the_page_of_an_analysis_holds_its_definitions_line_by_line() {
    let page = plain(&answer(&["man", "stragglers"]));
    let explained = answer(&["explain", "stragglers"]);
    let row = explained.lines().find(|l| l.contains(" gain_ns ") && l.contains(" i64 ")).unwrap();
    assert!(page.contains(&row.replace('\\', "\\e").replace('\'', "\\*(Aq")), "{row}");
    assert!(page.contains(".SH DEFINITIONS\n.nf\n") && page.contains("\n.SH \"EXIT STATUS\"\n"));
}

#[test]
fn scripts_and_pages_are_the_same_bytes_each_time() {
    for shell in SHELLS {
        assert_eq!(answer(&["completions", shell]), answer(&["completions", shell]));
    }
    assert_eq!(answer(&["man", "analyze"]), answer(&["man", "analyze"]));
}

#[test]
fn a_folder_that_cannot_be_made_is_told() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let run = hta(&["man", "--out", file.path().to_str().unwrap()]);
    assert_eq!(run.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&run.stderr).contains("cannot write"));
}
