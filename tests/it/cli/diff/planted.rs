//! Changes planted in small traces, us per step as in the picture of `sets`.

use super::sets::{BASE, Compared, GEMM, Job, TEST, diff, diff_jobs, diff_with, folder, with, write};
use crate::run::Record;
use hta_testkit::{TraceBuilder, Vendor, us};

fn us_of(row: &Record, columns: [&str; 3]) -> [f64; 3] {
    columns.map(|c| row.float(c).unwrap_or(f64::NAN) / 1000.0)
}

const NS: [&str; 3] = ["base_ns_per_step", "test_ns_per_step", "delta_ns_per_step"];

#[test]
fn a_slower_an_added_and_a_deleted_kernel_are_found() {
    let d = diff_jobs(BASE, TEST);
    for (metric, expected) in [
        ("step_time", [200.0, 210.0, 10.0]),
        ("compute", [140.0, 150.0, 10.0]),
        ("waiting", [0.0, 0.0, 0.0]),
        ("transfer", [0.0, 0.0, 0.0]),
        ("unmatched", [15.0, 15.0, 0.0]),
        ("copies", [10.0, 10.0, 0.0]),
        ("idle", [35.0, 35.0, 0.0]),
        ("communication", [15.0, 15.0, 0.0]),
        ("all_copies", [10.0, 10.0, 0.0]),
        ("not_idle", [165.0, 175.0, 10.0]),
        ("gpu_time", [165.0, 175.0, 10.0]),
    ] {
        assert_eq!(us_of(&d.metric(metric), NS), expected, "{metric}");
    }
    let step = d.metric("step_time");
    assert_eq!((step.float("delta_pct"), step.float("share_of_change_pct")), (Some(5.0), Some(100.0)));
    assert_eq!((step.int("base_step_count"), step.int("test_step_count")), (3, 3));
    // Every step takes the same time, so any difference is significant.
    assert_eq!((step.float("test_std_ns"), step.flag("is_significant")), (Some(0.0), Some(true)));
    let rows = d.rows("diff_by_name");
    let gpu: Vec<(&str, &str, &str, f64)> = rows
        .iter()
        .filter(|r| r.text("side") == "gpu")
        .map(|r| {
            (r.text("name"), r.text("change"), r.text("trend"), r.float("delta_ns_per_step").unwrap_or(0.0))
        })
        .collect();
    assert_eq!(
        gpu,
        [
            ("old_one", "deleted", "faster", -40_000.0),
            ("new_one", "added", "slower", 30_000.0),
            (GEMM, "unchanged", "slower", 20_000.0),
            ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", "unchanged", "same", 0.0),
            ("Memcpy HtoD (Pinned -> Device)", "unchanged", "same", 0.0),
        ]
    );
    let gemm = d.name("gpu", GEMM);
    assert_eq!((gemm.float("delta_pct"), gemm.float("share_of_change_pct")), (Some(20.0), Some(200.0)));
    assert_eq!(gemm.float("step_pct"), Some(10.0));
    assert_eq!(d.name("gpu", "new_one").float("delta_pct"), None, "no percentage of nothing");
    let host = d.name("host", "aten::old_one");
    // The operator contains its launch of 1 us.
    assert_eq!((host.text("change"), us_of(&host, NS)), ("deleted", [3.0, 0.0, -3.0]));
    assert_eq!(host.float("base_self_ns_per_step"), Some(2000.0));
    assert!(!rows.iter().any(|r| r.text("name").starts_with("ProfilerStep")), "a step is no name");
    let sentences: Vec<&str> = d.sentences.iter().map(String::as_str).collect();
    assert!(
        sentences[0].starts_with("The step is slower: 200 us -> 210 us (+10.0 us, +5.0 %); beyond"),
        "{sentences:?}"
    );
    assert!(
        sentences[1].starts_with("Most of the change is compute: +10.0 us (100.0 % of it)"),
        "{sentences:?}"
    );
    assert!(
        sentences[2].starts_with(
            "`old_one` (compute) is deleted: 40.0 us -> 0 ns per step (-40.0 us, 20.0 % of the step)"
        ),
        "{sentences:?}"
    );
}

#[test]
fn the_number_of_steps_changes_nothing() {
    let d = diff_jobs(BASE, Job { steps: 8, ..BASE });
    for table in ["diff_summary", "diff_by_name"] {
        for r in d.rows(table) {
            assert_eq!(r.float("delta_ns_per_step"), Some(0.0), "{}", r.0);
        }
    }
    assert_eq!(d.metric("step_time").int("test_step_count"), 8);
    assert_eq!(d.rows("diff_steps").len(), 11);
    assert_eq!(d.sentences[0], "The step takes as long as before: 200 us");
}

