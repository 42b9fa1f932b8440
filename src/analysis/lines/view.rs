//! What is printed: lines summed over ranks, and the lines that differ most between ranks.

use crate::api::Partial;
use crate::lines::spread::differing;
use crate::lines::tables::{LineTotals, LinesOverRanks, LinesTable};
use crate::lines::{ANNOTATE, BY, SORT};
use hta_base::table;
use hta_base::table::rollup::Rollup;
use hta_base::table::schema::{Batch, Text};
use hta_base::table::view::{Keep, Note, RowTest, TableError, ViewScope, ViewSpec};

pub(crate) const OVER_RANKS: Rollup = Rollup::of(LinesTable::SPEC, LinesOverRanks::SPEC);

table! {
    /// Lines whose self time differs between ranks by more than a fifth of the step.
    pub(crate) struct LineSpreads, LineSpreadRow
        = "line_spread" by "spread_ns descending, file, line, function" {
        file: Option<Text>, "", "path as recorded; null for a module", "place";
        line: Option<u32>, "", "line of the calls; of a function, where it is defined";
        function: Option<Text>, "", "name of the function; null for a line";
        module: Option<Text>, "", "path of the nn.Module (with --by module)";
        rank: u32, "", "rank that is farthest from the median";
        self_ns: i64, "ns", "its self time in a step";
        median_ns: i64, "ns", "the lower median of all ranks";
        spread_ns: i64, "ns", "largest less smallest self time", "most - least";
        step_pct: f64, "%", "the difference, of the mean step of all ranks", "of the step";
    }
}

/// A place as terminals link it: `train.py:12` for a line, `train.py:10 train` for a function.
const PLACE: &[(&str, &str, &str)] =
    &[("file", ":", "line"), ("file", " ", "function"), ("file", " ", "module")];

const OVER_ALL: ViewSpec = ViewSpec {
    also: &[LineTotals::SPEC],
    columns: &[
        "file",
        "host_self_ns",
        "native_ns",
        "host_total_ns",
        "gpu_sum_ns?",
        "bwd_gpu_sum_ns?",
        "blocked_ns?",
        "alloc_bytes?",
        "calls",
    ],
    // Places are long, so numbers of the GPU take the place of some of the host.
    gives_way: &[
        ("share", &["gpu_sum_ns"]),
        ("native_ns", &["gpu_sum_ns"]),
        ("host_total_ns", &["gpu_sum_ns"]),
        ("alloc_bytes", &["host_self_ns"]),
    ],
    joined: PLACE,
    by_option: (
        SORT.flag,
        &[
            ("total", "host_total_ns"),
            ("gpu", "gpu_sum_ns"),
            ("blocked", "blocked_ns"),
            ("alloc", "alloc_bytes"),
        ],
    ),
    ..ViewSpec::of(LinesOverRanks::SPEC)
};

pub(crate) const LINES: ViewSpec = ViewSpec {
    title: "Host time in source code",
    keep: &[Keep::Scope("capture"), Keep::Zero("is_idle_thread"), Keep::Made(&["scope"], unless_annotated)],
    shares: &[("host_self_ns", "share")],
    notes: &[Note::Made(without_lines)],
    ..OVER_ALL
};

pub(crate) const IDLE: ViewSpec = ViewSpec {
    title: "On threads that run no operator and make no API call",
    keep: &[
        Keep::Scope("capture"),
        Keep::Positive("is_idle_thread"),
        Keep::Made(&["scope"], unless_annotated),
    ],
    ..OVER_ALL
};

pub(crate) const SPREAD: ViewSpec = ViewSpec {
    title: "Lines that differ between ranks, per step",
    columns: &["file", "rank", "self_ns", "median_ns", "spread_ns", "step_pct"],
    keep: &[Keep::Made(&["rank"], unless_annotated)],
    joined: PLACE,
    most: 5,
    ..ViewSpec::of(LineSpreads::SPEC)
};

/// Of an annotated file, its own lines are shown.
fn unless_annotated(scope: &ViewScope) -> Result<RowTest, TableError> {
    let is_annotated = (scope.option)(ANNOTATE.flag).is_some();
    Ok(Box::new(move |_, _| !is_annotated))
}

fn without_lines(scope: &ViewScope) -> Result<Option<String>, TableError> {
    let mut is_without = false;
    scope.each::<LineTotals>(|r| is_without |= !r.has_lines)?;
    let is_by_line = (scope.option)(BY.flag).as_deref() == Some("line");
    let note = "the lines of calls are not recorded: rows are functions, with the line of their definition";
    Ok((is_without && is_by_line).then(|| note.to_string()))
}

/// The lines that differ most between ranks.
pub(crate) fn spread(partials: &[Partial]) -> Batch {
    let mut table = LineSpreads::default();
    for s in differing(partials) {
        table.push(LineSpreadRow {
            file: s.key.file,
            line: s.key.line,
            function: s.key.function,
            module: s.key.module,
            rank: s.rank,
            self_ns: s.own,
            median_ns: s.median,
            spread_ns: s.spread,
            step_pct: s.share,
        });
    }
    table.finish()
}
