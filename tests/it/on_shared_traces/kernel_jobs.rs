//! Jobs with exchanges of 2026 against their truth (`cases/kernels26/jobs`), which was simulated with and
//! without what was planted.

use crate::run::{Answer, Record, answer, options};
use crate::shared;
use serde_json::Value;
use std::path::{Path, PathBuf};

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = shared::files_below(folder);
    files.retain(|f| shared::looks_like_a_trace(f) || f.extension().is_some_and(|e| e == "sqlite"));
    files.sort();
    files
}

fn job_folder(name: &str) -> Option<PathBuf> {
    Some(shared::folder()?.cases("kernels26")?.join("jobs").join(name))
}

/// A job with its truth, if it is there.
fn job(name: &str) -> Option<(Answer, Value)> {
    let folder = job_folder(name)?;
    let truth = shared::json(&folder.with_extension("truth.json"));
    Some((answer(&files(&folder), &options()), truth))
}

fn us(value: &Value, key: &str) -> f64 {
    value[key].as_f64().expect("a number")
}

/// Each rank's parts of time, within 2 us.
fn parts_are_right(answer: &Answer, truth: &Value) {
    for row in answer.rows_where("temporal_breakdown", |r| r.text("scope") == "span") {
        let right = &truth["ranks"][row.int("rank").to_string()];
        for (column, key) in [
            ("compute_ns", "compute_us"),
            ("communication_ns", "communication_us"),
            ("fused_ns", "fused_us"),
            ("exposed_communication_ns", "exposed_us"),
            ("exposed_upper_ns", "exposed_upper_us"),
        ] {
            let found = row.int(column) as f64 / 1e3;
            assert!((found - us(right, key)).abs() <= 2.0, "{column} {found} {right}");
        }
        let waits = |column: &str| {
            let calls = answer.rows_where("collectives", |c| c.int("rank") == row.int("rank"));
            calls.iter().filter_map(|c| c.opt_int(column)).sum::<i64>() as f64 / 1e3
        };
        assert!((waits("wait_ns") - us(right, "waiting_us")).abs() <= 2.0, "{right}");
        assert!((waits("wait_upper_ns") - us(right, "fused_wait_upper_us")).abs() <= 2.0, "{right}");
    }
}

/// The late rank with what fixing it saves: within a tenth of the truth.
fn late(answer: &Answer, truth: &Value) -> Record {
    let found = answer.rows_where("findings", |r| r.int("position") == 1).remove(0);
    let steps = answer.rows_where("temporal_breakdown", |r| {
        (r.int("rank"), r.text("scope"), r.flag("is_partial")) == (0, "step", Some(false))
    });
    let gain = found.int("recoverable_ns") as f64 / 1e3 / steps.len() as f64;
    assert!((gain / us(truth, "true_gain_us") - 1.0).abs() <= 0.1, "{gain} {found:?}");
    let rank = format!("rank {}", truth["plant"]["rank"]);
    assert_eq!((found.text("kind"), found.text("rank_label")), ("straggler", rank.as_str()));
    found
}

#[test]
fn barriers_of_a_library_belong_to_its_exchanges() {
    let Some((answer, truth)) = job("hybridep_slow_rank") else { return };
    parts_are_right(&answer, &truth);
    let found = late(&answer, &truth);
    assert_eq!((found.text("key"), found.text("certainty")), ("slow_device", "sure"));
    assert!(found.text("detail").contains("1.30 times"), "{found:?}");
    let layers = answer.rows("expert_layers");
    assert!(layers.len() == 24 && layers.iter().all(|l| l.int("hot_rank") == 2));
    for rank in 0..4 {
        let passes = answer.rows_where("expert_ranks", |r| r.int("rank") == rank);
        let mean = |of: &dyn Fn(&Record) -> i64| passes.iter().map(of).sum::<i64>() / passes.len() as i64;
        let expert = truth["expert_us"][rank.to_string()].as_f64().expect("a time") * 1e3 / 24.0;
        assert!((mean(&|r| r.int("expert_ns")) as f64 / expert - 1.0).abs() <= 0.01, "{rank} {expert}");
        let waits = mean(&|r| r.int("dispatch_wait_ns") + r.int("combine_wait_ns"));
        assert!(if rank == 2 { waits < 10_000 } else { (425_000..440_000).contains(&waits) }, "{waits}");
    }
}

