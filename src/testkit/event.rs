//! The builder's representation of one row before it is written. Times in ns after the trace's origin.

use serde_json::Value;

/// An event of any phase, or raw JSON in its place.
#[derive(Clone, Debug)]
pub(super) enum Event {
    Row(TestEvent),
    Raw(Vec<u8>),
}

#[derive(Clone, Debug)]
pub(super) struct TestEvent {
    pub phase: EventPhase,
    pub category: String,
    pub name: NameValue,
    pub pid: IdValue,
    pub tid: IdValue,
    pub ts: i64,
    pub dur: Option<i64>,
    /// The launch that this row is, or that caused it; used to find `External id` when the trace is written.
    pub launch: Option<LaunchPoint>,
    pub args: Vec<(String, ArgValue)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventPhase {
    Complete,
    Instant { scope: &'static str },
    Counter,
    FlowStart { id: u64 },
    FlowEnd { id: u64 },
    Metadata,
}

/// An event's name. The raw form is written unescaped, for tests of broken producers.
#[derive(Clone, Debug)]
pub(super) enum NameValue {
    Text(String),
    Raw(Vec<u8>),
}

/// A process or thread id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum IdValue {
    Number(i64),
    Stream(i64),
    Text(String),
}

/// A value in `args`. The raw form is written unchanged, for example a bare `inf`.
#[derive(Clone, Debug)]
pub(super) enum ArgValue {
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

impl TestEvent {
    pub fn arg(&self, key: &str) -> Option<&Value> {
        self.args.iter().find(|(k, _)| k == key).and_then(|(_, v)| match v {
            ArgValue::Json(value) => Some(value),
            ArgValue::Raw(_) => None,
        })
    }

    /// Sets an argument, replacing an older value of the same key.
    pub fn set(&mut self, key: &str, value: ArgValue) {
        match self.args.iter_mut().find(|(k, _)| k == key) {
            Some((_, old)) => *old = value,
            None => self.args.push((key.to_owned(), value)),
        }
    }

    pub fn set_json(&mut self, key: &str, value: impl Into<Value>) {
        self.set(key, ArgValue::Json(value.into()));
    }

    pub fn correlation(&self) -> Option<u64> {
        self.arg("correlation").and_then(Value::as_u64)
    }
}
