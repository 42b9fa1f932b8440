//! Annotations of real traces own what was counted apart.

use crate::cli::one_analysis::of_files;
use crate::run::{ints, options};
use crate::shared;

const NCCL_DATA: &str = "hta/nccl_parser_config_nccl_data.json.gz";

const MI300: &str = "tracelens/mi300_resnet_act_checkpoint.json.gz";

/// Trace, name, and over the capture: number of activities, their sum, self and busy time, ns. Counted from the files
/// without hta, activity by activity.
const KNOWN: [(&str, &str, [i64; 4]); 10] = [
    (NCCL_DATA, "## backward ##", [18, 57_312, 57_312, 57_312]),
    (NCCL_DATA, "## forward ##", [1356, 38_768_022, 0, 38_768_022]),
    (NCCL_DATA, "(none)", [2358, 77_520_067, 77_520_067, 77_520_067]),
    (NCCL_DATA, "DistributedDataParallel.forward", [1356, 38_768_022, 38_653_688, 38_768_022]),
    (NCCL_DATA, "nccl:all_reduce", [15, 46_762_159, 46_762_159, 46_762_159]),
    (MI300, "(none)", [2789, 46_435_092, 46_435_092, 42_368_676]),
    (MI300, "DistributedDataParallel.forward", [846, 6_515_595, 6_452_323, 6_501_485]),
    (MI300, "ProfilerStep#15", [286, 2_225_942, 17_997, 2_219_425]),
    (MI300, "nccl:all_reduce", [6, 47_137_038, 47_137_038, 47_137_038]),
    (MI300, "nccl:broadcast", [6, 63_272, 63_272, 63_272]),
];

#[test]
fn annotations_of_real_traces_own_what_was_counted_apart() {
    let Some(root) = shared::folder() else { return };
    for file in [NCCL_DATA, MI300] {
        let answer = of_files("annotations", &[root.trace(file)], &options());
        let capture = answer
            .rows_where("user_annotations", |r| r.text("scope") == "capture" && r.text("side") != "gpu");
        for (_, name, want) in KNOWN.iter().filter(|k| k.0 == file) {
            let r = capture
                .iter()
                .find(|r| r.text("name") == *name)
                .unwrap_or_else(|| panic!("{file}: no {name}"));
            assert_eq!(
                ints(r, ["activity_count", "gpu_ns", "gpu_self_ns", "busy_ns"]),
                *want,
                "{file} {name}"
            );
        }
    }
}
