//! The utilization of each device.

use crate::output::html::grid::Grid;
use crate::output::html::texts::Texts;
use crate::results::{Results, ResultsError, columns};
use hta_analysis::ops::mfu::Mfu;
use hta_base::table;
use hta_base::table::schema::Text;
use std::collections::BTreeMap;

columns! {
    Utilization of Mfu {
        rank, device, scope, device_name: Option<Text>, number: Option<Text>, peak_tflops_per_s: Option<f64>,
        peak_tb_per_s: Option<f64>, dur_ns, matrix_flops: u64, matrix_busy_ns: i64, mfu_pct: Option<f64>,
        hfu_pct: Option<f64>, coverage_pct: Option<f64>,
    }
}

table! {
    /// The utilization of each device.
    struct DeviceUse, DeviceUseRow = "mfu" by "rank, device" {
        rank;
        device: Option<i64>, "", "device index";
        device_name: Text, "", "product whose peaks are used; empty if the device is not known", "product";
        number: Text, "", "number type with most of the operations";
        peak_tflops_per_s: Option<f64>, "", "dense peak for that type";
        peak_tb_per_s: Option<f64>, "", "peak bandwidth of the device's memory";
        tflops_per_s: f64, "", "rate while products, convolutions and attention run";
        mfu: f64, "share", "model FLOPs utilization over the steps, idle time included", "MFU";
        hfu: f64, "share", "the same with what is recomputed for the backward pass", "HFU";
        coverage: f64, "share",
            "of the matrix kernels' time with known operations; below 90 % the MFU is a lower bound";
    }
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
    let mut devices = DeviceUse::default();
    for ((_, rank, device), d) in all.into_iter().filter(|((is_step, ..), _)| *is_step == has_steps) {
        let dur = d.dur.max(1) as f64;
        devices.push(DeviceUseRow {
            rank,
            device,
            device_name: &d.name,
            number: &d.number,
            peak_tflops_per_s: d.peaks[0],
            peak_tb_per_s: d.peaks[1],
            tflops_per_s: d.flops / d.busy as f64 / 1e3,
            mfu: d.used / dur,
            hfu: d.used_with_again / dur,
            coverage: d.covered / dur,
        });
    }
    Ok(texts.grid(devices))
}
