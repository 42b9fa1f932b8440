//! Peaks of memory of two runs.

use crate::output::html::against::figure::{Better, FigureName, figures, push};
use crate::output::html::grid::Grid;
use crate::output::html::texts::Texts;
use crate::results::{Results, ResultsError};
use hta_analysis::memory::tables::MemoryPeaks;
use hta_base::table::compare::{Comparison, FigureRole, FigureSpec};
use hta_base::table::value::Value;

/// The peaks of the devices of one type, as one source has them.
const PEAKS: Comparison = Comparison {
    by: &["device_type", "source"],
    key: of_any_vendor,
    figures: &[
        FigureSpec { column: "peak_bytes", scope: "capture", role: FigureRole::Max },
        FigureSpec { column: "reserved_bytes", scope: "capture", role: FigureRole::Max },
        FigureSpec { column: "peak_bytes", scope: "step", role: FigureRole::Mean },
        FigureSpec { column: "is_relative", scope: "", role: FigureRole::Max },
    ],
    ..Comparison::of(MemoryPeaks::SPEC)
};

/// Vendors have names of their own for their devices.
fn of_any_vendor(mut key: Vec<Value>) -> Vec<Value> {
    for device in key.iter_mut().take(1) {
        *device = Value::Text(if device.text() == Some("cpu") { "host" } else { "GPU" }.into());
    }
    key
}

/// # Errors
/// When a table is damaged.
pub(crate) fn memory(this: &Results, base: &Results, texts: &mut Texts) -> Result<Grid, ResultsError> {
    let mut grid = figures("memory_peaks");
    for row in PEAKS.rows(base, this).map_err(ResultsError::of_view)? {
        let ([device, source], [peak, reserved, mean, relative]) = (&row.key[..], &row.figures[..]) else {
            continue;
        };
        let is_relative = relative.base > Some(0.0) || relative.test > Some(0.0);
        let above = if is_relative { ", above what was held at the start" } else { "" };
        let [device, source] = [device, source].map(|of| of.text().unwrap_or_default());
        let whole = format!("peak of {device} memory ({source}){above}");
        for (group, name, figure) in [
            ("", whole.as_str(), peak),
            (&whole, "reserved at that moment", reserved),
            (&whole, "mean of the peaks of steps", mean),
        ] {
            let what = FigureName { group, name, unit: "bytes", better: Better::Less };
            push(&mut grid, texts, what, figure);
        }
    }
    Ok(grid)
}
