//! The clocks of all devices of a job, and those that are slower than others.

use crate::api::Partial;
use crate::diagnosis::clocks::recorded::RecordedClocks;
use crate::diagnosis::clocks::slower::{self, SlowerClock};
use crate::job::Job;

pub(crate) struct JobClocks {
    pub(crate) recorded: RecordedClocks,
    /// Devices that are slower than the others of their model, because their clock is lower.
    pub(crate) slower: Vec<SlowerClock>,
}

impl JobClocks {
    pub(crate) fn new(job: &Job, partials: &[Partial]) -> Self {
        let recorded = RecordedClocks::new(job, partials);
        let slower = slower::find(job, &recorded);
        Self { recorded, slower }
    }

    /// The slower device of a part.
    pub(crate) fn slower_part(&self, part: u32) -> Option<&SlowerClock> {
        self.slower.iter().find(|s| s.place.0 == part)
    }
}
