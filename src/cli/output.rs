//! Standard output: data only; a reader that goes away is no error.

use crate::output::visible;
use std::io::{self, IsTerminal, Write};

/// Writes to standard output. `false`: the reader has gone.
pub fn print(text: &[u8]) -> io::Result<bool> {
    let mut out = io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(e) => Err(e),
    }
}

/// Prints text for people, in which nothing acts on the terminal. `false`: the reader has gone.
///
/// # Errors
/// When it cannot be written.
pub fn print_text(text: &str) -> io::Result<bool> {
    print(visible::lines(text).as_bytes())
}

/// A line on standard error.
pub fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", visible::lines(text));
}

/// Widest report on a terminal; long lines are hard to read.
const WIDEST: usize = 120;

/// Columns of the terminal, 80 elsewhere.
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
