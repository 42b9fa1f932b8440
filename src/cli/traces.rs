//! Which files a command reads: traces, folders and patterns to single files, standard input, and short text
//! files.

use anyhow::Context;
use clap::Args;
use hta_read::discover::{discover_roles, without_found_dumps};
use hta_read::error::SetError;
use hta_read::files::{Location, Stores};
use hta_read::input::Input;
use hta_read::roles::RolePattern;
use hta_results::output::inputs::Inputs;
use hta_results::output::unfinished::UnfinishedFile;
use hta_results::results::{PROOF, Results, ResultsError};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

// One set of traces. Not a doc comment: clap would use it as the description of every command.
#[derive(Debug, Args)]
pub struct TracePaths {
    /// Traces: files, folders (one level deep, two where the first holds no trace) or patterns; `-` is
    /// standard input
    #[arg(value_name = "TRACE", required_unless_present = "rank_dir")]
    pub traces: Vec<PathBuf>,
    #[command(flatten)]
    pub rank_dir: RankDirArg,
}

// Not a doc comment, as above.
#[derive(Debug, Args)]
pub struct RankDirArg {
    /// A folder with one trace per rank
    #[arg(long, value_name = "DIR")]
    rank_dir: Option<PathBuf>,
    /// Files of this pattern are of this role (actor, rollout ...) of a job of several programs, whose ranks
    /// are compared within a role only; may be given several times, with one name for each program of a role
    #[arg(long, value_name = "NAME=GLOB", value_parser = RolePattern::parse)]
    role: Vec<RolePattern>,
}

impl RankDirArg {
    pub fn is_given(&self) -> bool {
        self.rank_dir.is_some()
    }
}

/// The traces of the command line. Standard input is stored in a temporary file that lives as long as this
/// value.
pub struct Traces {
    pub inputs: Vec<Input>,
    /// Dumps of memory that were found beside traces: only `hta memory` reads them, too.
    pub dumps: Vec<Input>,
    /// Files that no output may overwrite: the traces and the other files that the command reads.
    pub guarded: Inputs,
    _spool: Option<UnfinishedFile>,
}

impl Traces {
    /// The dumps of memory and the traces, each if there are any.
    pub fn by_kind(&mut self) -> Vec<Vec<Input>> {
        self.inputs.append(&mut self.dumps);
        let (dumps, traces): (Vec<Input>, Vec<Input>) = self.inputs.drain(..).partition(Input::is_dump);
        [dumps, traces].into_iter().filter(|inputs| !inputs.is_empty()).collect()
    }
}

impl TracePaths {
    /// The results that are given instead of traces.
    pub fn results(&self, stores: &Stores) -> Option<Results> {
        match self.traces.as_slice() {
            [one] if !self.rank_dir.is_given() => Results::found(&Location::new(one, stores)),
            _ => None,
        }
    }

    /// Resolves the paths to files.
    ///
    /// # Errors
    /// When there are none, or only results, which commands on events cannot use.
    pub fn find(&self, stores: &Stores) -> anyhow::Result<Traces> {
        let found = traces(&self.traces, &self.rank_dir, stores)?;
        if let Some(results) = self.results(stores) {
            // Results may lie beside the traces of which they are.
            let is_own = |input: &Input| input.path == results.folder().join(PROOF);
            if found.inputs.iter().all(is_own) && found.dumps.is_empty() {
                return Err(ResultsError::NoTraces { place: results.folder().display().to_string() }.into());
            }
        }
        Ok(found)
    }
}

/// Resolves paths and a folder of ranks to files.
pub fn traces(paths: &[PathBuf], rank_dir: &RankDirArg, stores: &Stores) -> anyhow::Result<Traces> {
    let roles = &rank_dir.role;
    let rank_dir = rank_dir.rank_dir.as_deref();
    let (mut found, mut spool) = (Vec::new(), None);
    for path in paths.iter().map(PathBuf::as_path).chain(rank_dir) {
        if path.as_os_str() == "-" && spool.is_none() {
            // Standard input cannot be rewound, and a trace may have to be read twice.
            spool = Some(spooled()?);
        } else {
            found.push(Location::new(path, stores));
        }
    }
    if let Some(dir) = found.last().filter(|d| rank_dir.is_some() && !d.is_dir() && !d.is_remote()) {
        return Err(SetError::Missing { what: format!("the folder `{}`", dir.display()) }.into());
    }
    let mut inputs = Vec::new();
    if let Some(file) = &spool {
        inputs.push(Input::named(file.path()).shown_as("<stdin>"));
    }
    if !found.is_empty() {
        inputs.extend(discover_roles(&found, roles)?);
    }
    let dumps = without_found_dumps(&mut inputs);
    let mut guarded = Inputs::of_traces(&inputs);
    // What is no file of a store by its own name is a folder or a pattern there.
    let is_own = |path: &Location| inputs.iter().any(|i| i.path == *path);
    let is_folder = |path: &&Location| path.is_dir() || path.is_remote() && !is_own(path);
    found.iter().filter(is_folder).for_each(|folder| guarded.add_folder(folder));
    Ok(Traces { inputs, dumps, guarded, _spool: spool })
}

/// Copies standard input to a temporary file that only the user may read.
fn spooled() -> anyhow::Result<UnfinishedFile> {
    let folder = std::env::temp_dir();
    let keep = || format!("cannot keep standard input in a file in {} (TMPDIR)", folder.display());
    let file = UnfinishedFile::create_private_in(&folder, "stdin").with_context(keep)?;
    let mut out = file.reopen().with_context(keep)?;
    let mut input = std::io::stdin().lock();
    let mut block = vec![0; 1 << 16];
    loop {
        let length = match input.read(&mut block) {
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            read => read.context(CANNOT_READ_STDIN)?,
        };
        if length == 0 {
            return Ok(file);
        }
        std::io::Write::write_all(&mut out, block.get(..length).unwrap_or_default()).with_context(keep)?;
    }
}

/// What a failure to read standard input is called.
pub const CANNOT_READ_STDIN: &str = "cannot read standard input";

/// Largest size of a rules file or a statement, bytes. The limit protects against endless inputs such as
/// devices.
const LONGEST_TEXT: u64 = 1 << 20;

/// Reads a short text file.
///
/// # Errors
/// When it cannot be read, is not UTF-8, or is longer than `LONGEST_TEXT`.
pub fn read_text(path: &Path) -> std::io::Result<String> {
    text_of(File::open(path)?)
}

/// Like [`read_text`], from an open reader.
pub fn text_of(file: impl Read) -> std::io::Result<String> {
    let mut text = String::new();
    file.take(LONGEST_TEXT + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LONGEST_TEXT {
        return Err(std::io::Error::other(format!(
            "expected a text of at most {LONGEST_TEXT} bytes, found more"
        )));
    }
    Ok(text)
}
