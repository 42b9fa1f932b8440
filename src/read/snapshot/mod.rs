//! Memory snapshots of PyTorch's caching allocator: a pickle reader of our own, and the columns that it
//! fills.
//!
//! A snapshot is untrusted input that Python would execute. This reader knows a closed list of opcodes, none
//! of which can import or call anything, and refuses the others by name and place. It reads in one pass and
//! block by block; a dict goes into columns as soon as it closes, and stacks are stored once, so a snapshot
//! takes less memory than its file. A list of rows belongs to one place, whatever the file says, so that the
//! memory follows the size of the file.

mod bytes;
mod claims;
mod container;
mod error;
mod json;
mod keys;
mod kind;
mod load;
mod machine;
mod memo;
mod opcode;
mod rows;
mod timeline;
mod viewer_page;

pub use error::Problem;
pub(crate) use kind::MemoryDumps;
pub use kind::load_dump;
pub use load::read_snapshot;
pub use timeline::{is_timeline, read_timeline};

/// Whether a file that begins with these bytes is a pickle of a protocol that snapshots use.
pub(crate) fn is_pickle(head: &[u8]) -> bool {
    matches!(head, [0x80, 2..=5, ..])
}
