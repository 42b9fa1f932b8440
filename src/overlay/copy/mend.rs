//! Repairs almost-JSON: texts with bare quotes, control characters, bad escapes or invalid UTF-8, bare words,
//! missing and superfluous commas. Any event that hta's reader accepts becomes valid JSON.
//!
//! A repaired text keeps what [`decode`](hta_read::kineto::text::decode) reads from it. A bare word becomes a
//! string, so that it reads as the same value.

use hta_read::kineto::cursor::{Cursor, Parse, Token, TokenError, TokenKind};
use memchr::memmem;
use serde::de::IgnoredAny;
use std::io::Write;
use std::ops::Range;

/// A replacement of one piece of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// The byte range to replace; empty to insert.
    pub at: Range<usize>,
    pub text: Vec<u8>,
}

/// Whether a text is valid JSON as it is. Half a surrogate pair counts as invalid, because strict parsers
/// reject it.
pub fn is_json(text: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(text) else { return false };
    serde_json::from_str::<IgnoredAny>(text).is_ok() && !has_half_pair(text)
}

/// Whether a text contains half a surrogate pair.
fn has_half_pair(text: &str) -> bool {
    let mut low_at = usize::MAX;
    memmem::find_iter(text.as_bytes(), b"\\u").any(|i| {
        let backslashes = text.as_bytes()[..i].iter().rev().take_while(|b| **b == b'\\').count();
        let code = text.get(i..).filter(|_| backslashes % 2 == 0).and_then(unit);
        match code {
            Some(0xd800..0xdc00) if matches!(text.get(i + 6..).and_then(unit), Some(0xdc00..0xe000)) => {
                low_at = i + 6;
                false
            }
            Some(0xd800..0xe000) => i != low_at,
            _ => false,
        }
    })
}

/// Writes `buf[span]` with its edits, which must be in order and disjoint. Returns whether the event had to
/// be repaired; `None` if it cannot be repaired.
pub fn write(buf: &[u8], span: Range<usize>, edits: &[Edit], out: &mut Vec<u8>) -> Option<bool> {
    if is_json(buf.get(span.clone())?) {
        let mut at = span.start;
        for e in edits {
            out.extend_from_slice(&buf[at..e.at.start]);
            out.extend_from_slice(&e.text);
            at = e.at.end;
        }
        out.extend_from_slice(&buf[at..span.end]);
        return Some(false);
    }
    let before = out.len();
    if mend(&buf[..span.end], span.start, edits, out).is_none() {
        out.truncate(before);
        return None;
    }
    Some(true)
}

/// A list or object that is being written.
struct OpenContainer {
    close: u8,
    /// Where its text starts in the source; `out` is the same for the output.
    from: usize,
    out: usize,
    /// Nothing has been written inside it yet.
    is_empty: bool,
    is_args: bool,
}

fn mend(buf: &[u8], start: usize, edits: &[Edit], out: &mut Vec<u8>) -> Option<()> {
    let mut c = Cursor::new(buf, start);
    let mut open: Vec<OpenContainer> = Vec::new();
    let mut edits = edits.iter().peekable();
    loop {
        match token(&mut c, &mut open, &mut edits, out) {
            Ok(true) => return Some(()),
            Ok(false) => {}
            Err(_) => {
                // The reader has already checked where each value of the event and of its arguments ends. So
                // a value whose inside cannot be parsed is kept as one string.
                let depth = if open.get(1).is_some_and(|o| o.is_args) { 2 } else { 1 };
                let broken = open.get(depth)?;
                c.pos = broken.from;
                out.truncate(broken.out);
                open.truncate(depth);
                let whole = c.value().ok()?;
                text(whole.bytes(buf), out);
            }
        }
    }
}

/// Writes the next token. Returns true when the event is complete.
fn token<'e>(
    c: &mut Cursor,
    open: &mut Vec<OpenContainer>,
    edits: &mut std::iter::Peekable<impl Iterator<Item = &'e Edit>>,
    out: &mut Vec<u8>,
) -> Parse<bool> {
    let mut is_args = false;
    let next = c.peek()?;
    if let Some(top) = open.last_mut() {
        if next == b',' {
            c.pos += 1;
            return Ok(false);
        }
        if next == top.close {
            c.pos += 1;
            out.push(next);
            open.pop();
            return Ok(open.is_empty());
        }
        if !std::mem::replace(&mut top.is_empty, false) {
            out.extend_from_slice(b", ");
        }
        if top.close == b'}' {
            if next != b'"' {
                return Err(TokenError::Syntax);
            }
            let key = c.string()?;
            c.expect(b':')?;
            text(key.bytes(c.buf), out);
            out.extend_from_slice(b": ");
            is_args = key.bytes(c.buf) == b"args";
        }
    }
    let next = c.peek()?;
    if let Some(e) = edits.next_if(|e| e.at.start == c.pos && !e.at.is_empty()) {
        out.extend_from_slice(&e.text);
        c.pos = e.at.end;
        return Ok(false);
    }
    match next {
        b'{' | b'[' => {
            let close = if next == b'{' { b'}' } else { b']' };
            open.push(OpenContainer { close, from: c.pos, out: out.len(), is_empty: true, is_args });
            c.pos += 1;
            out.push(next);
            if let Some(e) = edits.next_if(|e| e.at.is_empty() && e.at.start == c.pos) {
                out.extend_from_slice(&e.text);
            }
            return Ok(false);
        }
        b'"' => {
            let t = c.string()?;
            // The edit may replace the content of the string without its quotes.
            match edits.next_if(|e| e.at == (t.start..t.end)) {
                Some(e) => {
                    out.push(b'"');
                    out.extend_from_slice(&e.text);
                    out.push(b'"');
                }
                None => text(t.bytes(c.buf), out),
            }
        }
        _ => {
            let t = c.value()?;
            word(t, c.buf, out);
        }
    }
    Ok(open.is_empty())
}

