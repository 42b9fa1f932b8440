//! The files of AWS profiles, `~/.aws/config` and `~/.aws/credentials`, in the dialect of INI that the AWS
//! CLI reads.
//!
//! ```text
//!   # A comment is a line of its own, or follows white space behind a value.
//!   [profile train]
//!   region = eu-central-1
//!   s3 =
//!       addressing_style = path
//! ```
//!
//! A line that is indented more than the key before it belongs to the value of this key: to an empty value as
//! a key of its own, to any other as its next line. As in the AWS CLI, a section or key that is there twice
//! is an error. Errors name lines by their numbers and never quote them, because they may hold secrets.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// A section, with its keys in lower case.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct AwsSection {
    /// What stands between the brackets.
    pub(crate) name: String,
    pub(crate) values: BTreeMap<String, AwsValue>,
}

/// The value of a key.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct AwsValue {
    pub(crate) line: usize,
    pub(crate) text: String,
    /// The keys that are indented below an empty value.
    pub(crate) nested: BTreeMap<String, String>,
}

/// A line that cannot be read, counted from one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BadLine {
    pub(crate) line: usize,
    pub(crate) reason: &'static str,
}

/// The sections of a file.
pub(super) fn sections(text: &str) -> Result<Vec<AwsSection>, BadLine> {
    let mut sections: Vec<AwsSection> = Vec::new();
    let (mut last_key, mut indent_of_key) = (None, 0);
    for (line, text) in (1..).zip(text.trim_start_matches('\u{feff}').lines()) {
        let bare = text.trim();
        if bare.is_empty() || bare.starts_with(['#', ';']) {
            continue;
        }
        let bad = |reason| BadLine { line, reason };
        let indent = text.chars().take_while(|c| c.is_whitespace()).count();
        let mut section = sections.last_mut();
        let last_value = section.as_mut().and_then(|s| s.values.get_mut(last_key.as_ref()?));
        if let Some(value) = last_value.filter(|_| indent > indent_of_key) {
            value.add_line(bare).map_err(bad)?;
            continue;
        }
        (last_key, indent_of_key) = (None, indent);
        if let Some(header) = bare.strip_prefix('[') {
            let name = header.split_once(']').map(|(name, _)| name.trim().to_string());
            let name = name.ok_or_else(|| bad("the section has no `]`"))?;
            if sections.iter().any(|s| s.name == name) {
                return Err(bad("the section is there twice"));
            }
            sections.push(AwsSection { name, values: BTreeMap::new() });
            continue;
        }
        let section =
            section.ok_or_else(|| bad("expected a section, as `[default]`, before the first key"))?;
        let (key, text) = pair(bare, &['=', ':']).ok_or_else(|| bad("expected `key = value`"))?;
        last_key = Some(key.clone());
        match section.values.entry(key) {
            Entry::Vacant(free) => free.insert(AwsValue { line, text, ..AwsValue::default() }),
            Entry::Occupied(_) => return Err(bad("the key is there twice in its section")),
        };
    }
    Ok(sections)
}

impl AwsValue {
    fn add_line(&mut self, line: &str) -> Result<(), &'static str> {
        if self.text.is_empty() {
            let (key, text) = pair(line, &['=']).ok_or("expected an indented `key = value`")?;
            self.nested.insert(key, text);
        } else {
            self.text.push('\n');
            self.text.push_str(line);
        }
        Ok(())
    }
}

/// Key and value of a line, apart from a comment behind them.
fn pair(line: &str, delimiters: &[char]) -> Option<(String, String)> {
    let (key, value) = line.split_once(delimiters)?;
    let key = key.trim().to_lowercase();
    let is_comment = |(at, c): &(usize, char)| {
        matches!(c, '#' | ';') && value.get(..*at).is_some_and(|before| before.ends_with(char::is_whitespace))
    };
    let end = value.char_indices().find(is_comment).map_or(value.len(), |(at, _)| at);
    (!key.is_empty()).then(|| (key, value.get(..end).unwrap_or(value).trim().to_string()))
}

impl AwsSection {
    /// The profile that a section of the configuration holds.
    pub(crate) fn profile(&self) -> Option<String> {
        if self.name == "default" { Some(self.name.clone()) } else { self.named("profile") }
    }

    /// The name in `[kind name]`, which may be quoted.
    pub(crate) fn named(&self, kind: &str) -> Option<String> {
        let [first, name] = <[String; 2]>::try_from(words(&self.name)?).ok()?;
        (first == kind).then_some(name)
    }
}

