//! Ctrl-C, SIGTERM and SIGHUP: unfinished output is removed, and the process exits with code 130. A limit
//! that is passed ends the process the same way, with a message and code of its own.

use crate::cli::output::note;
use hta_results::output::unfinished::abandon_all;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Exit code of an interrupted run.
const CODE: i32 = 130;

/// Starts a thread that handles interrupts.
#[cfg(unix)]
pub fn watch() {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
    // Ignore SIGXFSZ, so that reaching the file size limit is a write error instead of the end of the
    // process.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
    let wanted: Vec<i32> = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|s| !is_ignored(*s)).collect();
    let Ok(mut signals) = signal_hook::iterator::Signals::new(wanted) else { return };
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            match abandon() {
                // The result was complete before the interrupt and is kept.
                Some(path) => {
                    note(&format!("hta: interrupted after {} was written completely", path.display()))
                }
                None => note("hta: interrupted: nothing was written"),
            }
            std::process::exit(CODE);
        }
    });
}

#[cfg(not(unix))]
pub fn watch() {}

/// Removes unfinished output and ends workers. Returns the last output that was completed before.
fn abandon() -> Option<PathBuf> {
    INTERRUPTED.store(true, Ordering::SeqCst);
    crate::mcp::end_workers();
    abandon_all()
}

/// Ends the process from a thread beside the work, with a message.
pub fn end(message: &str, code: i32) -> ! {
    abandon();
    note(message);
    std::process::exit(code);
}

/// Whether the parent process set this signal to be ignored, as shells do for background jobs (nohup).
#[cfg(unix)]
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|l| l.strip_prefix("SigIgn:"));
    mask.and_then(|m| u64::from_str_radix(m.trim(), 16).ok()).is_some_and(|m| m >> (signal - 1) & 1 == 1)
}

/// Blocks forever after an interrupt, so that no error message caused by the removal of files is printed.
pub fn stand_still_if_interrupted() {
    while INTERRUPTED.load(Ordering::SeqCst) {
        std::thread::park();
    }
}
