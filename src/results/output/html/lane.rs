//! A lane of the page: one device of one rank, and the columns that identify it.

use hta_base::table;

/// Rank and device of a lane; no device on a CPU-only rank.
pub(crate) type LaneKey = (u32, Option<i64>);

/// Largest number of lanes that are listed; if there are more, those with the smallest share of compute.
pub(crate) const MOST_LANES: usize = 2_048;

table! {
    /// The columns that identify a lane.
    pub(crate) struct LaneColumns, LaneRow = "lanes" by "rank, device" {
        rank;
        device: Option<i64>, "", "device index; none on a CPU-only rank";
        windows: u64, "",
            "full steps that the sums are over; 1: the span, where there are no full steps";
    }
}
