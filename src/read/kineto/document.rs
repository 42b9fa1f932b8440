//! Reads a trace file block by block: its top-level keys and the event array, with recovery from damage.
//!
//! [`Document::feed`] consumes what is complete in a buffer; the caller keeps the rest and appends more. So memory
//! holds one block, never the whole text, and metadata may precede or follow the events. A damaged event is repaired or
//! skipped up to the start of the next event; a damaged top-level value is skipped up to the next key.

use crate::kineto::cursor::{Cursor, Parse, Token, TokenError, TokenKind};
use crate::kineto::event::{EventReader, Leniency};
use crate::kineto::header;
use crate::kineto::number::Fraction;
use crate::kineto::text::decode;
use crate::options::LoadOptions;
use crate::room::{MemoryUse, OutOfMemory};
use hta_base::health::{Counter, Health};
use hta_base::units::Ns;
use hta_trace::meta::Meta;
use hta_trace::recorders::SPEEDSCOPE;
use memchr::memmem;

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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DocumentState {
    Start,
    /// Between the keys of the top-level object.
    TopLevel,
    /// Inside the event array; the field says whether the file is a bare list.
    Events {
        root_is_array: bool,
    },
    Done,
}

/// What follows the end of a document.
enum AfterDocument {
    Document,
    /// More bytes are needed to decide.
    NeedMore,
    Else,
}

/// How reading the event array ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventsEnd {
    /// The buffer ends inside or right before an event.
    NeedMore,
    /// `]` was consumed.
    Closed,
    /// The stop position was reached at the start of an event.
    Stopped,
}

/// The state of reading one file.
pub struct Document {
    pub reader: EventReader,
    pub meta: Meta,
    state: DocumentState,
    /// Offset of the buffer's first byte in the decompressed file.
    offset: u64,
    trailing_counted: bool,
    trailing_events_counted: bool,
    /// Number of documents after the first one.
    later_documents: u32,
    /// Rank and base time of the first document, set when another one begins.
    first: Option<(Option<u32>, Option<Ns>)>,
    event_arrays: u32,
    /// Whether the events of the current document have begun.
    behind_events: bool,
    root_is_array: bool,
    /// Top-level keys that identify the kind of file, each once.
    telling: Vec<&'static str>,
    last_key: Option<String>,
    /// Number of `schemaVersion` keys at the top level.
    schemas: u32,
    /// Size of the metadata that is kept as text, bytes.
    kept_bytes: u64,
    /// Whether the compressed data was cut: then the truncated document is not counted as a second loss.
    source_cut: bool,
    /// Whether the text ends in the middle.
    cut: bool,
}

impl Document {
    pub fn new(options: LoadOptions) -> Self {
        Self {
            reader: EventReader::new(options),
            meta: Meta::default(),
            state: DocumentState::Start,
            offset: 0,
            trailing_counted: false,
            trailing_events_counted: false,
            later_documents: 0,
            first: None,
            event_arrays: 0,
            behind_events: false,
            root_is_array: false,
            telling: Vec::new(),
            last_key: None,
            schemas: 0,
            kept_bytes: 0,
            source_cut: false,
            cut: false,
        }
    }

    /// A document whose times have fractions of the given kind.
    pub(super) fn with_fraction(options: LoadOptions, fraction: Fraction) -> Self {
        let mut document = Self::new(options);
        document.reader.fraction = fraction;
        document
    }

    /// Whether the position is inside the event array, between events.
    pub(crate) fn in_events(&self) -> bool {
        matches!(self.state, DocumentState::Events { .. })
    }

    /// Memory of what has been read, in addition to `buffers` bytes of text.
    pub(crate) fn held(&self, buffers: u64) -> MemoryUse {
        let texts = self.reader.columns.strings.held_bytes();
        let columns = self.reader.columns.held_bytes().saturating_sub(texts);
        let buffers = buffers + self.kept_bytes;
        MemoryUse { columns, texts, buffers, unpacked: self.offset, is_whole: false }
    }

    pub fn root_is_array(&self) -> bool {
        self.root_is_array
    }

