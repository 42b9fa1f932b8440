//! Options that select what is loaded from a trace, for all formats.

use super::room::MemoryLimit;

#[derive(Debug, Clone, Copy, Default)]
pub struct LoadOptions {
    /// Load the arguments that only the `events` table shows.
    pub event_args: bool,
    /// Keep arguments without a column as JSON text.
    pub rest_args: bool,
    /// Leave out Python frames, but count them.
    pub skip_python: bool,
    /// Leave out allocations and frees, but count them.
    pub skip_memory: bool,
    /// Load only device activities and the calls that launch them, and of other host events only the time
    /// range. Saves memory if nothing else is needed.
    pub device_only: bool,
    /// Name ranges that mark operators by their whole text, with sequence numbers and sizes, as they were
    /// recorded.
    pub whole_range_texts: bool,
    /// Limit for the memory of everything that is loaded at once.
    pub memory: Option<MemoryLimit>,
}
