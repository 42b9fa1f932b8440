//! How each rank was recorded: what two results can be compared by, and what the profiler itself cost.

use hashbrown::HashSet;
use hta_base::table;
use hta_base::table::schema::Text;
use hta_base::units::Span;
use hta_base::wording::names::fnv1a;
use hta_job::recording::facts::overhead;
use hta_trace::args::Arg;
use hta_trace::category::Class;
use hta_trace::meta::Meta;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;

table! {
    /// How each rank was recorded, which says whether two results can be compared.
    pub struct Recorders, RecorderRow = "recorders" by "rank" {
        rank;
        recorder: Text, "", "program that recorded the file";
        versions: Option<Text>, "", "versions of the driver and the runtime, as the file says";
        has_frames: bool, "", "Python frames are recorded";
        has_shapes: Option<bool>, "", "shapes of inputs are recorded, as the file says";
        input_shapes: Option<Text>, "",
            "mark of the shapes of all inputs of operators in full steps: equal where these are";
        recorded_ns: i64, "ns", "length of the capture";
        overhead_ns: i64, "ns", "time of it in which the profiler itself worked";
    }
}

/// The row of a rank. `versions` are those of [`versions`], `shapes` those of [`input_shapes`].
pub fn row<'a>(trace: &RankTrace, versions: Option<&'a str>, shapes: &'a Option<String>) -> RecorderRow<'a> {
    RecorderRow {
        rank: trace.rank,
        recorder: trace.meta.recorder.name(),
        versions,
        has_frames: trace.classes.contains(&Class::Python),
        has_shapes: trace.meta.other.get("record_shapes").map(|v| v != "0"),
        input_shapes: shapes.as_deref(),
        recorded_ns: trace.capture.len(),
        overhead_ns: overhead(trace),
    }
}

/// Versions of the driver and the runtime that the file names.
pub fn versions(meta: &Meta) -> Option<String> {
    let named = meta.other.iter().filter(|(key, _)| key.ends_with("_version"));
    let shown: Vec<String> =
        named.map(|(key, value)| format!("{} {value}", key.trim_end_matches("_version"))).collect();
    (!shown.is_empty()).then(|| shown.join(", "))
}

/// A mark of the shapes of inputs, however often each occurs, because the number of steps differs between
/// recordings. Shapes before and after the full steps are those of other work.
pub fn input_shapes(trace: &RankTrace) -> Option<String> {
    let full = || trace.steps.steps.iter().filter(|step| !step.is_partial).map(|step| step.host);
    let first = full().map(|span| span.start).min().unwrap_or(trace.capture.start);
    let last = full().map(|span| span.end).max().unwrap_or(trace.capture.end);
    let full_steps = Span::new(first, last);
    let mut dims = trace.columns.args.cursor(Arg::InputDims);
    let rows = (0u32..).zip(&trace.classes).filter(|(_, class)| **class == Class::HostOp).map(|(row, _)| row);
    let found: HashSet<StrId> = rows
        .filter(|row| full_steps.holds(trace.columns.span(*row as usize).start))
        .filter_map(|row| dims.get(row).map(|text| StrId(text as u32)))
        .collect();
    let mut shapes: Vec<&str> = found.into_iter().map(|text| trace.text(text)).collect();
    shapes.sort_unstable();
    (!shapes.is_empty()).then(|| format!("{:016x}", fnv1a(&shapes.join("\n"))))
}
