//! Describes the causes of slow steps in words.

use crate::steps::tables::SlowStepRow;
use hta_base::units::{Ns, fmt_ns};
use hta_base::wording::counts::plural;
use hta_base::wording::names::clip;
use hta_trace::kernel::short_name;

/// A duration with its sign: `+1.20 ms`, `-300 us`, `0 ns`.
pub(crate) fn signed(ns: Ns) -> String {
    if ns > 0 { format!("+{}", fmt_ns(ns)) } else { fmt_ns(ns) }
}

/// The largest cause of a slow step in words.
pub(crate) fn cause(a: &SlowStepRow) -> String {
    let time = match a.largest {
        "compute" => a.compute_diff_ns,
        "exposed_communication" => a.exposed_communication_diff_ns,
        "copies" => a.copies_diff_ns,
        "fused" => a.fused_diff_ns,
        _ => a.idle_diff_ns,
    };
    let kernel = || {
        let (name, ns) = (a.work_name?, a.work_diff_ns.unwrap_or(0));
        // A small part explains nothing.
        if ns * 4 < time {
            return None;
        }
        let more = match a.work_count_diff.unwrap_or(0) {
            0 => String::new(),
            n if n > 0 => format!(", {}", plural(n as usize, "more call")),
            n => format!(", {}", plural(n.unsigned_abs() as usize, "fewer call")),
        };
        Some(format!(", the largest part in `{}` ({}{more})", clip(&short_name(name), 50), signed(ns)))
    };
    let with_kernel = |text: String| text + &kernel().unwrap_or_default();
    match a.largest {
        "compute" => with_kernel(format!("{} more compute", fmt_ns(time))),
        "exposed_communication" => with_kernel(format!("{} more waiting or transfer", fmt_ns(time))),
        "copies" => with_kernel(format!("{} more copies and sets", fmt_ns(time))),
        "fused" => {
            with_kernel(format!("{} more in fused kernels (product, exchange or waiting)", fmt_ns(time)))
        }
        _ => idle_cause(a, time),
    }
}

fn idle_cause(a: &SlowStepRow, time: Ns) -> String {
    let parts = [a.host_wait_diff_ns, a.kernel_wait_diff_ns, a.other_diff_ns];
    let text = format!("{} more idle", fmt_ns(time));
    if parts[0] >= parts[1].max(parts[2]) {
        let used = match (a.host_activity, a.host_name) {
            (Some("annotation"), Some("[step]")) => "the step, outside any operator".to_string(),
            (Some(activity), Some(name)) => format!("{} `{}`", activity.replace('_', " "), clip(name, 60)),
            (Some("untracked"), None) => "nothing that was recorded".to_string(),
            (Some(activity), None) => activity.replace('_', " "),
            (None, _) => return text,
        };
        let spends = format!(
            ", waiting for the host, which spends {} more in {used}",
            fmt_ns(a.host_diff_ns.unwrap_or(0))
        );
        return text + &spends;
    }
    let why = if parts[2] >= parts[1] {
        ": work was submitted but could not start, or its launch is unknown"
    } else {
        ", between launches and starts"
    };
    text + why
}
