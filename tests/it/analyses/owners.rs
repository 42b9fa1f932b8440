//! Idle time is owned by what is there: compilers, operators that launch nothing, first steps that are cold,
//! set-up, and nothing where nothing is recorded.

use crate::run::{Answer, answer, options};
use hta_testkit::{Call, Format, Thread, TraceBuilder, us};

fn read(t: &TraceBuilder) -> Answer {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("rank_0.json");
    std::fs::write(&path, t.to_bytes(&Format::default())).expect("a temporary file can be written");
    answer(&[path], &options())
}

fn builder() -> TraceBuilder {
    TraceBuilder::new().rank(0).device("NVIDIA H100", 132)
}

/// Ten kernels of 1 ms, launched at once, and a call that waits for them. Returns when it ends, us.
///
/// ```text
///   host      |llllllllll|item........................|
///   stream 7    [k][k][k][k][k][k][k][k][k][k]
/// ```
fn work(main: &mut Thread, at: i64) -> i64 {
    for k in 0..10 {
        let (call, start) = (at + 10 * k, at + 20 + 1_001 * k);
        main.launch(us(call)..us(call + 5)).kernel("gemm", 7, us(start)..us(start + 1_000));
    }
    let end = at + 10_040;
    main.op("aten::item", us(at + 110)..us(end));
    main.call(Call::StreamSync, us(at + 111)..us(end - 5));
    end
}

/// Six steps; in some of them `before` happens first, for so many us.
fn steps(lengths: [i64; 6], before: impl Fn(&mut Thread, i64, i64)) -> Answer {
    let mut t = builder();
    let mut main = t.thread(1);
    let mut at = 0;
    for (step, length) in (0..).zip(lengths) {
        if length > 0 {
            before(&mut main, at + 10, length);
        }
        let end = work(&mut main, at + 20 + length);
        main.step(step, us(at)..us(end + 10));
        at = end + 20;
    }
    read(&t)
}

fn compile(main: &mut Thread, at: i64, length: i64) {
    main.op("_compile.compile_inner (dynamo_timed)", us(at)..us(at + length));
    main.op("compile_fx_inner (dynamo_timed)", us(at + length / 4)..us(at + length / 2));
    main.runtime("cudaStreamGetCaptureInfo", us(at + length / 4 + 10)..us(at + length / 4 + 20));
}

/// Sentence and owned time, us, of the causes of a kind.
fn found(answer: &Answer, kind: &str) -> Vec<(String, i64)> {
    let rows = answer.rows_where("findings", |r| r.text("kind") == kind);
    rows.iter().map(|r| (r.text("sentence").to_string(), r.int("owned_ns") / 1_000)).collect()
}

#[test]
fn what_compiles_in_a_later_step_owns_its_time_before_the_call_that_waited() {
    let answer = steps([0, 0, 0, 20_000, 0, 0], compile);
    let [(sentence, owned)] = &found(&answer, "host_compile")[..] else { panic!("one cause") };
    let said =
        "The device idles while the host recompiles in step 3: `_compile.compile_inner (dynamo_timed)`";
    assert_eq!(sentence, said);
    assert_eq!(*owned, 20_000);
    assert_eq!(answer.rows("findings")[0].text("kind"), "host_compile");
    assert_eq!(found(&answer, "host_sync"), []);
}

#[test]
fn what_compiles_in_the_first_steps_compiles_once() {
    for lengths in [[20_000, 0, 0, 0, 0, 0], [0, 20_000, 0, 0, 0, 0], [20_000, 20_000, 0, 0, 0, 0]] {
        let answer = steps(lengths, compile);
        let [(sentence, owned)] = &found(&answer, "host_compile")[..] else { panic!("one cause") };
        assert!(sentence.contains("compiles, once"), "{sentence}");
        assert_eq!(*owned, lengths.iter().sum::<i64>());
        let text = answer.rows("verdict")[0].text("text").to_string();
        assert!(text.contains("A recording without it is shorter by"), "{text}");
    }
}

