//! More than 5 % of the launches of a rank have no kernel of their own, and other launches own as many too
//! many: the numbers that join launches and kernels are those of other launches, as some versions of ROCm
//! write them. No kernel is missing, and busy time is right; but which launch a kernel waited for is not
//! known, so that nothing is told about launches and causes on the host.

use crate::recording::capability::{Capability, Grade};
use crate::recording::facts::{LOST_PCT, RecordingRow};
use crate::recording::limit::Limit;
use crate::recording::rules::Recorded;
use hta_base::units::{fmt_count, fmt_pct, percent};
use hta_base::wording::ranks::ranks_named;

pub fn find(recorded: &Recorded) -> Vec<Limit> {
    use Capability::{Host, Idle, Launch};
    let is_wrong = |r: &&RecordingRow| r.shared_kernel_count * 100 > r.launch_count * LOST_PCT;
    let wrong = recorded.ranks.iter().filter(is_wrong);
    wrong.flat_map(|r| limit(r).withheld_or_bound(&[Launch, Host], &[Idle])).collect()
}

fn limit(r: &RecordingRow) -> Limit {
    let owned = r.shared_kernel_count + r.shared_launch_count;
    Limit {
        rank: Some(r.rank),
        capability: Capability::Launch,
        grade: Grade::Withheld,
        rule: "shared_correlations",
        measured: fmt_pct(percent(r.shared_kernel_count as i64, r.launch_count as i64)),
        limit: format!("{LOST_PCT} %"),
        sentence: format!(
            "{} of {} launches of {} own {} kernels and {} none: the links between launches and kernels are \
             wrong, no kernel is missing",
            fmt_count(r.shared_launch_count),
            fmt_count(r.launch_count),
            ranks_named(&[r.rank]),
            fmt_count(owned),
            fmt_count(r.shared_kernel_count),
        ),
        next: "record again with another version of the profiler: launches share correlation ids".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use crate::recording::rules::testing::{found, rank};

    #[test]
    fn launches_that_own_the_kernels_of_others_are_wrong_links() {
        let with = |surplus: u64| {
            let row = |r: &mut crate::recording::facts::RecordingRow<'static>| {
                (r.launch_count, r.shared_launch_count, r.shared_kernel_count) = (240, 40, surplus);
            };
            found("shared_correlations", vec![rank(0, row)])
        };
        assert_eq!(with(12), []);
        assert_eq!(
            with(80)[0].sentence,
            "40 of 240 launches of rank 0 own 120 kernels and 80 none: the links between launches and \
             kernels are wrong, no kernel is missing"
        );
    }
}
