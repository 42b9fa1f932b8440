//! Nodes of the graph and the edges that lead to them, looked up one node at a time: only what the walk
//! visits is asked for.

mod awaited;
mod gpu;
mod host;
mod sync;

pub use gpu::{From, Gpu};
pub use host::Host;
pub use sync::{Moment, Syncs};
