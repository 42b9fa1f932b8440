//! `hta merge`: reduces partials of `hta analyze --partial` to the same results as one run over all files.

use crate::cli::exit::Exit;
use crate::cli::results::ResultsArgs;
use crate::cli::strict::StrictArg;
use crate::cli::threads::ThreadsArg;
use clap::Args;
use hta_compat::chosen;
use hta_diagnosis::registry::ANALYSES;
use hta_read::files::{Location, Stores};
use hta_results::output::folder::Folder;
use hta_results::output::inputs::Inputs;
use hta_results::output::tables::RowGrouping;
use hta_results::partial::{PartialError, Restored, check_complete, merge, open, restore, stream};
use hta_results::run::{RunError, reduce};
use hta_results::store::{PartialStore, Spool};
use rayon::prelude::*;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct MergeArgs {
    /// Folders written by `hta analyze --partial`, in any order
    #[arg(value_name = "PART", required = true)]
    parts: Vec<PathBuf>,
    #[command(flatten)]
    threads: ThreadsArg,
    #[command(flatten)]
    strict: StrictArg,
    /// Write one partial of all these ranks instead of results, to be merged with others
    #[arg(long, conflicts_with_all = ["no_html", "brief", "full", "fail_if", "editor", "source_root"])]
    partial: bool,
    #[command(flatten)]
    results: ResultsArgs,
}

pub const AFTER_HELP: &str = "The options of the analyses (--steps, --top, --clock, --compat, --rules and so \
on) are taken from the partials, which must all have been made with the same options and by this version of \
hta. Each rank must be in exactly one partial. The results are, byte for byte, those of one `hta analyze` \
over all the files; files of events are linked where possible, else copied.";

pub fn run(args: &MergeArgs, stores: &Stores) -> anyhow::Result<Exit> {
    args.results.conditions()?;
    args.threads.run(|| all(args, stores))?
}

fn all(args: &MergeArgs, stores: &Stores) -> anyhow::Result<Exit> {
    let mut guarded = Inputs::default();
    args.parts.iter().for_each(|p| guarded.add_folder(p));
    let place = args.results.place(args.partial, &guarded, stores)?;
    let store = PartialStore::new(Spool::default());
    let mut partials = args
        .parts
        .par_iter()
        .map(|p| open(&Location::new(p, stores), &store))
        .collect::<Result<Vec<_>, _>>()?;
    let merged = merge(&mut partials, store)?;
    if !args.partial {
        check_complete(&partials)?;
    }
    if merged.set.ranks.is_empty() && !args.partial {
        return Err(RunError::NothingReadable(merged.set.refused).into());
    }
    let first = partials.first().map(|p| p.shown()).unwrap_or_default();
    let restored = restore(&merged.options).map_err(|(option, found)| PartialError::Damaged {
        path: first,
        file: "partial.json".to_string(),
        expected: format!("a value of {option}"),
        found,
    })?;
    let Restored { options, compat, events } = restored;
    let groups = if args.partial { RowGrouping::ByRank } else { RowGrouping::ByWeight };
    let folder = Folder::create_by(groups, place, events)?;
    let below = folder.work().join("events");
    // Rows of the mapping first, in the same order as in one run.
    let streamed = stream(&partials, &folder, events.map(|_| below.as_path()));
    streamed.map_err(|error| match error {
        PartialError::Write { path, source } if !path.contains('/') => {
            PartialError::Write { path: format!("{path} to {}", args.results.out.display()), source }
        }
        other => other,
    })?;
    if args.partial {
        return args.results.finish_partial(folder, &merged.set, merged.options, args.strict);
    }
    let mut outcome = reduce(merged.set, &chosen(compat, ANALYSES), &options, &folder)
        .map_err(|e| args.results.named(e))?;
    args.results.finish(folder, &mut outcome, (args.strict, &options), false)
}
