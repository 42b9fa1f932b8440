//! One row of the trace as the builder keeps it, before it is written. Times are ns after the
//! trace's origin.

use serde_json::Value;

/// One event of any phase, or a piece of raw JSON in its place.
#[derive(Clone, Debug)]
pub(super) enum Event {
    Row(EventRow),
    Raw(Vec<u8>),
}

#[derive(Clone, Debug)]
pub(super) struct EventRow {
    pub phase: Phase,
    pub category: String,
    pub name: Name,
    pub pid: Place,
    pub tid: Place,
    pub ts: i64,
    pub dur: Option<i64>,
    /// The launch that this row is, or that caused it; `External id` is found from it when the
    /// trace is written.
    pub launch: Option<LaunchPoint>,
    pub args: Vec<(String, Arg)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Complete,
    Instant { scope: &'static str },
    Counter,
    FlowStart { id: u64 },
    FlowEnd { id: u64 },
    Metadata,
}

/// An event's name; the raw form goes into the file unescaped, for tests of broken producers.
#[derive(Clone, Debug)]
pub(super) enum Name {
    Text(String),
    Raw(Vec<u8>),
}

/// A process or thread id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    Number(i64),
    Stream(i64),
    Text(String),
}

/// A value in `args`; the raw form goes into the file as it is, for example a bare `inf`.
#[derive(Clone, Debug)]
pub(super) enum Arg {
    Json(Value),
    Raw(String),
}

/// Where on the host a launch happened.
#[derive(Clone, Copy, Debug)]
pub(super) struct LaunchPoint {
    pub pid: i64,
    pub tid: i64,
    pub ts: i64,
}

impl EventRow {
    pub fn arg(&self, key: &str) -> Option<&Value> {
        self.args.iter().find(|(k, _)| k == key).and_then(|(_, v)| match v {
            Arg::Json(value) => Some(value),
            Arg::Raw(_) => None,
        })
    }

    /// Sets an argument, in the place of an older value of the same key.
    pub fn set(&mut self, key: &str, value: Arg) {
        match self.args.iter_mut().find(|(k, _)| k == key) {
            Some((_, old)) => *old = value,
            None => self.args.push((key.to_owned(), value)),
        }
    }

    pub fn set_json(&mut self, key: &str, value: impl Into<Value>) {
        self.set(key, Arg::Json(value.into()));
    }

    pub fn correlation(&self) -> Option<u64> {
        self.arg("correlation").and_then(Value::as_u64)
    }
}
