//! More than 1 % of the activities of a rank ran on their stream after one that was launched later. A stream
//! runs its work in the order of the launches, so that the launches, or the streams, of these activities are
//! wrong: some recorders write a burst of deferred work at one time. Delays and idle time are then not put
//! down to the host.

use crate::recording::capability::{Capability, Grade};
use crate::recording::facts::RecordingRow;
use crate::recording::limit::Limit;
use crate::recording::rules::Recorded;
use hta_base::units::{fmt_count, fmt_ns, fmt_pct, percent};
use hta_base::wording::ranks::ranks_named;

/// Share of activities, percent.
const MOST_PCT: u64 = 1;

/// Fewest activities: two calls may overlap where a thread was interrupted.
const LEAST: u64 = 3;

pub fn find(recorded: &Recorded) -> Vec<Limit> {
    use Capability::{Host, Idle, Launch};
    let is_wrong = |r: &&RecordingRow| {
        r.overtaken_count >= LEAST && r.overtaken_count * 100 > r.ordered_count * MOST_PCT
    };
    recorded.ranks.iter().filter(is_wrong).flat_map(|r| limit(r).of_all(&[Launch, Idle, Host])).collect()
}

fn limit(r: &RecordingRow) -> Limit {
    let share = fmt_pct(percent(r.overtaken_count as i64, r.ordered_count as i64));
    Limit {
        rank: Some(r.rank),
        capability: Capability::Idle,
        grade: Grade::Withheld,
        rule: "launch_order",
        measured: share,
        limit: format!("{MOST_PCT} %"),
        sentence: format!(
            "{} of {} activities of {} ran after ones launched later on their stream, by up to {}",
            fmt_count(r.overtaken_count),
            fmt_count(r.ordered_count),
            ranks_named(&[r.rank]),
            fmt_ns(r.overtaken_by_ns)
        ),
        next: "record again with another version of the profiler and driver: launches and activities do not \
               belong together"
            .to_string(),
    }
}

#[cfg(test)]
mod tests {
    use crate::recording::rules::testing::{found, rank};

    #[test]
    fn activities_in_another_order_than_launched_withhold_delays_beyond_a_share() {
        let with = |count: u64| {
            found("launch_order", vec![rank(3, |r| (r.overtaken_count, r.overtaken_by_ns) = (count, 9_000))])
        };
        assert_eq!(with(10), []);
        let limits = with(11);
        assert_eq!(limits.len(), 3);
        let said = "11 of 1,000 activities of rank 3 ran after ones launched later on their stream, by up to \
                    9.00 us";
        assert_eq!(limits[0].sentence, said);
    }
}
