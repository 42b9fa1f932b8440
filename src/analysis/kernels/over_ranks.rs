//! Kernels by name over all ranks and devices.

use crate::api::{Partial, rows};
use crate::kernels::by_name::{KernelsByName, KernelsByNameRow};
use crate::over_ranks::{AttainedWork, OverRanks, TextShares, WorkRates, add_work};
use hta_base::table;
use hta_base::table::schema::{Batch, Table, Text};
use hta_trace::kernel::category::Category;
use hta_trace::timeline::WorkClass;
use std::collections::BTreeMap;

table! {
    /// Kernels, copies and sets by name over all ranks and devices; concurrent ones count twice. What one
    /// rank has is in `kernels_by_name`.
    pub struct KernelsOverRanks, KernelOverRanksRow = "kernels_over_ranks"
        by "scope, sum_ns descending, count descending, category, class, short_name, name"
        key "scope, category, class, name" {
        scope: Text, "", "span: all activities; step: those launched in a step; outside: the rest";
        category: Text, "", "what it does, as in kernel_categories", "category";
        class: Text, "", "compute, communication, memory or fused_communication";
        short_name: Text, "", "what tells it apart, without parameters", "kernel";
        name: Text, "", "full name", "full name";
        op: Option<Text>, "", "owning operator (with --by op)";
        input_dims: Option<Text>, "", "shapes of the operator's inputs (with --by input)";
        direction: Option<Text>, "", "forward, backward, recompute or optimizer (with --by direction)";
        module: Option<Text>, "", "path of nn.Modules around the operator (with --by layer)";
        grid: Option<Text>, "", "blocks (with --by shape)";
        block: Option<Text>, "", "threads per block (with --by shape)";
        registers_per_thread: Option<i64>, "", "registers of a thread (with --by shape)";
        shared_memory_bytes: Option<i64>, "bytes", "shared memory of a block (with --by shape)";
        stream: Option<i64>, "", "stream (with --by stream)";
        count: u64, "", "activities, on all ranks";
        sum_ns: i64, "ns", "sum of their durations", "time";
        mean_ns: f64, "ns", "mean duration";
        min_ns: i64, "ns", "shortest", "shortest";
        max_ns: i64, "ns", "longest", "longest";
        rank_count: u32, "", "ranks that have it";
        max_rank: u32, "", "rank with most time; of several the lowest", "on rank";
        max_rank_ns: i64, "ns", "sum of durations on that rank", "largest";
        main_op: Option<Text>, "",
            "operator that launched most of sum_ns, of the main operators of the ranks", "operator";
        main_op_ns: Option<i64>, "ns",
            "part of sum_ns that it launched, at least: of the ranks of which it is the main one", "by it";
        main_input_dims: Option<Text>, "",
            "shapes of its inputs in most of that time, where recorded", "shapes";
        work_ns: i64, "ns", "sum of the durations of activities of operators whose work is known";
        flops: Option<u64>, "FLOP", "share of the operations of these operators; null where none is known";
        bytes: Option<u64>, "bytes", "share of their compulsory traffic; null where none is known";
        tflops_per_s: Option<f64>, "TFLOP/s", "flops over work_ns";
        tb_per_s: Option<f64>, "TB/s", "bytes over work_ns";
        flops_per_byte: Option<f64>, "FLOP/byte", "arithmetic intensity", "FLOP/byte";
        roofline_pct: Option<f64>, "%",
            "of what is attainable at this intensity, mean weighted by work_ns of the ranks of which it is \
             known", "of attainable";
        bound: Option<Text>, "", "compute, memory or latency, for most of that time", "roof";
    }
}

/// What the ranks' rows of one kernel have beside sums.
#[derive(Debug, Default)]
struct KernelExtremes<'a> {
    min_ns: Option<i64>,
    max_ns: i64,
    /// Time by main operator, and by operator the time by shapes of its inputs.
    ops: TextShares<'a>,
    inputs: BTreeMap<&'a str, TextShares<'a>>,
    work_ns: i64,
    flops: Option<u64>,
    bytes: Option<u64>,
    attained: AttainedWork<'a>,
}

