//! Collectives as one rank recorded them: the calls, their process groups and sizes.
//!
//! A trace does not say which call of one rank corresponds to which call of another; `job` matches them. This
//! module has only what each rank says by itself.

mod call;
pub mod dtype;
pub mod group;
mod kind;
pub mod ranks;
mod role;

pub use call::{CallShape, CallShapes, CollectiveCall, Message, RankCalls};
pub use group::{LocalGroup, Members};
pub use kind::CollectiveKind;
pub use role::KernelRole;
