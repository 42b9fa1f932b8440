//! A JSON tokenizer over bytes: white space, strings, whole values. Builds no tree and copies nothing.
//!
//! It is lenient where producers are sloppy (control characters in strings, bare words), but exact about
//! whether a token is complete in the buffer: [`TokenError::Incomplete`] means "try again with more bytes",
//! [`TokenError::Syntax`] means that more bytes will not help.

use hta_trace::strings::StrId;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenError {
    Incomplete,
    Syntax,
}

pub type Parse<T> = Result<T, TokenError>;

/// Kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TokenKind {
    #[default]
    Absent,
    /// A string without escapes; the token's range excludes the quotes.
    Text,
    /// A string that contains a backslash.
    Escaped,
    /// A value without quotes or brackets: a number, `true`, `null`, `inf`.
    Bare,
    /// A list or an object.
    Nested,
    /// A long text of many events, which is among the texts of the trace already. The range is empty.
    Interned(StrId),
}

/// A token, as a range of the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Token {
    pub start: usize,
    pub end: usize,
    pub kind: TokenKind,
}

impl Token {
    pub fn bytes<'a>(&self, buf: &'a [u8]) -> &'a [u8] {
        &buf[self.start..self.end]
    }

    pub fn is_text(&self) -> bool {
        matches!(self.kind, TokenKind::Text | TokenKind::Escaped)
    }

    pub(super) fn is_interned(&self) -> bool {
        matches!(self.kind, TokenKind::Interned(_))
    }
}

/// A read position in a buffer.
#[derive(Clone, Copy)]
pub struct Cursor<'a> {
    pub buf: &'a [u8],
    pub pos: usize,
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

#[inline]
fn has_byte(word: u64, byte: u8) -> u64 {
    let x = word ^ (ONES * u64::from(byte));
    x.wrapping_sub(ONES) & !x & HIGHS
}

/// Sets the high bit of each byte that is not `-`, `.`, `/` or a digit. No byte carries into the next.
#[inline]
fn no_digit(word: u64) -> u64 {
    let low = word & !HIGHS;
    let above = low + ONES * (0x7f - u64::from(b'9'));
    let from = low + ONES * (0x80 - u64::from(b'-'));
    (above | !from | word) & HIGHS
}

