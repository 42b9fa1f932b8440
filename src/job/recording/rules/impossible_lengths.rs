//! More than 1 % of the activities of a rank cannot have lasted as long as recorded: three or more later ones
//! of their stream, which wait for them, ran meanwhile. They are cut at the next start; what is said about
//! busy time is a bound.

use crate::recording::capability::{Capability, Grade};
use crate::recording::facts::RecordingRow;
use crate::recording::limit::Limit;
use crate::recording::rules::Recorded;
use hta_base::units::{fmt_count, fmt_ns, fmt_pct, percent};
use hta_base::wording::ranks::ranks_named;

/// Share of activities, percent.
const MOST_PCT: u64 = 1;

pub fn find(recorded: &Recorded) -> Vec<Limit> {
    use Capability::{DeviceTime, Idle, Work};
    let is_wrong = |r: &&RecordingRow| r.overrun_count * 100 > r.activity_count * MOST_PCT;
    recorded.ranks.iter().filter(is_wrong).flat_map(|r| limit(r).of_all(&[DeviceTime, Idle, Work])).collect()
}

fn limit(r: &RecordingRow) -> Limit {
    Limit {
        rank: Some(r.rank),
        capability: Capability::DeviceTime,
        grade: Grade::AtMost,
        rule: "impossible_lengths",
        measured: fmt_pct(percent(r.overrun_count as i64, r.activity_count as i64)),
        limit: format!("{MOST_PCT} %"),
        sentence: format!(
            "{} of {} activities of {} cannot have lasted as long as recorded ({} left out)",
            fmt_count(r.overrun_count),
            fmt_count(r.activity_count),
            ranks_named(&[r.rank]),
            fmt_ns(r.overrun_ns)
        ),
        next: "record again with another version of the profiler and driver".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use crate::recording::rules::testing::{found, rank};

    #[test]
    fn impossible_lengths_make_busy_time_a_bound_beyond_a_share() {
        let with = |count: u64| {
            found(
                "impossible_lengths",
                vec![rank(0, |r| (r.overrun_count, r.overrun_ns) = (count, 5_000_000))],
            )
        };
        assert_eq!(with(10), []);
        let said =
            "11 of 1,000 activities of rank 0 cannot have lasted as long as recorded (5.00 ms left out)";
        assert_eq!(with(11)[0].sentence, said);
    }
}
