//! Generates the samples under `data/samples/` that are not recordings, and their known answers.
//!
//! `cargo run --release --example make_samples [DIRECTORY]` writes `gpu_ddp8/rank_*.json.gz`, `gpu_single`,
//! `gpu_counters`, `serving`, `serving_capture`, `KNOWN_ANSWERS.json` and `MANIFEST.tsv`. The output is always the same, byte for byte. The answers
//! are computed here, from the planted spans and by brute force over instants, so they share no code with the analyses
//! that they check. Times in ns.
#[path = "make_samples/answers.rs"]
mod answers;
#[path = "make_samples/backward.rs"]
mod backward;
#[path = "make_samples/forward.rs"]
mod forward;
#[path = "make_samples/job.rs"]
mod job;
#[path = "make_samples/manifest.rs"]
mod manifest;
#[path = "make_samples/rank.rs"]
mod rank;
#[path = "make_samples/serving.rs"]
mod serving;
#[path = "make_samples/serving_capture.rs"]
mod serving_capture;
#[path = "make_samples/single.rs"]
mod single;
#[path = "make_samples/work.rs"]
mod work;

use std::error::Error;
use std::fs;
use std::path::PathBuf;

use hta_testkit::Format;

use job::{FIRST_STEP, STEP_COUNT, WORLD};
use rank::Rank;

/// One all-reduce of the whole job.
pub struct Collective {
    pub step: u64,
    pub bucket: usize,
    pub sequence: u64,
    /// Start of the kernel on each rank.
    pub arrivals: Vec<i64>,
    /// The common end on all ranks.
    pub end: i64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/data/samples");
    let directory = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| default.to_owned()));
    let (ranks, collectives) = run_job();

    let set = directory.join("gpu_ddp8");
    fs::create_dir_all(&set)?;
    for rank in &ranks {
        let packed = rank.trace.to_gz(&Format::default())?;
        fs::write(set.join(format!("rank_{}.json.gz", rank.number)), packed)?;
    }
    let alone = [
        ("gpu_single", single::trace()),
        ("gpu_counters", single::counters()),
        ("serving", serving::trace()),
        ("serving_capture", serving_capture::trace()),
    ];
    for (name, trace) in alone {
        fs::create_dir_all(directory.join(name))?;
        fs::write(directory.join(name).join("rank_0.json.gz"), trace.to_gz(&Format::default())?)?;
    }
    fs::write(directory.join("KNOWN_ANSWERS.json"), answers::text(&ranks, &collectives))?;
    fs::write(directory.join("MANIFEST.tsv"), manifest::text(&directory)?)?;
    Ok(())
}

/// Runs the steps: in each step every rank submits its work, then the collectives are joined, then every rank ends its
/// step.
fn run_job() -> (Vec<Rank>, Vec<Collective>) {
    let mut ranks: Vec<Rank> = (0..WORLD).map(Rank::new).collect();
    let mut collectives = Vec::new();
    let mut start = job::FIRST_STEP_START_NS;
    for step in FIRST_STEP..FIRST_STEP + STEP_COUNT {
        let submitted: Vec<rank::Submitted> = ranks.iter_mut().map(|r| r.submit_step(step, start)).collect();
        let joined = join(step, &submitted);
        let ends: Vec<i64> =
            ranks.iter_mut().zip(submitted).map(|(rank, work)| rank.finish_step(work, &joined)).collect();
        collectives.extend(joined);
        start = ends.iter().copied().max().unwrap_or(start) + job::BETWEEN_STEPS_NS;
    }
    for rank in &mut ranks {
        rank.finish(start);
    }
    (ranks, collectives)
}

/// An all-reduce moves data only when all members have arrived, so on all ranks it ends at the last arrival + its
/// transfer.
///
/// ```text
/// rank 0    |waiting..........|transfer|
/// rank 3                      |transfer|      the last one does not wait
/// ```
fn join(step: u64, submitted: &[rank::Submitted]) -> Vec<Collective> {
    let mut previous_end = i64::MIN;
    let mut joined = Vec::new();
    for (bucket, shape) in job::BUCKETS.iter().enumerate() {
        let free = previous_end.saturating_add(job::BETWEEN_COLLECTIVES_NS);
        let arrivals: Vec<i64> =
            submitted.iter().map(|work| (work.ready[bucket] + job::EVENT_LATENCY_NS).max(free)).collect();
        let end = arrivals.iter().copied().max().unwrap_or(0) + shape.transfer_ns;
        joined.push(Collective { step, bucket, sequence: job::sequence(step, bucket), arrivals, end });
        previous_end = end;
    }
    joined
}
