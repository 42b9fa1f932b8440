//! Where events go that are not turned into columns: each as it stands in the file, after the checks of the reader.

use super::scratch::Scratch;
use crate::units::Ns;

/// An event as the reader has accepted it.
pub struct Accepted<'a> {
    pub buf: &'a [u8],
    pub tokens: &'a Scratch,
    pub phase: u8,
    /// Its start, for complete events.
    pub ts: Option<Ns>,
}

/// Takes a file apart as it is read, in the order of the file.
pub trait EventSink: Send {
    /// A top-level member beside the events: its key, and the value as it stands in the file.
    fn member(&mut self, key: &str, value: &[u8]);
    /// The event array begins.
    fn events_begin(&mut self, root_is_array: bool);
    /// An event. `false` if it could not be used, which the reader counts.
    fn event(&mut self, event: &Accepted) -> bool;
}
