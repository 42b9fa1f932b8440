//! PyProf's table: a row for each kernel, with the operator, direction, layer and Python lines that launched it, and its
//! share of the FLOPs and bytes of the operator.
//!
//! The columns are PyProf's; values that it could not find (`na`) or found wrong follow hta's definitions.

pub mod columns;

use crate::analysis::api::{About, Analysis, Options, Output, Partial, RowEmitter};
use crate::facts::direction::{Direction, Directions};
use crate::facts::kernel_work::KernelWorks;
use crate::facts::modules::{around, modules_by_row};
use crate::facts::operator_work::OperatorWorks;
use crate::job::Job;
use crate::kernel::short_name;
use crate::kernel::tensor_cores::TensorCores;
use crate::table;
use crate::table::schema::{Table, Text};
use crate::trace::args::Arg;
use crate::trace::category::Class;
use crate::trace::rank_trace::RankTrace;
use crate::trace::strings::StrId;
use hashbrown::HashMap;

table! {
    /// Kernels with PyProf's columns.
    pub struct PyProfTable, PyProfRow = "pyprof" by "rank, idx" {
        rank;
        idx: u64, "", "number in order of start, from 1";
        seq: Option<Text>, "", "autograd sequence number of the operator";
        altseq: Option<Text>, "", "sequence numbers of the operators around it, joined by ,";
        tid: Option<Text>, "", "thread of the launch";
        layer: Option<Text>, "", "path of nn.Modules, joined by /; without Python frames the annotations around it, joined by :";
        trace: Option<Text>, "", "Python functions around it without those of PyTorch, innermost first, joined by ;";
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

pub struct PyProf;

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
        rows(trace, give);
        let has_kernels = trace.activities.iter().any(|a| a.class == Class::Kernel);
        Partial { rank: trace.rank, tables: Vec::new(), reason: (!has_kernels).then_some("no kernels") }
    }

    fn reduce(&self, _: &[Partial], _: &Job, _: &Options) -> Output {
        Output::default()
    }
}

/// Files of PyTorch and Python itself, whose functions say nothing about the user's program.
fn is_internal(frame: &str) -> bool {
    const INTERNAL: [&str; 5] = ["torch/", "<frozen", "threading.py", "<built-in", "nn.Module: "];
    INTERNAL.iter().any(|part| frame.contains(part))
}

fn rows(trace: &RankTrace, give: &mut RowEmitter) {
    let (kernels, works, directions) = (KernelWorks::of(trace), OperatorWorks::of(trace), Directions::of(trace));
    let (module_of, paths) = modules_by_row(trace);
    let (c, args) = (&trace.columns, &trace.columns.args);
    let launches: Vec<u32> = trace.activities.iter().filter_map(|a| a.launch()).collect();
    let by_launch = |class| -> HashMap<u32, u32> {
        let found = around(trace, &launches, class);
        launches.iter().copied().zip(found).filter_map(|(launch, row)| Some((launch, row?))).collect()
    };
    let (frames, annotations) = (by_launch(Class::Python), by_launch(Class::Annotation));
    let mut shorts: HashMap<StrId, String> = HashMap::new();
    let mut stacks: HashMap<u32, String> = HashMap::new();
    let mut subs: HashMap<u32, u64> = HashMap::new();
    let mut table = PyProfTable::default();
    let own = (0..).zip(&trace.activities).filter(|(_, a)| a.class == Class::Kernel);
    for (idx, (i, a)) in (1..).zip(own) {
        let op = a.op();
        let name = op.map(|o| trace.name(o));
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
        let module = op.and_then(|o| paths.get(*module_of.get(&o)? as usize)).cloned();
        let layer = module.or_else(|| {
            let mut names: Vec<&str> =
                trace.stacks.outward(*annotations.get(&a.launch()?)?).map(|r| trace.name(r)).collect();
            names.retain(|n| !n.starts_with("ProfilerStep#"));
            names.reverse();
            (!names.is_empty()).then(|| names.join(":"))
        });
        let stack = a.launch().and_then(|l| frames.get(&l)).map(|frame| {
            &*stacks.entry(*frame).or_insert_with(|| {
                let names = trace.stacks.outward(*frame).map(|f| trace.name(f)).filter(|n| !is_internal(n));
                names.collect::<Vec<_>>().join(";")
            })
        });
        let recorded = op.and_then(|o| args.text(Arg::CallStack, o)).map(|t| trace.text(t));
        let (module, function) = match name.and_then(|n| n.rsplit_once("::")) {
            Some((module, function)) => (Some(module), Some(function)),
            None => (None, name),
        };
        let text = |arg| op.and_then(|o| args.text(arg, o)).map(|t| trace.text(t));
        let params: Vec<String> = [Arg::InputDims, Arg::InputType, Arg::ConcreteInputs]
            .into_iter()
            .zip(["shapes", "types", "scalars"])
            .filter_map(|(arg, what)| Some(format!("{what}={}", text(arg)?)))
            .collect();
        let is_matrix = op.and_then(|o| works.at(o)).is_some_and(|w| w.family.is_matrix());
        let share = works.share(trace, i);
        table.push(PyProfRow {
            rank: trace.rank,
            idx,
            seq: op.and_then(sequence).as_deref(),
            altseq: alternatives.as_deref().filter(|t| !t.is_empty()),
            tid: a.launch().and_then(|l| c.lanes.get(c.lane[l as usize] as usize)).map(|l| trace.text(l.tid)),
            layer: layer.as_deref(),
            trace: stack.map(String::as_str).or(recorded).filter(|t| !t.is_empty()),
            dir: op.map(|o| Direction::in_pyprof(directions.at(o))),
            sub,
            r#mod: module,
            op: function,
            kernel: shorts.entry(a.name).or_insert_with(|| short_name(trace.text(a.name))),
            params: Some(params.join(" ")).as_deref().filter(|t| !t.is_empty()),
            sil: a.span.len(),
            tc: match (kernels.at(i).tensor_cores, is_matrix) {
                (TensorCores::Yes, _) => "1",
                (TensorCores::No, true) => "0",
                (TensorCores::No, false) => "-",
                (TensorCores::Unknown, true) => "?",
                (TensorCores::Unknown, false) => "-",
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