fn word(t: Token, buf: &[u8], out: &mut Vec<u8>) {
    let raw = t.bytes(buf);
    if t.kind == TokenKind::Bare && is_json(raw) {
        out.extend_from_slice(raw);
    } else {
        text(raw, out);
    }
}

/// Writes `raw`, the content of a string, as a JSON string with quotes.
pub fn text(raw: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    inside(raw, out);
    out.push(b'"');
}

fn inside(raw: &[u8], out: &mut Vec<u8>) {
    let lossy = String::from_utf8_lossy(raw);
    let mut rest = lossy.as_ref();
    while let Some(i) = rest.find(|c: char| c == '"' || c == '\\' || c < ' ') {
        out.extend_from_slice(&rest.as_bytes()[..i]);
        let tail = &rest[i..];
        let used = match tail.as_bytes() {
            [b'"', ..] => {
                out.extend_from_slice(b"\\\"");
                1
            }
            [b'\\', b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => {
                out.extend_from_slice(&tail.as_bytes()[..2]);
                2
            }
            [b'\\', b'u', ..] if unit(tail).is_some() => unicode(tail, out),
            [b'\\', ..] => {
                out.extend_from_slice(b"\\\\");
                1
            }
            [control, ..] => {
                let _ = write!(out, "\\u{control:04x}");
                1
            }
            [] => break,
        };
        rest = &tail[used..];
    }
    out.extend_from_slice(rest.as_bytes());
}

/// The code unit of an escape `\uXXXX`.
fn unit(text: &str) -> Option<u32> {
    let hex = text.strip_prefix("\\u")?.get(..4)?;
    hex.bytes().all(|b| b.is_ascii_hexdigit()).then(|| u32::from_str_radix(hex, 16).ok())?
}

/// Writes an escape `\uXXXX` or a surrogate pair; half a pair becomes U+FFFD. Returns the number of bytes
/// read.
fn unicode(text: &str, out: &mut Vec<u8>) -> usize {
    let used = match unit(text) {
        Some(0xd800..0xdc00) if matches!(text.get(6..).and_then(unit), Some(0xdc00..0xe000)) => 12,
        Some(0xd800..0xe000) => {
            out.extend_from_slice(b"\\ufffd");
            return 6;
        }
        _ => 6,
    };
    out.extend_from_slice(&text.as_bytes()[..used]);
    used
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &[u8]) -> (String, Option<bool>) {
        let mut out = Vec::new();
        let how = write(text, 0..text.len(), &[], &mut out);
        (String::from_utf8(out).unwrap(), how)
    }

    #[test]
    fn json_stays_byte_for_byte() {
        for text in [
            r#"{"a" :[1, 2.50,-0e+1] ,"b":"x\"y\u00e9"}"#,
            r#"{"s":"\ud83d\ude00 \\ud800"}"#,
            r#"{"a":"x\"\ud83d\ude00"}"#,
        ] {
            assert_eq!(written(text.as_bytes()), (text.to_string(), Some(false)));
        }
    }

    #[test]
    fn what_the_reader_can_read_becomes_json() {
        for (text, expected) in [
            (&b"{\"a\":\"x\x01y\"}"[..], r#"{"a": "x\u0001y"}"#),
            (b"{\"a\":\"C:\\wdir\\x\"}", r#"{"a": "C:\\wdir\\x"}"#),
            (b"{\"a\":\"\\ud83d!\"}", r#"{"a": "\ufffd!"}"#),
            (b"{\"a\":\"x\xff\"}", "{\"a\": \"x\u{fffd}\"}"),
            (
                b"{\"a\":inf, \"b\":-1.5,\"c\":0x1f,\"d\":true}",
                r#"{"a": "inf", "b": -1.5, "c": "0x1f", "d": true}"#,
            ),
            (b"{\"a\":[1,,2,], \"b\":{},}", r#"{"a": [1, 2], "b": {}}"#),
            (b"{\"a\":1 \"b\":2}", r#"{"a": 1, "b": 2}"#),
            (b"{\"args\":{\"x\":{1:2},\"y\":3}}", r#"{"args": {"x": "{1:2}", "y": 3}}"#),
        ] {
            let (out, how) = written(text);
            assert_eq!((out.as_str(), how), (expected, Some(true)));
            assert!(is_json(out.as_bytes()));
        }
    }

    #[test]
    fn edits_hold_in_whole_and_in_mended_events() {
        for (text, expected) in [
            (r#"{"pid":1,"ts":"2"}"#, r#"{"x": 0, "pid":77,"ts":"33"}"#),
            (r#"{"pid":1 "ts":"2"}"#, r#"{"x": 0, "pid": 77, "ts": "33"}"#),
        ] {
            let at = |t: &str| text.find(t).unwrap();
            let edits = [
                Edit { at: 1..1, text: b"\"x\": 0, ".to_vec() },
                Edit { at: at("1")..at("1") + 1, text: b"77".to_vec() },
                Edit { at: at("2\"")..at("2\"") + 1, text: b"33".to_vec() },
            ];
            let mut out = Vec::new();
            assert!(write(text.as_bytes(), 0..text.len(), &edits, &mut out).is_some());
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
