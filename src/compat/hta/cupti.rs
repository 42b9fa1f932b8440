//! HTA's `get_cupti_counter_data_with_operators`.
//!
//! Counter ranges are paired with runtime calls whose name starts with `cudaLaunchKernel`, both in order of
//! time. Each of the nine counters that HTA reads has a column. HTA's other columns (position in the file's
//! list of events, made up times, ids that ranges do not have) are omitted.

use crate::hta::NAME;
use crate::hta::loader::{LoadedRow, load_all};
use hta_analysis::api::{About, Analysis, Options, Partial, RowEmitter};
use hta_analysis::cupti::{counters_of, is_range, operators_of};
use hta_base::table;
use hta_base::table::schema::Text;
use hta_trace::rank_trace::RankTrace;

table! {
    /// HTA's `get_cupti_counter_data_with_operators`: one row per counter range.
    pub(crate) struct HtaCuptiCounters, HtaCuptiCounterRow = "compat_hta_cupti_counters"
        by "rank, start of the range" {
        rank: u32, "", "rank";
        event_id: u32, "", "event of the range, as in `events`";
        name: Text, "", "name of the range";
        dadd as "smsp__sass_thread_inst_executed_op_dadd_pred_on.sum": Option<f64>, "", "counter";
        ffma as "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum": Option<f64>, "", "counter";
        hmul as "smsp__sass_thread_inst_executed_op_hmul_pred_on.sum": Option<f64>, "", "counter";
        fmul as "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum": Option<f64>, "", "counter";
        hfma as "smsp__sass_thread_inst_executed_op_hfma_pred_on.sum": Option<f64>, "", "counter";
        fadd as "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum": Option<f64>, "", "counter";
        hadd as "smsp__sass_thread_inst_executed_op_hadd_pred_on.sum": Option<f64>, "", "counter";
        dfma as "smsp__sass_thread_inst_executed_op_dfma_pred_on.sum": Option<f64>, "", "counter";
        dmul as "smsp__sass_thread_inst_executed_op_dmul_pred_on.sum": Option<f64>, "", "counter";
        launch_event_id: u32, "", "event of the paired call, as in `events`";
        op_stack: Text, "", "operators around the call, as Python prints a list";
        top_level_op: Text, "", "the outermost of these operators";
        bottom_level_op: Text, "", "the innermost of these operators";
    }
}

pub(crate) struct HtaCupti;

impl Analysis for HtaCupti {
    fn about(&self) -> About {
        head!(Some(NAME), "cupti", "HTA's counter ranges with their operators", [HtaCuptiCounters])
    }

    fn map(&self, trace: &RankTrace, _: &Options, _: &mut RowEmitter) -> Partial {
        counters(trace)
    }
}

fn counters(trace: &RankTrace) -> Partial {
    let c = &trace.columns;
    let rows = load_all(trace);
    let in_time = |keep: &dyn Fn(u32) -> bool| {
        let mut kept: Vec<LoadedRow> = rows.iter().filter(|r| keep(r.row.id)).copied().collect();
        kept.sort_by_key(|r| (r.row.ts, r.row.id));
        kept
    };
    let ranges = in_time(&|id| is_range(trace, id as usize));
    let launches = in_time(&|id| {
        let category = c.categories.get(usize::from(c.cat[id as usize]));
        category.is_some_and(|k| trace.text(k.text).starts_with("cuda_runtime"))
            && trace.name(id).starts_with("cudaLaunchKernel")
    });
    let mut table = HtaCuptiCounters::default();
    if ranges.len() == launches.len() {
        for (range, launch) in ranges.iter().zip(&launches) {
            push(&mut table, trace, range.row.id, launch.row.id);
        }
    }
    let reason = match (ranges.len(), launches.len()) {
        (0, _) => Some("no counter ranges recorded"),
        (a, b) if a != b => Some("counter ranges and launch calls differ in number"),
        _ => None,
    };
    Partial { rank: trace.rank, tables: vec![table.finish()], reason }
}

fn push(table: &mut HtaCuptiCounters, trace: &RankTrace, range: u32, launch: u32) {
    let counters = counters_of(trace, range);
    let of = |op: &str| {
        counters.get(&format!("smsp__sass_thread_inst_executed_op_{op}_pred_on.sum")).and_then(|v| v.as_f64())
    };
    let operators = operators_of(trace, launch);
    let quoted: Vec<String> = operators.iter().map(|o| quoted(o)).collect();
    table.push(HtaCuptiCounterRow {
        rank: trace.rank,
        event_id: range,
        name: trace.name(range),
        dadd: of("dadd"),
        ffma: of("ffma"),
        hmul: of("hmul"),
        fmul: of("fmul"),
        hfma: of("hfma"),
        fadd: of("fadd"),
        hadd: of("hadd"),
        dfma: of("dfma"),
        dmul: of("dmul"),
        launch_event_id: launch,
        op_stack: &format!("[{}]", quoted.join(", ")),
        top_level_op: operators.first().copied().unwrap_or_default(),
        bottom_level_op: operators.last().copied().unwrap_or_default(),
    });
}

/// A text in quotes, as Python prints it.
fn quoted(text: &str) -> String {
    if text.contains('\'') && !text.contains('"') { format!("\"{text}\"") } else { format!("'{text}'") }
}