#[test]
fn what_compiles_first_and_again_is_two_causes_and_in_all_steps_one() {
    let answer = steps([20_000, 0, 0, 20_000, 0, 0], compile);
    assert_eq!(found(&answer, "host_compile").len(), 2);
    let answer = steps([20_000; 6], compile);
    let [(sentence, owned)] = &found(&answer, "host_compile")[..] else { panic!("one cause") };
    assert!(sentence.contains("recompiles in 6 of 6 steps"), "{sentence}");
    assert_eq!(*owned, 120_000);
}

#[test]
fn a_compiler_inside_another_operator_or_below_frames_owns_its_time() {
    let inside = |main: &mut Thread, at: i64, length: i64| {
        main.op("aten::item", us(at)..us(at + length));
        compile(main, at + 100, length - 200);
    };
    assert_eq!(found(&steps([0, 0, 0, 20_000, 0, 0], inside), "host_compile")[0].1, 19_800);
    let below = |main: &mut Thread, at: i64, length: i64| {
        main.frame("train.py(10): train", us(at)..us(at + length));
        main.frame("triton/compiler/compiler.py(228): compile", us(at + 100)..us(at + length - 100));
    };
    let answer = steps([0, 0, 0, 20_000, 0, 0], below);
    assert!(found(&answer, "host_compile")[0].0.contains("recompiles in step 3: `compile`"));
    // What was compiled does not compile.
    let region = |main: &mut Thread, at: i64, length: i64| {
        main.op("Torch-Compiled Region: 0/0", us(at)..us(at + length));
    };
    assert_eq!(found(&steps([0, 0, 0, 20_000, 0, 0], region), "host_compile"), []);
}

#[test]
fn an_operator_that_launches_nothing_owns_its_time_and_a_launching_one_does_not() {
    let quiet = |main: &mut Thread, at: i64, length: i64| {
        main.op("load_table", us(at)..us(at + length));
        main.op("aten::select", us(at + 100)..us(at + 200));
        main.runtime("cudaGetDevice", us(at + 300)..us(at + 310));
    };
    let answer = steps([3_000; 6], quiet);
    let [(sentence, owned)] = &found(&answer, "host_python")[..] else { panic!("one cause") };
    assert!(sentence.contains("while the host runs `load_table`"), "{sentence}");
    assert!((18_000..18_200).contains(owned), "{owned}");
    let launching = |main: &mut Thread, at: i64, length: i64| {
        main.op("load_table", us(at)..us(at + length));
        for k in 0..6 {
            let at = at + 500 * k;
            main.launch(us(at + 100)..us(at + 105)).kernel("copy", 7, us(at + 110)..us(at + 120));
        }
    };
    assert_eq!(found(&steps([3_000; 6], launching), "host_python"), []);
}

/// An operator of 4 ms that launches at its end. In the second job only the first one is so long.
#[test]
fn an_operator_that_launches_at_its_end_owns_the_time_before_and_a_first_use_is_once() {
    let late = |main: &mut Thread, at: i64, length: i64| {
        main.op("delta_r2", us(at)..us(at + length));
        let call = at + length - 20;
        main.launch(us(call)..us(call + 5)).kernel("fused", 7, us(call + 7)..us(call + 9));
    };
    let answer = steps([4_000; 6], late);
    let [(sentence, owned)] = &found(&answer, "host_python")[..] else { panic!("one cause") };
    assert!(sentence.contains("while the host runs `delta_r2`"), "{sentence}");
    assert!((23_000..24_200).contains(owned), "{owned}");
    let answer = steps([40_000, 40, 40, 40, 40, 40], late);
    let [(sentence, owned)] = &found(&answer, "warm_up")[..] else { panic!("one cause") };
    assert!(sentence.contains("set up at their first use"), "{sentence}");
    assert!((39_000..40_100).contains(owned), "{owned}");
}

