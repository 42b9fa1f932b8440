//! `hta report`: writes the HTML report again from a results folder.

use crate::cli::exit::Exit;
use crate::cli::output::{print, print_text};
use crate::output::folder::Folder;
use crate::output::html::{Editor, PageOptions, Results, ResultsError, write};
use crate::output::inputs::Inputs;
use crate::output::unfinished;
use clap::{Args, ValueEnum};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

pub const AFTER_HELP: &str = "\
`hta analyze` and `hta merge` write the same page to their results folder. It opens offline in any browser and can be \
mailed: it loads nothing. `hta explain report` describes its contents.";

// Options for links to source lines. Not a doc comment: clap would use it as the description of every command.
#[derive(Debug, Args)]
pub struct HtmlArgs {
    /// Editor that opens links to source lines in report.html; can also be chosen in the page
    #[arg(long, value_enum, default_value_t = EditorArg::Vscode)]
    editor: EditorArg,
    /// Folder that contains relative source paths, where report.html is read; stored in the page
    #[arg(long, value_name = "DIR")]
    source_root: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EditorArg {
    Vscode,
    Cursor,
    /// Plain text
    None,
}

impl HtmlArgs {
    pub fn options(&self) -> PageOptions {
        let editor = match self.editor {
            EditorArg::Vscode => Editor::Vscode,
            EditorArg::Cursor => Editor::Cursor,
            EditorArg::None => Editor::None,
        };
        PageOptions { editor, source_root: self.source_root.clone(), against: None }
    }
}

#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Results folder of `hta analyze` or `hta merge`
    #[arg(value_name = "RESULTS")]
    results: PathBuf,
    /// File to write, report.html in the folder by default; `-` is standard output
    #[arg(short, long, alias = "output", value_name = "FILE")]
    out: Option<PathBuf>,
    /// Results folder of an earlier run: its numbers stand beside those of RESULTS, and its timeline below
    #[arg(long, value_name = "RESULTS")]
    against: Option<PathBuf>,
    #[command(flatten)]
    html: HtmlArgs,
}

pub fn run(args: &ReportArgs) -> anyhow::Result<Exit> {
    for folder in std::iter::once(&args.results).chain(&args.against) {
        check(folder)?;
    }
    let page_of_folder = args.results.join("report.html");
    let out = args.out.clone().unwrap_or_else(|| page_of_folder.clone());
    if out.as_os_str() != "-" {
        let mut guarded = Inputs::default();
        guarded.add_results(&args.results);
        args.against.iter().for_each(|folder| guarded.add_results(folder));
        guarded.except(&page_of_folder).allow_file(&out)?;
    }
    let mut page = Vec::new();
    let options = PageOptions { against: args.against.clone(), ..args.html.options() };
    write(&Results::new(&args.results), &options, &mut page)?;
    if out.as_os_str() == "-" {
        print(&page)?;
        return Ok(Exit::Done);
    }
    let failed = |source| ResultsError::Write { path: out.display().to_string(), source };
    unfinished::write(&out, &page).map_err(failed)?;
    print_text(&format!("report: {}\n", out.display()))?;
    Ok(Exit::Done)
}

/// Checks that a folder holds complete results.
fn check(folder: &Path) -> Result<(), ResultsError> {
    let damaged = |found: &str| ResultsError::Damaged {
        path: folder.display().to_string(),
        expected: "a results folder".to_string(),
        found: found.to_string(),
    };
    if !folder.join("tables").is_dir() {
        return Err(damaged(if folder.exists() { "no folder `tables` in it" } else { "nothing there" }));
    }
    if !folder.join("summary.json").is_file() {
        return Err(damaged("no summary.json in it"));
    }
    Ok(())
}

/// Writes the page into a results folder that is still being written.
pub fn leave(folder: &Folder, options: &PageOptions) -> Result<(), ResultsError> {
    let path = folder.work().join("report.html");
    let failed = |source| ResultsError::Write { path: "report.html".to_string(), source };
    let mut out = BufWriter::with_capacity(1 << 16, File::create(path).map_err(failed)?);
    write(&folder.results(), options, &mut out)?;
    out.flush().map_err(failed)
}
