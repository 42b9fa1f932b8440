//! Hardware counters of CUPTI's range profiler, by the operator that launched the kernel.
//!
//! The profiler replays each kernel alone and writes one range for it, with counters under their own names. A
//! range does not identify its launch: the i-th range in time belongs to the i-th launch call in time,
//! provided that there are as many of both. The times of ranges are artificial and not used.

use crate::api::{About, Analysis, Options, Partial, RowEmitter};
use hta_base::table;
use hta_base::table::rollup::Rollup;
use hta_base::table::schema::{Table, Text};
use hta_base::table::view::{Note, TableError, ViewScope, ViewSpec};
use hta_base::wording::counts::counted;
use hta_facts::step_scopes::StepScopes;
use hta_trace::category::{Class, is_counter_range};
use hta_trace::launch::is_launch_call;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;
use regex::Regex;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::LazyLock;

table! {
    /// One row per range and counter.
    pub(crate) struct CuptiCounters, CuptiCounterRow = "cupti_counters" by "rank, range_index, counter" {
        rank;
        range_index: u32, "", "position of the range in time";
        range_event_id: u32, "", "the range, as in `events`";
        range: Text, "", "name of the range: the kernel, or `__missing__`";
        launch_event_id: u32, "", "the launch call with the same position";
        step: Option<u32>, "", "index of the step of the launch";
        operators: Option<Text>, "", "operators open at the launch, outermost first, joined by `;`";
        counter: Text, "", "name of the counter, as in the file";
        value: f64, "", "its value";
    }
}

table! {
    /// One row per range.
    pub(crate) struct CuptiRanges, CuptiRangeRow = "cupti_ranges" by "rank, range_index" {
        rank;
        range_index: u32, "", "position of the range in time";
        range_event_id: u32, "", "the range, as in `events`";
        range: Text, "", "name of the range: the kernel, or `__missing__`";
        launch_event_id: u32, "", "the launch call with the same position";
        api: Text, "", "name of the call";
        step: Option<u32>, "", "index of the step of the launch";
        operators: Option<Text>, "", "operators open at the launch, outermost first, joined by `;`";
        top_op: Option<Text>, "", "the outermost operator";
        op: Option<Text>, "", "the owning operator";
        counter_count: u32, "", "counters recorded";
        flop_count: Option<u64>, "",
            "multiply-adds count 2, multiplications and additions 1; null without these counters";
    }
}

table! {
    /// Ranges and floating-point operations by owning operator.
    pub struct CuptiOperators, CuptiOperatorRow = "cupti_operators" by "rank, flop_count descending, op" {
        rank;
        op: Option<Text>, "", "the owning operator; null: launched outside any";
        range_count: u64, "", "ranges";
        flop_count: Option<u64>, "", "sum over the ranges; null where none has the counters";
    }
}

table! {
    /// Ranges and floating-point operations by owning operator, over all ranks.
    pub(crate) struct CountedOperators, CountedOperatorRow = "cupti_operators_over_ranks"
        by "flop_count descending, op" {
        op: Option<Text>, "", "the owning operator; null: launched outside any", "operator";
        range_count: u64, "", "ranges: a kernel each", "kernels" => sum(range_count);
        flop_count: Option<u64>, "", "sum over the ranges; null where none has the counters", "FLOP"
            => sum(flop_count);
        rank_count: u32, "", "ranks that launch kernels in it" => ranks;
    }
}

const OPERATORS: Rollup = Rollup::of(CuptiOperators::SPEC, CountedOperators::SPEC);

const VIEW: ViewSpec = ViewSpec {
    title: "Counted floating-point operations by operator",
    also: &[CuptiPairing::SPEC],
    columns: &["op", "range_count", "flop_count"],
    nulls: &[("op", "(none)")],
    shares: &[("flop_count", "share")],
    notes: &[Note::Made(unpaired)],
    ..ViewSpec::of(CountedOperators::SPEC)
};

/// The ranks whose ranges have no launches.
fn unpaired(scope: &ViewScope) -> Result<Option<String>, TableError> {
    let mut ranks = Vec::new();
    scope.each::<CuptiPairing>(|r| {
        ranks.extend((!r.is_paired).then(|| {
            let (ranges, launches) =
                (counted(r.range_count, "counter range"), counted(r.launch_count, "launch call"));
            format!("rank {}: {ranges} and {launches} cannot be paired", r.rank)
        }));
    })?;
    Ok((!ranks.is_empty()).then(|| ranks.join("; ")))
}

