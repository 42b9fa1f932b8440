//! The rules of torch's validator on traces of a few rows, and what follows from violations.

use crate::run::{Answer, answer, one, options};
use hta_testkit::{SyncKind, TraceBuilder, us};

fn run(t: &TraceBuilder) -> Answer {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("rank_0.json");
    std::fs::write(&path, t.to_json()).expect("it can be written");
    answer(&[path], &options())
}

/// State, checked and violated cases of a rule, and whether something follows.
fn rule(answer: &Answer, name: &str) -> (String, i64, i64, Option<String>) {
    let rows = answer.rows_where("validator_rules", |r| r.text("rule") == name);
    assert_eq!(rows.len(), 1, "{name}: {rows:?}");
    let effect = Some(rows[0].text("effect").to_string()).filter(|e| !e.is_empty());
    (rows[0].text("state").to_string(), rows[0].int("checked"), rows[0].int("violated"), effect)
}

fn cases(answer: &Answer, name: &str) -> (String, i64, i64) {
    let (state, checked, violated, _) = rule(answer, name);
    (state, checked, violated)
}

#[test]
fn what_a_file_does_not_have_is_not_checkable() {
    let mut t = TraceBuilder::new();
    t.thread(1).op("aten::mm", us(0)..us(10));
    let found = run(&t);
    assert_eq!(found.rows("validator_rules").len(), 6);
    for row in found.rows("validator_rules") {
        assert_eq!((row.text("state"), row.int("checked"), row.int("violated")), ("not_checkable", 0, 0));
    }
}

/// So many launches of 20 us each; `early`: those whose kernel starts 6 us before them.
fn launches(count: i64, early: i64) -> Answer {
    let mut t = TraceBuilder::new();
    for k in 0..count {
        let at = us(20 * k);
        let start = if k < early { at - us(6) } else { at + us(8) };
        t.thread(1).op("aten::mm", at - us(1)..at + us(7));
        t.thread(1).launch(at..at + us(5)).kernel("gemm", 7, start..start + us(4));
    }
    run(&t)
}

#[test]
fn host_causes_are_withheld_where_launches_begin_after_their_kernels() {
    let withheld = |a: &Answer| a.rows_where("trust", |r| r.text("rule") == "launch_causality").len();
    let found = launches(200, 2);
    assert_eq!(rule(&found, "gpu_kernel_causality"), ("violated".to_string(), 200, 2, None));
    assert_eq!(withheld(&found), 0);
    let found = launches(200, 3);
    let (state, checked, violated, effect) = rule(&found, "gpu_kernel_causality");
    assert_eq!((state.as_str(), checked, violated), ("violated", 200, 3));
    assert!(effect.is_some_and(|e| e.starts_with("withheld")));
    let rows = found.rows_where("trust", |r| r.text("rule") == "launch_causality");
    assert_eq!((rows.len(), rows[0].text("capability"), rows[0].text("grade")), (1, "host", "withheld"));
    assert_eq!(cases(&launches(5, 0), "gpu_kernel_causality"), ("passed".to_string(), 5, 0));
}

/// How a wait names the call that recorded its event.
#[derive(Clone, Copy)]
enum Named {
    Right,
    /// The call is recorded after the wait.
    Later,
    Missing,
    Not,
}

/// Stream 20 waits for a kernel of stream 7, then runs one of its own; 40 us each.
///
/// ```text
///   host      |launch| |record| |wait| |launch|
///   stream 7       [== a ==========)
///   stream 20              <wait>   [= b =)
/// ```
fn waits(named: &[Named]) -> Answer {
    let mut t = TraceBuilder::new();
    for (k, named) in (0..).zip(named) {
        let at = us(40 * k);
        let mut main = t.thread(1);
        main.op("aten::mm", at..at + us(12));
        main.launch(at + us(1)..at + us(2)).kernel("a", 7, at + us(3)..at + us(20));
        let record_at = if matches!(named, Named::Later) { at + us(11) } else { at + us(3) };
        let record = main.runtime("cudaEventRecord", record_at..record_at + 500).correlation();
        let id = match named {
            Named::Right | Named::Later => record,
            Named::Missing => Some(9_999_999),
            Named::Not => None,
        };
        main.runtime("cudaStreamWaitEvent", at + us(5)..at + us(6))
            .sync_row(SyncKind::StreamWaitEvent, 20, at + us(5)..at + us(6))
            .waits_on(7, 1, id);
        main.launch(at + us(7)..at + us(8)).kernel("b", 20, at + us(21)..at + us(30));
    }
    run(&t)
}

fn path_edges(answer: &Answer) -> Vec<(String, bool)> {
    let rows = answer.rows_where("critical_path", |r| r.text("edge") == "stream_wait");
    rows.iter().map(|r| (r.text("edge").to_string(), r.flag("inferred") == Some(true))).collect()
}