/// Eight bytes, little endian.
#[inline]
pub(super) fn word_at(buf: &[u8], at: usize) -> Option<u64> {
    let bytes = buf.get(at..at + 8)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

impl<'a> Cursor<'a> {
    pub fn new(buf: &'a [u8], pos: usize) -> Self {
        Self { buf, pos }
    }

    /// The next byte that is not white space; does not consume it.
    #[inline]
    pub fn peek(&mut self) -> Parse<u8> {
        loop {
            match self.buf.get(self.pos) {
                Some(&b) if b > b' ' => return Ok(b),
                Some(b' ') => {
                    // Pretty-printed files have long indentation: skip eight blanks at once.
                    const BLANKS: u64 = 0x2020_2020_2020_2020;
                    self.pos += 1;
                    while word_at(self.buf, self.pos) == Some(BLANKS) {
                        self.pos += 8;
                    }
                }
                Some(_) => self.pos += 1,
                None => return Err(TokenError::Incomplete),
            }
        }
    }

    /// Consumes `byte`, after white space.
    #[inline]
    pub fn expect(&mut self, byte: u8) -> Parse<()> {
        if self.peek()? != byte {
            return Err(TokenError::Syntax);
        }
        self.pos += 1;
        Ok(())
    }

    /// A string; the cursor must be at its opening quote.
    #[inline]
    pub fn string(&mut self) -> Parse<Token> {
        let start = self.pos + 1;
        let mut at = start;
        let mut kind = TokenKind::Text;
        // Most strings are short and found in the first words; memchr is faster for long ones.
        for _ in 0..4 {
            let Some(word) = word_at(self.buf, at) else { break };
            let hit = has_byte(word, b'"') | has_byte(word, b'\\');
            if hit != 0 {
                at += (hit.trailing_zeros() / 8) as usize;
                break;
            }
            at += 8;
        }
        loop {
            let rest = self.buf.get(at..).ok_or(TokenError::Incomplete)?;
            at += match rest.first() {
                Some(b'"' | b'\\') => 0,
                _ => memchr::memchr2(b'"', b'\\', rest).ok_or(TokenError::Incomplete)?,
            };
            if self.buf[at] == b'"' {
                self.pos = at + 1;
                return Ok(Token { start, end: at, kind });
            }
            kind = TokenKind::Escaped;
            at += 2;
        }
    }

    /// Any value: a string, a bare token, or a whole list or object.
    #[inline]
    pub fn value(&mut self) -> Parse<Token> {
        match self.peek()? {
            b'"' => self.string(),
            b'{' | b'[' => self.nested(),
            b',' | b'}' | b']' | b':' => Err(TokenError::Syntax),
            _ => self.bare(),
        }
    }

    /// A number or word, up to a delimiter.
    #[inline]
    fn bare(&mut self) -> Parse<Token> {
        let start = self.pos;
        let mut at = start;
        // Nearly all are numbers: check eight bytes at once.
        while let Some(word) = word_at(self.buf, at) {
            let other = no_digit(word);
            if other != 0 {
                at += (other.trailing_zeros() / 8) as usize;
                break;
            }
            at += 8;
        }
        loop {
            match self.buf.get(at) {
                None => return Err(TokenError::Incomplete),
                Some(b'0'..=b'9' | b'.' | b'-' | b'+' | b'a'..=b'z' | b'A'..=b'Z' | b'/' | b'_' | b'#') => {
                    at += 1
                }
                Some(b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t') if at > start => break,
                Some(_) => return Err(TokenError::Syntax),
            }
        }
        self.pos = at;
        Ok(Token { start, end: at, kind: TokenKind::Bare })
    }

    /// A list or object with balanced brackets; strings inside are skipped. Not recursive, so depth costs no
    /// stack.
    fn nested(&mut self) -> Parse<Token> {
        let start = self.pos;
        let mut depth = 0u32;
        loop {
            match self.buf.get(self.pos) {
                None => return Err(TokenError::Incomplete),
                Some(b'"') => {
                    self.string()?;
                    continue;
                }
                Some(b'{' | b'[') => depth += 1,
                Some(b'}' | b']') => {
                    depth -= 1;
                    if depth == 0 {
                        self.pos += 1;
                        return Ok(Token { start, end: self.pos, kind: TokenKind::Nested });
                    }
                }
                Some(_) => {
                    // Shapes are lists of numbers: jump to the next bracket or quote.
                    while let Some(word) = word_at(self.buf, self.pos + 1) {
                        // `[` and `{`, `]` and `}` differ in one bit.
                        let folded = word | (ONES * 0x20);
                        let hit = has_byte(folded, b'{') | has_byte(folded, b'}') | has_byte(word, b'"');
                        if hit != 0 {
                            self.pos += (hit.trailing_zeros() / 8) as usize;
                            break;
                        }
                        self.pos += 8;
                    }
                }
            }
            self.pos += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Parse<(String, TokenKind)> {
        let mut c = Cursor::new(text.as_bytes(), 0);
        let t = c.value()?;
        Ok((String::from_utf8_lossy(t.bytes(c.buf)).into_owned(), t.kind))
    }

    #[test]
    fn values_end_where_they_end() {
        assert_eq!(value(r#" "ab" ,"#), Ok(("ab".into(), TokenKind::Text)));
        assert_eq!(value(r#""a\"b","#), Ok((r#"a\"b"#.into(), TokenKind::Escaped)));
        assert_eq!(value("12.5}"), Ok(("12.5".into(), TokenKind::Bare)));
        assert_eq!(value(r#"[1,{"a":"]"}],"#), Ok((r#"[1,{"a":"]"}]"#.into(), TokenKind::Nested)));
        let long = "x".repeat(100);
        assert_eq!(value(&format!("\"{long}\"")), Ok((long, TokenKind::Text)));
    }

    #[test]
    fn every_byte_is_told_from_a_digit_at_every_place() {
        for b in 0..=255u8 {
            for place in 0..8 {
                let mut bytes = *b"12345678";
                bytes[place] = b;
                let other = no_digit(u64::from_le_bytes(bytes));
                let want =
                    if matches!(b, b'-' | b'.' | b'/' | b'0'..=b'9') { 0 } else { 0x80 << (8 * place) };
                assert_eq!(other, want, "{b:#x} at {place}");
            }
        }
    }

    #[test]
    fn lists_end_at_their_own_bracket_wherever_it_stands() {
        for n in 0..40 {
            let inner = format!("[{}, [3], {{\"]}}\": [{}]}}]", "1".repeat(n), "2, ".repeat(n));
            assert_eq!(value(&format!("{inner}{}", ", ".repeat(9))), Ok((inner.clone(), TokenKind::Nested)));
            assert_eq!(value(&inner[..inner.len() - 1]), Err(TokenError::Incomplete));
        }
    }

    #[test]
    fn an_unfinished_value_asks_for_more() {
        for text in ["\"ab", "12", "[1,2", "  ", "\"ab\\", "{\"a\":\"}"] {
            assert_eq!(value(text), Err(TokenError::Incomplete), "{text}");
        }
        for text in [",", "12\"", "(x)"] {
            assert_eq!(value(text), Err(TokenError::Syntax), "{text}");
        }
    }
}
