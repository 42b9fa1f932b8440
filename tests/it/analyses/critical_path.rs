//! The critical path: planted chains that can be read off a timeline, known answers for real traces, and invariants.

use crate::plan::{ORIGIN, Plan, plans};
use crate::run::{Answer, Record, answer, options, rank_trace};
use hta::analysis::critical_path::{Edge, PathSegment, path};
use hta::trace::rank_trace::RankTrace;
use hta::units::Span;
use hta_testkit::{Call, Collective, Format, SyncKind, TraceBuilder, us};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn traced(t: &TraceBuilder) -> RankTrace {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("rank_0.json");
    std::fs::write(&file, t.to_bytes(&Format::default())).expect("a temporary file can be written");
    rank_trace(&file, 0)
}

fn builder() -> TraceBuilder {
    TraceBuilder::new().rank(0).world(1).origin(ORIGIN)
}

/// The path of [from, to) us: start and end in us, class and edge.
pub fn chain(t: &TraceBuilder, from: i64, to: i64) -> Vec<(i64, i64, &'static str, &'static str)> {
    let at = |ns: i64| (ns - ORIGIN) / us(1);
    let window = Span::new(ORIGIN + us(from), ORIGIN + us(to));
    let shown = |s: &PathSegment| (at(s.span.start), at(s.span.end), s.class.name(), s.edge.name());
    path(&traced(t), window).iter().map(shown).collect()
}

/// ```text
/// main       |aten::mm..............|     0..50
///               |launch|                  10..15
/// stream 7                 [sgemm.......) 30..60
/// ```
#[test]
fn a_kernel_follows_the_start_of_its_launch() {
    let mut t = builder();
    let mut main = t.thread(1);
    main.op("aten::mm", us(0)..us(50));
    main.launch(us(10)..us(15)).kernel("sgemm", 7, us(30)..us(60));
    let wanted = [
        (0, 10, "host_operator", "host"),
        (10, 30, "launch_latency", "launch"),
        (30, 60, "gpu_compute", "gpu"),
    ];
    assert_eq!(chain(&t, 0, 60), wanted);
    // Cut on both sides, and a tail after the last end.
    assert_eq!(chain(&t, 20, 40), [(20, 30, "launch_latency", "launch"), (30, 40, "gpu_compute", "gpu")]);
    assert_eq!(chain(&t, 50, 70), [(50, 60, "gpu_compute", "gpu"), (60, 70, "tail", "anchor")]);
    assert_eq!(chain(&t, 80, 90), [(80, 90, "unexplained", "anchor")]);
}

/// ```text
/// main       |l1||l2|                          5..7 8..10
/// stream 7             [k1........)  [k2....)  20..40 45..60
/// ```
#[test]
fn a_kernel_that_was_submitted_long_ago_follows_the_one_before_it() {
    let mut t = builder();
    let mut main = t.thread(1);
    main.launch(us(5)..us(7)).kernel("k1", 7, us(20)..us(40));
    main.launch(us(8)..us(10)).kernel("k2", 7, us(45)..us(60));
    let wanted = [
        (0, 5, "host_untracked", "anchor"),
        (5, 20, "launch_latency", "launch"),
        (20, 40, "gpu_compute", "gpu"),
        (40, 45, "kernel_gap", "stream"),
        (45, 60, "gpu_compute", "gpu"),
    ];
    assert_eq!(chain(&t, 0, 60), wanted);
}

/// ```text
/// main       |l1||record||wait||l2|
/// stream 7        [k1..............)              20..50
/// stream 20                          [k2....)     55..80, launched 40
/// ```
fn two_streams(wait: bool) -> TraceBuilder {
    let mut t = builder();
    let mut main = t.thread(1);
    main.launch(us(10)..us(12)).kernel("k1", 7, us(20)..us(50));
    let record = main.call(Call::EventRecord, us(22)..us(24)).correlation();
    if wait {
        let span = us(26)..us(28);
        main.call(Call::StreamWait, span.clone())
            .sync_row(SyncKind::StreamWaitEvent, 20, span)
            .waits_on(7, 3, record);
    }
    main.launch(us(40)..us(42)).kernel("k2", 20, us(55)..us(80));
    t
}

