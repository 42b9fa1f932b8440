//! The table `captures`: captures that one process wrote one after the other.

use hta_base::table;
use hta_base::table::schema::Text;

table! {
    /// Captures of one process, each analysed by itself.
    pub struct CapturesTable, CaptureRow = "captures" by "process, capture" {
        process: Text, "", "ids of the process";
        capture: u32, "", "number in order of time, from 1";
        file: Text, "", "its file";
        start_ns: i64, "ns", "first recorded event";
        end_ns: i64, "ns", "last recorded event";
        period_ns: Option<i64>, "ns", "from the start of the capture before";
        step_count: u32, "", "steps, over which the time of a step is a mean";
        step_ns: Option<i64>, "ns", "time of a step";
        verdict: Text, "", "first line of its diagnosis";
    }
}
