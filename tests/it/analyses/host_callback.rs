//! Callbacks on the host that block a stream of a CUDA graph: the cause `host_callback`.

use crate::run::{Answer, answer, options};
use hta_testkit::{Call, Format, TraceBuilder, us};

/// Four steps of 10 ms, each a replay of a graph; times of a step in us.
///
/// ```text
/// stream 7    [a 50..2050][   cb 2100..6100   ][b 6200..8200]
/// ```
fn read(stream: i64) -> Answer {
    let mut t = TraceBuilder::new().rank(0).device("NVIDIA H100", 132);
    for step in 0..4 {
        let at = 10_000 * step;
        let span = |start: i64, end: i64| us(at + start)..us(at + end);
        let mut main = t.thread(1);
        main.annotation(&format!("ProfilerStep#{step}"), span(0, 9_900));
        main.graph_launch(span(10, 30)).kernel("a", 7, span(50, 2_050)).kernel("b", 7, span(6_200, 8_200));
        main.call(Call::DeviceSync, span(40, 8_300));
        t.event("graph_host_node", "HostNode: cb", 0, stream, span(2_100, 6_100))
            .arg("device", 0)
            .arg("stream", stream);
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("rank_0.json");
    std::fs::write(&path, t.to_bytes(&Format::default())).expect("a temporary file can be written");
    answer(&[path], &options())
}

#[test]
fn a_callback_owns_the_idle_time_that_it_covers() {
    let answer = read(7);
    let found = answer.rows_where("findings", |r| r.text("kind") == "host_callback");
    assert_eq!(found.len(), 1);
    let text = format!("{:?}", found[0]);
    assert!(text.contains("while the host callback `cb` blocks the stream"), "{text}");
    let owned = answer.rows_where("time_account", |r| r.text("cause") == "host_callback");
    assert_eq!(owned.iter().map(|r| r.int("time_ns")).sum::<i64>(), 4 * us(4_000));
}

#[test]
fn a_callback_on_another_stream_blocks_nothing() {
    assert!(read(9).rows_where("findings", |r| r.text("kind") == "host_callback").is_empty());
}
