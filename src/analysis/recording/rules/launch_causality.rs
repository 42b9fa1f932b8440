//! More than 1 % of the launch calls begin after their first kernel has started, so that the times of host
//! and device contradict each other. What the host causes is withheld: which call an idle device waited for
//! cannot be said. Where all are early by nearly the same time, the clock of the device is ahead
//! (device_clock), and what is said is a bound.

use crate::facts::validator::EARLY_PCT;
use crate::recording::capability::{Capability, Grade};
use crate::recording::facts::RecordingRow;
use crate::recording::limit::Limit;
use crate::recording::rules::Recorded;
use hta_base::units::fmt_count;
use hta_base::wording::ranks::ranks_named;

pub fn find(recorded: &Recorded) -> Vec<Limit> {
    recorded.ranks.iter().filter_map(limit).collect()
}

fn limit(r: &RecordingRow) -> Option<Limit> {
    let is_told_by_clock = r.clock_ahead_ns > 0;
    if is_told_by_clock || r.early_launch_count * 100 <= r.kernel_launch_count * EARLY_PCT {
        return None;
    }
    let measured =
        format!("{} of {} launches", fmt_count(r.early_launch_count), fmt_count(r.kernel_launch_count));
    Some(Limit {
        rank: Some(r.rank),
        capability: Capability::Host,
        grade: Grade::Withheld,
        rule: "launch_causality",
        sentence: format!("{measured} of {} begin after their kernel has started", ranks_named(&[r.rank])),
        measured,
        limit: format!("{EARLY_PCT} % of the launches"),
        next: "record again after a warm-up of the profiler, or with another version of it: the clocks of \
               device and host do not agree"
            .to_string(),
    })
}

#[cfg(test)]
mod tests {
    use crate::recording::capability::{Capability, Grade};
    use crate::recording::rules::testing::{found, rank};

    #[test]
    fn host_causes_are_withheld_above_one_percent_of_the_launches() {
        let with = |early: u64| {
            let row = |r: &mut crate::recording::facts::RecordingRow| {
                (r.kernel_launch_count, r.early_launch_count) = (200, early);
            };
            found("launch_causality", vec![rank(0, row)])
        };
        assert_eq!(with(2), []);
        let ahead = rank(0, |r| {
            (r.kernel_launch_count, r.early_launch_count, r.clock_ahead_ns) = (200, 99, 392_000);
        });
        assert_eq!(found("launch_causality", vec![ahead]), []);
        let limits = with(3);
        assert_eq!(limits.len(), 1);
        assert_eq!((limits[0].capability, limits[0].grade), (Capability::Host, Grade::Withheld));
        assert_eq!(limits[0].sentence, "3 of 200 launches of rank 0 begin after their kernel has started");
    }
}
