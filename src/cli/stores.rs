//! Options for reading and writing object stores, which all commands have.

use clap::{Arg, ArgMatches, Command, value_parser};
use hta_read::error::SetError;
use hta_read::files::{Fault, Queries, STALL, StoreOptions, Stores};
use std::ffi::OsString;
use std::time::Duration;

/// Adds the options to the whole command line.
pub fn with_options(root: Command) -> Command {
    let endpoint = Arg::new("endpoint").long("endpoint").global(true).value_name("URL");
    let endpoint = endpoint.help("Server of s3://, gs:// and az:// URLs, instead of the cloud's own");
    let stall = Arg::new("store_timeout").long("store-timeout").global(true).value_name("SECONDS");
    let stall = stall.value_parser(value_parser!(u64).range(1..=3600));
    let help = format!("Ask again if a store sends nothing for so long [default: {}]", STALL.as_secs());
    let stall = stall.help(help);
    let heading = "Object stores";
    root.arg(endpoint.help_heading(heading)).arg(stall.help_heading(heading))
}

/// The options as they were given, for another command of this program.
pub fn arguments(matches: &ArgMatches) -> Vec<OsString> {
    let endpoint = matches.get_one::<String>("endpoint").map(|url| format!("--endpoint={url}"));
    let stall = matches.get_one::<u64>("store_timeout").map(|seconds| format!("--store-timeout={seconds}"));
    endpoint.into_iter().chain(stall).map(OsString::from).collect()
}

/// The stores of the command line, from its options and the signed queries of its URLs.
///
/// # Errors
/// When the endpoint is not a URL of a server.
pub fn of(matches: &ArgMatches, queries: Queries) -> Result<Stores, SetError> {
    let endpoint = matches.get_one::<String>("endpoint").cloned();
    let stall = matches.get_one::<u64>("store_timeout").map_or(STALL, |s| Duration::from_secs(*s));
    let value = endpoint.clone().unwrap_or_default();
    let bad = |fault: Fault| SetError::Argument { option: "--endpoint", value, reason: fault.reason };
    Stores::new(StoreOptions { endpoint, stall }, queries).map_err(bad)
}
