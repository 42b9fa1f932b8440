//! More than 1 % of the launch calls begin after their first kernel has started, so that the times of host
//! and device contradict each other. What the host causes is withheld: which call an idle device waited for
//! cannot be said. Where they are early by no more than a tenth of the idle time before a launch, and where
//! all are early by nearly the same time (device_clock: the clock of the device is ahead), what is said is a
//! bound.

use crate::recording::capability::{Capability, Grade};
use crate::recording::facts::RecordingRow;
use crate::recording::limit::Limit;
use crate::recording::rules::Recorded;
use hta_base::units::{fmt_count, fmt_ns};
use hta_base::wording::ranks::ranks_named;
use hta_facts::validator::EARLY_PCT;

pub fn find(recorded: &Recorded) -> Vec<Limit> {
    recorded.ranks.iter().filter_map(limit).collect()
}

/// What is no more than this share of the idle time before a launch is small, percent.
const SMALL_PCT: i64 = 10;

fn limit(r: &RecordingRow) -> Option<Limit> {
    let is_told_by_clock = r.clock_ahead_ns > 0;
    if is_told_by_clock || r.early_launch_count * 100 <= r.kernel_launch_count * EARLY_PCT {
        return None;
    }
    let measured =
        format!("{} of {} launches", fmt_count(r.early_launch_count), fmt_count(r.kernel_launch_count));
    let idle = r.idle_ns / (r.kernel_launch_count.max(1) as i64);
    let is_small = r.early_by_ns.saturating_mul(100) <= idle.saturating_mul(SMALL_PCT);
    let by = match is_small {
        true => format!(", by up to {} of {} idle time each", fmt_ns(r.early_by_ns), fmt_ns(idle)),
        false => String::new(),
    };
    let rank = ranks_named(&[r.rank]);
    Some(Limit {
        rank: Some(r.rank),
        capability: Capability::Host,
        grade: if is_small { Grade::AtMost } else { Grade::Withheld },
        rule: "launch_causality",
        sentence: format!("{measured} of {rank} begin after their kernel has started{by}"),
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
                (r.kernel_launch_count, r.early_launch_count, r.early_by_ns) = (200, early, 31_000);
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

    #[test]
    fn a_contradiction_that_is_small_beside_the_idle_time_leaves_a_bound() {
        let with = |idle: i64| {
            let row = |r: &mut crate::recording::facts::RecordingRow| {
                (r.kernel_launch_count, r.early_launch_count, r.early_by_ns) = (200, 200, 31_000);
                r.idle_ns = 200 * idle;
            };
            found("launch_causality", vec![rank(0, row)])
        };
        assert_eq!(with(309_000)[0].grade, Grade::Withheld);
        let small = with(650_000);
        assert_eq!((small.len(), small[0].grade), (1, Grade::AtMost));
        assert_eq!(
            small[0].sentence,
            "200 of 200 launches of rank 0 begin after their kernel has started, by up to 31.0 us of 650 us \
             idle time each"
        );
    }
}
