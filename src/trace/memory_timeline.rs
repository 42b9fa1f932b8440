//! A memory timeline of `torch.profiler`: what each record adds to or takes from a category of tensors.

use hta_base::health::Health;

/// Names of the categories, by the number that the file has.
pub const CATEGORIES: [&str; 8] = [
    "parameter",
    "optimizer_state",
    "input",
    "temporary",
    "activation",
    "gradient",
    "autograd_detail",
    "unknown",
];

/// Number of bytes by category.
pub type Sizes = [i64; CATEGORIES.len()];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimelineAction {
    Preexisting,
    Create,
    /// A tensor changes in place: a row with the old category and the bytes taken away, then one with the
    /// new.
    NewVersion,
    Destroy,
    /// From a file that has only levels.
    Level,
}

#[derive(Debug, Clone, Copy)]
pub struct MemoryTimelineRow {
    /// `None`: before the recording.
    pub ts_ns: Option<i64>,
    pub action: TimelineAction,
    /// Change of the level; positive for `Preexisting` and `Create`.
    pub delta: i64,
    pub category: u8,
}

/// A memory timeline. Rows are in the order of the file.
#[derive(Default)]
pub struct MemoryTimeline {
    pub rows: Vec<MemoryTimelineRow>,
    /// Size of the unpacked file, bytes.
    pub unpacked_bytes: u64,
    pub health: Health,
}