table! {
    /// Whether ranges could be paired with launches: one row per rank with ranges.
    pub(crate) struct CuptiPairing, PairingRow = "cupti_pairing" by "rank" {
        rank;
        range_count: u64, "", "counter ranges";
        launch_count: u64, "", "launch calls";
        is_paired: bool, "", "there are as many ranges as launch calls";
    }
}

pub struct Cupti;

impl Analysis for Cupti {
    fn about(&self) -> About {
        About {
            stem: "cupti",
            title: "hardware counters and FLOPs by kernel and operator",
            explain: include_str!("page.md"),
            tables: &[
                CuptiCounters::SPEC,
                CuptiRanges::SPEC,
                CuptiOperators::SPEC,
                CountedOperators::SPEC,
                CuptiPairing::SPEC,
            ],
            views: &[VIEW],
            rollups: &[OPERATORS],
            ..About::DEFAULT
        }
    }

    fn map(&self, trace: &RankTrace, options: &Options, give: &mut RowEmitter) -> Partial {
        let rank = trace.rank;
        let ranges = in_order_of_time(trace, |row| is_range(trace, row));
        if ranges.is_empty() {
            return Partial { rank, tables: Vec::new(), reason: Some("no counter ranges recorded") };
        }
        let looks = trace.columns.strings.each(is_launch_call);
        let launches = in_order_of_time(trace, |row| {
            trace.classes[row] == Class::Runtime && looks.holds(trace.columns.name(row))
        });
        let is_paired = ranges.len() == launches.len();
        let mut pairing = CuptiPairing::default();
        pairing.push(PairingRow {
            rank,
            range_count: ranges.len() as u64,
            launch_count: launches.len() as u64,
            is_paired,
        });
        let pairs: &[u32] = if is_paired { &launches } else { &[] };
        let mut partial = paired(trace, options, &ranges, pairs, give);
        partial.tables.push(pairing.finish());
        partial.reason = (!is_paired).then_some("counter ranges and launch calls differ in number");
        partial
    }
}

/// Whether an event is a counter range.
pub fn is_range(trace: &RankTrace, row: usize) -> bool {
    let category = trace.columns.categories.get(usize::from(trace.columns.cat[row]));
    trace.classes[row] == Class::Counter
        && category.is_some_and(|c| is_counter_range(trace.text(c.text).as_bytes()))
}

/// The events that satisfy `keep`, in order of (start, row).
fn in_order_of_time(trace: &RankTrace, keep: impl Fn(usize) -> bool) -> Vec<u32> {
    let mut rows: Vec<u32> = (0..trace.classes.len()).filter(|&r| keep(r)).map(|r| r as u32).collect();
    rows.sort_by_key(|&r| (trace.columns.ts[r as usize], r));
    rows
}

/// Writes the ranges with their launches.
fn paired(
    trace: &RankTrace,
    options: &Options,
    ranges: &[u32],
    launches: &[u32],
    give: &mut RowEmitter,
) -> Partial {
    let scopes = StepScopes::new(trace, &options.model);
    let (mut counters, mut table) = (CuptiCounters::default(), CuptiRanges::default());
    let mut by_op: BTreeMap<Option<&str>, (u64, Option<u64>)> = BTreeMap::new();
    for (i, (&range, &launch)) in ranges.iter().zip(launches).enumerate() {
        let recorded = counters_of(trace, range);
        let operators = operators_of(trace, launch);
        let joined = operators.join(";");
        let joined = (!operators.is_empty()).then_some(joined.as_str());
        let step = scopes.step_at(trace.columns.ts[launch as usize]);
        let flops = flop_count(&recorded);
        let entry = by_op.entry(operators.last().copied()).or_default();
        entry.0 += 1;
        entry.1 = match (entry.1, flops) {
            (Some(a), Some(b)) => Some(a.saturating_add(b)),
            (a, b) => a.or(b),
        };
        let shown = recorded.iter().filter_map(|(name, value)| Some((name, value.as_f64()?)));
        for (counter, value) in shown.clone() {
            counters.push(CuptiCounterRow {
                rank: trace.rank,
                range_index: i as u32,
                range_event_id: range,
                range: trace.name(range),
                launch_event_id: launch,
                step,
                operators: joined,
                counter,
                value,
            });
            counters.give_piece(give);
        }
        table.push(CuptiRangeRow {
            rank: trace.rank,
            range_index: i as u32,
            range_event_id: range,
            range: trace.name(range),
            launch_event_id: launch,
            api: trace.name(launch),
            step,
            operators: joined,
            top_op: operators.first().copied(),
            op: operators.last().copied(),
            counter_count: shown.count() as u32,
            flop_count: flops,
        });
        table.give_piece(give);
    }
    let mut order: Vec<_> = by_op.into_iter().collect();
    order.sort_by_key(|(op, (_, flops))| (Reverse(*flops), *op));
    let mut operators = CuptiOperators::default();
    for (op, (range_count, flop_count)) in order {
        operators.push(CuptiOperatorRow { rank: trace.rank, op, range_count, flop_count });
    }
    give(counters.finish());
    give(table.finish());
    Partial { rank: trace.rank, tables: vec![operators.finish()], reason: None }
}

