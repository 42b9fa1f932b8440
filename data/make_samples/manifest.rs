//! `MANIFEST.tsv`: description, origin and checksum of each sample file.

use std::fs;
use std::io;
use std::path::Path;

const MADE: &str = "cargo run --release --example make_samples";
const SIMULATED: &str = "a simulation whose times are known exactly, unchanged";
const WRITTEN: &str = "planted rows, written by torch 2.15.0, unchanged";
const RECORDED: &str = "own recording, torch 2.15.0 on CPU, unchanged";

/// Path, description, and how it was made.
fn entries() -> Vec<(String, String, &'static str)> {
    let mut entries = vec![
        (
            "KNOWN_ANSWERS.json".to_owned(),
            "what was planted in gpu_ddp8, and the times that follow from it".to_owned(),
            MADE,
        ),
        (
            "cpu_single/cpu_awkward_names.pt.trace.json".to_owned(),
            "one CPU process; names with quotes, backslashes, newlines, emoji, markup".to_owned(),
            RECORDED,
        ),
        (
            "cpu_single/cpu_modules_stack_memory.pt.trace.json.gz".to_owned(),
            "one CPU process; modules, Python stacks, shapes, memory events".to_owned(),
            RECORDED,
        ),
        (
            "gloo_ddp4/ground_truth.json".to_owned(),
            "what was planted in gloo_ddp4: rank 2 sleeps in every forward pass".to_owned(),
            RECORDED,
        ),
    ];
    for rank in 0..4 {
        let what = format!("rank {rank} of 4, Gloo on CPU, data-parallel training, 3 steps");
        entries.push((format!("gloo_ddp4/rank_{rank}.pt.trace.json.gz"), what, RECORDED));
    }
    for rank in 0..crate::job::WORLD {
        let host = crate::job::host(rank);
        let what =
            format!("rank {rank} of 8 on {host}, NCCL on GPUs, data-parallel training, 5 steps; synthetic");
        entries.push((format!("gpu_ddp8/rank_{rank}.json.gz"), what, MADE));
    }
    for rank in 0..4 {
        let pipeline = format!(
            "rank {rank} of 4, a pipeline of four stages (1F1B, 8 micro-batches), 3 steps; synthetic"
        );
        entries.push((format!("gpu_pp4/rank_{rank}.json.gz"), pipeline, SIMULATED));
    }
    for rank in 0..4 {
        let experts =
            format!("rank {rank} of 4, expert parallelism, 3 layers of experts, 10 steps; synthetic");
        entries.push((format!("gpu_ep4/rank_{rank}.json.gz"), experts, SIMULATED));
    }
    let single = "one GPU, 8 steps: short kernels launched one by one, a graph, pageable and small copies, a slow step; synthetic";
    entries.push(("gpu_single/rank_0.json.gz".to_owned(), single.to_owned(), MADE));
    let counters = "replayed hardware counters of four kernels, as the range profiler writes them; synthetic";
    entries.push(("gpu_counters/rank_0.json.gz".to_owned(), counters.to_owned(), MADE));
    let cuspy =
        "one GPU, 3 steps, with samples of power, clocks and utilization, as Cuspy writes them; synthetic";
    entries.push(("gpu_cuspy/rank_0.json.gz".to_owned(), cuspy.to_owned(), WRITTEN));
    let pftrace = "the same as Perfetto protobuf; synthetic";
    entries.push(("gpu_pftrace/rank_0.pftrace.gz".to_owned(), pftrace.to_owned(), WRITTEN));
    let serving = "an inference engine on one GPU, 3 iterations: a prompt, then two decode steps from a graph; synthetic";
    entries.push(("serving/rank_0.json.gz".to_owned(), serving.to_owned(), MADE));
    let capture = "the same engine while it captures the graphs of two batches; synthetic";
    entries.push(("serving_capture/rank_0.json.gz".to_owned(), capture.to_owned(), MADE));
    entries
}

/// The table. A missing file is an error, because the manifest lists the files of the repository.
pub fn text(directory: &Path) -> io::Result<String> {
    let mut lines = vec!["path\tbytes\tsha256\twhat\thow".to_owned()];
    for (path, what, how) in entries() {
        let file = directory.join(&path);
        let bytes = fs::read(&file)
            .map_err(|e| io::Error::new(e.kind(), format!("cannot read {}: {e}", file.display())))?;
        lines.push(format!("{path}\t{}\t{}\t{what}\t{how}", bytes.len(), sha256(&bytes)));
    }
    Ok(lines.join("\n") + "\n")
}

/// SHA-256 (FIPS 180-4) in hexadecimal; implemented here to avoid a dependency for a single checksum.
fn sha256(data: &[u8]) -> String {
    let mut padded = data.to_vec();
    padded.push(0x80);
    while padded.len() % 64 != 56 {
        padded.push(0);
    }
    padded.extend((data.len() as u64 * 8).to_be_bytes());
    let (mut state, constants) = (roots(2, 8), roots(3, 64));
    for block in padded.chunks_exact(64) {
        compress(&mut state, block, &constants);
    }
    state.iter().map(|word| format!("{word:08x}")).collect()
}

/// First 32 bits of the fractions of the square (2) or cube (3) roots of the first primes.
fn roots(degree: u32, count: usize) -> Vec<u32> {
    let is_prime = |n: &u128| (2..*n).take_while(|d| d * d <= *n).all(|d| !n.is_multiple_of(d));
    (2_u128..).filter(is_prime).take(count).map(|prime| fraction_of_root(prime, degree)).collect()
}

/// floor(prime^(1/degree) * 2^32) by bisection, without floating point.
fn fraction_of_root(prime: u128, degree: u32) -> u32 {
    let scaled = prime << (32 * degree);
    let (mut low, mut high) = (0_u128, 1_u128 << 37);
    while high - low > 1 {
        let middle = (low + high) / 2;
        if middle.pow(degree) <= scaled { low = middle } else { high = middle }
    }
    low as u32
}

fn compress(state: &mut [u32], block: &[u8], constants: &[u32]) {
    let mut words: Vec<u32> =
        block.chunks_exact(4).map(|b| b.iter().fold(0, |word, byte| word << 8 | u32::from(*byte))).collect();
    for at in 16..64 {
        let (w15, w2) = (words[at - 15], words[at - 2]);
        let s0 = w15.rotate_right(7) ^ w15.rotate_right(18) ^ (w15 >> 3);
        let s1 = w2.rotate_right(17) ^ w2.rotate_right(19) ^ (w2 >> 10);
        words.push(words[at - 16].wrapping_add(s0).wrapping_add(words[at - 7]).wrapping_add(s1));
    }
    let mut v = state.to_vec();
    for (word, constant) in words.iter().zip(constants) {
        let s1 = v[4].rotate_right(6) ^ v[4].rotate_right(11) ^ v[4].rotate_right(25);
        let choice = (v[4] & v[5]) ^ (!v[4] & v[6]);
        let first = v[7].wrapping_add(s1).wrapping_add(choice).wrapping_add(*constant).wrapping_add(*word);
        let s0 = v[0].rotate_right(2) ^ v[0].rotate_right(13) ^ v[0].rotate_right(22);
        let majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
        v.rotate_right(1);
        v[4] = v[4].wrapping_add(first);
        v[0] = first.wrapping_add(s0).wrapping_add(majority);
    }
    for (word, change) in state.iter_mut().zip(&v) {
        *word = word.wrapping_add(*change);
    }
}
