//! What tools can be asked about: results folders, and traces, which are analysed once, at their first use.

use crate::mcp::answer::{Refusal, clip};
use crate::mcp::confined::{Roots, outside};
use crate::mcp::worker;
use crate::mcp::worker::{WorkerError, WorkerLimits, error_of};
use hta_base::units::MemoryLimit;
use hta_read::discover::files;
use hta_read::error::SetError;
use hta_read::files::{ContentVersion, Fault, Location};
use hta_results::output::unfinished::ScratchFolder;
use hta_results::results::Results;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Mutex as AsyncMutex, Semaphore, SemaphorePermit};

/// What the server is started with.
pub struct Setup {
    /// Results folders, traces and folders of traces, on this machine or in stores.
    pub paths: Vec<Location>,
    /// Folders below which tools may be given further paths.
    pub allow: Vec<PathBuf>,
    /// Memory for the analysis of traces, for a statement, and for the tables that a tool reads.
    pub memory: Option<MemoryLimit>,
    /// Time for a statement.
    pub time: Duration,
    /// Time for reading traces: their analysis, and drawing them.
    pub analysis_time: Duration,
    /// Options of the command line that say how stores are reached.
    pub store: Vec<OsString>,
    /// Whether the analysis of traces keeps their events.
    pub events: bool,
    /// The page of `hta explain`.
    pub explain: fn(&str) -> Result<String, SetError>,
    /// Names that have a page, with their titles.
    pub names: fn() -> Vec<(&'static str, &'static str)>,
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot use {path}: {error}")]
    Path { path: String, error: io::Error },
    #[error("cannot create a folder in {folder} (TMPDIR): {error}")]
    Scratch { folder: String, error: io::Error },
    #[error("cannot start the server: {0}")]
    Runtime(io::Error),
    #[error("cannot speak with the client: {0}")]
    Protocol(io::Error),
}

impl StartError {
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            StartError::Path { error, .. } if Fault::of(error).is_some() => {
                Fault::of(error).and_then(|f| f.hint)
            }
            StartError::Path { .. } => {
                Some("give results folders, traces or folders of traces: hta mcp hta-out")
            }
            StartError::Protocol(_) => {
                Some("a client of the Model Context Protocol starts `hta mcp`: see docs/agents.md")
            }
            _ => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceKind {
    Results,
    Traces,
}

impl SourceKind {
    pub fn name(self) -> &'static str {
        match self {
            SourceKind::Results => "results",
            SourceKind::Traces => "traces",
        }
    }
}

pub struct AskedSource {
    /// Name for tools, the same whenever the server is started with the same paths.
    pub id: String,
    pub kind: SourceKind,
    /// The path as it was given.
    pub shown: String,
    /// Without links.
    pub path: Location,
    analysed: AsyncMutex<Option<Analysed>>,
}

/// The results of traces.
struct Analysed {
    /// What the traces were.
    version: ContentVersion,
    folder: PathBuf,
    /// How often they were analysed before.
    times_before: u32,
}

impl AskedSource {
    fn new(id: String, shown: String, path: Location) -> Self {
        let kind = if is_results(&path) { SourceKind::Results } else { SourceKind::Traces };
        Self { id, kind, shown, path, analysed: AsyncMutex::default() }
    }

    /// One in a store, which is asked for what it is.
    fn in_store(id: String, path: &Location) -> io::Result<Self> {
        let shown = path.display().to_string();
        // A server of files lists none, so it has no folders of results.
        let is_listed = !["http://", "https://"].iter().any(|scheme| shown.starts_with(scheme));
        let is_results = is_listed && path.join("tables").is_folder()?;
        let kind = if is_results { SourceKind::Results } else { SourceKind::Traces };
        Ok(Self { id, kind, shown, path: path.clone(), analysed: AsyncMutex::default() })
    }

    /// Whether tools answer without reading traces first, unless these have changed.
    pub fn is_ready(&self) -> bool {
        self.kind == SourceKind::Results || self.analysed.try_lock().is_ok_and(|analysed| analysed.is_some())
    }
}

/// Statements that run at a time.
const STATEMENTS: usize = 4;
/// Size of the output of a worker, bytes.
const OUTPUT: u64 = 16 << 20;
/// Advice for traces that cannot be read within the limit.
pub const TOO_SLOW: &str = "run `hta analyze` once and give its results folder, or start the server with a \
                            longer --analysis-time-limit";
/// Folders that are listed of each allowed folder.
const MOST_LISTED: usize = 200;

pub struct AskedSources {
    pub setup: Setup,
    roots: Roots,
    /// By id; those that tools name by a path are added.
    known: Mutex<BTreeMap<String, Arc<AskedSource>>>,
    /// Ids in the order given.
    given: Vec<String>,
    scratch: ScratchFolder,
    /// Analyses run one after the other: each may use the memory limit.
    analyses: Semaphore,
    statements: Semaphore,
}

