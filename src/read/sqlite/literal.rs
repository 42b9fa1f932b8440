//! Python literals as `repr` writes them: dicts, lists, tuples, texts, numbers, `True`, `False`, `None`.
//!
//! They are parsed, never evaluated. Lists and tuples are not told apart.

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Literal<'a> {
    None,
    Bool(bool),
    /// As written; `inf` and `nan` included.
    Number(&'a str),
    Text(String),
    List(Vec<Literal<'a>>),
    /// In the order of the text.
    Dict(Vec<(Literal<'a>, Literal<'a>)>),
}

/// Deepest nesting that is read, so that a damaged text cannot exhaust the stack.
const DEPTH: u32 = 32;

impl<'a> Literal<'a> {
    /// The value of a whole text; `None` if it is something else.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let mut parser = Parser { rest: text };
        let value = parser.value(DEPTH)?;
        parser.rest.trim_start().is_empty().then_some(value)
    }

    /// The value at a key of a dict.
    pub(crate) fn get(&self, key: &str) -> Option<&Literal<'a>> {
        let Literal::Dict(entries) = self else { return None };
        entries.iter().find(|(k, _)| k.as_text() == Some(key)).map(|(_, value)| value)
    }

    pub(crate) fn as_text(&self) -> Option<&str> {
        match self {
            Literal::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn as_list(&self) -> Option<&[Literal<'a>]> {
        match self {
            Literal::List(items) => Some(items),
            _ => None,
        }
    }

    pub(crate) fn as_int(&self) -> Option<i64> {
        match self {
            Literal::Number(text) => text.parse().ok(),
            _ => None,
        }
    }
}

struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn value(&mut self, depth: u32) -> Option<Literal<'a>> {
        let depth = depth.checked_sub(1)?;
        self.rest = self.rest.trim_start();
        match self.rest.chars().next()? {
            '{' => self.dict(depth),
            '[' => self.items(']', depth).map(|(items, _)| Literal::List(items)),
            // Round brackets without a comma only group.
            '(' => match self.items(')', depth)? {
                (mut items, false) if items.len() == 1 => items.pop(),
                (items, _) => Some(Literal::List(items)),
            },
            quote @ ('\'' | '"') => self.text(quote).map(Literal::Text),
            _ => self.word(),
        }
    }

    /// Whether the text goes on with a character, which is then passed.
    fn eat(&mut self, c: char) -> bool {
        let rest = self.rest.trim_start();
        let after = rest.strip_prefix(c);
        self.rest = after.unwrap_or(rest);
        after.is_some()
    }

    /// The items up to a closing bracket, and whether there is a comma.
    fn items(&mut self, close: char, depth: u32) -> Option<(Vec<Literal<'a>>, bool)> {
        self.rest = self.rest.get(1..)?;
        let (mut items, mut has_comma) = (Vec::new(), false);
        while !self.eat(close) {
            items.push(self.value(depth)?);
            if self.eat(',') {
                has_comma = true;
            } else {
                return self.eat(close).then_some((items, has_comma));
            }
        }
        Some((items, has_comma))
    }

    fn dict(&mut self, depth: u32) -> Option<Literal<'a>> {
        self.rest = self.rest.get(1..)?;
        let mut entries = Vec::new();
        while !self.eat('}') {
            let key = self.value(depth)?;
            if !self.eat(':') {
                return None;
            }
            entries.push((key, self.value(depth)?));
            if !self.eat(',') {
                return self.eat('}').then_some(Literal::Dict(entries));
            }
        }
        Some(Literal::Dict(entries))
    }

    fn text(&mut self, quote: char) -> Option<String> {
        let mut out = String::new();
        let mut chars = self.rest.char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            if c == quote {
                self.rest = self.rest.get(at + 1..)?;
                return Some(out);
            }
            if c != '\\' {
                out.push(c);
                continue;
            }
            match chars.next()?.1 {
                'n' => out.push('\n'),
                't' => out.push('\t'),
                'r' => out.push('\r'),
                'x' => out.push(character(&mut chars, 2)?),
                'u' => out.push(character(&mut chars, 4)?),
                'U' => out.push(character(&mut chars, 8)?),
                c @ ('\\' | '\'' | '"') => out.push(c),
                // Python keeps a backslash that escapes nothing.
                c => out.extend(['\\', c]),
            }
        }
        None
    }

    fn word(&mut self) -> Option<Literal<'a>> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.' | '_');
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(match word {
            "None" => Literal::None,
            "True" => Literal::Bool(true),
            "False" => Literal::Bool(false),
            _ if word.parse::<f64>().is_ok() => Literal::Number(word),
            _ => return None,
        })
    }
}

/// The character of a hexadecimal number of so many digits. Half of a surrogate pair is no character.
fn character(chars: &mut impl Iterator<Item = (usize, char)>, digits: usize) -> Option<char> {
    let hex: String = chars.take(digits).map(|(_, c)| c).collect();
    let number = u32::from_str_radix(&hex, 16).ok().filter(|_| hex.len() == digits)?;
    Some(char::from_u32(number).unwrap_or('\u{fffd}'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(t: &str) -> Literal<'_> {
        Literal::Text(t.to_string())
    }

    #[test]
    fn values_are_read_as_python_writes_them() {
        let parsed = Literal::parse(r#"{'a': (1, -2.5e-3), "b": [None, True, 'it\'s'], 'c': (), 'd': inf}"#);
        let parsed = parsed.expect("a literal");
        let list = Literal::List(vec![Literal::Number("1"), Literal::Number("-2.5e-3")]);
        assert_eq!(parsed.get("a"), Some(&list));
        assert_eq!(
            parsed.get("b"),
            Some(&Literal::List(vec![Literal::None, Literal::Bool(true), text("it's")]))
        );
        assert_eq!(parsed.get("c"), Some(&Literal::List(Vec::new())));
        assert_eq!(parsed.get("d"), Some(&Literal::Number("inf")));
        assert_eq!(Literal::parse("(7)"), Some(Literal::Number("7")));
        assert_eq!(Literal::parse("(7,)"), Some(Literal::List(vec![Literal::Number("7")])));
        assert_eq!(Literal::parse(r"'\x41\u00e9\ud800\q'"), Some(text("A\u{e9}\u{fffd}\\q")));
    }

    #[test]
    fn what_is_no_literal_is_refused() {
        let calls = [
            "",
            "{'a': 1",
            "{'a'}",
            "[1 2]",
            "exit()",
            "__import__('os')",
            "1 + 1",
            "'open",
            "{'a': x}",
            "[1],",
        ];
        for text in calls {
            assert_eq!(Literal::parse(text), None, "{text}");
        }
        assert_eq!(Literal::parse(&"[".repeat(100_000)), None);
    }

    proptest! {
        /// Whatever a file says, the parser answers.
        #[test]
        fn no_text_makes_the_parser_fail(text in r#"[\[\](){}',:"\\xuU0-9a-fTN\. é]{0,40}"#) {
            Literal::parse(&text);
        }
    }
}
