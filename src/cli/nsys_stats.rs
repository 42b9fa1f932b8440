//! `hta export nsys-stats`: the reports of NVIDIA's `nsys stats`, as text or with its columns as CSV.

use crate::cli::args::TraceArgs;
use crate::cli::exit::Exit;
use crate::cli::kept_rows::KeptRows;
use crate::cli::output::{note, print, warn, width};
use crate::cli::progress::Bar;
use crate::cli::table::CsvArgs;
use clap::{Args, ValueEnum};
use hta_analysis::api::Analysis;
use hta_analysis::filters;
use hta_analysis::printed::{PrintedColumn, View};
use hta_base::wording::counts::plural;
use hta_compat::nsys::{NsysEvents, REPORTS, Report, find};
use hta_read::error::SetError;
use hta_read::files::Stores;
use hta_read::options::LoadOptions;
use hta_results::output::columns::set;
use hta_results::output::json::csv_lines;
use hta_results::output::{text, visible};
use hta_results::run::{Request, run as run_pipeline};

#[derive(Debug, Args)]
pub struct NsysStatsArgs {
    /// Name of a report, as in `nsys stats --report`
    #[arg(value_name = "REPORT")]
    report: String,
    /// Columns that fit the terminal, or all columns and rows as comma-separated values with NVIDIA's
    /// headings
    #[arg(long, value_enum, default_value_t = StatsFormat::Text)]
    format: StatsFormat,
    #[command(flatten)]
    csv: CsvArgs,
    #[command(flatten)]
    traces: TraceArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StatsFormat {
    Text,
    Csv,
}

/// The reports with a line each, and examples.
pub fn after_help() -> String {
    let longest = REPORTS.iter().map(|r| r.name.len()).max().unwrap_or(0);
    let lines: Vec<String> = REPORTS.iter().map(|r| format!("  {:<longest$}  {}", r.name, r.about)).collect();
    format!(
        "Reports:\n{}\n\nExamples:\n  hta export nsys-stats cuda_gpu_kern_sum rank_0.json.gz\n  \
         hta export nsys-stats cuda_kern_exec_sum report.sqlite --format csv > exec.csv\n\n\
         `hta explain nsys-stats` says how they are computed, and where they differ from NVIDIA's.",
        lines.join("\n")
    )
}

fn chosen(name: &str) -> Result<&'static Report, SetError> {
    find(name).ok_or_else(|| {
        let names: Vec<&str> = REPORTS.iter().map(|r| r.name).collect();
        let reason = format!("expected one of {}", names.join(", "));
        SetError::Argument { option: "REPORT", value: name.to_string(), reason }
    })
}