#[test]
fn a_stream_that_waits_for_an_event_follows_the_activity_behind_it() {
    let path = chain(&two_streams(true), 20, 80);
    let wanted = [(20, 50, "gpu_compute", "gpu"), (50, 55, "cross_stream_delay", "stream_wait")];
    assert_eq!(path[..2], wanted);
    // 15 us after its launch the start is explained without the event.
    let path = chain(&two_streams(false), 40, 80);
    assert_eq!(path, [(40, 55, "launch_latency", "launch"), (55, 80, "gpu_compute", "gpu")]);
}

/// ```text
/// main       |l1||l2|
/// stream 7        [k1..................)             20..80
/// stream 20                              [k2....)    85..90, launched 12: 73 us before
/// ```
#[test]
fn a_start_that_nothing_explains_follows_an_end_just_before_on_another_stream() {
    let with = |end: i64| {
        let mut t = builder();
        let mut main = t.thread(1);
        main.launch(us(10)..us(11)).kernel("k1", 7, us(20)..us(end));
        main.launch(us(12)..us(13)).kernel("k2", 20, us(85)..us(90));
        t
    };
    assert_eq!(chain(&with(80), 60, 90)[1], (80, 85, "cross_stream_delay", "inferred"));
    assert_eq!(chain(&with(65), 60, 90)[1], (65, 85, "cross_stream_delay", "inferred"));
    // 21 us are too far.
    assert_eq!(chain(&with(64), 60, 90)[0], (60, 85, "launch_latency", "launch"));
}

/// ```text
/// main       |launch|  |synchronize...............|     |add|   5..7 25..65 70..80
/// stream 7         [sgemm.....................)                 20..60
/// ```
#[test]
fn a_blocking_call_returns_after_the_activity_it_waits_for() {
    let wanted = [
        (5, 20, "launch_latency", "launch"),
        (20, 60, "gpu_compute", "gpu"),
        (60, 65, "sync_return", "sync"),
        (65, 70, "host_untracked", "silent"),
        (70, 80, "host_operator", "host"),
    ];
    for kind in [Call::DeviceSync, Call::StreamSync, Call::EventSync] {
        let mut t = builder();
        let mut main = t.thread(1);
        main.launch(us(5)..us(7)).kernel("sgemm", 7, us(20)..us(60));
        main.call(kind, us(25)..us(65));
        main.op("aten::add", us(70)..us(80));
        assert_eq!(chain(&t, 5, 80), wanted, "{kind:?}");
    }
    // A stream on which nothing ran is not waited for.
    let mut t = builder();
    let mut main = t.thread(1);
    main.launch(us(5)..us(7)).kernel("sgemm", 7, us(20)..us(60));
    main.call(Call::StreamSync, us(25)..us(65)).sync_row(SyncKind::StreamSync, 20, us(25)..us(65));
    main.op("aten::add", us(70)..us(80));
    assert_eq!(chain(&t, 25, 80)[0], (25, 65, "host_sync", "host"));
}

/// ```text
/// main       |cudaMemcpyAsync.........|   10..60
/// stream 7        [Memcpy HtoD....)       20..55
/// ```
#[test]
fn a_copy_that_blocks_is_on_the_path() {
    let mut t = builder();
    let mut main = t.thread(1);
    main.call(Call::Copy, us(10)..us(60)).memcpy("HtoD (Pageable -> Device)", 7, 1 << 20, us(20)..us(55));
    let wanted = [
        (10, 20, "launch_latency", "launch"),
        (20, 55, "gpu_memory", "gpu"),
        (55, 60, "sync_return", "sync"),
    ];
    assert_eq!(chain(&t, 10, 60), wanted);
}

