//! More than 5 % of the launches of a rank have no recorded activity. Where kernels are missing, a device
//! that seems idle may work, and what it computes is not known. The rank is in no share, mean or sum of
//! several ranks.

use crate::recording::capability::{Capability, Grade};
use crate::recording::facts::{LOST_PCT, RecordingRow};
use crate::recording::limit::Limit;
use crate::recording::rules::{Recorded, cut_rank};
use hta_base::units::{fmt_count, fmt_pct, percent};
use hta_base::wording::ranks::ranks_named;
use std::cmp::Reverse;

pub fn find(recorded: &Recorded) -> Vec<Limit> {
    use Capability::{DeviceTime, Host, Idle, Launch, Ranks, Steps, Transfer, Work};
    let is_lost =
        |r: &&RecordingRow| r.activity_count > 0 && r.lost_launch_count * 100 > r.launch_count * LOST_PCT;
    let mut lost: Vec<&RecordingRow> = recorded.ranks.iter().filter(is_lost).collect();
    lost.sort_by_key(|r| Reverse(r.lost_launch_count));
    let of =
        |r| limit(r).withheld_or_bound(&[DeviceTime, Idle, Host, Launch, Ranks, Work], &[Steps, Transfer]);
    lost.into_iter().flat_map(of).collect()
}

fn limit(r: &RecordingRow) -> Limit {
    let limit = Limit {
        rank: Some(r.rank),
        capability: Capability::Idle,
        grade: Grade::Withheld,
        rule: "lost_launches",
        measured: fmt_pct(percent(r.lost_launch_count as i64, r.launch_count as i64)),
        limit: format!("{LOST_PCT} %"),
        sentence: format!(
            "{} of {} kernel launches of {} have no recorded kernel",
            fmt_count(r.lost_launch_count),
            fmt_count(r.launch_count),
            ranks_named(&[r.rank])
        ),
        next: "record again, and start the profiler before the work is launched; check that no other tool \
               uses the device's tracing at the same time"
            .to_string(),
    };
    limit.behind_cut(&cut_rank(r))
}

#[cfg(test)]
mod tests {
    use crate::recording::rules::testing::{found, rank};

    #[test]
    fn launches_without_kernels_are_told_beyond_a_share() {
        let with = |lost: u64| {
            found("lost_launches", vec![rank(3, |r| (r.launch_count, r.lost_launch_count) = (200, lost))])
        };
        assert_eq!(with(10), []);
        assert_eq!(with(11)[0].sentence, "11 of 200 kernel launches of rank 3 have no recorded kernel");
        assert_eq!(with(11)[0].measured, "5.5 %");
    }
}
