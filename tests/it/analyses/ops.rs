//! Call stacks on small traces that can be checked by eye, and invariants of every trace.

use crate::plan::{ORIGIN, plans};
use crate::run::{Answer, Keep, Quiet, Record, options};
use hta::analysis::api::Options;
use hta::read::discover::discover;
use hta::read::options::LoadOptions;
use hta::registry::find;
use hta::run::{Request, run};
use hta::trace::interval::Union;
use hta::units::Span;
use hta_testkit::{Format, TraceBuilder, us};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Runs only `ops`; `None` if no file is readable. `--by shape` loads the arguments that it needs, as the
/// command does.
pub fn ops(paths: &[PathBuf], options: &Options) -> Option<Answer> {
    let analysis = find("ops").expect("it is registered");
    let inputs = discover(paths).expect("the files are there");
    let keep = Keep::default();
    let load = LoadOptions { event_args: analysis.reads_event_args(options), ..LoadOptions::default() };
    let request = Request { inputs: &inputs, analyses: &[analysis], options, load, ranks: &[] };
    let outcome = run(&request, &keep, &Quiet).ok()?;
    Some(Answer::of(outcome, keep, options))
}

/// The default options plus some of the analysis' own.
pub fn with(given: &[(&str, &str)]) -> Options {
    let mut o = options();
    for (flag, value) in given {
        let declared = find("ops").expect("it is registered").about().settings;
        let setting = declared.iter().find(|s| s.flag == *flag).expect("a declared option");
        o.settings.set(setting, value).expect("a valid value");
    }
    o
}

pub fn of(t: &TraceBuilder, options: &Options) -> Answer {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("rank_0.json");
    std::fs::write(&path, t.to_bytes(&Format::default())).expect("a temporary file can be written");
    ops(&[path], options).expect("a good trace")
}

/// Capture rows by name, times in us.
fn operators<const N: usize>(answer: &Answer, columns: [&str; N]) -> BTreeMap<String, [i64; N]> {
    let rows = answer.rows_where("operators", |r| r.text("scope") == "capture");
    let value = |r: &Record, c: &str| if c.ends_with("_ns") { r.int(c) / 1000 } else { r.int(c) };
    rows.iter().map(|r| (r.text("name").to_string(), columns.map(|c| value(r, c)))).collect()
}

/// ```text
/// main    linear  [0.....................30)      sum [40.......60)
///           mm        [10.........24)               sum [44..50)        recursion
///             launch      [12..16)                    launch [45.47)
///         launch of no operator  [32..34)
/// gpu 7              gemm      [20........40)                 red [50.55)
/// gpu 9              copy          [30..........50)
/// gpu 7   orphan [0.5)                     the copy belongs to the launch of no operator
/// ```
fn small() -> TraceBuilder {
    let mut t = TraceBuilder::new();
    let mut main = t.thread(1);
    main.op("linear", us(0)..us(30)).inputs(&[(&[4, 8], "float")]);
    main.op("mm", us(10)..us(24)).inputs(&[(&[4, 8], "float"), (&[8, 2], "float")]);
    main.launch(us(12)..us(16)).kernel("gemm", 7, us(20)..us(40));
    main.launch(us(32)..us(34)).kernel("copy", 9, us(30)..us(50));
    main.op("sum", us(40)..us(60)).inputs(&[(&[4], "float")]);
    main.op("sum", us(44)..us(50)).inputs(&[(&[2], "float")]);
    main.launch(us(45)..us(47)).kernel("red", 7, us(50)..us(55));
    t.unlinked().kernel("orphan", 7, us(0)..us(5));
    t
}