/// ```text
/// main       |mm|[backward frame.....................)|step|   0..50 50..320 320..400
/// autograd        |MulBackward0.................|              60..300
/// ```
#[test]
fn a_long_silence_ends_with_the_work_of_another_thread() {
    let mut t = builder();
    let mut main = t.thread(1);
    main.op("aten::mm", us(0)..us(50));
    main.frame("torch/autograd/__init__.py(1): backward", us(50)..us(320));
    main.op("aten::_foreach_add_", us(320)..us(400));
    t.thread(2).op("MulBackward0", us(60)..us(300));
    let wanted = [
        (0, 50, "host_operator", "host"),
        (50, 60, "host_untracked", "handover"),
        (60, 300, "host_operator", "host"),
        (300, 320, "host_python", "handover"),
        (320, 400, "host_operator", "host"),
    ];
    assert_eq!(chain(&t, 0, 400), wanted);
    // 80 us of silence count for the thread itself.
    let mut t = builder();
    let mut main = t.thread(1);
    main.op("aten::mm", us(0)..us(50));
    main.op("aten::add", us(130)..us(200));
    t.thread(2).op("MulBackward0", us(60)..us(120));
    assert_eq!(chain(&t, 0, 200)[1], (50, 130, "host_untracked", "silent"));
}

/// ```text
/// main       [enumerate(DataLoader)...__next__....)|mm|   0..40 40..60
///                [frame...............)                   5..30
///                   |stack|                               10..20
/// ```
#[test]
fn all_below_a_data_loader_is_the_data_loaders() {
    let mut t = builder();
    let mut main = t.thread(1);
    main.data_loader(us(0)..us(40));
    main.frame("collate.py(1): collate", us(5)..us(30));
    main.op("aten::stack", us(10)..us(20));
    main.op("aten::mm", us(40)..us(60));
    let wanted = [
        (0, 10, "host_data_loader", "anchor"),
        (10, 20, "host_data_loader", "host"),
        (20, 40, "host_data_loader", "silent"),
        (40, 60, "host_operator", "host"),
    ];
    assert_eq!(chain(&t, 0, 60), wanted);
}

#[test]
fn traces_of_one_side_use_the_edges_they_have() {
    let mut gpu = builder();
    gpu.unlinked().kernel("a", 7, us(10)..us(30));
    gpu.unlinked().kernel("b", 7, us(40)..us(50));
    let wanted = [
        (0, 10, "unexplained", "anchor"),
        (10, 30, "gpu_compute", "gpu"),
        (30, 40, "kernel_gap", "stream"),
        (40, 50, "gpu_compute", "gpu"),
    ];
    assert_eq!(chain(&gpu, 0, 50), wanted);
    let mut silent = builder();
    silent.thread(1).frame("train.py(1): main", us(0)..us(50));
    assert_eq!(chain(&silent, 0, 50), [(0, 50, "tail", "anchor")]);
    // At the end of the window the device takes precedence over the host.
    let mut t = builder();
    t.thread(1).op("aten::mm", us(0)..us(50));
    t.unlinked().kernel("a", 7, us(10)..us(50));
    assert_eq!(chain(&t, 10, 50), [(10, 50, "gpu_compute", "gpu")]);
}

