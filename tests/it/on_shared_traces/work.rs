//! FLOPs, bytes, utilization and occupancy of real traces: figures computed by an independent script from the raw JSON
//! (stated here), and every row of TraceLens' tables, with a reason for each difference.

use crate::analyses::ops::{ops, with};
use crate::cli::csv::{CsvRow, number, read, text};
use crate::run::{Record, answer, options};
use crate::shared;
use std::collections::BTreeMap;
use std::path::Path;

const H100_QWEN: &str = "tracelens/h100_Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz";
const MI300_QWEN: &str = "tracelens/mi300_Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz";
const TIMESFORMER: &str = "tracelens/h100_facebook_timesformer-base-finetuned-k400__1016002.json.gz";
const COMPILED: &str = "tracelens/torch_compile_triton_trace.json.gz";
const RESNET: &str = "tracelens/mi300_resnet_act_checkpoint.json.gz";
const MEGATRON: &str = "multirank_nccl_megatron_tp8/megatron_kineto_0.json.gz";
const B200: &str = "tracelens/b200_eager_trace.json.gz";
const B300: &str =
    "tracelens/sgl_semantic_purity_deepseek_r1_B300_1782843274.7730265-TP-0-DECODE.trace.json.gz";
const NCCL_DATA: &str = "hta/nccl_parser_config_nccl_data.json.gz";

/// Trace, FLOPs of products, convolutions and attention; their GPU time and the span, ns; HFU and coverage, percent.
const UTILIZATION: [(&str, i64, i64, i64, f64, f64); 6] = [
    (H100_QWEN, 5_761_380_813_760, 11_723_979, 49_652_832, 11.732, 70.42),
    (MI300_QWEN, 5_761_380_813_760, 15_554_520, 47_085_800, 9.362, 68.88),
    (TIMESFORMER, 8_980_340_610_448, 54_801_276, 159_992_427, 5.675, 100.0),
    (COMPILED, 5_497_558_138_880, 11_713_064, 12_549_032, 33.518, 100.0),
    (MEGATRON, 18_296_560_680_960, 86_907_000, 595_241_000, 9.852, 100.0),
    (RESNET, 421_185_238_320, 10_445_964, 86_567_708, 0.372, 100.0),
];