    fn enter_events(&mut self, root_is_array: bool) {
        self.event_arrays += 1;
        self.behind_events = true;
        if self.later_documents == 0 {
            self.root_is_array = root_is_array;
        }
        self.state = DocumentState::Events { root_is_array };
        if let Some(sink) = &mut self.reader.sink {
            sink.events_begin(root_is_array);
        }
    }

    /// Reads what is complete in `buf` and returns the number of bytes consumed. `eof`: nothing follows.
    pub fn feed(&mut self, buf: &[u8], eof: bool) -> Result<usize, KinetoRefusal> {
        let mut c = Cursor::new(buf, 0);
        loop {
            let before = c.pos;
            let step = match self.state {
                DocumentState::Start => self.start(&mut c, eof)?,
                DocumentState::TopLevel => self.top_level(&mut c, eof)?,
                DocumentState::Events { root_is_array } => {
                    let end = self.reader.events(&mut c, self.offset, eof, None)?;
                    match end {
                        EventsEnd::Closed if root_is_array => self.state = DocumentState::Done,
                        EventsEnd::Closed => self.state = DocumentState::TopLevel,
                        EventsEnd::NeedMore | EventsEnd::Stopped => {}
                    }
                    end == EventsEnd::Closed
                }
                DocumentState::Done => self.after_the_end(&mut c, eof)?,
            };
            if !step {
                if eof && c.pos == before && self.state != DocumentState::Done {
                    // Position of the truncated part, whether or not the comma before it was read.
                    let cut = buf[c.pos..].iter().position(|b| *b > b' ' && *b != b',');
                    self.truncated(cut.map_or(buf.len(), |i| c.pos + i));
                    c.pos = buf.len();
                }
                self.offset += c.pos as u64;
                return Ok(c.pos);
            }
        }
    }

    /// Reads the last bytes of the file. `cut`: the source has already reported that it was cut.
    pub fn feed_last(&mut self, mut buf: &[u8], cut: bool) -> Result<(), KinetoRefusal> {
        self.source_cut = cut;
        loop {
            let used = self.feed(buf, true)?;
            buf = &buf[used..];
            if self.state == DocumentState::Done && buf.is_empty() || self.state == DocumentState::Start {
                return Ok(());
            }
        }
    }

    /// Advances by `bytes` inside the event array, which another reader has consumed.
    pub(crate) fn advance_in_events(&mut self, bytes: u64, closed: bool) {
        self.offset += bytes;
        if closed {
            self.state = match self.state {
                DocumentState::Events { root_is_array: true } => DocumentState::Done,
                _ => DocumentState::TopLevel,
            };
        }
    }

    /// Offset of the next unread byte in the decompressed file.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Checks at the end of the file that it contained events.
    pub fn finish(&mut self) -> Result<(), KinetoRefusal> {
        if self.state == DocumentState::Start {
            return Err(KinetoRefusal::Empty);
        }
        if self.event_arrays == 0 {
            return Err(self.what_it_is());
        }
        let of_own = 1 + self.later_documents;
        let again = u64::from(self.event_arrays.saturating_sub(of_own));
        self.reader.columns.health.add(Counter::DuplicateKey, again, None, "traceEvents");
        Ok(())
    }

    fn truncated(&mut self, pos: usize) {
        if !self.source_cut {
            self.reader.columns.health.hit(Counter::Truncated, self.offset + pos as u64);
        }
        self.cut = true;
        self.state = DocumentState::Done;
    }

