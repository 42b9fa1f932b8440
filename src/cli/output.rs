//! Writing to standard output (data) and standard error (messages). A closed pipe is not an error.

use clap::{Arg, ArgMatches, Command};
use hta_results::output::visible;
use hta_results::run::Refused;
use std::io::{self, IsTerminal, Write};

/// Writes to standard output. Returns `false` if the reader closed the pipe.
pub fn print(text: &[u8]) -> io::Result<bool> {
    let mut out = io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(e) => Err(e),
    }
}

/// Adds the option that says when the output has colours to the whole command line.
pub fn with_color(root: Command) -> Command {
    let color = Arg::new(COLOR).long(COLOR).global(true).value_name("WHEN").hide_short_help(true);
    root.arg(color.value_parser(["auto", "always", "never"]).hide_possible_values(true).help(
        "When to use colours: always, never, or auto: on a terminal, unless NO_COLOR is set [default: auto]",
    ))
}

/// Follows that option.
pub fn choose_color(matches: &ArgMatches) {
    match matches.get_one::<String>(COLOR).map(String::as_str) {
        Some("always") => console::set_colors_enabled(true),
        Some("never") => console::set_colors_enabled(false),
        _ => console::set_colors_enabled(io::stdout().is_terminal() && console::colors_enabled()),
    }
}

const COLOR: &str = "color";

/// Prints text with control characters escaped. Returns `false` if the reader closed the pipe.
///
/// # Errors
/// When standard output cannot be written.
pub fn print_text(text: &str) -> io::Result<bool> {
    print(visible::lines(text).as_bytes())
}

/// Prints a report: as [`print_text`], with headings in bold on a terminal that shows styles.
///
/// # Errors
/// When standard output cannot be written.
pub fn print_report(text: &str) -> io::Result<bool> {
    let text = visible::lines(text);
    if console::colors_enabled() {
        return print(styled(&text).as_bytes());
    }
    print(text.as_bytes())
}

/// A report with its headings (lines above a line of dashes) in bold, and colours for the numbers of causes
/// and for how bad problems of the input are.
fn styled(text: &str) -> String {
    let mut lines = text.lines().peekable();
    let mut out = String::with_capacity(text.len());
    while let Some(line) = lines.next() {
        if lines.peek().is_some_and(|next: &&str| !next.is_empty() && next.bytes().all(|b| b == b'-')) {
            out.push_str(&console::style(line).bold().force_styling(true).to_string());
        } else {
            let (first, rest) = line.split_at(line.find(' ').unwrap_or(line.len()));
            let is_number = first.strip_suffix('.').is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()));
            let style = match first {
                "lost" | "fatal" | "refused" => Some(console::Style::new().red()),
                _ if is_number && first.len() > 1 => Some(console::Style::new().cyan()),
                _ => None,
            };
            match style {
                Some(style) => out.push_str(&style.force_styling(true).apply_to(first).to_string()),
                None => out.push_str(first),
            }
            out.push_str(rest);
        }
        out.push('\n');
    }
    out
}

/// Prints a line on standard error.
pub fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", visible::lines(text));
}

/// Lists the refused files on standard error.
pub fn warn(refused: &[Refused]) {
    for r in refused.iter().filter(|r| r.is_loss()) {
        note(&format!("hta: {}", r.error));
        if let Some(h) = r.error.hint() {
            note(&format!("hint: {h}"));
        }
    }
}

/// Largest width of a report on a terminal, columns; longer lines are hard to read.
const WIDEST: usize = 120;

/// Width of the terminal, columns; 80 if standard output is not a terminal.
pub fn width() -> usize {
    if !io::stdout().is_terminal() {
        return 80;
    }
    let (_, columns) = console::Term::stdout().size_checked().unwrap_or((24, 80));
    usize::from(columns).clamp(40, WIDEST)
}

pub fn stdout_is_terminal() -> bool {
    io::stdout().is_terminal()
}

#[cfg(test)]
mod tests {
    use super::styled;

    #[test]
    fn headings_are_bold_and_the_rest_is_unchanged() {
        let text = "one\n\nCauses\n------\n1. two - three\nlost  four\n";
        assert_eq!(
            styled(text),
            "one\n\n\u{1b}[1mCauses\u{1b}[0m\n------\n\u{1b}[36m1.\u{1b}[0m two - three\n\
             \u{1b}[31mlost\u{1b}[0m  four\n"
        );
    }
}