/// The words of a command, with quotes and backslashes as in a shell; `None` if a quote is not closed.
pub(super) fn words(text: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some('"'), '\\') if matches!(rest.peek(), Some('"' | '\\')) => {
                word.get_or_insert_default().extend(rest.next());
            }
            (None, '\\') => word.get_or_insert_default().push(rest.next()?),
            (None, '"' | '\'') => {
                word.get_or_insert_default();
                quote = Some(c);
            }
            (None, _) if c.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values of a section as `key=value`, and nested ones as `key.key=value`.
    fn read(text: &str) -> Vec<(String, Vec<String>)> {
        let values = |section: &AwsSection| {
            let of = |(key, value): (&String, &AwsValue)| match value.nested.is_empty() {
                true => vec![format!("{key}={}", value.text)],
                false => value.nested.iter().map(|(k, v)| format!("{key}.{k}={v}")).collect(),
            };
            section.values.iter().flat_map(of).collect()
        };
        sections(text).unwrap().iter().map(|s| (s.name.clone(), values(s))).collect()
    }

    fn refused(text: &str) -> (usize, &'static str) {
        sections(text).map(|_| ()).map_err(|bad| (bad.line, bad.reason)).unwrap_err()
    }

    #[test]
    fn sections_keys_comments_and_blank_lines_are_read_as_the_aws_cli_does() {
        let text = "\u{feff}# all\n\n[default]\nRegion=eu-west-1\r\n; more\naws_access_key_id : AKID\n\n\
                    [profile a] # text\nregion = us-east-2 # text\ntoken = a#b=c;d\nempty =\n";
        let found = read(text);
        assert_eq!(found[0].0, "default");
        assert_eq!(found[0].1, ["aws_access_key_id=AKID", "region=eu-west-1"]);
        assert_eq!(found[1].0, "profile a");
        assert_eq!(found[1].1, ["empty=", "region=us-east-2", "token=a#b=c;d"]);
    }

    #[test]
    fn indented_lines_belong_to_the_key_above_them() {
        let found = read(
            "[a]\ns3 =\n  addressing_style = path\n\n  # text\n  other=1\nregion = x\n  y\n\
             [b]\n  key = 1\n  next = 2\n",
        );
        assert_eq!(found[0].1, ["region=x\ny", "s3.addressing_style=path", "s3.other=1"]);
        // What is indented below a section and no key is a key of the section.
        assert_eq!(found[1].1, ["key=1", "next=2"]);
    }

    #[test]
    fn a_line_that_is_nothing_of_these_is_refused_by_its_number() {
        assert_eq!(refused("[a]\nb = 1\nsecret\n"), (3, "expected `key = value`"));
        assert_eq!(refused("= 1\n").0, 1);
        assert_eq!(refused("# text\nb = 1\n").0, 2);
        assert_eq!(refused("[a]\n= 1\n").0, 2);
        assert_eq!(refused("[a\n"), (1, "the section has no `]`"));
        assert_eq!(refused("[a]\n[b]\n[a]\n"), (3, "the section is there twice"));
        assert_eq!(refused("[a]\nb = 1\nB = 2\n"), (3, "the key is there twice in its section"));
        assert_eq!(refused("[a]\ns3 =\n  path\n"), (3, "expected an indented `key = value`"));
    }

    #[test]
    fn profiles_are_told_from_other_sections() {
        let profile = |name: &str| AwsSection { name: name.to_string(), values: BTreeMap::new() }.profile();
        assert_eq!(profile("default").as_deref(), Some("default"));
        assert_eq!(profile("profile  dev").as_deref(), Some("dev"));
        assert_eq!(profile("profile \"two words\"").as_deref(), Some("two words"));
        for other in ["dev", "profiledev", "profile", "profile two words", "sso-session dev", "services s3"] {
            assert_eq!(profile(other), None, "{other}");
        }
    }

    #[test]
    fn commands_are_split_as_a_shell_does() {
        assert_eq!(
            words(r#"/bin/get  --user "two words" 'it''s' a\ b "q\"\x" ''"#).unwrap(),
            ["/bin/get", "--user", "two words", "its", "a b", r#"q"\x"#, ""]
        );
        assert_eq!(words("").unwrap(), [""; 0]);
        assert_eq!(words("get 'open"), None);
        assert_eq!(words("get \\"), None);
    }
}
