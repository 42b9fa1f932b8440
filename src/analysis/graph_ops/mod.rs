//! Kernels inside graphs by the operators that captured them, and the graphs themselves.
//!
//! `facts::graphs` finds the captured call of every activity; here the results are summed.

mod bandwidth;
mod best_repeat;
mod guess;
mod of_graphs;
mod report;
mod tables;

use crate::api::{About, Analysis, Options, Output, Partial, RowEmitter};
use crate::settings::{Setting, ValueType};
use bandwidth::{DecodeBandwidth, DecodeBandwidthByKind};
use guess::Guesses;
use hashbrown::HashMap;
use hta_base::table::schema::{Batch, Table};
use hta_base::units::{Ns, percent};
use hta_facts::graphs::named::NamedNodes;
use hta_facts::graphs::nodes::{GraphNodes, OpSource};
use hta_job::Job;
use hta_job::recording::capability::Capability;
use hta_trace::category::Class;
use hta_trace::graph_capture::{CapturedCall, NodeKind};
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;
use of_graphs::{GraphKinds, table as graphs_table};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use tables::{
    CapturedGraphRow, CapturedGraphs, GraphNodeRow, GraphNodesTable, GraphOpRow, GraphOps, GraphOpsOverRanks,
    GraphSummary, GraphSummaryRow, Graphs,
};

pub(crate) const WEIGHT_BYTES: Setting = Setting {
    stem: "graph-ops",
    flag: "--weight-bytes",
    value: "N",
    help: "Bytes of all weights that a decode iteration reads; 0: not known (shapes do not tell it for \
           experts)",
    kind: ValueType::Count { default: 0, min: 0 },
};

pub struct GraphOpsOf;

/// Why a rank has no rows.
const NONE: &str = "no graph was launched or captured";

impl Analysis for GraphOpsOf {
    fn about(&self) -> About {
        About {
            stem: "graph-ops",
            title: "kernels inside CUDA and HIP graphs, named by the captures of the graphs",
            explain: include_str!("page.md"),
            tables: &[
                GraphOps::SPEC,
                GraphOpsOverRanks::SPEC,
                Graphs::SPEC,
                GraphNodesTable::SPEC,
                CapturedGraphs::SPEC,
                GraphSummary::SPEC,
                DecodeBandwidth::SPEC,
                DecodeBandwidthByKind::SPEC,
            ],
            views: &report::VIEWS,
            settings: &[WEIGHT_BYTES],
            takes_steps: false,
            needs: &[Capability::DeviceTime],
            ..About::DEFAULT
        }
    }

    fn map(&self, trace: &RankTrace, options: &Options, give: &mut RowEmitter) -> Partial {
        let nodes = GraphNodes::of(trace);
        let kinds = GraphKinds::new(trace, &nodes);
        let guesses = Guesses::new(trace, &nodes);
        if options.wants_per_event(GraphNodesTable::SPEC) {
            rows(trace, &nodes, &kinds, &guesses, give);
        }
        let (bandwidth, covered) = bandwidth::tables(trace, options);
        let tables = vec![
            operators(trace, &nodes, &guesses),
            graphs_table(trace, &nodes, &kinds),
            captured(trace, &nodes),
            summary(trace, &nodes),
            bandwidth,
            covered,
        ];
        let reason = (nodes.replays.is_empty() && nodes.own_captures.0 == 0).then_some(NONE);
        Partial { rank: trace.rank, tables, reason }
    }

    fn reduce(&self, partials: &[Partial], _: &Job, _: &Options) -> Output {
        report::reduce(partials)
    }
}

#[derive(Default)]
struct GraphOperatorSums {
    instances: BTreeSet<(u32, u32)>,
    activities: u64,
    kernels: u64,
    ns: Ns,
}

fn operators(trace: &RankTrace, nodes: &GraphNodes, guesses: &Guesses) -> Batch {
    let mut sums: HashMap<(Option<StrId>, OpSource, Option<StrId>), GraphOperatorSums> = HashMap::new();
    for i in nodes.replays.iter().flat_map(|r| r.nodes.iter().copied()) {
        let Some((node, a)) = nodes.node(i).zip(trace.activities.get(i as usize)) else { continue };
        let op = node.operator.and_then(|o| nodes.operator(o)).map(|o| o.name);
        let guess = if op.is_none() { guesses.of(a.name) } else { None };
        let sum = sums.entry((op, node.source, guess)).or_default();
        sum.instances.extend(node.operator.map(|o| (node.replay, o)));
        sum.activities += 1;
        sum.kernels += u64::from(a.class == Class::Kernel);
        sum.ns += a.span.len();
    }
    let named = NamedNodes::of(trace);
    let text = |id: Option<StrId>| id.map(|id| trace.text(id));
    let mut rows: Vec<_> = sums.into_iter().collect();
    rows.sort_by_key(|((op, source, guess), s)| (Reverse(s.ns), text(*op), source.name(), text(*guess)));
    let mut table = GraphOps::default();
    for ((op, source, guess), s) in rows {
        table.push(GraphOpRow {
            rank: trace.rank,
            op: text(op),
            op_source: source.name(),
            op_guess: text(guess),
            operator_count: s.instances.len() as u64,
            activity_count: s.activities,
            kernel_count: s.kernels,
            sum_ns: s.ns,
            graph_pct: percent(s.ns, named.graph_ns),
            gpu_pct: percent(s.ns, named.gpu_ns),
        });
    }
    table.finish()
}

