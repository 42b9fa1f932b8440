//! Receives events as text instead of columns: each as written in the file, after the reader's checks.

use super::scratch::Scratch;
use hta_base::units::Ns;

/// An event that the reader has accepted.
pub struct Accepted<'a> {
    pub buf: &'a [u8],
    pub tokens: &'a Scratch,
    pub phase: u8,
    /// Start of a complete event, ns.
    pub ts: Option<Ns>,
}

/// Receives the parts of a file in order.
pub trait EventSink: Send {
    /// A top-level member other than the events: its key, and its value as written in the file.
    fn member(&mut self, key: &str, value: &[u8]);
    /// The event array begins.
    fn events_begin(&mut self, root_is_array: bool);
    /// An event. Returns `false` if it could not be used; the reader then counts it.
    fn event(&mut self, event: &Accepted) -> bool;
}
