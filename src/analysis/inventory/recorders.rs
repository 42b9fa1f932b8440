//! How each rank was recorded: what two results can be compared by, and what the profiler itself cost.

use crate::recording::facts::overhead;
use hta_base::table;
use hta_base::table::schema::Text;
use hta_trace::category::Class;
use hta_trace::meta::Meta;
use hta_trace::rank_trace::RankTrace;

table! {
    /// How each rank was recorded, which says whether two results can be compared.
    pub struct Recorders, RecorderRow = "recorders" by "rank" {
        rank;
        recorder: Text, "", "program that recorded the file";
        versions: Option<Text>, "", "versions of the driver and the runtime, as the file says";
        has_frames: bool, "", "Python frames are recorded";
        has_shapes: Option<bool>, "", "shapes of inputs are recorded, as the file says";
        recorded_ns: i64, "ns", "length of the capture";
        overhead_ns: i64, "ns", "time of it in which the profiler itself worked";
    }
}

/// The row of a rank. `versions` are those of [`versions`].
pub fn row<'a>(trace: &RankTrace, versions: Option<&'a str>) -> RecorderRow<'a> {
    RecorderRow {
        rank: trace.rank,
        recorder: trace.meta.recorder.name(),
        versions,
        has_frames: trace.classes.contains(&Class::Python),
        has_shapes: trace.meta.other.get("record_shapes").map(|v| v != "0"),
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
