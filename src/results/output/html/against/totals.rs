//! What two runs are: folders, versions, devices, and totals.

use crate::output::html::against::figure::{Better, FigureName, figures, push};
use crate::output::html::grid::Grid;
use crate::output::html::texts::Texts;
use crate::results::{Results, ResultsError, columns};
use hta_analysis::inventory;
use hta_base::table;
use hta_base::table::compare::ComparedFigure;
use hta_base::table::schema::Text;
use hta_base::wording::ranks::rank_list;
use std::collections::BTreeSet;

columns! {
    Rank of inventory::Ranks {
        rank, world_size: Option<u32>, device_name: Option<Text>, step_count: u32, first_ts_ns: i64, last_ts_ns: i64,
        event_count: u64, activity_count: u64, gpu_sum_ns: i64, unpacked_bytes: u64,
    }
}

table! {
    /// The two runs, this one first.
    struct ComparedRuns, ComparedRunRow = "runs" by "run" {
        run: Text, "", "this run, or the baseline";
        folder: Text, "", "results folder";
        version: Text, "", "version of hta that analysed it", "hta";
        rank_list: Text, "", "its ranks", "ranks";
        devices: Text, "", "names of its devices";
    }
}

/// The totals of one run.
#[derive(Default)]
struct RunTotals {
    ranks: Vec<u32>,
    world: Option<u32>,
    devices: BTreeSet<String>,
    steps: u64,
    events: u64,
    activities: u64,
    gpu_ns: i64,
    bytes: u64,
    longest_ns: i64,
}

fn totals(results: &Results) -> Result<RunTotals, ResultsError> {
    let mut all = RunTotals::default();
    results.read::<Rank>(|r| {
        all.ranks.push(r.rank);
        all.world = all.world.max(r.world_size);
        all.devices.extend(r.device_name.map(str::to_string));
        all.steps += u64::from(r.step_count);
        all.events += r.event_count;
        all.activities += r.activity_count;
        all.gpu_ns += r.gpu_sum_ns;
        all.bytes += r.unpacked_bytes;
        all.longest_ns = all.longest_ns.max(r.last_ts_ns - r.first_ts_ns);
    })?;
    Ok(all)
}

/// A grid of both runs, this one first, and one of their totals.
///
/// # Errors
/// When a table is damaged.
pub(crate) fn runs(both: [(&Results, &str); 2], texts: &mut Texts) -> Result<(Grid, Grid), ResultsError> {
    let mut runs = Grid::of_tables("ranks", &[ComparedRuns::SPEC]);
    let mut found = Vec::new();
    for ((results, folder), run) in both.iter().zip(["this run", "baseline"]) {
        let of = totals(results)?;
        let devices: Vec<&str> = of.devices.iter().map(String::as_str).collect();
        runs.push([
            texts.cell(run),
            texts.cell(folder),
            texts.cell(&results.summary()?.hta_version),
            texts.cell(&rank_list(&of.ranks)),
            texts.cell(&devices.join(", ")),
        ]);
        found.push(of);
    }
    let mut grid = figures("ranks");
    let [this, base] = found.as_slice() else { return Ok((runs, grid)) };
    let mut add = |name: &str, unit: &'static str, of: &dyn Fn(&RunTotals) -> Option<f64>| {
        let what = FigureName { group: "", name, unit, better: Better::Neither };
        push(&mut grid, texts, what, &ComparedFigure::known(of(base), of(this), None));
    };
    add("ranks", "count", &|t| Some(t.ranks.len() as f64));
    add("ranks of the job", "count", &|t| t.world.map(f64::from));
    add("steps, over all ranks", "count", &|t| Some(t.steps as f64));
    add("events", "count", &|t| Some(t.events as f64));
    add("GPU activities", "count", &|t| Some(t.activities as f64));
    add("GPU time, summed", "ns", &|t| Some(t.gpu_ns as f64));
    add("recorded, longest rank", "ns", &|t| Some(t.longest_ns as f64));
    add("size of the traces", "bytes", &|t| Some(t.bytes as f64));
    Ok((runs, grid))
}
