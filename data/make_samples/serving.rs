//! `serving`: an inference engine on one GPU, three iterations: one reads a prompt, two generate from a graph.
//!
//! ```text
//!   us         1000                 2000        2600      3000     3300      3700   3900
//!   host       [prefill             )schedule...[decode   )sched...[decode   )sched.[stop_profile
//!   calls         llll...l (40)      c|sync       l  g     c|sync     l  g     c|sync
//!   stream 7       [k k k .. k)      [c)          [p)  [graph     )[c)[p) [graph    )[c)
//!                1165      1885   2022..2027  2675..2685  2790..3190  3375  3465..3865
//!   windows        [          )                   [               )   [             )
//! ```
//!
//! The prompt's kernels are launched one by one, and the host is the slower one. While it schedules afterwards, the GPU
//! idles. Each generating iteration prepares its inputs with a kernel, then launches a graph of 40 kernels; the first
//! launch takes longer. Results are copied to the host after the iteration. Times in ns.

use hta_testkit::{TraceBuilder, us};

const ORIGIN_NS: i64 = 1_770_000_000_000_000_000;
pub const MAIN: i64 = 4_100;
pub const STREAM: i64 = 7;
const KERNELS: i64 = 40;
/// Every other kernel is a matrix product, and attention.
pub const LAYER: [&str; 2] =
    ["nvjet_tst_128x64_64x8_1x2_h_bz_TNT", "void flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits>"];
const PREPARATION: &str =
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int>>(int)";
const PREFILL: &str = "execute_512_context_1(sq512sk512sqsq262144sqsk262144)_generation_0(sq0sk0sqsq0sqsk0)";

/// The trace of `serving`.
pub fn trace() -> TraceBuilder {
    let mut trace = TraceBuilder::new()
        .rank(0)
        .world(1)
        .host("server")
        .pid(MAIN)
        .origin(ORIGIN_NS)
        .with_flows()
        .device("NVIDIA H100 80GB HBM3", 132)
        .top_level("with_stack", "1");
    prefill(&mut trace);
    decode(&mut trace, us(2_600), 2_052, us(50), us(2_790));
    decode(&mut trace, us(3_300), 2_056, us(10), us(3_465));
    let mut main = trace.thread(MAIN);
    main.frame("engine.py(88): stop_profile", us(3_900)..us(3_990));
    main.frame("engine.py(40): run_busy_loop", us(900)..us(4_000));
    trace.window(0..us(4_000));
    trace.name_rows("python", &[(MAIN, "EngineCore")]);
    trace
}

fn prefill(trace: &mut TraceBuilder) {
    let mut main = trace.thread(MAIN);
    main.annotation(PREFILL, us(1_000)..us(2_000));
    main.annotation("step[EXTEND bs=1 toks=512]", us(1_100)..us(1_990));
    for (i, name) in (0..KERNELS).zip(LAYER.iter().cycle()) {
        let (call, run) = (us(1_150 + 12 * i), us(1_165 + 18 * i));
        main.launch(call..call + us(10)).kernel(name, STREAM, run..run + us(18));
    }
    results(trace, us(2_000), us(2_022), us(2_030), us(2_600));
}

/// One token for each of four requests, which attend to `kv` tokens; `launch` is the length of the graph launch call.
fn decode(trace: &mut TraceBuilder, start: i64, kv: u64, launch: i64, run: i64) {
    let name = format!("execute_4_context_0(sq0sk0sqsq0sqsk0)_generation_4(sq4sk{kv}sqsq4sqsk{kv})");
    let mut main = trace.thread(MAIN);
    main.annotation(&name, start..start + us(400));
    main.annotation("step[DECODE bs=4]", start + us(50)..start + us(390));
    let kernel = start + us(75)..start + us(85);
    main.launch(start + us(60)..start + us(70)).kernel(PREPARATION, STREAM, kernel);
    let call = start + us(150);
    let mut graph = main.graph_launch(call..call + launch);
    for (i, name) in (0..KERNELS).zip(LAYER.iter().cycle()) {
        let at = run + us(10 * i);
        graph = graph.kernel(name, STREAM, at..at + us(10)).graph_node(1, i as u64);
    }
    let done = run + us(10 * KERNELS);
    let until = if start == us(2_600) { us(3_300) } else { us(3_900) };
    results(trace, start + us(400), done, done + us(10), until);
}

/// After an iteration that ended at `end`: copies what it sampled at `copied`, waits for that until `waited`, and
/// schedules until `until`.
fn results(trace: &mut TraceBuilder, end: i64, copied: i64, waited: i64, until: i64) {
    let mut main = trace.thread(MAIN);
    main.frame("scheduler.py(12): schedule", end..until);
    main.runtime("cudaMemcpyAsync", end + us(10)..end + us(20)).memcpy(
        "DtoH (Device -> Pinned)",
        STREAM,
        16,
        copied..copied + us(5),
    );
    main.runtime("cudaStreamSynchronize", end + us(20)..waited);
}
