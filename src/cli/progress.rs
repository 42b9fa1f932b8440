//! Progress bar on standard error: ranks done, bytes, rate. Drawn only on a terminal.

use crate::read::source::ByteCount;
use crate::run::Progress;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The progress bar; draws nothing if standard error is not a terminal.
#[derive(Default)]
pub struct Bar {
    bar: Mutex<Option<ProgressBar>>,
    done: AtomicU64,
    ranks: AtomicU64,
    over: Arc<AtomicBool>,
}

impl Bar {
    fn with(&self, act: impl FnOnce(&ProgressBar)) {
        if let Ok(guard) = self.bar.lock()
            && let Some(bar) = guard.as_ref()
        {
            act(bar);
        }
    }
}

impl Progress for Bar {
    fn start(&self, ranks: usize, bytes: u64, count: &ByteCount) {
        if !std::io::stderr().is_terminal() {
            return;
        }
        let bar = ProgressBar::new(bytes);
        let template = "{bar:24} {bytes}/{total_bytes} {binary_bytes_per_sec} {msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(format!("0 of {ranks} ranks"));
        self.ranks.store(ranks as u64, Ordering::Relaxed);
        self.over.store(false, Ordering::Relaxed);
        let (ticker, count, over) = (bar.clone(), Arc::clone(count), Arc::clone(&self.over));
        std::thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                ticker.set_position(count.load(Ordering::Relaxed).min(bytes));
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        if let Ok(mut slot) = self.bar.lock() {
            *slot = Some(bar);
        }
    }

    fn rank_done(&self) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        self.with(|bar| bar.set_message(format!("{done} of {} ranks", self.ranks.load(Ordering::Relaxed))));
    }

    fn finish(&self) {
        self.over.store(true, Ordering::Relaxed);
        self.with(ProgressBar::finish_and_clear);
    }
}
