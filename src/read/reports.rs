//! Files of other recorders that are told by their names or first bytes. Of NVIDIA's profilers they are
//! reports that are no traces yet: the file that a recorder writes and one of its tools exports.
//!
//! Their contents are undocumented, so they are told by their names, except for sessions of the Visual
//! Profiler, which are XML and share the ending `.nvvp` with databases that can be read.

use super::input::Input;
use crate::error::ReadError;
use hta_trace::recorders::{NCCL_PROFILER, SPEEDSCOPE};
use memchr::memmem;
use regex::bytes::Regex;
use std::sync::LazyLock;

/// A row that NCCL's profiler plugin writes.
static NCCL_ROW: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r#"(?-u)"cat"\s*:\s*"(?:GROUP|COLL|P2P|PROXY|NET|GPU|NET_IB|\w+_API)"\s*,\s*"ph"\s*:\s*"[be]""#,
    )
    .ok()
});

/// Ending of the name, what the file is, and what to do with it.
const REPORTS: [(&str, &str, &str); 4] = [
    (
        ".nsys-rep",
        "a report of Nsight Systems that was not exported",
        "export it: nsys export --type sqlite FILE.nsys-rep",
    ),
    (
        ".qdrep",
        "a report of Nsight Systems that was not exported",
        "export it: nsys export --type sqlite FILE.qdrep",
    ),
    (
        ".ncu-rep",
        "a report of Nsight Compute, which has counters of single kernels",
        "record the timeline with torch.profiler or nsys",
    ),
    (
        ".xplane.pb",
        "a trace of TensorFlow or JAX (XLA)",
        "XProf, the profile plugin of TensorBoard, reads it: pip install xprof",
    ),
];

/// The error for a report; `None` for every other file.
pub(crate) fn refuse(input: &Input, head: &[u8]) -> Option<ReadError> {
    let name = input.path.to_string_lossy().to_lowercase();
    let is_session = head.starts_with(b"<?xml") && head.windows(8).any(|w| w == b"<session");
    let has = |mark: &str| memmem::find(head, mark.as_bytes()).is_some();
    let (what, hint) = if has("speedscope.app/file-format-schema") {
        (SPEEDSCOPE.what, SPEEDSCOPE.hint)
    } else if NCCL_ROW.as_ref().is_some_and(|row| row.is_match(head)) {
        (NCCL_PROFILER.what, NCCL_PROFILER.hint)
    } else if is_session {
        (
            "a session of the Visual Profiler, which holds no events",
            "give the database that nvprof wrote: nvprof -o FILE",
        )
    } else if head.iter().find(|b| !b.is_ascii_whitespace()).is_some_and(|b| b"{[".contains(b)) {
        return None;
    } else {
        REPORTS.iter().find(|(ending, ..)| name.ends_with(ending)).map(|(_, what, hint)| (*what, *hint))?
    };
    Some(ReadError::NotATrace { file: input.shown.clone(), what, hint, is_known: true })
}
