//! The stages of reducing that all analyses of several ranks share: matching, clocks, waits.
//!
//! ```text
//!   Part (one rank, bounded)  ->  match calls to instances  ->  align clocks by ends  ->  split waits
//! ```
//!
//! [`Job::join`] runs them once; `stragglers`, `sync`, `collectives` and `what-if` read the result.

pub mod balanced;
mod by_sequence;
pub mod cause;
mod chain;
mod clock;
mod collectives;
pub mod connected;
mod counted_groups;
pub mod delay;
pub mod difference;
mod end_fit;
pub mod end_together;
pub mod experts;
pub mod exposed;
mod families;
pub mod fused;
mod groups;
mod host_behind;
mod in_order;
mod in_turn;
mod infer;
mod joined;
mod kernel_origin;
mod lent_steps;
mod local;
pub mod loops;
mod matching;
mod meeting;
pub mod mesh;
mod messages;
mod nameless;
mod origin;
mod part;
mod peers;
pub mod pipeline_places;
pub mod rank_words;
mod ready;
pub mod recording;
pub mod replay;
pub mod replicas;
mod sequence;
mod strays;
mod tail;
mod waited;
mod waits;
pub mod window;

pub use clock::{Clock, ClockMode};
pub use groups::Group;
pub use joined::Job;
pub use kernel_origin::KernelOrigin;
pub use local::{Local, LocalEntry, TimeUse};
pub use matching::{Instance, MatchMethod, Member};
pub use mesh::{
    Coordinates, HostSource, Hosts, MeshShape, ProgramExtent, RankHead, ToldMeshes, coordinates_of_heads,
    dimension_name,
};
pub use part::{JobOptions, PartLane, PartStep, PartWindow, RankSummary, TABLES as PART_TABLES};
pub use ready::is_queued_behind;
pub use strays::Stray;
pub use waits::{Arrivals, CallWait};
