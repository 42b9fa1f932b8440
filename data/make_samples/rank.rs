//! One rank of the job: the work of its host and its GPU in a step.
//!
//! ```text
//! main       |loader....|copy|fwd|backward|opt|cudaDeviceSynchronize...................|
//! autograd                       |ops....|
//! stream 7               |cp| |forward.....|backward..................|         |adam|
//! stream 20                                        |all-reduce|all-reduce|all-reduce|
//! ```
//!
//! The host submits a whole step ahead of the GPU, so only the loader, the first copy and the first kernel depend on
//! the host; everything else depends on the GPU.

use std::ops::Range;

use hta_testkit::{Call, SyncKind, TestRow, TraceBuilder, us};

use crate::Collective;
use crate::job::{self, COMPUTE_STREAM, KERNEL_GAP_NS};
use crate::work::{self, Input, Kernel};

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Class {
    Compute,
    Communication,
    Memory,
}

/// A planted span of GPU work.
pub struct Planted {
    pub class: Class,
    pub span: Range<i64>,
}

pub struct Step {
    pub number: u64,
    pub span: Range<i64>,
    pub loader: Range<i64>,
}

pub struct Rank {
    pub number: u32,
    pub trace: TraceBuilder,
    pub planted: Vec<Planted>,
    pub steps: Vec<Step>,
    pub main: i64,
    pub autograd: i64,
    pub compute_end: i64,
    pub jitter: u64,
    /// Sequence number and start of the operators that create autograd nodes.
    pub forward_starts: Vec<(u64, i64)>,
}

/// A step whose work is submitted, but whose collectives have no end yet.
pub struct Submitted {
    step: u64,
    start: i64,
    loader: Range<i64>,
    gpu_start: i64,
    host: i64,
    /// When the gradients of each bucket are ready.
    pub ready: Vec<i64>,
    all_reduces: Vec<Option<u64>>,
    optimizer: Vec<Option<u64>>,
}

impl Rank {
    pub fn new(number: u32) -> Self {
        let pid = 4000 + i64::from(number) * 131;
        let mut trace = TraceBuilder::new()
            .rank(number)
            .world(job::WORLD)
            .host(&job::host(number))
            .backend("nccl")
            .pid(pid)
            .device_index(i64::from(number % job::GPUS_PER_HOST))
            .origin(job::ORIGIN_NS)
            .with_flows()
            .top_level("with_stack", "1")
            .top_level("record_shapes", "1")
            .top_level("traceName", &format!("\"rank_{number}.json\""));
        for _ in 0..job::GPUS_PER_HOST {
            trace = trace.device("NVIDIA H100 80GB HBM3", 132);
        }
        trace.overhead("Activity Buffer Request", us(100)..us(900));
        Rank {
            number,
            trace,
            planted: Vec::new(),
            steps: Vec::new(),
            main: pid,
            autograd: pid + 57,
            compute_end: 0,
            jitter: u64::from(number) + 1,
            forward_starts: Vec::new(),
        }
    }

    /// The host's work up to the synchronisation, and the GPU's work up to the last gradient.
    pub fn submit_step(&mut self, step: u64, start: i64) -> Submitted {
        let loader = self.load(step, start);
        let (gpu_start, host) = self.copy_inputs(loader.end + us(30));
        let host = self.forward(step, host + us(20));
        let (host, ready, all_reduces) = self.backward(step, host + us(15));
        let (host, optimizer) = self.submit_optimizer(host + us(25));
        Submitted { step, start, loader, gpu_start, host, ready, all_reduces, optimizer }
    }

    /// The GPU's work once the collectives are known. Returns the end of the step.
    pub fn finish_step(&mut self, work: Submitted, collectives: &[Collective]) -> i64 {
        for (collective, launch) in collectives.iter().zip(&work.all_reduces) {
            self.all_reduce(collective, launch.unwrap_or(0));
        }
        let reduced = collectives.last().map_or(0, |c| c.end);
        let gpu_end = self.optimizer(&work.optimizer, reduced);
        let (main, step) = (self.main, work.step);
        let end = gpu_end + us(20);
        let sync = work.host + us(10)..gpu_end + us(8);
        let mut thread = self.trace.thread(main);
        thread.frame("torch/cuda/__init__.py(1040): synchronize", work.host + us(6)..gpu_end + us(10));
        thread.call(Call::DeviceSync, sync.clone()).sync_row(
            SyncKind::ContextSync,
            -1,
            sync.start + us(1)..sync.end - us(1),
        );
        thread.frame("train.py(38): train_step", work.loader.end + us(10)..gpu_end + us(12));
        let id = thread.step(step, work.start..end).external_id().unwrap_or(0);
        let name = format!("ProfilerStep#{step}");
        self.trace
            .gpu_annotation(&name, COMPUTE_STREAM, work.gpu_start - 1..gpu_end + 1)
            .arg("External id", id);
        self.steps.push(Step { number: step, span: work.start..end, loader: work.loader });
        end
    }

