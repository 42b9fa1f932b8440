//! `gpu_single`: one GPU with the usual problems of a slow host, and `gpu_counters`: replayed hardware counters.
//!
//! ```text
//! main      |loader|pageable copy|small copies|cells: 72 launches....|graph|item: sync|40 launches|sync|
//! stream 7         |cp           |............|k k k  k k k  k k k...|kkkkk|cp        |kkkkkkkkkkkkkkkk|
//! ```
//!
//! Planted in every step: a loop body of three short kernels that the host launches one by one, so that the GPU waits
//! for the host; ten kernels in one graph launch; a blocking copy from pageable memory and small copies; a value that
//! is read back; then long kernels that queue up. One step has a longer loader and an additional kernel, one takes
//! memory from the device and gives it back. Each cell allocates an activation, which backward frees; the first step also
//! allocates a state that stays. Times in ns.

use hta_testkit::{Call, SyncKind, TraceBuilder, us};
use std::ops::Range;

const ORIGIN_NS: i64 = 1_760_000_000_000_000_000;
const MAIN: i64 = 7_100;
const STREAM: i64 = 7;
pub const FIRST_STEP: u64 = 20;
pub const STEPS: u64 = 8;
/// The loader and the kernels of this step take longer.
pub const SLOW_STEP: u64 = 25;
/// This step allocates and frees device memory.
pub const ALLOCATING_STEP: u64 = 26;
/// The last kernel of this step has no launch record.
pub const UNLINKED_STEP: u64 = 27;
pub const LOADER_NS: i64 = 1_500_000;
pub const SLOW_LOADER_EXTRA_NS: i64 = 4_000_000;
pub const EXTRA_KERNEL_NS: i64 = 900_000;
pub const CELLS: i64 = 24;
/// Kernels of a cell: name, operator, duration.
pub const CELL: [(&str, &str, i64); 3] = [
    ("ampere_sgemm_32x32_sliced1x4_tn", "aten::mm", 4_000),
    (
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)",
        "aten::add",
        2_000,
    ),
    (
        "void at::native::vectorized_elementwise_kernel<4, at::native::tanh_kernel_cuda(at::TensorIteratorBase&)>(int)",
        "aten::tanh",
        2_000,
    ),
];
pub const PAGEABLE_BYTES: u64 = 8 << 20;
const PAGEABLE_NS: i64 = 1_400_000;
pub const SMALL_COPIES: i64 = 16;
pub const SMALL_BYTES: u64 = 4 << 10;
pub const GRAPH_KERNELS: i64 = 10;
pub const LONG_KERNELS: i64 = 40;
pub const LONG_NS: i64 = 100_000;
/// Allocated on the device before the recording, and reserved.
const BEFORE_BYTES: i64 = 64 << 20;
const RESERVED_BYTES: i64 = 128 << 20;
/// What each cell allocates.
const ACTIVATION_BYTES: i64 = 256 << 10;
/// What the first step allocates and keeps.
const STATE_BYTES: i64 = 2 << 20;
/// The kernel of the backward pass whose operator allocates the state.
const STATE_KERNEL: i64 = LONG_KERNELS - 4;

/// The trace of `gpu_single`.
pub fn trace() -> TraceBuilder {
    let mut job = Job {
        trace: TraceBuilder::new()
            .rank(0)
            .world(1)
            .host("workstation")
            .pid(MAIN)
            .origin(ORIGIN_NS)
            .with_flows()
            .device("NVIDIA A100-SXM4-40GB", 108)
            .top_level("with_stack", "1")
            .top_level("record_shapes", "1")
            .top_level("profile_memory", "1"),
        free: 0,
        allocated: BEFORE_BYTES,
    };
    let mut at = us(1_000);
    for step in FIRST_STEP..FIRST_STEP + STEPS {
        at = job.step(step, at) + us(40);
    }
    let mut trace = job.trace;
    trace.thread(MAIN).frame("train.py(88): main", us(900)..at + us(100));
    trace.window(0..at + us(500));
    trace.name_rows("python", &[(MAIN, "python")]);
    trace
}

struct Job {
    trace: TraceBuilder,
    /// When the stream becomes free.
    free: i64,
    /// Memory that is allocated on the device.
    allocated: i64,
}