#[test]
fn own_times_add_up_and_recursion_counts_once_in_totals() {
    let answer = of(&small(), &options());
    let columns = [
        "count",
        "host_ns",
        "host_self_ns",
        "host_api_ns",
        "gpu_ns",
        "gpu_self_ns",
        "gpu_busy_ns",
        "activity_count",
    ];
    let rows = operators(&answer, columns);
    assert_eq!(rows["linear"], [1, 30, 16, 0, 20, 0, 20, 1]);
    assert_eq!(rows["mm"], [1, 14, 10, 4, 20, 20, 20, 1]);
    // The inner sum adds its self time, but not its total.
    assert_eq!(rows["sum"], [2, 20, 18, 2, 5, 5, 5, 1]);
    assert_eq!(rows["[no operator]"], [1, 2, 0, 2, 20, 20, 20, 1]);
    assert_eq!(rows["[unlinked]"], [0, 0, 0, 0, 5, 5, 5, 1]);
    let order: Vec<String> = answer.rows("operators").iter().map(|r| r.text("name").to_string()).collect();
    assert_eq!(order, ["mm", "[no operator]", "sum", "[unlinked]", "linear"]);
}

#[test]
fn shapes_and_steps_divide_the_rows() {
    let mut t = small();
    t.thread(1).step(3, us(0)..us(38));
    t.thread(1).step(4, us(38)..us(58));
    let answer = of(&t, &with(&[("--by", "shape,step")]));
    let sums = answer.rows_where("operators", |r| r.text("name") == "sum" && r.text("scope") == "step");
    let cells = |r: &Record| {
        (r.int("step_label"), r.text("input_dims").to_string(), r.int("host_ns"), r.int("gpu_ns"))
    };
    let got: Vec<_> = sums.iter().map(cells).collect();
    // By shape the inner one is not a recursion.
    assert_eq!(got, [(4, "[[2]]".to_string(), 6_000, 5_000), (4, "[[4]]".to_string(), 20_000, 5_000)]);
    let outside = answer.rows_where("operators", |r| r.text("scope") == "outside");
    assert!(outside.is_empty(), "{outside:?}");
}

#[test]
fn folded_stacks_add_up_to_the_roots_and_to_the_gpu_work() {
    let mut t = small();
    // linear runs inside main, [0, 35), and nothing outlasts it.
    t.thread(1).frame("train.py(1): main; x", us(0)..us(35));
    let text = |weight| {
        of(&t, &with(&[("--folded", weight)])).outcome.outputs[0].1.raw.clone().expect("folded stacks")
    };
    assert_eq!(
        text("self"),
        "sum 14000\n\
         sum;sum 4000\n\
         sum;sum;cudaLaunchKernel 2000\n\
         train.py(1): main_ x 3000\n\
         train.py(1): main_ x;cudaLaunchKernel 2000\n\
         train.py(1): main_ x;linear 16000\n\
         train.py(1): main_ x;linear;mm 10000\n\
         train.py(1): main_ x;linear;mm;cudaLaunchKernel 4000\n"
    );
    assert_eq!(
        text("gpu"),
        "[unlinked];orphan 5000\n\
         sum;sum;red 5000\n\
         train.py(1): main_ x;copy 20000\n\
         train.py(1): main_ x;linear;mm;gemm 20000\n"
    );
    assert_eq!(of(&t, &options()).outcome.outputs[0].1.raw, None);
}

