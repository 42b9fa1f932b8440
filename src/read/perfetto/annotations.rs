//! The annotations of an event, which are its arguments: their names, and their values as JSON.

use super::fields::annotation as at;
use super::wire::{WireMessage, WireValue};
use crate::kineto::composed::{bare, float, integer, text, unsigned};
use crate::kineto::cursor::{Cursor, Token, TokenKind};

/// Deepest nesting of lists and objects that is read.
const DEEPEST: usize = 64;

/// One annotation.
#[derive(Clone, Copy)]
pub(super) struct DebugAnnotation<'a> {
    pub(super) name: &'a [u8],
    message: &'a [u8],
    /// The field that holds the value, and the value; `None` for an empty list.
    value: Option<(u32, WireValue<'a>)>,
    pub(super) is_broken: bool,
}

impl<'a> DebugAnnotation<'a> {
    pub(super) fn new(message: &'a [u8]) -> Self {
        let mut found = Self { name: b"", message, value: None, is_broken: false };
        let mut fields = WireMessage::new(message);
        while let Some((number, value)) = fields.field() {
            match number {
                at::NAME => found.name = value.bytes().unwrap_or_default(),
                at::BOOL
                | at::UNSIGNED
                | at::INT
                | at::FLOAT
                | at::TEXT
                | at::POINTER
                | at::JSON
                | at::ENTRY
                | at::ELEMENT => found.value = Some((number, value)),
                _ => {}
            }
        }
        found.is_broken = fields.is_broken();
        found
    }

    /// The value, if it is an integer.
    pub(super) fn integer(&self) -> Option<i64> {
        self.value.filter(|(number, _)| *number == at::INT)?.1.number().map(|n| n as i64)
    }

    /// Writes the value.
    pub(super) fn write(&self, buf: &mut Vec<u8>) -> Token {
        self.write_within(buf, DEEPEST)
    }

    fn write_within(&self, buf: &mut Vec<u8>, depth: usize) -> Token {
        let Some((number, value)) = self.value else { return nested(buf, b"[]") };
        let whole = || value.number().unwrap_or(0);
        match number {
            at::BOOL => bare(buf, if whole() != 0 { b"true" } else { b"false" }),
            // A communicator's id has no sign, and was written as a number with one.
            at::INT if self.name == COMMUNICATOR => unsigned(buf, whole()),
            at::INT => integer(buf, whole() as i64),
            at::UNSIGNED | at::POINTER => unsigned(buf, whole()),
            at::FLOAT => float(buf, value.float().unwrap_or(f64::NAN)),
            at::JSON => json(buf, value.bytes().unwrap_or_default()),
            at::ENTRY | at::ELEMENT => self.write_members(buf, number, depth),
            _ => match value.bytes().unwrap_or_default() {
                b"null" => bare(buf, b"null"),
                bytes => text(buf, bytes),
            },
        }
    }

    /// Writes a list or an object.
    fn write_members(&self, buf: &mut Vec<u8>, number: u32, depth: usize) -> Token {
        let Some(depth) = depth.checked_sub(1) else { return bare(buf, b"null") };
        let is_object = number == at::ENTRY;
        let start = buf.len();
        buf.push(if is_object { b'{' } else { b'[' });
        let members = WireMessage::new(self.message).filter(|member| member.0 == number);
        for (i, (_, member)) in members.enumerate() {
            if i > 0 {
                buf.push(b',');
            }
            let member = DebugAnnotation::new(member.bytes().unwrap_or_default());
            if is_object {
                text(buf, member.name);
                buf.push(b':');
            }
            member.write_within(buf, depth);
        }
        buf.push(if is_object { b'}' } else { b']' });
        Token { start, end: buf.len(), kind: TokenKind::Nested }
    }
}

const COMMUNICATOR: &[u8] = b"Comms Id";

fn nested(buf: &mut Vec<u8>, bytes: &[u8]) -> Token {
    Token { kind: TokenKind::Nested, ..bare(buf, bytes) }
}

/// Writes a value that was recorded as JSON; if it is none, as a text.
fn json(buf: &mut Vec<u8>, value: &[u8]) -> Token {
    // A value ends where another character follows.
    let start = buf.len();
    buf.extend_from_slice(value);
    buf.push(b',');
    let mut cursor = Cursor::new(buf, start);
    let read = cursor.value();
    let is_whole = cursor.pos + 1 == buf.len();
    match read {
        Ok(token) if is_whole => {
            buf.pop();
            token
        }
        _ => {
            buf.truncate(start);
            text(buf, value)
        }
    }
}

/// Writes a value that was recorded as text: a number as a number.
pub(super) fn text_value(buf: &mut Vec<u8>, value: &[u8]) -> Token {
    if is_number(value) { bare(buf, value) } else { text(buf, value) }
}

/// Whether a text is a number as JSON writes it.
fn is_number(value: &[u8]) -> bool {
    let digits = value.strip_prefix(b"-").unwrap_or(value);
    let mut parts = digits.splitn(2, |byte| *byte == b'.');
    let is_digits = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    let whole = parts.next().unwrap_or_default();
    let is_short = whole.len() <= 20 && (whole.len() == 1 || whole.first() != Some(&b'0'));
    is_short && is_digits(whole) && parts.next().is_none_or(is_digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>) -> Token) -> (String, TokenKind) {
        let mut buf = b"before".to_vec();
        let token = write(&mut buf);
        (String::from_utf8(token.bytes(&buf).to_vec()).unwrap(), token.kind)
    }

    #[test]
    fn texts_of_numbers_become_numbers() {
        let of = |value: &str| written(|b| text_value(b, value.as_bytes())).1;
        assert!(
            ["0", "7", "-5", "101", "1.5", "18446744073709551615"].iter().all(|v| of(v) == TokenKind::Bare)
        );
        assert!(
            ["", "-", "007", "0x7f", "[0, 1]", "1.", "1.2.3", "Float"]
                .iter()
                .all(|v| of(v) == TokenKind::Text)
        );
    }

    #[test]
    fn json_stays_json_and_other_text_becomes_a_text() {
        assert_eq!(written(|b| json(b, b"[[1, 2], []]")), ("[[1, 2], []]".to_string(), TokenKind::Nested));
        assert_eq!(written(|b| json(b, b"[1, 2")), ("[1, 2".to_string(), TokenKind::Text));
        assert_eq!(written(|b| json(b, b"7")), ("7".to_string(), TokenKind::Bare));
        assert_eq!(written(|b| json(b, b"[1] [2]")).1, TokenKind::Text);
    }

    #[test]
    fn a_nesting_without_end_is_cut() {
        let mut message = vec![0x20, 7];
        for _ in 0..200 {
            let mut outer = vec![0x62];
            let (mut n, mut length) = (message.len(), Vec::new());
            while n >= 0x80 {
                length.push(n as u8 | 0x80);
                n >>= 7;
            }
            length.push(n as u8);
            outer.extend(length);
            outer.extend(message);
            message = outer;
        }
        let (json, kind) = written(|b| DebugAnnotation::new(&message).write(b));
        assert_eq!(kind, TokenKind::Nested);
        assert!(json.starts_with("[[[") && json.contains("[null]"));
    }
}
