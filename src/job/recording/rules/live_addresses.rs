//! Addresses of the allocator are given out again while they are in use, and the totals of the same records
//! say that nothing was freed in between. The addresses are not to be believed: what holds memory, and what
//! is never freed, is not told. Levels and peaks are the totals, and stay.

use crate::recording::capability::{Capability, Grade};
use crate::recording::facts::RecordingRow;
use crate::recording::limit::Limit;
use crate::recording::rules::Recorded;
use hta_base::units::fmt_count;
use hta_base::wording::ranks::ranks_named;

pub fn find(recorded: &Recorded) -> Vec<Limit> {
    recorded.ranks.iter().filter(|r| r.live_again_count > 0).map(limit).collect()
}

fn limit(r: &RecordingRow) -> Limit {
    let count = format!("{} of {} allocations", fmt_count(r.live_again_count), fmt_count(r.allocation_count));
    Limit {
        rank: Some(r.rank),
        capability: Capability::Memory,
        grade: Grade::Withheld,
        rule: "live_addresses",
        sentence: format!(
            "{count} of {} are at an address that is in use: what holds memory cannot be told",
            ranks_named(&[r.rank])
        ),
        measured: count,
        limit: "frees before an address is given out again".to_string(),
        next: "record a snapshot of memory, or with another version of PyTorch".to_string(),
    }
}