/// ```text
/// rank 0     [all-reduce: waiting.............|transfer]   10..70..100
/// rank 1     |mm...............................[transfer]  70..100
/// ```
#[test]
fn with_all_ranks_communication_is_divided_into_waiting_and_transfer() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (rank, start) in [(0u32, 10), (1, 70)] {
        let mut t = TraceBuilder::new().rank(rank).world(2).origin(ORIGIN);
        let all_reduce = Collective::all_reduce(1 << 20, "Float").group("0", "default_pg", [0, 1]).seq(1);
        t.thread(1).nccl(&all_reduce, us(start - 9)..us(start - 1), 20, us(start)..us(100));
        let file = folder.path().join(format!("rank_{rank}.json"));
        std::fs::write(file, t.to_bytes(&Format::default())).expect("a temporary file can be written");
    }
    let answer = answer(&[folder.path().to_path_buf()], &options());
    let of = |rank: i64, class: &str| {
        let rows =
            answer.rows_where("critical_path_summary", |r| r.int("rank") == rank && r.text("class") == class);
        rows.iter().map(|r| r.int("work_ns")).sum::<i64>()
    };
    let shares = |rank| {
        ["gpu_communication_wait", "gpu_communication_transfer", "gpu_communication"].map(|c| of(rank, c))
    };
    assert_eq!(shares(0), [us(60), us(30), 0]);
    assert_eq!(shares(1), [0, us(30), 0]);
}

/// The rows tile the window, and the summary adds them up.
pub fn tiles(what: &str, answer: &Answer) {
    let mut rows: BTreeMap<i64, Vec<Record>> = BTreeMap::new();
    for r in answer.rows("critical_path") {
        rows.entry(r.int("rank")).or_default().push(r);
    }
    let mut summary: BTreeMap<i64, Vec<Record>> = BTreeMap::new();
    for r in answer.rows("critical_path_summary") {
        summary.entry(r.int("rank")).or_default().push(r);
    }
    assert!(rows.keys().eq(summary.keys()), "{what}");
    for (rank, classes) in summary {
        let (start, dur) = (classes[0].int("ts_ns"), classes[0].int("dur_ns"));
        // Work from before the recording precedes the window.
        let before =
            rows[&rank].iter().filter(|r| r.text("class") == "before_capture").map(|r| r.int("dur_ns"));
        let mut at = start - before.sum::<i64>();
        let mut sums: BTreeMap<&str, i64> = BTreeMap::new();
        for (i, r) in rows[&rank].iter().enumerate() {
            assert_eq!((r.int("seq"), r.int("ts_ns")), (i as i64, at), "{what}: {}", r.0);
            assert!(r.int("dur_ns") > 0, "{what}: {}", r.0);
            at += r.int("dur_ns");
            *sums.entry(r.text("class")).or_default() += r.int("dur_ns");
        }
        assert_eq!(at, start + dur, "{what}: rank {rank}");
        for r in &classes {
            let whole = r.text("class").trim_end_matches("_wait").trim_end_matches("_transfer");
            *sums.get_mut(whole).unwrap_or_else(|| panic!("{what}: {}", r.0)) -=
                r.int("work_ns") + r.int("overhead_ns");
        }
        assert!(sums.values().all(|ns| *ns == 0), "{what}: {sums:?}");
    }
}