    fn start(&mut self, c: &mut Cursor, eof: bool) -> Result<bool, KinetoRefusal> {
        // The kind of file can be recognized only from several bytes.
        if !eof && c.buf.len() < HEAD {
            return Ok(false);
        }
        if c.buf[c.pos..].starts_with(b"\xef\xbb\xbf") {
            c.pos += 3;
        }
        // Checked before white space is skipped, because a protobuf file may begin with a byte that looks like a line
        // feed.
        if let Some(refusal) = foreign_magic(&c.buf[c.pos..]) {
            return Err(refusal);
        }
        let Ok(first) = c.peek() else {
            return if eof { Err(KinetoRefusal::Empty) } else { Ok(false) };
        };
        match first {
            b'{' => self.state = DocumentState::TopLevel,
            b'[' => {
                let mut ahead = Cursor::new(c.buf, c.pos + 1);
                match ahead.peek() {
                    Ok(b'{') => {}
                    Ok(b']') => return Err(KinetoRefusal::NoEvents),
                    Ok(b'[') => {
                        return Err(KinetoRefusal::OtherFormat {
                            what: "a list of lists (a memory timeline)",
                            hint: "give the Kineto trace that `export_chrome_trace` wrote beside it",
                        });
                    }
                    Ok(_) => return Err(NOT_EVENTS),
                    Err(_) if eof => return Err(KinetoRefusal::NoEvents),
                    Err(_) => return Ok(false),
                }
                self.reader.columns.health.hit(Counter::RootArray, self.offset);
                self.enter_events(true);
            }
            _ => return Err(NOT_JSON),
        }
        c.pos += 1;
        Ok(true)
    }

    /// Reads one top-level key with its value. `false`: more bytes are needed.
    fn top_level(&mut self, c: &mut Cursor, eof: bool) -> Result<bool, KinetoRefusal> {
        let (before, schemas) = (c.pos, self.schemas);
        match self.top_level_key(c) {
            Ok(()) => self.known_foreign().map_or(Ok(true), Err),
            Err(TokenError::Incomplete) if !eof => {
                c.pos = before;
                Ok(false)
            }
            Err(TokenError::Incomplete) => {
                c.pos = before;
                if self.interleaved_in(&c.buf[before..]) {
                    return Err(KinetoRefusal::Interleaved { byte: self.offset + before as u64 });
                }
                self.truncated(before);
                c.pos = c.buf.len();
                Ok(true)
            }
            Err(TokenError::Syntax) => {
                // Continue at the next key, if there is one.
                let Some(next) = next_top_level_key(c.buf, before + 1, eof) else {
                    c.pos = before;
                    if eof {
                        let trace = self.event_arrays > 0 || memmem::find(c.buf, b"\"traceEvents\"").is_some();
                        if !trace && self.last_key.is_none() {
                            return Err(NOT_JSON);
                        }
                        self.truncated(before);
                        c.pos = c.buf.len();
                        return Ok(true);
                    }
                    // The key will be read again with more bytes.
                    self.schemas = schemas;
                    return Ok(false);
                };
                let at = self.offset + before as u64;
                let key = self.last_key.clone().unwrap_or_default();
                self.reader.columns.health.add(Counter::TopLevelSkipped, 1, Some(at), &key);
                c.pos = next;
                Ok(true)
            }
        }
        .and_then(|more| {
            if self.seen_schema_twice() || self.is_of_another_trace() {
                Err(KinetoRefusal::Interleaved { byte: self.offset + before as u64 })
            } else {
                Ok(more)
            }
        })
    }

    fn top_level_key(&mut self, c: &mut Cursor) -> Parse<()> {
        match c.peek()? {
            b',' => {
                c.pos += 1;
                return Ok(());
            }
            b'}' => {
                c.pos += 1;
                self.state = DocumentState::Done;
                return Ok(());
            }
            b'"' => {}
            _ => return Err(TokenError::Syntax),
        }
        let token = c.string()?;
        let key = decode(token.bytes(c.buf), token.kind == TokenKind::Escaped, &mut Health::default(), 0).into_owned();
        c.expect(b':')?;
        if key == "traceEvents" && c.peek()? == b'[' {
            c.pos += 1;
            self.enter_events(false);
            return Ok(());
        }
        if key == "nodes" || key == "rocprofiler-sdk-tool" {
            // Another kind of file as a whole; stop reading.
            self.saw(key);
            return Ok(());
        }
        let start = c.pos;
        let value = match strict_value(c) {
            Err(TokenError::Syntax) => {
                self.saw(key);
                c.pos = start;
                return Err(TokenError::Syntax);
            }
            other => other?,
        };
        let raw = &c.buf[value.start..value.end];
        let at = self.offset + value.start as u64;
        // Kineto has always written the name of the trace after the events, so that key is not counted.
        let health = &mut self.reader.columns.health;
        if self.behind_events && key != "traceName" && health.count(Counter::MetadataAfter) == 0 {
            health.hit(Counter::MetadataAfter, at);
        }
        header::take(&mut self.meta, &key, raw, &mut self.reader.columns.health, at);
        if let Some(sink) = self.reader.sink.as_mut().filter(|_| self.later_documents == 0) {
            sink.member(&key, raw);
        }
        // The text plus its share of the map.
        self.kept_bytes += (raw.len() + 2 * key.len() + 128) as u64;
        self.saw(key);
        Ok(())
    }

