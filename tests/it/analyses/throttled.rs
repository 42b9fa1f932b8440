//! Clocks that fall, and what looks like it: the cause `throttled`, and what must not be said.
//!
//! ```text
//! one step     |gemm|gemm|..x10..|norm|norm|..x5..|all_reduce|    gemm follows the clock, norm does not
//! clock        ^    ^    ^  a sample every ms
//! ```

use crate::run::{Answer, Record, answer, options};
use hta_testkit::{Call, Collective, Format, TraceBuilder, perfetto_file, us};

const WORLD: u32 = 4;
const STEPS: usize = 8;
const H100: &str = "NVIDIA H100 80GB HBM3";

/// A job of ranks that train together; each number by rank and step.
struct Job {
    clock: fn(u32, usize) -> f64,
    /// How many times as long products take.
    longer: fn(u32, usize) -> f64,
    power: Option<fn(u32, usize) -> f64>,
    heat: Option<fn(u32, usize) -> f64>,
    model: fn(u32) -> &'static str,
    counter: &'static str,
    /// Of the clock while no work runs.
    idle_clock: f64,
    /// Before each step, us.
    idle: i64,
    /// Adds rows of PM sampling at a time.
    metrics: fn(&mut TraceBuilder, i64),
    most_samples: usize,
    steps: usize,
    /// As torch's own .pftrace, which has no names of devices.
    is_pftrace: bool,
    memory_clock: Option<fn(u32) -> f64>,
}

impl Default for Job {
    fn default() -> Self {
        Self {
            clock: |_, _| 1_980.0,
            longer: |_, _| 1.0,
            power: None,
            heat: None,
            model: |_| H100,
            counter: "SM Clock (MHz)",
            idle_clock: 1_980.0,
            idle: 100,
            metrics: |_, _| {},
            most_samples: usize::MAX,
            steps: STEPS,
            is_pftrace: false,
            memory_clock: None,
        }
    }
}

impl Job {
    /// The kernels of a step, us: name and length.
    fn kernels(&self, rank: u32, step: usize) -> Vec<(&'static str, i64)> {
        let product = (1_000.0 * (self.longer)(rank, step)).round() as i64;
        let mut all = vec![("void cutlass::gemm_bf16(Params)", product); 10];
        all.extend([("void layer_norm_kernel(Params)", 200); 5]);
        all
    }

