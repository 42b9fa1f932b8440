//! Ctrl-C and its like: what is being written is removed, and the process ends with a code of its own.

use crate::cli::output::note;
use crate::output::unfinished::abandon_all;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Exit code of an interrupted run.
const CODE: i32 = 130;

/// Watches for interrupts from now on.
#[cfg(unix)]
pub fn watch() {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
    // a file that may grow no more is an error where it is written, not the end of the process
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
    let wanted: Vec<i32> = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|s| !is_ignored(*s)).collect();
    let Ok(mut signals) = signal_hook::iterator::Signals::new(wanted) else { return };
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            INTERRUPTED.store(true, Ordering::SeqCst);
            match abandon_all() {
                // it stands, and nothing of it is missing
                Some(path) => note(&format!("hta: interrupted after {} was written completely", path.display())),
                None => note("hta: interrupted: nothing was written"),
            }
            std::process::exit(CODE);
        }
    });
}

#[cfg(not(unix))]
pub fn watch() {}

/// Whether whoever started this process wants it to go on regardless, as shells do in the background.
#[cfg(unix)]
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|l| l.strip_prefix("SigIgn:"));
    mask.and_then(|m| u64::from_str_radix(m.trim(), 16).ok()).is_some_and(|m| m >> (signal - 1) & 1 == 1)
}

/// Does not come back where the run was interrupted: what it has to say then is only that.
pub fn stand_still_if_interrupted() {
    while INTERRUPTED.load(Ordering::SeqCst) {
        std::thread::park();
    }
}
