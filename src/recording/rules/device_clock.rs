//! More than 5 % of the activities of a device start before their own launch call, and where the stream was empty by
//! nearly the same time: the clock of the device is ahead of that of the host. The least time by which it is ahead is
//! told and applied nowhere. What is said about idle time, launches and hosts is a bound.

use crate::recording::capability::{Capability, Grade};
use crate::recording::facts::RecordingRow;
use crate::recording::limit::Limit;
use crate::recording::rules::Recorded;
use crate::units::{fmt_count, fmt_ns};
use crate::wording::ranks::ranks_named;

pub fn find(recorded: &Recorded) -> Vec<Limit> {
    use Capability::{Host, Idle, Launch};
    let is_ahead = |r: &&RecordingRow| r.clock_ahead_ns > 0;
    recorded.ranks.iter().filter(is_ahead).flat_map(|r| limit(r).of_all(&[Launch, Idle, Host])).collect()
}

fn limit(r: &RecordingRow) -> Limit {
    let ahead = fmt_ns(r.clock_ahead_ns);
    let (early, linked) = (fmt_count(r.clock_early_count), fmt_count(r.clock_linked_count));
    let device = r.clock_device.map_or(String::new(), |d| format!(" {d}"));
    Limit {
        rank: Some(r.rank),
        capability: Capability::Idle,
        grade: Grade::AtMost,
        rule: "device_clock",
        measured: format!("{early} of {linked} before their launch, {ahead}"),
        limit: "5 %".to_string(),
        sentence: format!(
            "the device clock of {} (device{device}) is at least {ahead} ahead: {early} of {linked} activities start \
             before their launch",
            ranks_named(&[r.rank])
        ),
        next: "record again after a warm-up of the profiler, or with another version of it: the clocks of device and \
               host do not agree"
            .to_string(),
    }
}

#[cfg(test)]
mod tests {
    use crate::recording::rules::testing::{found, rank};

    #[test]
    fn a_clock_that_is_ahead_is_told_with_its_size() {
        let ahead = rank(0, |r| {
            (r.clock_device, r.clock_ahead_ns, r.clock_early_count, r.clock_linked_count) = (Some(0), 392_000, 99, 200);
        });
        let limits = found("device_clock", vec![ahead, rank(1, |_| {})]);
        assert_eq!(limits.len(), 3);
        assert_eq!(
            limits[0].sentence,
            "the device clock of rank 0 (device 0) is at least 392 us ahead: 99 of 200 activities start before their launch"
        );
    }
}
