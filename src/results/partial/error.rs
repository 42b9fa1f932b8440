//! Errors of writing, reading and merging partials. Each names the folder, the file and the place.

use hta_base::table::checked::InvalidCell;
use hta_read::files::Fault;
use std::io;

/// An error in a partial, or in several partials together.
#[derive(Debug, thiserror::Error)]
pub enum PartialError {
    #[error("cannot merge {path}: expected a partial of `hta analyze --partial`, found {found}")]
    Foreign { path: String, found: String },
    #[error("cannot merge {path}: expected partials of format version {expected}, found version {found}")]
    Version { path: String, expected: u64, found: u64 },
    #[error("cannot merge {path}: expected a partial of hta {expected}, found one of hta {found}")]
    Program { path: String, expected: &'static str, found: String },
    #[error("cannot merge {path}: {file} is damaged: expected {expected}, found {found}")]
    Damaged { path: String, file: String, expected: String, found: String },
    #[error("cannot merge {path}: {file} is damaged: {flaw}")]
    Flawed { path: String, file: String, flaw: Box<InvalidCell> },
    #[error("cannot merge {first} and {second}: made with different options: {option} is {} and \
             {}", .values.0, .values.1)]
    Options { first: String, second: String, option: String, values: Box<(String, String)> },
    #[error("cannot merge {first} and {second}: both hold rank {rank} ({first_file} and {second_file})")]
    SameRank { rank: u32, first: String, second: String, first_file: String, second_file: String },
    #[error("cannot merge: expected all {count} shares of the job, found none of {missing}")]
    MissingShares { missing: String, count: usize },
    #[error(
        "cannot merge {path}: the rank of {file}: expected {expected} as in the partial, found {found} \
         beside all other files"
    )]
    RankDiffers { path: String, file: String, expected: u32, found: String },
    #[error("cannot read {path}: {source}")]
    Io { path: String, source: io::Error },
    #[error("cannot write {path}: {source}")]
    Write { path: String, source: io::Error },
}

impl PartialError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            PartialError::Foreign { .. } => Some("give the folders that `hta analyze --partial -o` wrote"),
            PartialError::Version { expected, found, .. } if found > expected => {
                Some("it was made by a newer hta: merge with that one")
            }
            PartialError::Version { .. } | PartialError::Program { .. } => {
                Some("make all partials with the hta that merges them")
            }
            PartialError::Damaged { .. } | PartialError::Flawed { .. } => {
                Some("it was cut or changed after it was made: make it again")
            }
            PartialError::Options { .. } => {
                Some("merging takes the options from the partials: give all the same")
            }
            PartialError::SameRank { .. } => Some("give every rank once"),
            PartialError::MissingShares { .. } => {
                Some("make the missing ones with `hta analyze --partial --share K/N`, and give all of them")
            }
            PartialError::RankDiffers { .. } => Some("name the files rank_N.json.gz, each by its own rank"),
            PartialError::Io { source, .. } | PartialError::Write { source, .. } => {
                Fault::of(source).and_then(|fault| fault.hint)
            }
        }
    }
}
