//! Collects the parts of one event, whatever the order of its keys.

use crate::kineto::cursor::{Cursor, Parse, Token, TokenError, TokenKind};
use crate::kineto::event::EventReader;
use crate::kineto::event::Leniency;
use crate::kineto::event::arg_step;
use crate::kineto::event::member;
use crate::kineto::gaps::{GapEnd, ParserState};
use hta_trace::category::is_counter_range;

impl EventReader {
    /// Collects the tokens of the event whose `{` is at the cursor.
    pub(crate) fn collect(&mut self, c: &mut Cursor, rules: Leniency) -> Parse<()> {
        self.scratch.clear();
        self.scratch.start = c.pos;
        c.pos += 1;
        let mut place = ParserState::OPEN;
        let mut keep_rest = false;
        loop {
            let made = match self.gaps.follow(place, c) {
                Some(made) => made,
                None => {
                    let (inside, wanted) = (self.scratch.in_args, &self.wanted);
                    self.gaps.parse(place, inside, c, |key| {
                        if inside { arg_step(key, wanted) } else { event_step(key) }
                    })?
                }
            };
            place = made.place;
            let s = &mut self.scratch;
            match made.step {
                GapEnd::Ph => keep(&mut s.ph, c.value()?, &mut s.repeated_key),
                GapEnd::Cat => keep(&mut s.cat, c.value()?, &mut s.repeated_key),
                GapEnd::Name if rules == Leniency::LooseName => {
                    s.name = loose_string(c)?;
                    s.loose_name = true;
                }
                GapEnd::Name => keep(&mut s.name, c.value()?, &mut s.repeated_key),
                GapEnd::Pid => keep(&mut s.pid, c.value()?, &mut s.repeated_key),
                GapEnd::Tid => keep(&mut s.tid, c.value()?, &mut s.repeated_key),
                GapEnd::Ts => keep(&mut s.ts, c.value()?, &mut s.repeated_key),
                GapEnd::Dur => keep(&mut s.dur, c.value()?, &mut s.repeated_key),
                GapEnd::Id => keep(&mut s.id, c.value()?, &mut s.repeated_key),
                GapEnd::Args if c.peek()? == b'{' => {
                    c.pos += 1;
                    // The last of several counts, as for every key.
                    s.repeated_key |= s.seen_args;
                    s.args.clear();
                    s.memory.clear();
                    s.fields.clear();
                    s.rest.clear();
                    (s.seen_args, s.in_args) = (true, true);
                    // Arguments of counters have arbitrary names. If the category is not known yet, this is
                    // decided at the end of the event.
                    keep_rest = self.options.rest_args
                        || s.cat.kind == TokenKind::Absent
                        || is_counter_range(s.cat.bytes(c.buf));
                }
                GapEnd::Args => {
                    c.value()?;
                    place = ParserState::NO_ARGS;
                }
                GapEnd::Ignored | GapEnd::Unwanted => {
                    c.value()?;
                }
                GapEnd::Arg(_)
                | GapEnd::Other { .. }
                | GapEnd::Memory(_)
                | GapEnd::Device(_)
                | GapEnd::Value => {
                    let value = c.value()?;
                    self.keep_argument((made.step, made.key), value, c.buf, keep_rest);
                }
                GapEnd::Close => s.in_args = false,
                GapEnd::End => {
                    s.end = c.pos;
                    return Ok(());
                }
            }
        }
    }
}

impl EventReader {
    /// Keeps the value of an argument: what its key means, and where its key begins. With `keep_rest`, an
    /// argument without a column is kept as text.
    #[inline]
    pub(super) fn keep_argument(
        &mut self,
        (step, key): (GapEnd, usize),
        value: Token,
        buf: &[u8],
        keep_rest: bool,
    ) {
        let s = &mut self.scratch;
        if let GapEnd::Arg(arg) = step {
            s.args.push((arg, value, key));
            return;
        }
        let is_huge = value.kind == TokenKind::Bare && value.end - value.start > 19;
        s.huge += u64::from(is_huge && value.bytes(buf).iter().all(u8::is_ascii_digit));
        s.keep_argument(step, value);
        let is_merged = self.part.is_some() && s.raw.keep(buf.get(key..).unwrap_or_default(), value);
        if keep_rest && !is_merged {
            s.rest.push(member(key, value));
        }
    }
}

/// The meaning of a key of an event.
fn event_step(key: &[u8]) -> GapEnd {
    match key {
        b"ph" => GapEnd::Ph,
        b"cat" => GapEnd::Cat,
        b"name" => GapEnd::Name,
        b"pid" => GapEnd::Pid,
        b"tid" => GapEnd::Tid,
        b"ts" => GapEnd::Ts,
        b"dur" => GapEnd::Dur,
        b"id" => GapEnd::Id,
        b"args" => GapEnd::Args,
        _ => GapEnd::Ignored,
    }
}

/// Stores a token; the last of several counts.
#[inline]
fn keep(slot: &mut Token, value: Token, repeated: &mut bool) {
    *repeated |= slot.kind != TokenKind::Absent;
    *slot = value;
}

/// Keys that may follow a name; a name with bare quotes ends before one of them.
const KEYS_AFTER_NAME: [&[u8]; 9] = [b"pid", b"tid", b"ts", b"dur", b"cat", b"ph", b"args", b"id", b"s"];

/// A string that may contain bare quotes: it ends at a quote that is followed by a known key and a colon, or
/// by the end of the event.
fn loose_string(c: &mut Cursor) -> Parse<Token> {
    if c.peek()? != b'"' {
        return c.value();
    }
    let start = c.pos + 1;
    let mut at = start;
    let mut kind = TokenKind::Text;
    loop {
        let rest = c.buf.get(at..).ok_or(TokenError::Incomplete)?;
        at += memchr::memchr2(b'"', b'\\', rest).ok_or(TokenError::Incomplete)?;
        if c.buf[at] == b'\\' {
            kind = TokenKind::Escaped;
            at += 2;
            continue;
        }
        if ends_name(Cursor::new(c.buf, at + 1))? {
            c.pos = at + 1;
            return Ok(Token { start, end: at, kind });
        }
        at += 1;
    }
}

fn ends_name(mut c: Cursor) -> Parse<bool> {
    if c.peek()? != b',' {
        return Ok(false);
    }
    c.pos += 1;
    if c.peek()? != b'"' {
        return Ok(false);
    }
    let key = c.string()?;
    Ok(KEYS_AFTER_NAME.contains(&key.bytes(c.buf)) && c.peek()? == b':')
}
