//! Copies of real traces are those that were counted.

use crate::run::{Record, answer, options};
use crate::shared;

/// Trace, direction, source, target; count, sized count, bytes, summed, busy and exposed time, number of copies whose
/// call returns no earlier than they end, and of copies of asynchronous calls.
type Known = (&'static str, &'static str, &'static str, &'static str, [i64; 8]);

const DIFF_TEST: &str = "hta/trace_diff_test_test.json.gz";

const NCCL_DATA: &str = "hta/nccl_parser_config_nccl_data.json.gz";

const SIMPLE_ADD: &str = "hta/critical_path_end_to_end_simple_add_input_trace.json.gz";

const B200: &str = "tracelens/b200_eager_trace.json.gz";

const MI300: &str = "tracelens/mi300_resnet_act_checkpoint.json.gz";

const RESNET50: &str = "kineto_tb/samples_resnet50_num_workers_0_worker0.1623143089861.pt.trace.json.gz";

/// Counted from the files by an independent program in another language.
const KNOWN: [Known; 15] = [
    (DIFF_TEST, "DtoD", "device", "device", [4645, 4645, 27916597296, 92932000, 92932000, 86702000, 0, 4602]),
    (DIFF_TEST, "DtoH", "device", "pageable", [60, 60, 117936, 124000, 124000, 26000, 60, 60]),
    (DIFF_TEST, "HtoD", "pinned", "device", [151, 151, 423923264, 66643000, 66643000, 13605000, 0, 150]),
    (DIFF_TEST, "set", "", "device", [900, 900, 119398012, 2205000, 2205000, 1220000, 0, 294]),
    (NCCL_DATA, "DtoD", "device", "device", [960, 960, 307323096, 2262781, 2262781, 1924123, 1, 960]),
    (NCCL_DATA, "set", "", "device", [114, 114, 409141005, 390717, 390717, 360576, 0, 114]),
    (SIMPLE_ADD, "HtoD", "pageable", "device", [16, 16, 244403360, 39080000, 39080000, 39080000, 0, 16]),
    (SIMPLE_ADD, "set", "", "device", [3, 3, 21760, 8000, 8000, 8000, 0, 3]),
    (B200, "DtoD", "device", "device", [146, 146, 771323904, 781500, 781500, 781500, 0, 146]),
    (B200, "HtoD", "pageable", "device", [2, 2, 16, 3840, 3840, 3840, 0, 2]),
    (B200, "HtoD", "pinned", "device", [13, 13, 33093, 17504, 17504, 17504, 1, 13]),
    (MI300, "DtoD", "device", "device", [550, 366, 70195152, 2538596, 2538596, 2455846, 0, 366]),
    (MI300, "set", "", "device", [108, 0, 0, 435650, 435650, 181683, 0, 81]),
    (RESNET50, "HtoD", "pageable", "device", [12, 12, 115607040, 11492000, 11492000, 11492000, 0, 12]),
    (RESNET50, "set", "", "device", [312, 312, 366475920, 534000, 534000, 534000, 0, 312]),
];

#[test]
fn copies_of_real_traces_are_those_that_were_counted() {
    let Some(root) = shared::folder() else { return };
    for trace in [DIFF_TEST, NCCL_DATA, SIMPLE_ADD, B200, MI300, RESNET50] {
        let answer = answer(&[root.trace(trace)], &options());
        let rows = answer.rows_where("memory_copies", |r| r.text("scope") == "span");
        let known: Vec<&Known> = KNOWN.iter().filter(|k| k.0 == trace).collect();
        assert_eq!(rows.len(), known.len(), "{trace}");
        for (_, direction, source, target, want) in known {
            let same = |r: &&Record| {
                [r.text("direction"), r.text("source"), r.text("target")] == [*direction, *source, *target]
            };
            let r =
                rows.iter().find(same).unwrap_or_else(|| panic!("{trace}: no {direction} {source} {target}"));
            let columns = [
                "count",
                "sized_count",
                "size_bytes",
                "dur_sum_ns",
                "busy_ns",
                "exposed_ns",
                "blocking_count",
                "async_count",
            ];
            assert_eq!(columns.map(|c| r.opt_int(c).unwrap_or(0)), *want, "{trace} {direction}");
        }
    }
}
