//! The rules of torch's validator on real files: the counts that a separate script of the specification found.

use crate::run::{answer, options};
use crate::shared;
use std::collections::BTreeMap;

/// Violated and checked cases by rule.
type Cases = BTreeMap<String, (i64, i64)>;

/// The rules with cases of a file.
fn cases(shared: &shared::Shared, path: &str) -> Cases {
    let found = answer(&[shared.trace(path)], &options());
    let rows = found.rows_where("validator_rules", |r| r.int("checked") > 0);
    let row = |r: &crate::run::Record| (r.text("rule").to_string(), (r.int("violated"), r.int("checked")));
    rows.iter().map(row).collect()
}

const WAITS: &str = "stream_wait_corr_id_populated";
const PAST: &str = "stream_wait_corr_id_in_past";
const SYNCS: &str = "stream_sync_overlap";
const METADATA: &str = "nccl_metadata";

/// (`backward_seq_id_uniqueness` is violated only in `misc/ascend__trace_view.json.gz`, which hta refuses by name.)
#[test]
fn rules_of_the_validator_find_in_real_files_what_is_known() {
    let Some(shared) = shared::folder() else { return };
    type Known = (&'static str, &'static [(&'static str, (i64, i64))]);
    let known: [Known; 15] = [
        (
            "hta/critical_path_end_to_end_simple_add_input_trace.json.gz",
            &[(WAITS, (20, 20)), (SYNCS, (0, 16))],
        ),
        (
            "hta/critical_path_end_to_end_simple_add_output_overlaid_critical_path_trace.json.gz",
            &[(WAITS, (20, 20)), (SYNCS, (0, 16))],
        ),
        (
            "hta/27b06f_critical_path_end_to_end_simple_add_output_overlaid_critical_path_trace.json.gz",
            &[(WAITS, (20, 20)), (SYNCS, (0, 16))],
        ),
        ("hta/critical_path_cuda_event_sync_multi_stream_event_sync_trace.json.gz", &[(WAITS, (1, 4))]),
        ("hta/critical_path_cuda_event_sync_event_sync_trace.json.gz", &[(WAITS, (0, 2)), (SYNCS, (0, 1))]),
        ("kineto_tb/docs_traces_before_fix_trace.json", &[(WAITS, (2, 2))]),
        ("kineto_tb/docs_traces_after_fix_trace.json", &[(WAITS, (0, 2)), (PAST, (1, 1))]),
        ("multirank_nccl_megatron_tp8/megatron_kineto_0.json.gz", &[(METADATA, (170, 170))]),
        ("multirank_nccl_megatron_tp8/megatron_kineto_7.json.gz", &[(METADATA, (170, 170))]),
        ("hta/trace_diff_control_control.json.gz", &[(METADATA, (102, 102))]),
        ("hta/trace_diff_test_test.json.gz", &[(METADATA, (102, 102))]),
        ("hta/mixed_files_rank_non_gpu.json.gz", &[(METADATA, (12, 12))]),
        ("hta/rank_unavailable_rank_not_found.json.gz", &[(METADATA, (12, 12))]),
        ("hta/distributed_info_unavailable_distributed_info_not_found.json.gz", &[(METADATA, (12, 12))]),
        ("hta/large_integer_trace_rank-70.Mar_25_20_48_12.2861.pt.trace.json.gz", &[(METADATA, (1, 1))]),
    ];
    for (path, want) in known {
        let found = cases(&shared, path);
        for (rule, count) in want {
            assert_eq!(found.get(*rule), Some(count), "{path} {rule}: {found:?}");
        }
        // No launch of these files begins after its kernel.
        assert!(found.get("gpu_kernel_causality").is_none_or(|(violated, _)| *violated == 0), "{path}");
        let listed = |rule: &String| want.iter().any(|(name, _)| name == rule);
        let other = found.iter().filter(|(rule, (violated, _))| *violated > 0 && !listed(rule)).count();
        assert_eq!(other, 0, "{path}: {found:?}");
    }
}

#[test]
fn collectives_of_torch_2_15_are_matched_with_their_titles() {
    let Some(shared) = shared::folder() else { return };
    for (folder, titled) in [("named", true), ("plain", false)] {
        let found = answer(&[shared.trace(&format!("torch215/gloo_record_comm/{folder}"))], &options());
        let group = crate::run::one(found.rows("process_groups"));
        let counts =
            crate::run::ints(&group, ["call_count", "matched_count", "collective_count", "complete_count"]);
        assert_eq!(counts, [24, 24, 12, 12], "{folder}");
        // In one order: the n-th call of a rank belongs to the n-th of the other.
        let mut rows = found.rows("collectives");
        rows.sort_by_key(|r| (r.int("rank"), r.int("submit_ns")));
        let of = |rank: i64| -> Vec<i64> {
            rows.iter().filter(|r| r.int("rank") == rank).map(|r| r.int("collective")).collect()
        };
        assert_eq!(of(0), of(1), "{folder}");
        assert!(rows.iter().all(|r| (r.text("title").starts_with("FSDP::")) == titled));
        let titles: Vec<(String, i64, i64)> = found
            .rows("collective_titles")
            .iter()
            .map(|r| (r.text("title").to_string(), r.int("count"), r.int("text_count")))
            .collect();
        let want = ["FSDP::all_gather (layer#)", "FSDP::all_reduce (layer#)"];
        let want: Vec<_> = want.into_iter().filter(|_| titled).map(|t| (t.to_string(), 12, 2)).collect();
        assert_eq!(titles, want);
        let is_title = |r: &crate::run::Record| r.text("name").starts_with("FSDP::");
        assert!(!found.rows("user_annotations").iter().any(is_title));
        assert!(found.rows("steps").len() == 6);
    }
}
