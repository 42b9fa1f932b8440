//! Progress on standard error: a bar with ranks done, bytes and rate on a terminal; with `HTA_PROGRESS=json`
//! a line of JSON now and then, for programs that run this one; otherwise nothing.

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
    Bar { bar: ProgressBar, ranks: usize },
    Lines(ProgressLines),
}

/// The state of a run as a line of JSON, e.g.
/// `{"progress":{"bytes":9000,"bytes_done":4000,"ranks":8,"ranks_done":3}}`.
#[derive(Clone)]
struct ProgressLines {
    ranks: usize,
    ranks_done: Arc<AtomicU64>,
    bytes: u64,
    count: ByteCount,
}

impl ProgressLines {
    fn text(&self) -> String {
        let bytes_done = self.count.load(Ordering::Relaxed).min(self.bytes);
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
        if std::env::var_os(VARIABLE).is_some_and(|v| v == "json") {
            let (ranks_done, count) = (Arc::clone(&self.ranks_done), Arc::clone(count));
            return Some(ShownProgress::Lines(ProgressLines { ranks, ranks_done, bytes, count }));
        }
        if !std::io::stderr().is_terminal() {
            return None;
        }
        let bar = ProgressBar::new(bytes);
        let template = "{bar:24} {bytes}/{total_bytes} {binary_bytes_per_sec} {msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(format!("0 of {ranks} ranks"));
        Some(ShownProgress::Bar { bar, ranks })
    }
}

impl Progress for Bar {
    fn start(&self, ranks: usize, bytes: u64, count: &ByteCount) {
        self.ranks_done.store(0, Ordering::Relaxed);
        let Some(shown) = self.choose(ranks, bytes, count) else { return };
        self.over.store(false, Ordering::Relaxed);
        let (ticker, count, over) = (shown.clone(), Arc::clone(count), Arc::clone(&self.over));
        std::thread::spawn(move || {
            let mut tick = 0u32;
            while !over.load(Ordering::Relaxed) {
                match &ticker {
                    ShownProgress::Bar { bar, .. } => {
                        bar.set_position(count.load(Ordering::Relaxed).min(bytes))
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
        let done = self.ranks_done.fetch_add(1, Ordering::Relaxed) + 1;
        self.with(|shown| {
            if let ShownProgress::Bar { bar, ranks } = shown {
                bar.set_message(format!("{done} of {ranks} ranks"));
            }
        });
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
        let lines = ProgressLines { ranks: 8, ranks_done, bytes: 9000, count: Arc::clone(&count) };
        count.store(4000, Ordering::Relaxed);
        let line = r#"{"progress":{"bytes":9000,"bytes_done":4000,"ranks":8,"ranks_done":3}}"#;
        assert_eq!(lines.text(), line);
        // A file may be read twice.
        count.store(9999, Ordering::Relaxed);
        assert!(lines.text().contains(r#""bytes_done":9000"#));
    }
}
