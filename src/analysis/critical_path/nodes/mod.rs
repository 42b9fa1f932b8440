//! Nodes of the graph and the edges that lead to them. They are looked up one at a time, only where the walk
//! needs them.

mod awaited;
mod gpu;
mod host;
mod sync;

pub use gpu::{EdgeOrigin, GpuNodes};
pub use host::HostNodes;
pub use sync::{SyncEvents, ThreadMoment};