    /// Adds the rows at the end of a file.
    pub fn finish(&mut self, end: i64) {
        let (main, autograd) = (self.main, self.autograd);
        self.trace.thread(main).frame("train.py(61): main", us(950)..end + us(100));
        self.trace.window(0..end + us(500));
        self.trace.name_rows("python", &[(main, "python"), (autograd, "pt_autograd_0")]);
    }

    /// One fill and two fused kernels.
    fn submit_optimizer(&mut self, at: i64) -> (i64, Vec<Option<u64>>) {
        let mut thread = self.trace.thread(self.main);
        thread
            .frame("torch/optim/optimizer.py(474): wrapper", at - us(8)..at + us(92))
            .called_from("train.py:45");
        thread.annotation("Optimizer.step#AdamW.step", at..at + us(90));
        thread.frame("torch/optim/adamw.py(209): step", at + us(5)..at + us(86));
        thread.op("aten::zero_", at + us(10)..at + us(22));
        let fill = thread.call(Call::Set, at + us(14)..at + us(18)).correlation();
        let mut launches = vec![fill];
        for half in 0..2 {
            let op = at + us(26 + 28 * half);
            thread.op("aten::_fused_adamw_", op..op + us(24));
            let wobble = job::jitter_ns(&mut self.jitter);
            launches.push(thread.launch(op + us(14)..op + us(18) + wobble).correlation());
        }
        (at + us(92), launches)
    }

    fn optimizer(&mut self, launches: &[Option<u64>], reduced: i64) -> i64 {
        let mut at = reduced + EVENT_TO_OPTIMIZER_NS;
        let begin = at;
        for (n, launch) in launches.iter().enumerate() {
            let row = self.trace.linked(launch.unwrap_or(0));
            let class = match n {
                0 => {
                    row.memset(COMPUTE_STREAM, 1_048_576, at..at + job::MEMSET_NS);
                    Class::Memory
                }
                _ => {
                    shaped(row.kernel(work::ADAM.name, COMPUTE_STREAM, at..at + job::ADAM_NS), &work::ADAM);
                    Class::Compute
                }
            };
            let end = at + if n == 0 { job::MEMSET_NS } else { job::ADAM_NS };
            self.planted.push(Planted { class, span: at..end });
            self.compute_end = end;
            at = end + KERNEL_GAP_NS;
        }
        let name = "Optimizer.step#AdamW.step";
        self.trace.gpu_annotation(name, COMPUTE_STREAM, begin - 1..self.compute_end + 1);
        self.compute_end
    }

    /// Launches a kernel at a host time; it starts when the stream is free.
    pub fn compute(&mut self, tid: i64, launch: i64, kernel: &Kernel, gap: i64, dur: i64) {
        let start = (self.compute_end + gap).max(launch + us(5));
        let wobble = job::jitter_ns(&mut self.jitter);
        let mut thread = self.trace.thread(tid);
        let row = thread.launch(launch..launch + us(3) + wobble);
        shaped(row.kernel(kernel.name, COMPUTE_STREAM, start..start + dur), kernel);
        self.compute_end = start + dur;
        self.planted.push(Planted { class: Class::Compute, span: start..start + dur });
    }

    pub fn op(&mut self, tid: i64, name: &str, span: Range<i64>, inputs: &[Input], forward: Option<u64>) {
        let start = span.start;
        let mut thread = self.trace.thread(tid);
        let row = thread.op(name, span).inputs(inputs);
        if let Some(number) = forward {
            row.sequence(number, 0);
            self.forward_starts.push((number, start));
        }
    }
}

/// From the end of the last all-reduce to the optimizer on the compute stream.
const EVENT_TO_OPTIMIZER_NS: i64 = 1_500;

fn shaped<'a>(row: TestRow<'a>, kernel: &Kernel) -> TestRow<'a> {
    row.grid(kernel.grid)
        .block(kernel.block)
        .arg("registers per thread", kernel.registers)
        .arg("shared memory", kernel.shared_bytes)
}
