//! Files on disk and objects in stores, read and listed by one set of functions.
//!
//! A path is that of a file, or a URL (`s3://`, `gs://`, `az://`, `http://`, `https://`). An object is read
//! as a stream of its bytes: nothing of it is copied to the disk, and a few megabytes are in memory.
//!
//! - `scheme`, `secrets`, `address`: URLs, and what must not be seen of them.
//! - `fault`: why a store failed.
//! - `aws_file`, `aws_profile`, `aws_process`, `aws_settings`: how S3 is reached, by the environment and
//!   `~/.aws`.
//! - `net`, `stores`: connections, credentials, one client for each bucket; what was seen of objects.
//! - `location`: a path or URL with its stores, and what can be done with it.
//! - `known`, `object`, `listing`, `lists`: reading and listing, and lists that do not end.
//! - `upload`: writing a folder, complete or not at all.
//! - `stored`: a file or object that is read at any place, as Parquet needs it.

mod address;
mod aws_file;
mod aws_process;
mod aws_profile;
mod aws_settings;
mod fault;
mod known;
mod listing;
mod lists;
mod location;
mod net;
mod object;
mod scheme;
mod secrets;
mod stored;
mod stores;
mod upload;

pub use address::is_within;
pub use fault::Fault;
pub use location::{ContentVersion, Location};
pub use scheme::is_remote;
pub use secrets::{Queries, without_secrets};
pub use stored::{Stored, StoredReader};
pub use stores::{STALL, StoreOptions, Stores};
pub use upload::abandon_uploads;
