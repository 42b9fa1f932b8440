//! Options of single analyses, declared beside them. The command line, `hta explain` and the defaults use the
//! declaration.
//!
//! A [`Setting`] is a constant of its analysis; [`Settings`] holds the user's values. If the user gave none,
//! the declared default is returned.

use hta_base::units::Ns;
use hta_trace::memory_moment::MemoryMoment;
use regex::Regex;
use std::collections::BTreeMap;

/// One option of one analysis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Setting {
    /// Stem of the analysis.
    pub stem: &'static str,
    /// The option as written, including the dashes.
    pub flag: &'static str,
    /// Placeholder of its value in the help.
    pub value: &'static str,
    pub help: &'static str,
    pub kind: ValueType,
}

/// Compare by short names.
pub const SHORT_NAMES: Setting = Setting {
    stem: "diff",
    flag: "--short-names",
    value: "",
    help: "Compare by short names, which differ less between versions of a library",
    kind: ValueType::Flag,
};

/// The type of an option's value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ValueType {
    /// No value: the option is given or not.
    Flag,
    /// A whole number, at least `min`.
    Count { default: u64, min: u64 },
    /// A time in microseconds.
    Micros { default: u64 },
    /// A percentage.
    Percent { default: f64 },
    /// One of these; the first is the default.
    Choice(&'static [&'static str]),
    /// Any of these, separated by commas; none by default.
    Choices(&'static [&'static str]),
    /// Any text; none by default.
    Text,
    /// A moment of the recording; by default the peak of memory.
    Moment,
    /// A file to write; none by default.
    OutputFile,
    /// A text file to read, whose content is stored with [`Settings::set_file`]; none by default.
    InputFile,
    /// A regular expression; none by default.
    Regex,
}

impl Setting {
    /// The option without its dashes.
    pub fn name(&self) -> &'static str {
        self.flag.trim_start_matches('-')
    }

    /// The default as the help prints it.
    pub fn default_text(&self) -> Option<String> {
        match self.kind {
            ValueType::Count { default, .. } | ValueType::Micros { default } => Some(default.to_string()),
            ValueType::Percent { default } => Some(default.to_string()),
            ValueType::Choice(of) => of.first().map(|c| (*c).to_string()),
            ValueType::Moment => Some(MemoryMoment::default().name()),
            ValueType::Flag
            | ValueType::Choices(_)
            | ValueType::Text
            | ValueType::OutputFile
            | ValueType::InputFile
            | ValueType::Regex => None,
        }
    }

    fn read(&self, text: &str) -> Result<SettingValue, String> {
        let expected = |what: String| format!("expected {what}");
        let one_of = |of: &[&str]| expected(format!("one of {}", of.join(", ")));
        match self.kind {
            ValueType::Flag => Ok(SettingValue::Flag),
            ValueType::Count { min, .. } => match text.parse() {
                Ok(n) if n >= min => Ok(SettingValue::Count(n)),
                _ => Err(expected(format!("a whole number from {min}"))),
            },
            ValueType::Micros { .. } => match text.parse::<u64>() {
                Ok(n) if n <= MOST_MICROS => Ok(SettingValue::Count(n)),
                _ => Err(expected("a whole number of microseconds".to_string())),
            },
            ValueType::Percent { .. } => match text.trim_end_matches('%').parse::<f64>() {
                Ok(x) if x.is_finite() && x >= 0.0 => Ok(SettingValue::Percent(x)),
                _ => Err(expected("a percentage".to_string())),
            },
            ValueType::Choice(of) if of.contains(&text) => Ok(SettingValue::Text(text.to_string())),
            ValueType::Choice(of) => Err(one_of(of)),
            ValueType::Choices(of) if text.split(',').all(|t| of.contains(&t)) => {
                Ok(SettingValue::Text(text.to_string()))
            }
            ValueType::Choices(of) => Err(one_of(of)),
            ValueType::OutputFile | ValueType::InputFile if text.is_empty() => {
                Err(expected("a file".to_string()))
            }
            ValueType::Text | ValueType::OutputFile | ValueType::InputFile => {
                Ok(SettingValue::Text(text.to_string()))
            }
            ValueType::Moment => match MemoryMoment::parse(text) {
                Some(moment) => Ok(SettingValue::Moment(text.to_string(), moment)),
                None => Err(expected(MemoryMoment::EXPECTED.to_string())),
            },
            ValueType::Regex => regex(text).map(SettingValue::Regex),
        }
    }
}

/// Parses a regular expression.
///
/// # Errors
/// Says what is wrong with it, in one line.
pub fn regex(text: &str) -> Result<Regex, String> {
    Regex::new(text).map_err(|e: regex::Error| {
        e.to_string().lines().last().unwrap_or("not a regular expression").trim().to_string()
    })
}

/// One hour, which is longer than any useful threshold.
const MOST_MICROS: u64 = 3_600_000_000;

#[derive(Debug, Clone)]
enum SettingValue {
    Flag,
    Count(u64),
    Percent(f64),
    Text(String),
    /// As written, and what it means.
    Moment(String, MemoryMoment),
    Regex(Regex),
    /// Path and content.
    File(String, String),
}

