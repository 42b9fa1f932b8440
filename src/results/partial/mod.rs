//! Partials: the results of mapping some ranks of a job, stored on disk so that other processes can map the
//! other ranks.
//!
//! ```text
//!   hta analyze --partial -o A rank_0..3   ->  A/partial.json  state/*.parquet  tables/*.parquet  events/*
//!   hta analyze --partial -o B rank_4..7   ->  B/...
//!   hta merge A B -o OUT                   ->  the same bytes that one `hta analyze -o OUT rank_0..7` writes
//!   hta merge --partial A B -o AB          ->  one partial, the same as that of `hta analyze --partial rank_0..7`
//! ```
//!
//! `state` holds what reducing needs ([`crate::run::MappedSet`]): the tables of the partials of every
//! analysis, each rank's part of the joined job, and the list of files. `tables` and `events` hold the rows
//! of the ranks as they are in a result. Merging streams the tables, row group by row group in order of rank,
//! and links or copies the events. `partial.json` records the version of the format, the options, and the
//! length and checksum of every file. It is written last.
//!
//! Input is not trusted: any bytes give a partial, or an error with the file and the place ([`read`]).
//! Surprising: a rank that was taken from a file's name counts only if the name gives the same rank when the
//! names of all files of the job are known. Merging checks this.

mod error;
mod folder;
mod manifest;
mod merge;
mod options;
mod rows;
mod shares;
mod state;
mod tables;

pub use crate::store::VERSION;
pub use error::PartialError;
pub use folder::{LAYOUT, PartialFolder, leave, open};
pub use merge::{MergeError, Merged, merge};
pub use options::{OptionTexts, RULES, RecordedOptions, Restored, record, restore};
pub use rows::stream;
pub use shares::{check_complete, record_share};
pub use state::{PartialState, read, state as assemble};
