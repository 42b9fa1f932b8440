//! The profiler read counters of a device, which leaves ranges with counters in place of activities. When the
//! device worked is not known; times are those of the host, where each kernel was waited for.

use crate::recording::capability::{Capability, Grade};
use crate::recording::facts::COUNTED;
use crate::recording::limit::Limit;
use crate::recording::rules::Recorded;
use hta_base::wording::ranks::ranks_named;

/// Name of the rule.
pub const NAME: &str = "counters_only";

pub fn find(recorded: &Recorded) -> Vec<Limit> {
    use Capability::{DeviceTime, Launch, Ranks, Transfer, Work};
    let of = |rank: u32| {
        let withheld = Limit {
            rank: Some(rank),
            capability: DeviceTime,
            grade: Grade::Withheld,
            rule: NAME,
            measured: "ranges with counters, 0 activities".to_string(),
            limit: "an activity for each launch".to_string(),
            sentence: format!(
                "counters of the device of {} were read, which leaves its activities unrecorded",
                ranks_named(&[rank])
            ),
            next: "record a second trace without the counters for times".to_string(),
        };
        withheld.of_all(&[DeviceTime, Launch, Ranks, Transfer, Work])
    };
    recorded.ranks.iter().filter(|r| r.device_state == COUNTED).flat_map(|r| of(r.rank)).collect()
}

#[cfg(test)]
mod tests {
    use crate::recording::capability::{Capability, Grade};
    use crate::recording::rules::testing::{found, rank};

    #[test]
    fn a_device_of_which_counters_were_read_has_no_times() {
        let limits = found("counters_only", vec![rank(0, |r| r.device_state = "counted"), rank(1, |_| {})]);
        assert!(limits.iter().all(|l| (l.rank, l.grade) == (Some(0), Grade::Withheld)), "{limits:?}");
        assert!(limits.iter().all(|l| l.capability != Capability::Idle && l.capability != Capability::Host));
    }
}
