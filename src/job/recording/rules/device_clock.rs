//! More than 5 % of the activities of a device start before their own launch call, and where the stream was
//! empty by nearly the same time: the clock of the device is ahead of that of the host. It is behind where
//! work ends after most calls that waited for the device. The least time by which it is so is told and
//! applied nowhere. What is said about idle time, launches and hosts is a bound.

use crate::recording::capability::{Capability, Grade};
use crate::recording::facts::RecordingRow;
use crate::recording::limit::Limit;
use crate::recording::rules::Recorded;
use hta_base::units::{fmt_count, fmt_ns};
use hta_base::wording::ranks::ranks_named;

pub fn find(recorded: &Recorded) -> Vec<Limit> {
    use Capability::{Host, Idle, Launch};
    recorded.ranks.iter().filter_map(limit).flat_map(|l| l.of_all(&[Launch, Idle, Host])).collect()
}

fn limit(r: &RecordingRow) -> Option<Limit> {
    let by = fmt_ns(r.clock_ahead_ns.max(r.clock_behind_ns));
    let device = r.clock_device.map_or(String::new(), |d| format!(" (device {d})"));
    let (measured, what) = if r.clock_ahead_ns > 0 {
        let (early, linked) = (fmt_count(r.clock_early_count), fmt_count(r.clock_linked_count));
        (
            format!("{early} of {linked} before their launch, {by}"),
            format!(
                "{device} is at least {by} ahead: {early} of {linked} activities start before their launch"
            ),
        )
    } else if r.clock_behind_ns > 0 {
        let (late, waits) = (fmt_count(r.clock_late_count), fmt_count(r.clock_wait_count));
        (
            format!("work of {late} of {waits} calls that synchronize, {by}"),
            format!(" is at least {by} behind: work ends after {late} of {waits} calls that waited for it"),
        )
    } else {
        return None;
    };
    Some(Limit {
        rank: Some(r.rank),
        capability: Capability::Idle,
        grade: Grade::AtMost,
        rule: "device_clock",
        measured,
        limit: "5 % of activities, or half of the calls".to_string(),
        sentence: format!("the device clock of {}{what}", ranks_named(&[r.rank])),
        next: "record again after a warm-up of the profiler, or with another version of it: the clocks of \
               device and host do not agree"
            .to_string(),
    })
}

#[cfg(test)]
mod tests {
    use crate::recording::rules::testing::{found, rank};

    #[test]
    fn a_clock_that_is_ahead_is_told_with_its_size() {
        let ahead = rank(0, |r| {
            (r.clock_device, r.clock_ahead_ns, r.clock_early_count, r.clock_linked_count) =
                (Some(0), 392_000, 99, 200);
        });
        let limits = found("device_clock", vec![ahead, rank(1, |_| {})]);
        assert_eq!(limits.len(), 3);
        assert_eq!(
            limits[0].sentence,
            "the device clock of rank 0 (device 0) is at least 392 us ahead: 99 of 200 activities start \
             before their launch"
        );
    }

    #[test]
    fn a_clock_that_is_behind_is_told_too() {
        let behind = |r: &mut crate::recording::facts::RecordingRow<'static>| {
            (r.clock_behind_ns, r.clock_late_count, r.clock_wait_count) = (398_000, 4, 5);
        };
        let said = "the device clock of rank 0 is at least 398 us behind: work ends after 4 of 5 calls that \
                    waited for it";
        assert_eq!(found("device_clock", vec![rank(0, behind)])[0].sentence, said);
    }
}
