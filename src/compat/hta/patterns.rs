//! HTA's `get_frequent_cuda_kernel_sequences`: kernel sequences under an operator.
//!
//! Reproduced on purpose: all rows whose name *contains* the text are used, but only those at the smallest
//! depth at which there is one. Depth is counted on a stack of all host rows of a thread, including
//! annotations and Python frames; on this stack, any end closes the innermost open row. If the trace has
//! exactly one thread with steps and one with autograd, the outermost rows of the autograd thread become
//! children of the annotation `## backward ##` of the other thread, or of its step if there is no such
//! annotation.
//!
//! ```text
//!   aten::linear  depth 2   |............|          counted: the shallowest with the text
//!   aten::linear  depth 4      |.....|              not counted, even if it is below no other aten::linear
//! ```

use crate::hta::NAME;
use crate::hta::loader::{LoadedRow, load_all};
use hashbrown::HashMap;
use hta_analysis::api::{About, Analysis, Options, Partial, RowEmitter};
use hta_analysis::patterns::{MIN_LENGTH, OP};
use hta_analysis::settings::Setting;
use hta_base::table;
use hta_base::table::schema::Text;
use hta_trace::rank_trace::RankTrace;
use std::collections::BTreeMap;

table! {
    /// HTA's `get_frequent_cuda_kernel_sequences`.
    pub(crate) struct FrequentSequences, FrequentSequenceRow = "compat_hta_frequent_kernel_sequences"
        by "rank, count descending, pattern" {
        rank: u32, "", "rank";
        operator_name: Text, "", "text that the names of the operators contain";
        pattern: Text, "", "names of operator and kernels, joined by |";
        count: u64, "", "operators with this pattern";
        gpu as "GPU kernel duration (us)": i64, "us", "sum of kernel durations";
        cpu as "CPU op duration (us)": i64, "us", "sum of operator durations";
    }
}

/// The default of `--op` is the first of these that is part of a name in the trace.
const OPERATORS: [&str; 6] =
    ["aten::linear", "aten::conv2d", "aten::addmm", "aten::mm", "aten::add", "aten::"];

pub(crate) struct HtaPatterns;

impl Analysis for HtaPatterns {
    fn about(&self) -> About {
        About {
            settings: &[OP, MIN_LENGTH],
            ..head!(Some(NAME), "patterns", "HTA's frequent kernel sequences", [FrequentSequences])
        }
    }

    /// HTA matches every name that contains the text.
    fn selects(&self, trace: &RankTrace, setting: &Setting, text: &str) -> Option<bool> {
        (*setting == OP).then(|| trace.columns.strings.iter().any(|(_, name)| name.contains(text)))
    }

    fn map(&self, trace: &RankTrace, options: &Options, _: &mut RowEmitter) -> Partial {
        sequences(trace, options)
    }
}

fn sequences(trace: &RankTrace, options: &Options) -> Partial {
    let names = || trace.columns.strings.iter().map(|(_, t)| t);
    let operator = match options.settings.text(&OP) {
        Some(text) => Some(text),
        None => OPERATORS.into_iter().find(|o| names().any(|n| n.contains(o))),
    };
    let mut table = FrequentSequences::default();
    let mut reason = Some("no such operator");
    if let Some(operator) = operator.filter(|o| !o.is_empty()) {
        let least = options.settings.count(&MIN_LENGTH);
        let mut rows: Vec<(String, [i64; 3])> = patterns(trace, operator, least).into_iter().collect();
        rows.sort_by(|a, b| (b.1[0], &a.0).cmp(&(a.1[0], &b.0)));
        if !rows.is_empty() {
            reason = None;
        }
        for (pattern, [count, gpu, cpu]) in rows {
            let count = count.unsigned_abs();
            table.push(FrequentSequenceRow {
                rank: trace.rank,
                operator_name: operator,
                pattern: &pattern,
                count,
                gpu,
                cpu,
            });
        }
    }
    Partial { rank: trace.rank, tables: vec![table.finish()], reason }
}

