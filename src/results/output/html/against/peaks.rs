//! Peaks of memory of two runs.

use crate::output::html::against::figure::{Better, FigureName, HEADINGS, RunFigure, Unit, push};
use crate::output::html::axis::PageStep;
use crate::output::html::grid::Grid;
use crate::output::html::texts::Texts;
use crate::results::{Results, ResultsError, columns};
use hta_analysis::memory::tables::MemoryPeaks;
use hta_base::table::schema::Text;
use std::collections::{BTreeMap, BTreeSet};

columns! {
    Peak of MemoryPeaks {
        device_type: Text, source: Text, scope: Text, step, step_label, peak_bytes: i64, is_relative: bool,
        reserved_bytes: Option<i64>,
    }
}

/// Peaks of the devices of one type, as one source has them.
#[derive(Default)]
struct PeaksOfType {
    highest: Option<i64>,
    reserved: Option<i64>,
    by_step: BTreeMap<PageStep, i64>,
    windows: BTreeMap<PageStep, u64>,
    is_relative: bool,
}

type ByKind = BTreeMap<(String, String), PeaksOfType>;

fn peaks(results: &Results) -> Result<ByKind, ResultsError> {
    let mut all = ByKind::new();
    results.read::<Peak>(|r| {
        // Vendors have names of their own for their devices.
        let device = if r.device_type == "cpu" { "host" } else { "GPU" };
        let of = all.entry((device.to_string(), r.source.to_string())).or_default();
        of.is_relative |= r.is_relative;
        if r.scope == "capture" {
            of.highest = of.highest.max(Some(r.peak_bytes));
            of.reserved = of.reserved.max(r.reserved_bytes);
        } else if let Some(step) = PageStep::new(r.step, r.step_label) {
            *of.by_step.entry(step).or_default() += r.peak_bytes;
            *of.windows.entry(step).or_default() += 1;
        }
    })?;
    Ok(all)
}

/// # Errors
/// When a table is damaged.
pub(crate) fn memory(this: &Results, base: &Results, texts: &mut Texts) -> Result<Grid, ResultsError> {
    let mut grid = Grid::new("memory_peaks", &HEADINGS);
    let (this, base) = (peaks(this)?, peaks(base)?);
    let kinds: BTreeSet<&(String, String)> = this.keys().chain(base.keys()).collect();
    for kind @ (device, source) in kinds {
        let both = [this.get(kind), base.get(kind)];
        let relative = both.iter().flatten().any(|of| of.is_relative);
        let above = if relative { ", above what was held at the start" } else { "" };
        let whole = format!("peak of {device} memory ({source}){above}");
        let named = |group, name| FigureName { group, name, unit: Unit::Bytes, better: Better::Less };
        let pair = |of: &dyn Fn(&PeaksOfType) -> RunFigure| {
            both.map(|side| side.map_or(RunFigure::of_run(None), of))
        };
        let run = |bytes: Option<i64>| RunFigure::of_run(bytes.map(|b| b as f64));
        let [a, b] = pair(&|of| run(of.highest));
        push(&mut grid, texts, named("", &whole), a, b);
        let [a, b] = pair(&|of| run(of.reserved));
        push(&mut grid, texts, named(&whole, "reserved at that moment"), a, b);
        let [a, b] = pair(&|of| RunFigure::mean(&of.by_step, &of.windows));
        push(&mut grid, texts, named(&whole, "mean of the peaks of steps"), a, b);
    }
    Ok(grid)
}
