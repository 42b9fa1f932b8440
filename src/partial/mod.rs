//! Partials: what mapping some ranks of a job leaves, on disk, so that other processes can map the others.
//!
//! ```text
//!   hta analyze --partial -o A rank_0..3   ->  A/partial.json  state/*.parquet  tables/*.parquet  events/*
//!   hta analyze --partial -o B rank_4..7   ->  B/...
//!   hta merge A B -o OUT                   ->  the bytes that one `hta analyze -o OUT rank_0..7` leaves
//! ```
//!
//! `state` holds what reducing needs ([`crate::run::MappedSet`]): tables of the partials of every analysis, of
//! each rank's part in the joined job, and of the files. `tables` and `events` are the rows of the ranks as a result
//! has them; merging streams the first, row group by row group in order of rank, and links or copies the second.
//! `partial.json` says the version of the format, the options, and length and checksum of every file, and is written
//! last.
//!
//! Nothing that is read is trusted: any bytes give a partial or an error with file and place ([`read`]). The surprising
//! thing: a rank may come from a name only if the name gives the same rank beside those of all other files, which
//! is known when all are there; merging checks it.

mod constant;
mod error;
mod folder;
mod manifest;
mod merge;
mod options;
mod rows;
mod state;
mod tables;

pub use crate::store::VERSION;
pub use error::PartialError;
pub use folder::{LAYOUT, Partial, leave, open};
pub use merge::{MergeError, Merged, merge};
pub use options::{Recorded, Restored, record, restore};
pub use rows::stream;
pub use state::{State, read, state as assemble};
