//! Events that the readers of other formats compose: the same tokens as those of JSON, over a small buffer
//! that is used again for each event. So an argument means the same whatever file it is in.

use crate::kineto::cursor::{Token, TokenKind};
use crate::kineto::event::{EventReader, arg_step};
use crate::kineto::gaps::GapEnd;
use hta_base::units::Ns;
use hta_trace::args::{Need, is_about_collectives};
use hta_trace::category::{Class, is_counter_range};
use hta_trace::flops::has_model;
use hta_trace::strings::StrId;
use std::cell::Cell;

/// Longest text that is copied for each of its events, bytes. A longer one is interned when the first event
/// has it, so that the work grows with the file. It is no name of an operator whose arguments are needed.
const LONGEST_COPIED: usize = 8 << 10;

/// A text of an event. `id` remembers the id of one that a file holds once for many events.
#[derive(Clone, Copy)]
pub(crate) struct EventText<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) id: Option<&'a Cell<Option<StrId>>>,
}

impl<'a> From<&'a [u8]> for EventText<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self { bytes, id: None }
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for EventText<'a> {
    fn from(bytes: &'a [u8; N]) -> Self {
        bytes.as_slice().into()
    }
}

/// An event that is being composed. Its name and its category come before its arguments.
pub(crate) struct ComposedEvent<'a> {
    reader: &'a mut EventReader,
    buf: &'a mut Vec<u8>,
    /// Its offset in the unpacked file.
    at: u64,
    /// Whether arguments without a column are kept.
    keeps_rest: bool,
    needs_inputs: Option<bool>,
}

impl<'a> ComposedEvent<'a> {
    /// Begins an event of a phase: `X`, `C`, `M`, `i`. `at` is its offset in the unpacked file.
    pub(crate) fn new(reader: &'a mut EventReader, buf: &'a mut Vec<u8>, phase: u8, at: u64) -> Self {
        buf.clear();
        reader.scratch.clear();
        reader.scratch.ph = raw(buf, &[phase]);
        let keeps_rest = reader.options.rest_args;
        Self { reader, buf, at, keeps_rest, needs_inputs: None }
    }

