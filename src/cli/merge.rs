//! `hta merge`: reduces partials of `hta analyze --partial` to the same results as one run over all files.

use crate::cli::analyze::{PrintedArgs, STRICT, announce, finish, finish_partial, to, warn};
use crate::cli::args::{on_threads, parse_threads};
use crate::cli::exit::Exit;
use crate::cli::output::note;
use crate::cli::report::HtmlArgs;
use crate::compat::chosen;
use crate::files::{Location, Stores};
use crate::output::folder::Folder;
use crate::output::inputs::Inputs;
use crate::output::place::{OutputPlace, RESULTS};
use crate::output::tables::Groups;
use crate::partial;
use crate::partial::{Merged, PartialError, Restored, check_complete, leave, merge, open, restore, stream};
use crate::registry::ANALYSES;
use crate::run::{RunError, reduce};
use crate::store::{PartialStore, Spool};
use anyhow::Context;
use clap::Args;
use rayon::prelude::*;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct MergeArgs {
    /// Folders written by `hta analyze --partial`, in any order
    #[arg(value_name = "PART", required = true)]
    parts: Vec<PathBuf>,
    /// Folder for the results
    #[arg(short, long, alias = "output", value_name = "DIR", default_value = "hta-out")]
    out: PathBuf,
    /// Write to the folder even if it holds other files: files with names that hta writes are replaced, all others
    /// stay
    #[arg(long)]
    force: bool,
    /// Threads to use; all cores by default
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    threads: Option<usize>,
    /// Treat any loss in the input as an error: exit 2, write nothing
    #[arg(long)]
    strict: bool,
    /// Write one partial of all these ranks instead of results, to be merged with others
    #[arg(long, conflicts_with_all = ["no_html", "brief", "full", "fail_if", "editor", "source_root"])]
    partial: bool,
    /// Leave report.html out of the results
    #[arg(long)]
    no_html: bool,
    #[command(flatten)]
    printed: PrintedArgs,
    #[command(flatten)]
    html: HtmlArgs,
}

pub const AFTER_HELP: &str = "\
The options of the analyses (--steps, --top, --clock, --compat, --rules and so on) are taken from the partials, which \
must all have been made with the same options and by this version of hta. Each rank must be in exactly one partial. \
The results are, byte for byte, those of one `hta analyze` over all the files; files of events are linked where \
possible, else copied.";

pub fn run(args: &MergeArgs, stores: &Stores) -> anyhow::Result<Exit> {
    args.printed.conditions()?;
    on_threads(args.threads, || all(args, stores))?
}

fn all(args: &MergeArgs, stores: &Stores) -> anyhow::Result<Exit> {
    let mut guarded = Inputs::default();
    args.parts.iter().for_each(|p| guarded.add_folder(p));
    let layout = if args.partial { &partial::LAYOUT } else { &RESULTS };
    let place = OutputPlace::find(layout, Location::new(&args.out, stores), &guarded, args.force)?;
    announce(&place);
    let store = PartialStore::new(Spool::default());
    let mut partials =
        args.parts.par_iter().map(|p| open(&Location::new(p, stores), &store)).collect::<Result<Vec<_>, _>>()?;
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
    let groups = if args.partial { Groups::ByRank } else { Groups::ByWeight };
    let folder = Folder::create_by(groups, place, events)?;
    let below = folder.work().join("events");
    // Rows of the mapping first, in the same order as in one run.
    let streamed = stream(&partials, &folder, events.map(|_| below.as_path()));
    streamed.map_err(|error| match error {
        PartialError::Write { path, source } if !path.contains('/') => {
            PartialError::Write { path: format!("{path} to {}", args.out.display()), source }
        }
        other => other,
    })?;
    if args.partial {
        return leave_partial(args, folder, merged);
    }
    let outcome = reduce(merged.set, &chosen(compat, ANALYSES), &options, &folder).map_err(to(&args.out))?;
    let page = (!args.no_html).then(|| args.html.options());
    finish(folder, &outcome, page.as_ref(), &args.out, (&args.printed, args.strict))
}

/// Writes the joined partials as one.
fn leave_partial(args: &MergeArgs, folder: Folder, Merged { set, options }: Merged) -> anyhow::Result<Exit> {
    warn(&set.refused);
    if args.strict && set.has_loss() {
        note(STRICT);
        return Ok(Exit::Nothing);
    }
    leave(&folder, &set, options).with_context(|| format!("cannot write to {}", args.out.display()))?;
    finish_partial(folder, &set, &args.out)
}
