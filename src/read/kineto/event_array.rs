//! The events of a file, one after the other: a damaged one is repaired or skipped.

use crate::kineto::cursor::{Cursor, TokenError};
use crate::kineto::event::EventReader;
use crate::kineto::event::Leniency;
use crate::kineto::recovery::{array_end, next_event};
use crate::kineto::refusal::KinetoRefusal;
use crate::kineto::refusal::SECOND_TRACE;
use hta_base::health::Counter;
use memchr::memmem;

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

impl EventReader {
    /// Reads events from inside the array until it closes, the buffer ends, or an event starts at or after
    /// `stop`. Leaves the cursor after the last event that was consumed.
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

    /// Repairs or skips a damaged event and returns where reading continues. `None`: more bytes are needed,
    /// or (at the end of the file) the event is truncated.
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