#[test]
fn edges_of_events_follow_from_waits_that_name_an_earlier_record_call() {
    let found = waits(&[Named::Right; 3]);
    assert_eq!(cases(&found, "stream_wait_corr_id_populated"), ("passed".to_string(), 3, 0));
    assert_eq!(cases(&found, "stream_wait_corr_id_in_past"), ("passed".to_string(), 3, 0));
    let edges = path_edges(&found);
    assert!(!edges.is_empty() && edges.iter().all(|(_, inferred)| !inferred), "{edges:?}");
}

#[test]
fn a_wait_for_a_call_that_is_missing_or_later_is_no_edge() {
    for named in [Named::Later, Named::Missing] {
        let found = waits(&[named]);
        let (state, checked, violated, effect) = rule(&found, "stream_wait_corr_id_in_past");
        assert_eq!((state.as_str(), checked, violated), ("violated", 1, 1));
        assert!(effect.is_some_and(|e| e.starts_with("dropped: 1 event edge of")));
        assert_eq!(path_edges(&found), []);
        assert_eq!(cases(&found, "stream_wait_corr_id_populated").2, 0);
    }
}

#[test]
fn edges_of_events_are_guesses_where_many_waits_name_nothing() {
    let mut named = vec![Named::Right; 20];
    named[19] = Named::Not;
    // 1 of 20 is 5 %, which is allowed.
    let found = waits(&named);
    assert_eq!(rule(&found, "stream_wait_corr_id_populated"), ("violated".to_string(), 20, 1, None));
    assert!(path_edges(&found).iter().all(|(_, inferred)| !inferred));
    named[18] = Named::Not;
    let found = waits(&named);
    let (_, checked, violated, effect) = rule(&found, "stream_wait_corr_id_populated");
    assert_eq!((checked, violated), (20, 2));
    assert!(effect.is_some_and(|e| e.starts_with("downgraded")));
    let edges = path_edges(&found);
    assert!(edges.iter().all(|(_, inferred)| *inferred), "{edges:?}");
    // Those that name nothing are not in the past.
    assert_eq!(cases(&found, "stream_wait_corr_id_in_past"), ("passed".to_string(), 18, 0));
}

#[test]
fn a_kernel_at_the_start_of_a_wait_for_its_stream_is_counted_and_changes_nothing() {
    let with = |stream: i64, end: i64| {
        let mut t = TraceBuilder::new();
        t.thread(1).launch(us(0)..us(1)).kernel("a", 7, us(2)..us(end));
        t.thread(1).runtime("cudaStreamSynchronize", us(10)..us(40)).sync_row(
            SyncKind::StreamSync,
            stream,
            us(10)..us(39),
        );
        rule(&run(&t), "stream_sync_overlap")
    };
    assert_eq!(with(7, 30), ("violated".to_string(), 1, 1, None));
    assert_eq!(with(7, 10), ("passed".to_string(), 1, 0, None));
    assert_eq!(with(8, 30), ("passed".to_string(), 1, 0, None));
}

#[test]
fn collectives_without_sizes_are_counted() {
    let mut t = TraceBuilder::new();
    let full = hta_testkit::Collective::all_reduce(64, "Float").group("0", "default_pg", 0..2);
    t.thread(1).param_comms(&full, us(0)..us(5));
    t.thread(1).param_comms(&full, us(10)..us(15)).without("dtype");
    t.thread(1).op("record_param_comms", us(20)..us(25));
    let (state, checked, violated, effect) = rule(&run(&t), "nccl_metadata");
    assert_eq!((state.as_str(), checked, violated), ("violated", 3, 2));
    assert!(effect.is_some_and(|e| e.starts_with("sizes from names")));
}

#[test]
fn a_sequence_number_of_two_backward_functions_links_nothing() {
    let with = |second: &str, number: u64| {
        let mut t = TraceBuilder::new();
        t.thread(1).op("aten::mm", us(0)..us(5)).sequence(5, 0);
        t.thread(1).op("aten::add", us(10)..us(15)).sequence(6, 0);
        let function = |name: &str| format!("autograd::engine::evaluate_function: {name}");
        t.thread(2).op(&function("MmBackward0"), us(50)..us(60)).sequence(5, 1);
        t.thread(2).op(&function(second), us(70)..us(80)).sequence(number, 1);
        run(&t)
    };
    let joined = |a: &Answer| one(a.rows("call_stacks")).int("bwd_joined_count");
    let found = with("AddBackward0", 6);
    assert_eq!(rule(&found, "backward_seq_id_uniqueness"), ("passed".to_string(), 2, 0, None));
    assert_eq!(joined(&found), 2);
    let found = with("AddBackward0", 5);
    let (state, checked, violated, effect) = rule(&found, "backward_seq_id_uniqueness");
    assert_eq!((state.as_str(), checked, violated), ("violated", 1, 1));
    assert!(effect.is_some_and(|e| e.ends_with("with 1 sequence number")));
    assert_eq!(joined(&found), 0);
}
