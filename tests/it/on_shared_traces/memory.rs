//! Memory of real traces: figures that an independent script computed from the raw JSON, and every number of the
//! TensorBoard plugin's memory view.

use crate::analyses::memory::{check, content, memory, sentences, with};
use crate::cli::csv::{number, read, text};
use crate::run::{Answer, Record, one, options};
use crate::shared;
use std::collections::BTreeMap;
use std::path::Path;

const MODULES: &str = "cpu_single/cpu_modules_stack_memory.pt.trace.json.gz";
const SHAPES: &str = "cpu_single/cpu_shapes_memory.pt.trace.json.gz";
const GLOO: [&str; 4] = [
    "multirank_gloo_ddp4/rank_0.pt.trace.json.gz",
    "multirank_gloo_ddp4/rank_1.pt.trace.json.gz",
    "multirank_gloo_ddp4/rank_2.pt.trace.json.gz",
    "multirank_gloo_ddp4/rank_3.pt.trace.json.gz",
];
const H100_QWEN: &str = "tracelens/h100_Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz";
const MI300_QWEN: &str = "tracelens/mi300_Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz";
const H100_TIMESFORMER: &str = "tracelens/h100_facebook_timesformer-base-finetuned-k400__1016002.json.gz";
const MI300_TIMESFORMER: &str = "tracelens/mi300_facebook_timesformer-base-finetuned-k400__1016002.json.gz";
const NORMALIZATION: &str = "tracelens/perf_model_normalization_normalization_layer_test.json.gz";
const VLLM: &str = "tracelens/inference_vllm_decode_full_capture/graph_capture_rank_0.json.gz";
const RESNET: &str = "kineto_tb/samples_resnet50_num_workers_0_worker0.1623143089861.pt.trace.json.gz";

