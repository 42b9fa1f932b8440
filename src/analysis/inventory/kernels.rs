//! The table of all GPU activities, with what each does and how it occupies its device.

use crate::api::{Options, RowEmitter};
use hashbrown::HashMap;
use hta_base::table;
use hta_base::table::schema::{Table, Text};
use hta_facts::collectives::{activity_kind, role_name};
use hta_facts::direction::{Direction, Directions};
use hta_facts::graphs::nodes::GraphNodes;
use hta_facts::kernel_work::KernelWorks;
use hta_facts::machine::LaunchShapes;
use hta_facts::modules::RowModules;
use hta_facts::operator_work::OperatorWorks;
use hta_trace::args::Arg;
use hta_trace::category::Class;
use hta_trace::flops::Number;
use hta_trace::graph_replay::{graph_node, graph_of};
use hta_trace::kernel::{kernel_id, short_name};
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;

table! {
    /// One row per GPU activity.
    pub(crate) struct KernelsTable, KernelRow = "kernels" by "rank, ts_ns, event_id" {
        rank;
        event_id: u32, "", "event, as in `events`";
        device; stream;
        class: Text, "", "compute, communication, memory or fused_communication";
        kind: Option<Text>, "", "kind of collective, or direction of the copy";
        role: Option<Text>, "",
            "part in an exchange between ranks: dispatch, combine, all_reduce, barrier ...; gemm+all_gather \
             and others: fused; prepare, finish, copy_in, copy_out, kv_copy: steps of one rank alone; null: \
             none";
        class_reason: Text, "", "name of the kernel rule that set the class; default: none did";
        category: Text, "", "what it does, as in kernel_categories";
        name: Text, "", "name";
        short_name: Text, "", "what tells it apart, as in kernels_by_name";
        kernel_id: Text, "", "first 4 hexadecimal digits of the FNV-1a hash of the name";
        ts_ns: i64, "ns", "start";
        dur_ns: i64, "ns", "length";
        correlation: Option<u64>, "", "correlation id";
        launch_event_id: Option<u32>, "", "the call that launched it";
        launch_ts_ns: Option<i64>, "ns", "start of that call";
        launch_dur_ns: Option<i64>, "ns", "length of that call";
        op_event_id: Option<u32>, "", "owning operator";
        op: Option<Text>, "",
            "its name; in a graph that a capture names, that of the operator around the captured call";
        op_source: Option<Text>, "",
            "own: around its launch; exact, partial or by_count: of a captured graph, as in graphs; \
             annotation: what the program called this part of a graph; null \
             without an operator";
        op_input_dims: Option<Text>, "", "shapes of its inputs, where its work has a model";
        number: Option<Text>, "", "type of its first matrix input, or of its first input";
        direction: Option<Text>, "", "forward, backward, recompute or optimizer; null without an operator";
        module: Option<Text>, "",
            "path of nn.Modules around the operator, backward: around its forward operator";
        step: Option<u32>, "", "step of the launch";
        grid: Option<Text>, "", "blocks";
        block: Option<Text>, "", "threads per block";
        registers_per_thread: Option<i64>, "", "registers of a thread";
        shared_memory_bytes: Option<i64>, "bytes", "shared memory of a block, static and dynamic";
        blocks_per_sm: Option<f64>, "", "blocks for each multiprocessor";
        occupancy_pct: Option<f64>, "%", "warps that run of those that fit on the device, as derived";
        waves: Option<f64>, "", "rounds in which the device runs the grid";
        occupancy_limiter: Option<Text>, "",
            "what limits the blocks of a multiprocessor: warps, registers, shared_memory or blocks";
        tensor_cores: Text, "", "yes, no, or unknown: its name does not tell";
        flops: Option<u64>, "FLOP", "its share of the operations of its operator; null if unknown";
        bytes: Option<u64>, "bytes", "its share of the compulsory traffic of its operator; null if unknown";
        graph_id: Option<u64>, "", "CUDA graph that it was replayed from";
        graph_node_id: Option<u64>, "", "node of that graph";
        size_bytes: Option<i64>, "bytes", "of a copy or set";
    }
}

