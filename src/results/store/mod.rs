//! Stores the partials of ranks between mapping and reducing: in memory while they are small, then in a file in the
//! format of the `state` of a partial.

mod partials;
mod state_table;

pub use partials::{INVENTORY, PART, PartialStore, Place, Spool, StoredPartial};
pub use state_table::{Damage, Known, PROGRAM, RANK, RankRows, StateTable, VERSION, bytes, contained, read, sound};
