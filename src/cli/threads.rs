//! `--threads`: the threads on which a command works.

use crate::cli::memory;
use anyhow::Context;
use clap::{ArgMatches, Args};
use std::num::NonZero;

/// Largest number of threads accepted: more threads than cores only cost memory and time.
const MOST_THREADS: usize = 512;

// Not a doc comment: clap would use it as the description of every command.
#[derive(Debug, Args)]
pub struct ThreadsArg {
    /// Threads to use; all cores by default
    #[arg(long, value_name = "N", value_parser = parse)]
    threads: Option<usize>,
}

fn parse(text: &str) -> Result<usize, String> {
    let threads = text.parse().ok().filter(|n| (1..=MOST_THREADS).contains(n));
    threads.ok_or_else(|| format!("expected a number of threads from 1 to {MOST_THREADS}, found `{text}`"))
}

impl ThreadsArg {
    /// Runs `work` on a pool of so many threads. The calling thread is part of the pool, because each thread
    /// has its own allocator arena, and a thread that only waits would waste one.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> anyhow::Result<T> {
        let pool = || rayon::ThreadPoolBuilder::new().num_threads(self.threads.unwrap_or(0));
        // A thread cannot belong to two pools; without it in the pool the work still runs.
        let pool = pool().use_current_thread().build().or_else(|_| pool().build());
        Ok(pool.context("cannot start threads")?.install(work))
    }
}

/// Commands that read no data. All others begin with the threads on which they work.
const READING_NOTHING: [&str; 4] = ["completions", "explain", "list", "man"];

/// Checks that the limits of a shell allow the command that was given.
///
/// # Errors
/// When they are too low for its threads.
pub fn check_space(matches: &ArgMatches) -> anyhow::Result<()> {
    match matches.subcommand() {
        Some((name, _)) if READING_NOTHING.contains(&name) => Ok(()),
        Some((_, of)) if of.subcommand().is_some() => check_space(of),
        Some((_, of)) => {
            // Some commands have no such option.
            let given = of.try_get_one::<usize>("threads").ok().flatten().copied();
            let cores = || std::thread::available_parallelism().map_or(1, NonZero::get);
            memory::check_space(given.unwrap_or_else(cores))
        }
        None => Ok(()),
    }
}