#[test]
fn a_rank_late_to_fused_kernels_is_named_and_nothing_is_told_of_their_inside() {
    let Some((answer, truth)) = job("mega_moe_late_rank") else { return };
    parts_are_right(&answer, &truth);
    let found = late(&answer, &truth);
    assert_eq!((found.text("key"), found.text("certainty")), ("slow_kernel", "at most"));
    assert!(found.text("detail").contains("flash_fwd_kernel"), "{found:?}");
    let others = answer
        .rows_where("findings", |r| r.text("kind") == "transfer_bare" || r.text("place").contains("mega"));
    assert!(others.is_empty(), "{others:?}");
    assert!(answer.rows("overlap").iter().all(|r| r.float("overlap_ratio").is_none()));
    let layers = answer.rows("expert_layers");
    assert!(layers.len() == 48 && layers.iter().all(|l| l.opt_int("hot_rank").is_none()));
    assert!(answer.rows("expert_ranks").iter().all(|r| r.opt_int("expert_ns").is_none()));
    let overlap = answer.rows_where("trust", |r| r.text("capability") == "overlap");
    assert_eq!(overlap.iter().map(|r| r.text("grade")).collect::<Vec<_>>(), ["withheld"]);
    assert!(answer.rows("kernels_end_together").is_empty());
}

#[test]
fn experts_without_a_known_exchange_are_doubted() {
    let Some((answer, _)) = job("unknown_library_moe") else { return };
    let trust = answer.rows_where("trust", |r| r.text("rule") == "experts_without_exchange");
    let graded: Vec<_> = trust.iter().map(|r| (r.text("capability"), r.text("grade"))).collect();
    let bounds = ["overlap", "ranks", "transfer"].map(|capability| (capability, "at most"));
    assert_eq!(graded, [&[("experts", "withheld")][..], &bounds].concat());
    let sentence = trust[0].text("sentence").to_string();
    for name in ["acme::ship_out", "acme::ship_back", "acme::fence"] {
        assert!(sentence.contains(name), "{sentence}");
    }
    let together = answer.rows("kernels_end_together");
    assert_eq!(together.len(), 1);
    assert!(together[0].text("name").contains("acme::fence"));
    assert_eq!(together[0].int("instance_count"), 48);
    assert!(answer.rows("expert_layers").is_empty());
    for stem in ["breakdown", "overlap"] {
        assert!(answer.notes(stem).iter().any(|n| n.contains("no kernel is known to exchange")), "{stem}");
    }
}

#[test]
fn one_file_of_a_job_says_of_how_many_ranks_it_is() {
    let Some(folder) = job_folder("unknown_library_moe") else { return };
    let answer = answer(&files(&folder)[..1], &options());
    let trust = answer.rows_where("trust", |r| r.text("rule") == "experts_without_exchange");
    assert!(trust[0].text("sentence").contains("acme::ship_out"), "{trust:?}");
}

#[test]
fn known_exchanges_are_not_doubted_and_compute_ends_apart() {
    let Some(root) = shared::folder() else { return };
    let jobs = root.cases("jobs");
    let of_jobs =
        ["n_expert_w8_0", "ctrl_tp2pp2dp4", "n_tpgroup_tp4dp4_0"].map(|n| Some(jobs.as_ref()?.join(n)));
    let traces = ["parallelism/moe_ep4_hot_rank2", "nsys_ranks/ep4"].map(|n| Some(root.traces().join(n)));
    for folder in of_jobs.into_iter().chain(traces).flatten().filter(|f| f.is_dir()) {
        let answer = answer(&files(&folder), &options());
        let doubts = answer.rows_where("trust", |r| r.text("rule") == "experts_without_exchange");
        assert!(doubts.is_empty(), "{}: {doubts:?}", folder.display());
        let together = answer.rows("kernels_end_together");
        assert!(together.is_empty(), "{}: {together:?}", folder.display());
    }
}
