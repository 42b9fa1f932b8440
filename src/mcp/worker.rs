//! Runs a command of this program in a process of its own, within limits on its time, memory and output.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};

#[derive(Debug, Clone, Copy)]
pub struct WorkerLimits {
    pub time: Option<Duration>,
    /// Memory beside what a process has at its start, bytes. Enforced on Linux.
    pub memory: Option<u64>,
    /// Size of standard output, bytes.
    pub output: u64,
}

#[derive(Debug)]
pub struct Finished {
    /// Exit code; none if a signal ended it.
    pub code: Option<i32>,
    pub output: Vec<u8>,
    /// The beginning of its messages.
    pub messages: String,
}

#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    #[error("cannot start a worker: {0}")]
    Start(io::Error),
    #[error("it takes longer than {} s", .0.as_secs())]
    TooSlow(Duration),
    #[error("its answer is longer than {} MiB", .0 >> 20)]
    TooLong(u64),
}

/// Most of a worker's messages that are kept, bytes.
const MESSAGES: u64 = 64 << 10;

/// Memory that a worker maps before it does anything: the stack for statements, allocators, code, bytes.
#[cfg(target_os = "linux")]
const OWN: u64 = 2 << 30;

/// Workers that run.
static RUNNING: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

fn running() -> MutexGuard<'static, BTreeSet<u32>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends all workers. Called before the process exits by a signal.
pub fn end_all() {
    #[cfg(unix)]
    for pid in running().iter().filter_map(|id| rustix::process::Pid::from_raw(i32::try_from(*id).ok()?)) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

/// Registration of a worker.
struct WorkerEntry(u32);

impl WorkerEntry {
    fn of(child: &Child) -> Option<Self> {
        let id = child.id()?;
        running().insert(id);
        Some(Self(id))
    }
}

impl Drop for WorkerEntry {
    fn drop(&mut self) {
        running().remove(&self.0);
    }
}

/// Runs this program with these arguments. Dropping the future ends the process.
///
/// # Errors
/// When it cannot be started, or exceeds the limits on time or output.
pub async fn run(arguments: &[OsString], limits: &WorkerLimits) -> Result<Finished, WorkerError> {
    let program = std::env::current_exe().map_err(WorkerError::Start)?;
    let mut command = Command::new(program);
    command.args(arguments).env("NO_COLOR", "1").kill_on_drop(true);
    let started = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = started.map_err(WorkerError::Start)?;
    let _registration = WorkerEntry::of(&child);
    restrict(&child, limits);
    let (Some(output), Some(messages)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(WorkerError::Start(io::Error::other("it has no output")));
    };
    let work = async {
        let (output, messages) = tokio::join!(begin(output, limits.output + 1), begin(messages, MESSAGES));
        (child.wait().await, output, messages)
    };
    let finished = match limits.time {
        Some(time) => tokio::time::timeout(time, work).await.map_err(|_| WorkerError::TooSlow(time))?,
        None => work.await,
    };
    let (status, output, messages) = finished;
    if output.len() as u64 > limits.output {
        return Err(WorkerError::TooLong(limits.output));
    }
    let code = status.map_err(WorkerError::Start)?.code();
    Ok(Finished { code, output, messages: String::from_utf8_lossy(&messages).into_owned() })
}

/// The beginning of a stream. What follows is not read, so that the writer ends with a broken pipe.
async fn begin(stream: impl AsyncRead + Unpin, most: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    // What came before an error is all there is.
    let _ = stream.take(most).read_to_end(&mut bytes).await;
    bytes
}

#[cfg(target_os = "linux")]
fn restrict(child: &Child, limits: &WorkerLimits) {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};
    let Some(memory) = limits.memory else { return };
    let pid = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    let most = Some(memory.saturating_add(OWN));
    // Where it cannot be set, the worker still has its own limit on tables.
    let _ = pid.map(|pid| prlimit(Some(pid), Resource::Data, Rlimit { current: most, maximum: most }));
}

#[cfg(not(target_os = "linux"))]
fn restrict(_: &Child, _: &WorkerLimits) {}

/// Parts a worker's messages into the error and its hint, without the program's name.
pub fn error_of(messages: &str) -> (String, Option<String>) {
    let (mut reason, mut hint) = (Vec::new(), Vec::new());
    for line in messages.lines().filter(|l| !l.trim().is_empty()) {
        match line.strip_prefix("hint: ") {
            Some(text) => hint.push(text.to_string()),
            None if hint.is_empty() => {
                reason.push(line.strip_prefix("hta: ").unwrap_or(line).trim().to_string())
            }
            None => hint.push(line.trim().to_string()),
        }
    }
    let reason = if reason.is_empty() { "it ended without a message".to_string() } else { reason.join("; ") };
    (reason, (!hint.is_empty()).then(|| hint.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::error_of;

    #[test]
    fn messages_are_parted_into_reason_and_hint() {
        let text = "hta: cannot read a.json\n  it is empty\nhint: did you mean `b`?\nhint: tables: x,\n  y\n";
        let (reason, hint) = error_of(text);
        assert_eq!(reason, "cannot read a.json; it is empty");
        assert_eq!(hint.as_deref(), Some("did you mean `b`? tables: x, y"));
        assert_eq!(error_of(""), ("it ended without a message".to_string(), None));
    }
}
