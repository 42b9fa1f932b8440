//! PyProf's table: a row for each kernel, with the operator, direction, layer and Python lines that launched
//! it, and its share of the FLOPs and bytes of the operator.
//!
//! The columns are PyProf's; values that it could not find (`na`) or found wrong follow hta's definitions.

pub mod columns;
mod labels;

pub use labels::Labels;

use crate::pyprof::columns::UNKNOWN;
use crate::pyprof::labels::Labeller;
use hashbrown::HashMap;
use hta_analysis::api::{About, Analysis, Options, Output, Partial, RowEmitter};
use hta_base::table;
use hta_base::table::schema::{Table, Text};
use hta_facts::kernel_work::KernelWorks;
use hta_facts::marked_inputs::MarkedInputs;
use hta_facts::modules::{RowModules, around};
use hta_facts::operator_work::OperatorWorks;
use hta_job::Job;
use hta_trace::args::Arg;
use hta_trace::category::Class;
use hta_trace::kernel::short_name;
use hta_trace::kernel::tensor_cores::TensorCores;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::{ByText, StrId};

table! {
    /// Kernels with PyProf's columns.
    pub struct PyProfTable, PyProfRow = "pyprof" by "rank, idx" {
        rank;
        idx: u64, "", "number in order of start, from 1";
        seq: Option<Text>, "", "autograd sequence number of the operator";
        altseq: Option<Text>, "", "sequence numbers of the operators around it, joined by ,";
        tid: Option<Text>, "", "thread of the launch";
        layer: Option<Text>, "",
            "path of nn.Modules, joined by /; without Python frames the annotations around it, joined by :";
        trace: Option<Text>, "",
            "Python functions around it without those of PyTorch, innermost first, joined by ;";
        dir: Option<Text>, "", "fprop, bprop, recompute or optimizer";
        sub: u64, "", "number among the kernels of one call of the operator, from 0";
        r#mod: Option<Text>, "", "part of the operator's name before ::";
        op: Option<Text>, "", "part of the operator's name after ::";
        kernel: Text, "", "short name of the kernel";
        params: Option<Text>, "", "shapes, types and scalars of the inputs";
        sil: i64, "ns", "duration";
        tc: Text, "", "tensor cores: 1 used, 0 possible and not used, - not applicable, ? unknown";
        device: Option<i64>, "", "device";
        stream: Option<i64>, "", "stream";
        grid: Option<Text>, "", "blocks: x,y,z";
        block: Option<Text>, "", "threads per block: x,y,z";
        flops: Option<u64>, "FLOP", "share of the operations of the operator";
        bytes: Option<u64>, "bytes", "share of its compulsory traffic";
    }
}

/// The page of `hta explain pyprof`.
pub const PAGE: &str = include_str!("page.md");

/// Kernels with labels by one of two rules.
pub struct PyProf(pub Labels);

impl Analysis for PyProf {
    fn about(&self) -> About {
        About {
            stem: "pyprof",
            title: "kernels with the columns of PyProf",
            explain: PAGE,
            tables: &[PyProfTable::SPEC],
            definitions: Some("PyProf"),
            takes_steps: false,
            ..About::DEFAULT
        }
    }

    fn reads_event_args(&self, _: &Options) -> bool {
        true
    }

    fn map(&self, trace: &RankTrace, _: &Options, give: &mut RowEmitter) -> Partial {
        rows(trace, self.0, give);
        let has_kernels = trace.activities.iter().any(|a| a.class == Class::Kernel);
        Partial { rank: trace.rank, tables: Vec::new(), reason: (!has_kernels).then_some("no kernels") }
    }

    fn reduce(&self, _: &[Partial], _: &Job, _: &Options) -> Output {
        Output::default()
    }
}

/// Files of PyTorch and Python itself, whose functions say nothing about the user's program.
fn is_internal(frame: &str) -> bool {
    const INTERNAL: [&str; 6] = ["torch/", "pyprof/", "<frozen", "threading.py", "<built-in", "nn.Module: "];
    INTERNAL.iter().any(|part| frame.contains(part))
}

/// Whether a kernel uses tensor cores, as PyProf writes it.
fn used(tensor_cores: TensorCores, is_matrix: bool) -> &'static str {
    match (tensor_cores, is_matrix) {
        (TensorCores::Yes, _) => "1",
        (TensorCores::No, true) => "0",
        (TensorCores::Unknown, true) => "?",
        (_, false) => "-",
    }
}

/// A recorded call stack without the frames of PyTorch and Python.
fn own_frames(stack: &str) -> String {
    stack.split(';').filter(|frame| !is_internal(frame)).collect::<Vec<_>>().join(";")
}

/// Mark of the ranges by which users of PyProf name layers.
const LAYER: &str = "layer:";

/// The names of a Python frame and those around it, without frames of PyTorch and Python.
fn frames_around(trace: &RankTrace, frame: u32, internal: &ByText<bool>) -> String {
    let names = trace.stacks.outward(frame).map(|f| trace.columns.name(f as usize));
    names.filter(|n| !internal.holds(*n)).map(|n| trace.text(n)).collect::<Vec<_>>().join(";")
}

/// The names of the annotations around a launch, outermost first; only those that name layers, if any does.
fn annotated_layer(trace: &RankTrace, innermost: u32) -> Option<String> {
    let mut names: Vec<&str> = trace.stacks.outward(innermost).map(|r| trace.name(r)).collect();
    names.retain(|n| !n.starts_with("ProfilerStep#"));
    if names.iter().any(|n| n.starts_with(LAYER)) {
        names = names.iter().filter_map(|n| n.strip_prefix(LAYER)).collect();
    }
    names.reverse();
    (!names.is_empty()).then(|| names.join(":"))
}