/// Trace, operator, start of the shapes; calls, GPU time in ns, FLOPs and bytes of a call; percent of peak bandwidth.
type GroupRow = (&'static str, &'static str, &'static str, i64, i64, i64, i64, f64);

const GROUPS: [GroupRow; 11] = [
    (H100_QWEN, "aten::mm", "[[8944,1024],[1024,2816]]", 48, 4_055_251, 51_581_550_592, 74_457_088, 26.3),
    (
        H100_QWEN,
        "aten::addmm",
        "[[1024],[8944,1024],[1024,1024]",
        72,
        2_329_075,
        18_766_086_144,
        38_733_824,
        35.7,
    ),
    (
        H100_QWEN,
        "aten::_flash_attention_forward",
        "[[16,559,16,64]",
        24,
        2_722_705,
        10_257_694_720,
        73_269_248,
        19.3,
    ),
    (H100_QWEN, "aten::mul", "[[16,559,2816],[16,559,2816]]", 24, 1_227_131, 25_186_304, 151_117_824, 88.2),
    (TIMESFORMER, "aten::_softmax", "[[8,12,3137,3137]", 12, 68_688_625, 4_723_569_120, 3_778_855_296, 19.7),
    (
        TIMESFORMER,
        "aten::bmm",
        "[[96,3137,64],[96,64,3137]]",
        12,
        22_819_528,
        120_923_369_472,
        1_966_522_560,
        30.9,
    ),
    (TIMESFORMER, "aten::mul", "[[8,12,3137,3137],[]]", 12, 15_495_244, 944_713_824, 3_778_855_296, 87.4),
    (
        RESNET,
        "aten::miopen_convolution",
        "[[10,64,56,56],[64,64,3,3]",
        24,
        1_111_331,
        2_312_110_080,
        8_101_888,
        3.3,
    ),
    (
        RESNET,
        "aten::convolution_backward",
        "[[10,64,56,56],[10,64,56,56],[64,64,3,3]",
        12,
        1_164_007,
        4_624_220_160,
        16_203_776,
        3.2,
    ),
    (COMPILED, "aten::mm", "[[32768,2048],[2048,8192]", 2, 3_749_165, 1_099_511_627_776, 704_643_072, 7.1),
    (MEGATRON, "aten::mm", "[[8192,2048],[2048,4096]]", 40, 22_733_000, 137_438_953_472, 117_440_512, 10.1),
];

fn by_args(trace: &Path) -> Vec<Record> {
    let answer = ops(&[trace.to_path_buf()], &with(&[("--by", "args")])).expect("a good trace");
    answer.rows_where("operators", |r| r.text("scope") == "capture")
}

#[test]
fn utilization_and_its_coverage_are_the_known_ones() {
    let Some(root) = shared::folder() else { return };
    for (trace, flops, busy, span, hfu, coverage) in UTILIZATION {
        let answer = answer(&[root.trace(trace)], &options());
        let rows = answer.rows_where("mfu", |r| r.text("scope") == "span");
        let [row] = rows.as_slice() else { panic!("{trace}: {} rows", rows.len()) };
        let found = [row.int("matrix_flops"), row.int("matrix_busy_ns"), row.int("dur_ns")];
        assert_eq!(found, [flops, busy, span], "{trace}");
        let near = |column: &str, want: f64, by: f64| {
            let found = row.float(column).unwrap_or(f64::NAN);
            assert!((found - want).abs() <= by, "{trace}: {column} {found} instead of {want}");
        };
        // Recomputed work is in the utilization of the hardware only: 24.2 % of it with checkpoints.
        let once = if trace == RESNET { 1.0 - 0.242 } else { 1.0 };
        near("hfu_pct", hfu, 0.0005);
        near("mfu_pct", hfu * once, 0.001);
        near("coverage_pct", coverage, 0.005);
        assert_eq!(row.cell("is_lower_bound"), serde_json::Value::Bool(coverage < 90.0), "{trace}");
        // The steps, with what is outside, have the same work.
        let parts = answer.rows_where("mfu", |r| r.text("scope") != "span");
        if !parts.is_empty() {
            assert_eq!(parts.iter().map(|r| r.int("matrix_flops")).sum::<i64>(), flops, "{trace}");
        }
    }
}

#[test]
fn groups_of_calls_have_the_known_work() {
    let Some(root) = shared::folder() else { return };
    let mut of_trace: BTreeMap<&str, Vec<Record>> = BTreeMap::new();
    for (trace, name, shapes, calls, busy, flops, bytes, bandwidth) in GROUPS {
        let rows = of_trace.entry(trace).or_insert_with(|| {
            let answer = ops(&[root.trace(trace)], &with(&[("--by", "shape")])).expect("a good trace");
            answer.rows_where("operators", |r| r.text("scope") == "capture" && r.opt_int("flops").is_some())
        });
        let is_of = |r: &&Record| r.text("name") == name && r.text("input_dims").starts_with(shapes);
        let found: Vec<&Record> = rows.iter().filter(is_of).collect();
        // Calls of one shape may differ in what the table of shapes does not show.
        let total = |column: &str| found.iter().map(|r| r.int(column)).sum::<i64>();
        let what = format!("{trace} {name} {shapes}");
        assert_eq!((total("work_count"), total("work_busy_ns")), (calls, busy), "{what}");
        assert_eq!((total("flops"), total("bytes")), (flops * calls, bytes * calls), "{what}");
        let pct = found[0].float("peak_bandwidth_pct").expect("a known device");
        assert!((pct - bandwidth).abs() <= 0.06, "{what}: {pct} instead of {bandwidth}");
    }
}

/// The part of the kernels' time with tensor cores, percent.
#[test]
fn tensor_cores_have_the_known_shares() {
    let Some(root) = shared::folder() else { return };
    let known =
        [(B200, 59.7), (B300, 79.0), (H100_QWEN, 36.6), (NCCL_DATA, 23.8), (MI300_QWEN, 39.2), (RESNET, 6.4)];
    for (trace, want) in known {
        let answer = answer(&[root.trace(trace)], &options());
        let kernels = answer.rows_where("kernels", |r| !matches!(r.text("category"), "memcpy" | "memset"));
        let sum = |keep: &dyn Fn(&Record) -> bool| {
            kernels.iter().filter(|r| keep(r)).map(|r| r.int("dur_ns")).sum::<i64>() as f64
        };
        let share = 100.0 * sum(&|r| r.text("tensor_cores") == "yes") / sum(&|_| true);
        assert!((share - want).abs() <= 0.15, "{trace}: {share} instead of {want}");
    }
}

/// Kernels with more than 48 KiB of shared memory whose recorded occupancy is 0: how many, of how many kernels.
#[test]
fn the_derived_occupancy_equals_the_recorded_one_except_where_that_is_wrongly_zero() {
    let Some(root) = shared::folder() else { return };
    for (trace, wrong, all) in [
        (H100_QWEN, 241, Some(1465)),
        (TIMESFORMER, 85, None),
        (B200, 182, None),
        (B300, 161, None),
        (MEGATRON, 282, None),
    ] {
        let path = root.trace(trace);
        let answer = answer(std::slice::from_ref(&path), &options());
        let counted = answer.rows_where("health", |r| r.text("counter") == "occupancy_recorded_zero");
        assert_eq!(counted.iter().map(|r| r.int("count")).sum::<i64>(), wrong, "{trace}");
        let recorded: BTreeMap<i64, f64> = recorded_occupancies(&path);
        let kernels = answer.rows_where("kernels", |r| r.float("occupancy_pct").is_some());
        if let Some(all) = all {
            assert_eq!(kernels.len(), all, "{trace}");
        }
        let mut compared = 0;
        for k in kernels.iter().filter(|k| k.int("shared_memory_bytes") <= 48 * 1024) {
            let Some(want) = recorded.get(&k.int("event_id")) else { continue };
            let found = k.float("occupancy_pct").expect("filtered");
            assert!((found - want).abs() <= 0.51, "{trace}: {found} instead of {want}: {}", k.text("name"));
            compared += 1;
        }
        assert!(compared > 50, "{trace}: {compared}");
    }
}

/// The recorded occupancy by event.
fn recorded_occupancies(path: &Path) -> BTreeMap<i64, f64> {
    use hta::trace::args::Arg;
    let trace = crate::run::rank_trace(path, 0);
    let column = trace.columns.args.column(Arg::Occupancy);
    column.iter().map(|(row, value)| (i64::from(row), f64::from_bits(value))).collect()
}

/// A Python tuple as JSON: `((8, 10), ())` is `[[8,10],[]]`.
fn as_json(tuple: &str) -> String {
    tuple.replace(' ', "").replace('(', "[").replace(')', "]").replace(",]", "]")
}

/// A Python tuple of texts as JSON.
fn texts_as_json(tuple: &str) -> String {
    let inside = tuple.trim_start_matches('(').trim_end_matches(')').trim_end_matches(',');
    format!("[{}]", inside.replace("', '", "\",\"").replace('\'', "\""))
}

/// Why a row of TraceLens differs in FLOPs or bytes; `None` if nothing explains it.
fn reason(theirs: &CsvRow, ours: Option<&Record>, flops: bool, bytes: bool) -> Option<&'static str> {
    let name = text(theirs, "name");
    let scalars = text(theirs, "Concrete Inputs");
    match name {
        _ if name.starts_with("triton_") => Some("the shapes of what a compiler fused are not recorded"),
        "aten::_scaled_dot_product_flash_attention" => {
            Some("the work counts in _flash_attention_forward; causal: exact")
        }
        "aten::convolution" | "aten::conv2d" => {
            Some("the work counts in the convolution of the library inside it")
        }
        "aten::batch_norm" | "aten::layer_norm" | "aten::group_norm" | "aten::instance_norm" => {
            Some("the work counts in the normalization inside it")
        }
        _ if name.contains("norm") => Some("other conventions for operations and statistics of norms"),
        "aten::upsample_nearest1d" => Some("interpolation has no model"),
        "aten::div" if ours.is_some_and(|r| r.int("work_count") == 0) => {
            Some("the work counts in the operator of the same name inside it")
        }
        "aten::copy_" if flops => Some("a copy computes nothing; repeated elements are read once"),
        "aten::convolution_backward" if scalars.contains("[False, True") => {
            Some("the mask wants one gradient")
        }
        "aten::mean" | "aten::sum" if bytes && !flops => Some("all results of a reduction are written"),
        "aten::add" | "aten::add_" | "aten::mul" | "aten::div" if bytes && !flops => {
            Some("a number is an argument of the kernel and moves no bytes")
        }
        _ => None,
    }
}

