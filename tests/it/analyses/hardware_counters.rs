//! Recorded hardware counters on traces whose numbers can be checked by eye.

use crate::run::{Answer, PrintedView, Record, answer, options};
use hta_testkit::{Format, TraceBuilder, us};
use std::path::PathBuf;

/// Writes one file for each rank.
fn write(ranks: &[TraceBuilder]) -> (tempfile::TempDir, Vec<PathBuf>) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let paths = ranks.iter().enumerate().map(|(rank, t)| {
        let path = folder.path().join(format!("rank_{rank}.json"));
        std::fs::write(&path, t.to_bytes(&Format::default())).expect("a temporary file can be written");
        path
    });
    let paths = paths.collect();
    (folder, paths)
}

/// ```text
/// us           0         10        20        30        40
/// steps        [ 0              )  [ 1              )          18 us each, a new one every 20 us
/// long             [===============)                           4..20
/// short                                 [=)                    25..26
/// all_reduce                              [====)               27..32
/// SM active    [  50     [  90     [  70     [  10     )       a mean for 10 us
/// power        100  100  100  100  200  200  200  200  200     W, every 5 us
/// ```
fn rank(rank: u32, power_of_rank: f64) -> TraceBuilder {
    let mut t = TraceBuilder::new().rank(rank).world(2).device("NVIDIA H100", 132);
    let mut main = t.thread(1);
    main.annotation("ProfilerStep#7", us(0)..us(18));
    main.annotation("ProfilerStep#8", us(20)..us(38));
    main.launch(us(1)..us(2)).kernel("long", 7, us(4)..us(20)).grid([66, 1, 1]);
    main.launch(us(21)..us(22)).kernel("short", 7, us(25)..us(26)).grid([66, 1, 1]);
    let name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
    main.launch(us(22)..us(23)).kernel(name, 8, us(27)..us(32));
    for (i, value) in [50.0, 90.0, 70.0, 10.0].into_iter().enumerate() {
        t.hardware_counter("SM Active (%)", us(10 * i as i64), value);
    }
    for i in 0..9 {
        let watts = if i < 4 { 100.0 } else { 200.0 };
        t.hardware_counter("Power (W)", us(5 * i), watts + power_of_rank);
    }
    t.hardware_counter("Cycles (Current Kernel)", us(4), 31_680.0);
    t
}

fn means<'a>(answer: &'a Answer, kind: &'a str, scope: &'a str) -> Vec<Record> {
    answer.rows_where("hardware_counter_means", |r| {
        r.int("rank") == 0 && r.text("kind") == kind && r.text("scope") == scope
    })
}

fn pj(row: &Record) -> i128 {
    row.text("pj").parse().expect("an integer")
}

#[test]
fn means_are_weighted_by_time_and_steps_go_on_until_the_next() {
    let (_folder, paths) = write(&[rank(0, 0.0)]);
    let answer = answer(&paths, &options());
    let mean = |scope| means(&answer, "sm_active", scope).iter().map(|r| r.float("mean")).collect::<Vec<_>>();
    assert_eq!(mean("step"), [Some(70.0), Some(40.0)]);
    assert_eq!(mean("capture"), [Some(55.0)]);
    // 6 us of 50, 10 of 90; 1 + 3 us of 70, 2 us of 10.
    assert_eq!(mean("busy"), [Some((300.0 + 900.0 + 280.0 + 20.0) / 22.0)]);
    // 4..32
    assert_eq!(mean("span"), [Some((300.0 + 900.0 + 700.0 + 20.0) / 28.0)]);
    // A long kernel fills 80 % of its samples; short ones have the reason in place of a value.
    let kernels = means(&answer, "sm_active", "kernel_name");
    let named = |name: &str| kernels.iter().find(|r| r.text("name") == name).expect("a kernel");
    assert_eq!((named("long").float("mean"), named("long").flag("resolved")), (Some(75.0), Some(true)));
    assert_eq!((named("short").float("mean"), named("short").float("max")), (None, None));
    assert_eq!(
        named("short").text("reason"),
        "sampled every 10.0 us, kernels of 1.0 us (median): a value is the mean of all that ran in that time"
    );
    let collectives = means(&answer, "sm_active", "collective");
    assert_eq!((collectives.len(), collectives[0].float("mean")), (1, None));
    assert_eq!(collectives[0].text("name"), "all_reduce");
    // What the recorder computed is kept as a sample, and has no mean.
    assert_eq!(means(&answer, "cycles", "capture").len(), 0);
    let derived = answer.rows_where("hardware_counters", |r| r.text("source") == "derived");
    assert_eq!((derived.len(), derived[0].int("dur_ns")), (1, 0));
}

