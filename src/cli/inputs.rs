//! `hta inputs`: the files that a command would read, with the rank and the size of each. Only the heads of
//! the files are read, so it answers at once however long the traces are.

use crate::cli::exit::Exit;
use crate::cli::output::{print, width};
use crate::cli::ranks::RanksArg;
use crate::cli::traces::TracePaths;
use clap::{Args, ValueEnum};
use hta_analysis::printed::{number, text};
use hta_base::units::fmt_bytes;
use hta_base::wording::counts::plural;
use hta_read::files::Stores;
use hta_results::output::columns::grid;
use hta_results::output::visible;
use hta_results::run::{RankClaims, Refused, stored_size};
use serde::Serialize;

#[derive(Debug, Args)]
pub struct InputsArgs {
    #[command(flatten)]
    paths: TracePaths,
    #[command(flatten)]
    ranks: RanksArg,
    /// Output format
    #[arg(long, value_enum, default_value_t = ListFormat::Text)]
    format: ListFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ListFormat {
    Text,
    Json,
}

pub const AFTER_HELP: &str = "In JSON, a list with an object per file: `file`, `rank` and `rank_source` \
(file, name or position), `bytes` on disk, and `error` for a file that cannot be used. A file may tell \
another rank behind its events; `hta analyze` then takes that one.";

/// A file of the job.
#[derive(Debug, Serialize)]
struct InputRow {
    file: String,
    rank: Option<u32>,
    rank_source: Option<&'static str>,
    bytes: u64,
    error: Option<String>,
}

pub fn run(args: &InputsArgs, stores: &Stores) -> anyhow::Result<Exit> {
    let traces = args.paths.find(stores)?;
    let inputs = &traces.inputs;
    let claims = RankClaims::peek(inputs);
    let mut rows = Vec::new();
    for task in claims.tasks(inputs, &args.ranks.ranges(inputs)?)? {
        let Some(input) = inputs.get(task.input) else { continue };
        let (rank, rank_source) = (Some(task.rank), Some(task.source.name()));
        rows.push(InputRow {
            file: input.shown.clone(),
            rank,
            rank_source,
            bytes: stored_size(input),
            error: None,
        });
    }
    let rank_count = rows.len();
    let mut has_loss = false;
    for (input, error) in inputs.iter().zip(&claims.refused) {
        let Some(error) = error else { continue };
        let refused = Refused { input: input.clone(), error: error.clone() };
        has_loss |= refused.is_loss();
        let (file, bytes) = (input.shown.clone(), stored_size(input));
        rows.push(InputRow {
            file,
            rank: None,
            rank_source: None,
            bytes,
            error: Some(refused.error.to_string()),
        });
    }
    let text = match args.format {
        ListFormat::Json => {
            let text = serde_json::to_string_pretty(&rows)? + "\n";
            visible::json(&text).into_owned()
        }
        ListFormat::Text => visible::lines(&listing(&rows, rank_count)).into_owned(),
    };
    print(text.as_bytes())?;
    Ok(if rank_count == 0 { Exit::Nothing } else { Exit::of_loss(has_loss) })
}

fn listing(rows: &[InputRow], rank_count: usize) -> String {
    let columns = [number("rank"), text("from"), number("size"), text("file")];
    let ranked = rows.iter().filter_map(|row| {
        let (rank, source) = (row.rank?, row.rank_source?);
        Some(vec![rank.to_string(), source.to_string(), fmt_bytes(row.bytes), row.file.clone()])
    });
    let mut out = grid(&columns, &ranked.collect::<Vec<_>>(), &[], width());
    for error in rows.iter().filter_map(|row| row.error.as_ref()) {
        out.push_str(&format!("{error}\n"));
    }
    let bytes = rows.iter().filter(|row| row.rank.is_some()).map(|row| row.bytes).sum();
    out.push_str(&format!("{}, {}\n", plural(rank_count, "rank"), fmt_bytes(bytes)));
    out
}
