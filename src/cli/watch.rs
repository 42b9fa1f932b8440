//! A limit on the memory and the time of work that cannot say in advance what it needs: a statement of SQL. A
//! thread looks at the process and ends it with a message and exit code 2.
//!
//! What the program reads is asked for before it is taken (`read::room`); this is for what comes after.
//!
//! A single piece of memory may also be larger than what the system gives (`ulimit -v`). Rust then says
//! `memory allocation of N bytes failed` and aborts; while a watch runs, the exit code is 2 then, too, and no
//! core is dumped.

use crate::cli::exit::Exit;
use crate::cli::interrupt;
use crate::cli::memory;
use clap::ArgMatches;
use hta_base::process::own_memory;
use hta_base::units::{MemoryLimit, fmt_bytes};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, LazyLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time between two looks. Memory is filled with some gigabytes a second, so that a limit is passed by some
/// dozen megabytes.
const EVERY: Duration = Duration::from_millis(10);

/// What is limited.
pub struct WatchLimits {
    /// What the program is doing, as in `cannot run the statement`.
    pub doing: String,
    /// Memory beside what the process has at the start of the watch.
    pub memory: Option<MemoryLimit>,
    pub time: Option<Duration>,
    /// Advice for memory and for time.
    pub hints: (&'static str, &'static str),
}

/// Whether an abort of the process is for want of memory, as far as can be told.
static IS_WATCHED: LazyLock<Arc<AtomicBool>> = LazyLock::new(|| {
    let is_watched = Arc::new(AtomicBool::new(false));
    #[cfg(unix)]
    // Without it the process ends by the signal.
    let _ = signal_hook::flag::register_conditional_shutdown(
        signal_hook::consts::SIGABRT,
        Exit::Nothing as i32,
        Arc::clone(&is_watched),
    );
    is_watched
});

/// Watches until it is dropped.
pub struct Watch {
    done: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    pub fn start(limits: WatchLimits) -> Self {
        let (done, ended) = channel::<()>();
        let before = own_memory().unwrap_or(0);
        let begun = Instant::now();
        IS_WATCHED.store(true, Ordering::SeqCst);
        let watch = move || {
            while ended.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                if let Some(limit) =
                    limits.memory.filter(|l| own_memory().unwrap_or(0).saturating_sub(before) > l.bytes)
                {
                    let size = fmt_bytes(limit.bytes);
                    end(&limits, &format!("it needs more than {size} of memory"), limits.hints.0);
                }
                if let Some(time) = limits.time.filter(|time| begun.elapsed() > *time) {
                    end(&limits, &format!("it takes longer than {} s", time.as_secs()), limits.hints.1);
                }
            }
        };
        // Without a thread the work has no limit, as on systems that do not tell the memory.
        let thread = std::thread::Builder::new().name("watch".to_string()).spawn(watch).ok();
        Self { done: Some(done), thread }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        IS_WATCHED.store(false, Ordering::SeqCst);
        self.done = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Commands that keep the limit themselves: one of a statement, and one that ends its workers, not itself.
const LIMITING_THEMSELVES: [&str; 2] = ["query", "mcp"];

/// Watches the memory of a command whose limit is given. Files are read within it (`read::room`); what the
/// analyses make of them, such as a row for each step of each stream, is not known before.
pub fn of_limit(matches: &ArgMatches) -> Option<Watch> {
    let (name, of) = matches.subcommand()?;
    if LIMITING_THEMSELVES.contains(&name) {
        return None;
    }
    if of.subcommand().is_some() {
        return of_limit(of);
    }
    let given = of.try_get_one::<u64>("memory_limit").ok().flatten().copied();
    Some(Watch::start(WatchLimits {
        doing: "keep the memory limit".to_string(),
        memory: memory::limit(Some(given?)),
        time: None,
        hints: ("raise --memory-limit, or choose fewer --ranks or --steps", ""),
    }))
}

fn end(limits: &WatchLimits, reason: &str, hint: &str) {
    interrupt::end(&format!("hta: cannot {}: {reason}\nhint: {hint}", limits.doing), Exit::Nothing as i32);
}
