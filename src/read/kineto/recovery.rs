//! Where reading goes on after damage: the next event, the next top-level key, the end of the event array.

use crate::kineto::cursor::{Cursor, Parse, Token, TokenError, TokenKind};
use memchr::memmem;

/// The next position that looks like the start of an event: `{` and a key with which events begin, after a
/// comma or the array's bracket.
///
/// Searches ever larger ranges: the next event is nearly always close, while a key with which no event begins
/// would be searched to the end of the buffer for each damaged event.
pub(crate) fn next_event(buf: &[u8], from: usize) -> Option<usize> {
    let reaches = [1 << 12, 1 << 16, usize::MAX].map(|r| from.saturating_add(r).min(buf.len()));
    reaches.into_iter().find_map(|end| next_event_within(buf.get(..end)?, from))
}

pub(super) fn next_event_within(buf: &[u8], from: usize) -> Option<usize> {
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
pub(super) fn last_non_blank(buf: &[u8], at: usize) -> Option<usize> {
    buf[..at].iter().rposition(|b| *b > b' ')
}

/// The `]` that closes the event array, searched from a damaged last event: it is followed by another key, by
/// the closing brace, or by nothing.
pub(super) fn array_end(buf: &[u8], from: usize) -> Option<usize> {
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

pub(super) fn is_key(mut c: Cursor) -> bool {
    matches!(c.peek(), Ok(b'"')) && c.string().is_ok() && matches!(c.peek(), Ok(b':'))
}

/// The start of the next top-level key after a value that is not JSON: after a bracket, quote or brace that
/// is followed by a comma and `"key":`, or at the object's closing brace.
pub(super) fn next_top_level_key(buf: &[u8], from: usize, eof: bool) -> Option<usize> {
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

/// A value that is checked token by token, so that a list with bare quotes inside fails where it breaks,
/// instead of swallowing what follows.
pub(super) fn strict_value(c: &mut Cursor) -> Parse<Token> {
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

pub(super) fn member_key(c: &mut Cursor) -> Parse<()> {
    if c.peek()? != b'"' {
        return Err(TokenError::Syntax);
    }
    c.string()?;
    c.expect(b':')
}
