//! The table `operator_sequences`: kernel sequences that operators launched.
//!
//! ```text
//!   aten::linear    |.....................|           the instance: no selected operator around it
//!     aten::addmm     |..............|                inside it, even if selected
//!       launch           |=|  |=|
//!   sequence             gemm, bias                   by start, on any stream
//! ```

use crate::api::{Options, RowEmitter};
use crate::patterns::names::{OperatorSelection, brief, joined};
use crate::patterns::tables::{EmittedTable, MOST, OperatorSequenceRow, OperatorSequences};
use crate::patterns::{MIN_LENGTH, OP, OP_GLOB};
use hashbrown::HashMap;
use hta_base::table;
use hta_base::table::schema::{Table, Text};
use hta_base::units::Ns;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;
use std::cmp::Reverse;
use std::collections::BTreeMap;

table! {
    /// The first sequences of each rank, in the order of operator_sequences.
    pub(crate) struct TopSequences, TopSequenceRow = "top_operator_sequences"
        by "rank, gpu_dur_sum_ns descending, operator" {
        rank;
        operator: Text, "", "operator";
        names: Text, "", "short name of the first activity", "begins with";
        length: u32, "", "activities", "kernels";
        count: u64, "", "instances of the operator with this sequence", "times";
        op_dur_sum_ns: i64, "ns", "sum of the operators' durations", "host";
        gpu_dur_sum_ns: i64, "ns", "sum of the activities' durations", "GPU";
        hidden_count: u64, "", "sequences of the rank that are not among the first; in its first row";
    }
}

/// Instances of one operator with the same sequence.
#[derive(Default)]
struct SequenceGroup {
    count: u64,
    op_ns: Ns,
    gpu_ns: Ns,
    latency_ns: Ns,
    steps: Vec<u32>,
    /// First start and event of an instance.
    first: Option<(Ns, u32)>,
}

pub(crate) fn sequences(trace: &RankTrace, options: &Options, give: &mut RowEmitter) -> EmittedTable {
    let s = &options.settings;
    let asked = match (s.text(&OP), s.text(&OP_GLOB)) {
        (Some(name), _) => OperatorSelection::Exact(name),
        (None, Some(pattern)) => OperatorSelection::Glob(pattern),
        (None, None) => OperatorSelection::Outermost,
    };
    let least = if s.is_given(&MIN_LENGTH) { s.count(&MIN_LENGTH) } else { 1 };
    let mut groups: BTreeMap<(StrId, Vec<StrId>), SequenceGroup> = BTreeMap::new();
    for (op, own) in instances(trace, &asked) {
        if (own.len() as u64) < least {
            continue;
        }
        let of = || own.iter().map(|&i| &trace.activities[i as usize]);
        let key = (trace.columns.name(op as usize), of().map(|a| a.name).collect());
        let g = groups.entry(key).or_default();
        let span = trace.span(op);
        g.count += 1;
        g.op_ns += span.len();
        g.gpu_ns += of().map(|a| a.span.len()).sum::<Ns>();
        let latency = of().next().and_then(|a| Some(a.span.start - trace.span(a.launch()?).start));
        g.latency_ns += latency.unwrap_or(0).max(0);
        for step in of().filter_map(|a| a.step()) {
            if g.steps.last() != Some(&step) {
                g.steps.push(step);
            }
        }
        let first = (span.start, op);
        g.first = Some(g.first.map_or(first, |f| f.min(first)));
    }
    let mut rows: Vec<((StrId, Vec<StrId>), SequenceGroup)> = groups.into_iter().collect();
    for (_, g) in &mut rows {
        g.steps.sort_unstable();
        g.steps.dedup();
    }
    rows.sort_by_key(|((op, _), g)| (Reverse(g.gpu_ns), trace.text(*op), g.first));
    let wanted = options.wants(OperatorSequences::SPEC);
    let (mut table, mut top) = (OperatorSequences::default(), TopSequences::default());
    let total = rows.len();
    for (place, ((op, names), g)) in rows.into_iter().enumerate() {
        let names = || names.iter().map(|n| trace.text(*n));
        let (first_ts_ns, event_id) = g.first.unwrap_or_default();
        let (operator, length) = (trace.text(op), names().len() as u32);
        let first_latency_mean_ns = g.latency_ns as f64 / g.count as f64;
        let shown = MOST.min(total);
        if place < shown {
            top.push(TopSequenceRow {
                rank: trace.rank,
                operator,
                names: &brief(names()),
                length,
                count: g.count,
                op_dur_sum_ns: g.op_ns,
                gpu_dur_sum_ns: g.gpu_ns,
                hidden_count: if place == 0 { (total - shown) as u64 } else { 0 },
            });
        }
        if wanted {
            table.push(OperatorSequenceRow {
                rank: trace.rank,
                operator,
                sequence: &joined(names()),
                length,
                count: g.count,
                op_dur_sum_ns: g.op_ns,
                gpu_dur_sum_ns: g.gpu_ns,
                first_latency_mean_ns,
                steps: g.steps.len() as u32,
                first_ts_ns,
                event_id,
            });
            table.give_piece(give);
        }
    }
    give(table.finish());
    EmittedTable { rows: total, top: top.finish() }
}

/// The outermost selected operators that launched something, with the activities launched inside them, by
/// start.
fn instances(trace: &RankTrace, asked: &OperatorSelection) -> BTreeMap<u32, Vec<u32>> {
    let matches = trace.columns.strings.each(|t| asked.matches(t));
    let is_asked = |row: u32| {
        trace.classes[row as usize] == hta_trace::category::Class::HostOp
            && matches.holds(trace.columns.name(row as usize))
    };
    // Cache: the outermost selected operator at or around each event visited so far.
    let mut known: HashMap<u32, Option<u32>> = HashMap::new();
    let mut path: Vec<u32> = Vec::new();
    let mut found: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (i, a) in trace.activities.iter().enumerate() {
        let mut at = a.op();
        let mut outermost = None;
        while let Some(row) = at {
            if let Some(&answer) = known.get(&row) {
                outermost = answer;
                break;
            }
            path.push(row);
            at = trace.stacks.parent(row);
        }
        while let Some(row) = path.pop() {
            outermost = outermost.or(is_asked(row).then_some(row));
            known.insert(row, outermost);
        }
        if let Some(op) = outermost {
            found.entry(op).or_default().push(i as u32);
        }
    }
    for own in found.values_mut() {
        by_content(trace, own);
    }
    found
}

/// Orders activities that start together (on several streams, or of length 0) by content instead of by their
/// order in the file, which is arbitrary and would split equal sequences.
fn by_content(trace: &RankTrace, own: &mut [u32]) {
    let of = |i: &u32| &trace.activities[*i as usize];
    for together in own.chunk_by_mut(|a, b| of(a).span.start == of(b).span.start) {
        if together.len() > 1 {
            let call = |i: &u32| of(i).launch().map(|row| trace.span(row).start);
            together.sort_by_key(|i| (call(i), of(i).device(), of(i).stream(), trace.text(of(i).name)));
        }
    }
}
