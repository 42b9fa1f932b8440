//! Selects the collectives, compute ranges and steps of a trace as the plugin does.
//!
//! Not reproduced: the plugin moves the borders of steps in traces whose runtime calls have category
//! `Runtime` (2021).

use crate::tensorboard::plugin_rules::{operator_bytes, steps_of};
use crate::tensorboard::shortest::{CollectiveOperator, PluginRange, PluginWorker};
use hashbrown::HashMap;
use hta_base::units::Span;
use hta_trace::args::Arg;
use hta_trace::category::Class;
use hta_trace::interval::Union;
use hta_trace::rank_trace::RankTrace;
use serde_json::Value;
use std::collections::BTreeMap;

/// Names that the plugin knows after `nccl:` or `gloo:`.
const KINDS: [&str; 5] = ["broadcast", "reduce", "all_reduce", "all_gather", "reduce_scatter"];

/// Categories, in lower case, whose events are operators for the plugin.
const OPERATORS: [&str; 5] = ["cpu_op", "operator", "python", "user_annotation", "gpu_user_annotation"];

fn is_collective(name: &str) -> bool {
    name.split_once(':')
        .is_some_and(|(backend, kind)| ["nccl", "gloo"].contains(&backend) && KINDS.contains(&kind))
}

pub(crate) fn worker(trace: &RankTrace) -> PluginWorker {
    let c = &trace.columns;
    let category: Vec<String> = c.categories.iter().map(|k| c.strings.get(k.text).to_lowercase()).collect();
    let cat = |row: usize| category.get(usize::from(c.cat[row])).map_or("", String::as_str);
    let collective = c.strings.each(is_collective);
    let is_collective = |row: usize| collective.holds(c.name(row));
    let range = |row: usize| (c.ts[row], c.span(row).end);
    let operators: Vec<usize> = (0..c.len()).filter(|&r| OPERATORS.contains(&cat(r))).collect();
    // Of the operators with the same id, keep the last one by time.
    let mut by_id: BTreeMap<Option<u64>, usize> = BTreeMap::new();
    let mut rows: Vec<usize> = operators.iter().copied().filter(|&r| is_collective(r)).collect();
    rows.sort_by_key(|&r| (c.ts[r], r));
    for &r in &rows {
        by_id.insert(c.args.uint(Arg::ExternalId, r as u32), r);
    }
    let mut communication: Vec<PluginRange> = rows.iter().map(|&r| range(r)).collect();
    let mut kernels: HashMap<u64, Vec<PluginRange>> = HashMap::new();
    let mut compute: Vec<PluginRange> = Vec::new();
    for row in (0..c.len()).filter(|&r| trace.classes[r] == Class::Kernel) {
        match c.args.uint(Arg::ExternalId, row as u32).filter(|id| by_id.contains_key(&Some(*id))) {
            Some(id) => {
                kernels.entry(id).or_default().push(range(row));
                communication.push(range(row));
            }
            None => compute.push(range(row)),
        }
    }
    if compute.is_empty() {
        let is_mark = |name: &str| {
            name.starts_with("ProfilerStep#")
                || name.starts_with("enumerate(DataPipe)#")
                || (name.starts_with("enumerate(DataLoader)#") && name.ends_with(".__next__"))
        };
        let work = |r: &&usize| !is_collective(**r) && !is_mark(trace.name(**r as u32));
        compute = operators.iter().filter(work).map(|&r| range(r)).collect();
    }
    let steps = steps(trace, &operators, &cat);
    let mut found: Vec<CollectiveOperator> = by_id
        .into_iter()
        .map(|(id, r)| {
            let name = trace.name(r as u32).to_string();
            let own = if name.starts_with("nccl:") { id.and_then(|id| kernels.remove(&id)) } else { None };
            CollectiveOperator {
                name,
                span: range(r),
                kernels: own.unwrap_or_default(),
                bytes: bytes(trace, r as u32),
                step: None,
            }
        })
        .collect();
    let spans: Vec<PluginRange> = found.iter().map(|o| o.span).collect();
    for (o, step) in found.iter_mut().zip(steps_of(&spans, &steps)) {
        o.step = step;
    }
    PluginWorker { operators: found, steps, compute: union(compute), communication: union(communication) }
}

/// Merges ranges that touch or overlap. The computation of the overlap needs only their union.
fn union(ranges: Vec<PluginRange>) -> Vec<PluginRange> {
    let joined = Union::new(ranges.into_iter().map(|(a, b)| Span::new(a, b)));
    joined.spans().iter().map(|s| (s.start, s.end)).collect()
}

fn steps<'a>(
    trace: &RankTrace,
    operators: &[usize],
    cat: &impl Fn(usize) -> &'a str,
) -> Vec<(String, i64, i64)> {
    let c = &trace.columns;
    let end = |r: usize| c.span(r).end;
    let mut steps: Vec<(String, i64, i64)> = operators
        .iter()
        .filter_map(|&r| {
            let number = trace.name(r as u32).strip_prefix("ProfilerStep#")?;
            Some((number.to_string(), c.ts[r], end(r)))
        })
        .collect();
    steps.sort_by_key(|s| (s.1, s.2));
    if steps.is_empty() {
        let host =
            || operators.iter().copied().filter(|&r| ["cpu_op", "operator", "python"].contains(&cat(r)));
        let (start, stop) = (host().map(|r| c.ts[r]).min(), host().map(end).max());
        steps.extend(start.zip(stop).map(|(a, b)| ("0".to_string(), a, b)));
    }
    steps
}

fn bytes(trace: &RankTrace, row: u32) -> i64 {
    let json = |arg| {
        trace.columns.args.text(arg, row).and_then(|t| serde_json::from_str::<Value>(trace.text(t)).ok())
    };
    let (Some(Value::Array(shapes)), Some(Value::Array(types))) =
        (json(Arg::InputDims), json(Arg::InputType))
    else {
        return 0;
    };
    let shape =
        |v: &Value| v.as_array().map(|d| d.iter().filter_map(Value::as_i64).collect()).unwrap_or_default();
    let shapes: Vec<Vec<i64>> = shapes.iter().map(shape).collect();
    let types: Vec<&str> = types.iter().map(|t| t.as_str().unwrap_or_default()).collect();
    operator_bytes(&shapes, &types).unwrap_or(0)
}