    fn answer(&self) -> Answer {
        let mut traces: Vec<TraceBuilder> = (0..WORLD)
            .map(|r| TraceBuilder::new().rank(r).world(WORLD).device((self.model)(r), 132))
            .collect();
        let mut samples = vec![0; traces.len()];
        let mut start = 0;
        for step in 0..self.steps {
            let work = |rank: u32| self.kernels(rank, step).iter().map(|(_, len)| len + 1).sum::<i64>();
            let begin = start + self.idle;
            let end = begin + (0..WORLD).map(work).max().unwrap_or(0) + 500;
            for (rank, t) in (0..WORLD).zip(&mut traces) {
                let mut main = t.thread(1);
                main.step(step as u64, us(start)..us(end + 20));
                let mut at = begin;
                for (i, (name, len)) in self.kernels(rank, step).into_iter().enumerate() {
                    let launch = begin - 60 + 3 * i as i64;
                    main.launch(us(launch)..us(launch + 2))
                        .kernel(name, 7, us(at)..us(at + len))
                        .grid([64, 1, 1]);
                    at += len + 1;
                }
                let c = Collective::all_reduce(1 << 22, "BFloat16")
                    .group("0", "default_pg", 0..WORLD)
                    .seq(step as u64 + 1);
                main.nccl(&c, us(begin - 10)..us(begin - 2), 20, us(at)..us(end));
                main.call(Call::DeviceSync, us(begin)..us(end + 10));
                self.sample(t, (rank, step), (start, begin, end), &mut samples[rank as usize]);
            }
            start = end + 20;
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let paths = traces.iter().enumerate().map(|(rank, t)| {
            let (bytes, ending) = match self.is_pftrace {
                true => (perfetto_file(&t.to_packets()), "pftrace"),
                false => (t.to_bytes(&Format::default()), "json"),
            };
            let path = folder.path().join(format!("rank_{rank}.{ending}"));
            std::fs::write(&path, bytes).expect("a temporary file can be written");
            path
        });
        answer(&paths.collect::<Vec<_>>(), &options())
    }

    /// Samples at every full ms of a step, and of the idle time before it.
    fn sample(
        &self,
        t: &mut TraceBuilder,
        (rank, step): (u32, usize),
        (start, begin, end): (i64, i64, i64),
        taken: &mut usize,
    ) {
        for at in (start..end).filter(|at| at % 1_000 == 500) {
            if *taken == self.most_samples {
                return;
            }
            *taken += 1;
            let clock = if at < begin { self.idle_clock } else { (self.clock)(rank, step) };
            t.hardware_counter(self.counter, us(at), clock);
            for (name, value) in [("Power (W)", self.power), ("Temperature (C)", self.heat)] {
                if let Some(value) = value {
                    t.hardware_counter(name, us(at), value(rank, step));
                }
            }
            if let Some(clock) = self.memory_clock {
                t.hardware_counter("Memory Clock (MHz)", us(at), clock(rank));
            }
            (self.metrics)(t, us(at));
        }
    }

    fn told(&self) -> Vec<Record> {
        let answer = self.answer();
        let words = words(&answer);
        assert!(!words.contains("power limit") && !words.contains("thermal limit"), "{words}");
        answer.rows_where("findings", |r| r.text("kind") == "throttled")
    }
}

/// All words of the causes.
fn words(answer: &Answer) -> String {
    let of = |table: &str, columns: &[&str]| -> String {
        let rows = answer.rows(table);
        rows.iter().flat_map(|r| columns.iter().map(|c| r.text(c).to_lowercase() + "\n")).collect()
    };
    of("findings", &["sentence", "detail", "action"]) + &of("finding_evidence", &["words"])
}

/// Rank 3 at 1,410 MHz from step 3 on.
fn one_low(rank: u32, step: usize) -> f64 {
    if rank == 3 && step >= 3 { 1_410.0 } else { 1_980.0 }
}

fn longer_of_one(rank: u32, step: usize) -> f64 {
    1_980.0 / one_low(rank, step)
}

/// All ranks at 1,410 MHz from step 4 on.
fn all_low(_: u32, step: usize) -> f64 {
    if step >= 4 { 1_410.0 } else { 1_980.0 }
}

fn longer_of_all(rank: u32, step: usize) -> f64 {
    1_980.0 / all_low(rank, step)
}

#[test]
fn a_rank_below_the_others_owns_their_waits() {
    let job = Job {
        clock: one_low,
        longer: longer_of_one,
        power: Some(|rank, step| if rank == 3 && step >= 3 { 700.0 } else { 560.0 }),
        heat: Some(|_, _| 66.0),
        ..Job::default()
    };
    let answer = job.answer();
    let found = answer.rows_where("findings", |r| r.text("kind") == "throttled");
    assert_eq!(found.len(), 1, "{found:?}");
    let row = &found[0];
    assert_eq!((row.text("ranks"), row.text("certainty"), row.text("basis")), ("3", "likely", "replay"));
    assert_eq!(
        row.text("sentence"),
        "Rank 3 runs at 1,410 MHz, the others at 1,980: its kernels are 1.40 x longer"
    );
    assert_eq!(row.text("detail"), "It is late since step 3 (5 of 8 steps), at a power plateau of 700 W");
    assert!(row.text("action").contains("nvidia-smi -q -d PERFORMANCE"), "{}", row.text("action"));
    // Ten products of 404 us more in each of five steps, and what the others wait for them.
    assert_eq!(row.int("recoverable_ns"), us(5 * 4_040));
    let waiting = answer.rows_where("time_account", |r| r.text("part") == "waiting");
    let owned =
        waiting.iter().filter(|r| r.text("cause") == "throttled").map(|r| r.int("time_ns")).sum::<i64>();
    assert!(owned >= us(3 * 5 * 4_040) * 99 / 100, "{owned} of {}", us(3 * 5 * 4_040));
    assert!(answer.rows_where("findings", |r| r.text("kind") == "straggler").is_empty());
    let evidence = answer.rows_where("finding_evidence", |r| r.text("finding_id") == row.text("finding_id"));
    let clocks = "rank IN (3) AND kind = 'sm_clock'";
    assert_eq!(
        (evidence[0].text("evidence_table"), evidence[0].text("filter")),
        ("hardware_counters", clocks)
    );
    // 700 W and 560 W for 15.7 ms.
    let energy = evidence.iter().find(|r| r.text("evidence_table") == "energy").expect("energy is evidence");
    assert_eq!(energy.text("filter"), "rank IN (3) AND scope = 'step'");
    assert_eq!(energy.text("words"), "energy: 11.0 J a step, of the others 8.8 J");
}

#[test]
fn a_rank_that_loses_too_little_for_a_test_of_lateness_is_told_by_its_clock() {
    // 3 % lower costs 2.6 % of these steps; 2 % are not told.
    let small = Job {
        clock: |rank, _| if rank == 1 { 1_920.0 } else { 1_980.0 },
        longer: |rank, _| if rank == 1 { 1_980.0 / 1_920.0 } else { 1.0 },
        ..Job::default()
    };
    let found = small.told();
    assert_eq!(found.iter().map(|r| r.text("ranks")).collect::<Vec<_>>(), ["1"]);
    assert_eq!(found[0].text("detail"), "It is late in all 8 steps");
    assert!(found[0].text("action").contains("record power and temperature"), "{}", found[0].text("action"));
    let smaller = Job {
        clock: |rank, _| if rank == 1 { 1_940.0 } else { 1_980.0 },
        longer: |rank, _| if rank == 1 { 1_980.0 / 1_940.0 } else { 1.0 },
        ..Job::default()
    };
    assert!(smaller.told().is_empty());
    // Two steps are too few.
    let short = Job {
        clock: |rank, step| if rank == 1 && step >= 6 { 1_500.0 } else { 1_980.0 },
        longer: |rank, step| if rank == 1 && step >= 6 { 1.32 } else { 1.0 },
        ..Job::default()
    };
    assert!(short.told().is_empty());
}

#[test]
fn clocks_of_all_ranks_fall() {
    let job = Job {
        clock: all_low,
        longer: longer_of_all,
        power: Some(|_, step| if step >= 4 { 480.0 } else { 640.0 }),
        heat: Some(|_, step| if step >= 4 { 88.0 } else { 70.0 }),
        ..Job::default()
    };
    let found = job.told();
    assert_eq!(found.len(), 1, "{found:?}");
    let row = &found[0];
    assert_eq!((row.text("ranks"), row.text("certainty"), row.text("basis")), ("0,1,2,3", "likely", "bound"));
    let sentence = row.text("sentence");
    assert!(
        sentence.starts_with("SM clocks of all devices fall from 1,980 to 1,410 MHz during 5"),
        "{sentence}"
    );
    assert!(sentence.ends_with("of busy time since step 4"), "{sentence}");
    assert!(
        row.text("detail").starts_with("At 88 C while the clock falls; kernel"),
        "{}",
        row.text("detail")
    );
    // Products of 14.04 ms in each of four steps, at 1,410 of 1,980; norms are not bound by the clock.
    let most = us(4 * 14_040) * 570 / 1_980;
    let gain = row.int("recoverable_ns");
    assert!(gain <= most && gain > most * 97 / 100, "{gain} of {most}");
}

#[test]
fn clocks_of_most_ranks_fall() {
    fn low(rank: u32, step: usize) -> f64 {
        if rank > 0 && step >= 4 { 1_500.0 } else { 1_980.0 }
    }
    let job = Job { clock: low, longer: |rank, step| 1_980.0 / low(rank, step), ..Job::default() };
    let found = job.told();
    assert_eq!(found.iter().map(|r| r.text("ranks")).collect::<Vec<_>>(), ["1,2,3"], "{found:?}");
    assert!(found[0].text("sentence").starts_with("SM clocks of 3 devices fall from 1,980 to 1,500 MHz"));
}

#[test]
fn noise_does_not_hide_a_fall_at_the_limit_of_a_far_one() {
    // 5 %, up and down by 15 MHz.
    fn low(rank: u32, step: usize) -> f64 {
        let noise = if (rank as usize + step).is_multiple_of(2) { 15.0 } else { -15.0 };
        noise + if step >= 3 { 1_881.0 } else { 1_980.0 }
    }
    let longer = |_: u32, step: usize| if step >= 3 { 1_980.0 / 1_881.0 } else { 1.0 };
    let found = Job { clock: low, longer, ..Job::default() }.told();
    assert_eq!(found.iter().map(|r| r.text("ranks")).collect::<Vec<_>>(), ["0,1,2,3"], "{found:?}");
    assert!(found[0].text("sentence").ends_with("since step 3"), "{}", found[0].text("sentence"));
}

#[test]
fn kernels_that_take_as_long_clear_the_clock() {
    for clock in [one_low, all_low] {
        assert!(Job { clock, ..Job::default() }.told().is_empty());
    }
    // What is far longer than the clock is lower has another cause.
    let other = Job {
        clock: one_low,
        longer: |rank, step| if rank == 3 && step >= 3 { 2.5 } else { 1.0 },
        ..Job::default()
    };
    assert!(other.told().is_empty());
    assert!(!other.answer().rows_where("findings", |r| r.text("kind") == "straggler").is_empty());
}

#[test]
fn a_slow_rank_with_a_clock_like_the_others_is_not_throttled() {
    let job = Job { longer: longer_of_one, ..Job::default() };
    assert!(job.told().is_empty());
    assert!(!job.answer().rows_where("findings", |r| r.text("kind") == "straggler").is_empty());
}

fn sm_active(t: &mut TraceBuilder, at: i64) {
    t.hardware_counter("SM Active (%)", at, 80.0);
}

fn sm_active_without_value(t: &mut TraceBuilder, at: i64) {
    // JSON has no NaN: the value is null.
    t.hardware_counter("SM Active (%)", at, f64::NAN);
}

fn power_in_milliwatts(t: &mut TraceBuilder, at: i64) {
    t.hardware_counter("Power (mW)", at, 700_000.0);
}

/// As the export in Python writes it.
fn slice_of_metric(t: &mut TraceBuilder, at: i64) {
    t.event("hardware_counters", "sm__cycles_active.avg.pct_of_peak_sustained_elapsed", 0, 0, at..at);
}

#[test]
fn clocks_that_say_nothing() {
    for (clock, longer) in
        [(one_low as fn(_, _) -> _, longer_of_one as fn(_, _) -> _), (all_low, longer_of_all)]
    {
        let job = || Job { clock, longer, ..Job::default() };
        assert!(!job().told().is_empty());
        // The profiler holds the clocks while it samples metrics, whether or not the file has their values.
        assert!(Job { metrics: sm_active, ..job() }.told().is_empty());
        assert!(Job { metrics: sm_active_without_value, ..job() }.told().is_empty());
        assert!(Job { metrics: slice_of_metric, ..job() }.told().is_empty());
        // Derived from a median clock of the file.
        assert!(Job { counter: "Cycles (Current Kernel)", ..job() }.told().is_empty());
        assert!(Job { counter: "Memory Clock (MHz)", ..job() }.told().is_empty());
        // Neither a clock in MHz nor a metric that holds the clocks.
        assert!(Job { counter: "SM Clock (GHz)", ..job() }.told().is_empty());
        assert!(!Job { metrics: power_in_milliwatts, ..job() }.told().is_empty());
        assert!(Job { most_samples: 1, ..job() }.told().is_empty());
    }
    // Low only while nothing runs, for a third of the time.
    assert!(Job { idle: 6_000, idle_clock: 345.0, ..Job::default() }.told().is_empty());
}

#[test]
fn clocks_of_different_models_are_not_compared() {
    let job = Job {
        clock: |rank, _| if rank < 2 { 1_980.0 } else { 1_410.0 },
        longer: |rank, _| if rank < 2 { 1.0 } else { 1_980.0 / 1_410.0 },
        model: |rank| if rank < 2 { H100 } else { "NVIDIA A100-SXM4-80GB" },
        ..Job::default()
    };
    assert!(job.told().is_empty());
}

/// Ranks, sentence and certainty of what is told, where kernels follow the clock.
fn told_of(clock: fn(u32, usize) -> f64, longer: fn(u32, usize) -> f64) -> Vec<[String; 3]> {
    shown(&Job { clock, longer, ..Job::default() }.told())
}

fn shown(found: &[Record]) -> Vec<[String; 3]> {
    found.iter().map(|r| ["ranks", "sentence", "certainty"].map(|c| r.text(c).to_string())).collect()
}

#[test]
fn half_of_the_ranks_are_below_the_other_half_from_the_start() {
    fn low(rank: u32, _: usize) -> f64 {
        if rank % 2 == 1 { 1_410.0 } else { 1_980.0 }
    }
    let words = "Ranks 1, 3 run at 1,410 MHz, the others at 1,980: their kernels are 1.40 x longer";
    assert_eq!(told_of(low, |rank, step| 1_980.0 / low(rank, step)), [["1,3", words, "likely"]]);
}

#[test]
fn most_ranks_are_below_a_few_from_the_start() {
    fn low(rank: u32, _: usize) -> f64 {
        if rank < 3 { 1_410.0 } else { 1_980.0 }
    }
    let job = Job { clock: low, longer: |rank, step| 1_980.0 / low(rank, step), ..Job::default() };
    let found = job.told();
    let words = "Ranks 0-2 run at 1,410 MHz, rank 3 at 1,980: their kernels are 1.40 x longer";
    assert_eq!(shown(&found), [["0,1,2", words, "likely"]]);
    assert_eq!(found[0].text("detail"), "They are late together in all 8 steps");
    // Ten products of 404 us more in each step, for which the one waits.
    assert_eq!(found[0].int("recoverable_ns"), us(8 * 4_040));
    // A rank that is faster than most, by 6 %, makes none of these slow.
    fn faster(rank: u32, _: usize) -> f64 {
        [1_851.0, 1_860.0, 1_868.0, 1_980.0][rank as usize]
    }
    assert!(told_of(faster, |rank, step| 1_980.0 / faster(rank, step)).is_empty());
    // Nor does one that computes less.
    assert!(told_of(low, |rank, _| if rank < 3 { 1.0 } else { 0.5 }).is_empty());
}

#[test]
fn ranks_of_several_lower_clocks_are_told_together() {
    fn low(rank: u32, _: usize) -> f64 {
        [1_410.0, 1_700.0, 1_980.0, 1_980.0][rank as usize]
    }
    // 1,404 us and 1,165 us for 1,000.
    let words = "Rank 0 runs at 1,410 MHz, rank 1 at 1,700, the others at 1,980: their kernels are 1.40 and 1.17 x longer";
    let found = Job { clock: low, longer: |rank, step| 1_980.0 / low(rank, step), ..Job::default() }.told();
    assert_eq!(shown(&found), [["0,1", words, "likely"]]);
    // Only the first makes the others wait, but without it the second would; the gain is that of both.
    assert_eq!(found[0].text("detail"), "Rank 0 is late in all 8 steps; rank 1 would be once it is repaired");
    assert_eq!(found[0].int("recoverable_ns"), us(8 * 4_040));
}

#[test]
fn each_rank_has_its_own_reason() {
    fn low(rank: u32, _: usize) -> f64 {
        [1_740.0, 1_745.0, 1_980.0, 1_980.0][rank as usize]
    }
    let job = Job {
        clock: low,
        longer: |rank, step| 1_980.0 / low(rank, step),
        power: Some(|rank, _| [400.0, 700.0, 560.0, 560.0][rank as usize]),
        heat: Some(|rank, _| [88.0, 66.0, 66.0, 66.0][rank as usize]),
        ..Job::default()
    };
    let answer = job.answer();
    let row = &answer.rows_where("findings", |r| r.text("kind") == "throttled")[0];
    assert_eq!(row.text("ranks"), "0,1");
    let seen = "rank 0 at 88 C while the clock falls, rank 1 at a power plateau of 700 W";
    assert!(row.text("detail").ends_with(seen), "{}", row.text("detail"));
    let action = row.text("action");
    assert!(action.contains("cooling of rank 0:") && action.contains("power cap of rank 1 with"), "{action}");
    let evidence = answer.rows_where("finding_evidence", |r| r.text("finding_id") == row.text("finding_id"));
    for (filter, words) in [
        ("rank IN (0) AND kind = 'temperature'", "at 88 C while the clock falls"),
        ("rank IN (1) AND kind = 'power'", "at a power plateau of 700 W"),
    ] {
        let shown = evidence.iter().find(|r| r.text("filter") == filter).expect("the evidence of a rank");
        assert_eq!(shown.text("words"), words);
    }
}

#[test]
fn noise_of_a_long_job_does_not_hide_a_rank_with_a_lower_clock() {
    /// Each of the other ranks is 4 % below now and then: in 5 of its 40 steps.
    fn low(rank: u32, step: usize) -> f64 {
        match rank {
            3 => 1_780.0,
            _ if step % 8 == 2 * rank as usize => 1_900.0,
            _ => 1_980.0,
        }
    }
    let longer = |rank: u32, _: usize| if rank == 3 { 1_980.0 / 1_780.0 } else { 1.0 };
    let found = Job { clock: low, longer, steps: 40, ..Job::default() }.told();
    let words = "Rank 3 runs at 1,780 MHz, the others at 1,980: its kernels are 1.11 x longer";
    assert_eq!(shown(&found), [["3", words, "likely"]]);
}

#[test]
fn devices_without_names_are_compared_if_their_memory_may_be_of_one_model() {
    let job = |memory_clock| {
        let of = Job { clock: one_low, longer: longer_of_one, is_pftrace: true, ..Job::default() };
        Job { memory_clock, ..of }
    };
    let words = "Rank 3 runs at 1,410 MHz, the others at 1,980: its kernels are 1.40 x longer, by the clock if the \
                 devices are of one model";
    for memory in [None, Some((|_| 2_619.0) as fn(u32) -> f64)] {
        assert_eq!(shown(&job(memory).told()), [["3", words, "at most"]]);
    }
    // Memories of two clocks are of two models.
    let two = job(Some(|rank| if rank == 3 { 1_593.0 } else { 2_619.0 }));
    assert!(two.told().is_empty());
}

#[test]
fn explain_knows_the_cause() {
    let text = hta::diagnosis::CauseKind::named("throttled").expect("a kind of cause").page();
    assert!(text.contains("SM clock") && text.contains("hta counters"), "{text}");
}
