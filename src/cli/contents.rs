//! `hta files`: the files of results or of a partial, wherever they are: their names, or the bytes of one. A
//! store needs no other tool for that.

use crate::cli::exit::Exit;
use crate::cli::output::{print_text, stdout_is_terminal};
use crate::cli::table::no_parquet_here;
use anyhow::Context;
use clap::Args;
use hta_base::wording::counts::plural;
use hta_read::files::{Location, Stores};
use hta_results::output::contents::{FolderContents, remove_from_store};
use hta_results::output::inputs::Inputs;
use hta_results::output::place::RESULTS;
use hta_results::partial;
use std::io;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct FilesArgs {
    /// Results or a partial: a folder, or a URL of a store
    #[arg(value_name = "RESULTS")]
    place: PathBuf,
    /// Print this file instead of the names of all
    #[arg(value_name = "FILE")]
    name: Option<String>,
    /// File to write it to instead of standard output
    #[arg(short, long, alias = "output", value_name = "FILE", requires = "name")]
    out: Option<PathBuf>,
    /// Remove the partials in and below RESULTS, a folder of a store that holds nothing else
    #[arg(long, conflicts_with = "name")]
    remove_partials: bool,
}

pub const AFTER_HELP: &str = "\
For results that are in a store, without any other tool for it:
  hta files s3://bucket/job-7-hta
  hta files s3://bucket/job-7-hta report.html --out report.html
  hta files s3://bucket/parts --remove-partials     when they are merged";

pub fn run(args: &FilesArgs, stores: &Stores) -> anyhow::Result<Exit> {
    let place = Location::new(&args.place, stores);
    if args.remove_partials {
        let count = remove_from_store(&partial::LAYOUT, &place)?;
        print_text(&format!("{} removed from {}\n", plural(count, "partial"), args.place.display()))?;
        return Ok(Exit::Done);
    }
    let contents = FolderContents::of(place, &[&RESULTS, &partial::LAYOUT])?;
    let Some(name) = &args.name else {
        let lines: Vec<String> = contents.names().iter().map(|name| format!("{name}\n")).collect();
        print_text(&lines.concat())?;
        return Ok(Exit::Done);
    };
    match &args.out {
        Some(out) => {
            let mut guarded = Inputs::default();
            guarded.add_results(&args.place);
            guarded.allow_file(out)?;
            contents.copy(name, out)?;
        }
        None if name.ends_with(".parquet") && stdout_is_terminal() => {
            return Err(no_parquet_here("FILE", name).into());
        }
        None => match io::copy(&mut contents.open(name)?, &mut io::stdout().lock()) {
            Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
                return Err(e).with_context(|| format!("cannot print {name} of {}", args.place.display()));
            }
            // A reader that closes the pipe has what it wants.
            _ => {}
        },
    }
    Ok(Exit::Done)
}