/// The handle of a library is made in its first operator, between two requests for memory.
#[test]
fn memory_that_a_library_asks_for_at_its_first_use_is_no_pressure_on_the_allocator() {
    let set_up = |main: &mut Thread, at: i64, length: i64| {
        main.op("aten::addmm", us(at)..us(at + length));
        main.runtime("cudaFree", us(at + 10)..us(at + length - 50));
        main.runtime("cudaMalloc", us(at + length - 40)..us(at + length - 10));
    };
    let answer = steps([0, 0, 8_000, 0, 0, 0], set_up);
    assert_eq!((found(&answer, "host_alloc"), found(&answer, "memory_retry")), (vec![], vec![]));
    let [(_, owned)] = &found(&answer, "warm_up")[..] else { panic!("one cause") };
    assert!((7_900..8_000).contains(owned), "{owned}");
    let answer = steps([0, 0, 8_000, 8_000, 0, 0], set_up);
    assert_eq!((found(&answer, "host_alloc").len(), found(&answer, "memory_retry").len()), (1, 1));
    // What takes as long again is no set-up.
    assert_eq!(found(&answer, "warm_up"), []);
}

#[test]
fn a_first_step_that_is_cold_is_told_before_what_all_steps_have() {
    let slow = |main: &mut Thread, at: i64, length: i64| {
        for k in 0..length / 100 {
            main.op("aten::empty", us(at + 100 * k)..us(at + 100 * k + 90));
        }
    };
    for (lengths, said) in [
        ([10_000, 500, 500, 500, 500, 500], "The first step is cold and takes 20.1 ms, the others 10.6 ms"),
        ([10_000, 10_000, 500, 500, 500, 500], "The first 2 steps are cold and take"),
    ] {
        let answer = steps(lengths, slow);
        assert!(found(&answer, "cold_start")[0].0.contains(said), "{:?}", found(&answer, "cold_start"));
        assert_eq!(answer.rows("findings")[0].text("kind"), "cold_start");
        // No fix saves what only a later recording lacks.
        let told = answer.outcome.outputs.iter().find_map(|(_, o)| o.verdict.clone()).expect("a verdict");
        let first = &told.causes[0];
        assert!(first.saved.is_empty() && first.once.contains("a step"), "{first:?}");
    }
    // A step that is as long later shows that such steps come again.
    assert_eq!(found(&steps([10_000, 500, 500, 500, 10_000, 500], slow), "cold_start"), []);
    assert_eq!(found(&steps([500; 6], slow), "cold_start"), []);
}

#[test]
fn a_function_of_many_short_calls_is_named_with_its_caller_and_grows() {
    let mut t = builder();
    let mut main = t.thread(1);
    let mut at = 0;
    for step in 0..6 {
        let start = at;
        main.frame("sync.py(60): update", us(start)..us(start + 20 * (600 + 800 * step)));
        for _ in 0..20 {
            let probe = 300 + 800 * step;
            main.launch(us(at + 10)..us(at + 15)).kernel("gemm", 7, us(at + 20)..us(at + 120));
            main.frame("sync.py(210): wrap", us(at + 100)..us(at + 200 + probe));
            main.frame("torch/cuda/memory.py(260): memory_stats", us(at + 150)..us(at + 150 + probe));
            at += 300 + probe;
        }
        main.step(step as u64, us(start)..us(at));
    }
    let answer = read(&t);
    let first = &answer.rows("findings")[0];
    let said = "The device idles while the host runs `memory_stats` (memory.py:260), called by `wrap`";
    assert_eq!(first.text("sentence"), said);
    assert!(first.text("detail").contains("in the first step and 8"), "{}", first.text("detail"));
}

