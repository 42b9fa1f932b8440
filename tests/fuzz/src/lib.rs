//! Code shared by the fuzz targets. From the root of the repository:
//!
//! ```text
//!   cargo +nightly fuzz run --fuzz-dir tests/fuzz reader -- -max_len=4096 -max_total_time=600
//!   cargo +nightly fuzz run --fuzz-dir tests/fuzz files -- -max_len=4096 -max_total_time=600
//!   cargo +nightly fuzz run --fuzz-dir tests/fuzz partials -- -max_len=200000 -max_total_time=600
//!   cargo +nightly fuzz run --fuzz-dir tests/fuzz perfetto -- -max_len=4096 -max_total_time=600
//!   cargo +nightly fuzz run --fuzz-dir tests/fuzz results -- -max_len=20000 -max_total_time=600
//!   cargo +nightly fuzz run --fuzz-dir tests/fuzz snapshots -- -max_len=4096 -max_total_time=600
//!   cargo +nightly fuzz run --fuzz-dir tests/fuzz statements -- -max_len=600 -timeout=10 -max_total_time=600
//! ```
//!
//! `corpus/files`, `corpus/perfetto`, `corpus/results`, `corpus/snapshots` and `corpus/statements` are read by the tests,
//! too (`robustness::corpus`, `robustness::results`, `snapshots::shared_objects`, `cli::queries::meaning`).
//! `corpus/<target>` contains inputs written by hand or by the tests' builder. Inputs that earlier runs of `reader`
//! found are in an archive: `mkdir found && tar -xzf tests/fuzz/corpus/reader_found.tar.gz -C found`, and name `found`
//! before the other folders. Crashes go to `artifacts/`; new inputs go to the first folder that is named, else to
//! `corpus/<target>`.

use hta::trace::args::ARGS;
use hta::trace::events::Columns;
use hta::health::Counter;

/// The parts of a reading that are compared: texts, times, lanes, arguments, counters.
#[derive(Debug, PartialEq)]
pub struct Seen {
    texts: Vec<String>,
    rows: Vec<(u32, i64, i64, u16, u32)>,
    args: Vec<Vec<(u32, u64)>>,
    health: Vec<(Counter, u64)>,
}

impl Seen {
    pub fn of(columns: &Columns) -> Self {
        let texts = columns.strings.iter().map(|(_, t)| t.to_string()).collect();
        let rows = (0..columns.len())
            .map(|i| (columns.name(i).0, columns.ts[i], columns.dur[i], columns.cat[i], columns.lane[i]));
        let args = ARGS.iter().map(|a| columns.args.column(a.id));
        Self {
            texts,
            rows: rows.collect(),
            args: args.chain([&columns.args.rest]).map(|c| c.iter().collect()).collect(),
            health: columns.health.iter().map(|(c, t)| (c, t.count)).collect(),
        }
    }
}
