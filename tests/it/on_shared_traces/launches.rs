//! Launch calls of real traces have the statistics that were counted apart.

use crate::analyses::launches::*;
use crate::cli::one_analysis::of_files;
use crate::run::{ints, options};
use crate::shared;

const NCCL_DATA: &str = "hta/nccl_parser_config_nccl_data.json.gz";

const MI300: &str = "tracelens/mi300_resnet_act_checkpoint.json.gz";

/// API, and of its calls over the capture: number of calls used for latency and delay, host time, short calls, their
/// busy time, late starts, median and 95th percentile of delay and of latency, ns.
type Known = (&'static str, &'static str, [i64; 9]);

/// Counted from the files without hta, call by call. In the trace of the MI300 each stream begins with activities whose
/// launch is not recorded; calls that began before its first launched activity are left out.
const KNOWN: [Known; 9] = [
    (NCCL_DATA, "cudaLaunchKernel", [2550, 24_428_263, 1022, 3_792_066, 192, 1746, 138_004, 12_711, 146_657]),
    (NCCL_DATA, "cudaLaunchKernelExC", [150, 1_218_296, 5, 35_007, 31, 17_957, 251_050, 25_725, 256_012]),
    (NCCL_DATA, "cudaMemcpyAsync", [960, 9_049_366, 936, 1_914_337, 4, 2011, 2381, 10_958, 13_381]),
    (NCCL_DATA, "cudaMemsetAsync", [114, 1_168_851, 114, 390_717, 40, 35_530, 493_377, 46_678, 509_600]),
    (MI300, "hipExtLaunchKernel", [5, 65_260, 0, 0, 5, 31_148_479, 34_689_220, 31_154_129, 34_694_940]),
    (
        MI300,
        "hipExtModuleLaunchKernel",
        [459, 3_922_677, 92, 232_544, 459, 28_634_734, 33_939_753, 28_637_464, 33_942_863],
    ),
    (
        MI300,
        "hipLaunchKernel",
        [409, 3_726_849, 81, 178_518, 409, 29_258_760, 34_190_532, 29_263_810, 34_193_352],
    ),
    (
        MI300,
        "hipMemcpyAsync",
        [184, 1_126_063, 17, 40_622, 184, 35_750_903, 38_664_945, 35_754_073, 38_667_325],
    ),
    (MI300, "hipMemsetAsync", [31, 325_629, 12, 41_748, 31, 28_575_295, 34_189_062, 28_578_315, 34_192_112]),
];

#[test]
fn launches_of_real_traces_have_the_statistics_that_were_counted_apart() {
    let Some(root) = shared::folder() else { return };
    for file in [NCCL_DATA, MI300] {
        let answer = of_files("launches", &[root.trace(file)], &options());
        let known: Vec<&Known> = KNOWN.iter().filter(|k| k.0 == file).collect();
        for (_, api, want) in &known {
            let got = ints(
                &stats(&answer, api),
                [
                    "started_count",
                    "cpu_sum_ns",
                    "short_count",
                    "short_gpu_ns",
                    "delay_outlier_count",
                    "delay_p50_ns",
                    "delay_p95_ns",
                    "latency_p50_ns",
                    "latency_p95_ns",
                ],
            );
            assert_eq!(got, *want, "{file} {api}");
        }
        let started =
            answer.rows_where("launch_stats", |r| r.text("scope") == "capture" && r.int("started_count") > 0);
        assert_eq!(started.len(), known.len(), "{file}");
        let lost = answer.rows_where("unlinked_activities", |r| r.text("scope") == "capture");
        let sum = |column: &str| lost.iter().map(|r| r.int(column)).sum::<i64>();
        let want = if file == MI300 { (968, 31_834_405) } else { (0, 0) };
        assert_eq!((sum("unlinked_count"), sum("unlinked_ns")), want, "{file}");
    }
}
