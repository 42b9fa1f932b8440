//! More than 5 % of the launches of a rank have no recorded activity. Where kernels are missing, a device that seems
//! idle may work.

use crate::recording::capability::{Capability, Grade};
use crate::recording::facts::RecordingRow;
use crate::recording::limit::Limit;
use crate::recording::rules::Recorded;
use crate::units::{fmt_count, fmt_pct, percent};
use crate::wording::ranks::ranks_named;
use std::cmp::Reverse;

/// Share of launches without an activity, percent.
const MOST_PCT: u64 = 5;

pub fn find(recorded: &Recorded) -> Vec<Limit> {
    let is_lost = |r: &&RecordingRow| r.activity_count > 0 && r.lost_launch_count * 100 > r.launch_count * MOST_PCT;
    let mut lost: Vec<&RecordingRow> = recorded.ranks.iter().filter(is_lost).collect();
    lost.sort_by_key(|r| Reverse(r.lost_launch_count));
    use Capability::{DeviceTime, Host, Idle, Launch, Work};
    lost.into_iter().flat_map(|r| limit(r).of_all(&[DeviceTime, Idle, Host, Launch, Work])).collect()
}

fn limit(r: &RecordingRow) -> Limit {
    Limit {
        rank: Some(r.rank),
        capability: Capability::Idle,
        grade: Grade::Withheld,
        rule: "lost_launches",
        measured: fmt_pct(percent(r.lost_launch_count as i64, r.launch_count as i64)),
        limit: format!("{MOST_PCT} %"),
        sentence: format!(
            "{} of {} kernel launches of {} have no recorded kernel",
            fmt_count(r.lost_launch_count),
            fmt_count(r.launch_count),
            ranks_named(&[r.rank])
        ),
        next: "record again, and start the profiler before the work is launched; check that no other tool uses the \
               device's tracing at the same time"
            .to_string(),
    }
}
