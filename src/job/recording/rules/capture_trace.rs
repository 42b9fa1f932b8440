//! Most launches were recorded into graphs, and no graph was replayed: the trace shows how graphs were made,
//! not how they run. Nothing is told about devices, launches and hosts.

use crate::recording::capability::Capability;
use crate::recording::capability::Grade;
use crate::recording::facts::RecordingRow;
use crate::recording::limit::Limit;
use crate::recording::rules::Recorded;
use hta_base::units::fmt_count;

pub fn find(recorded: &Recorded) -> Vec<Limit> {
    let is_capture = |r: &RecordingRow| r.captured_count > r.launch_count && r.graph_ns == 0;
    if recorded.ranks.is_empty() || !recorded.ranks.iter().all(is_capture) {
        return Vec::new();
    }
    let count = |of: fn(&RecordingRow) -> u64| fmt_count(recorded.ranks.iter().map(of).sum());
    let (launches, graphs) = (count(|r| r.captured_count), count(|r| r.captured_graph_count));
    let limit = Limit {
        rank: None,
        capability: Capability::Idle,
        grade: Grade::Withheld,
        rule: "capture_trace",
        measured: format!("{launches} launches recorded into graphs"),
        limit: "as many as are launched".to_string(),
        sentence: format!("a capture trace: {launches} launches recorded into graphs ({graphs}), not run"),
        next: "give it with --graph-capture to the run that replays the graphs".to_string(),
    };
    use Capability::{DeviceTime, Host, Idle, Launch, Work};
    limit.behind_cut(&recorded.cut(|_| true)).of_all(&[DeviceTime, Idle, Host, Launch, Work])
}
