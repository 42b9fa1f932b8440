//! Progress on standard error: a bar with ranks done, bytes read and the time that is left on a terminal;
//! with `HTA_PROGRESS=json` a line of JSON now and then, for programs that run this one; otherwise nothing.

use hta_base::units::fmt_bytes;
use hta_base::wording::counts::plural;
use hta_read::source::ByteCount;
use hta_results::run::Progress;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Environment variable that asks for lines of JSON.
const VARIABLE: &str = "HTA_PROGRESS";

/// Time between two updates of a bar, and number of updates for one line of JSON.
const TICK: Duration = Duration::from_millis(100);
const TICKS_OF_A_LINE: u32 = 5;

/// The progress of a run; draws nothing if nobody can see or read it.
#[derive(Default)]
pub struct Bar {
    shown: Mutex<Option<ShownProgress>>,
    ranks_done: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
}

#[derive(Clone)]
enum ShownProgress {
    Bar { bar: ProgressBar, state: ProgressState },
    Lines(ProgressState),
}

/// How far a run is.
#[derive(Clone)]
struct ProgressState {
    ranks: usize,
    ranks_done: Arc<AtomicU64>,
    bytes: u64,
    count: ByteCount,
}

impl ProgressState {
    fn bytes_done(&self) -> u64 {
        // A file may be read twice.
        self.count.load(Ordering::Relaxed).min(self.bytes)
    }

    /// Length of the bar. To read the bytes is one half, to be done with the ranks the other: a rank that was
    /// read is still analysed.
    fn length(&self) -> u64 {
        self.bytes.max(1) * 2
    }

    fn position(&self) -> u64 {
        let ranks = self.ranks.max(1) as u64;
        self.bytes_done() + self.bytes * self.ranks_done.load(Ordering::Relaxed).min(ranks) / ranks
    }

    fn message(&self) -> String {
        let done = self.ranks_done.load(Ordering::Relaxed);
        let (read, all) = (fmt_bytes(self.bytes_done()), fmt_bytes(self.bytes));
        format!("{done} of {}, {read} of {all} read", plural(self.ranks, "rank"))
    }

    /// The state as a line of JSON, e.g.
    /// `{"progress":{"bytes":9000,"bytes_done":4000,"ranks":8,"ranks_done":3}}`.
    fn text(&self) -> String {
        let bytes_done = self.bytes_done();
        let ranks_done = self.ranks_done.load(Ordering::Relaxed);
        let state = json!({
            "ranks": self.ranks, "ranks_done": ranks_done, "bytes": self.bytes, "bytes_done": bytes_done,
        });
        json!({ "progress": state }).to_string()
    }

    fn print(&self) {
        let _ = writeln!(std::io::stderr().lock(), "{}", self.text());
    }
}

impl Bar {
    fn with(&self, act: impl FnOnce(&ShownProgress)) {
        if let Ok(guard) = self.shown.lock()
            && let Some(shown) = guard.as_ref()
        {
            act(shown);
        }
    }

    /// What this run shows, if anything.
    fn choose(&self, ranks: usize, bytes: u64, count: &ByteCount) -> Option<ShownProgress> {
        let (ranks_done, count) = (Arc::clone(&self.ranks_done), Arc::clone(count));
        let state = ProgressState { ranks, ranks_done, bytes, count };
        if std::env::var_os(VARIABLE).is_some_and(|v| v == "json") {
            return Some(ShownProgress::Lines(state));
        }
        if !std::io::stderr().is_terminal() {
            return None;
        }
        let bar = ProgressBar::new(state.length());
        let template = "{bar:24} {msg}, about {eta} left";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(state.message());
        Some(ShownProgress::Bar { bar, state })
    }
}

impl Progress for Bar {
    fn start(&self, ranks: usize, bytes: u64, count: &ByteCount) {
        self.ranks_done.store(0, Ordering::Relaxed);
        let Some(shown) = self.choose(ranks, bytes, count) else { return };
        self.over.store(false, Ordering::Relaxed);
        let (ticker, over) = (shown.clone(), Arc::clone(&self.over));
        std::thread::spawn(move || {
            let mut tick = 0u32;
            while !over.load(Ordering::Relaxed) {
                match &ticker {
                    ShownProgress::Bar { bar, state } => {
                        bar.set_position(state.position());
                        bar.set_message(state.message());
                    }
                    ShownProgress::Lines(lines) if tick.is_multiple_of(TICKS_OF_A_LINE) => lines.print(),
                    ShownProgress::Lines(_) => {}
                }
                tick = tick.wrapping_add(1);
                std::thread::sleep(TICK);
            }
        });
        if let Ok(mut slot) = self.shown.lock() {
            *slot = Some(shown);
        }
    }

    fn rank_done(&self) {
        self.ranks_done.fetch_add(1, Ordering::Relaxed);
    }

    fn finish(&self) {
        self.over.store(true, Ordering::Relaxed);
        self.with(|shown| match shown {
            ShownProgress::Bar { bar, .. } => bar.finish_and_clear(),
            ShownProgress::Lines(lines) => lines.print(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_ranks_and_bytes() {
        let count = ByteCount::default();
        let ranks_done = Arc::new(AtomicU64::new(3));
        let lines = ProgressState { ranks: 8, ranks_done, bytes: 9000, count: Arc::clone(&count) };
        count.store(4000, Ordering::Relaxed);
        let line = r#"{"progress":{"bytes":9000,"bytes_done":4000,"ranks":8,"ranks_done":3}}"#;
        assert_eq!(lines.text(), line);
        assert_eq!(lines.message(), "3 of 8 ranks, 4.00 kB of 9.00 kB read");
        assert_eq!((lines.position(), lines.length()), (4000 + 3375, 18_000));
        count.store(9999, Ordering::Relaxed);
        assert!(lines.text().contains(r#""bytes_done":9000"#));
    }
}