impl AskedSources {
    /// # Errors
    /// When a path does not exist or temporary files cannot be created.
    pub fn open(setup: Setup) -> Result<Self, StartError> {
        let mut roots = Roots::default();
        let (mut known, mut given) = (BTreeMap::new(), Vec::new());
        for path in &setup.paths {
            let failed = |error| StartError::Path { path: path.display().to_string(), error };
            let source = if path.is_remote() {
                AskedSource::in_store(new_id(path, &known), path).map_err(failed)?
            } else {
                let real = roots.add(path).map_err(failed)?;
                AskedSource::new(new_id(&real, &known), path.display().to_string(), real.into())
            };
            given.push(source.id.clone());
            known.insert(source.id.clone(), Arc::new(source));
        }
        for path in &setup.allow {
            let failed = |error| StartError::Path { path: path.display().to_string(), error };
            if Location::from(path).is_remote() {
                let reason = "expected a folder on this machine; give each URL as a PATH";
                return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, reason)));
            }
            roots.add(path).map_err(failed)?;
        }
        let folder = std::env::temp_dir();
        let scratch = ScratchFolder::create_in(&folder, "mcp")
            .map_err(|error| StartError::Scratch { folder: folder.display().to_string(), error })?;
        Ok(Self {
            setup,
            roots,
            known: Mutex::new(known),
            given,
            scratch,
            analyses: Semaphore::new(1),
            statements: Semaphore::new(STATEMENTS),
        })
    }

    /// A private folder for files that live as long as the server.
    pub fn scratch(&self) -> &Path {
        self.scratch.path()
    }

    /// Limits of a statement.
    pub fn limits(&self) -> WorkerLimits {
        WorkerLimits {
            time: Some(self.setup.time),
            memory: self.setup.memory.map(|limit| limit.bytes),
            output: OUTPUT,
        }
    }

    /// Limits of a command that reads traces. It keeps the memory limit itself.
    pub fn limits_of_reading(&self) -> WorkerLimits {
        WorkerLimits { time: Some(self.setup.analysis_time), memory: None, output: OUTPUT }
    }

    /// Waits until a statement may run.
    pub async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        // It is never closed.
        self.statements.acquire().await.ok()
    }

    /// All sources: those given, those named since, and results folders directly below allowed folders.
    pub fn list(&self) -> Vec<Arc<AskedSource>> {
        for folder in &self.setup.allow {
            let Ok(entries) = fs::read_dir(folder) else { continue };
            let mut paths: Vec<PathBuf> =
                entries.flatten().map(|e| e.path()).filter(|p| is_results(&p.into())).collect();
            paths.sort();
            for path in paths.into_iter().take(MOST_LISTED) {
                // What leads outside is not listed.
                let _ = self.by_path(&path);
            }
        }
        let known = self.known();
        let given = self.given.iter().filter_map(|id| known.get(id)).cloned();
        let others = known.iter().filter(|(id, _)| !self.given.contains(id)).map(|(_, s)| Arc::clone(s));
        given.chain(others).collect()
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Arc<AskedSource>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The source that a tool names by id or path; without a name the only one.
    ///
    /// # Errors
    /// When there is none or the path leads outside.
    pub fn find(&self, name: Option<&str>) -> Result<Arc<AskedSource>, Refusal> {
        let Some(name) = name.filter(|n| !n.trim().is_empty()) else {
            let known = self.known();
            return match (known.len(), known.values().next()) {
                (1, Some(only)) => Ok(Arc::clone(only)),
                (0, _) => Err(Refusal::refused("no source is given")
                    .hint("name a path below an allowed folder as `source`")),
                _ => {
                    let ids = known.keys().cloned().collect::<Vec<_>>().join(", ");
                    Err(Refusal::refused("expected a `source`, because there are several")
                        .hint(format!("one of {}", clip(&ids, 400))))
                }
            };
        };
        if let Some(source) = self.known().get(name) {
            return Ok(Arc::clone(source));
        }
        self.by_path(Path::new(name))
    }

    fn by_path(&self, path: &Path) -> Result<Arc<AskedSource>, Refusal> {
        if Location::from(path).is_remote() {
            // Only what was given at the start: credentials may open more than the user has in mind.
            let given = self.known().values().find(|s| *s.path == *path).cloned();
            return given.ok_or_else(|| outside(path));
        }
        let below = self.setup.allow.iter().map(|folder| folder.join(path)).find(|p| p.exists());
        let real = self.roots.resolve(below.as_deref().unwrap_or(path))?;
        let mut known = self.known();
        if let Some(source) = known.values().find(|s| *s.path == *real) {
            return Ok(Arc::clone(source));
        }
        let id = new_id(&real, &known);
        let source = Arc::new(AskedSource::new(id.clone(), path.display().to_string(), real.into()));
        known.insert(id, Arc::clone(&source));
        Ok(source)
    }

    /// Checks that no file of a source leads outside. A store has no links.
    ///
    /// # Errors
    /// When one does.
    pub fn check_files(&self, source: &AskedSource) -> Result<(), Refusal> {
        if source.path.is_remote() { Ok(()) } else { self.roots.check_files(&source.path) }
    }

    /// The results folder of a source, as it is now. Traces are analysed if they have none yet or have
    /// changed since; who asks meanwhile waits.
    ///
    /// # Errors
    /// When they cannot be analysed, or a file leads outside.
    pub async fn results(&self, source: &AskedSource) -> Result<Location, Refusal> {
        self.check_files(source)?;
        if source.kind == SourceKind::Results {
            return Ok(source.path.anew());
        }
        let mut analysed = source.analysed.lock().await;
        let version = self.version(source).await?;
        let before = match analysed.as_ref() {
            Some(known) if known.version == version => return Ok((&known.folder).into()),
            Some(known) => Some((known.folder.clone(), known.times_before)),
            None => None,
        };
        let times_before = before.as_ref().map_or(0, |(_, times)| times + 1);
        // Never in the place of the results before: a tool that still reads them would mix both.
        let out = self.scratch().join(format!("{}+{times_before}", source.id));
        self.analyse(source, &out).await?;
        let folder = Location::from(&out);
        *analysed = Some(Analysed { version, folder: out, times_before });
        if let Some((folder, _)) = before {
            // What cannot be removed goes with the folder of the server.
            let _ = fs::remove_dir_all(folder);
        }
        Ok(folder)
    }

    /// What the traces are now.
    async fn version(&self, source: &AskedSource) -> Result<ContentVersion, Refusal> {
        let path = source.path.anew();
        let time = self.setup.analysis_time;
        let failed =
            |reason: String| Refusal::cannot_answer(format!("`{}` cannot be analysed: {reason}", source.id));
        // Say what is no trace before anything is read.
        let look = move || files(std::slice::from_ref(&path)).map(|_| path.version());
        tokio::time::timeout(time, apart(look))
            .await
            .map_err(|_| failed(WorkerError::TooSlow(time).to_string()).hint(TOO_SLOW))??
            .map_err(|e| {
                Refusal::cannot_answer(e.to_string()).hint(e.hint().unwrap_or("give traces or results"))
            })?
            .map_err(|e| failed(e.to_string()))
    }

    async fn analyse(&self, source: &AskedSource, out: &Path) -> Result<(), Refusal> {
        let failed =
            |reason: String| Refusal::cannot_answer(format!("`{}` cannot be analysed: {reason}", source.id));
        let _turn = self.analyses.acquire().await;
        let mut arguments: Vec<OsString> = vec!["analyze".into(), "--no-html".into(), "--brief".into()];
        arguments.extend(["--out".into(), out.into()]);
        if let Some(memory) = self.setup.memory {
            arguments.extend(["--memory-limit".into(), memory.bytes.to_string().into()]);
        }
        if !self.setup.events {
            arguments.push("--no-events".into());
        }
        arguments.extend(self.setup.store.iter().cloned());
        arguments.extend(["--".into(), source.path.as_os_str().into()]);
        let finished = worker::run(&arguments, &self.limits_of_reading()).await.map_err(|e| match e {
            WorkerError::TooSlow(_) => failed(e.to_string()).hint(TOO_SLOW),
            _ => failed(e.to_string()),
        })?;
        // 1: a part could not be used, and `verdict` says which.
        if matches!(finished.code, Some(0 | 1)) && is_results(&out.into()) {
            return Ok(());
        }
        let (reason, hint) = error_of(&finished.messages);
        let refusal = failed(reason);
        Err(match hint {
            Some(hint) => refusal.hint(hint),
            None => refusal,
        })
    }
}