#[test]
fn a_step_that_changes_by_less_than_one_percent_has_no_shares() {
    // One kernel of 40 us is gone, another takes 41 us longer.
    let d = diff_jobs(BASE, Job { gemm: 141, old_one: 0, ..BASE });
    assert_eq!(
        d.sentences[0],
        "The step takes as long as before, within 1 %: 200 us -> 201 us (+1.00 us, +0.5 %)"
    );
    for table in ["diff_summary", "diff_by_name"] {
        assert!(d.rows(table).iter().all(|r| r.float("share_of_change_pct").is_none()), "{table}");
    }
    assert!(d.views.iter().all(|v| v.columns.iter().all(|c| c.heading != "share")));
    assert!(d.notes().contains("no shares: a step that changes by less than 1 %"), "{}", d.notes());
    // What cancels out is said.
    let gone = d.name("gpu", "old_one");
    assert_eq!((gone.text("change"), gone.float("step_pct")), ("deleted", Some(-20.0)));
}

#[test]
fn ranks_that_only_one_set_has_are_left_out() {
    let (a, b) = (folder(), folder());
    let base: Vec<_> = (0..2).map(|rank| Job { rank, ..BASE }.write(&a)).collect();
    // Ranks 2 and 3 are much slower, but are not compared.
    let test: Vec<_> = (0..4)
        .map(|rank| Job { rank, world: 4, gemm: if rank < 2 { 110 } else { 900 }, ..BASE }.write(&b))
        .collect();
    let d = diff(&base, &test);
    let step = d.metric("step_time");
    assert_eq!(us_of(&step, NS), [200.0, 210.0, 10.0]);
    assert_eq!(
        (step.int("base_rank_count"), step.int("test_rank_count"), step.int("test_step_count")),
        (2, 2, 6)
    );
    let counted: Vec<i64> = d
        .rows("diff_steps")
        .iter()
        .filter(|r| r.text("set") == "test" && r.flag("is_counted") == Some(true))
        .map(|r| r.int("rank"))
        .collect();
    assert_eq!(counted, [0, 0, 0, 1, 1, 1]);
    assert!(d.notes().contains("left out, because only test has them: ranks 2, 3"), "{}", d.notes());
    assert!(d.notes().contains("world sizes differ: 2 before, 4 after"), "{}", d.notes());
}

#[test]
fn without_a_shared_rank_all_ranks_are_compared_and_it_is_said() {
    let (a, b) = (folder(), folder());
    let test: Vec<_> =
        [5, 6].map(|rank| Job { rank, gemm: if rank == 5 { 110 } else { 130 }, ..BASE }.write(&b)).into();
    let d = diff(&[BASE.write(&a)], &test);
    assert_eq!(us_of(&d.metric("step_time"), NS), [200.0, 220.0, 20.0]);
    assert_eq!(d.metric("step_time").int("test_rank_count"), 2);
    assert!(d.notes().contains("the sets share no rank number"), "{}", d.notes());
}

#[test]
fn ranks_with_more_steps_weigh_no_more() {
    let (a, b) = (folder(), folder());
    // 200 us in 2 steps and 230 us in 5: a mean over ranks of 215.
    let test = [Job { steps: 2, ..BASE }, Job { rank: 1, steps: 5, gemm: 130, ..BASE }].map(|j| j.write(&b));
    let base = [BASE, Job { rank: 1, ..BASE }].map(|j| j.write(&a));
    let d = diff(&base, &test);
    assert_eq!(us_of(&d.metric("step_time"), NS), [200.0, 215.0, 15.0]);
    assert_eq!(us_of(&d.name("gpu", GEMM), NS), [100.0, 115.0, 15.0]);
}