/// A row on a stack, or a kernel, whose depth is that of its launch plus one.
#[derive(Debug, Clone, Default)]
struct StackedRow {
    parent: Option<usize>,
    /// -1 for rows that are on no stack.
    depth: i64,
    /// Kernels launched below this row: start and event.
    kernels: Vec<(i64, u32)>,
    kernel_dur: i64,
}

/// Count, GPU and CPU microseconds of each pattern.
fn patterns(trace: &RankTrace, operator: &str, least: u64) -> BTreeMap<String, [i64; 3]> {
    let mut rows = load_all(trace);
    rows.dedup_by_key(|r| r.row.id);
    let contains = trace.columns.strings.each(|t| t.contains(operator));
    let is_asked = |r: &LoadedRow| contains.holds(r.name);
    let threads = threads(trace, &rows);
    let mut nodes = vec![StackedRow { depth: -1, ..StackedRow::default() }; rows.len()];
    // Parents come before their children.
    let mut order: Vec<usize> = Vec::new();
    for thread in threads.values() {
        stack(&rows, thread, &mut nodes, &mut order);
    }
    link_backward(trace, &rows, &threads, &mut nodes);
    for &i in &order {
        nodes[i].depth = depth(&nodes, i);
    }
    let by_id: HashMap<u32, usize> = rows.iter().enumerate().map(|(i, r)| (r.row.id, i)).collect();
    let wanted: Vec<usize> = (0..rows.len()).filter(|&i| is_asked(&rows[i])).collect();
    for (i, r) in rows.iter().enumerate().filter(|(_, r)| r.row.stream > 0 && r.linked) {
        let call = r.row.partner.filter(|id| *id > 0).and_then(|id| by_id.get(&id).copied());
        let Some(call) = call.filter(|&c| nodes[c].depth >= 0) else { continue };
        nodes[i].depth = nodes[call].depth + 1;
    }
    let Some(shallowest) = wanted.iter().map(|&i| nodes[i].depth).min() else { return BTreeMap::new() };
    let roots: Vec<usize> = wanted.into_iter().filter(|&i| nodes[i].depth == shallowest).collect();
    collect_kernels(&rows, &by_id, &roots, &mut nodes);

    let mut found: BTreeMap<String, [i64; 3]> = BTreeMap::new();
    for i in roots {
        nodes[i].kernels.sort_unstable();
        if (nodes[i].kernels.len() as u64) < least {
            continue;
        }
        let kernels = nodes[i].kernels.iter().map(|k| trace.name(k.1));
        let names: Vec<&str> = std::iter::once(trace.text(rows[i].name)).chain(kernels).collect();
        let [count, gpu, cpu] = found.entry(names.join("|")).or_default();
        *count += 1;
        *gpu += nodes[i].kernel_dur;
        *cpu += rows[i].row.dur;
    }
    found
}

/// Host rows by thread. HTA takes threads whose process or thread number is 0 for devices.
fn threads(trace: &RankTrace, rows: &[LoadedRow]) -> BTreeMap<u32, Vec<usize>> {
    let mut threads: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (i, r) in rows.iter().enumerate().filter(|(_, r)| r.row.stream == -1) {
        let lane = trace.columns.lane[r.row.id as usize];
        let of = trace.columns.lanes.get(lane as usize);
        if of.is_some_and(|l| l.pid_num != Some(0) && l.tid_num != Some(0)) {
            threads.entry(lane).or_default().push(i);
        }
    }
    threads
}