/// The user's values, by analysis and option.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    given: BTreeMap<(&'static str, &'static str), SettingValue>,
}

impl Settings {
    /// Parses and stores the user's text; a flag accepts any text.
    ///
    /// # Errors
    /// Says what was expected.
    pub fn set(&mut self, setting: &Setting, text: &str) -> Result<(), String> {
        let value = setting.read(text)?;
        self.given.insert((setting.stem, setting.flag), value);
        Ok(())
    }

    /// Stores the content of the file that an option names.
    pub fn set_file(&mut self, setting: &Setting, path: &str, content: String) {
        self.given.insert((setting.stem, setting.flag), SettingValue::File(path.to_string(), content));
    }

    /// Path and content of the file that an option names.
    pub(crate) fn file(&self, setting: &Setting) -> Option<(&str, &str)> {
        match self.get(setting) {
            Some(SettingValue::File(path, content)) => Some((path, content)),
            _ => None,
        }
    }

    fn get(&self, setting: &Setting) -> Option<&SettingValue> {
        self.given.get(&(setting.stem, setting.flag))
    }

    pub fn is_given(&self, setting: &Setting) -> bool {
        self.get(setting).is_some()
    }

    pub fn flag(&self, setting: &Setting) -> bool {
        self.is_given(setting)
    }

    pub fn count(&self, setting: &Setting) -> u64 {
        match (self.get(setting), setting.kind) {
            (Some(SettingValue::Count(n)), _) => *n,
            (_, ValueType::Count { default, .. } | ValueType::Micros { default }) => default,
            _ => 0,
        }
    }

    /// A time that was given in microseconds, in ns.
    pub fn ns(&self, setting: &Setting) -> Ns {
        Ns::try_from(self.count(setting)).unwrap_or(Ns::MAX).saturating_mul(1000)
    }

    pub fn percent(&self, setting: &Setting) -> f64 {
        match (self.get(setting), setting.kind) {
            (Some(SettingValue::Percent(x)), _) => *x,
            (_, ValueType::Percent { default }) => default,
            _ => 0.0,
        }
    }

    /// The value of a text or choice option.
    pub fn text(&self, setting: &Setting) -> Option<&str> {
        match (self.get(setting), setting.kind) {
            (Some(SettingValue::Text(t) | SettingValue::Moment(t, _)), _) => Some(t),
            (_, ValueType::Choice(of)) => of.first().copied(),
            _ => None,
        }
    }

    /// The value of any option as text; `None` if it was not given and has no default.
    pub fn shown(&self, setting: &Setting) -> Option<String> {
        match self.get(setting) {
            None => setting.default_text(),
            Some(SettingValue::Flag) => Some(String::new()),
            Some(SettingValue::Count(n)) => Some(n.to_string()),
            Some(SettingValue::Percent(x)) => Some(x.to_string()),
            Some(SettingValue::Text(t) | SettingValue::Moment(t, _) | SettingValue::File(t, _)) => {
                Some(t.clone())
            }
            Some(SettingValue::Regex(r)) => Some(r.to_string()),
        }
    }

    pub(crate) fn moment(&self, setting: &Setting) -> MemoryMoment {
        match self.get(setting) {
            Some(SettingValue::Moment(_, moment)) => *moment,
            _ => MemoryMoment::default(),
        }
    }

    /// Whether the user gave this one of [`ValueType::Choices`].
    pub(crate) fn has(&self, setting: &Setting, choice: &str) -> bool {
        self.text(setting).is_some_and(|t| t.split(',').any(|c| c == choice))
    }

    pub(crate) fn regex(&self, setting: &Setting) -> Option<&Regex> {
        match self.get(setting) {
            Some(SettingValue::Regex(r)) => Some(r),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: Setting = Setting {
        stem: "patterns",
        flag: "--min-length",
        value: "N",
        help: "shortest pattern",
        kind: ValueType::Count { default: 3, min: 1 },
    };
    const BY: Setting = Setting {
        stem: "kernels",
        flag: "--by",
        value: "KEY",
        help: "keys",
        kind: ValueType::Choices(&["op", "shape"]),
    };

    #[test]
    fn the_declared_default_answers_until_the_user_says_otherwise() {
        let mut s = Settings::default();
        assert_eq!((s.count(&LENGTH), s.is_given(&LENGTH)), (3, false));
        s.set(&LENGTH, "5").unwrap();
        assert_eq!((s.count(&LENGTH), s.is_given(&LENGTH)), (5, true));
        assert_eq!(s.set(&LENGTH, "0").unwrap_err(), "expected a whole number from 1");
        assert!(!s.has(&BY, "op"));
        s.set(&BY, "op,shape").unwrap();
        assert!(s.has(&BY, "op") && s.has(&BY, "shape") && !s.has(&BY, "stream"));
        assert_eq!(s.set(&BY, "op,x").unwrap_err(), "expected one of op, shape");
    }
}
