//! Kernels that do the work of several calls: `nccl:coalesced` names neither group nor ranks, but the
//! `record_param_comms` of the calls before it do.

use crate::run::{Answer, answer, options};
use hta_testkit::{Call, Collective, TraceBuilder, us};

/// Calls, then one kernel for them all, which ends at `end`.
fn coalesced(t: &mut TraceBuilder, at: i64, calls: &[Collective], kernel: (i64, i64)) {
    let mut main = t.thread(1);
    for (i, call) in (0..).zip(calls) {
        let from = at + us(10) * i;
        main.op(&call.operator(), from..from + us(8));
        main.param_comms(call, from + us(1)..from + us(6));
    }
    let from = at + us(10) * calls.len() as i64;
    main.annotation("nccl:coalesced", from..from + us(12));
    let launch = main.call(Call::LaunchExtended, from + us(3)..from + us(9));
    launch.kernel(&calls[0].kernel_name(), 22, kernel.0..kernel.1);
}

/// Four ranks in steps of 1 ms, whose kernels start and end at these times.
fn job(calls: fn(u32) -> Vec<Collective>, kernels: [[(i64, i64); 2]; 4]) -> Answer {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut paths = Vec::new();
    for (rank, kernels) in (0u32..).zip(kernels) {
        let mut t = TraceBuilder::new().rank(rank).world(4).device("NVIDIA H100", 132);
        for (step, kernel) in (0u64..).zip(kernels) {
            let at = us(1000) * step as i64;
            t.thread(1).step(step, at..at + us(1000));
            coalesced(&mut t, at + us(10), &calls(rank), kernel);
        }
        let path = folder.path().join(format!("rank_{rank}.json"));
        std::fs::write(&path, t.to_json()).expect("a temporary file can be written");
        paths.push(path);
    }
    answer(&paths, &options())
}

/// A ring in which rank 2 comes last: ranks 1 and 3 wait for it, and rank 0 for them in the next step.
///
/// ```text
///   rank 0   100[..]160          1100[.....]1200   ends closer to the first of rank 1
///   rank 1   100[............]560    1140[.......]1960
///   rank 2                500[]560           1900[]1960
///   rank 3   100[............]560    1140[.......]1960
/// ```
#[test]
fn a_ring_of_coalesced_messages_waits_for_its_last_rank() {
    let ring = |rank: u32| {
        let of = |c: Collective| c.group("1", "mesh_cp", 0..4);
        let to = of(Collective::send(1024, "Float", (rank + 1) % 4));
        vec![to, of(Collective::receive(1024, "Float", (rank + 3) % 4))]
    };
    let beside = [(us(100), us(560)), (us(1140), us(1960))];
    let answer = job(
        ring,
        [
            [(us(100), us(160)), (us(1100), us(1200))],
            beside,
            [(us(500), us(560)), (us(1900), us(1960))],
            beside,
        ],
    );
    let rows = answer.rows("collectives");
    let wait = |rank: i64| -> Vec<i64> {
        rows.iter().filter(|r| r.int("rank") == rank).map(|r| r.int("wait_ns") / 1000).collect()
    };
    assert_eq!([0, 1, 2, 3].map(wait), [vec![0, 40], vec![400, 760], vec![0, 0], vec![400, 760]]);
    for row in &rows {
        assert_eq!((row.text("kind"), row.text("process_group")), ("send_recv", "1 (mesh_cp) [0-3]"));
        assert_eq!((row.int("member_count"), row.text("matched_by")), (2, "peers"));
    }
}

#[test]
fn coalesced_gathers_have_the_group_and_the_size_of_their_calls() {
    let gathers = |_: u32| {
        let of = |elements: u64| Collective::all_gather(elements, 4, "Float").group("2", "fsdp", 0..4);
        vec![of(16).seq(1), of(64).seq(2)]
    };
    let answer = job(gathers, [[(us(100), us(160)), (us(1100), us(1160))]; 4]);
    let rows = answer.rows("collectives");
    assert_eq!(rows.len(), 8);
    for row in &rows {
        assert_eq!((row.text("kind"), row.text("process_group")), ("all_gather", "2 (fsdp) [0-3]"));
        assert_eq!((row.int("member_count"), row.int("size_bytes")), (4, 4 * 4 * (16 + 64)));
    }
}