/// ```text
/// main      Net_0 [0..............40)
///             Linear_0 [2.......18)      Linear_1 [20....36)
///               mm       [4..8)            mm      [22..28)
/// autograd                                          wrapper [50......70)   wrapper [72..80)
///                                                     MmBackward [52..68)    MmBackward [73..79)
/// gpu          fwd 10                     fwd 3     bwd 30                  bwd 6
/// ```
#[test]
fn modules_get_their_forward_and_backward_time() {
    for with_flows in [true, false] {
        let mut t = TraceBuilder::new();
        let mut main = t.thread(1);
        main.frame("nn.Module: Net_0", us(0)..us(40));
        main.frame("nn.Module: Linear_0", us(2)..us(18));
        main.frame("torch/nn/modules/linear.py(9): forward", us(3)..us(17));
        main.op("aten::mm", us(4)..us(8)).sequence(5, 0);
        main.launch(us(5)..us(6)).kernel("fwd", 7, us(10)..us(20));
        main.frame("nn.Module: Linear_1", us(20)..us(36));
        main.op("aten::mm", us(22)..us(28)).sequence(6, 0);
        main.launch(us(23)..us(24)).kernel("fwd", 7, us(25)..us(28));
        let mut autograd = t.thread(2);
        for (number, at, launch, gpu) in [(5, 50..70, 53, 60..90), (6, 72..80, 74, 90..96)] {
            let wrapper = "autograd::engine::evaluate_function: MmBackward0";
            autograd.op(wrapper, us(at.start)..us(at.end)).sequence(number, 1);
            let inner = us(at.start + 1)..us(at.end - 1);
            autograd.op("MmBackward0", inner).sequence(number, 1);
            autograd.launch(us(launch)..us(launch + 1)).kernel("bwd", 7, us(gpu.start)..us(gpu.end));
        }
        autograd.op("LostBackward0", us(90)..us(95)).sequence(77, 1);
        if with_flows {
            t.forward_backward(1, (1, us(4)), (2, us(51)));
            t.forward_backward(2, (1, us(22)), (2, us(73)));
            t.forward_backward(3, (1, us(39)), (2, us(90)));
        }
        let answer = of(&t, &with(&[("--by", "module")]));
        let cells = |r: &Record| {
            let columns =
                ["gpu_ns", "gpu_self_ns", "bwd_gpu_ns", "bwd_gpu_self_ns", "bwd_host_ns", "host_self_ns"];
            (r.text("path").to_string(), columns.map(|c| r.int(c) / 1000))
        };
        let got: Vec<_> = answer.rows("modules").iter().map(cells).collect();
        let want = [
            ("Net_0", [13, 0, 36, 0, 28, 8]),
            ("Net_0/Linear_0", [10, 10, 30, 30, 20, 16]),
            ("Net_0/Linear_1", [3, 3, 6, 6, 8, 16]),
        ];
        assert_eq!(got, want.map(|(p, v)| (p.to_string(), v)), "flows: {with_flows}");
        let stacks = &answer.rows("call_stacks")[0];
        let rule = if with_flows { "flow" } else { "sequence" };
        assert_eq!((stacks.text("bwd_rule"), stacks.int("bwd_joined_count")), (rule, 2));
        assert_eq!(stacks.int("bwd_unmatched_count"), 1);
        // A backward operator belongs to the module of its forward operator.
        let backward = answer.rows_where("operators", |r| r.text("name") == "MmBackward0");
        let paths: Vec<&str> = backward.iter().map(|r| r.text("module")).collect();
        assert_eq!(paths, ["Net_0/Linear_0", "Net_0/Linear_1"]);
    }
}

#[test]
fn calls_that_wait_are_counted_once_and_only_inside_steps() {
    let mut t = TraceBuilder::new();
    let mut main = t.thread(1);
    main.step(0, us(0)..us(100));
    main.step(1, us(100)..us(200));
    main.runtime("cudaMalloc", us(10)..us(30));
    main.runtime("cudaMalloc", us(110)..us(130));
    main.op("aten::item", us(140)..us(160));
    main.op("aten::_local_scalar_dense", us(141)..us(159));
    main.launch(us(142)..us(145)).memcpy("DtoH (Device -> Pageable)", 7, 4, us(146)..us(148));
    main.runtime("cudaStreamSynchronize", us(146)..us(158));
    main.op("aten::item", us(162)..us(163));
    main.op("aten::copy_", us(165)..us(180));
    main.launch(us(166)..us(176)).memcpy("HtoD (Pageable -> Device)", 7, 4, us(177)..us(179));
    main.runtime("cudaDeviceSynchronize", us(185)..us(190));
    main.runtime("cudaDeviceSynchronize", us(205)..us(290));
    let answer = of(&t, &options());
    let cells = |r: &Record| {
        let text = |c: &str| r.text(c).to_string();
        (text("kind"), text("name"), r.int("count"), r.int("host_ns") / 1000, text("first_stack"))
    };
    let got: Vec<_> = answer.rows("stack_anomalies").iter().map(cells).collect();
    let want = [
        ("item", "aten::item", 1, 20, "aten::item"),
        ("allocation", "cudaMalloc", 1, 20, "cudaMalloc"),
        ("pageable_copy", "aten::copy_", 1, 10, "aten::copy_;cudaLaunchKernel"),
        ("synchronize", "cudaDeviceSynchronize", 1, 5, "cudaDeviceSynchronize"),
    ];
    let want: Vec<_> =
        want.iter().map(|w| (w.0.to_string(), w.1.to_string(), w.2, w.3, w.4.to_string())).collect();
    assert_eq!(got.len(), want.len());
    want.iter().for_each(|w| assert!(got.contains(w), "{w:?} is not in {got:?}"));
}