/// Emits a row for every GPU activity.
pub(crate) fn rows(trace: &RankTrace, options: &Options, give: &mut RowEmitter) {
    if !options.wants(KernelsTable::SPEC) {
        return;
    }
    let mut table = KernelsTable::default();
    let args = &trace.columns.args;
    let (kernels, works) = (KernelWorks::of(trace), OperatorWorks::of(trace));
    let (nodes, directions) = (GraphNodes::of(trace), Directions::of(trace));
    let (mut launches, modules) = (LaunchShapes::new(trace), RowModules::new(trace));
    let mut names: HashMap<StrId, (String, String)> = HashMap::new();
    for (i, a) in (0..).zip(&trace.activities) {
        let launch = a.launch().map(|l| trace.span(l));
        let is_copy = matches!(a.class, Class::Memcpy | Class::Memset);
        let name = trace.text(a.name);
        let (short_name, kernel_id) =
            names.entry(a.name).or_insert_with(|| (short_name(name), kernel_id(name)));
        let occupancy = if is_copy { None } else { launches.occupancy(a) };
        let share = works.share(trace, i);
        let does = kernels.at(i);
        let owner = nodes.owner(trace, i);
        let captured = nodes.captured(owner);
        let row = a.op().filter(|_| captured.is_none());
        let kind = activity_kind(trace, a);
        let work = works.of_activity(trace, i).map(|(_, work)| work);
        let text = |arg, row| args.text(arg, row).map(|t| trace.text(t));
        table.push(KernelRow {
            rank: trace.rank,
            event_id: a.row,
            device: a.device(),
            stream: a.stream(),
            class: a.work.name(),
            kind,
            role: role_name(a.role, kind),
            class_reason: options.model.rules.reason(a.rule),
            category: does.category.name(),
            name,
            short_name,
            kernel_id,
            ts_ns: a.span.start,
            dur_ns: a.span.len(),
            correlation: args.uint(Arg::Correlation, a.row),
            launch_event_id: a.launch(),
            launch_ts_ns: launch.map(|l| l.start),
            launch_dur_ns: launch.map(|l| l.len()),
            op_event_id: row,
            op: owner.map(|call| trace.text(nodes.name(trace, call))),
            op_source: match captured {
                Some(_) => nodes.node(i).map(|n| n.source.name()),
                None => row.map(|_| "own"),
            },
            op_input_dims: work
                .and(owner)
                .and_then(|call| nodes.inputs(trace, call)[0])
                .map(|t| trace.text(t)),
            number: work.and_then(|w| w.number).map(Number::name),
            direction: row.map(|o| Direction::name(directions.at(o))),
            module: match captured {
                Some(o) => o.module.map(|m| trace.text(m)),
                None => row.and_then(|o| modules.path(o)),
            },
            step: a.step(),
            grid: text(Arg::Grid, a.row),
            block: text(Arg::Block, a.row),
            registers_per_thread: args.int(Arg::Registers, a.row),
            shared_memory_bytes: args.int(Arg::SharedMemory, a.row),
            blocks_per_sm: if is_copy { None } else { launches.blocks_per_sm(a) },
            occupancy_pct: occupancy.map(|o| o.pct),
            waves: occupancy.map(|o| o.waves),
            occupancy_limiter: occupancy.map(|o| o.limiter.name()),
            tensor_cores: does.tensor_cores.name(),
            flops: share.flops,
            bytes: share.bytes,
            graph_id: graph_of(&trace.columns, a.row),
            graph_node_id: graph_node(&trace.columns, a.row),
            size_bytes: if is_copy { args.int(Arg::Bytes, a.row) } else { None },
        });
        table.give_piece(give);
    }
    give(table.finish());
}