#[test]
fn energy_of_steps_and_of_busy_and_idle_time_adds_up() {
    let (_folder, paths) = write(&[rank(0, 0.0)]);
    let answer = answer(&paths, &options());
    let of = |scope: &str| answer.rows_where("energy", |r| r.text("scope") == scope);
    // 15 us of 100 W, 5 us that rise to 200 W, 20 us of 200 W; 1 W for 1 us is 10^6 pJ.
    let whole = (1500 + 750 + 4000) * 1_000_000;
    assert_eq!(pj(&of("capture")[0]), whole);
    assert_eq!(of("step").iter().map(pj).collect::<Vec<_>>(), [2250 * 1_000_000, 4000 * 1_000_000]);
    assert_eq!(pj(&of("busy")[0]) + pj(&of("idle")[0]), whole);
    assert_eq!(of("capture")[0].float("j"), Some(0.00625));
    // Power every 5 us is too coarse for steps of 20 us.
    assert_eq!(of("kernel_name").len(), 0);
}

/// ```text
/// us           0         10        20        30        40
/// a                [=========)                             half of 9..14 is b's
/// b                     [====)
/// power        100 W, every 2 us, in steps of 20 us
/// ```
#[test]
fn power_is_divided_among_kernels_where_ten_samples_are_in_a_step() {
    let mut t = TraceBuilder::new().rank(0).device("NVIDIA H100", 132);
    let mut main = t.thread(1);
    main.annotation("ProfilerStep#7", us(0)..us(20));
    main.annotation("ProfilerStep#8", us(20)..us(40));
    main.launch(us(1)..us(2)).kernel("a", 7, us(4)..us(14));
    main.launch(us(2)..us(3)).kernel("b", 8, us(9)..us(14));
    for i in 0..=20 {
        t.hardware_counter("Power (W)", us(2 * i), 100.0);
    }
    let (_folder, paths) = write(&[t]);
    let answer = answer(&paths, &options());
    let kernels = answer.rows_where("energy", |r| r.text("scope") == "kernel_name");
    let shown: Vec<(&str, i128, &str)> =
        kernels.iter().map(|r| (r.text("name"), pj(r), r.text("shared"))).collect();
    let share = "by share of time";
    assert_eq!(shown, [("a", 750 * 1_000_000, share), ("b", 250 * 1_000_000, share)]);
}

/// ```text
/// us           0         10        20        30
/// iterations   [ 8 tokens     )[ 8 tokens    )       decode: one token for each of 8 requests
/// power        100 W
/// ```
#[test]
fn energy_of_a_token_is_that_of_iterations_that_name_their_tokens() {
    let mut t = TraceBuilder::new().rank(0).device("NVIDIA H100", 132);
    let mut main = t.thread(1);
    for at in [us(0), us(16)] {
        main.annotation("execute_context_0(0)_generation_8(8)", at..at + us(14));
        main.launch(at + us(1)..at + us(2)).kernel("k", 7, at + us(3)..at + us(12));
    }
    for i in 0..=16 {
        t.hardware_counter("Power (W)", us(2 * i), 100.0);
    }
    let (_folder, paths) = write(&[t]);
    let answer = answer(&paths, &options());
    let steps = answer.rows_where("energy", |r| r.text("scope") == "step");
    assert_eq!(steps.iter().map(|r| r.opt_int("tokens")).collect::<Vec<_>>(), [Some(8), Some(8)]);
    let rows = answer.rows("hardware_by_rank");
    let all: f64 = steps.iter().filter_map(|r| r.float("j")).sum();
    assert_eq!(rows[0].float("token_energy_j"), Some(all / 16.0));
    // Iterations begin with their first kernel, at 3 and 19 us; the samples end at 32 us.
    assert_eq!(steps.iter().map(pj).collect::<Vec<_>>(), [1600 * 1_000_000, 1300 * 1_000_000]);
    let told = answer.outcome.outputs.iter().find_map(|(_, o)| o.verdict.as_ref()?.energy.as_deref());
    assert_eq!(told, Some("1.3 mJ an iteration, 181.2 uJ a token"));
}