/// Frames, operators and launches nested a hundred thousand deep: quadratic work would take minutes.
#[test]
fn deep_recursion_takes_neither_the_stack_nor_quadratic_time() {
    let n = 100_000;
    let mut t = TraceBuilder::new();
    let mut main = t.thread(1);
    for i in 0..n {
        main.frame(["nn.Module: Tree_0", "tree.py(3): walk"][i as usize % 2], i..4 * n - i);
        main.op(&format!("op_{}", i % 7), i..4 * n - i);
    }
    for i in 0..n / 2 {
        main.launch(2 * n + i..2 * n + i + 1).kernel("k", i % 5, 2 * n + 2 * i..2 * n + 2 * i + 9);
    }
    for given in [&[("--folded", "self"), ("--by", "module")][..], &[("--folded", "gpu")]] {
        let answer = of(&t, &with(given));
        let row = &answer.rows("call_stacks")[0];
        assert_eq!((row.int("max_depth"), row.int("root_ns"), row.int("gpu_op_ns")), (n, 4 * n, n / 2 * 9));
        let tree = answer.rows_where("call_tree", |r| r.text("name") == "op_0" && r.int("depth") == 0);
        assert_eq!((tree[0].int("gpu_ns"), tree[0].int("gpu_busy_ns")), (n / 2 * 9, n + 7));
        let folded = answer.outcome.outputs[0].1.raw.as_deref().expect("folded stacks");
        let whole = if given[0].1 == "self" { 4 * n } else { n / 2 * 9 };
        assert_eq!(sum(folded), whole);
    }
}

fn sum(folded: &str) -> i64 {
    let value = |line: &str| line.rsplit(' ').next().and_then(|v| v.parse::<i64>().ok()).expect("a value");
    folded.lines().map(value).sum()
}

#[test]
fn traces_without_host_events_say_so() {
    let mut t = TraceBuilder::new();
    t.unlinked().kernel("orphan", 7, us(0)..us(5));
    let answer = of(&t, &with(&[("--folded", "gpu")]));
    assert!(answer.rows("operators").is_empty() && answer.rows("call_tree").is_empty());
    assert_eq!(answer.notes("ops"), ["rank 0: no host events"]);
}

/// One event of a tree, and the operators and calls above what it launched.
struct Node {
    parent: Option<i64>,
    name: String,
    start: i64,
    end: i64,
    self_ns: i64,
    is_op: bool,
}

/// Invariants of every trace, computed again from `call_tree` and `kernels`.
pub fn check(what: &str, answer: &Answer) {
    let all = answer.rows("call_tree");
    let stacks = answer.rows("call_stacks");
    for rank in &stacks {
        let id = rank.int("rank");
        let mine = |r: &&Record| r.int("rank") == id;
        let tree: BTreeMap<i64, &Record> = all.iter().filter(mine).map(|r| (r.int("event_id"), r)).collect();
        parents_hold_their_children(what, &tree);
        let kernels = answer.rows_where("kernels", |r| r.int("rank") == id);
        let operators =
            answer.rows_where("operators", |r| r.int("rank") == id && r.text("scope") == "capture");
        sums_are_those_of_the_work_below(what, &tree, &kernels, &operators, rank);
    }
}

/// Operators and calls are one tree.
fn tree_of(r: &Record) -> &str {
    Some(r.text("kind")).filter(|k| *k != "runtime_call").unwrap_or("operator")
}

