//! The file of a rank ends in the middle of its events: it was cut when it was copied, or is still being
//! written. Events of any kind may be missing behind the cut, so that what is told about the rank is a bound.
//! Nothing is told about a rank where no work stands before the cut: no operator at all, or neither a launch
//! nor a GPU activity although something points to a device (its properties, a recorder or a back end that
//! needs one, a call of its runtime, a row of it, memory on it, or another rank with a device). Other rules
//! that find something missing in such a file say that it is cut.

use crate::recording::capability::{Capability, Grade};
use crate::recording::facts::RecordingRow;
use crate::recording::limit::Limit;
use crate::recording::rules::{Recorded, cut_rank};

pub fn find(recorded: &Recorded) -> Vec<Limit> {
    let has_devices = recorded.ranks.iter().any(|r| r.names_device || !r.is_without_work());
    let cut = recorded.ranks.iter().filter(|r| r.is_cut());
    cut.flat_map(|r| of_rank(r, has_devices)).collect()
}

/// `has_devices`: a rank of the job has a device.
fn of_rank(r: &RecordingRow, has_devices: bool) -> Vec<Limit> {
    use Capability::{DeviceTime, Host, Idle, Launch, Memory, Ranks, Steps, Transfer, Work};
    let missing = match (r.is_without_work(), has_devices, r.operator_count) {
        (true, true, _) => Some("neither a launch nor a GPU activity stands before the cut"),
        (true, false, 0) => Some("no operator stands before the cut"),
        _ => None,
    };
    match missing {
        Some(found) => limit(r, found)
            .withheld_or_bound(&[DeviceTime, Idle, Host, Launch, Ranks, Transfer, Work], &[Steps, Memory]),
        None => {
            let all: Vec<Capability> = Capability::of_times().collect();
            limit(r, "events may be missing behind the cut").withheld_or_bound(&[], &all)
        }
    }
}

fn limit(r: &RecordingRow, found: &str) -> Limit {
    let limit = Limit {
        rank: Some(r.rank),
        capability: Capability::DeviceTime,
        grade: Grade::AtMost,
        rule: "file_cut",
        measured: "an end in the middle of the events".to_string(),
        limit: "a whole file".to_string(),
        sentence: found.to_string(),
        next: String::new(),
    };
    limit.behind_cut(&cut_rank(r))
}

#[cfg(test)]
mod tests {
    use crate::recording::capability::Grade;
    use crate::recording::facts::RecordingRow;
    use crate::recording::rules::testing::{found, rank};

    fn cut(r: &mut RecordingRow<'static>) {
        r.file_end = "in_events";
    }

    #[test]
    fn what_is_told_of_a_cut_file_is_a_bound() {
        let limits = found("file_cut", vec![rank(0, |_| {}), rank(1, cut)]);
        assert!(limits.len() == 9 && limits.iter().all(|l| l.rank == Some(1)), "{limits:?}");
        assert!(limits.iter().all(|l| l.grade == Grade::AtMost));
        assert_eq!(limits[0].sentence, "the file of rank 1 is cut: events may be missing behind the cut");
        assert_eq!(found("file_cut", vec![rank(0, |r| r.file_end = "behind_events")]), []);
    }

    #[test]
    fn a_file_that_is_cut_before_its_launches_tells_nothing() {
        for state in ["host_job", "nothing"] {
            let bare = rank(2, |r| {
                cut(r);
                (r.activity_count, r.launch_count, r.device_state, r.vendor) = (0, 0, state, "none");
            });
            let limits = found("file_cut", vec![bare]);
            assert_eq!(limits.iter().filter(|l| l.grade == Grade::Withheld).count(), 7);
            let said = "the file of rank 2 is cut: neither a launch nor a GPU activity stands before the cut";
            assert_eq!(limits[0].sentence, said);
            assert!(limits[0].next.starts_with("get the whole file"), "{}", limits[0].next);
        }
    }

