//! HTA's `TraceDiff.compare_traces` and `ops_diff`.
//!
//! Compares counts and whole microseconds of the lowest step of the first rank on each side, or of all steps
//! that `--steps` chooses together. Nothing is divided by the number of steps. Without `--steps`, a slowdown
//! may concern only that first step. Events are summed by name alone, whatever their category. A host row
//! belongs to the last step row of the file that contains its start, a row on a stream above 0 to the step of
//! its launch call, a row on stream 0 to no step. Unlike in HTA's other analyses, the last step is not left
//! out.

use crate::hta::NAME;
use crate::hta::loader::{LoadedRow, all_rows};
use hta_analysis::api::{About, Analysis, Options, Output, Partial, RowEmitter};
use hta_analysis::settings::SHORT_NAMES;
use hta_base::table;
use hta_base::table::schema::{Batch, Table, Text};
use hta_base::table::view::{ViewScope, ViewSpec};
use hta_job::Job;
use hta_trace::rank_trace::{RankTrace, StepFilter};
use hta_trace::strings::StrId;
use std::collections::{BTreeMap, BTreeSet};

table! {
    /// HTA's `TraceDiff.compare_traces` for each device_type.
    pub struct HtaDiffTable, ComparedRow = "compat_hta_trace_diff" by "device_type, name" {
        device_type: Text, "", "ALL, CPU or GPU";
        name: Text, "", "name; with --short-names as HTA shortens it";
        control_counts as "Control_counts": i64, "", "number of events in the base traces (before)";
        control_dur as "Control_total_duration": i64, "us", "sum of durations in the base traces (before)";
        test_counts as "Test_counts": i64, "", "number of events in the test traces (after)";
        test_dur as "Test_total_duration": i64, "us", "sum of durations in the test traces (after)";
        diff_counts: i64, "", "Test_counts - Control_counts";
        diff_duration: i64, "us", "Test_total_duration - Control_total_duration";
        change as "counts_change_categories": Text, "",
            "+, - or =: the count increased, decreased or stayed equal";
    }
}

table! {
    /// HTA's `TraceDiff.ops_diff` for each device_type.
    pub(crate) struct OpsDiff, OpsDiffRow = "compat_hta_ops_diff" by "device_type, change, name" {
        device_type: Text, "", "ALL, CPU or GPU";
        change: Text, "", "change of the count: added, deleted, increased, decreased or unchanged";
        name: Text, "", "full name";
    }
}

table! {
    /// Sums by name over the compared step of one rank.
    struct HtaOpSums, OpRow = "compat_hta_ops" by "is_gpu, name" {
        rank: u32, "", "rank";
        is_gpu: bool, "", "the events are on a stream";
        name: Text, "", "full name";
        count: i64, "", "number of events";
        sum: i64, "us", "sum of durations";
    }
}

pub(crate) struct HtaDiff;

impl Analysis for HtaDiff {
    fn about(&self) -> About {
        About {
            kept_tables: &[HtaOpSums::SPEC],
            settings: &[SHORT_NAMES],
            takes_steps: true,
            ..head!(Some(NAME), "diff", "HTA's comparison of two traces", [HtaDiffTable, OpsDiff])
        }
    }

    fn map(&self, trace: &RankTrace, options: &Options, _: &mut RowEmitter) -> Partial {
        map(trace, options.model.steps.as_ref())
    }

    /// Returns the tables of the partials unchanged, because only two sets together can be reduced, by
    /// [`compare`].
    fn reduce(&self, partials: &[Partial], _: &Job, _: &Options) -> Output {
        let tables = partials.iter().flat_map(|p| p.tables.iter().cloned()).collect();
        Output { tables, ..Output::default() }
    }
}

/// The number in a name like `ProfilerStep # 12`.
fn step_number(name: &str) -> Option<i64> {
    let rest = name.strip_prefix("ProfilerStep")?.trim_start().strip_prefix('#')?.trim_start();
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest.get(..digits)?.parse().ok()
}

fn map(trace: &RankTrace, filter: Option<&StepFilter>) -> Partial {
    let rows = all_rows(trace);
    let numbers: BTreeMap<StrId, i64> = {
        let names: BTreeSet<StrId> = rows.iter().map(|r| r.name).collect();
        names.into_iter().filter_map(|n| Some((n, step_number(trace.text(n))?))).collect()
    };
    let number_of = |r: &LoadedRow| numbers.get(&r.name).copied();
    let steps: Vec<(i64, i64, i64)> =
        rows.iter().filter_map(|r| number_of(r).map(|n| (r.row.ts, r.row.end(), n))).collect();
    let found: BTreeSet<i64> = steps.iter().map(|s| s.2).collect();
    let Some(lowest) = found.first().copied() else {
        let reason = Some("no `ProfilerStep#n`: HTA cannot compare");
        let tables = vec![HtaOpSums::default().finish()];
        return Partial { rank: trace.rank, tables, reason };
    };
    // HTA takes the lowest step unless another one is chosen.
    let asked: BTreeSet<i64> = match filter {
        None => BTreeSet::from([lowest]),
        Some(f) => {
            found.iter().zip(0..).filter(|(n, index)| f.keeps(*index, Some(**n))).map(|(n, _)| *n).collect()
        }
    };
    if asked.is_empty() {
        // Return no table, so that the first rank with such a step is compared.
        return Partial { rank: trace.rank, tables: Vec::new(), reason: Some("none of the steps asked for") };
    }
    // If several steps contain a time, the last one in the file decides.
    let is_asked =
        |ts: i64| steps.iter().rfind(|s| s.0 <= ts && ts < s.1).is_some_and(|s| asked.contains(&s.2));
    let mut sums: BTreeMap<(bool, &str), (i64, i64)> = BTreeMap::new();
    for r in &rows {
        let at = match r.row.stream {
            ..0 => Some(r.row.ts),
            0 => None,
            _ => r.row.partner_ts,
        };
        if at.is_some_and(is_asked) {
            let sum = sums.entry((r.row.stream != -1, trace.text(r.name))).or_default();
            sum.0 += 1;
            sum.1 += r.row.dur;
        }
    }
    let mut table = HtaOpSums::default();
    for ((is_gpu, name), (count, sum)) in sums {
        table.push(OpRow { rank: trace.rank, is_gpu, name, count, sum });
    }
    Partial { rank: trace.rank, tables: vec![table.finish()], reason: None }
}