/// The line on energy under the head of the report.
fn told_energy(ranks: &[TraceBuilder]) -> Option<String> {
    let (_folder, paths) = write(ranks);
    let answer = answer(&paths, &options());
    let told = answer.outcome.outputs.iter().find_map(|(_, o)| o.verdict.as_ref()).expect("a diagnosis");
    let json = serde_json::to_value(told).expect("a verdict is JSON");
    // Where nothing is known, the summary is as it was without energy.
    assert_eq!(json.get("energy").and_then(|e| e.as_str()), told.energy.as_deref());
    assert_eq!(json.get("energy").is_some(), told.energy.is_some());
    told.energy.clone()
}

#[test]
fn energy_of_a_step_is_told_where_it_is_known() {
    assert_eq!(told_energy(&[rank(0, 0.0)]).as_deref(), Some("2.2 mJ a step"));
    // 100 W more for 20 us.
    assert_eq!(
        told_energy(&[rank(0, 0.0), rank(1, 100.0)]).as_deref(),
        Some("6.5 mJ a step on 2 devices, 2.2 mJ to 4.2 mJ each")
    );
    let mut without = TraceBuilder::new().rank(1).world(2);
    without.thread(1).launch(us(1)..us(2)).kernel("long", 7, us(4)..us(20));
    assert_eq!(told_energy(&[without.clone()]), None);
    // One sample is no energy.
    without.hardware_counter("Power (W)", us(5), 260.0);
    assert_eq!(told_energy(&[without.clone()]), None);
    assert_eq!(told_energy(&[rank(0, 0.0), without]).as_deref(), Some("2.2 mJ a step on 1 of 2 devices"));
}

/// ```text
/// us           0         10        20        30
/// steps        [ 0              )  [ 1     )               the capture ends within the second
/// kernels          [===========)     [====)   (lost)
/// power        100 W, every us
/// ```
fn cut(whole_steps: i64) -> TraceBuilder {
    let mut t = TraceBuilder::new().rank(0).device("NVIDIA H100", 132);
    let mut main = t.thread(1);
    for step in 0..whole_steps {
        let at = 20 * step;
        main.step(step as u64, us(at)..us(at + 18));
        main.launch(us(at + 1)..us(at + 2)).kernel("long", 7, us(at + 4)..us(at + 16));
    }
    let at = 20 * whole_steps;
    main.step(whole_steps as u64, us(at)..us(at + 8));
    main.launch(us(at + 1)..us(at + 2)).kernel("long", 7, us(at + 4)..us(at + 8));
    main.launch(us(at + 5)..us(at + 6));
    for i in 0..=at + 8 {
        t.hardware_counter("Power (W)", us(i), 100.0);
    }
    t
}

#[test]
fn a_step_that_is_cut_is_not_a_usual_step() {
    let (_folder, paths) = write(&[cut(1)]);
    let told = answer(&paths, &options());
    let steps = told.rows_where("energy", |r| r.text("scope") == "step");
    assert_eq!(steps.iter().map(|r| r.flag("is_partial")).collect::<Vec<_>>(), [Some(false), Some(true)]);
    let row = &told.rows("hardware_by_rank")[0];
    // 100 W for 20 us; what is recorded of the second step takes less.
    assert_eq!((row.int("step_count"), row.float("step_energy_j")), (1, Some(0.002)));
    assert!(steps[1].float("j").is_some_and(|j| j < 0.002));
    assert_eq!(told_energy(&[cut(1)]).as_deref(), Some("2.0 mJ a step"));
    // Without a whole step there is no energy of a step.
    let (_folder, paths) = write(&[cut(0)]);
    let row = &answer(&paths, &options()).rows("hardware_by_rank")[0];
    assert_eq!((row.int("step_count"), row.float("step_energy_j")), (0, None));
    assert!(told_energy(&[cut(0)]).is_some_and(|words| words.ends_with(" in the recorded time")));
}

#[test]
fn ranks_are_compared_by_device_and_a_missing_series_is_null() {
    let mut without = TraceBuilder::new().rank(1).world(2);
    without.thread(1).launch(us(1)..us(2)).kernel("long", 7, us(4)..us(20));
    without.hardware_counter("Power (W)", us(5), 260.0);
    let (_folder, paths) = write(&[rank(0, 100.0), without]);
    let answer = answer(&paths, &options());
    let rows = answer.rows("hardware_by_rank");
    assert_eq!(rows.iter().map(|r| r.int("rank")).collect::<Vec<_>>(), [0, 1]);
    let columns = ["sm_active_pct", "sm_active_busy_pct", "hbm_busy_pct", "energy_j", "step_energy_j"];
    let values = |row: &Record| columns.map(|c| row.float(c));
    assert!(values(&rows[0])[0].is_some() && values(&rows[0])[2].is_none());
    assert_eq!(values(&rows[0])[3..], [Some(0.01025), Some(0.00425)]);
    assert_eq!(values(&rows[1]), [None; 5]);
    assert_eq!((rows[0].int("sampled_every_ns"), rows[1].opt_int("power_every_ns")), (us(10), None));
    let power = answer.rows_where("energy", |r| r.int("rank") == 1 && r.text("scope") == "capture");
    assert_eq!((power[0].text("pj"), power[0].text("reason")), ("", "one sample of power"));
}