    fn saw(&mut self, key: String) {
        self.schemas += u32::from(key == "schemaVersion");
        if let Some(known) = TELLING.into_iter().find(|k| *k == key)
            && !self.telling.contains(&known)
        {
            self.telling.push(known);
        }
        self.last_key = Some(key);
    }

    fn seen_schema_twice(&mut self) -> bool {
        self.schemas > 1
    }

    /// Whether a later document has another rank or base time.
    fn is_of_another_trace(&self) -> bool {
        self.first.is_some_and(|(rank, base)| (rank.is_some() && self.meta.rank != rank) || self.meta.base_ns != base)
    }

    fn interleaved_in(&self, rest: &[u8]) -> bool {
        self.event_arrays > 0 && memmem::find(rest, SECOND_TRACE).is_some() && self.schemas > 0
    }

    fn after_the_end(&mut self, c: &mut Cursor, eof: bool) -> Result<bool, KinetoRefusal> {
        let is_blank = |b: &u8| matches!(b, b' ' | b'\n' | b'\r' | b'\t');
        if let Some(i) = c.buf[c.pos..].iter().position(|b| !is_blank(b)) {
            let at = self.offset + (c.pos + i) as u64;
            if !self.trailing_counted && !self.cut {
                match self.next_document(c, c.pos + i, eof) {
                    AfterDocument::Document => return Ok(true),
                    AfterDocument::NeedMore => {
                        c.pos += i;
                        return Ok(false);
                    }
                    AfterDocument::Else => {}
                }
            }
            if let Some(second) = memmem::find(&c.buf[c.pos..], SECOND_TRACE) {
                return Err(KinetoRefusal::Interleaved { byte: self.offset + (c.pos + second) as u64 });
            }
            if !self.trailing_counted {
                self.reader.columns.health.hit(Counter::TrailingData, at);
                self.trailing_counted = true;
            }
            if !self.trailing_events_counted
                && let Some(event) = memmem::find(&c.buf[c.pos..], b"\"ph\"")
            {
                let health = &mut self.reader.columns.health;
                health.hit(Counter::TrailingEvents, self.offset + (c.pos + event) as u64);
                self.trailing_events_counted = true;
            }
        }
        // Keep the bytes in which a key may be cut by the end of the buffer.
        let rest = if eof { 0 } else { SECOND_TRACE.len() - 1 };
        c.pos = c.buf.len().saturating_sub(rest).max(c.pos);
        Ok(false)
    }

    /// Continues with another document that begins at `at`, if there is one.
    fn next_document(&mut self, c: &mut Cursor, at: usize, eof: bool) -> AfterDocument {
        let mut ahead = Cursor::new(c.buf, at + 1);
        let is_list = match (c.buf.get(at), ahead.peek()) {
            (Some(b'{'), Ok(b'"')) => false,
            (Some(b'['), Ok(b'{')) => true,
            (Some(b'{' | b'['), Err(_)) if !eof => return AfterDocument::NeedMore,
            _ => return AfterDocument::Else,
        };
        self.reader.columns.health.hit(Counter::LaterDocument, self.offset + at as u64);
        self.later_documents += 1;
        self.first.get_or_insert((self.meta.rank, self.meta.base_ns));
        (self.schemas, self.behind_events, self.last_key) = (0, false, None);
        c.pos = at + 1;
        if is_list {
            self.enter_events(true)
        } else {
            self.state = DocumentState::TopLevel
        }
        AfterDocument::Document
    }

    /// Recognizes other kinds of files by a key, before the whole file is read.
    fn known_foreign(&self) -> Option<KinetoRefusal> {
        if self.event_arrays > 0 {
            return None;
        }
        match self.last_key.as_deref() {
            Some("nodes") | Some("rocprofiler-sdk-tool") => Some(self.what_it_is()),
            _ => None,
        }
    }

