//! Writing to standard output (data) and standard error (messages). A closed pipe is not an error.

use crate::output::visible;
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

/// Prints a line on standard error.
pub fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", visible::lines(text));
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
