//! Arguments whose values a shell can complete. The parser accepts any text, because the command itself gives
//! a better error message for an unknown name, and `--help` stays short.

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::error::Error;
use clap::{Arg, Command};
use std::ffi::OsStr;

/// Names with their titles, in the order of the listing.
#[derive(Debug, Clone)]
struct Completions(Vec<PossibleValue>);

impl TypedValueParser for Completions {
    type Value = String;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<String, Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.0.iter().cloned()))
    }
}

/// A positional argument with completions.
pub fn arg(id: &'static str, names: Vec<(&'static str, &'static str)>) -> Arg {
    complete(Arg::new(id), names)
}

/// Adds completions to an argument.
pub fn complete(arg: Arg, names: Vec<(&'static str, &'static str)>) -> Arg {
    let value = |(name, title): (&'static str, &'static str)| match title {
        "" => PossibleValue::new(name),
        _ => PossibleValue::new(name).help(title),
    };
    arg.value_parser(Completions(names.into_iter().map(value).collect())).hide_possible_values(true)
}
