//! What follows the end of a document in its file: another document, or something else.

use crate::kineto::cursor::Cursor;
use crate::kineto::document::{AfterDocument, Document, DocumentState};
use crate::kineto::refusal::KinetoRefusal;
use crate::kineto::refusal::SECOND_TRACE;
use hta_base::health::Counter;
use memchr::memmem;

impl Document {
    /// Whether a later document has another rank or base time.
    pub(super) fn is_of_another_trace(&self) -> bool {
        self.first.is_some_and(|(rank, base)| {
            (rank.is_some() && self.meta.rank != rank) || self.meta.base_ns != base
        })
    }

    pub(super) fn interleaved_in(&self, rest: &[u8]) -> bool {
        self.event_arrays > 0 && memmem::find(rest, SECOND_TRACE).is_some() && self.schemas > 0
    }

    pub(super) fn after_the_end(&mut self, c: &mut Cursor, eof: bool) -> Result<bool, KinetoRefusal> {
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
    pub(super) fn next_document(&mut self, c: &mut Cursor, at: usize, eof: bool) -> AfterDocument {
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
}
