//! Makes text from traces safe to display.
//!
//! Names come from files that anyone may have written. A terminal acts on control characters in them: it
//! changes its title or colours, writes to the clipboard (OSC 52), or moves its cursor. Marks of writing
//! direction and characters without width make one name look like another. All of these are written as
//! escapes such as `\u{1b}`; every other character stays.
//!
//! Everything that is printed for people, and every cell of a CSV file, passes through this module. Parquet
//! files keep names unchanged, and JSON has its own escapes for the same characters ([`json`]), which a
//! reader decodes.

use std::borrow::Cow;
use std::fmt::Write;

/// One line of text, or one cell: line breaks are escaped, too.
pub fn line(text: &str) -> Cow<'_, str> {
    escaped(text, is_hidden)
}

/// Text of several lines; line breaks and tabs stay.
pub fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| is_hidden(c) && c != '\n' && c != '\t')
}

/// A JSON document, with the same characters (which occur only in its texts) in JSON's escapes.
pub fn json(text: &str) -> Cow<'_, str> {
    let is_raw = |c: char| is_hidden(c) && c != '\n' && c != '\t' && c != '\r';
    if !text.chars().any(is_raw) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_raw(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\n' | '\r' | '\t' if is_escaped(c) => out.extend(c.escape_default()),
            _ if is_escaped(c) => out.extend(c.escape_unicode()),
            _ => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Whether a character is invisible, or changes how others are displayed.
fn is_hidden(c: char) -> bool {
    match c {
        ' '..='~' => false,
        // Soft hyphen, Arabic and Mongolian marks.
        '\u{ad}' | '\u{61c}' | '\u{180e}' => true,
        // Zero width; direction of writing; line and paragraph separators.
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => true,
        // Byte order mark, annotations, tags.
        '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}' => true,
        _ => c.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_become_escapes_and_all_others_stay() {
        assert_eq!(line("a\u{1b}]52;c;eA==\u{7}b"), r"a\u{1b}]52;c;eA==\u{7}b");
        assert_eq!(line("one\r\n\ttwo\0\u{7f}\u{9b}31m"), r"one\r\n\ttwo\u{0}\u{7f}\u{9b}31m");
        assert_eq!(line("gpu\u{202e}txt\u{200b}\u{feff}\u{2028}"), r"gpu\u{202e}txt\u{200b}\u{feff}\u{2028}");
        let plain = "naïve<\"a\\b\", 'c'> 数 … µs \u{a0}";
        assert!(matches!(line(plain), Cow::Borrowed(text) if text == plain));
    }

    #[test]
    fn text_of_several_lines_keeps_its_line_ends() {
        assert_eq!(lines("a\n\tb\r\u{1b}"), "a\n\tb\\r\\u{1b}");
    }

    #[test]
    fn escapes_in_json_are_undone_by_a_reader() {
        let name = "a\u{1b}\u{9b}\u{202e}\u{e0041}\u{7f}z\n";
        let text = serde_json::to_string_pretty(&[name]).unwrap();
        let safe = json(&text);
        assert!(safe.chars().all(|c| c == '\n' || (' '..='~').contains(&c)), "{safe}");
        assert_eq!(serde_json::from_str::<Vec<String>>(&safe).unwrap(), [name]);
    }
}