#[test]
fn a_change_within_the_noise_is_told_from_one_beyond_it() {
    // gaps of 0, 30, 60, 0, 30, 60 us before the first kernel of a step: std 26.8, standard error 15.5
    let noisy = |job: Job| Job { steps: 6, jitter: 30, ..job };
    let (a, b) = (folder(), folder());
    let base = noisy(BASE).write(&a);
    let small = diff_with(
        std::slice::from_ref(&base),
        &[noisy(Job { gemm: 125, ..BASE }).write(&b)],
        &with(&[]),
        &["step_time > +5%", "kernel:gemm > +5%"],
    );
    let step = small.metric("step_time");
    assert_eq!(us_of(&step, NS), [230.0, 255.0, 25.0]);
    assert_eq!(step.float("base_std_ns").map(f64::round), Some(26_833.0));
    assert_eq!(step.float("std_error_ns").map(f64::round), Some(15_492.0));
    assert_eq!(step.flag("is_significant"), Some(false));
    let told = &small.sentences[0];
    assert!(told.starts_with("The step shows no change that can be told from noise: 230 us ->"), "{told}");
    let [step, kernel] = small.verdicts.as_slice() else { panic!("two conditions") };
    assert!(step.is_crossed && kernel.is_crossed);
    assert!(
        step.noise.starts_with("within the noise of the steps (1.6 standard errors, 3"),
        "{}",
        step.noise
    );
    assert!(kernel.noise.starts_with("beyond the noise"), "{}", kernel.noise);
    let large = diff(&[base], &[noisy(Job { gemm: 180, ..BASE }).write(&b)]);
    assert_eq!(large.metric("step_time").flag("is_significant"), Some(true));
    // Two steps are too few for an estimate.
    let two = diff_jobs(Job { steps: 2, ..BASE }, Job { steps: 2, ..TEST });
    assert_eq!(two.metric("step_time").flag("is_significant"), None);
    assert_eq!(
        two.sentences[0],
        "The step takes 200 us -> 210 us (+10.0 us, +5.0 %); 2 steps on a side, of which 3 are needed: \
         cannot tell a change from noise"
    );
    assert_eq!(two.name("gpu", GEMM).text("trend"), "unknown");
    let parts = &two.views[1];
    assert!(!parts.columns.iter().any(|c| c.heading == "noise"), "{:?}", parts.columns);
}

#[test]
fn partial_steps_do_not_count() {
    let cut = |job: Job| {
        let mut t = job.builder();
        // A fourth step with one of five kernels.
        let mut main = t.thread(1);
        main.step(99, us(5000)..us(5900));
        main.launch(us(5001)..us(5002)).kernel("old_one", 7, us(5010)..us(5800));
        t
    };
    let (a, b) = (folder(), folder());
    let d = diff(&[write(&cut(BASE), &a, "rank_0.json")], &[TEST.write(&b)]);
    assert_eq!(us_of(&d.metric("step_time"), NS), [200.0, 210.0, 10.0]);
    assert_eq!(us_of(&d.name("gpu", "old_one"), NS), [40.0, 0.0, -40.0]);
    let last =
        d.rows("diff_steps").into_iter().find(|r| r.opt_int("step_label") == Some(99)).expect("its row");
    assert_eq!((last.flag("is_partial"), last.flag("is_counted")), (Some(true), Some(false)));
}

#[test]
fn without_steps_whole_captures_are_compared_and_it_is_said() {
    let bare = |job: Job| Job { marks_steps: false, ..job };
    let d = diff_jobs(bare(BASE), bare(TEST));
    assert_eq!(d.metric("step_time").text("scope"), "capture");
    assert_eq!(us_of(&d.name("gpu", GEMM), NS), [300.0, 360.0, 60.0]);
    assert!(d.notes().contains("base and test: no steps found"), "{}", d.notes());
    // One side has steps, the other has none: captures are compared.
    let mixed = diff_jobs(BASE, bare(TEST));
    assert_eq!(mixed.metric("step_time").text("scope"), "capture");
    assert_eq!(us_of(&mixed.name("gpu", GEMM), NS), [300.0, 360.0, 60.0]);
    assert!(mixed.notes().contains("test: no steps found"), "{}", mixed.notes());
}

#[test]
fn gpu_rows_can_be_keyed_by_operator_and_by_short_name() {
    let (a, b) = (folder(), folder());
    let (base, test) = ([BASE.write(&a)], [TEST.write(&b)]);
    let by_op = diff_with(&base, &test, &with(&[("--by", "op")]), &["kernel:gemm > +10%"]);
    assert_eq!(us_of(&by_op.name("gpu", "aten::mm"), NS), [100.0, 120.0, 20.0]);
    let outside: Vec<Record> =
        by_op.rows("diff_by_name").into_iter().filter(|r| r.text("name") == "[no operator]").collect();
    assert_eq!(outside.iter().map(|r| r.text("class")).collect::<Vec<_>>(), ["communication", "memory"]);
    // Thresholds use names, whatever identifies the rows.
    assert!(by_op.verdicts[0].is_crossed);
    let short = diff_with(&base, &test, &with(&[("--short-names", "")]), &[]);
    assert_eq!(us_of(&short.name("gpu", "gemm<f32,128>"), NS), [100.0, 120.0, 20.0]);
}

