//! The clocks of all devices of a job, and those that are slower than others.

use crate::clocks::recorded::{RecordedClocks, do_most_fall};
use crate::clocks::slower::{self, SlowerClock};
use hta_analysis::api::Partial;
use hta_job::Job;

pub(crate) struct JobClocks {
    pub(crate) recorded: RecordedClocks,
    /// Devices that are slower than the others of their model, because their clock is lower; by place.
    pub(crate) slower: Vec<SlowerClock>,
}

impl JobClocks {
    pub(crate) fn new(job: &Job, partials: &[Partial]) -> Self {
        let recorded = RecordedClocks::new(job, partials);
        let mut slower = slower::find(job, &recorded);
        // Where the clocks of most fall, that is told of all together.
        let places = job.parts.iter().flat_map(|p| &p.lanes).filter(|l| l.device.is_some()).count();
        if do_most_fall(recorded.falls.values(), places) {
            slower.retain(|s| !s.are_most);
        }
        Self { recorded, slower }
    }

    /// The slower device of a part.
    pub(crate) fn slower_part(&self, part: u32) -> Option<&SlowerClock> {
        let from = self.slower.partition_point(|s| s.place.0 < part);
        self.slower.get(from).filter(|s| s.place.0 == part)
    }
}
