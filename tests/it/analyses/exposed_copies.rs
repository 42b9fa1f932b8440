//! Copies that no kernel hides: who waits for them, what pinned memory saves, and jobs that only copy.

use crate::analyses::diagnosis::of;
use crate::run::Answer;
use hta_testkit::{TraceBuilder, us};

/// Kinds with their gain (us a step of 20), certainty and words.
fn told(answer: &Answer) -> Vec<(String, i64, String, String)> {
    let row = |r: &crate::run::Record| {
        let gain = r.int("recoverable_ns") / 20_000;
        let words = format!("{}. {}", r.text("sentence"), r.text("detail"));
        (r.text("kind").to_string(), gain, r.text("certainty").to_string(), words)
    };
    answer.rows("findings").iter().map(row).collect()
}

fn lines(answer: &Answer) -> [String; 2] {
    let verdict = answer.outcome.outputs.iter().find_map(|(_, o)| o.verdict.clone()).expect("a verdict");
    verdict.lines
}

/// Twenty steps of 1 ms on the device, with a copy between two products.
///
/// ```text
///   us          0        400            600      1000
///   stream 7    [ gemm   )..............[ gemm   )
///   stream 20            [ copy         )
///   launches    | | |    (`waiting`: the second product is launched at once, else when the copy has ended)
/// ```
fn loop_with_copy(kind: &str, stream: i64, is_waiting: bool) -> TraceBuilder {
    let mut t = TraceBuilder::new().rank(0).device("NVIDIA H100 80GB HBM3", 132);
    let mut main = t.thread(1);
    for k in 0..20 {
        let at = us(1_000 * k);
        main.step(k as u64, at..at + us(1_000));
        main.op("aten::mm", at..at + us(8));
        main.launch(at + us(1)..at + us(3)).kernel("gemm", 7, at + us(10)..at + us(400));
        main.op("ao::offload", at + us(9)..at + us(19));
        main.runtime("cudaMemcpyAsync", at + us(10)..at + us(13)).memcpy(
            kind,
            stream,
            8 << 20,
            at + us(400)..at + us(600),
        );
        let launch = at + us(if is_waiting { 22 } else { 598 });
        main.op("aten::addmm", launch - us(1)..launch + us(4));
        main.launch(launch..launch + us(3)).kernel("gemm", 7, at + us(600)..at + us(1_000));
    }
    t
}

#[test]
fn copies_that_a_launched_kernel_waits_for_are_a_cause() {
    let waits = [
        ("DtoH (Device -> Pinned)", 20, "from the device to the host"),
        ("HtoD (Pinned -> Device)", 20, "from the host to the device"),
        ("DtoD (Device -> Device)", 7, "between devices or inside one"),
        ("PtoP (Device -> Device)", 20, "between devices or inside one"),
    ];
    for (kind, stream, words) in waits {
        let found = told(&of(&loop_with_copy(kind, stream, true)));
        let (_, gain, certainty, text) =
            found.iter().find(|f| f.0 == "copy_exposed").unwrap_or_else(|| panic!("{kind}: {found:?}"));
        assert_eq!((*gain, certainty.as_str()), (200, "at most"), "{kind}");
        assert!(text.contains(words) && text.contains("`aten::addmm` waits for"), "{text}");
    }
}

#[test]
fn a_copy_before_a_kernel_that_is_launched_late_holds_up_nothing() {
    let found = told(&of(&loop_with_copy("DtoH (Device -> Pinned)", 20, false)));
    assert!(found.iter().all(|f| f.0 != "copy_exposed"), "{found:?}");
}

#[test]
fn a_host_that_waits_for_a_copy_before_it_goes_on_is_held_up() {
    let mut t = TraceBuilder::new().rank(0).device("NVIDIA H100 80GB HBM3", 132);
    let mut main = t.thread(1);
    for k in 0..20 {
        let at = us(1_000 * k);
        main.step(k as u64, at..at + us(1_000));
        let copy = main.runtime("cudaMemcpyAsync", at + us(1)..at + us(4));
        copy.memcpy("HtoD (Pinned -> Device)", 20, 8 << 20, at + us(5)..at + us(305));
        main.runtime("cudaStreamSynchronize", at + us(5)..at + us(307));
        main.launch(at + us(308)..at + us(310)).kernel("gemm", 7, at + us(312)..at + us(998));
    }
    let found = told(&of(&t));
    let one = found.iter().find(|f| f.0 == "copy_exposed").unwrap_or_else(|| panic!("{found:?}"));
    assert!((295..=300).contains(&one.1) && one.3.contains("`cudaStreamSynchronize` waits for"), "{one:?}");
}

/// ```text
///   us      0             38000          43900 44930  45100
///   HtoD    [ 230 MB      )
///   DtoH                  [ 51 MB        )
///   gemm                                 [     )
/// ```
#[test]
fn pinned_memory_saves_what_the_link_does_not_need() {
    let mut t = TraceBuilder::new().device("NVIDIA A100-SXM4-40GB", 108);
    let mut main = t.thread(1);
    let copy = |main: &mut hta_testkit::Thread, kind: &str, bytes: u64, from: i64, to: i64| {
        main.runtime("cudaMemcpyAsync", us(from)..us(to)).memcpy(kind, 7, bytes, us(from)..us(to));
    };
    copy(&mut main, "HtoD (Pageable -> Device)", 230_000_000, 5, 38_000);
    copy(&mut main, "DtoH (Device -> Pageable)", 51_000_000, 38_000, 43_900);
    main.launch(us(43_901)..us(43_903)).kernel("gemm", 7, us(43_905)..us(44_935));
    main.runtime("cudaDeviceSynchronize", us(43_905)..us(45_100));
    let found = told(&of(&t));
    let (kind, gain, certainty, words) = &found[0];
    assert_eq!((kind.as_str(), certainty.as_str()), ("copy_pageable", "at most"), "{found:?}");
    let gain = gain * 20;
    // 281 MB at 25 GB/s take 11.24 ms, at 51 MB in 5.9 ms 32.5 ms.
    assert!((32_500..32_800).contains(&gain), "{gain}");
    assert!(words.contains("at 8.64 GB/s, the best rate here, pinning saves about 11.4 ms"), "{words}");
}

