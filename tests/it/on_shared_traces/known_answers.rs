//! Real traces with exact answers that were computed from the definitions, without any tool.

use crate::run::{Record, answer, device_windows, ints, one, options};
use crate::shared;
use std::path::Path;

/// A window of a trace and its content, ns.
struct Window {
    trace: &'static str,
    scope: &'static str,
    label: Option<i64>,
    device_window: bool,
    dur: i64,
    /// Compute, exposed communication, exposed memory, idle.
    parts: [i64; 4],
}

const fn span(trace: &'static str, dur: i64, parts: [i64; 4]) -> Window {
    Window { trace, scope: "span", label: None, device_window: false, dur, parts }
}

const fn step(trace: &'static str, label: i64, device_window: bool, dur: i64, parts: [i64; 4]) -> Window {
    Window { trace, scope: "step", label: Some(label), device_window, dur, parts }
}

const NCCL_DATA: &str = "hta/nccl_parser_config_nccl_data.json.gz";
const CONTROL: &str = "hta/trace_diff_control_control.json.gz";
const MI300: &str = "tracelens/mi300_resnet_act_checkpoint.json.gz";
const B200: &str = "tracelens/b200_eager_trace.json.gz";
const RESNET50: &str = "kineto_tb/samples_resnet50_num_workers_0_worker0.1623143089861.pt.trace.json.gz";
const GLOO: &str = "multirank_gloo_ddp4/rank_2.pt.trace.json.gz";

const WINDOWS: [Window; 7] = [
    span(NCCL_DATA, 660_551_005, [115_655_847, 39_559_468, 2_284_699, 503_050_991]),
    span(CONTROL, 464_594_000, [281_336_000, 87_921_000, 19_330_000, 76_007_000]),
    span(MI300, 86_567_708, [25_739_303, 55_625_224, 2_637_529, 2_565_652]),
    span(B200, 84_487_178, [8_652_137, 2_141_501, 802_844, 72_890_696]),
    step(RESNET50, 5, true, 187_948_000, [98_598_000, 0, 2_031_000, 87_319_000]),
    step(RESNET50, 5, false, 176_078_000, [87_356_000, 0, 2_026_000, 86_696_000]),
    step(GLOO, 2, false, 211_048_896, [84_577_604, 50_115_200, 0, 76_356_092]),
];

/// Host wait, kernel wait and other of the device's idle time over its span, ns.
const IDLE: [(&str, [i64; 3]); 3] = [
    (NCCL_DATA, [497_379_562, 5_671_429, 0]),
    (B200, [70_683_616, 2_207_080, 0]),
    (MI300, [0, 283_537, 2_282_115]),
];

/// Needs the traces beside the repository: see [`crate::shared::folder`].
mod on_shared_traces {
    use super::*;

    #[test]
    fn windows_of_real_traces_hold_what_the_definitions_say() {
        let Some(root) = shared::folder() else { return };
        for w in WINDOWS {
            let options = if w.device_window { device_windows() } else { options() };
            let answer = answer(&[root.trace(w.trace)], &options);
            let wanted = |r: &Record| r.text("scope") == w.scope && r.opt_int("step_label") == w.label;
            let row = one(answer.rows_where("temporal_breakdown", wanted));
            let parts = ints(&row, ["compute_ns", "exposed_communication_ns", "copies_ns", "idle_ns"]);
            assert_eq!((row.int("dur_ns"), parts), (w.dur, w.parts), "{}", w.trace);
        }
    }

    #[test]
    fn device_idle_time_splits_as_the_definitions_say() {
        let Some(root) = shared::folder() else { return };
        for (trace, parts) in IDLE {
            let answer = answer(&[root.trace(trace)], &options());
            let wanted = |r: &Record| r.text("scope") == "span" && r.opt_int("stream").is_none();
            let row = one(answer.rows_where("idle", wanted));
            assert_eq!(ints(&row, ["host_wait_ns", "kernel_wait_ns", "other_ns"]), parts, "{trace}");
        }
    }

    /// One addition of two tensors: the device waits for the creation of the CUDA context.
    #[test]
    fn simple_add_waits_for_cuda_free_and_for_its_first_launch() {
        let Some(root) = shared::folder() else { return };
        let trace = root.trace("hta/critical_path_end_to_end_simple_add_input_trace.json.gz");
        let answer = answer(&[trace], &options());
        let wait =
            one(answer.rows_where("idle", |r| r.text("scope") == "span" && r.opt_int("stream").is_none()));
        assert_eq!(wait.int("host_wait_ns"), 15_975_667_000);
        let of = |name: &str| -> i64 {
            let rows =
                answer.rows_where("idle_host", |r| r.text("scope") == "span" && r.text("name") == name);
            rows.iter().map(|r| r.int("time_ns")).sum()
        };
        assert_eq!((of("cudaFree"), of("cudaLaunchKernel")), (7_998_623_000, 4_220_038_000));
    }

    /// The reference counts only kernels, hta also copies and sets. Busy, span and idle time differ by these, so only
    /// values that depend on kernels alone are compared.
    #[test]
    fn megatron_has_the_computation_communication_and_kernels_of_the_reference() {
        let Some(root) = shared::folder() else { return };
        let text = std::fs::read_to_string(shared::reference("megatron_tp8.json"))
            .expect("the reference can be read");
        let reference: serde_json::Value = serde_json::from_str(&text).expect("the reference is JSON");
        let answer = answer(&[root.trace("multirank_nccl_megatron_tp8")], &options());
        let mut compared = 0;
        for rank in 0..8i64 {
            let want = &reference["ranks"][rank.to_string()];
            let us = |key: &str| (want[key].as_f64().expect("a time") * 1000.0) as i64;
            let span = |r: &Record| r.int("rank") == rank && r.text("scope") == "span";
            let row = one(answer.rows_where("overlap", span));
            let times = ints(&row, ["communication_ns", "compute_ns", "overlap_ns"]);
            assert_eq!(times, [us("comm_us"), us("compute_us"), us("overlap_us")], "rank {rank}");
            let kernels =
                answer.rows_where("kernels", |r| r.int("rank") == rank && r.text("class") != "memory");
            let nccl = kernels.iter().filter(|r| r.text("class") == "communication").count();
            let counts = ["kernels", "nccl"].map(|k| want[k].as_u64().expect("a count") as usize);
            assert_eq!([kernels.len(), nccl], counts, "rank {rank}");
            // the span of kernels alone
            let start = kernels.iter().map(|r| r.int("ts_ns")).min().expect("kernels");
            let end = kernels.iter().map(|r| r.int("ts_ns") + r.int("dur_ns")).max().expect("kernels");
            assert_eq!(end - start, us("kernel_span_us"), "rank {rank}");
            compared += 6;
        }
        assert_eq!((compared, reference["ranks"].as_object().map(|r| r.len())), (48, Some(8)));
    }

    #[test]
    fn every_trace_with_a_known_answer_exists() {
        let Some(root) = shared::folder() else { return };
        for trace in WINDOWS.iter().map(|w| w.trace).chain(IDLE.iter().map(|i| i.0)) {
            assert!(Path::new(&root.trace(trace)).is_file(), "{trace}");
        }
    }
}
