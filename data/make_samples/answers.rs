//! `KNOWN_ANSWERS.json`: the correct results of an analysis of `gpu_ddp8`, computed from the planted spans alone.
//!
//! Time is cut at every planted start and end; between two cuts nothing changes, so each piece is classified by what
//! runs in it. Slow and simple on purpose. Times in ns, instants in Unix ns.

use std::ops::Range;

use crate::Collective;
use crate::job;
use crate::rank::{Class, Planted, Rank, Step};

pub fn text(ranks: &[Rank], collectives: &[Collective]) -> String {
    let parts = [
        field("set", &quoted("gpu_ddp8")),
        field("unit", &quoted("ns; instants are Unix ns; overlap_ratio = overlap_ns / communication_ns")),
        field("planted", &planted(collectives)),
        field("collectives", &list(collectives.iter().map(collective).collect(), "  ")),
        field("ranks", &list(ranks.iter().map(rank).collect(), "  ")),
    ];
    format!("{{\n  {}\n}}\n", parts.join(",\n  "))
}

fn planted(collectives: &[Collective]) -> String {
    let overlap: i64 = job::BUCKETS.iter().take(2).map(|b| b.transfer_ns).sum();
    let all: i64 = job::BUCKETS.iter().map(|b| b.transfer_ns).sum();
    let gains: Vec<i64> = collectives.iter().filter(|c| c.bucket == 0).map(gain).collect();
    let lateness: Vec<i64> =
        collectives.iter().filter(|c| c.bucket == 0).map(|c| late_by(c, job::LATE_RANK)).collect();
    let loader_lateness: Vec<i64> = collectives
        .iter()
        .filter(|c| c.bucket == 0 && c.step == job::SLOW_LOADER_STEP)
        .map(|c| late_by(c, job::SLOW_LOADER_RANK))
        .collect();
    let facts = [
        object(&[
            ("fact", quoted("overlap")),
            (
                "what",
                quoted(
                    "on the late rank, which never waits, two of three all-reduces of a step are covered by compute",
                ),
            ),
            ("rank", job::LATE_RANK.to_string()),
            ("communication_ns_per_step", all.to_string()),
            ("overlap_ns_per_step", overlap.to_string()),
            ("overlap_ratio", "0.6".to_owned()),
        ]),
        object(&[
            ("fact", quoted("idle")),
            ("what", quoted("in every step the GPU is idle while the host is in the data loader")),
            ("annotation", quoted("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__")),
            ("idle_in_loader_ns_per_step", job::LOADER_NS.to_string()),
            ("slow_rank", job::SLOW_LOADER_RANK.to_string()),
            ("slow_step", job::SLOW_LOADER_STEP.to_string()),
            ("slow_idle_in_loader_ns", (job::LOADER_NS + job::SLOW_LOADER_EXTRA_NS).to_string()),
            ("slow_frame", quoted("dataset.py(41): decode_image")),
            ("slow_first_arrival_minus_median_of_others_ns", numbers(&loader_lateness)),
        ]),
        object(&[
            ("fact", quoted("late_rank")),
            ("what", quoted("one kernel takes longer on one rank, so the others wait for it in every step")),
            ("rank", job::LATE_RANK.to_string()),
            ("host", quoted(&job::host(job::LATE_RANK))),
            ("kernel", quoted(job::SLOW_KERNEL)),
            ("kernel_ns", job::slow_kernel_ns(job::LATE_RANK).to_string()),
            ("kernel_ns_on_others", job::SLOW_KERNEL_NS.to_string()),
            ("extra_ns_per_step", job::LATE_RANK_EXTRA_NS.to_string()),
            ("first_arrival_minus_second_last_ns_by_step", numbers(&gains)),
            ("first_arrival_minus_median_of_others_ns_by_step", numbers(&lateness)),
        ]),
        object(&[
            ("fact", quoted("clocks")),
            ("what", quoted("all ranks share one clock; every collective ends at one instant")),
            ("offset_ns", numbers(&[0; job::WORLD as usize])),
        ]),
    ];
    list(facts.to_vec(), "  ")
}

fn collective(c: &Collective) -> String {
    let shape = &job::BUCKETS[c.bucket];
    let last = c.arrivals.iter().copied().max().unwrap_or(c.end);
    let last_rank = c.arrivals.iter().position(|a| *a == last).unwrap_or(0);
    let unix: Vec<i64> = c.arrivals.iter().map(|a| a + job::ORIGIN_NS).collect();
    let waits: Vec<i64> = c.arrivals.iter().map(|a| last - a).collect();
    object(&[
        ("step", c.step.to_string()),
        ("bucket", c.bucket.to_string()),
        ("kind", quoted("allreduce")),
        ("seq", c.sequence.to_string()),
        ("size_bytes", job::size_bytes(shape).to_string()),
        ("end_ns", (c.end + job::ORIGIN_NS).to_string()),
        ("transfer_ns", shape.transfer_ns.to_string()),
        ("last_rank", last_rank.to_string()),
        ("gain_ns", gain(c).to_string()),
        ("arrival_ns", numbers(&unix)),
        ("wait_ns", numbers(&waits)),
    ])
}