fn rows(trace: &RankTrace, nodes: &GraphNodes, kinds: &GraphKinds, guesses: &Guesses, give: &mut RowEmitter) {
    let mut table = GraphNodesTable::default();
    for (number, replay) in (0..).zip(&nodes.replays) {
        for &i in &replay.nodes {
            let Some((node, a)) = nodes.node(i).zip(trace.activities.get(i as usize)) else { continue };
            let of = node.operator.and_then(|o| nodes.operator(o));
            let chain = node.operator.map(|o| {
                let mut names: Vec<&str> =
                    nodes.outward(o).filter_map(|i| nodes.operator(i)).map(|o| trace.text(o.name)).collect();
                names.reverse();
                names.join(" > ")
            });
            let text = |id: Option<StrId>| id.map(|id| trace.text(id));
            let repeat = kinds.repeat(replay.sequence).and_then(|r| r.block(node.index as usize));
            table.push(GraphNodeRow {
                rank: trace.rank,
                event_id: a.row,
                launch_event_id: replay.call,
                replay: number,
                graph: kinds.graph(number),
                node: node.index,
                name: trace.text(a.name),
                node_ts_ns: a.span.start,
                node_dur_ns: a.span.len(),
                op: of.map(|o| trace.text(o.name)),
                op_source: node.source.name(),
                op_guess: if of.is_none() { text(guesses.of(a.name)) } else { None },
                operators: chain.as_deref(),
                input_dims: of.and_then(|o| text(o.inputs[0])),
                input_types: of.and_then(|o| text(o.inputs[1])),
                module: of.and_then(|o| text(o.module)),
                layer: of.and_then(|o| o.layer),
                repeat: repeat.map(|r| r as u32),
                line: of.and_then(|o| text(o.line)),
            });
            table.give_piece(give);
        }
    }
    give(table.finish());
}

fn captured(trace: &RankTrace, nodes: &GraphNodes) -> Batch {
    let mut replays: HashMap<u32, u64> = HashMap::new();
    for capture in nodes.replays.iter().filter_map(|r| r.found.capture().0) {
        *replays.entry(capture).or_default() += 1;
    }
    let mut rows: Vec<_> = (0..).zip(&nodes.graphs).collect();
    rows.sort_by_key(|(i, g)| (g.file.as_str(), *i));
    let mut table = CapturedGraphs::default();
    for (index, g) in rows {
        let operators: BTreeSet<u32> = g.calls.iter().filter_map(|c| c.operator).collect();
        let is_nameless = |c: &&CapturedCall| c.kind == NodeKind::Kernel && c.name.is_none();
        table.push(CapturedGraphRow {
            rank: trace.rank,
            capture_file: &g.file,
            index,
            capture: g.name.map(|n| trace.text(n)),
            padded_batch: g.padded_batch,
            is_own: g.is_own,
            call_count: g.calls.len() as u64,
            nameless_count: g.calls.iter().filter(is_nameless).count() as u64,
            operator_count: operators.len() as u64,
            replay_count: replays.get(&index).copied().unwrap_or(0),
        });
    }
    table.finish()
}

fn summary(trace: &RankTrace, nodes: &GraphNodes) -> Batch {
    let named = NamedNodes::of(trace);
    let mut table = GraphSummary::default();
    if !nodes.replays.is_empty() || nodes.own_captures.0 > 0 {
        table.push(GraphSummaryRow {
            rank: trace.rank,
            replay_count: nodes.replays.len() as u64,
            reordered_count: trace.graph_replays.reordered,
            graph_activity_count: named.activities,
            named_count: named.named,
            gpu_ns: named.gpu_ns,
            graph_ns: named.graph_ns,
            unnamed_ns: named.unnamed_ns,
            unnamed_pct: percent(named.unnamed_ns, named.gpu_ns),
            own_graph_count: nodes.own_captures.0 as u64,
            own_call_count: nodes.own_captures.1 as u64,
        });
    }
    table.finish()
}
