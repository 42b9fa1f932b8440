//! `hta report`: writes the HTML report again from a results folder, or with another one as its baseline.

use crate::cli::exit::Exit;
use crate::cli::memory;
use crate::cli::output::{note, print, print_report, print_text, width};
use clap::{Args, ValueEnum};
use hta_analysis::api::Options;
use hta_read::files::{Location, Stores};
use hta_results::output::folder::Folder;
use hta_results::output::html::{Against, Editor, PageOptions, write};
use hta_results::output::inputs::Inputs;
use hta_results::output::{text, unfinished};
use hta_results::results::{Results, ResultsError};
use std::fs::File;
use std::path::PathBuf;

pub const AFTER_HELP: &str = "\
`hta analyze` and `hta merge` write the same page to their results folder. It opens offline in any browser \
and can be \
mailed: it loads nothing. `hta explain report` describes its contents.

With --against the page is written beside it, and what `hta diff` would print about the two runs is printed.";

// Options for links to source lines. Not a doc comment: clap would use it as the description of every
// command.
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
    /// Results folder of another run: its figures stand beside those of RESULTS
    #[arg(long, value_name = "BASELINE")]
    against: Option<PathBuf>,
    /// File to write, by default report.html in the folder, with --against compare.html; `-` is standard
    /// output
    #[arg(short, long, alias = "output", value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    html: HtmlArgs,
}

pub fn run(args: &ReportArgs, stores: &Stores) -> anyhow::Result<Exit> {
    let folder = Location::new(&args.results, stores);
    let base = args.against.as_ref().map(|base| Location::new(base, stores));
    let open = |place: &Location| Results::open(place).map(|r| r.within(memory::limit(None)));
    let results = open(&folder)?;
    let base = base.as_ref().map(open).transpose()?;
    let name = if args.against.is_some() { "compare.html" } else { "report.html" };
    let page_of_folder = args.results.join(name);
    let out = args.out.clone().unwrap_or_else(|| page_of_folder.clone());
    let to_stdout = out.as_os_str() == "-";
    if !to_stdout {
        let mut guarded = Inputs::default();
        guarded.add_results(&args.results);
        let mut guarded = guarded.except(&page_of_folder);
        if let Some(base) = &args.against {
            guarded.add_results(base);
            // Both may be the same folder.
            guarded = guarded.except(&base.join(name));
        }
        guarded.allow_file(&out)?;
        // What comes with the folder must not lead out of it.
        if out == page_of_folder && page_of_folder.symlink_metadata().is_ok() {
            let checked = folder.join(name).check_file_below(&folder);
            checked.map_err(|source| ResultsError::Write { path: out.display().to_string(), source })?;
        }
    }
    let options = &mut Options::default();
    let against = base.map(|base| Against::read(open(&folder)?, base, options)).transpose()?;
    let mut page = Vec::new();
    write(&results, against.as_ref(), &args.html.options(), &mut page)?;
    if let Some(against) = &against {
        warn(against);
    }
    if to_stdout {
        print(&page)?;
        return Ok(Exit::Done);
    }
    unfinished::write(&out, &page)
        .map_err(|source| ResultsError::Write { path: out.display().to_string(), source })?;
    if let Some(output) = against.as_ref().and_then(|a| a.output.as_ref()) {
        print_report(&format!("{}\n", text::one_output(output, width())))?;
    }
    print_text(&format!("report: {}\n", out.display()))?;
    Ok(Exit::Done)
}

/// Says on standard error what makes a step of one run other work than a step of the other, and what is not
/// compared.
fn warn(against: &Against) {
    for reason in &against.differences.refusals {
        note(&format!("hta: the runs are different work: {reason}"));
    }
    against.notes.iter().for_each(|line| note(&format!("hta: {line}")));
}

/// Writes the page into a results folder that is still being written.
pub fn leave(folder: &Folder, options: &PageOptions) -> Result<(), ResultsError> {
    let path = folder.work().join("report.html");
    let failed = |source| ResultsError::Write { path: "report.html".to_string(), source };
    let mut out = File::create(path).map_err(failed)?;
    write(&folder.results(), None, options, &mut out)
}
