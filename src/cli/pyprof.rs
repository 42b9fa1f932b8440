//! `hta export pyprof`: kernels with PyProf's columns, in its formats.

use crate::cli::args::TraceArgs;
use crate::cli::exit::Exit;
use crate::cli::kept_rows::KeptRows;
use crate::cli::output::{note, print, warn};
use crate::cli::progress::Bar;
use clap::{Args, ValueEnum};
use hta_analysis::api::{Analysis, Wanted};
use hta_analysis::filters;
use hta_base::table::schema::Table;
use hta_compat::pyprof::columns::{DEFAULT, Widths, chosen, csv_header, csv_line};
use hta_compat::pyprof::{Labels, PyProf, PyProfTable};
use hta_read::error::SetError;
use hta_read::files::Stores;
use hta_results::output::{text, visible};
use hta_results::run::{Request, run as run_pipeline};

pub const AFTER_HELP: &str = "\
Examples:
  hta export pyprof rank_0.json.gz --csv --cols kernel,mod,op,dir,sil,tc,flops,bytes > net.csv
  hta export pyprof rank_0.json.gz -w 150
  hta export pyprof net.sql --labels pyprof --csv

`hta explain pyprof` says what the columns mean, and where they differ from PyProf's.";

#[derive(Debug, Args)]
pub struct PyProfArgs {
    #[command(flatten)]
    traces: TraceArgs,
    /// Columns, joined by commas: idx, seq, altseq, tid, layer, trace, dir, sub, mod, op, kernel, params,
    /// sil, tc, device, stream, grid, block, flops, bytes
    #[arg(long, value_name = "LIST", default_value = DEFAULT)]
    cols: String,
    /// How operators are named
    #[arg(long, value_name = "WHOSE", value_enum, default_value_t = Whose::Hta)]
    labels: Whose,
    /// Print comma-separated values
    #[arg(long)]
    csv: bool,
    /// Width of a line [default: nothing is cut]
    #[arg(short, value_name = "WIDTH")]
    width: Option<usize>,
}

/// Whose rules name operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Whose {
    /// The innermost operator, and the direction from all that is known
    Hta,
    /// The outermost call that PyProf marked, and the direction from names alone
    Pyprof,
}

pub fn run(args: &PyProfArgs, stores: &Stores) -> anyhow::Result<Exit> {
    let refused =
        |option: &'static str, value: String, reason: String| SetError::Argument { option, value, reason };
    let columns = chosen(&args.cols).map_err(|name| {
        refused("--cols", name, "no column of PyProf; `hta explain pyprof` lists them".to_string())
    })?;
    let width = args.width.filter(|w| *w > 0);
    let widths = Widths::new(&columns, width).map_err(|least| {
        refused("-w", width.unwrap_or(0).to_string(), format!("expected at least {least} for these columns"))
    })?;
    let common = &args.traces.common;
    common.compat(&[])?;
    let mut options = args.traces.options(stores)?;
    options.wanted = Wanted::Only(PyProfTable::SPEC.name);
    let traces = args.traces.traces(stores)?;
    let analysis: &'static dyn Analysis = match args.labels {
        Whose::Hta => &PyProf(Labels::Hta),
        Whose::Pyprof => &PyProf(Labels::Pyprof),
    };
    let analyses = [analysis];
    filters::refuse_unused(&analyses, &options)?;
    let ranks = common.ranks.ranges(&traces.inputs)?;
    let request = Request {
        inputs: &traces.inputs,
        analyses: &analyses,
        options: &options,
        load: common.load(true, false),
        ranks: &ranks,
    };
    let kept = KeptRows::of(PyProfTable::SPEC);
    let outcome = common.threads.run(|| run_pipeline(&request, &kept, &Bar::default()))??;
    warn(&outcome.refused);
    if common.strict.refuses_loss(outcome.has_loss()) {
        return Ok(Exit::Nothing);
    }
    let mut out = if args.csv { csv_header(&columns) } else { widths.header(&columns) };
    for batch in kept.take() {
        for row in PyProfTable::rows(&batch) {
            out.push_str(&if args.csv { csv_line(&row, &columns) } else { widths.row(&row, &columns) });
        }
    }
    print(visible::lines(&out).as_bytes())?;
    text::loss_lines(&outcome).iter().for_each(|line| note(line));
    Ok(Exit::of_loss(outcome.has_loss()))
}
