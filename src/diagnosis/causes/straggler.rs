//! `straggler`: a rank works longer than the others in the same steps and makes them wait.

use crate::late::{LateFacts, LateWords};
use crate::rule::{CauseFamily, CauseRule, LateRule};
use hta_analysis::stragglers::Pattern;
use hta_facts::host_activity::HostActivity;
use hta_job::TimeUse;
use hta_job::cause::DelayCause;
use hta_job::difference::HostDelay;

pub(super) const RULE: CauseRule = CauseRule {
    name: "straggler",
    must_last: true,
    evidence: "the test of `hta explain stragglers`",
    owns: "S, own excess",
    shown_by: "data/samples/gpu_ddp8",
    family: CauseFamily::Late(LateRule {
        words: |late| Some(LateWords { action: action(late), ..LateWords::default() }),
        of_all: |_| None,
    }),
    ..CauseRule::LATE
};

fn action(late: &LateFacts) -> String {
    let who = late.job.words.plain(late.ranks);
    match late.main {
        Some(DelayCause::SlowDevice) => {
            format!("check clocks, power and temperature of the device of {who}, or swap the node")
        }
        Some(DelayCause::SlowKernel) => format!(
            "compare the inputs of this kernel on {who} with those of the others: shape, data, and the code \
             that launches it"
        ),
        Some(DelayCause::ExpertTime) => format!(
            "log the tokens of each expert: balance them where they differ, else check the device of {who}"
        ),
        Some(cause) if cause.is_of_host() && late.straggler.pattern == Pattern::Rotating => {
            "find what stops one process at a time: CPU quota, other processes on its cores, garbage \
             collection (hta query on host_pauses lists long calls)"
                .to_string()
        }
        Some(DelayCause::Host(TimeUse::Host(HostActivity::Untracked))) => {
            format!("look at the host of {who}; record with with_stack=True to see what it runs then")
        }
        Some(DelayCause::Host(_) | DelayCause::MoreHost(_)) => {
            format!("look at the host of {who}: the code named here runs longer there only")
        }
        Some(DelayCause::HostBehind(HostDelay { by: Some(_), .. })) => {
            format!("look at the host of {who}: what is named here takes longer there only")
        }
        Some(DelayCause::HostBehind(HostDelay { by: None, .. })) => {
            format!("find what held the host of {who} up in the steps before: hta query on host_pauses")
        }
        Some(DelayCause::Copies) => {
            format!("look at the copies of {who}: pinned memory, and the place of the process on its node")
        }
        _ => format!("compare {who} with another rank: hta diff, and hta stragglers for the causes by step"),
    }
}
