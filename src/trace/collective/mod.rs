//! Collectives as one rank recorded them: which calls, of which process group, how large.
//!
//! Which call of one rank belongs to which of another is not said in a trace; that is found across ranks
//! (`job`). Here is what each rank says by itself.

mod call;
pub(crate) mod dtype;
pub(crate) mod group;
mod kind;

pub use call::{Call, Edge, RankCalls};
pub use group::{LocalGroup, Members};
pub use kind::Kind;
