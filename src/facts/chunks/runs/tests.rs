//! Runs of computing between messages, by eye.

use super::*;

/// What a rank submits, one after the other, each 10 ns long and 100 ns after the one before: `f`, `b`, `o`
/// (optimizer), `u` (unknown), `t` (a tiny forward operator), `<n` and `>n` (a message from and to rank n),
/// `|` (a step begins).
fn submitted(text: &str) -> (Vec<ComputeItem>, Vec<MessageCall>, Vec<Ns>) {
    let (mut items, mut messages, mut steps) = (Vec::new(), Vec::new(), Vec::new());
    for (i, word) in (1..).zip(text.split_whitespace()) {
        let at = i * 100;
        let (sign, peer) = word.split_at(1);
        let name = StrId::EMPTY;
        let mut item =
            |pass, len| items.push(ComputeItem { submit: at, start: at, end: at + len, pass, name });
        let peer = peer.parse().ok();
        match sign {
            "f" => item(ComputePass::Of(ChunkKind::Forward), 10_000),
            "b" => item(ComputePass::Of(ChunkKind::Backward), 10_000),
            "t" => item(ComputePass::Of(ChunkKind::Forward), 1),
            "o" => item(ComputePass::Outside, 10_000),
            "u" => item(ComputePass::Unknown, 10_000),
            "<" => messages.push(MessageCall {
                submit: at,
                receives: true,
                from: peer.into_iter().collect(),
                ..MessageCall::default()
            }),
            ">" => messages.push(MessageCall {
                submit: at,
                sends: true,
                to: peer.into_iter().collect(),
                ..MessageCall::default()
            }),
            _ => steps.push(at),
        }
    }
    (items, messages, steps)
}

/// The chunks as text: kind and number of items.
fn found(text: &str, is_shown: bool) -> String {
    let (items, messages, steps) = submitted(text);
    let step_at = |t: Ns| u32::try_from(steps.partition_point(|s| *s <= t)).ok();
    let runs = chunk_runs(&items, &messages, step_at, is_shown);
    let shown = |r: &ComputeRun| format!("{}{}", r.kind.map_or("?", ChunkKind::letter), r.items.len());
    runs.iter().map(shown).collect::<Vec<_>>().join(" ")
}

#[test]
fn chunks_are_runs_of_one_direction_between_messages() {
    assert_eq!(found("< f f > < f f > < b b > < b b >", true), "F2 F2 B2 B2");
    // A last stage has no message between forward and backward.
    assert_eq!(found("< f f b b > < f f b b >", true), "F2 B2 F2 B2");
    // A first stage receives nothing before forward, and sends nothing after backward.
    assert_eq!(found("f f > f f > < b b f f > < b b < b b", true), "F2 F2 B2 F2 B2 B2");
}

#[test]
fn a_run_of_two_stages_is_divided_where_its_kernels_repeat() {
    assert_eq!(
        found("< f f > < f f > < f f f f > < b b > < b b > < b b b b >", true),
        "F2 F2 F2 F2 B2 B2 B2 B2"
    );
    // A step in which all chunks have twice as many kernels.
    assert_eq!(
        found("| < f f > < f f > | < f f f f > < f f f f > | < f f > < f f > < b b >", true),
        "F2 F2 F4 F4 F2 F2 B2"
    );
    // Three kernels are no repetition of two.
    assert_eq!(found("< f f > < f f > < f f f > < b b >", true), "F2 F2 F3 B2");
}

#[test]
fn a_run_without_messages_is_a_chunk_if_it_has_the_kernels_of_one() {
    assert_eq!(found("< f < f < f > > > < b f < b f > >", true), "F1 F1 F1 B1 F1 B1 F1");
}

#[test]
fn work_of_an_optimizer_is_no_chunk() {
    assert_eq!(found("f f > < b b o o | f f > < b b o", true), "F2 B2 F2 B2");
    // Without an annotation it is forward work that no message belongs to.
    assert_eq!(found("f f > < b b f | f f > < b b f", true), "F2 B2 F2 B2");
    assert_eq!(found("< f f > < b b > f | < f f > < b b > f", true), "F2 B2 F2 B2");
}

#[test]
fn a_tiny_run_is_dropped_and_the_run_around_it_goes_on() {
    assert_eq!(found("t < f f > t < b b t b >", true), "F2 B4");
    assert_eq!(found("< f f b b t > t < f f b b t >", true), "F2 B2 F2 B2");
}

#[test]
fn messages_show_the_direction_without_autograd() {
    assert_eq!(found("<1 u u >3 <1 u u >3 <3 u u >1 <3 u u >1", false), "F2 F2 B2 B2");
    // The last stage: forward and backward of the last micro-batch of GPipe follow each other.
    assert_eq!(found("<1 u u <1 u u <1 u u u u u >1 u u u >1 u u u >1 u", false), "F2 F2 F2 B3 B3 B3");
    // The first stage: an optimizer follows the last backward chunk.
    assert_eq!(found("u u >1 u u >1 <1 u u u <1 u u u <1 u u u u", false), "F2 F2 B3 B3 B3");
    assert_eq!(found("u u >1 u u >1 <1 u u u <1 u u u u", false), "F2 F2 B3 B3");
}

#[test]
fn what_messages_cannot_divide_is_no_chunk() {
    // 1F1B on the last stage: forward and backward always follow each other.
    assert_eq!(found("<1 u u u u >1 <1 u u u u >1", false), "");
    // Messages with three ranks are those of no chain.
    assert_eq!(found("<1 u >2 <3 u >1", false), "");
}