fn parents_hold_their_children(what: &str, tree: &BTreeMap<i64, &Record>) {
    for r in tree.values() {
        let Some(parent) = r.opt_int("parent") else {
            assert_eq!(r.int("depth"), 0, "{what}: {}", r.0);
            continue;
        };
        let p = tree.get(&parent).unwrap_or_else(|| panic!("{what}: no parent of {}", r.0));
        assert_eq!((tree_of(p), p.int("depth") + 1), (tree_of(r), r.int("depth")), "{what}: {}", r.0);
        if r.text("kind") != "python" {
            let end = |r: &Record| r.int("ts_ns") + r.int("dur_ns");
            let holds = p.int("ts_ns") <= r.int("ts_ns") && end(r) < end(p) + 1_000;
            assert!(holds && r.int("self_ns") >= 0, "{what}: {} in {}", r.0, p.0);
        }
    }
}

fn sums_are_those_of_the_work_below(
    what: &str,
    tree: &BTreeMap<i64, &Record>,
    kernels: &[Record],
    operators: &[Record],
    rank: &Record,
) {
    let nodes: BTreeMap<i64, Node> = tree
        .iter()
        .filter(|(_, r)| tree_of(r) == "operator")
        .map(|(id, r)| {
            let (start, end) = (r.int("ts_ns"), r.int("ts_ns") + r.int("dur_ns"));
            let is_op = r.text("kind") == "operator";
            let (parent, name) = (r.opt_int("parent"), r.text("name").to_string());
            (*id, Node { parent, name, start, end, self_ns: r.int("self_ns"), is_op })
        })
        .collect();
    let roots: i64 = nodes.values().filter(|n| n.parent.is_none()).map(|n| n.end - n.start).sum();
    assert_eq!(nodes.values().map(|n| n.self_ns).sum::<i64>(), roots, "{what}: self times");
    assert_eq!(rank.int("root_ns"), roots, "{what}");
    assert_eq!(rank.int("host_self_ns") + rank.int("host_api_ns"), roots, "{what}");
    let mut below: BTreeMap<i64, Vec<Span>> = BTreeMap::new();
    let mut groups: BTreeMap<String, Vec<Span>> = BTreeMap::new();
    let mut own: BTreeMap<String, i64> = BTreeMap::new();
    // Launches of graphs with a part of an annotation's name, by that name.
    let mut replays: BTreeMap<String, std::collections::BTreeSet<i64>> = BTreeMap::new();
    // The owning operator is the innermost one around a launch's start, even if the tree puts the launch
    // elsewhere.
    let mut chains: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    let mut launched: Vec<&Record> =
        kernels.iter().filter(|k| k.opt_int("launch_event_id").is_some()).collect();
    let place = |id: i64| (nodes[&id].start, -nodes[&id].end, id);
    launched.sort_by_key(|k| place(k.int("launch_event_id")));
    for k in launched {
        let (launch, op) = (k.int("launch_event_id"), k.opt_int("op_event_id"));
        let mut chain = vec![launch];
        chain.extend(above(nodes[&launch].parent, &nodes, &chains));
        let nearest = chain.iter().find(|id| nodes[id].is_op).copied();
        if nearest != op && op.is_none_or(|op| place(op) < place(launch)) {
            chain = vec![launch];
            chain.extend(above(op, &nodes, &chains));
        }
        chains.insert(launch, chain);
    }
    for k in kernels {
        let span = Span::new(k.int("ts_ns"), k.int("ts_ns") + k.int("dur_ns"));
        let (launch, op) = (k.opt_int("launch_event_id"), k.opt_int("op_event_id"));
        let Some(launch) = launch else {
            *own.entry("[unlinked]".to_string()).or_default() += span.len();
            continue;
        };
        let chain = &chains[&launch];
        let owner = chain.iter().find(|id| nodes[id].is_op);
        assert!(
            owner.copied() == op || op.is_some_and(|op| place(op) > place(launch)),
            "{what}: owner of {}",
            k.0
        );
        let annotated = k.cell("op_source") == "annotation";
        let name = match owner {
            _ if annotated => k.text("op").to_string(),
            owner => owner.map_or("[no operator]".to_string(), |o| nodes[o].name.clone()),
        };
        if annotated {
            replays.entry(name.clone()).or_default().insert(launch);
            groups.entry(name.clone()).or_default().push(span);
        }
        *own.entry(name).or_default() += span.len();
        let names: std::collections::BTreeSet<&str> =
            chain.iter().filter(|id| nodes[id].is_op).map(|id| nodes[id].name.as_str()).collect();
        names.iter().for_each(|n| groups.entry((*n).to_string()).or_default().push(span));
        chain.iter().for_each(|id| below.entry(*id).or_default().push(span));
    }
    for id in nodes.keys() {
        let r = tree[id];
        let spans = below.get(id).map_or(&[][..], Vec::as_slice);
        let want = (
            spans.iter().map(|s| s.len()).sum(),
            Union::new(spans.iter().copied()).len(),
            spans.len() as i64,
        );
        assert_eq!((r.int("gpu_ns"), r.int("gpu_busy_ns"), r.int("activity_count")), want, "{what}: {}", r.0);
    }
    let gpu: i64 = kernels.iter().map(|k| k.int("dur_ns")).sum();
    assert_eq!(operators.iter().map(|r| r.int("gpu_self_ns")).sum::<i64>(), gpu, "{what}");
    for r in operators {
        let name = r.text("name");
        assert_eq!(r.int("gpu_self_ns"), own.get(name).copied().unwrap_or(0), "{what}: {name}");
        assert!(
            r.int("gpu_busy_ns") <= r.int("gpu_ns") && r.int("gpu_self_ns") <= r.int("gpu_ns"),
            "{what}: {name}"
        );
        if name.starts_with('[') {
            continue;
        }
        let spans = groups.get(name).map_or(&[][..], Vec::as_slice);
        let want = (spans.iter().map(|s| s.len()).sum(), Union::new(spans.iter().copied()).len());
        assert_eq!((r.int("gpu_ns"), r.int("gpu_busy_ns")), want, "{what}: {name}");
        let own: Vec<(&i64, &Node)> = nodes.iter().filter(|n| n.1.is_op && n.1.name == name).collect();
        let replays = replays.get(name).map_or(0, std::collections::BTreeSet::len);
        assert_eq!(r.int("count"), (own.len() + replays) as i64, "{what}: {name}");
        assert_eq!(r.int("host_self_ns"), own.iter().map(|n| n.1.self_ns).sum::<i64>(), "{what}: {name}");
    }
}