#[test]
fn a_range_around_everything_owns_nothing_and_set_up_saves_nothing() {
    let mut t = builder();
    let mut main = t.thread(1);
    main.annotation("run_training", us(0)..us(60_200));
    main.launch(us(10)..us(15)).kernel("fill", 7, us(20)..us(30));
    // Weights are initialised before, which is no part of a step.
    let init = "void at::native::distribution_elementwise_grid_stride_kernel<float, 4>";
    main.launch(us(20_000)..us(20_005)).kernel(init, 7, us(20_010)..us(22_010));
    main.annotation("forward pass", us(40_000)..us(50_000));
    work(&mut main, 40_100);
    work(&mut main, 50_150);
    let answer = read(&t);
    let [(sentence, owned)] = &found(&answer, "set_up")[..] else { panic!("one cause") };
    assert!(sentence.contains("during set-up, before the first forward pass, once"), "{sentence}");
    assert_eq!(*owned, 40_000 - 30 - 2_000);
    let named = answer.rows_where("findings", |r| r.text("sentence").contains("run_training"));
    assert!(named.is_empty());
    assert!(
        answer
            .rows_where("findings", |r| r.text("kind") == "set_up" && r.int("recoverable_ns") > 0)
            .is_empty()
    );
}

#[test]
fn what_lies_before_the_first_work_is_told_with_its_owner() {
    let mut t = builder();
    let mut main = t.thread(1);
    main.runtime("cudaDeviceGetStreamPriorityRange", us(0)..us(30_000));
    work(&mut main, 30_050);
    let answer = read(&t);
    let verdict = answer.outcome.outputs.iter().find_map(|(_, o)| o.verdict.clone()).expect("a verdict");
    let note = verdict.notes.iter().find(|n| n.contains("of the recorded time")).expect("a note");
    let place =
        " lie before the first work of the device, most of it idle in `cudaDeviceGetStreamPriorityRange`";
    assert!(note.contains(place) && !note.contains("step"), "{note}");
}

#[test]
fn the_call_before_a_gap_is_not_where_the_time_is() {
    let mut t = builder();
    let mut main = t.thread(1);
    let mut at = 0;
    for i in 0..12 {
        main.annotation("execute_context_1(64)_generation_3(3)", us(at)..us(at + 200));
        let end = work(&mut main, at + 10);
        at = end + if i % 4 == 3 { 30_000 } else { 50 };
    }
    let answer = read(&t);
    let rows = answer.rows_where("findings", |r| r.text("kind") == "iteration_gap");
    let said = format!("{} {}", rows[0].text("detail"), rows[0].text("action"));
    assert!(said.contains("where nothing of the host is recorded"), "{said}");
    assert!(said.contains("with_stack=True") && !said.contains("cudaLaunchKernel"), "{said}");
}

#[test]
fn a_gpu_that_the_file_names_and_that_was_not_recorded_is_said() {
    let job = |t: TraceBuilder| {
        let mut t = t;
        let mut main = t.thread(1);
        for k in 0..200 {
            main.op(["aten::copy_", "aten::mul"][k as usize % 2], us(100 * k)..us(100 * k + 90));
        }
        let answer = read(&t);
        answer.rows("verdict").iter().map(|r| r.text("text").to_string()).collect::<Vec<_>>().join(" ")
    };
    let said = job(builder());
    assert!(said.contains("was not recorded, only the CPU (ProfilerActivity.CUDA)"), "{said}");
    assert!(!said.contains("No single fix"), "{said}");
    let said = job(TraceBuilder::new().rank(0).backend("gloo"));
    assert!(said.contains("The CPU computes") && !said.contains("was not recorded"), "{said}");
    // A communication that needs a device, and a range in which another thread computes.
    let mut t = TraceBuilder::new().rank(0);
    let mut main = t.thread(1);
    main.annotation("nccl:all_to_all", us(0)..us(50));
    main.op("aten::mul", us(60)..us(10_000));
    main.annotation("## backward ##", us(10_000)..us(18_000));
    main.op("aten::mul", us(18_000)..us(20_000));
    let answer = read(&t);
    let said = answer.rows("verdict")[0].text("text").to_string();
    assert!(said.starts_with("Cannot tell where the time of the GPU goes"), "{said}");
    let sure = answer.rows_where("findings", |r| r.text("certainty") == "sure");
    assert_eq!(sure.len(), 0, "{sure:?}");
}

