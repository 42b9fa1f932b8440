//! Clocks of devices: when they are lower than they could be, whether kernels take longer by that, and what
//! power and temperature are meanwhile. Reasons of the driver are not recorded, so none is told as a fact.
//!
//! ```text
//!   clock of a device   1980 1980 1980 1410 1410 1410      it falls: against its own highest, in `fall`
//!   of the others       1980 1980 1980 1980 1980 1980      it is slower: against the others, in `slower`
//! ```

mod fall;
mod held;
mod job_clocks;
mod kernel_lengths;
mod levels;
mod map;
mod reason;
mod recorded;
mod reference;
mod seen_ranks;
mod slower;
mod tables;
mod words;

pub(crate) use job_clocks::JobClocks;
pub(crate) use levels::SlowerWords;
pub(crate) use map::push;
pub(crate) use recorded::{DeviceFall, StepClock, do_most_fall, is_shown_by};
pub(crate) use seen_ranks::SeenOfRanks;
pub(crate) use slower::{SlowerClock, peers_of};
pub(crate) use tables::{DeviceClocks, StepClocks};
pub(crate) use words::megahertz;