/// An event and all of its ancestors; a known launch belongs to its owning operator.
fn above(from: Option<i64>, nodes: &BTreeMap<i64, Node>, chains: &BTreeMap<i64, Vec<i64>>) -> Vec<i64> {
    let mut all = Vec::new();
    let mut at = from;
    while let Some(id) = at {
        if let Some(rest) = chains.get(&id) {
            all.extend(rest);
            break;
        }
        all.push(id);
        at = nodes[&id].parent;
    }
    all
}

/// Steps and outside add up to the capture, folded stacks and flame graphs to the roots and to the GPU work.
pub fn check_options(what: &str, path: &Path) {
    let path = [path.to_path_buf()];
    let Some(answer) = ops(&path, &with(&[("--by", "step,module,shape"), ("--folded", "gpu")])) else {
        return;
    };
    let rows = answer.rows("operators");
    for column in ["count", "host_self_ns", "host_api_ns", "gpu_self_ns"] {
        let of = |is_capture: bool| -> i64 {
            rows.iter().filter(|r| (r.text("scope") == "capture") == is_capture).map(|r| r.int(column)).sum()
        };
        assert_eq!(of(true), of(false), "{what}: {column}");
    }
    let gpu: i64 = answer.rows("call_stacks").iter().map(|r| r.int("gpu_ns")).sum();
    assert_eq!(sum(answer.outcome.outputs[0].1.raw.as_deref().unwrap_or_default()), gpu, "{what}");
    let flame = answer.rows("flame");
    let of = |column: &str| flame.iter().map(|r| r.int(column)).sum::<i64>();
    assert_eq!(of("gpu_sum_ns") + of("bwd_gpu_sum_ns"), gpu, "{what}");
    let folded = ops(&path, &with(&[("--folded", "self")])).expect("it was readable before");
    assert_eq!(
        sum(folded.outcome.outputs[0].1.raw.as_deref().unwrap_or_default()),
        of("host_self_ns"),
        "{what}"
    );
    let modules: i64 = answer.rows("modules").iter().map(|r| r.int("gpu_self_ns")).sum();
    assert!(modules <= gpu, "{what}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_trees_hold_what_a_count_says(plan in plans()) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = plan.write(folder.path(), ORIGIN, &Format::default());
        if let Some(answer) = ops(std::slice::from_ref(&path), &options()) {
            check("a random trace", &answer);
            check_options("a random trace", &path);
        }
    }
}