impl Job {
    /// An allocation (positive) or a free on the device.
    fn memory(&mut self, ts: i64, slot: i64, bytes: i64) {
        const FIRST_ADDRESS: u64 = 0x7f00_0000_0000;
        self.allocated += bytes;
        let address = FIRST_ADDRESS + (slot as u64) * (STATE_BYTES as u64);
        self.trace.thread(MAIN).memory(ts, address, bytes, self.allocated).on_device(0, RESERVED_BYTES);
    }

    fn step(&mut self, step: u64, start: i64) -> i64 {
        let slow = step == SLOW_STEP;
        let loader = start + us(10)..start + us(10) + LOADER_NS + if slow { SLOW_LOADER_EXTRA_NS } else { 0 };
        let mut thread = self.trace.thread(MAIN);
        thread.data_loader(loader.clone());
        thread.frame("dataset.py(19): __getitem__", loader.start + us(5)..loader.end - us(5));
        let mut at = self.copies(loader.end + us(20));
        let forward = at;
        at = self.cells(at + us(5));
        at = self.graph(at + us(10));
        self.trace.thread(MAIN).annotation("forward", forward..at);
        self.trace.thread(MAIN).frame("nn.Module: Decoder_0", forward + us(1)..at - us(1)).module(0);
        at = self.item(at + us(10));
        if step == ALLOCATING_STEP {
            let mut thread = self.trace.thread(MAIN);
            thread.op("aten::empty", at..at + us(2_100));
            thread.call(Call::Allocate, at + us(20)..at + us(2_020));
            thread.runtime("cudaFree", at + us(2_200)..at + us(3_100));
            at += us(3_150);
        }
        let backward = at;
        at = self.long_kernels(step, at + us(5));
        self.trace.thread(MAIN).annotation("backward", backward..at);
        let sync = at + us(5)..self.free.max(at + us(5)) + us(6);
        self.trace.thread(MAIN).call(Call::DeviceSync, sync.clone()).sync_row(
            SyncKind::ContextSync,
            -1,
            sync.start + us(1)..sync.end - us(1),
        );
        let end = sync.end + us(15);
        self.trace.thread(MAIN).step(step, start..end);
        end
    }

    /// A blocking copy from pageable memory, then small ones.
    fn copies(&mut self, at: i64) -> i64 {
        let copy = at + us(8)..at + us(8) + PAGEABLE_NS;
        let mut thread = self.trace.thread(MAIN);
        thread.op("aten::copy_", at..copy.end + us(10));
        thread.call(Call::Copy, at + us(3)..copy.end + us(4)).memcpy(
            "HtoD (Pageable -> Device)",
            STREAM,
            PAGEABLE_BYTES,
            copy.clone(),
        );
        let mut next = copy.end + us(20);
        for _ in 0..SMALL_COPIES {
            thread.op("aten::copy_", next..next + us(12));
            thread.call(Call::Copy, next + us(3)..next + us(9)).memcpy(
                "HtoD (Pinned -> Device)",
                STREAM,
                SMALL_BYTES,
                next + us(10)..next + 11_500,
            );
            next += us(14);
        }
        self.free = next;
        next + us(5)
    }

    /// Three short kernels per cell, each launched separately and shorter than its launch.
    fn cells(&mut self, mut at: i64) -> i64 {
        let begin = at;
        for cell in 0..CELLS {
            let inside = at;
            for (name, operator, dur) in CELL {
                let mut thread = self.trace.thread(MAIN);
                thread.op(operator, at..at + us(13)).inputs(&[(&[64, 256], "float"), (&[256, 256], "float")]);
                let start = self.free.max(at + us(11));
                thread
                    .launch(at + us(4)..at + us(10))
                    .kernel(name, STREAM, start..start + dur)
                    .grid([8, 1, 1]);
                self.free = start + dur;
                if operator == "aten::add" {
                    self.memory(at + us(2), cell, ACTIVATION_BYTES);
                }
                at += us(15);
            }
            self.trace
                .thread(MAIN)
                .frame(&format!("nn.Module: Cell_{}", cell % 4), inside..at - us(1))
                .module(cell as u64 % 4 + 1);
        }
        self.trace.gpu_annotation("forward", STREAM, begin + us(11) - 1..self.free + 1);
        at
    }

