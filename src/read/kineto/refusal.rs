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
        [0x0a, ..] if head.get(1..64.min(head.len())).is_some_and(|b| b.iter().any(|x| *x < 9)) => {
            ("a protobuf file (a Perfetto trace?)", EXPORT_HINT)
        }
        _ if head.get(257..262) == Some(b"ustar") => {
            ("a tar archive", "unpack it and give the traces inside")
        }
        _ => return damaged_magic(head),
    };
    Some(KinetoRefusal::OtherFormat { what, hint })
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
