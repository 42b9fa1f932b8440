//! Reads a trace file block by block: its top-level keys and the event array, with recovery from damage.
//!
//! [`Document::feed`] consumes what is complete in a buffer; the caller keeps the rest and appends more. So
//! memory holds one block, never the whole text, and metadata may precede or follow the events. A damaged
//! event is repaired or skipped up to the start of the next event; a damaged top-level value is skipped up to
//! the next key.

use crate::kineto::cursor::{Cursor, Parse, TokenError, TokenKind};
use crate::kineto::event::EventReader;
use crate::kineto::event_array::EventsEnd;
use crate::kineto::header;
use crate::kineto::number::Fraction;
use crate::kineto::recovery::{next_top_level_key, strict_value};
use crate::kineto::refusal::{HEAD, NOT_EVENTS, NOT_JSON, foreign_magic};
use crate::kineto::text::decode;
use crate::options::LoadOptions;
use crate::room::MemoryUse;
use hta_base::health::{Counter, Health};
use hta_base::units::Ns;
use hta_trace::meta::Meta;
use memchr::memmem;

pub use crate::kineto::refusal::KinetoRefusal;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DocumentState {
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
pub(super) enum AfterDocument {
    Document,
    /// More bytes are needed to decide.
    NeedMore,
    Else,
}

/// The state of reading one file.
pub struct Document {
    pub reader: EventReader,
    pub meta: Meta,
    pub(super) state: DocumentState,
    /// Offset of the buffer's first byte in the decompressed file.
    pub(super) offset: u64,
    pub(super) trailing_counted: bool,
    pub(super) trailing_events_counted: bool,
    /// Number of documents after the first one.
    pub(super) later_documents: u32,
    /// Rank and base time of the first document, set when another one begins.
    pub(super) first: Option<(Option<u32>, Option<Ns>)>,
    pub(super) event_arrays: u32,
    /// Whether the events of the current document have begun.
    pub(super) behind_events: bool,
    pub(super) root_is_array: bool,
    /// Top-level keys that identify the kind of file, each once.
    pub(super) telling: Vec<&'static str>,
    pub(super) last_key: Option<String>,
    /// Number of `schemaVersion` keys at the top level.
    pub(super) schemas: u32,
    /// Size of the metadata that is kept as text, bytes.
    pub(super) kept_bytes: u64,
    /// Whether the compressed data was cut: then the truncated document is not counted as a second loss.
    pub(super) source_cut: bool,
    /// Whether the text ends in the middle.
    pub(super) cut: bool,
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

    pub(super) fn enter_events(&mut self, root_is_array: bool) {
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
                    self.truncated(cut.map_or(buf.len(), |i| c.pos + i), cut.is_none());
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

    /// `is_between`: the text ends behind a complete event or key.
    fn truncated(&mut self, pos: usize, is_between: bool) {
        if !self.source_cut {
            self.reader.columns.health.hit(Counter::Truncated, self.offset + pos as u64);
        }
        let is_whole = match self.state {
            // Behind the events there are only other keys.
            DocumentState::TopLevel => self.behind_events,
            // The end of a bare list may be left out.
            DocumentState::Events { root_is_array: true } => is_between && !self.source_cut,
            _ => false,
        };
        self.reader.columns.is_cut |= !is_whole;
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
        // Checked before white space is skipped, because a protobuf file may begin with a byte that looks
        // like a line feed.
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
                self.truncated(before, false);
                c.pos = c.buf.len();
                Ok(true)
            }
            Err(TokenError::Syntax) => {
                // Continue at the next key, if there is one.
                let Some(next) = next_top_level_key(c.buf, before + 1, eof) else {
                    c.pos = before;
                    if eof {
                        let trace =
                            self.event_arrays > 0 || memmem::find(c.buf, b"\"traceEvents\"").is_some();
                        if !trace && self.last_key.is_none() {
                            return Err(NOT_JSON);
                        }
                        self.truncated(before, false);
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
        let key = decode(token.bytes(c.buf), token.kind == TokenKind::Escaped, &mut Health::default(), 0)
            .into_owned();
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
