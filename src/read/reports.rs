//! Files of other recorders that are told by their names or first bytes. Of NVIDIA's profilers they are
//! reports that are no traces yet: the file that a recorder writes and one of its tools exports.
//!
//! Their contents are undocumented, so they are told by their names, except for sessions of the Visual
//! Profiler, which are XML and share the ending `.nvvp` with databases that can be read. Tables (CSV) are
//! told by the columns that their first line names.

use super::input::Input;
use crate::error::ReadError;
use hta_trace::recorders::{
    ASCEND_TABLE, CHAKRA, MEGASCAN, NCCL_PROFILER, NSYS_TABLE, OMNIPERF_TABLE, OtherRecorder, ROCPROF_TABLE,
    SPEEDSCOPE, TF_TIMELINE, XLA,
};
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

/// Marks that all stand in the first bytes of a recorder's JSON files.
const JSON_MARKS: [(&[&str], OtherRecorder); 2] =
    [(&["speedscope.app/file-format-schema"], SPEEDSCOPE), (&["\"rel_ts\"", "\"pad_before\""], MEGASCAN)];

/// Columns that all stand in the first line of a recorder's tables.
const COLUMNS: [(&[&str], OtherRecorder); 9] = [
    (&["kernelname", "gpu-id"], ROCPROF_TABLE),
    (&["kernelname", "gpu_id", "dispatch_id"], ROCPROF_TABLE),
    (&["name", "calls", "totaldurationns"], ROCPROF_TABLE),
    (&["correlation_id", "start_timestamp", "kind"], ROCPROF_TABLE),
    (&["correlation_id", "start_timestamp", "domain"], ROCPROF_TABLE),
    (&["correlation_id", "counter_name", "counter_value"], ROCPROF_TABLE),
    (&["dispatch_id", "gpu_id", "workgroup_size"], OMNIPERF_TABLE),
    (&["task id", "stream id"], ASCEND_TABLE),
    (&["total time (ns)", "med (ns)"], NSYS_TABLE),
];

/// Ending of the name, what the file is, and what to do with it.
const REPORTS: [(&str, &str, &str); 5] = [
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
    (".xplane.pb", XLA.what, XLA.hint),
    (".et", CHAKRA.what, CHAKRA.hint),
];

/// The error for a report; `None` for every other file.
pub(crate) fn refuse(input: &Input, head: &[u8]) -> Option<ReadError> {
    let name = input.path.to_string_lossy().to_lowercase();
    let is_session = head.starts_with(b"<?xml") && head.windows(8).any(|w| w == b"<session");
    let has = |mark: &&str| memmem::find(head, mark.as_bytes()).is_some();
    let by_marks =
        || JSON_MARKS.iter().find(|(marks, _)| marks.iter().all(has)).map(|(_, recorder)| recorder);
    let (what, hint) = if let Some(OtherRecorder { what, hint }) = by_marks() {
        (*what, *hint)
    } else if NCCL_ROW.as_ref().is_some_and(|row| row.is_match(head)) {
        (NCCL_PROFILER.what, NCCL_PROFILER.hint)
    } else if is_session {
        (
            "a session of the Visual Profiler, which holds no events",
            "give the database that nvprof wrote: nvprof -o FILE",
        )
    } else if head.iter().find(|b| !b.is_ascii_whitespace()).is_some_and(|b| b"{[".contains(b)) {
        return None;
    } else if let Some(OtherRecorder { what, hint }) = table(head).or_else(|| protobuf(head)) {
        (what, hint)
    } else {
        REPORTS.iter().find(|(ending, ..)| name.ends_with(ending)).map(|(_, what, hint)| (*what, *hint))?
    };
    Some(ReadError::NotATrace { file: input.shown.clone(), what, hint, is_known: true })
}

/// The recorder of a table, by the names of its columns.
fn table(head: &[u8]) -> Option<OtherRecorder> {
    let line = head.split(|b| *b == b'\n').next().filter(|line| line.contains(&b','))?;
    let line = std::str::from_utf8(line).ok()?.trim_start_matches('\u{feff}').to_lowercase();
    let names: Vec<&str> = line.split(',').map(|name| name.trim().trim_matches('"')).collect();
    COLUMNS.iter().find(|(columns, _)| columns.iter().all(|c| names.contains(c))).map(|(_, r)| *r)
}

/// The recorder of a file of protobuf messages, by the text in the first of them.
fn protobuf(head: &[u8]) -> Option<OtherRecorder> {
    let is_version = |text: &[u8]| !text.is_empty() && text.iter().all(|b| b.is_ascii_digit() || *b == b'.');
    match head {
        // A message with its length before it: GlobalMetadata of Chakra, whose first field is the version.
        [n, 0x0a, m, rest @ ..] if m.checked_add(2) <= Some(*n) => {
            rest.get(..usize::from(*m)).filter(|text| is_version(text)).map(|_| CHAKRA)
        }
        // RunMetadata: the statistics of a step, whose first field is that of a device, which begins with its
        // name. An XPlane begins with its number.
        [0x0a, rest @ ..] => {
            let length = rest.iter().take_while(|b| **b >= 0x80).count() + 1;
            let inner = rest.get(length..).filter(|inner| inner.first() == Some(&0x0a))?;
            let start = inner.get(..24.min(inner.len())).unwrap_or_default();
            [&b"/job:"[..], b"/device:"]
                .iter()
                .any(|m| memmem::find(start, m).is_some())
                .then_some(TF_TIMELINE)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_told_by_their_columns() {
        let what = |line: &str| table(line.as_bytes()).map_or("", |r| r.what);
        assert_eq!(
            what("\"Index\",\"KernelName\",\"gpu-id\",\"queue-id\"\n0,\"f\",1,0\n"),
            ROCPROF_TABLE.what
        );
        let v3 =
            "\"Kind\",\"Agent_Id\",\"Queue_Id\",\"Kernel_Name\",\"Correlation_Id\",\"Start_Timestamp\"\n";
        assert_eq!(what(v3), ROCPROF_TABLE.what);
        let omniperf = "Dispatch_ID,Kernel_Name,GPU_ID,Grid_Size,Workgroup_Size,Start_Timestamp\n";
        assert_eq!(what(omniperf), OMNIPERF_TABLE.what);
        assert_eq!(what("Device_id,Model ID,Task ID,Stream ID,Name,Type\r\n0,1"), ASCEND_TABLE.what);
        assert_eq!(what("Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Name\n"), NSYS_TABLE.what);
        assert_eq!(what("name,calls,price\n"), "");
        assert_eq!(what("not a table"), "");
    }

    #[test]
    fn messages_are_told_by_their_first_text() {
        let what = |bytes: &[u8]| protobuf(bytes).map_or("", |r| r.what);
        assert_eq!(what(b"\x07\x0a\x050.0.4\x0c\x08"), CHAKRA.what);
        assert_eq!(what(b"\x0a\x80\x10\x0a\xf0\x0f\x0a\x26/job:localhost/replica:0"), TF_TIMELINE.what);
        assert_eq!(what(b"\x0a\x07\x40\x01\x5a\x03abc"), "");
        assert_eq!(what(b"\x0a\x0a\x05abcde"), "");
        assert_eq!(what(b""), "");
    }
}