/// Five steps of many short operators in a range, in which the host stands still for so many us in the middle,
/// with no event or in `held`.
///
/// ```text
///   host      [forward [op][op]......................[op][op] )
///   stream 7            [k] [k]                       [k] [k]
/// ```
fn launching_one_by_one(still: i64, held: Option<&str>) -> Answer {
    let mut t = builder();
    let mut main = t.thread(1);
    let mut at = 0;
    for step in 0..5 {
        let begin = at;
        for k in 0..80 {
            if k == 40 {
                if let Some(name) = held {
                    main.op(name, us(at)..us(at + still));
                    main.launch(us(at + still - 6)..us(at + still - 1)).kernel(
                        "gather",
                        7,
                        us(at + still)..us(at + still + 5),
                    );
                }
                at += still;
            }
            main.op("aten::add", us(at + 5)..us(at + 60));
            main.launch(us(at + 45)..us(at + 50)).kernel("add", 7, us(at + 52)..us(at + 57));
            at += 70;
        }
        main.annotation("forward", us(begin + 2)..us(at));
        main.step(step, us(begin)..us(at + 5));
        at += 10;
    }
    read(&t)
}

#[test]
fn a_long_stretch_between_operators_is_not_launching_one_by_one() {
    let [launching] = &found(&launching_one_by_one(0, None), "host_dispatch")[..] else {
        panic!("one cause")
    };
    let answer = launching_one_by_one(2_000, None);
    let [(sentence, owned)] = &found(&answer, "host_python")[..] else { panic!("one cause") };
    assert!(sentence.contains("while the host runs `forward`"), "{sentence}");
    assert!((10_000..10_200).contains(owned), "{owned}");
    assert!((found(&answer, "host_dispatch")[0].1 - launching.1).abs() < 100);
}

#[test]
fn a_communication_operator_that_stands_still_owns_its_time() {
    let answer = launching_one_by_one(2_000, Some("record_param_comms"));
    let [(sentence, owned)] = &found(&answer, "host_python")[..] else { panic!("one cause") };
    assert!(sentence.contains("while the host runs `record_param_comms`"), "{sentence}");
    assert!((9_900..10_100).contains(owned), "{owned}");
}

/// Steps of 4 ms that end with a call that waits; then a range of 0.4 ms, which is long for such a step.
#[test]
fn in_short_steps_a_range_behind_a_call_that_waited_owns_its_time() {
    let of = |name: Option<&str>| {
        let mut t = builder();
        let mut main = t.thread(1);
        for step in 0..6_i64 {
            let at = 4_000 * step;
            if let Some(name) = name {
                main.annotation(name, us(at + 5)..us(at + 405));
            }
            for k in 0..3 {
                let start = at + 420 + 1_100 * k;
                main.launch(us(at + 410 + 5 * k)..us(at + 413 + 5 * k)).kernel(
                    "gemm",
                    7,
                    us(start)..us(start + 1_100),
                );
            }
            main.call(Call::DeviceSync, us(at + 430)..us(at + 3_730));
            main.step(step.cast_unsigned(), us(at)..us(at + 3_999));
        }
        read(&t)
    };
    let answer = of(Some("save"));
    let (sentence, owned) = &found(&answer, "host_python")[0];
    assert!(sentence.contains("while the host runs `save`"), "{sentence}");
    assert!((1_900..2_500).contains(owned), "{owned}");
    // Without an event the call that waited is what is known.
    assert_eq!(found(&of(None), "host_sync").len(), 1);
}