/// Texts that identify a row beside its name, and numbers.
type FurtherKeys<'a> = ([Option<&'a str>; 6], [Option<i64>; 3]);

/// Whether no rule knows a kernel: it is compute by default, and has no category.
pub(crate) fn is_unknown(r: &KernelsByNameRow) -> bool {
    r.class == WorkClass::Compute.name() && r.category == Category::Unknown.name() && r.role.is_none()
}

/// The rows of a table of names that no rule knows.
pub(crate) fn unknown_of(table: &Batch) -> Batch {
    let mut out = KernelsByName::default();
    KernelsByName::rows(table).filter(is_unknown).for_each(|r| out.push(r));
    out.finish()
}

/// `only_unknown`: only kernels that no rule knows.
pub(crate) fn table(partials: &[Partial], only_unknown: bool) -> Batch {
    let mut all: OverRanks<([&str; 4], FurtherKeys), 2, KernelExtremes> = OverRanks::new();
    for r in rows::<KernelsByName>(partials).filter(|r| !only_unknown || is_unknown(r)) {
        let texts = [r.op, r.input_dims, r.direction, r.module, r.grid, r.block];
        let numbers = [r.registers_per_thread, r.shared_memory_bytes, r.stream];
        let key = ([r.category, r.class, r.short_name, r.name], (texts, numbers));
        let of = all.add(r.scope, key, r.rank, [r.sum_ns, r.count as i64]);
        of.min_ns = Some(of.min_ns.map_or(r.min_ns, |ns| ns.min(r.min_ns)));
        of.max_ns = of.max_ns.max(r.max_ns);
        if let Some((op, ns)) = r.main_op.zip(r.main_op_ns) {
            of.ops.add(op, ns);
            if let Some((dims, ns)) = r.main_input_dims.zip(r.main_input_ns) {
                of.inputs.entry(op).or_default().add(dims, ns);
            }
        }
        of.work_ns += r.work_ns;
        add_work(&mut of.flops, r.flops);
        add_work(&mut of.bytes, r.bytes);
        of.attained.add(r.work_ns, r.roofline_pct.filter(|_| r.bound.is_some()), r.bound);
    }
    let mut table = KernelsOverRanks::default();
    for (scope, ([category, class, short_name, name], (texts, numbers)), s) in all.rows() {
        let ([sum_ns, count], of) = (s.sums, &s.more);
        let work_ns = of.work_ns;
        let [op, input_dims, direction, module, grid, block] = texts;
        let [registers_per_thread, shared_memory_bytes, stream] = numbers;
        let main = of.ops.largest();
        let dims = main.and_then(|(op, _)| of.inputs.get(op)).and_then(TextShares::largest);
        let rates = WorkRates::new(of.flops, of.bytes, work_ns);
        table.push(KernelOverRanksRow {
            scope,
            category,
            class,
            short_name,
            name,
            op,
            input_dims,
            direction,
            module,
            grid,
            block,
            registers_per_thread,
            shared_memory_bytes,
            stream,
            count: count as u64,
            sum_ns,
            mean_ns: sum_ns as f64 / count.max(1) as f64,
            min_ns: of.min_ns.unwrap_or(0),
            max_ns: of.max_ns,
            rank_count: s.rank_count,
            max_rank: s.max.1,
            max_rank_ns: s.max.0,
            main_op: main.map(|(op, _)| op),
            main_op_ns: main.map(|(_, ns)| ns),
            main_input_dims: dims.map(|(dims, _)| dims),
            work_ns,
            flops: of.flops,
            bytes: of.bytes,
            tflops_per_s: rates.tflops_per_s,
            tb_per_s: rates.tb_per_s,
            flops_per_byte: rates.flops_per_byte,
            roofline_pct: of.attained.pct(),
            bound: of.attained.bound(),
        });
    }
    table.finish()
}