/// ```text
/// main    [pl][module] ...: model           [0......................100)
///             ...: model.head         [10.............50)
///                 aten::mm      [20....30)                  aten::relu [60..70)
/// ```
#[test]
fn ranges_of_lightning_are_modules() {
    let mut t = TraceBuilder::new();
    let mut main = t.thread(1);
    main.annotation("[pl][module]net.Model: model", us(0)..us(100));
    main.annotation("[pl][module]torch.nn.modules.linear.Linear: model.head", us(10)..us(50));
    main.op("aten::mm", us(20)..us(30));
    main.launch(us(22)..us(24)).kernel("gemm", 7, us(110)..us(150));
    main.op("aten::relu", us(60)..us(70));
    main.launch(us(62)..us(64)).kernel("relu", 7, us(150)..us(160));
    let answer = of(&t, &options());
    let rows = answer.rows("modules");
    let row = |r: &Record| {
        (r.text("path").to_string(), [r.int("gpu_ns"), r.int("gpu_self_ns"), r.int("host_self_ns")])
    };
    let expected = [("model", [50_000, 10_000, 60_000]), ("model/head", [40_000, 40_000, 40_000])];
    assert_eq!(rows.iter().map(row).collect::<Vec<_>>(), expected.map(|(path, ns)| (path.to_string(), ns)));
}

/// ```text
/// main    Torch-Compiled Region: 0/0   [0............60)   Torch-Compiled Region: 1/0 [70....90)
///           triton_poi_fused_add_0       [10....30)           aten::mm                  [75..85)
/// ```
#[test]
fn compiled_parts_of_a_model_are_modules() {
    let mut t = TraceBuilder::new();
    let mut main = t.thread(1);
    main.op("Torch-Compiled Region: 0/0", us(0)..us(60));
    main.op("triton_poi_fused_add_0", us(10)..us(30));
    main.launch(us(12)..us(14)).kernel("triton_poi_fused_add_0", 7, us(100)..us(110));
    main.op("Torch-Compiled Region: 1/0", us(70)..us(90));
    main.op("aten::mm", us(75)..us(85));
    main.launch(us(77)..us(79)).kernel("gemm", 7, us(110)..us(150));
    let answer = of(&t, &options());
    let mut found: Vec<_> = answer
        .rows("modules")
        .iter()
        .map(|r| (r.text("path").to_string(), r.int("gpu_ns"), r.int("host_ns")))
        .collect();
    found.sort();
    let expected =
        [("Torch-Compiled Region: 0/0", 10_000, 60_000), ("Torch-Compiled Region: 1/0", 40_000, 20_000)];
    assert_eq!(found, expected.map(|(path, gpu, host)| (path.to_string(), gpu, host)));
}