#[test]
fn samples_that_were_overwritten_are_counted() {
    let mut t = TraceBuilder::new().rank(0);
    t.thread(1).launch(us(0)..us(1)).kernel("k", 7, us(0)..us(100));
    for i in [3, 4, 5, 8, 9] {
        t.hardware_counter("SM Active (%)", us(10 * i), 50.0);
    }
    let (_folder, paths) = write(&[t]);
    let health = crate::run::rank_trace(&paths[0], 0).health;
    assert_eq!(health.count(hta::health::Counter::CounterSamplesLost), 3 + 2);
}

/// The printed table of recorded counters.
fn printed(t: TraceBuilder) -> PrintedView {
    let (_folder, paths) = write(&[t]);
    let mut views = answer(&paths, &options()).views().into_iter();
    views.find(|v| v.title.starts_with("Hardware counters")).expect("the view")
}

/// A device draws 300 W from 0 to 90 us. The trace stays one of device 0.
fn with_power_of(t: TraceBuilder, device: i64) -> TraceBuilder {
    let mut t = t.device_index(device);
    for i in 0..10 {
        t.hardware_counter("Power (W)", us(10 * i), 300.0);
    }
    t.device_index(0)
}

#[test]
fn a_device_that_is_not_the_only_one_at_work_is_named() {
    let kernel = || {
        let mut t = TraceBuilder::new().rank(0);
        t.thread(1).launch(us(1)..us(2)).kernel("k", 7, us(4)..us(80));
        t
    };
    let names = |devices: &[i64]| {
        let view = printed(devices.iter().copied().fold(kernel(), with_power_of));
        let idle = view.notes.iter().find_map(|note| note.strip_prefix("sampled, but without activities: "));
        let keys = view.columns.iter().filter(|c| ["ranks", "device"].contains(&c.as_str())).count();
        let names: Vec<String> = view.rows.iter().map(|row| row[..keys].join(" device ")).collect();
        (names, idle.unwrap_or_default().to_string())
    };
    let [own, other] = [String::new(), "device 5 of rank 0".to_string()];
    assert_eq!(names(&[0]), (vec!["0".to_string()], own.clone()));
    assert_eq!(names(&[5]), (vec!["0".to_string()], other.clone()));
    assert_eq!(names(&[0, 5]), (vec!["0 device 0".to_string(), "0 device 5".to_string()], other));
    // This is no device.
    assert_eq!(names(&[0, -5]), (vec!["0".to_string()], own));
}

#[test]
fn counters_without_any_mean_are_a_sentence() {
    let mut t = TraceBuilder::new().rank(0);
    t.thread(1).launch(us(1)..us(2)).kernel("k", 7, us(4)..us(80));
    t.hardware_counter("Temperature (C)", us(10), 50.0);
    let PrintedView { rows, notes, .. } = printed(t);
    assert_eq!(rows, [["0"]]);
    assert!(notes.iter().any(|note| note.contains("hardware_counter_means")), "{notes:?}");
}

#[test]
fn power_in_another_unit_is_no_energy() {
    let mut t = TraceBuilder::new().rank(0);
    t.thread(1).launch(us(1)..us(2)).kernel("k", 7, us(4)..us(80));
    for i in 0..10 {
        t.hardware_counter("Power (mW)", us(10 * i), 300_000.0);
        t.hardware_counter("Power", us(10 * i), 300.0);
    }
    let (_folder, paths) = write(&[t]);
    let answer = answer(&paths, &options());
    assert!(answer.rows("energy").is_empty());
    let of_capture = answer.rows_where("hardware_counter_means", |r| r.text("scope") == "capture");
    let told: Vec<_> = of_capture.iter().map(|r| (r.text("kind"), r.text("unit"), r.float("mean"))).collect();
    assert_eq!(told, [("other", "", Some(300.0)), ("other", "", Some(300_000.0))]);
}
