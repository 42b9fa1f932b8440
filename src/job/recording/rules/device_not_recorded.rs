//! Work was launched on the device of a rank, but none of it is recorded. Nothing is told about this device,
//! and the rank is in no share, mean or sum. Lengths of steps are those of its host, which may run ahead of
//! the device. If not even a launch is recorded, but something points to a device (its properties, a back end
//! that needs one, memory on it), a job of the host cannot be told from one whose device was not recorded:
//! what is told is a bound.

use crate::recording::capability::{Capability, Grade};
use crate::recording::facts::{HOST_JOB, NOT_RECORDED, RecordingRow};
use crate::recording::limit::Limit;
use crate::recording::rules::{Recorded, cut_rank};
use hta_base::units::fmt_count;
use hta_base::wording::ranks::ranks_named;
use hta_facts::vendor::DeviceVendor;

/// Name of the rule.
pub const NAME: &str = "device_not_recorded";

pub fn find(recorded: &Recorded) -> Vec<Limit> {
    use Capability::{DeviceTime, Host, Idle, Launch, Ranks, Steps, Transfer, Work};
    let lost = recorded.ranks.iter().filter(|r| r.device_state == NOT_RECORDED);
    let withheld = [DeviceTime, Idle, Host, Launch, Ranks, Transfer, Work];
    let of_lost = lost.flat_map(|r| limit(r).withheld_or_bound(&withheld, &[Steps]));
    // Beside ranks with devices a rank without launches is one of the host, such as a server of parameters.
    let is_host = |r: &&RecordingRow| r.device_state == HOST_JOB && r.names_device && !r.is_cut();
    let are_hosts = recorded.ranks.iter().all(|r| r.is_without_work());
    let of_host = recorded.ranks.iter().filter(is_host).filter(|_| are_hosts);
    of_lost.chain(of_host.flat_map(|r| only_host(r).of_all(&[DeviceTime, Idle, Host, Work]))).collect()
}

fn only_host(r: &RecordingRow) -> Limit {
    Limit {
        rank: Some(r.rank),
        capability: Capability::DeviceTime,
        grade: Grade::AtMost,
        rule: NAME,
        measured: "0 launches, 0 activities".to_string(),
        limit: "launches and activities of the device".to_string(),
        sentence: format!(
            "the GPU that the file of {} names was not recorded, only the CPU (ProfilerActivity.CUDA)",
            ranks_named(&[r.rank])
        ),
        next: "if the job uses the GPU, record again with ProfilerActivity.CUDA".to_string(),
    }
}

fn limit(r: &RecordingRow) -> Limit {
    let count = fmt_count(r.launch_count);
    let activity = match DeviceVendor::named(r.vendor) {
        DeviceVendor::Nvidia => {
            "ProfilerActivity.CUDA, and check that no other tool uses CUPTI at the same time"
        }
        DeviceVendor::Amd => {
            "ProfilerActivity.CUDA, and check that no other tool uses roctracer or rocprofiler"
        }
        _ => "the activity of the device (such as ProfilerActivity.XPU)",
    };
    // In a file that is cut the device rows may stand behind the cut.
    let cause = if r.is_cut() { "" } else { ": its device was not recorded" };
    let limit = Limit {
        rank: Some(r.rank),
        capability: Capability::DeviceTime,
        grade: Grade::Withheld,
        rule: NAME,
        measured: format!("{count} launches, 0 activities"),
        limit: "an activity for each launch".to_string(),
        sentence: format!(
            "{count} of {count} launches of {} have no recorded kernel{cause}",
            ranks_named(&[r.rank])
        ),
        next: format!("record again with {activity}"),
    };
    limit.behind_cut(&cut_rank(r))
}

#[cfg(test)]
mod tests {
    use crate::recording::capability::Grade;
    use crate::recording::rules::testing::{found, rank};

    #[test]
    fn a_device_without_a_row_is_withheld_and_a_host_is_not() {
        let lost = |r: &mut crate::recording::facts::RecordingRow<'static>| {
            (r.activity_count, r.launch_count, r.device_state) = (0, 300, "not_recorded");
        };
        let limits = found("device_not_recorded", vec![rank(0, |_| {}), rank(1, lost)]);
        assert!(limits.iter().all(|l| l.rank == Some(1)) && limits.len() == 8, "{limits:?}");
        let said = "300 of 300 launches of rank 1 have no recorded kernel: its device was not recorded";
        assert_eq!(limits[0].sentence, said);
        let host = |names_device| {
            let host = |r: &mut crate::recording::facts::RecordingRow<'static>| {
                (r.device_state, r.names_device) = ("host_job", names_device);
                (r.activity_count, r.launch_count) = (0, 0);
            };
            found("device_not_recorded", vec![rank(0, host)])
        };
        assert_eq!(host(false), []);
        let limits = host(true);
        assert!(limits.iter().all(|l| l.grade == Grade::AtMost) && limits.len() == 4, "{limits:?}");
        assert_eq!(
            limits[0].sentence,
            "the GPU that the file of rank 0 names was not recorded, only the CPU (ProfilerActivity.CUDA)"
        );
    }
}