/// The inputs of a call, as recorded.
fn params(trace: &RankTrace, row: u32) -> String {
    let recorded = [(Arg::InputDims, "shapes"), (Arg::InputType, "types"), (Arg::ConcreteInputs, "scalars")];
    let text = |arg| trace.columns.args.text(arg, row).map(|t| trace.text(t));
    let named = recorded.into_iter().filter_map(|(arg, what)| Some(format!("{what}={}", text(arg)?)));
    named.collect::<Vec<_>>().join(" ")
}

/// The innermost event of a class around each launch.
fn by_launch(trace: &RankTrace, launches: &[u32], class: Class) -> HashMap<u32, u32> {
    let found = around(trace, launches, class);
    launches.iter().copied().zip(found).filter_map(|(launch, row)| Some((launch, row?))).collect()
}

fn rows(trace: &RankTrace, labels: Labels, give: &mut RowEmitter) {
    let (kernels, works) = (KernelWorks::of(trace), OperatorWorks::of(trace));
    let marked = MarkedInputs::new(trace);
    let mut labeller = Labeller::new(trace, marked.as_ref(), labels);
    let modules = RowModules::new(trace);
    let (c, args, internal) = (&trace.columns, &trace.columns.args, trace.columns.strings.each(is_internal));
    let launches: Vec<u32> = trace.activities.iter().filter_map(|a| a.launch()).collect();
    let frames = by_launch(trace, &launches, Class::Python);
    let annotations = by_launch(trace, &launches, Class::Annotation);
    let mut shorts: HashMap<StrId, String> = HashMap::new();
    let mut stacks: HashMap<u32, String> = HashMap::new();
    let mut subs: HashMap<u32, u64> = HashMap::new();
    let mut table = PyProfTable::default();
    let own = (0..).zip(&trace.activities).filter(|(_, a)| a.class == Class::Kernel);
    for (idx, (i, a)) in (1..).zip(own) {
        let op = a.op();
        let sub = op.map_or(0, |o| {
            let next = subs.entry(o).or_default();
            *next += 1;
            *next - 1
        });
        let sequence = |row: u32| args.int(Arg::SeqNumber, row).filter(|n| *n >= 0).map(|n| n.to_string());
        let alternatives = op.map(|o| {
            let around = trace.stacks.outward(o).skip(1).filter_map(sequence);
            around.collect::<Vec<_>>().join(",")
        });
        let module = op.and_then(|o| modules.path(o)).map(String::from);
        let layer = module.or_else(|| annotated_layer(trace, *annotations.get(&a.launch()?)?));
        let frame = a.launch().and_then(|l| frames.get(&l));
        let stack = frame
            .map(|frame| &*stacks.entry(*frame).or_insert_with(|| frames_around(trace, *frame, &internal)));
        // A backward operator has the stack and the inputs of its forward operator.
        let forward = op.zip(marked.as_ref()).and_then(|(o, m)| m.forward(o));
        let stack_of = |row: u32| args.text(Arg::CallStack, row).map(|t| own_frames(trace.text(t)));
        let recorded = op.and_then(stack_of).or_else(|| forward.and_then(stack_of));
        let described =
            op.map(|o| match marked.as_ref().filter(|_| args.text(Arg::InputDims, o).is_none()) {
                Some(m) => m.call(o).or_else(|| m.call(forward?)).unwrap_or(o),
                None => o,
            });
        let params = described.map_or(String::new(), |row| params(trace, row));
        let kernel =
            &**shorts.entry(a.name).or_insert_with(|| match (labels, short_name(trace.text(a.name))) {
                (Labels::Hta, short) => short,
                (Labels::Pyprof, short) => short.split('<').next().unwrap_or_default().to_string(),
            });
        let label = labeller.label(op, kernel);
        let is_matrix = op.and_then(|o| works.at(o)).is_some_and(|w| w.family.is_matrix());
        let share = works.share(trace, i);
        table.push(PyProfRow {
            rank: trace.rank,
            idx,
            seq: op.and_then(sequence).as_deref(),
            altseq: alternatives.as_deref().filter(|t| !t.is_empty()),
            tid: a.launch().and_then(|l| c.lanes.get(c.lane[l as usize] as usize)).map(|l| trace.text(l.tid)),
            layer: layer.as_deref(),
            trace: stack.map(String::as_str).or(recorded.as_deref()).filter(|t| !t.is_empty()),
            dir: label.direction,
            sub,
            r#mod: label.module,
            op: label.function,
            kernel,
            params: Some(params.as_str()).filter(|t| !t.is_empty()),
            sil: a.span.len(),
            tc: match (labels, label.is_matrix) {
                (Labels::Hta, _) => used(kernels.at(i).tensor_cores, is_matrix),
                (Labels::Pyprof, Some(is_matrix)) => used(kernels.at(i).tensor_cores, is_matrix),
                (Labels::Pyprof, None) => UNKNOWN,
            },
            device: a.device(),
            stream: a.stream(),
            grid: args.text(Arg::Grid, a.row).map(|t| trace.text(t).trim_matches(['[', ']'])),
            block: args.text(Arg::Block, a.row).map(|t| trace.text(t).trim_matches(['[', ']'])),
            flops: share.flops,
            bytes: share.bytes,
        });
        table.give_piece(give);
    }
    give(table.finish());
}
