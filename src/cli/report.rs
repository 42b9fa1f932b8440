//! `hta report`: writes the HTML report again from a results folder.

use crate::cli::exit::Exit;
use crate::cli::output::{print, print_text};
use crate::files;
use crate::output::folder::Folder;
use crate::output::html::{Editor, PageOptions, Results, ResultsError, write};
use crate::output::inputs::Inputs;
use crate::output::unfinished;
use clap::{Args, ValueEnum};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

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
        PageOptions { editor, source_root: self.source_root.clone() }
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
    #[command(flatten)]
    html: HtmlArgs,
}

pub fn run(args: &ReportArgs) -> anyhow::Result<Exit> {
    let cannot_read = |source| ResultsError::Io { path: args.results.display().to_string(), source };
    if !files::is_folder(&args.results.join("tables")).map_err(cannot_read)? {
        let is_there = files::is_folder(&args.results).map_err(cannot_read)? || args.results.exists();
        return Err(ResultsError::Damaged {
            path: args.results.display().to_string(),
            expected: "a results folder".to_string(),
            found: if is_there { "no folder `tables` in it" } else { "nothing there" }.to_string(),
        }
        .into());
    }
    if !files::is_file(&args.results.join("summary.json")).map_err(cannot_read)? {
        return Err(ResultsError::Damaged {
            path: args.results.display().to_string(),
            expected: "a results folder".to_string(),
            found: "no summary.json in it".to_string(),
        }
        .into());
    }
    let page_of_folder = args.results.join("report.html");
    let out = args.out.clone().unwrap_or_else(|| page_of_folder.clone());
    if out.as_os_str() != "-" {
        let mut guarded = Inputs::default();
        guarded.add_results(&args.results);
        guarded.except(&page_of_folder).allow_file(&out)?;
    }
    let mut page = Vec::new();
    write(&Results::new(&args.results), &args.html.options(), &mut page)?;
    if out.as_os_str() == "-" {
        print(&page)?;
        return Ok(Exit::Done);
    }
    let failed = |source| ResultsError::Write { path: out.display().to_string(), source };
    unfinished::write(&out, &page).map_err(failed)?;
    print_text(&format!("report: {}\n", out.display()))?;
    Ok(Exit::Done)
}

/// Writes the page into a results folder that is still being written.
pub fn leave(folder: &Folder, options: &PageOptions) -> Result<(), ResultsError> {
    let path = folder.work().join("report.html");
    let failed = |source| ResultsError::Write { path: "report.html".to_string(), source };
    let mut out = BufWriter::with_capacity(1 << 16, File::create(path).map_err(failed)?);
    write(&folder.results(), options, &mut out)?;
    out.flush().map_err(failed)
}
