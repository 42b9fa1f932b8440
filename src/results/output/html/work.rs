//! What kernels and operators do and how far they are from what the device can do: categories, the roofline,
//! and the utilization of each device.

use crate::output::html::grid::{Cell, CellType, Grid};
use crate::output::html::texts::Texts;
use crate::results::{Results, ResultsError, columns};
use hta_analysis::kernels::CategoriesOverRanks;
use hta_analysis::ops::mfu::Mfu;
use hta_analysis::ops::over_ranks::OperatorsOverRanks;
use hta_base::table::schema::Text;
use std::collections::BTreeMap;

/// Largest number of operators in the roofline.
const MOST: usize = 400;

columns! {
    Category of CategoriesOverRanks { scope, category: Text, count: u64, sum_ns: i64, rank_count: u32 }
}

columns! {
    Worked of OperatorsOverRanks {
        scope, name: Text, work_busy_ns: i64, work_count: u64, tflops_per_s: Option<f64>, tb_per_s: Option<f64>,
        flops_per_byte: Option<f64>, roofline_pct: Option<f64>, bound: Option<Text>,
    }
}

columns! {
    Utilization of Mfu {
        rank, device, scope, device_name: Option<Text>, number: Option<Text>, peak_tflops_per_s: Option<f64>,
        peak_tb_per_s: Option<f64>, dur_ns, matrix_flops: u64, matrix_busy_ns: i64, mfu_pct: Option<f64>,
        hfu_pct: Option<f64>, coverage_pct: Option<f64>,
    }
}

/// GPU time by what kernels do, over all ranks.
///
/// # Errors
/// When the table is damaged.
pub(crate) fn categories(results: &Results, texts: &mut Texts) -> Result<Grid, ResultsError> {
    let mut grid = Grid::new(
        "kernel_categories_over_ranks",
        &[
            ("category", "category", CellType::Text, "what the kernels do; `hta explain kernels`"),
            ("sum_ns", "time", CellType::Ns, "sum of durations over all ranks; concurrent ones count twice"),
            ("count", "count", CellType::Count, "kernels, copies and sets"),
            ("ranks", "ranks", CellType::Count, "ranks that have them"),
        ],
    );
    results.read::<Category>(|r| {
        if r.scope == "span" {
            let name = texts.cell(&r.category.replace('_', " "));
            grid.push([name, r.sum_ns.into(), r.count.into(), r.rank_count.into()]);
        }
    })?;
    Ok(grid)
}

/// Operators with known operations and bytes: how many operations per byte, and how fast.
///
/// # Errors
/// When the table is damaged.
pub(crate) fn roofline(results: &Results, texts: &mut Texts) -> Result<Grid, ResultsError> {
    let mut rows: Vec<(i64, String, [Cell; 5], String)> = Vec::new();
    results.read::<Worked>(|r| {
        let is_known = r.scope == "capture" && r.work_busy_ns > 0;
        if let Some(intensity) = r.flops_per_byte.filter(|_| is_known) {
            let count = r.work_count.into();
            let attainable = r.roofline_pct.map(|pct| pct / 100.0).into();
            let cells = [count, intensity.into(), r.tflops_per_s.into(), r.tb_per_s.into(), attainable];
            rows.push((r.work_busy_ns, r.name.to_string(), cells, r.bound.unwrap_or_default().to_string()));
        }
    })?;
    let mut grid = Grid::new(
        "operators_over_ranks",
        &[
            ("name", "operator", CellType::Text, "operator"),
            ("busy_ns", "GPU time", CellType::Ns, "union of its own GPU work, over all ranks"),
            ("count", "count", CellType::Count, "calls with known work"),
            ("intensity", "FLOP/byte", CellType::Number, "operations per byte of compulsory traffic"),
            ("tflops_per_s", "TFLOP/s", CellType::Number, "operations over GPU time"),
            ("tb_per_s", "TB/s", CellType::Number, "compulsory traffic over GPU time"),
            ("attainable", "of attainable", CellType::Ratio, "of what the device can do at this intensity"),
            ("bound", "bound", CellType::Text, "compute, memory or latency"),
        ],
    );
    rows.sort_by(|a, b| (b.0, &a.1).cmp(&(a.0, &b.1)));
    let left = rows.len().saturating_sub(MOST);
    for (busy, name, cells, bound) in rows.into_iter().take(MOST) {
        let ends = (texts.cell(&name), texts.cell(&bound));
        grid.push([ends.0, busy.into()].into_iter().chain(cells).chain([ends.1]));
    }
    grid.leave_out(left, Vec::new());
    Ok(grid)
}