/// Builds one thread's stack: each start pushes a row, each end pops the innermost open row, whichever it is.
fn stack(rows: &[LoadedRow], thread: &[usize], nodes: &mut [StackedRow], order: &mut Vec<usize>) {
    let mut edges: Vec<(i64, usize, bool)> = Vec::with_capacity(2 * thread.len());
    for &i in thread {
        let r = &rows[i].row;
        edges.push((r.ts, i, true));
        edges.push((r.end().max(r.ts), i, false));
    }
    edges.sort_unstable();
    let mut open: Vec<usize> = Vec::new();
    for now in edges.chunk_by_mut(|a, b| a.0 == b.0) {
        let starts = now.iter().any(|e| e.2 && rows[e.1].row.dur > 0);
        now.sort_by_key(|&(_, i, is_start)| {
            let r = &rows[i].row;
            let (dur, id) = (r.dur.max(0), i64::from(r.id));
            match (dur, is_start) {
                // A row of length 0 is a child of the rows that start at this time, or else of those that
                // end.
                (0, true) => (if starts { 2 } else { -2 }, 0, id),
                (0, false) => (if starts { 3 } else { -1 }, 0, -id),
                (_, false) => (0, dur, -id),
                (_, true) => (1, -dur, id),
            }
        });
        for &(_, i, is_start) in now.iter() {
            if is_start {
                nodes[i].parent = open.last().copied();
                order.push(i);
                open.push(i);
            } else {
                open.pop();
            }
        }
    }
}

/// Depth of a row. The depths of its parents on its own thread, if any, must be known.
fn depth(nodes: &[StackedRow], i: usize) -> i64 {
    let mut above = 0;
    let mut at = nodes[i].parent;
    while let Some(p) = at {
        above += 1;
        if nodes[p].depth >= 0 {
            return nodes[p].depth + above;
        }
        at = nodes[p].parent;
    }
    above
}

/// Makes the outermost rows of the autograd thread children of the annotations of the thread with steps, if
/// there is exactly one thread of each kind.
fn link_backward(
    trace: &RankTrace,
    rows: &[LoadedRow],
    threads: &BTreeMap<u32, Vec<usize>>,
    nodes: &mut [StackedRow],
) {
    let starts = |i: &usize, text: &str| trace.text(rows[*i].name).starts_with(text);
    let is_main = |t: &&Vec<usize>| t.iter().any(|i| starts(i, "ProfilerStep#"));
    let is_backward =
        |t: &&Vec<usize>| !is_main(t) && t.iter().any(|&i| trace.text(rows[i].name).contains("autograd::"));
    let mains: Vec<_> = threads.values().filter(is_main).collect();
    let backwards: Vec<_> = threads.values().filter(is_backward).collect();
    let ([main], [backward]) = (&mains[..], &backwards[..]) else { return };
    let named = |text| main.iter().copied().filter(|i| starts(i, text)).collect::<Vec<_>>();
    let mut around = named("## backward ##");
    if around.is_empty() {
        around = named("ProfilerStep#");
    }
    let outermost: Vec<usize> = backward.iter().copied().filter(|&i| nodes[i].parent.is_none()).collect();
    for i in outermost {
        let r = &rows[i].row;
        nodes[i].parent =
            around.iter().find(|a| rows[**a].row.ts <= r.ts && r.end() <= rows[**a].row.end()).copied();
    }
}

/// Collects for each root the kernels launched below it. All roots have the same depth, so none contains
/// another.
fn collect_kernels(
    rows: &[LoadedRow],
    by_id: &HashMap<u32, usize>,
    roots: &[usize],
    nodes: &mut [StackedRow],
) {
    let mut is_root = vec![false; nodes.len()];
    roots.iter().for_each(|&i| is_root[i] = true);
    // The root at or above each row, if it has been determined.
    let mut known: Vec<Option<Option<usize>>> = vec![None; nodes.len()];
    let mut path: Vec<usize> = Vec::new();
    for r in rows.iter().filter(|r| r.row.stream > 0 && r.linked) {
        let mut at = r.row.partner.filter(|id| *id > 0).and_then(|id| by_id.get(&id).copied());
        let mut root = None;
        while let Some(i) = at {
            if let Some(answer) = known[i] {
                root = answer;
                break;
            }
            path.push(i);
            if is_root[i] {
                root = Some(i);
                break;
            }
            at = nodes[i].parent;
        }
        path.drain(..).for_each(|i| known[i] = Some(root));
        if let Some(i) = root {
            nodes[i].kernels.push((r.row.ts, r.row.id));
            nodes[i].kernel_dur += r.row.dur;
        }
    }
}