#[test]
fn kernels_of_other_libraries_meet_by_category_and_by_shapes() {
    let trace = |kernel: &str, time: i64| {
        let mut t = TraceBuilder::new().rank(0).world(1);
        let mut main = t.thread(1);
        main.step(1, us(0)..us(500));
        for (i, rows) in (0..).zip([64, 128]) {
            let at = 100 * i;
            main.op("aten::mm", us(at + 1)..us(at + 9)).inputs(&[(&[rows, 8], "float"), (&[8, 2], "float")]);
            main.launch(us(at + 2)..us(at + 4)).kernel(kernel, 7, us(at + 10)..us(at + 10 + time * (i + 1)));
        }
        t
    };
    let (a, b) = (folder(), folder());
    let base = [write(&trace("ampere_sgemm_64x64_nn", 20), &a, "r.json")];
    let test = [write(&trace("Cijk_Ailk_Bljk_SB_MT64x64x16", 30), &b, "r.json")];
    let rows = |by: &str| -> Vec<(String, f64, f64)> {
        let d = diff_with(&base, &test, &with(&[("--by", by)]), &[]);
        let gpu = d.rows("diff_by_name").into_iter().filter(|r| r.text("side") == "gpu");
        let time = |r: &Record, side: &str| r.float(&format!("{side}_ns_per_step")).unwrap_or(0.0) / 1e3;
        gpu.map(|r| (r.text("name").to_string(), time(&r, "base"), time(&r, "test"))).collect()
    };
    assert_eq!(rows("category"), [("gemm".to_string(), 60.0, 90.0)]);
    let (small, large) = ("aten::mm [[64,8],[8,2]]".to_string(), "aten::mm [[128,8],[8,2]]".to_string());
    assert_eq!(rows("op,shape"), [(large, 40.0, 60.0), (small, 20.0, 30.0)]);
}

#[test]
fn devices_of_two_makers_are_compared_by_category() {
    let trace = |vendor: Vendor, kernel: &str| {
        let mut t = TraceBuilder::new().rank(0).world(1).vendor(vendor);
        for i in 0..3 {
            let at = i * 1_000;
            let mut main = t.thread(1);
            main.step(i as u64, us(at)..us(at + 500));
            main.launch(us(at + 2)..us(at + 4)).kernel(kernel, 7, us(at + 10)..us(at + 30));
        }
        t
    };
    let (a, b) = (folder(), folder());
    let base = [write(&trace(Vendor::Nvidia, "ampere_sgemm_64x64_nn"), &a, "r.json")];
    let test = [write(&trace(Vendor::Amd, "Cijk_Ailk_Bljk_SB_MT64x64x16"), &b, "r.json")];
    let d = diff(&base, &test);
    let names: Vec<String> = d.rows("diff_by_name").iter().map(|r| r.text("name").to_string()).collect();
    assert_eq!(names, ["gemm", "LaunchKernel"]);
    assert!(d.rows("diff_by_name").iter().all(|r| r.text("change") == "unchanged"));
    assert!(d.notes().contains("compared by category, because kernels of different makers"), "{}", d.notes());
    // Whoever asks for names gets them.
    let by_name = diff_with(&base, &test, &with(&[("--by", "name")]), &[]);
    assert_eq!(by_name.name("gpu", "ampere_sgemm_64x64_nn").text("change"), "deleted");
}

#[test]
fn how_far_two_runs_can_be_compared_is_graded_with_the_reasons() {
    let grade = |base: Job, test: Job| {
        let (a, b) = (folder(), folder());
        let d = diff(&[base.write(&a)], &[test.write(&b)]);
        let rows = d.rows("diff_comparability");
        let all = rows.iter().find(|r| r.text("aspect") == "all").expect("the grade");
        let sentence = d.notes().lines().next().unwrap_or_default().to_string();
        (all.text("certainty").to_string(), sentence)
    };
    // The testkit writes no versions of drivers, so that nothing is sure.
    let (certainty, sentence) = grade(BASE, TEST);
    assert_eq!(certainty, "likely", "{sentence}");
    assert_eq!(
        sentence,
        "comparable: likely: drivers and runtimes, input shapes not recorded; 3 and 3 steps"
    );
    let (certainty, sentence) = grade(BASE, Job { steps: 2, ..TEST });
    assert_eq!(certainty, "at most");
    assert!(sentence.ends_with("3 and 2 steps, of which three are needed"), "{sentence}");
    let (certainty, sentence) = grade(BASE, Job { world: 4, ..TEST });
    assert_eq!(certainty, "withheld");
    assert!(sentence.contains("ranks differ"), "{sentence}");
}