struct Known {
    trace: &'static str,
    /// Null: the host.
    device: Option<i64>,
    records: usize,
    allocations: usize,
    base: i64,
    peak: i64,
    seq: i64,
    phase: &'static str,
    trigger: (i64, &'static str),
    alive: i64,
    /// Reserved and not allocated at the peak and at most.
    unused: Option<(i64, i64)>,
}

const KNOWN: [Known; 10] = [
    Known {
        trace: MODULES,
        device: None,
        records: 521,
        allocations: 267,
        base: 0,
        peak: 1_384_880,
        seq: 73,
        phase: "backward",
        trigger: (131_072, "aten::empty_like (aten::empty)"),
        alive: 20,
        unused: None,
    },
    Known {
        trace: SHAPES,
        device: None,
        records: 521,
        allocations: 267,
        base: 145_132,
        peak: 1_530_012,
        seq: 73,
        phase: "backward",
        trigger: (131_072, "aten::empty_like (aten::empty)"),
        alive: 20,
        unused: None,
    },
    Known {
        trace: GLOO[0],
        device: None,
        records: 2_656,
        allocations: 1_332,
        base: 0,
        peak: 1_548_312,
        seq: 934,
        phase: "backward",
        trigger: (131_072, "aten::_log_softmax_backward_data"),
        alive: 33,
        unused: None,
    },
    Known {
        trace: H100_QWEN,
        device: Some(0),
        records: 2_250,
        allocations: 1_125,
        base: 984_742_400,
        peak: 2_088_508_416,
        seq: 2_171,
        phase: "forward",
        trigger: (50_372_608, "aten::mul"),
        alive: 58,
        unused: Some((541_320_192, 1_645_086_208)),
    },
    Known {
        trace: MI300_QWEN,
        device: Some(0),
        records: 2_588,
        allocations: 1_294,
        base: 1_085_405_696,
        peak: 2_219_047_936,
        seq: 2_505,
        phase: "forward",
        trigger: (79_691_776, "aten::mm (aten::empty)"),
        alive: 58,
        unused: Some((314_311_680, 1_447_953_920)),
    },
    Known {
        trace: H100_TIMESFORMER,
        device: Some(0),
        records: 1_206,
        allocations: 603,
        base: 287_697_408,
        peak: 4_490_752_000,
        seq: 163,
        phase: "forward",
        trigger: (1_889_533_952, "aten::mul"),
        alive: 12,
        unused: Some((97_816_576, 4_300_871_168)),
    },
    Known {
        trace: MI300_TIMESFORMER,
        device: Some(0),
        records: 1_302,
        allocations: 651,
        base: 388_360_704,
        peak: 4_591_406_080,
        seq: 389,
        phase: "forward",
        trigger: (1_889_533_952, "aten::mul"),
        alive: 12,
        unused: Some((2_079_634_432, 6_282_679_808)),
    },
    Known {
        trace: NORMALIZATION,
        device: Some(0),
        records: 415,
        allocations: 213,
        base: 665_600,
        peak: 8_154_624,
        seq: 171,
        phase: "forward",
        trigger: (512, "aten::mean"),
        alive: 44,
        unused: Some((233_984, 6_536_192)),
    },
    Known {
        trace: VLLM,
        device: Some(0),
        records: 1_184,
        allocations: 592,
        base: 191_610_969_088,
        peak: 191_628_704_768,
        seq: 48,
        phase: "outside",
        trigger: (16_777_216, ""),
        alive: 5,
        unused: Some((1_992_950_784, 2_010_686_464)),
    },
    Known {
        trace: GLOO[3],
        device: None,
        records: 2_656,
        allocations: 1_332,
        base: 0,
        peak: 1_548_312,
        seq: 934,
        phase: "backward",
        trigger: (131_072, "aten::_log_softmax_backward_data"),
        alive: 33,
        unused: None,
    },
];

fn answer_of(path: &Path) -> Answer {
    memory(&[path.to_path_buf()], &options()).expect("a good trace")
}

fn peak(answer: &Answer, device: Option<i64>) -> Record {
    one(answer.rows_where("memory_peaks", |r| r.text("scope") == "capture" && r.opt_int("device") == device))
}

/// Sum and number of allocations by a text column, of one device.
fn allocated(answer: &Answer, device: Option<i64>, column: &str) -> BTreeMap<String, (i64, i64)> {
    let mut sums: BTreeMap<String, (i64, i64)> = BTreeMap::new();
    let rows = answer
        .rows_where("memory_allocations", |r| r.opt_int("seq").is_some() && r.opt_int("device") == device);
    for r in rows {
        let sum = sums.entry(r.text(column).to_string()).or_default();
        *sum = (sum.0 + r.int("bytes"), sum.1 + 1);
    }
    sums
}

fn sums(of: &[(&str, i64, i64)]) -> BTreeMap<String, (i64, i64)> {
    of.iter().map(|(key, bytes, count)| (key.to_string(), (*bytes, *count))).collect()
}

#[test]
fn peaks_are_the_known_ones_to_the_byte_and_record_and_nothing_leaks() {
    let Some(root) = shared::folder() else { return };
    for known in KNOWN {
        let what = known.trace;
        let answer = answer_of(&root.trace(what));
        check(what, &answer);
        let curve = answer.rows_where("memory_curve", |r| r.opt_int("device") == known.device);
        let allocations = curve.iter().filter(|r| r.int("delta_bytes") > 0).count();
        assert_eq!((curve.len(), allocations), (known.records, known.allocations), "{what}");
        let row = peak(&answer, known.device);
        let found = ["base_bytes", "peak_bytes", "seq", "known_count", "trigger_bytes"].map(|c| row.int(c));
        assert_eq!(found, [known.base, known.peak, known.seq, known.alive, known.trigger.0], "{what}");
        assert_eq!([row.text("phase"), row.text("trigger_op")], [known.phase, known.trigger.1], "{what}");
        let unused = row.opt_int("reserved_bytes").map(|r| r - row.int("peak_bytes"));
        assert_eq!(unused.zip(row.opt_int("unused_max_bytes")), known.unused, "{what}");
        assert!(!sentences(&answer).iter().any(|s| s.contains("grows")), "{what}: {:?}", sentences(&answer));
        for r in answer.rows("memory_allocations") {
            assert!(["freed", "live"].contains(&r.text("ended")), "{what}: {}", r.0);
        }
    }
}

/// Stacks at the peak add up to it, those of all allocations to what is allocated.
#[test]
fn folded_stacks_add_up_to_the_known_sums() {
    let Some(root) = shared::folder() else { return };
    for (what, bytes) in [("peak", 1_384_880), ("end", 145_132), ("alloc", 13_344_276)] {
        let answer = memory(&[root.trace(MODULES)], &with(&[("--folded", what)])).expect("a good trace");
        let folded = answer.outcome.outputs[0].1.raw.clone().expect("folded stacks");
        let value =
            |line: &str| line.rsplit(' ').next().and_then(|n| n.parse::<i64>().ok()).expect("a value");
        assert_eq!(folded.lines().map(value).sum::<i64>(), bytes, "{what}");
    }
}

#[test]
fn triggers_have_the_known_places() {
    let Some(root) = shared::folder() else { return };
    let row = peak(&answer_of(&root.trace(MODULES)), None);
    assert_eq!((row.int("in_step_ns"), row.int("ts_ns") > 0), (296_474_881, true));
    assert_eq!(row.text("trigger_site"), "gen_cpu.py:8");
    assert_eq!(row.text("module"), "Net_0/Sequential_0/Conv_1/BatchNorm2d_1");
    assert!(
        row.text("trigger_chain").ends_with("aten::native_batch_norm_backward;aten::empty_like;aten::empty")
    );
    let row = peak(&answer_of(&root.trace(SHAPES)), None);
    assert_eq!(row.int("in_step_ns"), 286_228_665);
    let answer = answer_of(&root.trace(GLOO[0]));
    let row = peak(&answer, None);
    assert_eq!([row.text("trigger_site"), row.text("module")], ["gen_ddp.py:85", "CrossEntropyLoss_0"]);
    let step = one(answer.rows_where("memory_peaks", |r| r.opt_int("step") == Some(1)));
    assert_eq!((step.int("seq"), step.int("peak_bytes")), (934, 1_548_312));
    let row = peak(&answer_of(&root.trace(H100_QWEN)), Some(0));
    assert!(row.text("module").ends_with("Qwen2DecoderLayer_23/Qwen2MLP_23"), "{}", row.0);
    let row = peak(&answer_of(&root.trace(H100_TIMESFORMER)), Some(0));
    assert!(row.text("module").ends_with("TimesformerSelfAttention_3"), "{}", row.0);
    let resnet = answer_of(&root.trace(RESNET));
    let row = peak(&resnet, Some(0));
    assert_eq!(
        ["peak_bytes", "seq", "in_step_ns", "trigger_bytes"].map(|c| row.int(c)),
        [2_791_636_480, 433, 121_911_000, 56_623_104]
    );
    assert_eq!(row.text("trigger_op"), "aten::cudnn_convolution_backward_weight (aten::empty)");
    assert_eq!(row.cell("is_relative"), true);
    assert!(
        ["base_bytes", "reserved_bytes", "known_count", "before_bytes"].iter().all(|c| row.cell(c).is_null())
    );
    assert_eq!(resnet.rows_where("memory_curve", |r| r.opt_int("device") == Some(0)).len(), 8_220);
    assert!(resnet.rows("memory_allocations").is_empty() && resnet.rows("memory_content").is_empty());
    assert!(!sentences(&resnet).iter().any(|s| s.contains("grows")));
}

#[test]
fn what_holds_the_peak_is_known() {
    let Some(root) = shared::folder() else { return };
    let row = |key: &str, count: i64, bytes: i64| (key.to_string(), (count >= 0).then_some(count), bytes);
    let bytes = |rows: Vec<(String, Option<i64>, i64)>| -> Vec<(String, i64)> {
        rows.into_iter().map(|(key, _, bytes)| (key, bytes)).collect()
    };
    let of = |rows: &[(&str, i64)]| -> Vec<(String, i64)> {
        rows.iter().map(|(key, bytes)| (key.to_string(), *bytes)).collect()
    };
    let answer = answer_of(&root.trace(MODULES));
    let found = bytes(content(&answer, "peak", "phase"));
    assert_eq!(found, of(&[("forward", 852_168), ("backward", 434_344), ("data", 98_368)]));
    let found = bytes(content(&answer, "peak", "line"));
    let lines = [(":8", 1_048_896), (":11", 237_568), (":19", 98_368), (":21", 44), (":20", 4)];
    assert_eq!(found, lines.map(|(line, bytes)| (format!("gen_cpu.py{line}"), bytes)));
    let answer = answer_of(&root.trace(H100_QWEN));
    let found: Vec<_> = content(&answer, "peak", "op").into_iter().filter(|r| r.2 >= 68_689_920).collect();
    assert_eq!(
        found,
        [
            row("[before window]", -1, 984_742_400),
            row("aten::add", 26, 476_250_112),
            row("aten::addmm", 24, 439_615_488),
            row("aten::mul", 2, 68_689_920)
        ]
    );
}

#[test]
fn allocations_by_phase_and_their_pairs_are_the_known_ones() {
    let Some(root) = shared::folder() else { return };
    let answer = answer_of(&root.trace(MODULES));
    let want = [
        ("data", 295_104, 6),
        ("forward", 5_820_036, 96),
        ("backward", 7_228_728, 99),
        ("optimizer", 360, 60),
        ("outside", 48, 6),
    ];
    assert_eq!(allocated(&answer, None, "phase"), sums(&want));
    let pairs = |answer: &Answer, device: Option<i64>| {
        let rows = answer.rows_where("memory_allocations", |r| r.opt_int("device") == device);
        let freed = rows.iter().filter(|r| r.text("ended") == "freed");
        let mut lifetimes: Vec<i64> = freed.clone().map(|r| r.int("lifetime_ns")).collect();
        lifetimes.sort_unstable();
        let live: Vec<i64> =
            rows.iter().filter(|r| r.text("ended") == "live").map(|r| r.int("bytes")).collect();
        let crossing = freed.filter(|r| r.opt_int("step") != r.opt_int("free_step")).count();
        (lifetimes.len(), live.len(), live.iter().sum::<i64>(), crossing, lifetimes)
    };
    let (freed, live, bytes, crossing, lifetimes) = pairs(&answer, None);
    assert_eq!((freed, live, bytes, crossing), (254, 13, 145_132, 26));
    assert_eq!(lifetimes[freed / 2], 23_974_581);

    let answer = answer_of(&root.trace(GLOO[0]));
    let want = [("forward", 5_076_663, 135), ("backward", 9_707_580, 369), ("optimizer", 3_189_804, 828)];
    assert_eq!(allocated(&answer, None, "phase"), sums(&want));
    let (freed, live, bytes, crossing, _) = pairs(&answer, None);
    assert_eq!((freed, live, bytes, crossing), (1_324, 8, 133_140, 16));

    let answer = answer_of(&root.trace(H100_QWEN));
    let (freed, live, _, _, lifetimes) = pairs(&answer, Some(0));
    assert_eq!((freed, live, lifetimes[freed / 2]), (1_125, 0, 64_101));
    let total: i64 = allocated(&answer, Some(0), "phase").values().map(|(bytes, _)| bytes).sum();
    assert_eq!(total, 21_375_221_248);
    let answer = answer_of(&root.trace(MI300_QWEN));
    let total: i64 = allocated(&answer, Some(0), "phase").values().map(|(bytes, _)| bytes).sum();
    assert_eq!(total, 34_768_227_840);
    let (freed, live, bytes, ..) = pairs(&answer_of(&root.trace(NORMALIZATION)), Some(0));
    assert_eq!((freed, live, bytes), (202, 11, 1_186_816));
}

#[test]
fn steps_have_the_known_net_levels() {
    let Some(root) = shared::folder() else { return };
    let net = |trace: &str, device: Option<i64>| -> Vec<i64> {
        let answer = answer_of(&root.trace(trace));
        let rows = answer.rows_where("memory_steps", |r| r.opt_int("device") == device);
        rows.iter().map(|r| r.int("net_bytes")).collect()
    };
    assert_eq!(net(MODULES, None), [145_132, 0, 0]);
    for rank in GLOO {
        assert_eq!(net(rank, None), [133_140, 0, 0], "{rank}");
    }
    assert_eq!(net(RESNET, None), [19_267_836, -4, -4, -4, -4, -4]);
    assert_eq!(net(RESNET, Some(0)), [0; 6]);
    for trace in [H100_QWEN, MI300_QWEN, H100_TIMESFORMER, MI300_TIMESFORMER] {
        assert_eq!(net(trace, Some(0)), [0], "{trace}");
    }
}

/// Bytes and counts of all operators of both devices. The plugin merges the six calls of `aten::div` inside another
/// `aten::div`, so that it has fewer calls.
#[test]
fn operators_have_the_bytes_and_counts_of_the_tensorboard_plugin() {
    let Some(root) = shared::folder() else { return };
    let answer = answer_of(&root.trace(RESNET));
    let folder = shared::reference("tensorboard/resnet50_num_workers_0.span1");
    for (file, device, rows) in [("memory_stats_GPU0.csv", Some(0), 44), ("memory_stats_CPU.csv", None, 12)] {
        let reference = read(&folder.join(file)).expect("a reference");
        assert_eq!(reference.len(), rows, "{file}");
        let ours = answer.rows_where("memory_operators", |r| r.opt_int("device") == device);
        let mut differ = Vec::new();
        for want in &reference {
            let name = text(want, "Operator Name");
            let own = one(ours.iter().filter(|r| r.text("name") == name).cloned().collect());
            let count = |column: &str| number(want, column).expect("a number") as i64;
            let allocations = ["Allocation Count", "Self Allocation Count"].map(count);
            assert_eq!(["alloc_count", "alloc_self_count"].map(|c| own.int(c)), allocations, "{name}");
            // The plugin rounds to hundredths of a KB.
            for (column, mine) in [
                ("Size Increase (KB)", "net_bytes"),
                ("Self Size Increase (KB)", "net_self_bytes"),
                ("Allocation Size (KB)", "alloc_bytes"),
                ("Self Allocation Size (KB)", "alloc_self_bytes"),
            ] {
                let kb = own.int(mine) as f64 / 1024.0;
                let wanted = number(want, column).expect("a number");
                assert!(
                    (kb - wanted).abs() <= 0.005_001,
                    "{file}: {name}: {column}: {kb} instead of {wanted}"
                );
            }
            if own.int("count") != count("Calls") {
                differ.push((name.to_string(), own.int("count"), count("Calls")));
            }
        }
        let known = [("aten::div".to_string(), 204, 198)];
        assert!(differ.iter().all(|d| known.contains(d)), "{file}: {differ:?}");
        let others: Vec<_> = ours
            .iter()
            .map(|r| r.text("name"))
            .filter(|name| {
                *name != "[no operator]" && !reference.iter().any(|w| text(w, "Operator Name") == *name)
            })
            .collect();
        assert!(others.is_empty(), "{file}: {others:?}");
    }
}
