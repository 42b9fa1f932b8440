//! Arguments whose names a shell can complete. Any text is taken: the command that gets it knows better than
//! the parser what to say of one that it does not know, and `--help` stays short.

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::error::Error;
use clap::{Arg, Command};
use std::ffi::OsStr;

/// Names and what they are, in the order of the listing.
#[derive(Debug, Clone)]
struct Known(Vec<PossibleValue>);

impl TypedValueParser for Known {
    type Value = String;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<String, Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.0.iter().cloned()))
    }
}

/// An argument without a flag, and the names it is made for.
pub fn arg(id: &'static str, names: Vec<(&'static str, &'static str)>) -> Arg {
    complete(Arg::new(id), names)
}

/// The names that an argument is made for.
pub fn complete(arg: Arg, names: Vec<(&'static str, &'static str)>) -> Arg {
    let value = |(name, title): (&'static str, &'static str)| match title {
        "" => PossibleValue::new(name),
        _ => PossibleValue::new(name).help(title),
    };
    arg.value_parser(Known(names.into_iter().map(value).collect())).hide_possible_values(true)
}