#[test]
fn gpu_rows_can_be_keyed_by_module() {
    let trace = |gemm: i64| {
        let mut t = TraceBuilder::new().rank(0).world(1);
        let mut main = t.thread(1);
        main.step(1, us(0)..us(500));
        main.frame("train.py(3): step", us(0)..us(500));
        main.frame("nn.Module: Net_0", us(1)..us(100));
        main.frame("net.py(9): forward", us(2)..us(90));
        main.frame("nn.Module: Linear_0", us(10)..us(50));
        main.launch(us(20)..us(22)).kernel("gemm", 7, us(60)..us(60 + gemm));
        main.launch(us(60)..us(62)).kernel("relu", 7, us(200)..us(210));
        main.launch(us(200)..us(202)).kernel("adam", 7, us(220)..us(230));
        t.unlinked().kernel("lost", 7, us(240)..us(250));
        t
    };
    let (a, b) = (folder(), folder());
    let by = with(&[("--by", "module")]);
    let d = diff_with(&[write(&trace(10), &a, "r.json")], &[write(&trace(30), &b, "r.json")], &by, &[]);
    let rows: Vec<(String, f64)> = d
        .rows("diff_by_name")
        .iter()
        .filter(|r| r.text("side") == "gpu")
        .map(|r| (r.text("name").to_string(), r.float("test_ns_per_step").unwrap_or(0.0)))
        .collect();
    let expected = [("Net_0/Linear_0", 30e3), ("Net_0", 10e3), ("[no module]", 10e3), ("[unlinked]", 10e3)];
    assert_eq!(rows, expected.map(|(n, x)| (n.to_string(), x)));
    let without = diff_with(&[BASE.write(&a)], &[TEST.write(&b)], &by, &[]);
    assert!(without.notes().contains("no nn.Module frames are recorded"), "{}", without.notes());
}

#[test]
fn thresholds_mean_what_the_page_says() {
    let (a, b) = (folder(), folder());
    let (base, test) = ([BASE.write(&a)], [TEST.write(&b)]);
    for (condition, crossed) in [
        ("step_time > +5%", false),
        ("step_time >= +5%", true),
        ("step_time > +4.999%", true),
        ("step_time > +9999ns", true),
        ("step_time > +10us", false),
        ("step_time > 209us", true),
        ("step_time <= 210us", true),
        ("idle > +0%", false),
        ("idle >= +0%", true),
        ("not_idle < -1%", false),
        ("kernel:old_one < -99%", true),
        ("kernel:old_one <= -100%", true),
        ("kernel:new_one > +1000000%", true),
        ("kernel:new_one < +5%", false),
        ("kernel:new_one > 29us", true),
        ("kernel:nobody > +5%", false),
        ("kernel:nobody >= +0%", true),
        ("kernel:void gemm<float, 128>(float*, int) >= +20%", true),
        ("name:*_one > -10us", false),
        ("name:*_one < -9us", true),
        ("op:aten::mm > +0us", false),
        ("op:aten::old_one < -2us", true),
        ("count:new_one > 0", true),
        ("count:cudaLaunchKernel >= +0", true),
        ("count:cudaLaunchKernel > 3", false),
    ] {
        let d = diff_with(&base, &test, &with(&[]), &[condition]);
        assert_eq!(d.verdicts[0].is_crossed, crossed, "{}", d.verdicts[0].sentence());
        assert_eq!(d.verdicts[0].is_unknown, condition.contains("nobody"), "{condition}");
    }
}

#[test]
fn ranks_without_gpu_compare_by_host_work() {
    let trace = |len: i64| {
        let mut t = TraceBuilder::new().rank(0).world(1);
        for i in 0..3 {
            let at = i * 1000;
            let mut main = t.thread(1);
            main.step(i as u64, us(at)..us(at + 500));
            main.op("aten::mm", us(at + 10)..us(at + 10 + len));
        }
        t
    };
    let (a, b) = (folder(), folder());
    let d: Compared = diff(&[write(&trace(100), &a, "r.json")], &[write(&trace(150), &b, "r.json")]);
    assert_eq!(us_of(&d.metric("compute"), NS), [100.0, 150.0, 50.0]);
    assert_eq!(us_of(&d.metric("idle"), NS), [400.0, 350.0, -50.0]);
    assert!(d.rows("diff_steps").iter().all(|r| r.text("basis") == "cpu"));
    // Compared with a GPU job: possible, with a note.
    let mixed = diff(&[write(&trace(100), &a, "r.json")], &[TEST.write(&b)]);
    assert!(
        mixed.notes().contains("what the parts are made of differ: cpu before, gpu after"),
        "{}",
        mixed.notes()
    );
}