/// Every row with a model in TraceLens' tables: equal, or different for a reason.
#[test]
fn flops_and_bytes_equal_tracelens_or_differ_for_a_reason() {
    let Some(root) = shared::folder() else { return };
    let cases = [
        ("h100_Qwen", H100_QWEN),
        ("mi300_Qwen", MI300_QWEN),
        ("h100_timesformer", TIMESFORMER),
        ("torch_compile_triton", COMPILED),
        ("mi300_resnet", RESNET),
        ("normalization", "tracelens/perf_model_normalization_normalization_layer_test.json.gz"),
    ];
    let (mut equal, mut reasons, mut wrong) = (0, BTreeMap::<&str, u32>::new(), Vec::new());
    for (folder, trace) in cases {
        let file = shared::reference("tracelens").join(folder).join("unified_perf_summary.csv");
        let theirs = read(&file).expect("a reference");
        let ours = by_args(&root.trace(trace));
        let mut by_key: BTreeMap<[String; 4], &Record> = BTreeMap::new();
        for r in &ours {
            let cell = |c: &str| r.cell(c).as_str().unwrap_or_default().to_string();
            by_key.insert([cell("name"), cell("input_dims"), cell("input_types"), cell("input_strides")], r);
        }
        for row in theirs.iter().filter(|r| number(r, "GFLOPS").is_some()) {
            let key = [
                text(row, "name").to_string(),
                as_json(text(row, "Input Dims")),
                texts_as_json(text(row, "Input type")),
                as_json(text(row, "Input Strides")),
            ];
            let mine = by_key.get(&key).copied();
            let each = |column: &str| {
                let r = mine?;
                Some(r.opt_int(column)? / r.int("work_count").max(1))
            };
            let flops = number(row, "GFLOPS").map(|g| (g * 1e9).round() as i64);
            let bytes = number(row, "Data Moved (MB)").map(|m| (m * 1_048_576.0).round() as i64);
            let (flops_differ, bytes_differ) = (each("flops") != flops, each("bytes") != bytes);
            if !flops_differ && !bytes_differ {
                equal += 1;
            } else if let Some(why) = reason(row, mine, flops_differ, bytes_differ) {
                *reasons.entry(why).or_default() += 1;
            } else {
                wrong.push(format!(
                    "{folder} {key:?}: {:?} {:?}, theirs {flops:?} {bytes:?}",
                    each("flops"),
                    each("bytes")
                ));
            }
        }
    }
    eprintln!("{equal} rows equal; {reasons:#?}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(equal >= 90, "{equal}");
}

/// Convolutions count inside the operator for which TraceLens reports them: the same FLOPs and bytes.
#[test]
fn convolutions_of_libraries_have_the_work_of_the_convolution_around_them() {
    let Some(root) = shared::folder() else { return };
    let theirs =
        read(&shared::reference("tracelens/mi300_resnet/unified_perf_summary.csv")).expect("a reference");
    let ours = by_args(&root.trace(RESNET));
    let mut compared = 0;
    for row in theirs.iter().filter(|r| text(r, "name") == "aten::convolution") {
        let dims = as_json(text(row, "Input Dims"));
        let both: String = dims.split("],[").take(2).collect::<Vec<_>>().join("],[");
        let flops = number(row, "GFLOPS").map(|g| (g * 1e9).round() as i64);
        let bytes = number(row, "Data Moved (MB)").map(|m| (m * 1_048_576.0).round() as i64);
        let is_same = |r: &&Record| {
            r.text("name") == "aten::miopen_convolution"
                && r.text("input_dims").starts_with(&format!("{both}]"))
                && r.opt_int("flops").map(|f| f / r.int("work_count")) == flops
                && r.opt_int("bytes").map(|b| b / r.int("work_count")) == bytes
        };
        assert!(ours.iter().any(|r| is_same(&r)), "{dims}: {flops:?} {bytes:?}");
        compared += 1;
    }
    assert_eq!(compared, 21);
}
