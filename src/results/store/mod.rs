//! Stores the partials of ranks between mapping and reducing: in memory while they are small, then in a file
//! in the format of the `state` of a partial.

mod partials;
mod state_table;

pub use partials::{INVENTORY, PART, PartialStore, Spool, StoredPartial, StoredRows};
pub use state_table::{
    Damage, FindTable, PROGRAM, RANK, RankRows, StateTable, VERSION, bytes, contained, read, sound,
};
