//! Jobs of an inference engine over several ranks: a pause is told once, of the rank that makes it.
//!
//! ```text
//!   rank 0   [gemm|reduce]..[gemm|reduce waits..............]
//!   rank 1   [gemm|reduce]....pause of the scheduler..[gemm|]
//! ```

use crate::run::{Answer, Record, answer, options};
use hta_testkit::{Call, Collective, TraceBuilder, us};

const WORLD: u32 = 4;
const ITERATIONS: usize = 20;
/// Of all pauses, us.
const PAUSE: i64 = 20_000;

/// A job whose ranks decode together.
#[derive(Default, Clone, Copy)]
struct Job {
    /// The iterations before which the scheduler of a rank pauses.
    before: Option<fn(u32) -> Vec<usize>>,
    /// The iterations inside which its host pauses, before it submits the collective.
    inside: Option<fn(u32) -> Vec<usize>>,
    /// An iteration after which experts are placed anew.
    rearranged: Option<usize>,
}

impl Job {
    fn answer(&self) -> Answer {
        let new = |rank| TraceBuilder::new().rank(rank).world(WORLD).device("NVIDIA H100", 132);
        let mut traces: Vec<TraceBuilder> = (0..WORLD).map(new).collect();
        let mut host = vec![0; traces.len()];
        for k in 0..ITERATIONS {
            let mut ready = Vec::new();
            for ((rank, t), at) in (0..WORLD).zip(&mut traces).zip(&mut host) {
                let pauses = |of: Option<fn(u32) -> Vec<usize>>| of.is_some_and(|of| of(rank).contains(&k));
                let pause = if pauses(self.before) { PAUSE } else { 0 };
                let mut main = t.thread(1);
                main.frame("engine/scheduler.py(10): prepare", us(*at)..us(*at + 20 + pause));
                let start = *at + 20 + pause;
                let pause = if pauses(self.inside) { PAUSE } else { 0 };
                main.annotation("step[DECODE bs=16 toks=16]", us(start)..us(start + 100 + pause));
                let gemm = us(start + 8)..us(start + 408);
                main.launch(us(start + 2)..us(start + 6)).kernel("gemm", 7, gemm).grid([64, 1, 1]);
                let submit = start + 60 + pause;
                ready.push((submit, (start + 408).max(submit + 20)));
                *at = start + 100 + pause;
            }
            let end = ready.iter().map(|(_, start)| *start).max().unwrap_or(0) + 50;
            let mut seq = 2 * k as u64 + 1;
            for (((_, t), at), (submit, start)) in (0..WORLD).zip(&mut traces).zip(&mut host).zip(&ready) {
                let c = Collective::all_reduce(1 << 16, "BFloat16").group("0", "tp", 0..WORLD).seq(seq);
                t.thread(1).nccl(&c, us(*submit)..us(submit + 15), 7, us(*start)..us(end));
                t.thread(1).call(Call::DeviceSync, us(*at)..us(end + 2));
                *at = end + 5;
            }
            if self.rearranged == Some(k) {
                seq += 1;
                for (t, at) in traces.iter_mut().zip(&mut host) {
                    let c = Collective::all_reduce(1 << 26, "BFloat16").group("0", "tp", 0..WORLD).seq(seq);
                    t.thread(1).nccl(&c, us(*at)..us(*at + 15), 7, us(*at + 20)..us(*at + 20 + PAUSE));
                    t.thread(1).call(Call::DeviceSync, us(*at + 16)..us(*at + 22 + PAUSE));
                    *at += 25 + PAUSE;
                }
            }
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let paths = traces.iter().enumerate().map(|(rank, t)| {
            let path = folder.path().join(format!("rank_{rank}.json"));
            std::fs::write(&path, t.to_json()).expect("a temporary file can be written");
            path
        });
        answer(&paths.collect::<Vec<_>>(), &options())
    }
}

/// Causes that save 2 % or more, without what all transfers cost at most.
fn told(a: &Answer) -> Vec<Record> {
    let is_told = |r: &Record| r.float("recoverable_pct").is_some_and(|pct| pct >= 2.0);
    a.rows_where("findings", |r| is_told(r) && r.text("kind") != "transfer_bare")
}

/// Mean time of the devices, us.
fn time(a: &Answer) -> i64 {
    let all: i64 = a.rows("time_account").iter().map(|r| r.int("time_ns")).sum();
    all / i64::from(WORLD) / 1_000
}

/// Kind, ranks, steps and what is saved, in parts of the pause.
fn facts(r: &Record) -> (String, String, String, f64) {
    let pauses = r.int("recoverable_ns") as f64 / us(PAUSE) as f64;
    let text = |column: &str| r.text(column).to_string();
    (text("kind"), text("ranks"), text("step_labels"), (pauses * 10.0).round() / 10.0)
}

#[test]
fn the_pause_of_one_scheduler_is_one_cause_of_its_rank_and_counts_once() {
    let usual = time(&Job::default().answer());
    let a = Job { before: Some(|rank| if rank == 2 { vec![11] } else { vec![] }), ..Job::default() }.answer();
    assert_eq!(time(&a), usual + PAUSE);
    let told = told(&a);
    assert_eq!(
        told.iter().map(facts).collect::<Vec<_>>(),
        [("straggler".to_string(), "2".to_string(), "@11".to_string(), 1.0)]
    );
}

#[test]
fn a_pause_inside_an_iteration_is_that_of_its_rank_as_well() {
    let usual = time(&Job::default().answer());
    let a = Job { inside: Some(|rank| if rank == 1 { vec![7] } else { vec![] }), ..Job::default() }.answer();
    let told = told(&a);
    let [one] = &told[..] else { panic!("{told:?}") };
    assert_eq!((one.text("kind"), one.text("ranks")), ("straggler", "1"));
    assert!((usual + PAUSE - 400..=usual + PAUSE).contains(&time(&a)), "{}", time(&a));
}

#[test]
fn a_pause_of_all_schedulers_is_the_gap_of_all_in_one_iteration() {
    let a = Job { before: Some(|_| vec![11]), ..Job::default() }.answer();
    let told = told(&a);
    let (kind, ranks, steps, saved) = facts(&told[0]);
    assert_eq!((kind.as_str(), ranks.as_str(), steps.as_str()), ("iteration_gap", "0,1,2,3", "@11"));
    assert!((0.9..=1.1).contains(&saved), "{saved}");
    assert!(told[0].text("sentence").contains("nearly all in iteration 11 (1 of 20)"), "{:?}", told[0]);
    assert!(told.iter().all(|r| r.text("kind") != "straggler"), "{told:?}");
}

#[test]
fn communication_of_one_iteration_is_told_as_such_and_makes_it_slow() {
    let a = Job { rearranged: Some(8), ..Job::default() }.answer();
    let first = a.rows("findings").into_iter().next().expect("a cause");
    assert!(first.text("sentence").contains("in iteration 8 (1 of 20)"), "{first:?}");
    let rows = a.rows_where("iterations", |r| r.int("rank") == 0 && r.flag("is_slow") == Some(true));
    assert_eq!(rows.iter().map(|r| r.int("step")).collect::<Vec<_>>(), [8]);
    assert!(rows[0].int("bare_communication_ns") >= us(PAUSE));
}