/// ```text
/// main    aten::linear, op_id = 3                       [0.................80)
///           aten::addmm, seq = 7, op_id = 4, sizes = ..     [10......50)
/// thread 2  AddmmBackward0, seq = 7, op_id = 5             [90....120)
///             aten::mm, op_id = 6, sizes = ..                [95.110)
/// ```
#[test]
fn names_that_emit_nvtx_wrote_are_operators_with_shapes() {
    let mut t = TraceBuilder::new();
    let mut main = t.thread(1);
    main.annotation("aten::linear, op_id = 3", us(0)..us(80));
    main.annotation("aten::addmm, seq = 7, op_id = 4, sizes = [[4], [2, 8], [8, 4]]", us(10)..us(50));
    main.launch(us(20)..us(24)).kernel("gemm", 7, us(60)..us(100));
    let mut autograd = t.thread(2);
    autograd.op("AddmmBackward0, seq = 7, op_id = 5", us(90)..us(120));
    autograd.op("aten::mm, op_id = 6, sizes = [[8, 2], [2, 4]]", us(95)..us(110));
    autograd.launch(us(100)..us(104)).kernel("gemm", 7, us(130)..us(150));
    // A comma and a number make no mark.
    t.thread(1).annotation("epoch 3, batch 5", us(200)..us(210));
    let answer = of(&t, &with(&[("--by", "shape")]));
    let rows =
        answer.rows_where("operators", |r| r.text("scope") == "capture" && !r.text("name").starts_with('['));
    let row =
        |r: &Record| (r.text("name").to_string(), r.text("input_dims").to_string(), r.opt_int("bwd_gpu_ns"));
    let mut found: Vec<_> = rows.iter().map(row).collect();
    found.sort();
    let expected = [
        ("AddmmBackward0", "", Some(0)),
        ("aten::addmm", "[[4],[2,8],[8,4]]", Some(20_000)),
        ("aten::linear", "", Some(20_000)),
        ("aten::mm", "[[8,2],[2,4]]", Some(0)),
    ];
    assert_eq!(found, expected.map(|(name, dims, ns)| (name.to_string(), dims.to_string(), ns)));
}

/// Products of a step with an activation checkpoint: one forward, one repeated in `again`, two backward.
///
/// ```text
///   forward   [mm)
///   backward       [node [again [mm)]] [node [mm)[mm)]
/// ```
fn with_checkpoint(again: impl Fn(&mut hta_testkit::Thread)) -> TraceBuilder {
    let mut t = TraceBuilder::new().rank(0).device("NVIDIA H100 80GB HBM3", 132);
    let mut main = t.thread(1);
    again(&mut main);
    main.op("autograd::engine::evaluate_function: MmBackward0", us(200)..us(300));
    for (k, start) in [0, 120, 210, 230].into_iter().enumerate() {
        let dims = serde_json::json!([[4096, 4096], [4096, 4096]]);
        let types = serde_json::json!(["c10::BFloat16", "c10::BFloat16"]);
        main.op("aten::mm", us(start)..us(start + 10)).arg("Input Dims", dims).arg("Input type", types);
        let gemm = us(1_000 * (k as i64 + 1))..us(1_000 * (k as i64 + 1) + 900);
        main.launch(us(start + 2)..us(start + 4)).kernel("cutlass_gemm", 7, gemm);
    }
    t
}

#[test]
fn products_that_are_computed_twice_are_in_the_utilization_of_the_hardware_only() {
    let node = "autograd::engine::evaluate_function: CheckpointFunctionBackward";
    let shares = |t: &TraceBuilder| {
        let a = of(t, &options());
        let row = a.rows_where("mfu", |r| r.text("scope") == "span").remove(0);
        let (mfu, hfu) = (row.float("mfu_pct").expect("a peak"), row.float("hfu_pct").expect("a peak"));
        (row.int("matrix_flops") / row.int("recompute_flops").max(1), (mfu / hfu * 1e3).round() / 1e3)
    };
    // The node of a checkpoint, a range that says so, and neither.
    assert_eq!(
        shares(&with_checkpoint(|main| {
            main.op(node, us(100)..us(150));
        })),
        (4, 0.75)
    );
    let marked = with_checkpoint(|main| {
        main.op("autograd::engine::evaluate_function: MulBackward0", us(100)..us(150));
        main.annotation("recompute_activations", us(110)..us(140));
    });
    assert_eq!(shares(&marked), (4, 0.75));
    let plain = with_checkpoint(|main| {
        main.op("layer", us(100)..us(150));
    });
    assert_eq!(shares(&plain).1, 1.0);
}
