//! The job of `gpu_ddp8` and its planted problems: data-parallel training of a six-layer network on two hosts with four
//! GPUs each. All numbers that a test may expect are defined here. Times in ns.

use hta_testkit::{Collective, DEFAULT_BASE_NS, ms, us};

pub const WORLD: u32 = 8;
pub const GPUS_PER_HOST: u32 = 4;
pub const FIRST_STEP: u64 = 10;
pub const STEP_COUNT: u64 = 5;
pub const LAYERS: u64 = 6;

/// Unix time of the builder's time 0, the same on all ranks, so the clocks agree.
pub const ORIGIN_NS: i64 = DEFAULT_BASE_NS + 4_369_298_123_456_000;
pub const FIRST_STEP_START_NS: i64 = ms(1);
pub const BETWEEN_STEPS_NS: i64 = us(50);

/// Every rank waits this long for data in every step, with an idle GPU,
pub const LOADER_NS: i64 = ms(2);
/// and this rank waits longer in one step.
pub const SLOW_LOADER_RANK: u32 = 5;
pub const SLOW_LOADER_STEP: u64 = 12;
pub const SLOW_LOADER_EXTRA_NS: i64 = us(2_500);

/// One kernel of the forward pass is slower on one rank, in every step.
pub const SLOW_KERNEL: &str = "slow_gemm_kernel_128x128x32_tn(GemmParams)";
pub const SLOW_KERNEL_NS: i64 = us(500);
pub const LATE_RANK: u32 = 3;
pub const LATE_RANK_EXTRA_NS: i64 = ms(6);

/// Small natural differences between ranks, in one kernel of the forward pass.
pub const SPREAD_NS: [i64; WORLD as usize] = [us(0), us(7), us(3), us(5), us(9), us(2), us(6), us(4)];

pub const COPY_BYTES: u64 = 4_194_304;
pub const COPY_NS: i64 = us(350);
pub const LABELS_BYTES: u64 = 65_536;
pub const LABELS_NS: i64 = us(30);

pub const GEMM_NS: i64 = us(400);
pub const GELU_NS: i64 = us(60);
pub const LOSS_NS: i64 = us(12);
pub const GELU_BACKWARD_NS: i64 = us(60);
pub const INPUT_GRADIENT_NS: i64 = us(400);
pub const WEIGHT_GRADIENT_NS: i64 = us(440);
pub const MEMSET_NS: i64 = us(3);
pub const ADAM_NS: i64 = us(250);

/// Gap between kernels of the forward pass and of the optimizer. The backward pass has no gaps, so that overlap is
/// exact.
pub const KERNEL_GAP_NS: i64 = 800;
/// From the end of the gradients of a bucket to the start of its all-reduce.
pub const EVENT_LATENCY_NS: i64 = 1_200;
pub const BETWEEN_COLLECTIVES_NS: i64 = us(1);

pub const COMPUTE_STREAM: i64 = 7;
pub const COPY_STREAM: i64 = 13;
pub const NCCL_STREAM: i64 = 20;

/// A bucket of gradients, which is reduced when the backward pass of `after_layer` is done.
pub struct Bucket {
    pub after_layer: u64,
    pub elements: u64,
    pub transfer_ns: i64,
}

/// The first two fit under the backward pass, the last is fully exposed: on the late rank, which never waits, 1.5 + 1.5
/// of 5 ms are overlapped.
pub const BUCKETS: [Bucket; 3] = [
    Bucket { after_layer: 4, elements: 6_553_600, transfer_ns: us(1_500) },
    Bucket { after_layer: 2, elements: 6_553_600, transfer_ns: us(1_500) },
    Bucket { after_layer: 0, elements: 8_388_608, transfer_ns: us(2_000) },
];

pub fn loader_ns(rank: u32, step: u64) -> i64 {
    let slow = (rank, step) == (SLOW_LOADER_RANK, SLOW_LOADER_STEP);
    LOADER_NS + if slow { SLOW_LOADER_EXTRA_NS } else { 0 }
}

pub fn slow_kernel_ns(rank: u32) -> i64 {
    SLOW_KERNEL_NS + if rank == LATE_RANK { LATE_RANK_EXTRA_NS } else { 0 }
}

pub fn spread_ns(rank: u32) -> i64 {
    SPREAD_NS.get(rank as usize).copied().unwrap_or(0)
}

pub fn host(rank: u32) -> String {
    format!("node-{}", rank / GPUS_PER_HOST)
}

pub fn sequence(step: u64, bucket: usize) -> u64 {
    step * BUCKETS.len() as u64 + bucket as u64 + 1
}

pub fn size_bytes(bucket: &Bucket) -> u64 {
    bucket.elements * 4
}

pub fn collective(step: u64, bucket: usize) -> Collective {
    Collective::all_reduce(BUCKETS[bucket].elements, "Float")
        .group("0", "default_pg", 0..WORLD)
        .seq(sequence(step, bucket))
        .comms_id(10_159_970_886_766_084_423)
}

/// Jitter of host calls: up to 900 ns, reproducible.
pub fn jitter_ns(state: &mut u64) -> i64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    ((mixed >> 40) % 900) as i64
}