    fn what_it_is(&self) -> KinetoRefusal {
        let has = |key: &str| self.telling.contains(&key);
        if has("nodes") {
            return KinetoRefusal::OtherFormat {
                what: "a PyTorch execution trace (`nodes`)",
                hint: "give the Kineto trace that was recorded with it",
            };
        }
        if has("rocprofiler-sdk-tool") {
            return KinetoRefusal::OtherFormat {
                what: "a rocprofv3 file",
                hint: "record with `torch.profiler` and export a Chrome trace",
            };
        }
        if has("traceEvents") {
            return KinetoRefusal::NoEvents;
        }
        if has("profiles") {
            return KinetoRefusal::OtherFormat { what: SPEEDSCOPE.what, hint: SPEEDSCOPE.hint };
        }
        if self.cut && ["schemaVersion", "deviceProperties", "distributedInfo"].into_iter().any(has) {
            return KinetoRefusal::CutBeforeEvents;
        }
        if self.cut {
            return KinetoRefusal::NotATrace {
                what: "the start of a JSON file, cut before any `traceEvents`",
                hint: "the file may still be being written, or its disk was full: record it again",
            };
        }
        KinetoRefusal::NotATrace { what: "JSON without `traceEvents`", hint: EXPORT_HINT }
    }
}

/// Top-level keys that identify the kind of file.
const TELLING: [&str; 7] = [
    "nodes",
    "profiles",
    "rocprofiler-sdk-tool",
    "traceEvents",
    "schemaVersion",
    "deviceProperties",
    "distributedInfo",
];

/// The beginning of a second writer's trace.
const SECOND_TRACE: &[u8] = b"\"schemaVersion\"";

/// Number of bytes that are checked to recognize other kinds of files.
const HEAD: usize = 512;

const EXPORT_HINT: &str = "hta reads what `torch.profiler`'s `export_chrome_trace` writes";
const NOT_JSON: KinetoRefusal = KinetoRefusal::NotATrace { what: "not JSON", hint: EXPORT_HINT };
const NOT_EVENTS: KinetoRefusal =
    KinetoRefusal::NotATrace { what: "a JSON list that holds no events", hint: EXPORT_HINT };

/// Recognizes other kinds of files, and damaged traces, by their first bytes.
fn foreign_magic(head: &[u8]) -> Option<KinetoRefusal> {
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
        _ if head.get(257..262) == Some(b"ustar") => ("a tar archive", "unpack it and give the traces inside"),
        _ => return damaged_magic(head),
    };
    Some(KinetoRefusal::OtherFormat { what, hint })
}