    fn graph(&mut self, at: i64) -> i64 {
        let mut thread = self.trace.thread(MAIN);
        let mut row = thread.graph_launch(at..at + us(25));
        let mut start = self.free.max(at + us(27));
        for node in 0..GRAPH_KERNELS {
            row = row
                .kernel("void fused_decoder_kernel<float>(Params)", STREAM, start..start + us(20))
                .grid([216, 1, 1])
                .graph_node(5, node as u64);
            start += us(20) + 500;
        }
        self.free = start;
        at + us(25)
    }

    /// Reads a value back: the host waits for all submitted work.
    fn item(&mut self, at: i64) -> i64 {
        let copy = self.free.max(at + us(12))..self.free.max(at + us(12)) + us(2);
        let sync = at + us(14)..copy.end.max(at + us(14)) + us(5);
        let mut thread = self.trace.thread(MAIN);
        thread.op("aten::item", at..sync.end + us(4));
        thread.op("aten::_local_scalar_dense", at + us(1)..sync.end + us(3));
        thread.call(Call::Copy, at + us(4)..at + us(11)).memcpy(
            "DtoH (Device -> Pageable)",
            STREAM,
            4,
            copy.clone(),
        );
        thread.call(Call::StreamSync, sync.clone()).sync_row(
            SyncKind::StreamSync,
            STREAM,
            sync.start + 500..sync.end - 500,
        );
        self.free = copy.end;
        sync.end + us(8)
    }

    fn long_kernels(&mut self, step: u64, mut at: i64) -> i64 {
        let extra = if step == SLOW_STEP {
            Some(("void recompute_kernel<float>(float*)", EXTRA_KERNEL_NS))
        } else {
            None
        };
        let long = (0..LONG_KERNELS).map(|_| ("ampere_sgemm_128x64_nn", LONG_NS));
        for (k, (name, dur)) in long.chain(extra).enumerate() {
            let start = (self.free + us(1)).max(at + us(8));
            if step == UNLINKED_STEP && k as i64 == LONG_KERNELS - 1 {
                self.trace.unlinked().kernel(name, STREAM, start..start + dur).grid([432, 1, 1]);
            } else {
                let mut thread = self.trace.thread(MAIN);
                thread
                    .op("aten::mm", at..at + us(9))
                    .inputs(&[(&[2048, 128], "float"), (&[128, 2048], "float")]);
                thread
                    .launch(at + us(3)..at + us(7))
                    .kernel(name, STREAM, start..start + dur)
                    .grid([432, 1, 1]);
            }
            self.free = start + dur;
            if (k as i64) < CELLS {
                self.memory(at + us(2), CELLS - 1 - k as i64, -ACTIVATION_BYTES);
            }
            if step == FIRST_STEP && k as i64 == STATE_KERNEL {
                self.memory(at + us(2), CELLS, STATE_BYTES);
            }
            at += us(11);
        }
        at
    }
}

/// Counters of the ranges of `gpu_counters`: multiply-adds, multiplications and additions of a launch.
pub const COUNTED: [(&str, i64, i64, i64); 4] = [
    ("aten::mm", 1_048_576, 0, 0),
    ("aten::add", 0, 0, 65_536),
    ("aten::mul", 0, 65_536, 0),
    ("aten::mm", 2_097_152, 0, 1_024),
];

/// The trace of `gpu_counters`. The profiler replays each kernel for its counters, so the times are meaningless.
pub fn counters() -> TraceBuilder {
    let mut trace =
        TraceBuilder::new().rank(0).pid(MAIN).origin(ORIGIN_NS).device("NVIDIA A100-SXM4-40GB", 108);
    for (k, (op, ..)) in COUNTED.iter().enumerate() {
        let at = us(100) + us(50) * k as i64;
        let mut thread = trace.thread(MAIN);
        thread.op("model::block", at..at + us(40));
        thread.op(op, at + us(5)..at + us(35));
        thread.launch(at + us(10)..at + us(30));
    }
    for (k, (op, fma, mul, add)) in COUNTED.iter().enumerate() {
        let span: Range<i64> = us(1_000) + us(100) * k as i64..us(1_100) + us(100) * k as i64;
        let count = |name: &str| format!("smsp__sass_thread_inst_executed_op_{name}_pred_on.sum");
        trace
            .event("cuda_profiler_range", &format!("{}_kernel", op.trim_start_matches("aten::")), 0, 0, span)
            .arg(&count("ffma"), *fma)
            .arg(&count("fmul"), *mul)
            .arg(&count("fadd"), *add);
    }
    trace.window(0..us(2_000));
    trace
}
