//! Kernels, copies and sets by name over all ranks: what they do, which operator launches them with which
//! shapes, and how far they are from what the device can do.

use crate::output::html::grid::{CellType, Grid, Section, missing};
use crate::output::html::names::MOST_NAMES;
use crate::output::html::texts::Texts;
use crate::output::html::work;
use crate::results::{Results, ResultsError, columns};
use hta_analysis::kernels::KernelsOverRanks;
use hta_base::table::schema::Text;
use hta_base::units::ratio;

columns! {
    Kernel of KernelsOverRanks {
        scope, category: Text, class: Text, short_name: Text, name: Text, sum_ns: i64, count: u64, min_ns: i64,
        max_ns: i64, rank_count: u32, max_rank: u32, max_rank_ns: i64, main_op: Option<Text>, main_op_ns: Option<i64>,
        main_input_dims: Option<Text>, work_ns: i64, bytes: Option<u64>, tflops_per_s: Option<f64>,
        tb_per_s: Option<f64>, flops_per_byte: Option<f64>, roofline_pct: Option<f64>, bound: Option<Text>,
    }
}

/// Which roof limits a kernel, or why that cannot be told.
fn roof<'a>(r: &Kernel<'a>) -> Option<&'a str> {
    match (r.bound, r.class) {
        (Some(bound), _) => Some(bound),
        (None, "compute") if r.work_ns == 0 => Some("cannot tell: operations unknown"),
        (None, "compute") if r.bytes.is_none() => Some("cannot tell: bytes unknown"),
        (None, "compute") => Some("cannot tell: device unknown"),
        (None, _) => None,
    }
}

/// The section.
///
/// # Errors
/// When the table is damaged.
pub(crate) fn section(results: &Results, texts: &mut Texts) -> Result<Section, ResultsError> {
    let mut grid = Grid::new(
        "kernels_over_ranks",
        &[
            ("category", "category", CellType::Text, "what it does; `hta explain kernels`"),
            ("class", "class", CellType::Text, "compute, communication or memory; `hta explain rules`"),
            ("short", "kernel", CellType::Text, "short name; `hta explain kernels`"),
            ("name", "full name", CellType::Text, "full name"),
            ("sum_ns", "time", CellType::Ns, "sum of durations over all ranks; concurrent ones count twice"),
            ("count", "count", CellType::Count, "how often, over all ranks"),
            ("op", "operator", CellType::Text, "operator that launched most of its time"),
            ("op_share", "by it", CellType::Ratio, "part of the time that this operator launched, at least"),
            (
                "input_dims",
                "shapes",
                CellType::Text,
                "shapes of the operator's inputs in most of that time, where recorded",
            ),
            (
                "intensity",
                "FLOP/byte",
                CellType::Number,
                "operations per byte of compulsory traffic, where known",
            ),
            (
                "tflops_per_s",
                "TFLOP/s",
                CellType::Number,
                "operations over the time of the kernels that do them",
            ),
            ("tb_per_s", "TB/s", CellType::Number, "compulsory traffic over the same"),
            (
                "attainable",
                "of attainable",
                CellType::Ratio,
                "of what the device can do at this intensity; above 100 %: operations are overestimated",
            ),
            (
                "roof",
                "roof",
                CellType::Text,
                "what limits it: compute, memory, or latency where it is short and far from both",
            ),
            ("ranks", "ranks", CellType::Count, "ranks that have it"),
            ("most_ns", "largest", CellType::Ns, "sum on the rank with most of it"),
            ("most_rank", "on rank", CellType::Id, "that rank"),
            ("min_ns", "shortest", CellType::Ns, "shortest of all"),
            ("max_ns", "longest", CellType::Ns, "longest of all"),
        ],
    );
    let there = results.read::<Kernel>(|r| {
        if r.scope != "span" {
            return;
        }
        grid.list(MOST_NAMES, [r.sum_ns, r.count as i64], || {
            let behind = vec![
                texts.of(r.main_op),
                r.main_op_ns.and_then(|ns| ratio(ns, r.sum_ns)).into(),
                texts.of(r.main_input_dims),
                r.flops_per_byte.filter(|v| *v > 0.0).into(),
                r.tflops_per_s.filter(|v| *v > 0.0).into(),
                r.tb_per_s.into(),
                r.roofline_pct.map(|pct| pct / 100.0).into(),
                texts.of(roof(&r)),
                r.rank_count.into(),
                r.max_rank_ns.into(),
                r.max_rank.into(),
                r.min_ns.into(),
                r.max_ns.into(),
            ];
            ([r.category, r.class, r.short_name, r.name].map(|text| texts.cell(text)), behind)
        });
    })?;
    if grid.len() == 0 {
        let cpu = "No kernels were recorded: a CPU-only job, or a capture without device activity.";
        return Ok(Section::without(if there { cpu.to_string() } else { missing("kernels_over_ranks") }));
    }
    Ok(Section::default().with("kernels", grid).with("categories", work::categories(results, texts)?))
}
