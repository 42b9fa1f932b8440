//! Kernels of four names or more, ten of each, last equally long to the nanosecond, or to the microsecond of
//! old recorders at 100 us and more. No device does that: the durations were not measured. Nothing is told
//! about the time of devices.

use crate::recording::capability::{Capability, Grade};
use crate::recording::facts::RecordingRow;
use crate::recording::limit::Limit;
use crate::recording::rules::Recorded;
use hta_base::units::{fmt_count, fmt_ns};
use hta_base::wording::ranks::ranks_named;

/// Fewest kernels.
const LEAST: u64 = 100;

pub fn find(recorded: &Recorded) -> Vec<Limit> {
    use Capability::{DeviceTime, Host, Idle, Launch, Transfer, Work};
    let wrong = recorded.ranks.iter().filter(|r| r.same_count >= LEAST);
    wrong.flat_map(|r| limit(r).of_all(&[DeviceTime, Idle, Host, Launch, Transfer, Work])).collect()
}

fn limit(r: &RecordingRow) -> Limit {
    let measured = format!(
        "{} kernels of {} names last {} each",
        fmt_count(r.same_count),
        fmt_count(r.same_name_count),
        fmt_ns(r.same_ns)
    );
    Limit {
        rank: Some(r.rank),
        capability: Capability::DeviceTime,
        grade: Grade::Withheld,
        rule: "same_durations",
        sentence: format!("{measured} on {}: no device does that", ranks_named(&[r.rank])),
        measured,
        limit: "durations that differ".to_string(),
        next: "record again with another version of the profiler and driver: durations were not measured"
            .to_string(),
    }
}

#[cfg(test)]
mod tests {
    use crate::recording::rules::testing::{found, rank};

    #[test]
    fn equal_durations_of_hundreds_of_kernels_are_not_believed() {
        let with = |count: u64| {
            let row = |r: &mut crate::recording::facts::RecordingRow<'static>| {
                (r.same_count, r.same_name_count, r.same_ns) = (count, 6, 832_000);
            };
            found("same_durations", vec![rank(0, row)])
        };
        assert_eq!(with(99), []);
        let said = "300 kernels of 6 names last 832 us each on rank 0: no device does that";
        assert_eq!(with(300)[0].sentence, said);
    }
}
