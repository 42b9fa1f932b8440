//! A lane of the page: one device of one rank, and the columns that identify it.

use crate::output::html::grid::{CellType, Heading};

/// Rank and device of a lane; no device on a CPU-only rank.
pub(crate) type LaneKey = (u32, Option<i64>);

/// Largest number of lanes that are listed; if there are more, those with the smallest share of compute.
pub(crate) const MOST_LANES: usize = 2_048;

/// Headings of the columns that identify a lane.
pub(crate) const LANE: [Heading; 3] = [
    ("rank", "rank", CellType::Id, "rank"),
    ("device", "device", CellType::Id, "device index; none on a CPU-only rank"),
    (
        "windows",
        "windows",
        CellType::Count,
        "full steps that the sums are over; 1: the span, where there are no full steps",
    ),
];
