//! Writing to standard output (data) and standard error (messages). A closed pipe is not an error.

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
    if io::stdout().is_terminal() && console::colors_enabled() {
        return print(styled(&text).as_bytes());
    }
    print(text.as_bytes())
}

/// A report with its headings (lines above a line of dashes) in bold.
fn styled(text: &str) -> String {
    let mut lines = text.lines().peekable();
    let mut out = String::with_capacity(text.len());
    while let Some(line) = lines.next() {
        if lines.peek().is_some_and(|next: &&str| !next.is_empty() && next.bytes().all(|b| b == b'-')) {
            out.push_str(&console::style(line).bold().force_styling(true).to_string());
        } else {
            out.push_str(line);
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
        let text = "one\n\nVerdict\n-------\ntwo - three\n";
        assert_eq!(styled(text), "one\n\n\u{1b}[1mVerdict\u{1b}[0m\n-------\ntwo - three\n");
    }
}