/// The properties of a segment that another activity must not change: span, class, edge, event, source.
type Fact = (Span, &'static str, Edge, Option<u32>, Option<u32>);

fn facts(path: &[PathSegment]) -> Vec<Fact> {
    path.iter().map(|s| (s.span, s.class.name(), s.edge, s.event, s.source)).collect()
}

pub fn tile(path: &[PathSegment], window: Span) -> bool {
    let ends = path.iter().map(|s| s.span.end).collect::<Vec<_>>();
    let starts = path.iter().skip(1).map(|s| s.span.start);
    path.iter().all(|s| !s.span.is_empty())
        && path.first().map(|s| s.span.start) == Some(window.start)
        && ends.last() == Some(&window.end)
        && ends.iter().copied().zip(starts).all(|(a, b)| a == b)
}

pub fn work_is_inside_its_event(trace: &RankTrace, path: &[PathSegment]) -> bool {
    let inside = |s: &PathSegment| {
        let event = trace.span(s.event.expect("work has an event"));
        event.start <= s.span.start && s.span.end <= event.end
    };
    path.iter().filter(|s| s.edge.is_work()).all(inside)
}

/// A blocking call or a wait: kind, thread, start, length, stream.
type Wait = (u8, i64, i64, i64, i64);

/// Time unit of the plans, ns: large enough that every threshold is crossed.
const UNIT: i64 = 4_000;

/// A plan in longer units, with blocking calls and waits between streams.
fn waiting(plan: &Plan, waits: &[Wait], origin: i64) -> TraceBuilder {
    let mut plan = plan.clone();
    plan.steps.iter_mut().for_each(|s| *s = (s.0 * UNIT, s.1 * UNIT));
    let stretch = |a: &mut crate::plan::Activity| (a.start, a.dur) = (a.start * UNIT, a.dur * UNIT);
    for h in &mut plan.host {
        (h.start, h.dur) = (h.start * UNIT, h.dur * UNIT);
        h.launched.iter_mut().for_each(stretch);
    }
    plan.unlinked.iter_mut().for_each(stretch);
    plan.drawn = plan.drawn.map(|t| t * UNIT);
    let mut t = plan.builder(origin).device_index(0);
    let mut record = None;
    for (kind, thread, start, dur, stream) in waits {
        let span = start * UNIT..(start + dur) * UNIT;
        let mut thread = t.thread(*thread);
        let call = match kind {
            0 => Call::DeviceSync,
            1 => Call::StreamSync,
            2 => Call::EventRecord,
            3 => Call::EventSync,
            _ => Call::StreamWait,
        };
        let row = thread.call(call, span.clone());
        let correlation = row.correlation();
        let _ = match kind {
            1 => row.sync_row(SyncKind::StreamSync, *stream, span),
            3 => row.sync_row(SyncKind::EventSync, -1, span).waits_on(*stream, 3, record),
            4 => row.sync_row(SyncKind::StreamWaitEvent, *stream, span).waits_on((stream + 1) % 3, 3, record),
            _ => row,
        };
        record = if *kind == 2 { correlation } else { record };
    }
    t
}

fn waits() -> impl Strategy<Value = Vec<Wait>> {
    prop::collection::vec((0u8..5, 1i64..3, 0i64..130, 0i64..40, 0i64..3), 0..8)
}

/// The same without calls that wait for all streams and begin before the last launch: such a call may wait for the
/// added activity, which counts as launched before everything, instead of the activity that contains it.
fn without_early_waits_for_all(mut waits: Vec<Wait>, plan: &Plan) -> Vec<Wait> {
    let last = plan.host.iter().filter(|h| !h.launched.is_empty()).map(|h| h.start).max().unwrap_or(0);
    let mut is_recorded = false;
    for (kind, _, start, ..) in &mut waits {
        is_recorded |= *kind == 2;
        let is_for_all = *kind == 0 || *kind == 3 && !is_recorded;
        if is_for_all && *start <= last {
            *kind = 1;
        }
    }
    waits
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_path_tiles_any_window_and_work_lies_inside_its_event(
        plan in plans(), waits in waits(), from in 0i64..160, len in 1i64..160
    ) {
        let t = waiting(&plan, &waits, ORIGIN);
        prop_assume!(t.event_count() > 0);
        let trace = traced(&t);
        let asked = Span::new(ORIGIN + from * UNIT, ORIGIN + (from + len) * UNIT);
        for window in [asked, trace.capture].into_iter().filter(|w| !w.is_empty()) {
            let found = path(&trace, window);
            prop_assert!(tile(&found, window), "{:?}", found);
            prop_assert!(work_is_inside_its_event(&trace, &found), "{:?}", found);
        }
    }

    #[test]
    fn another_activity_inside_one_of_the_path_changes_nothing(plan in plans(), waits in waits(), pick in 0usize..50) {
        let waits = without_early_waits_for_all(waits, &plan);
        let t = waiting(&plan, &waits, ORIGIN);
        prop_assume!(t.event_count() > 0);
        let trace = traced(&t);
        let before = path(&trace, trace.capture);
        let gpu: Vec<&PathSegment> = before.iter().filter(|s| s.edge == Edge::Gpu && s.span.len() > 2).collect();
        if gpu.is_empty() {
            return Ok(());
        }
        let inside = gpu[pick % gpu.len()].span;
        let device = trace.activities.iter().find(|a| Some(a.row) == gpu[pick % gpu.len()].event).and_then(|a| a.device());
        let mut more = waiting(&plan, &waits, ORIGIN).device_index(device.unwrap_or(0));
        more.unlinked().kernel("another", 99, inside.start - ORIGIN + 1..inside.end - ORIGIN - 1);
        let after = path(&traced(&more), trace.capture);
        prop_assert_eq!(facts(&before), facts(&after));
    }

    #[test]
    fn a_shift_of_all_times_shifts_the_path(plan in plans(), waits in waits(), shift in 1i64..4_000_000_000) {
        let (t, later) = (waiting(&plan, &waits, ORIGIN), waiting(&plan, &waits, ORIGIN + shift));
        prop_assume!(t.event_count() > 0);
        let (a, b) = (traced(&t), traced(&later));
        let moved = |s: PathSegment| PathSegment { span: Span::new(s.span.start + shift, s.span.end + shift), ..s };
        let first: Vec<PathSegment> = path(&a, a.capture).into_iter().map(moved).collect();
        prop_assert_eq!(facts(&first), facts(&path(&b, b.capture)));
    }
}

/// ```text
/// main       |l|......... silent ..........|op|     10..12 300..320
/// stream 7       [ncclDevKernel.........)           20..290, or ..310
/// ```
fn polling(name: &str, until: i64, silent_until: i64) -> Vec<(i64, i64, &'static str, &'static str)> {
    let mut t = builder();
    let mut main = t.thread(1);
    main.launch(us(10)..us(12)).kernel(name, 7, us(20)..us(until));
    main.op("aten::mm", us(silent_until)..us(320));
    chain(&t, 0, 320)
}

#[test]
fn a_thread_that_is_silent_while_its_communication_runs_polls_it() {
    let before = [(0, 10, "host_untracked", "anchor"), (10, 20, "launch_latency", "launch")];
    let [ended, running] = [
        [(20, 290, "gpu_communication", "gpu"), (290, 300, "gpu_communication", "poll")],
        [(20, 300, "gpu_communication", "poll"), (300, 320, "host_operator", "host")],
    ];
    let path = polling("ncclDevKernel_AllReduce", 290, 300);
    assert_eq!(path, [&before[..], &ended, &[(300, 320, "host_operator", "host")]].concat());
    assert_eq!(polling("ncclDevKernel_AllReduce", 310, 300), [&before[..], &running].concat());
    // Communication that ended more than 100 us before, a short silence, or a kernel that is not communication.
    let others =
        [("ncclDevKernel_AllReduce", 199, 300), ("ncclDevKernel_AllReduce", 105, 111), ("sgemm", 290, 300)];
    for (name, until, silent_until) in others {
        let path = polling(name, until, silent_until);
        assert!(path.iter().all(|s| s.3 != "poll"), "{name} until {until}: {path:?}");
    }
}

#[test]
fn a_polled_segment_is_marked_as_inferred_in_the_tables() {
    let mut t = builder();
    let mut main = t.thread(1);
    main.launch(us(10)..us(12)).kernel("ncclDevKernel_AllReduce", 7, us(20)..us(290));
    main.op("aten::mm", us(300)..us(320));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("rank_0.json");
    std::fs::write(&path, t.to_json()).expect("a trace is written");
    let answer = answer(&[path], &options());
    let polled = answer.rows_where("critical_path", |r| r.text("edge") == "poll");
    assert_eq!(polled.len(), 1);
    assert_eq!((polled[0].text("class"), polled[0].flag("inferred")), ("gpu_communication", Some(true)));
    let of_class = answer.rows_where("critical_path_summary", |r| r.text("class") == "gpu_communication");
    assert_eq!(of_class[0].flag("has_inferred"), Some(true));
}
