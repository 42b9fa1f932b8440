//! What of a trace is loaded, whatever its format.

use super::room::MemoryLimit;

/// What of a file is loaded.
#[derive(Debug, Clone, Copy, Default)]
pub struct LoadOptions {
    /// Load the arguments that only the `events` table shows.
    pub event_args: bool,
    /// Keep arguments without a column as JSON text.
    pub rest_args: bool,
    /// Leave Python frames out, counted.
    pub skip_python: bool,
    /// Load what devices did and the calls that launch it; of other host events only how far they reach. For what
    /// needs no more, in a fraction of the memory.
    pub device_only: bool,
    /// Memory of all that is loaded at once.
    pub memory: Option<MemoryLimit>,
}