    pub(crate) fn name<'t>(&mut self, name: impl Into<EventText<'t>>) {
        self.reader.scratch.name = self.text(name.into());
    }

    pub(crate) fn category<'t>(&mut self, category: impl Into<EventText<'t>>) {
        let category = category.into();
        self.reader.scratch.cat = self.text(category);
        self.keeps_rest |= is_counter_range(category.bytes);
    }

    /// The process and the thread, or the device and the stream.
    pub(crate) fn place<'t>(&mut self, pid: impl Into<EventText<'t>>, tid: impl Into<EventText<'t>>) {
        self.reader.scratch.pid = self.text(pid.into());
        self.reader.scratch.tid = self.text(tid.into());
    }

    /// Writes a text, or its id if it is long and many events have it.
    fn text(&mut self, text: EventText) -> Token {
        let Some(known) = text.id.filter(|_| text.bytes.len() > LONGEST_COPIED) else {
            return raw(self.buf, text.bytes);
        };
        let id = known.get().unwrap_or_else(|| {
            let token = Token { start: 0, end: text.bytes.len(), kind: TokenKind::Text };
            self.reader.texts.intern(token, text.bytes, &mut self.reader.columns, self.at)
        });
        known.set(Some(id));
        Token { start: 0, end: 0, kind: TokenKind::Interned(id) }
    }

    pub(crate) fn start(&mut self, ts: Ns) {
        self.reader.scratch.exact_ts = Some(ts);
    }

    pub(crate) fn duration(&mut self, dur: Ns) {
        self.reader.scratch.exact_dur = Some(dur);
    }

    /// The name of a process or thread, of an event of phase `M`.
    pub(crate) fn label<'t>(&mut self, label: impl Into<EventText<'t>>) {
        self.reader.scratch.label = self.text(label.into());
    }

    /// Whether the arguments of the event are needed: of some events only the extent is kept.
    pub(crate) fn needs_arguments(&mut self) -> bool {
        if !self.reader.options.device_only {
            return true;
        }
        let category = usize::from(self.reader.category(self.buf, self.at));
        let class = self.reader.columns.categories.get(category).map_or(Class::Unknown, |c| c.class);
        !self.reader.is_unneeded(class)
    }

    /// An argument. `write` is called if it is kept, and writes the value.
    pub(crate) fn argument(&mut self, key: &[u8], write: impl FnOnce(&mut Vec<u8>) -> Token) {
        self.add(arg_step(key, &self.reader.wanted), key, write);
    }

    /// An argument that is left out if the event has it already.
    pub(crate) fn default_argument(&mut self, key: &[u8], write: impl FnOnce(&mut Vec<u8>) -> Token) {
        let step = arg_step(key, &self.reader.wanted);
        if !self.has(step) {
            self.add(step, key, write);
        }
    }

    /// An argument that is kept as text only if the event has it already.
    pub(crate) fn further_argument(&mut self, key: &[u8], write: impl FnOnce(&mut Vec<u8>) -> Token) {
        let step = arg_step(key, &self.reader.wanted);
        let step = if self.has(step) { GapEnd::Other { label: false } } else { step };
        self.add(step, key, write);
    }

    /// An argument that is kept as text only, although a column has its name.
    pub(crate) fn rest_argument(&mut self, key: &[u8], write: impl FnOnce(&mut Vec<u8>) -> Token) {
        self.add(GapEnd::Other { label: false }, key, write);
    }

    /// Whether the event has an argument of this meaning.
    fn has(&self, step: GapEnd) -> bool {
        match step {
            GapEnd::Arg(arg) => self.reader.scratch.args.iter().any(|(known, ..)| *known == arg),
            GapEnd::Device(field) => self.reader.scratch.fields.iter().any(|(known, _)| *known == field),
            _ => false,
        }
    }

    fn add(&mut self, step: GapEnd, key: &[u8], write: impl FnOnce(&mut Vec<u8>) -> Token) {
        let is_kept = match step {
            GapEnd::Unwanted => false,
            GapEnd::Arg(arg) => arg.spec().need != Need::Inputs || self.needs_inputs(),
            GapEnd::Other { .. } => self.keeps_rest,
            _ => true,
        };
        if !is_kept {
            return;
        }
        let at = self.buf.len();
        // The key of a column is needed only where a value may become text.
        if self.keeps_rest || !matches!(step, GapEnd::Arg(_)) {
            text(self.buf, key);
            self.buf.push(b':');
        }
        let value = write(self.buf);
        self.reader.keep_argument((step, at), value, self.buf, self.keeps_rest);
    }

    /// Whether the inputs of the operator say something to an analysis.
    fn needs_inputs(&mut self) -> bool {
        let reader = &*self.reader;
        let name = reader.scratch.name.bytes(self.buf);
        *self.needs_inputs.get_or_insert_with(|| {
            // A name that `emit_nvtx` wrote contains the operator's.
            let is_marked = name.ends_with(b"]") || name.last().is_some_and(u8::is_ascii_digit);
            reader.options.event_args || is_marked || is_about_collectives(name) || has_model(name)
        })
    }

    /// Makes the event a row, if it is one.
    pub(crate) fn commit(self) -> Option<u32> {
        let rows = self.reader.columns.len();
        self.reader.commit(self.buf, self.at);
        (self.reader.columns.len() > rows).then_some(rows as u32)
    }
}

/// Writes bytes as they are: for a text that is no part of JSON.
fn raw(buf: &mut Vec<u8>, bytes: &[u8]) -> Token {
    let start = buf.len();
    buf.extend_from_slice(bytes);
    Token { start, end: buf.len(), kind: TokenKind::Text }
}

/// Writes a JSON string.
pub(crate) fn text(buf: &mut Vec<u8>, bytes: &[u8]) -> Token {
    buf.push(b'"');
    let start = buf.len();
    let mut kind = TokenKind::Text;
    let needs_escape = |b: u8| matches!(b, b'"' | b'\\' | 0..0x20);
    // Without a way out of the loop, several bytes are looked at at once.
    if bytes.iter().fold(false, |found, b| found | needs_escape(*b)) {
        kind = TokenKind::Escaped;
        for &b in bytes {
            match b {
                b'"' | b'\\' => buf.extend([b'\\', b]),
                0..0x20 => buf.extend(format!("\\u{b:04x}").into_bytes()),
                _ => buf.push(b),
            }
        }
    } else {
        buf.extend_from_slice(bytes);
    }
    let end = buf.len();
    buf.push(b'"');
    Token { start, end, kind }
}

