//! Why a file is not analysed, and what it is instead.

use crate::room::OutOfMemory;

/// Why a file is not analysed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KinetoRefusal {
    /// Empty, or only white space.
    Empty,
    /// Not a trace: what it is instead, and advice.
    NotATrace { what: &'static str, hint: &'static str },
    /// A file of another known kind.
    OtherFormat { what: &'static str, hint: &'static str },
    /// Two writers wrote to it; the second trace begins at this byte.
    Interleaved { byte: u64 },
    /// The file ends before its first event.
    CutBeforeEvents,
    /// Valid, but without events.
    NoEvents,
    /// Reading needs more memory than allowed.
    OutOfMemory(OutOfMemory),
}

pub(super) const EXPORT_HINT: &str = "hta reads what `torch.profiler`'s `export_chrome_trace` writes";

pub(super) const NOT_JSON: KinetoRefusal = KinetoRefusal::NotATrace { what: "not JSON", hint: EXPORT_HINT };

pub(super) const NOT_EVENTS: KinetoRefusal =
    KinetoRefusal::NotATrace { what: "a JSON list that holds no events", hint: EXPORT_HINT };

/// Recognizes other kinds of files, and damaged traces, by their first bytes.
pub(super) fn foreign_magic(head: &[u8]) -> Option<KinetoRefusal> {
    let (what, hint) = match head {
        [b'S', b'Q', b'L', b'i', b't', b'e', b' ', ..] => (
            "an SQLite database, where only JSON can be used",
            "other commands read databases of nsys and nvprof: `hta analyze FILE`",
        ),
        [0x80, 2..=5, ..] => ("a Python pickle (a memory snapshot or flight recorder dump?)", EXPORT_HINT),
        [b'P', b'K', 3, 4, ..] => ("a zip archive", "unpack it and give the traces inside"),
        [b'P', b'A', b'R', b'1', ..] => ("a Parquet file", EXPORT_HINT),
        [0x0a, ..] if head.get(1..64.min(head.len())).is_some_and(|b| b.iter().any(|x| *x < 9)) => (
            "a protobuf file, neither JSON nor a Perfetto trace with whole packets",
            "if it is a Perfetto trace of torch.profiler (.pftrace), its beginning is damaged: copy or record \
             it again",
        ),
        _ if head.get(257..262) == Some(b"ustar") => {
            ("a tar archive", "unpack it and give the traces inside")
        }
        [b'{', ..] if is_primus_dump(head) => {
            ("a Primus pipeline dump: chunk times only", "record torch.profiler traces")
        }
        _ => return damaged_magic(head),
    };
    Some(KinetoRefusal::OtherFormat { what, hint })
}

/// Whether a file begins with the chunks of a pipeline by iteration: `{"1": {"total": ..., "fwd_start": [`.
fn is_primus_dump(head: &[u8]) -> bool {
    let begin = head.get(..HEAD.min(head.len())).unwrap_or_default();
    let has = |key: &[u8]| begin.windows(key.len()).any(|w| w == key);
    has(b"\"total\"") && has(b"\"fwd_start\"")
}

/// Recognizes traces that were written or copied wrongly, by their first bytes.
pub(super) fn damaged_magic(head: &[u8]) -> Option<KinetoRefusal> {
    let (what, hint) = match head {
        [0x1f, 0x8b, ..] => ("a gzip file inside another packed one", "it was packed twice: unpack it once"),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            ("a zstd file inside another packed one", "it was packed twice: unpack it once")
        }
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] | [b'{' | b'[', 0, ..] | [0, b'{' | b'[', ..] => {
            ("text in UTF-16", "convert it to UTF-8, for example with `iconv -f UTF-16 -t UTF-8`")
        }
        [0, ..] if head.iter().take(HEAD).all(|b| *b == 0) => {
            ("zero bytes", "its disk or machine failed before the data was written: record it again")
        }
        _ if head.iter().take(64).any(|b| *b < 9) => ("a binary file", EXPORT_HINT),
        _ => return None,
    };
    Some(KinetoRefusal::NotATrace { what, hint })
}

/// The beginning of a second writer's trace.
pub(super) const SECOND_TRACE: &[u8] = b"\"schemaVersion\"";

/// Number of bytes that are checked to recognize other kinds of files.
pub(super) const HEAD: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dump_of_chunk_times_is_named() {
        let dump = br#"{"1": {"total": 7556.98, "memory": 84.3, "fwd_start": [0.04, 2746.57]"#;
        let what = |head: &[u8]| match foreign_magic(head) {
            Some(KinetoRefusal::OtherFormat { what, .. }) => what,
            _ => "",
        };
        assert!(what(dump).starts_with("a Primus pipeline dump"));
        assert_eq!(what(br#"{"schemaVersion": 1, "total": 3, "traceEvents": ["#), "");
    }
}
