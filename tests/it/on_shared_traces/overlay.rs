//! Overlays of real traces: what they keep, to the last digit, and what they add.

use crate::cli::overlay::{Asked, alone, several, valid};
use crate::shared;
use std::path::PathBuf;

const FILES: [&str; 6] = [
    "hta/nccl_parser_config_nccl_data.json.gz",
    "hta/large_integer_trace_rank-70.Mar_25_20_48_12.2861.pt.trace.json.gz",
    "kineto_tb/2d19c6_samples_resnet50_num_workers_0_worker0.pt.trace.json.gz",
    "tracelens/b200_eager_trace.json.gz",
    "cpu_single/cpu_awkward_names.pt.trace.json",
    "multirank_nccl_megatron_tp8/megatron_kineto_3.json.gz",
];

#[test]
fn real_sets_are_kept_to_the_last_digit() {
    let Some(root) = shared::folder() else { return };
    for (set, count) in [("multirank_nccl_megatron_tp8", 8), ("multirank_gloo_ddp4", 4)] {
        let mut files = shared::files_below(&root.trace(set));
        files.retain(|f| shared::looks_like_a_trace(f) && !f.to_string_lossy().contains("/et/"));
        files.retain(|f| !f.ends_with("ground_truth.json"));
        assert_eq!(files.len(), count);
        several::check(&files, &Asked::default());
    }
}

#[test]
fn what_is_added_to_a_real_trace_is_valid() {
    let Some(root) = shared::folder() else { return };
    let count = valid::check(&[root.trace("tracelens/mi300_resnet_act_checkpoint.json.gz")]);
    assert!(count["C"] > 1000 && count["s"] > 0, "{count:?}");
}

#[test]
fn counters_of_real_traces_need_no_host_events_but_calls() {
    let Some(root) = shared::folder() else { return };
    let files: Vec<PathBuf> = FILES.iter().map(|f| root.trace(f)).collect();
    assert!(alone::check_counters(&files) > 5);
}

#[test]
fn real_traces_read_as_they_did() {
    let Some(root) = shared::folder() else { return };
    assert!(FILES.iter().map(|f| alone::check(&root.trace(f)).1).sum::<usize>() > 1000);
}
