//! `serving_capture`: the engine of `serving` while it starts: it captures the graphs of two batches, then runs one
//! iteration without a graph.
//!
//! ```text
//!   us        1000                    2000                    3000
//!   host      [capture_8_FULL     )   [capture_4_FULL     )   [decode    )..[stop_profile
//!   calls      begin l l .. l end      begin l l .. l end       l    l
//!   stream 7                                                    [a)  [m.......)
//! ```
//!
//! The graph of batch 4 is that of `serving`: 20 layers, each a product and attention. That of batch 8 ends with two
//! kernels that choose tokens. CUDA does not record which kernels a captured launch starts. Times in ns.

use hta_testkit::{Thread, TraceBuilder, us};

use crate::serving::{LAYER, MAIN, STREAM};

const ORIGIN_NS: i64 = 1_769_999_990_000_000_000;
const LAYERS: i64 = 20;
const BF16: &str = "c10::BFloat16";
const DECODE: &str = "execute_4_context_0(sq0sk0sqsq0sqsk0)_generation_4(sq4sk2000sqsq4sqsk2000)";

/// The trace of `serving_capture`.
pub fn trace() -> TraceBuilder {
    let mut trace = TraceBuilder::new()
        .rank(0)
        .world(1)
        .host("server")
        .pid(MAIN)
        .origin(ORIGIN_NS)
        .device("NVIDIA H100 80GB HBM3", 132)
        .top_level("with_stack", "1")
        .top_level("record_shapes", "1");
    let mut main = trace.thread(MAIN);
    capture(&mut main, us(1_000), 8, 2);
    capture(&mut main, us(2_000), 4, 0);
    warm_up(&mut main, us(3_000));
    main.frame("engine.py(88): stop_profile", us(3_400)..us(3_490));
    main.frame("engine.py(20): start_engine", us(900)..us(3_500));
    trace.window(0..us(3_500));
    trace.name_rows("python", &[(MAIN, "EngineCore")]);
    trace
}

/// Captures the graph of a batch from `start` on; `further` kernels follow those of the layers.
fn capture(main: &mut Thread, start: i64, batch: i64, further: i64) {
    let end = start + us(20) + us(40) * LAYERS + us(10) * further;
    main.annotation(&format!("capture_{batch}_FULL"), start..end + us(20));
    main.begin_capture(start + us(5)..start + us(8));
    for layer in 0..LAYERS {
        let at = start + us(10) + us(40) * layer;
        main.op("aten::mm", at + us(3)..at + us(15))
            .inputs(&[(&[batch, 2_048], BF16), (&[2_048, 2_048], BF16)]);
        main.captured_launch(LAYER[0], at + us(5)..at + us(10));
        attention(main, at + us(20)..at + us(35), batch);
        main.captured_launch(LAYER[1], at + us(25)..at + us(30));
        main.frame(&format!("nn.Module: DecoderLayer_{layer}"), at..at + us(38));
    }
    for i in 0..further {
        let at = end - us(10) * (further - i);
        main.op("aten::argmax", at + us(1)..at + us(8)).inputs(&[(&[batch, 2_048], BF16)]);
        main.captured_launch("ArgMaxOps", at + us(2)..at + us(5));
    }
    main.frame("nn.Module: ServedModel_0", start + us(9)..end);
    main.end_capture(end + us(5)..end + us(10));
    main.frame("engine.py(60): capture_model", start..end + us(20));
}

/// One iteration that launches its kernels one by one.
fn warm_up(main: &mut Thread, start: i64) {
    main.annotation(DECODE, start..start + us(200));
    attention(main, start + us(10)..start + us(30), 4);
    main.launch(start + us(15)..start + us(20)).kernel(LAYER[1], STREAM, start + us(30)..start + us(40));
    main.op("aten::mm", start + us(40)..start + us(60))
        .inputs(&[(&[4, 2_048], BF16), (&[2_048, 32_000], BF16)]);
    main.launch(start + us(45)..start + us(50)).kernel(LAYER[0], STREAM, start + us(60)..start + us(110));
    main.runtime("cudaStreamSynchronize", start + us(70)..start + us(115));
}

/// Attention of 32 heads over keys and values of 8.
fn attention(main: &mut Thread, span: std::ops::Range<i64>, batch: i64) {
    let (query, shared): (&[i64], &[i64]) = (&[batch, 32, 128], &[batch, 8, 128]);
    main.op("vllm::unified_attention_with_output", span).inputs(&[
        (query, BF16),
        (shared, BF16),
        (shared, BF16),
    ]);
}