/// The utilization of each device, over its steps, or its span without steps.
///
/// # Errors
/// When the table is damaged.
pub(crate) fn utilization(results: &Results, texts: &mut Texts) -> Result<Grid, ResultsError> {
    #[derive(Default)]
    struct RooflineDevice {
        name: String,
        number: String,
        peaks: [Option<f64>; 2],
        dur: i64,
        flops: f64,
        busy: i64,
        used: f64,
        used_with_again: f64,
        covered: f64,
    }
    let mut all: BTreeMap<(bool, u32, Option<i64>), RooflineDevice> = BTreeMap::new();
    results.read::<Utilization>(|r| {
        if r.matrix_flops == 0 || !matches!(r.scope, "step" | "span") {
            return;
        }
        let device = all.entry((r.scope == "step", r.rank, r.device)).or_default();
        device.name = r.device_name.unwrap_or_default().to_string();
        device.number = r.number.unwrap_or_default().to_string();
        device.peaks = [r.peak_tflops_per_s, r.peak_tb_per_s];
        device.dur += r.dur_ns;
        device.flops += r.matrix_flops as f64;
        device.busy += r.matrix_busy_ns;
        device.used += r.mfu_pct.unwrap_or(f64::NAN) / 100.0 * r.dur_ns as f64;
        device.used_with_again += r.hfu_pct.unwrap_or(f64::NAN) / 100.0 * r.dur_ns as f64;
        device.covered += r.coverage_pct.unwrap_or(f64::NAN) / 100.0 * r.dur_ns as f64;
    })?;
    let has_steps = all.keys().any(|(is_step, ..)| *is_step);
    let mut grid = Grid::new(
        "mfu",
        &[
            ("rank", "rank", CellType::Id, "rank"),
            ("device", "device", CellType::Id, "device index"),
            (
                "device_name",
                "product",
                CellType::Text,
                "product whose peaks are used; empty if the device is not known",
            ),
            ("number", "number", CellType::Text, "number type with most of the operations"),
            ("peak_tflops_per_s", "peak TFLOP/s", CellType::Number, "dense peak for that type"),
            ("peak_tb_per_s", "peak TB/s", CellType::Number, "peak bandwidth of the device's memory"),
            (
                "tflops_per_s",
                "TFLOP/s",
                CellType::Number,
                "rate while products, convolutions and attention run",
            ),
            ("mfu", "MFU", CellType::Ratio, "model FLOPs utilization over the steps, idle time included"),
            ("hfu", "HFU", CellType::Ratio, "the same with what is recomputed for the backward pass"),
            (
                "coverage",
                "coverage",
                CellType::Ratio,
                "of the matrix kernels' time with known operations; below 90 % the MFU is a lower bound",
            ),
        ],
    );
    for ((_, rank, device), d) in all.into_iter().filter(|((is_step, ..), _)| *is_step == has_steps) {
        let dur = d.dur.max(1) as f64;
        grid.push([
            rank.into(),
            device.into(),
            texts.cell(&d.name),
            texts.cell(&d.number),
            d.peaks[0].into(),
            d.peaks[1].into(),
            (d.flops / d.busy as f64 / 1e3).into(),
            (d.used / dur).into(),
            (d.used_with_again / dur).into(),
            (d.covered / dur).into(),
        ]);
    }
    Ok(grid)
}
