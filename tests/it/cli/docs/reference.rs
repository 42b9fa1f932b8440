//! The pages of docs/reference are generated: from the registry, the declarations of the tables and the command line.
//!
//! ```text
//! HTA_WRITE_DOCS=1 cargo test --release --test it docs::reference    writes them anew
//! ```

use super::ROOT;
use hta::registry::ANALYSES;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

/// Set to write the pages instead of comparing them.
const WRITE: &str = "HTA_WRITE_DOCS";

#[test]
fn analyses_are_current() {
    compare("analyses.md", &analyses());
}

#[test]
fn tables_are_current() {
    compare("tables.md", &hta(&["explain", "schema"]));
}

#[test]
fn topics_are_current() {
    compare("topics.md", &topics());
}

#[test]
fn the_glossary_is_current() {
    compare("glossary.md", &hta(&["explain", "glossary"]));
}

#[test]
fn queries_are_current() {
    compare("queries.md", &queries());
}

#[test]
fn the_command_line_is_current() {
    compare("command-line.md", &command_line());
}

#[test]
fn the_help_says_what_each_analysis_answers() {
    let help = hta(&["--help"]);
    let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let root = hta::cli::command();
    for command in root.get_subcommands().filter(|c| !c.is_hide_set()) {
        let about = command.get_about().unwrap().to_string();
        assert!(words.contains(&format!("{} {about}", command.get_name())), "{}: {help}", command.get_name());
    }
    // Those that other commands ask, too, answer under their own name.
    for a in ANALYSES {
        let command = root.find_subcommand(a.stem()).unwrap();
        assert!(command.is_hide_set() || words.contains(a.stem()), "{}: {help}", a.stem());
    }
}

fn compare(name: &str, current: &str) {
    let path = Path::new(ROOT).join("docs/reference").join(name);
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, current).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == current,
        "docs/reference/{name} is stale: run the tests `docs::reference` with {WRITE}=1"
    );
}

fn hta(args: &[&str]) -> String {
    let run = Command::new(env!("CARGO_BIN_EXE_hta")).args(args).env("COLUMNS", "100").output().unwrap();
    assert!(run.status.success(), "{args:?}: {}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout).unwrap()
}

/// First words of the lines that are indented by two blanks and no more.
fn names(list: &str) -> Vec<String> {
    let entries =
        list.lines().filter_map(|line| line.strip_prefix("  ")).filter(|line| !line.starts_with(' '));
    entries.filter_map(|line| line.split_whitespace().next()).map(str::to_string).collect()
}

fn upper_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |c| c.to_uppercase().chain(chars).collect())
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// The Markdown of a page of `hta explain` without its title, with headings `level` deeper.
fn body(page: &str, level: usize) -> String {
    let deeper = "#".repeat(level);
    let is_rule = |line: &str, mark: char| line.len() > 2 && line.chars().all(|c| c == mark);
    let lines: Vec<&str> = page.trim().lines().collect();
    let mut out = String::new();
    for (i, line) in lines.iter().enumerate() {
        let next = lines.get(i + 1).copied().unwrap_or_default();
        if line.starts_with("# ") || is_rule(next, '=') || is_rule(line, '=') || is_rule(line, '-') {
            continue;
        } else if line.starts_with("## ") {
            let _ = writeln!(out, "{deeper}{line}");
        } else if is_rule(next, '-') {
            let _ = writeln!(out, "{deeper}## {line}");
        } else {
            let _ = writeln!(out, "{line}");
        }
    }
    out.trim_matches('\n').to_string()
}

fn analyses() -> String {
    let mut out = "# Analyses\n\n\
        This page is generated from the program. Each section is the page of `hta explain NAME`: what the analysis\n\
        measures, the formulas, what holds exactly, and when a number misleads.\n\n\
        | analysis | answers | tables |\n|---|---|---|\n"
        .to_string();
    let linked = |name: &str| format!("[`{name}`](tables.md#{name})");
    let rows: Vec<_> = ANALYSES
        .iter()
        .map(|a| (a, a.tables().iter().map(|t| linked(t.name)).collect::<Vec<_>>().join(", ")))
        .collect();
    for (a, tables) in &rows {
        let _ = writeln!(out, "| [`{0}`](#{0}) | {1} | {tables} |", a.stem(), cell(a.about().title));
    }
    for (a, tables) in &rows {
        let _ = writeln!(
            out,
            "\n## {}\n\n*{}*\n\n{}",
            a.stem(),
            upper_first(a.about().title),
            body(a.about().explain, 1)
        );
        if !a.about().settings.is_empty() {
            out.push_str(
                "\n### Options of this analysis alone\n\n| option | meaning | default |\n|---|---|---|\n",
            );
        }
        for s in a.about().settings {
            let option = format!("{} {}", s.flag, s.value);
            let default = s.default_text().map(|d| format!("`{d}`")).unwrap_or_default();
            let _ = writeln!(out, "| `{}` | {} | {default} |", cell(option.trim_end()), cell(s.help));
        }
        let _ = writeln!(out, "\nTables: {tables}");
    }
    out
}

fn topics() -> String {
    let mut out = "# Topics\n\n\
        This page is generated from the program. Each section is the page of `hta explain NAME`: what several analyses\n\
        have in common.\n"
        .to_string();
    let topics = names(&hta(&["list", "topics"]));
    for topic in topics.iter().filter(|t| *t != "schema") {
        let page = hta(&["explain", topic]);
        // lists that the program makes of its declarations follow the text
        let is_list = |line: &str| ["Options", "Counters"].contains(&line) || line.starts_with("Table ");
        let text: Vec<&str> = page.lines().take_while(|line| !is_list(line)).collect();
        let lists: Vec<&str> = page.lines().skip(text.len()).collect();
        let _ = writeln!(out, "\n## {topic}\n\n{}", body(&text.join("\n"), 1));
        if !lists.is_empty() {
            let _ = writeln!(out, "\n```text\n{}\n```", lists.join("\n"));
        }
    }
    out
}

fn queries() -> String {
    let mut out = "# Queries\n\n\
        This page is generated from the program. `hta query NAME` answers the question, `hta query NAME --sql` prints the\n\
        statement.\n"
        .to_string();
    for name in names(&hta(&["list", "queries"])) {
        let page = hta(&["explain", &name]);
        let (_, own) =
            page.split_once(&format!("Query {name}: ")).unwrap_or_else(|| panic!("no query {name}: {page}"));
        let parts: Vec<&str> = own.split("\n\n").collect();
        let [title, question, reading, columns, tables, ..] = parts[..] else { panic!("{name}: {page}") };
        let _ = writeln!(out, "\n## {name}\n\n{title}: {question}\n\n{}", upper_first(reading));
        let _ =
            writeln!(out, "\n```text\n{columns}\n```\n\n{tables}. [The statement](../../queries/{name}.sql)");
    }
    out
}

fn command_line() -> String {
    let mut out = "# Command line\n\n\
        This page is generated from the program: `hta --help` and `hta COMMAND --help`.\n"
        .to_string();
    let root = hta(&["--help"]);
    let commands = root.split("\n\n").find(|part| part.starts_with("Commands:")).unwrap_or_default();
    let _ = writeln!(out, "\n```text\n{}\n```", root.trim_end());
    for command in names(commands).iter().filter(|c| *c != "help") {
        let help = hta(&[command, "--help"]);
        let _ = writeln!(out, "\n## hta {command}\n\n```text\n{}\n```", help.trim_end());
    }
    out
}