/// Runs something that waits for the disk or a store, beside the thread that speaks with the client.
///
/// # Errors
/// When it could not be run to its end.
pub async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Refusal> {
    let failed =
        |e: tokio::task::JoinError| Refusal::cannot_answer(format!("it ended before it was done: {e}"));
    tokio::task::spawn_blocking(work).await.map_err(failed)
}

/// An id that no other source has, from the name of the file or folder.
fn new_id(path: &Path, known: &BTreeMap<String, Arc<AskedSource>>) -> String {
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let plain: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' }).collect();
    // Folders of this name are made in the temporary folder.
    let plain = plain.trim_start_matches('.');
    let plain = if plain.is_empty() { "source" } else { plain };
    let mut id = plain.to_string();
    let mut more = 1;
    while known.contains_key(&id) {
        more += 1;
        id = format!("{plain}-{more}");
    }
    id
}

/// Whether a folder on the disk holds results. One that cannot be looked into does not.
fn is_results(path: &Location) -> bool {
    Results::is_one(path).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_the_names_and_differ() {
        let mut known = BTreeMap::new();
        let mut add = |path: &str| {
            let id = new_id(Path::new(path), &known);
            known.insert(id.clone(), Arc::new(AskedSource::new(id.clone(), path.to_string(), path.into())));
            id
        };
        assert_eq!(add("/a/before"), "before");
        assert_eq!(add("/b/before"), "before-2");
        assert_eq!(add("/b/run 1;x"), "run_1_x");
        assert_eq!(add("/"), "source");
        assert_eq!(add("/a/.."), "source-2");
    }
}
