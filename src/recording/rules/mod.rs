//! The rules, one file each: the first lines of a file are what `hta explain trust` prints of it.

mod capture_trace;
mod frames_inflate;
mod lost_launches;
mod profiler_overhead;
mod too_short;

use crate::job::Job;
use crate::recording::facts::RecordingRow;
use crate::recording::limit::Limit;

/// What rules judge.
pub struct Recorded<'a, 'r> {
    /// In order of rank.
    pub ranks: &'a [RecordingRow<'r>],
    /// Without parts where ranks are not joined.
    pub job: &'a Job,
}

pub struct Rule {
    pub name: &'static str,
    /// Text of its file.
    source: &'static str,
    /// The limits that it finds, the worst first.
    pub find: fn(&Recorded) -> Vec<Limit>,
}

impl Rule {
    /// What it means, in Markdown.
    pub fn text(&self) -> String {
        let head = self.source.lines().map_while(|l| l.strip_prefix("//!"));
        head.map(|l| l.strip_prefix(' ').unwrap_or(l)).collect::<Vec<_>>().join("\n")
    }
}

macro_rules! rules {
    ($($name:ident),+ $(,)?) => {
        /// The rules. Where several limit the same, the reason of an earlier one is said.
        pub const RULES: &[Rule] = &[$(Rule {
            name: stringify!($name),
            source: include_str!(concat!(stringify!($name), ".rs")),
            find: $name::find,
        }),+];
    };
}

rules![profiler_overhead, capture_trace, lost_launches, too_short, frames_inflate];