    #[test]
    fn a_cut_file_of_a_rank_without_a_device_is_a_bound() {
        let bare = |r: &mut RecordingRow<'static>| {
            (r.activity_count, r.launch_count, r.device_state, r.vendor) = (0, 0, "host_job", "none");
            r.names_device = false;
        };
        let bare_cut = |r: &mut RecordingRow<'static>| {
            bare(r);
            cut(r);
        };
        let withheld = |ranks| {
            let limits = found("file_cut", ranks);
            assert!(limits.len() == 9 && limits.iter().all(|l| l.rank == Some(1)), "{limits:?}");
            let lost: Vec<_> = limits.iter().filter(|l| l.grade == Grade::Withheld).collect();
            lost.first().map(|l| l.sentence.clone())
        };
        assert_eq!(withheld(vec![rank(0, bare), rank(1, bare_cut)]), None);
        // Anything that points to a device, of this rank or of another.
        let said = "the file of rank 1 is cut: neither a launch nor a GPU activity stands before the cut";
        let named = rank(1, |r| {
            bare_cut(r);
            r.names_device = true;
        });
        assert_eq!(withheld(vec![rank(0, bare), named]).as_deref(), Some(said));
        assert_eq!(withheld(vec![rank(0, |_| {}), rank(1, bare_cut)]).as_deref(), Some(said));
        let empty = rank(1, |r| {
            bare_cut(r);
            (r.operator_count, r.device_state) = (0, "nothing");
        });
        let said = "the file of rank 1 is cut: no operator stands before the cut";
        assert_eq!(withheld(vec![rank(0, bare), empty]).as_deref(), Some(said));
    }

    #[test]
    fn what_is_missing_from_a_cut_file_is_said_to_be_behind_the_cut() {
        let lost = |r: &mut RecordingRow<'static>| {
            cut(r);
            (r.activity_count, r.launch_count, r.device_state) = (0, 300, "not_recorded");
        };
        let some = |r: &mut RecordingRow<'static>| {
            cut(r);
            (r.lost_launch_count, r.unlinked_ns) = (300, 400);
        };
        let graphs = |r: &mut RecordingRow<'static>| {
            cut(r);
            (r.captured_count, r.launch_count) = (7, 3);
        };
        let cases = [
            ("device_not_recorded", rank(1, lost), "300 of 300 launches of rank 1 have no recorded kernel"),
            (
                "lost_launches",
                rank(1, some),
                "300 of 1,000 kernel launches of rank 1 have no recorded kernel",
            ),
            ("unlinked_work", rank(1, some), "40.0 % of the GPU time of rank 1 has no launch record"),
            (
                "capture_trace",
                rank(1, graphs),
                "a capture trace: 7 launches recorded into graphs (0), not run",
            ),
        ];
        for (rule, row, sentence) in cases {
            let limits = found(rule, vec![row]);
            assert_eq!(limits[0].sentence, format!("the file of rank 1 is cut: {sentence}"));
            assert!(limits.iter().all(|l| l.next.starts_with("get the whole file")), "{limits:?}");
        }
        let poor = |r: &mut RecordingRow<'static>| {
            cut(r);
            (r.streams, r.compute_ns) = ("20", 100);
        };
        let said =
            found("lost_stream", vec![rank(0, |_| {}), rank(1, |_| {}), rank(2, poor)])[0].sentence.clone();
        assert!(
            said.starts_with("the file of rank 2 is cut: ") && said.ends_with("all others compute"),
            "{said}"
        );
        let short = |r: &mut RecordingRow<'static>| {
            cut(r);
            (r.activity_count, r.gpu_sum_ns) = (13, 157_000);
        };
        let said = |ranks| found("too_short", ranks)[0].sentence.clone();
        let gpu = "13 GPU activities, 157 us of GPU time";
        let cut_short = format!("the files of ranks 0, 1 are cut: {gpu} before the cut");
        assert_eq!(said(vec![rank(0, short), rank(1, short)]), cut_short);
        // A whole file with as much is too short, whatever others lack.
        let whole = |r: &mut RecordingRow<'static>| (r.activity_count, r.gpu_sum_ns) = (13, 157_000);
        assert_eq!(said(vec![rank(0, short), rank(1, whole)]), format!("too short: {gpu}"));
        // Ranks of one file may stand behind its cut.
        let world = |source: &'static str| {
            let of = move |r: &mut RecordingRow<'static>| {
                cut(r);
                (r.world_size, r.rank_source) = (Some(4), source);
            };
            found("missing_ranks", vec![rank(0, of), rank(1, of)])[0].sentence.clone()
        };
        let missing = "2 of 4 ranks not recorded (ranks 2, 3)";
        assert_eq!(world("name"), missing);
        assert_eq!(world("process"), format!("the files of ranks 0, 1 are cut: {missing}"));
    }
}