/// Values of some metrics that are not valid JSON.
static NO_NUMBER: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?i):\s*[+-]?(nan|inf(inity)?)\b").ok());

/// Counters of a range by name; values that are not numbers are left out.
pub fn counters_of(trace: &RankTrace, range: u32) -> Map<String, Value> {
    let text = trace.columns.args.rest.get(range).map_or("", |id| trace.text(StrId(id as u32)));
    let parsed = serde_json::from_str(text).or_else(|e| {
        let Some(pattern) = NO_NUMBER.as_ref() else { return Err(e) };
        serde_json::from_str(&match pattern.replace_all(text, ":null") {
            Cow::Borrowed(same) => same.to_string(),
            Cow::Owned(repaired) => repaired,
        })
    });
    let mut counters: Map<String, Value> = parsed.unwrap_or_default();
    counters.retain(|_, value| value.is_number());
    counters
}

/// Largest number of operators named for one launch; the innermost are kept.
const MOST_OPERATORS: usize = 64;

/// Names of the operators around a call, outermost first.
pub fn operators_of(trace: &RankTrace, call: u32) -> Vec<&str> {
    let mut names = Vec::new();
    let mut at = Some(call);
    while let Some(row) = at.filter(|_| names.len() < MOST_OPERATORS) {
        if trace.classes.get(row as usize) == Some(&Class::HostOp) {
            names.push(trace.name(row));
        }
        at = trace.stacks.parent(row);
    }
    names.reverse();
    names
}

/// Operations per counted instruction; `None` for other counters.
fn flop_weight(counter: &str) -> Option<u64> {
    let op = counter.strip_prefix("smsp__sass_thread_inst_executed_op_")?.strip_suffix("_pred_on.sum")?;
    match op.strip_prefix(['h', 'f', 'd'])? {
        "fma" => Some(2),
        "add" | "mul" => Some(1),
        _ => None,
    }
}

/// Floating-point operations; `None` if none of the counters was recorded, or one is not a whole number.
fn flop_count(counters: &Map<String, Value>) -> Option<u64> {
    let mut sum = None;
    for (name, value) in counters {
        let Some(weight) = flop_weight(name) else { continue };
        let whole = |f: &f64| f.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(f);
        let count = value.as_u64().or_else(|| value.as_f64().filter(whole).map(|f| f as u64))?;
        sum = Some(count.checked_mul(weight)?.checked_add(sum.unwrap_or(0))?);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn multiply_adds_count_twice_and_other_counters_not_at_all() {
        let counters = |v: Value| v.as_object().cloned().unwrap();
        let name = |op: &str| format!("smsp__sass_thread_inst_executed_op_{op}_pred_on.sum");
        let c = json!({ name("ffma"): 10, name("hadd"): 3.0, name("dmul"): 1, "sm__cycles.avg": 2.5 });
        assert_eq!(flop_count(&counters(c)), Some(24));
        assert_eq!(flop_count(&counters(json!({ "sm__cycles.avg": 2.5 }))), None);
        assert_eq!(flop_count(&counters(json!({ name("ffma"): 0.5 }))), None);
        assert_eq!(flop_weight("smsp__sass_thread_inst_executed_op_ffma_pred_on.avg"), None);
        assert_eq!(flop_weight("smsp__sass_thread_inst_executed_op_fp32_pred_on.sum"), None);
    }
}
