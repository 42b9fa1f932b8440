//! Exit codes and error messages.

use crate::overlay::OverlayError;
use crate::overlay::serve::ServeError;
use hta_results::diff::PopulationError;
use hta_results::output::contents::ContentsError;
use hta_results::output::folder::FolderError;
use hta_results::output::inputs::OutputRefused;
use hta_results::output::visible;
use hta_results::partial::{MergeError, PartialError};
use hta_results::results::ResultsError;
use hta_results::run::RunError;
use hta_results::sql::QueryError;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

/// The exit codes and their meanings, as docs/guarantees.md has them.
pub const CODES: [(&str, &str); 5] = [
    ("0", "all done"),
    ("1", "part of it: something in the input could not be used, and the report says what"),
    (
        "2",
        "no answer: a bad argument, no readable trace, results that cannot be written; with `--strict` \
         also a loss, or a recording that does not carry what was asked for",
    ),
    (
        "3",
        "a condition of `--fail-if` holds (`hta analyze`, `hta merge`, `hta diff`), whether or not there was \
         a loss",
    ),
    ("130", "interrupted"),
];

/// How a command ended, with its exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Exit {
    #[default]
    Done = 0,
    /// Something in the input could not be used; the rest was processed.
    Partly = 1,
    /// No useful result.
    Nothing = 2,
    /// A `--fail-if` threshold was crossed; takes precedence over a loss.
    Crossed = 3,
}

impl Exit {
    /// The end of a command that used its input, with or without a loss.
    pub fn of_loss(has_loss: bool) -> Self {
        if has_loss { Self::Partly } else { Self::Done }
    }

    pub fn code(self) -> ExitCode {
        ExitCode::from(self as u8)
    }
}

/// Prints an error and its hint.
pub fn report(error: &anyhow::Error) -> Exit {
    let _ = write!(std::io::stderr().lock(), "{}", visible::lines(&message(error)));
    Exit::Nothing
}

/// The error, its causes and hints, one per line.
fn message(error: &anyhow::Error) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "hta: {error}");
    for cause in error.chain().skip(1) {
        let _ = writeln!(out, "  {cause}");
    }
    match error.downcast_ref::<RunError>() {
        Some(RunError::NothingReadable(refused)) => {
            for r in refused {
                let _ = writeln!(out, "  {}", r.error);
            }
            let hints: std::collections::BTreeSet<_> =
                refused.iter().filter_map(|r| r.error.hint()).collect();
            for h in hints {
                let _ = writeln!(out, "hint: {h}");
            }
        }
        Some(RunError::Set(e)) => hint(&mut out, e.hint()),
        _ => {}
    }
    if let Some(e) = error.downcast_ref::<hta_read::error::SetError>() {
        hint(&mut out, e.hint());
    }
    if let Some(e) = error.downcast_ref::<OverlayError>() {
        hint(&mut out, e.hint());
    }
    if let Some(e) = error.downcast_ref::<ServeError>() {
        hint(&mut out, e.hint());
    }
    if let Some(e) = error.downcast_ref::<crate::mcp::StartError>() {
        hint(&mut out, e.hint());
    }
    if let Some(e) = error.downcast_ref::<PopulationError>() {
        hint(&mut out, e.hint());
    }
    match error.downcast_ref::<MergeError>() {
        Some(MergeError::Partial(e)) => hint(&mut out, e.hint()),
        Some(MergeError::Run(RunError::Set(e))) => hint(&mut out, e.hint()),
        _ => {}
    }
    if let Some(e) = error.downcast_ref::<PartialError>() {
        hint(&mut out, e.hint());
    }
    if let Some(e) = error.downcast_ref::<QueryError>() {
        for line in e.hint().iter().flat_map(|h| h.lines()) {
            let _ = match line.strip_prefix("  ") {
                Some(_) => writeln!(out, "{line}"),
                None => writeln!(out, "hint: {line}"),
            };
        }
    }
    if let Some(e) = error.downcast_ref::<ResultsError>() {
        hint(&mut out, e.hint());
    }
    if let Some(e) = error.downcast_ref::<FolderError>() {
        hint(&mut out, e.hint());
    }
    if let Some(e) = error.downcast_ref::<ContentsError>() {
        hint(&mut out, e.hint());
    }
    if let Some(e) = error.downcast_ref::<OutputRefused>() {
        hint(&mut out, Some(e.hint));
    }
    out
}

fn hint(out: &mut String, hint: Option<&str>) {
    if let Some(h) = hint {
        let _ = writeln!(out, "hint: {h}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_guarantees_has_the_same_codes() {
        let page = include_str!("../../docs/guarantees.md");
        let table = CODES.map(|(code, meaning)| format!("| {code} | {meaning} |\n")).concat();
        assert!(page.contains(&table), "docs/guarantees.md should have\n{table}");
    }
}