/// Recognizes traces that were written or copied wrongly, by their first bytes.
fn damaged_magic(head: &[u8]) -> Option<KinetoRefusal> {
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

impl EventReader {
    /// Reads events from inside the array until it closes, the buffer ends, or an event starts at or after `stop`.
    /// Leaves the cursor after the last event that was consumed.
    pub(crate) fn events(
        &mut self,
        c: &mut Cursor,
        offset: u64,
        eof: bool,
        stop: Option<usize>,
    ) -> Result<EventsEnd, KinetoRefusal> {
        let mut comma: Option<usize> = None;
        loop {
            let before = c.pos;
            match c.peek() {
                Err(_) => {
                    // Go back before the comma, so that a trailing one is detected when more bytes are there.
                    c.pos = comma.unwrap_or(before);
                    return Ok(EventsEnd::NeedMore);
                }
                Ok(b',') => {
                    if comma.is_some() {
                        self.columns.health.hit(Counter::TrailingComma, offset + c.pos as u64);
                    }
                    comma = Some(c.pos);
                    c.pos += 1;
                    continue;
                }
                Ok(b']') => {
                    if let Some(at) = comma {
                        self.columns.health.hit(Counter::TrailingComma, offset + at as u64);
                    }
                    c.pos += 1;
                    return Ok(EventsEnd::Closed);
                }
                Ok(_) => {}
            }
            if stop.is_some_and(|s| c.pos >= s) {
                return Ok(EventsEnd::Stopped);
            }
            let start = c.pos;
            let at = offset + start as u64;
            let step = if c.buf[start] == b'{' {
                self.collect(c, Leniency::Strict)
            } else {
                match c.value().and_then(|_| c.peek()) {
                    Ok(b',' | b']') => {
                        self.columns.health.hit(Counter::EventNotObject, at);
                        comma = None;
                        continue;
                    }
                    Ok(_) => Err(TokenError::Syntax),
                    Err(halt) => Err(halt),
                }
            };
            match step {
                Ok(()) => self.commit(c.buf, at),
                Err(TokenError::Incomplete) if !eof => {
                    c.pos = comma.unwrap_or(start);
                    return Ok(EventsEnd::NeedMore);
                }
                Err(halt) => match self.recover(c, start, halt, offset, eof)? {
                    Some(next) => c.pos = next,
                    None => {
                        c.pos = comma.unwrap_or(start);
                        return Ok(EventsEnd::NeedMore);
                    }
                },
            }
            comma = None;
        }
    }

    /// Repairs or skips a damaged event and returns where reading continues. `None`: more bytes are needed, or (at the
    /// end of the file) the event is truncated.
    #[cold]
    fn recover(
        &mut self,
        c: &Cursor,
        start: usize,
        halt: TokenError,
        offset: u64,
        eof: bool,
    ) -> Result<Option<usize>, KinetoRefusal> {
        let at = offset + start as u64;
        let next = next_event(c.buf, start + 1);
        if next.is_none() && (!eof || halt == TokenError::Incomplete) {
            if eof && memmem::find(&c.buf[start..], SECOND_TRACE).is_some() {
                return Err(KinetoRefusal::Interleaved { byte: at });
            }
            return Ok(None);
        }
        // The last event of the file: continue after it, at the end of the array.
        let limit = next.or_else(|| array_end(c.buf, start)).unwrap_or(c.buf.len());
        let damaged = &c.buf[..limit];
        if memmem::find(&damaged[start..], SECOND_TRACE).is_some() {
            return Err(KinetoRefusal::Interleaved { byte: at });
        }
        if damaged[start] == b'{' {
            let mut again = Cursor::new(damaged, start);
            if self.collect(&mut again, Leniency::LooseName).is_ok() {
                self.commit(damaged, at);
                return Ok(Some(again.pos));
            }
            // Only the arguments are damaged, possibly in addition to the name.
            for rules in [Leniency::Strict, Leniency::LooseName] {
                let _ = self.collect(&mut Cursor::new(damaged, start), rules);
                if self.scratch.can_do_without_args() {
                    self.drop_args(at);
                    self.commit(damaged, at);
                    return Ok(Some(limit));
                }
            }
        }
        self.columns.health.hit(Counter::EventUnreadable, at);
        Ok(Some(limit))
    }
}

/// The next position that looks like the start of an event: `{` and a key with which events begin, after a comma or the
/// array's bracket.
///
/// Searches ever larger ranges: the next event is nearly always close, while a key with which no event begins would be
/// searched to the end of the buffer for each damaged event.
pub(crate) fn next_event(buf: &[u8], from: usize) -> Option<usize> {
    let reaches = [1 << 12, 1 << 16, usize::MAX].map(|r| from.saturating_add(r).min(buf.len()));
    reaches.into_iter().find_map(|end| next_event_within(buf.get(..end)?, from))
}

fn next_event_within(buf: &[u8], from: usize) -> Option<usize> {
    let mut best: Option<usize> = None;
    for key in [&b"\"ph\""[..], b"\"name\"", b"\"cat\"", b"\"args\"", b"\"pid\"", b"\"ts\""] {
        let window = &buf[..best.map_or(buf.len(), |b| (b + 64).min(buf.len()))];
        let hits = memmem::find_iter(window.get(from..).unwrap_or_default(), key);
        for hit in hits {
            let Some(brace) = last_non_blank(buf, from + hit) else { continue };
            let starts = buf[brace] == b'{'
                && brace >= from
                && last_non_blank(buf, brace).is_some_and(|p| matches!(buf[p], b',' | b'[' | b'}'));
            if starts {
                best = Some(best.map_or(brace, |b| b.min(brace)));
                break;
            }
        }
    }
    best
}

/// The last byte before `at` that is not white space.
fn last_non_blank(buf: &[u8], at: usize) -> Option<usize> {
    buf[..at].iter().rposition(|b| *b > b' ')
}

/// The `]` that closes the event array, searched from a damaged last event: it is followed by another key, by the
/// closing brace, or by nothing.
fn array_end(buf: &[u8], from: usize) -> Option<usize> {
    memchr::memchr_iter(b']', &buf[from..]).map(|i| from + i).find(|&i| {
        let mut c = Cursor::new(buf, i + 1);
        match c.peek() {
            Err(_) => true,
            Ok(b'}') => {
                c.pos += 1;
                c.peek().is_err()
            }
            Ok(b',') => is_key(Cursor::new(buf, c.pos + 1)),
            Ok(_) => false,
        }
    })
}

fn is_key(mut c: Cursor) -> bool {
    matches!(c.peek(), Ok(b'"')) && c.string().is_ok() && matches!(c.peek(), Ok(b':'))
}

/// The start of the next top-level key after a value that is not JSON: after a bracket, quote or brace that is followed
/// by a comma and `"key":`, or at the object's closing brace.
fn next_top_level_key(buf: &[u8], from: usize, eof: bool) -> Option<usize> {
    let mut at = from;
    while let Some(i) = memchr::memchr2(b',', b'}', buf.get(at..)?) {
        let i = at + i;
        at = i + 1;
        let before = last_non_blank(buf, i).map(|p| buf[p]);
        if !matches!(before, Some(b']' | b'"' | b'}' | b'0'..=b'9' | b'e' | b'l')) {
            continue;
        }
        let mut c = Cursor::new(buf, at);
        match buf[i] {
            b'}' if eof && c.peek().is_err() => return Some(i),
            b',' if plausible_key(c) => return Some(i),
            _ => {}
        }
    }
    None
}

/// Whether a quoted word and a colon follow. Metadata keys contain no punctuation, log lines do.
fn plausible_key(mut c: Cursor) -> bool {
    if !matches!(c.peek(), Ok(b'"')) {
        return false;
    }
    let Ok(key) = c.string() else { return false };
    let word = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
    !key.bytes(c.buf).is_empty() && key.bytes(c.buf).iter().all(word) && matches!(c.peek(), Ok(b':'))
}

/// A value that is checked token by token, so that a list with bare quotes inside fails where it breaks, instead of
/// swallowing what follows.
fn strict_value(c: &mut Cursor) -> Parse<Token> {
    c.peek()?;
    let start = c.pos;
    let mut open: Vec<u8> = Vec::new();
    let mut want_value = true;
    loop {
        let b = c.peek()?;
        if want_value {
            match b {
                b'{' | b'[' => {
                    open.push(b);
                    c.pos += 1;
                    let close = if b == b'{' { b'}' } else { b']' };
                    if c.peek()? == close {
                        c.pos += 1;
                        open.pop();
                        want_value = false;
                    } else if b == b'{' {
                        member_key(c)?;
                    }
                }
                _ => {
                    c.value()?;
                    want_value = false;
                }
            }
        } else {
            match (b, open.last()) {
                (b',', Some(b'{')) => {
                    c.pos += 1;
                    member_key(c)?;
                    want_value = true;
                }
                (b',', Some(b'[')) => {
                    c.pos += 1;
                    want_value = true;
                }
                (b'}', Some(b'{')) | (b']', Some(b'[')) => {
                    c.pos += 1;
                    open.pop();
                }
                _ => return Err(TokenError::Syntax),
            }
        }
        if !want_value && open.is_empty() {
            let end = c.pos;
            return match c.peek()? {
                b',' | b'}' => {
                    c.pos = end;
                    Ok(Token { start, end, kind: TokenKind::Nested })
                }
                _ => Err(TokenError::Syntax),
            };
        }
    }
}

fn member_key(c: &mut Cursor) -> Parse<()> {
    if c.peek()? != b'"' {
        return Err(TokenError::Syntax);
    }
    c.string()?;
    c.expect(b':')
}