pub fn run(args: &NsysStatsArgs, stores: &Stores) -> anyhow::Result<Exit> {
    let report = chosen(&args.report)?;
    let analyses: [&'static dyn Analysis; 1] = [report];
    let options = args.traces.options(stores)?;
    let common = &args.traces.common;
    common.compat(&analyses)?;
    filters::refuse_unused(&analyses, &options)?;
    let traces = args.traces.traces(stores)?;
    let ranks = common.ranks.ranges(&traces.inputs)?;
    let request = Request {
        inputs: &traces.inputs,
        analyses: &analyses,
        options: &options,
        load: LoadOptions { whole_range_texts: true, skip_python: true, ..common.load(true, false) },
        ranks: &ranks,
    };
    let kept = KeptRows::of(NsysEvents::SPEC);
    let outcome = common.threads.run(|| run_pipeline(&request, &kept, &Bar::default()))??;
    warn(&outcome.refused);
    if common.strict.refuses_loss(outcome.has_loss()) {
        return Ok(Exit::Nothing);
    }
    let summed = outcome.outputs.iter().find_map(|(_, output)| output.views.first());
    let view = report.listing(&kept.take()).or_else(|| summed.cloned());
    if let Some(view) = view {
        let out = match args.format {
            StatsFormat::Csv => {
                let names: Vec<&str> = view.columns.iter().map(|c| c.heading).collect();
                csv_lines(&names, &view.rows, args.csv.style(None))
            }
            StatsFormat::Text => visible::lines(&shown(view, width(), options.top)).into_owned(),
        };
        print(out.as_bytes())?;
    }
    text::loss_lines(&outcome).iter().for_each(|line| note(line));
    Ok(Exit::of_loss(outcome.has_loss()))
}

/// What a line that is too short loses first: parts of the headings.
const FIRST_TO_GO: [&str; 20] = [
    "StdDev",
    "T-Pri",
    "SMem",
    "GreenCtx",
    "Med (",
    "Min (",
    "Max (",
    "Med",
    "Thread Name",
    "Corr",
    "Blk",
    "Grd",
    "Ctx",
    "Context",
    "PID",
    "Pid",
    "TID",
    "Tid",
    "DevId",
    "Avg",
];

/// Room that a text of the last column needs to be recognised, and one of another column, characters.
const ROOM: [usize; 2] = [24, 16];

/// Characters that the columns need at least, with two blanks between them.
fn least_width(view: &View) -> usize {
    let last = view.columns.len().saturating_sub(1);
    let of = |(i, column): (usize, &PrintedColumn)| {
        let cells = view.rows.iter().filter_map(|r| r.get(i)).map(String::as_str);
        let widest = cells.chain([column.heading]).map(|c| c.chars().count()).max().unwrap_or(0);
        match (column.is_number, i == last) {
            (true, _) => widest,
            (false, true) => widest.min(ROOM[0]),
            (false, false) => widest.min(ROOM[1]),
        }
    };
    view.columns.iter().enumerate().map(of).sum::<usize>() + 2 * last
}

/// The first rows, with as many columns as fit.
fn shown(mut view: View, width: usize, top: usize) -> String {
    let (rows, columns) = (view.rows.len(), view.columns.len());
    if rows == 0 {
        return "no rows\n".to_string();
    }
    view.rows.truncate(top);
    while view.columns.len() > 2 && least_width(&view) > width {
        let empty = (0..view.columns.len())
            .rfind(|i: &usize| view.rows.iter().all(|r| r.get(*i).is_none_or(String::is_empty)));
        let by_name =
            || FIRST_TO_GO.iter().find_map(|part| view.columns.iter().position(|c| c.heading.contains(part)));
        let last_number = || view.columns.iter().rposition(|c| c.is_number);
        let Some(at) = empty.or_else(by_name).or_else(last_number) else { break };
        view.columns.remove(at);
        view.rows.iter_mut().filter(|r| at < r.len()).for_each(|r| drop(r.remove(at)));
    }
    let gone = columns - view.columns.len();
    if gone > 0 {
        view.notes.push(format!("{} left out, which --format csv has", plural(gone, "column")));
    }
    if rows > view.rows.len() {
        view.notes.push(format!("{} left out (--top, --format csv)", plural(rows - view.rows.len(), "row")));
    }
    set(&view, width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hta_analysis::printed::{number, text};

    #[test]
    fn a_short_line_keeps_the_columns_that_matter() {
        let headings = ["Time (%)", "Total Time (ns)", "Med (ns)", "StdDev (ns)"];
        let mut columns = headings.map(number).to_vec();
        columns.push(text("Name"));
        let row = |n: usize| {
            ["1.0", "10", "2.0", "0.0"].map(str::to_string).into_iter().chain([format!("k{n}")]).collect()
        };
        let view = View { title: String::new(), columns, rows: (0..3).map(row).collect(), notes: Vec::new() };
        let all = shown(view.clone(), 80, 16);
        assert!(headings.iter().all(|h| all.contains(h)) && all.lines().count() == 4, "{all}");
        let some = shown(view, 44, 2);
        let header = some.lines().next().unwrap();
        assert!(header.contains("Total Time (ns)  Med (ns)") && !header.contains("StdDev"), "{some}");
        assert!(some.contains("1 column left out") && some.contains("1 row left out"), "{some}");
        assert!(some.lines().all(|l| l.chars().count() <= 44), "{some}");
    }

    #[test]
    fn an_unknown_report_is_refused_with_the_known_ones() {
        let error = chosen("gpu_sum").map(|r| r.name).unwrap_err().to_string();
        assert!(error.contains("`gpu_sum`") && error.contains("cuda_gpu_sum, cuda_api_gpu_sum"), "{error}");
    }
}