/// Writes a number or another word.
pub(crate) fn bare(buf: &mut Vec<u8>, bytes: &[u8]) -> Token {
    Token { kind: TokenKind::Bare, ..raw(buf, bytes) }
}

/// Writes an integer.
pub(crate) fn integer(buf: &mut Vec<u8>, value: i64) -> Token {
    let start = buf.len();
    if value < 0 {
        buf.push(b'-');
    }
    decimal(buf, value.unsigned_abs());
    Token { start, end: buf.len(), kind: TokenKind::Bare }
}

/// Writes an integer that has no sign.
pub(crate) fn unsigned(buf: &mut Vec<u8>, value: u64) -> Token {
    let start = buf.len();
    decimal(buf, value);
    Token { start, end: buf.len(), kind: TokenKind::Bare }
}

/// Writes a number with as many digits as tell it from any other.
pub(crate) fn float(buf: &mut Vec<u8>, value: f64) -> Token {
    bare(buf, format!("{value:?}").as_bytes())
}

fn decimal(buf: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    buf.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::LoadOptions;
    use hta_trace::args::Arg;
    use hta_trace::strings::StrId;

    #[test]
    fn a_composed_event_becomes_the_row_of_its_json() {
        let options = LoadOptions { rest_args: true, ..LoadOptions::default() };
        let (mut reader, mut buf) = (EventReader::new(options), Vec::new());
        let mut e = ComposedEvent::new(&mut reader, &mut buf, b'X', 0);
        e.name(b"a \"b\" \\");
        e.category(b"kernel");
        e.place(b"0", b"7");
        e.start(1_795_598_002_674_831_628);
        e.duration(1_002);
        e.argument(b"stream", |b| integer(b, 7));
        e.argument(b"odd \"key\"", |b| text(b, b"x\\y"));
        assert_eq!(e.commit(), Some(0));
        let c = &reader.columns;
        assert_eq!((c.ts[0], c.dur[0]), (1_795_598_002_674_831_628, 1_002));
        assert_eq!(c.strings.get(c.name[0]), "a \"b\" \\");
        assert_eq!(c.args.int(Arg::Stream, 0), Some(7));
        let rest = c.strings.get(StrId(c.args.rest.get(0).unwrap() as u32));
        assert_eq!(rest, r#"{"odd \"key\"":"x\\y"}"#);
        assert_eq!(reader.shapes.short, 0);
    }

    #[test]
    fn a_long_text_of_many_events_is_looked_at_once() {
        let (mut reader, mut buf) = (EventReader::new(LoadOptions::default()), Vec::new());
        let long = ["a", "b", "c"].map(|text| text.repeat(LONGEST_COPIED + 1));
        let ids = [const { Cell::new(None) }; 3];
        let shared = |at: usize| EventText { bytes: long[at].as_bytes(), id: Some(&ids[at]) };
        for (pid, tid) in [(0, 1), (1, 0), (0, 1), (1, 1)] {
            let mut e = ComposedEvent::new(&mut reader, &mut buf, b'X', 0);
            e.name(shared(2));
            e.category(shared(pid));
            e.place(shared(pid), shared(tid));
            e.start(1);
            e.duration(1);
            e.commit();
            assert!(buf.len() < 100, "{}", buf.len());
        }
        let c = &reader.columns;
        assert_eq!(c.name, [StrId(1); 4]);
        assert!((0..3).all(|at| c.strings.get(ids[at].get().unwrap()) == long[at]));
        assert_eq!((c.lane.as_slice(), c.cat.as_slice()), (&[0, 1, 0, 2][..], &[0, 1, 0, 1][..]));
        // Texts of one event each, and short ones, are as before.
        let mut e = ComposedEvent::new(&mut reader, &mut buf, b'X', 0);
        e.name(long[0].as_bytes());
        e.category(EventText { bytes: b"kernel", id: Some(&ids[0]) });
        e.start(1);
        e.duration(1);
        e.commit();
        let c = &reader.columns;
        assert_eq!(
            (c.name[4], c.categories[2].text),
            (ids[0].get().unwrap(), c.strings.lookup(b"kernel").unwrap())
        );
    }
}
