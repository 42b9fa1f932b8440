//! Text of JSON strings: resolves escapes, and replaces and counts invalid UTF-8.

use crate::kineto::cursor::{Token, TokenKind};
use hashbrown::HashSet;
use hta_base::health::{Counter, Health};
use hta_trace::events::ColumnsBuilder;
use hta_trace::strings::{Interner, StrId};
use std::borrow::Cow;

/// Interns the texts of one piece of a file.
#[derive(Default)]
pub(crate) struct PieceTexts {
    /// Texts that contain control characters: each occurrence is counted, not only the first.
    odd: HashSet<StrId>,
}

impl PieceTexts {
    /// The interned text of a token; for a bare one, the raw text.
    #[inline]
    pub(crate) fn intern(
        &mut self,
        token: Token,
        buf: &[u8],
        columns: &mut ColumnsBuilder,
        at: u64,
    ) -> StrId {
        if let TokenKind::Interned(id) = token.kind {
            return id;
        }
        let raw = token.bytes(buf);
        if token.kind != TokenKind::Escaped
            && let Some(id) = columns.strings.lookup(raw)
            && (self.odd.is_empty() || !self.odd.contains(&id))
        {
            return id;
        }
        self.decode_and_intern(token, raw, columns, at)
    }

    /// The texts with control characters so far.
    pub(crate) fn odd_texts(&self, strings: &Interner) -> Vec<String> {
        self.odd.iter().map(|id| strings.get(*id).to_string()).collect()
    }

    /// Takes over the texts with control characters of another piece of the file.
    pub(crate) fn know_odd(&mut self, texts: &[String], strings: &mut Interner) {
        self.odd.extend(texts.iter().map(|t| strings.intern(t)));
    }

    #[cold]
    fn decode_and_intern(
        &mut self,
        token: Token,
        raw: &[u8],
        columns: &mut ColumnsBuilder,
        at: u64,
    ) -> StrId {
        let text = decode(raw, token.kind == TokenKind::Escaped, &mut columns.health, at);
        let id = columns.strings.intern(&text);
        if text.bytes().any(is_control) {
            self.odd.insert(id);
        }
        id
    }
}

/// Whether a text needs no repair. A text that does is decoded each time, so that every occurrence is
/// counted.
pub(super) fn is_plain(raw: &[u8]) -> bool {
    raw.iter().all(|b| matches!(b, b' '..=b'~') && *b != b'\\')
}

fn is_control(b: u8) -> bool {
    b < 0x20 || b == 0x7f
}

/// Decodes the content of a JSON string.
pub fn decode<'a>(raw: &'a [u8], escaped: bool, health: &mut Health, at: u64) -> Cow<'a, str> {
    if raw.iter().any(|b| is_control(*b)) {
        health.hit(Counter::ControlChar, at);
    }
    let text = String::from_utf8_lossy(raw);
    if matches!(text, Cow::Owned(_)) {
        health.hit(Counter::InvalidUtf8, at);
    }
    if escaped { Cow::Owned(unescape(&text, health, at)) } else { text }
}

/// Resolves JSON escapes; an unknown escape keeps its backslash.
fn unescape(text: &str, health: &mut Health, at: u64) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let (mut bad, mut lone) = (false, false);
    while let Some(i) = rest.find('\\') {
        out.push_str(&rest[..i]);
        let tail = &rest[i + 1..];
        let simple = match tail.as_bytes().first() {
            Some(b'"') => Some('"'),
            Some(b'\\') => Some('\\'),
            Some(b'/') => Some('/'),
            Some(b'b') => Some('\u{8}'),
            Some(b'f') => Some('\u{c}'),
            Some(b'n') => Some('\n'),
            Some(b'r') => Some('\r'),
            Some(b't') => Some('\t'),
            _ => None,
        };
        if let Some(c) = simple {
            out.push(c);
            rest = &tail[1..];
        } else if let Some((c, used)) = unicode_escape(tail) {
            lone |= c == char::REPLACEMENT_CHARACTER;
            out.push(c);
            rest = &tail[used..];
        } else {
            bad = true;
            out.push('\\');
            rest = tail;
        }
    }
    out.push_str(rest);
    if bad {
        health.hit(Counter::BadEscape, at);
    }
    if lone {
        health.hit(Counter::LoneSurrogate, at);
    }
    out
}

/// Decodes `uXXXX` with its surrogate pair, if any; a lone surrogate becomes U+FFFD. Returns the number of
/// bytes read.
fn unicode_escape(tail: &str) -> Option<(char, usize)> {
    let unit = |s: &str| -> Option<u32> {
        let hex = s.strip_prefix('u')?.get(..4)?;
        hex.bytes().all(|b| b.is_ascii_hexdigit()).then(|| u32::from_str_radix(hex, 16).ok())?
    };
    let first = unit(tail)?;
    if (0xd800..0xdc00).contains(&first) {
        let second = tail.get(5..).and_then(|s| s.strip_prefix('\\')).and_then(unit);
        if let Some(low @ 0xdc00..0xe000) = second {
            let code = 0x10000 + ((first - 0xd800) << 10) + (low - 0xdc00);
            return Some((char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), 11));
        }
    }
    Some((char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER), 5))
}

/// JSON text without white space between tokens; escapes are unchanged.
pub(crate) fn compact(raw: &[u8]) -> Cow<'_, [u8]> {
    if !raw.iter().any(|b| b.is_ascii_whitespace()) {
        return Cow::Borrowed(raw);
    }
    let mut out = Vec::with_capacity(raw.len());
    let (mut inside, mut escaped) = (false, false);
    for &b in raw {
        if inside {
            out.push(b);
            if escaped {
                escaped = false;
            } else if b == b'\\' {
                escaped = true;
            } else if b == b'"' {
                inside = false;
            }
        } else if !b.is_ascii_whitespace() {
            out.push(b);
            inside = b == b'"';
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(raw: &[u8]) -> (String, Vec<Counter>) {
        let mut h = Health::default();
        let text = decode(raw, raw.contains(&b'\\'), &mut h, 0).into_owned();
        (text, h.iter().map(|(c, _)| c).collect())
    }

    #[test]
    fn escapes_are_undone_and_unknown_ones_kept() {
        assert_eq!(read(br#"a\n\"b\"\/\\"#).0, "a\n\"b\"/\\");
        assert_eq!(read(br"\u00e9\ud83d\ude00").0, "é😀");
        assert_eq!(read(br"\ud83d!").0, "\u{fffd}!");
        assert_eq!(read(br"C:\wdir\x"), ("C:\\wdir\\x".to_string(), vec![Counter::BadEscape]));
        assert_eq!(read(b"a\x01b"), ("a\u{1}b".to_string(), vec![Counter::ControlChar]));
        assert_eq!(read(b"a\xffb"), ("a\u{fffd}b".to_string(), vec![Counter::InvalidUtf8]));
    }

    #[test]
    fn compact_json_keeps_what_is_inside_strings() {
        assert_eq!(&*compact(br#"[1, 2, "a b\" c" ]"#), br#"[1,2,"a b\" c"]"#);
    }
}