fn rank(rank: &Rank) -> String {
    let start = rank.planted.iter().map(|p| p.span.start).min().unwrap_or(0);
    let end = rank.planted.iter().map(|p| p.span.end).max().unwrap_or(0);
    let steps: Vec<String> = rank.steps.iter().map(|s| step(rank, s)).collect();
    let fields = [
        field("rank", &rank.number.to_string()),
        field("host", &quoted(&job::host(rank.number))),
        field("device", &(rank.number % job::GPUS_PER_HOST).to_string()),
        field("gpu_activities", &rank.planted.len().to_string()),
        field("span", &object(&window(&rank.planted, start..end))),
        field("steps", &list(steps, "      ")),
    ];
    format!("{{\n      {}\n    }}", fields.join(",\n      "))
}

fn step(rank: &Rank, step: &Step) -> String {
    let mut fields = vec![("step", step.number.to_string())];
    fields.extend(window(&rank.planted, step.span.clone()));
    let idle = |running: &Running| !running.compute && !running.communication && !running.memory;
    let in_loader = measure(&rank.planted, &step.loader, idle);
    assert_eq!(in_loader, step.loader.end - step.loader.start, "the GPU is idle during the whole loader");
    fields.push(("idle_in_loader_ns", in_loader.to_string()));
    object(&fields)
}

/// The breakdown of one window: each piece counts for the first of compute, communication, memory that runs.
fn window(planted: &[Planted], window: Range<i64>) -> Vec<(&'static str, String)> {
    let total = |is: fn(&Running) -> bool| measure(planted, &window, is);
    let communication = total(|r| r.communication);
    let overlap = total(|r| r.communication && r.compute);
    let values = [
        ("start_ns", window.start + job::ORIGIN_NS),
        ("end_ns", window.end + job::ORIGIN_NS),
        ("dur_ns", window.end - window.start),
        ("compute_ns", total(|r| r.compute)),
        ("exposed_communication_ns", total(|r| r.communication && !r.compute)),
        ("copies_ns", total(|r| r.memory && !r.compute && !r.communication)),
        ("idle_ns", total(|r| !r.memory && !r.compute && !r.communication)),
        ("communication_ns", communication),
        ("memory_ns", total(|r| r.memory)),
        ("overlap_ns", overlap),
    ];
    let mut fields: Vec<(&str, String)> =
        values.iter().map(|(key, value)| (*key, value.to_string())).collect();
    fields.push(("overlap_ratio", format!("{:.6}", overlap as f64 / communication as f64)));
    fields
}

/// What runs in a piece of time.
#[derive(Default)]
struct Running {
    compute: bool,
    communication: bool,
    memory: bool,
}

fn measure(planted: &[Planted], window: &Range<i64>, is: impl Fn(&Running) -> bool) -> i64 {
    let mut cuts: Vec<i64> = planted.iter().flat_map(|p| [p.span.start, p.span.end]).collect();
    cuts.retain(|cut| window.contains(cut));
    cuts.extend([window.start, window.end]);
    cuts.sort_unstable();
    cuts.dedup();
    let pieces = cuts.iter().zip(cuts.iter().skip(1));
    pieces.filter(|(from, _)| is(&running_at(planted, **from))).map(|(from, to)| to - from).sum()
}

fn running_at(planted: &[Planted], instant: i64) -> Running {
    let mut running = Running::default();
    for row in planted.iter().filter(|p| p.span.contains(&instant)) {
        match row.class {
            Class::Compute => running.compute = true,
            Class::Communication => running.communication = true,
            Class::Memory => running.memory = true,
        }
    }
    running
}

/// Last arrival minus the previous one.
fn gain(c: &Collective) -> i64 {
    let mut sorted = c.arrivals.clone();
    sorted.sort_unstable();
    match sorted.as_slice() {
        [.., second, last] => last - second,
        _ => 0,
    }
}

/// A rank's arrival minus the median of the others.
fn late_by(c: &Collective, rank: u32) -> i64 {
    let own = c.arrivals.get(rank as usize).copied().unwrap_or(0);
    let mut others: Vec<i64> =
        c.arrivals.iter().enumerate().filter(|(r, _)| *r != rank as usize).map(|(_, a)| *a).collect();
    others.sort_unstable();
    own - others.get(others.len() / 2).copied().unwrap_or(own)
}

fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}

fn field(key: &str, value: &str) -> String {
    format!("\"{key}\": {value}")
}

fn numbers(values: &[i64]) -> String {
    let texts: Vec<String> = values.iter().map(i64::to_string).collect();
    format!("[{}]", texts.join(", "))
}

fn object(fields: &[(&str, String)]) -> String {
    let texts: Vec<String> = fields.iter().map(|(key, value)| field(key, value)).collect();
    format!("{{{}}}", texts.join(", "))
}

fn list(items: Vec<String>, indent: &str) -> String {
    format!("[\n{indent}  {}\n{indent}]", items.join(&format!(",\n{indent}  ")))
}