#[test]
fn a_job_that_only_copies_is_neither_busy_nor_lost() {
    let mut t = TraceBuilder::new().device("NVIDIA A100-SXM4-40GB", 108);
    let mut main = t.thread(1);
    for k in 0..20 {
        let at = us(1_000 * k);
        main.step(k as u64, at..at + us(999));
        let copy = main.runtime("cudaMemcpyAsync", at + us(1)..at + us(3));
        copy.memcpy("HtoD (Pinned -> Device)", 20, 5_000_000, at + us(5)..at + us(995));
        let copy = main.runtime("cudaMemcpyAsync", at + us(4)..at + us(6));
        copy.memcpy("DtoH (Device -> Pinned)", 22, 4_000_000, at + us(8)..at + us(508));
        main.runtime("cudaDeviceSynchronize", at + us(7)..at + us(998));
    }
    let answer = of(&t);
    let [first, second] = lines(&answer);
    assert!(first.starts_with("Only copies run, no compute: DtoH 8.00 GB/s, HtoD 5.05 GB/s, "), "{first}");
    assert!(second.starts_with("Copies run "), "{second}");
    let verdict = answer.outcome.outputs.iter().find_map(|(_, o)| o.verdict.clone()).expect("a verdict");
    assert!(verdict.notes.iter().all(|n| !n.contains("without a cause")), "{:?}", verdict.notes);
}

/// Steps that begin every 40 ms, marked for a time that depends on their work; the device works for 16 to
/// 30 ms of each, if it `varies`, and the host waits for it.
fn frames(varies: bool, marked: Option<fn(i64) -> i64>, late: impl Fn(i64) -> i64) -> TraceBuilder {
    let mut t = TraceBuilder::new().device("NVIDIA A100-SXM4-40GB", 108);
    let mut main = t.thread(1);
    let mut begin = 0;
    for k in 0..60 {
        let at = us(begin);
        let work = if varies { us(16_000 + (k * 7_919) % 14_000) } else { us(20_000) };
        if let Some(marked) = marked {
            main.step(k as u64, at..at + marked(work));
        }
        for (i, name) in (0..).zip(["gemm", "softmax", "relu"]) {
            let (call, run) = (at + us(10 * i), at + us(10) + work / 3 * i);
            main.launch(call..call + us(5)).kernel(name, 7, run..run + work / 3);
        }
        main.runtime("cudaMemset", at + us(30)..at + us(2_030)).memset(
            7,
            4_096,
            at + us(30) + work..at + us(32) + work,
        );
        main.runtime("cudaDeviceSynchronize", at + us(2_040)..at + work + us(35));
        begin += 40_000 + late(k);
    }
    t
}

/// Marked from turn to turn, or around the work alone.
const TURNS: Option<fn(i64) -> i64> = Some(|_| us(39_000));
const WORK: Option<fn(i64) -> i64> = Some(|work| work + us(40));

#[test]
fn a_loop_that_a_clock_drives_saves_nothing() {
    let [first, _] = lines(&of(&frames(true, TURNS, |_| 0)));
    assert!(first.starts_with("Paced: period 40.0 ms (25.0 a second)"), "{first}");
    let [first, _] = lines(&of(&frames(true, None, |_| 0)));
    assert!(first.starts_with("Paced: period 40.0 ms"), "{first}");
    // Late by up to 200 us now and then, and in time for the next turn.
    let [first, _] = lines(&of(&frames(true, TURNS, |k| [200, -200, 0][(k % 3) as usize])));
    assert!(first.starts_with("Paced: period 40.0 ms"), "{first}");
    // A step of the account begins with the end of the work before, and its length varies as that does.
    let [first, _] = lines(&of(&frames(true, WORK, |_| 0)));
    assert!(first.starts_with("Paced: period 40.0 ms"), "{first}");
    let late = |k: i64| (k * k * k * 37) % 797;
    let [first, _] = lines(&of(&frames(true, WORK, |k| late(k + 1) - late(k))));
    assert!(first.starts_with("Paced: period 40."), "{first}");
}

#[test]
fn even_steps_of_even_work_and_steps_that_drift_are_not_paced() {
    let [first, _] = lines(&of(&frames(false, TURNS, |_| 0)));
    assert!(!first.starts_with("Paced"), "{first}");
    let [first, _] = lines(&of(&frames(true, TURNS, |k| if k < 30 { 300 } else { -300 })));
    assert!(!first.starts_with("Paced"), "{first}");
    // Something keeps the period, but perhaps no clock.
    assert!(first.contains("at most"), "{first}");
    let [first, _] = lines(&of(&frames(false, WORK, |_| 0)));
    assert!(!first.starts_with("Paced") && !first.contains("at most"), "{first}");
}
