//! Jobs of several ranks: planted causes, partials, one result whatever the threads.

mod alike;
mod coalesced;
mod copy_engines;
pub mod determinism;
mod host_order;
mod late_together;
pub mod mesh;
pub mod nameless;
pub mod partial;
mod pauses_in_turn;
pub mod planted;
pub mod roles;
mod slow_launches;
mod slow_tail;
mod titles;