/// Shortens a name as HTA does: removes everything in angle and round brackets, and keeps the last word of
/// the rest.
fn shortened(name: &str) -> String {
    if ["Memcpy", "Memset", "dma"].iter().any(|p| name.starts_with(p)) || !name.contains(['<', '(']) {
        return name.to_string();
    }
    let mut out: Vec<char> = Vec::new();
    for c in name.replace("->", "").chars() {
        let open = match c {
            '>' => '<',
            ')' => '(',
            other => {
                out.push(other);
                continue;
            }
        };
        // Without an opening bracket everything before is dropped, as in HTA.
        while out.pop().is_some_and(|o| o != open) {}
    }
    let text: String = out.into_iter().collect();
    text.split(' ').next_back().unwrap_or_default().to_string()
}

/// Counts and durations by name, for control and test.
type ControlAndTest = BTreeMap<String, [(i64, i64); 2]>;

fn sides(base: &[Batch], test: &[Batch], device_type: &str, short: bool) -> ControlAndTest {
    let mut all: ControlAndTest = BTreeMap::new();
    for (side, tables) in [base, test].into_iter().enumerate() {
        // Use only the first rank that has the table.
        let Some(batch) = tables.iter().find(|b| b.spec.name == HtaOpSums::SPEC.name) else { continue };
        for row in HtaOpSums::rows(batch) {
            if (device_type == "CPU" && row.is_gpu) || (device_type == "GPU" && !row.is_gpu) {
                continue;
            }
            let name = if short { shortened(row.name) } else { row.name.to_string() };
            let sum = &mut all.entry(name).or_default()[side];
            sum.0 += row.count;
            sum.1 += row.sum;
        }
    }
    all
}

/// Number of rows of each table that are printed.
const SHOWN: usize = 40;

const DEVICE_TYPES: [&str; 3] = ["ALL", "CPU", "GPU"];

/// Makes both tables from the tables that `map` made for the two sets.
pub fn compare(base: &[Batch], test: &[Batch], short: bool) -> Output {
    let (mut compared, mut ops) = (HtaDiffTable::default(), OpsDiff::default());
    for device_type in DEVICE_TYPES {
        for (name, [control, test]) in sides(base, test, device_type, short) {
            let diff = test.0 - control.0;
            compared.push(ComparedRow {
                device_type,
                name: &name,
                control_counts: control.0,
                control_dur: control.1,
                test_counts: test.0,
                test_dur: test.1,
                diff_counts: diff,
                diff_duration: test.1 - control.1,
                change: ["-", "=", "+"][(diff.signum() + 1) as usize],
            });
        }
        let mut changes: Vec<(&str, String)> = sides(base, test, device_type, false)
            .into_iter()
            .map(|(name, [control, test])| {
                let change = match (control.0, test.0, (test.0 - control.0).signum()) {
                    (0, _, _) => "added",
                    (_, 0, _) => "deleted",
                    (_, _, 1) => "increased",
                    (_, _, -1) => "decreased",
                    _ => "unchanged",
                };
                (change, name)
            })
            .collect();
        changes.sort();
        for (change, name) in &changes {
            ops.push(OpsDiffRow { device_type, change, name });
        }
    }
    let tables = vec![compared.finish(), ops.finish()];
    let scope =
        ViewScope { tables: &tables, top: SHOWN, of_steps: false, is_one_rank: false, option: &|_| None };
    let views = [ViewSpec::whole(HtaDiffTable::SPEC), ViewSpec::whole(OpsDiff::SPEC)];
    let shown = views.iter().filter_map(|view| view.rows(&scope).ok().flatten()).collect();
    Output { tables, shown, ..Output::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shortened_as_hta_does_it() {
        let long = "void at::native::vectorized<4, at::Array<char*, 3> >(int, at::Array<char*, 3>)";
        assert_eq!(shortened(long), "at::native::vectorized");
        assert_eq!(shortened("Memcpy DtoD (Device -> Device)"), "Memcpy DtoD (Device -> Device)");
        assert_eq!(shortened("## all2all_data:lengths ##"), "## all2all_data:lengths ##");
        assert_eq!(shortened("f(a) -> b"), "b");
        assert_eq!(shortened("train.py(42): step"), "step");
    }

    #[test]
    fn step_names_have_a_number() {
        assert_eq!(step_number("ProfilerStep#1009"), Some(1009));
        assert_eq!(step_number("ProfilerStep # 7"), Some(7));
        assert_eq!(step_number("ProfilerStep"), None);
    }
}
