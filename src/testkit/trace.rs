//! The builder: properties of a rank. Rows of host threads are in `thread`, the others in `place`.

use std::ops::Range;

use crate::event::{Event, EventPhase, IdValue, NameValue, TestEvent};
use crate::time::{DEFAULT_BASE_NS, DEFAULT_ORIGIN_AFTER_BASE_NS};
use crate::vendor::Vendor;

/// Builds the trace of one rank.
#[derive(Clone, Debug)]
pub struct TraceBuilder {
    pub(super) rank: Option<u32>,
    pub(super) world: Option<u32>,
    pub(super) backend: Option<String>,
    pub(super) groups: Vec<TestGroup>,
    pub(super) host: Option<String>,
    pub(super) devices: Vec<TestDevice>,
    pub(super) vendor: Vendor,
    pub(super) base_ns: i64,
    pub(super) origin_ns: i64,
    pub(super) pid: i64,
    pub(super) device_index: i64,
    pub(super) draws_flows: bool,
    pub(super) top_level: Vec<(String, String)>,
    pub(super) events: Vec<Event>,
    next_correlation: u64,
    next_external: u64,
    next_python: u64,
    next_event_index: u64,
}

#[derive(Clone, Debug)]
pub(super) struct TestGroup {
    pub name: String,
    pub description: String,
    pub ranks: Vec<u32>,
}

#[derive(Clone, Debug)]
pub(super) struct TestDevice {
    pub name: String,
    pub multiprocessors: u32,
}

impl Default for TraceBuilder {
    fn default() -> Self {
        TraceBuilder {
            rank: None,
            world: None,
            backend: None,
            groups: Vec::new(),
            host: None,
            devices: Vec::new(),
            vendor: Vendor::Nvidia,
            base_ns: DEFAULT_BASE_NS,
            origin_ns: DEFAULT_BASE_NS + DEFAULT_ORIGIN_AFTER_BASE_NS,
            pid: 1000,
            device_index: 0,
            draws_flows: false,
            top_level: Vec::new(),
            events: Vec::new(),
            next_correlation: 1,
            next_external: 1,
            next_python: 1,
            next_event_index: 0,
        }
    }
}

/// Properties of the rank. Set them first, because rows depend on them.
impl TraceBuilder {
    /// An empty trace: no rank, no device, no events.
    pub fn new() -> Self {
        Self::default()
    }

    /// `distributedInfo.rank`; without it and `world` there is no `distributedInfo`.
    pub fn rank(mut self, rank: u32) -> Self {
        self.rank = Some(rank);
        self
    }

    /// `distributedInfo.world_size`, and a default process group of all ranks.
    pub fn world(mut self, size: u32) -> Self {
        self.world = Some(size);
        self
    }

    /// `distributedInfo.backend`: `nccl`, `gloo`, ...
    pub fn backend(mut self, name: &str) -> Self {
        self.backend = Some(name.to_owned());
        self
    }

    /// Adds a process group to `pg_config`.
    pub fn group(mut self, name: &str, description: &str, ranks: impl IntoIterator<Item = u32>) -> Self {
        self.groups.push(TestGroup {
            name: name.to_owned(),
            description: description.to_owned(),
            ranks: ranks.into_iter().collect(),
        });
        self
    }

    /// `host_name`.
    pub fn host(mut self, name: &str) -> Self {
        self.host = Some(name.to_owned());
        self
    }

    /// Adds a visible device: name and number of multiprocessors.
    pub fn device(mut self, name: &str, multiprocessors: u32) -> Self {
        self.devices.push(TestDevice { name: name.to_owned(), multiprocessors });
        self
    }

    /// The device that runs this rank's work; default 0.
    pub fn device_index(mut self, index: i64) -> Self {
        self.device_index = index;
        self
    }

    /// The vendor whose profiler the trace imitates; default CUDA.
    pub fn vendor(mut self, vendor: Vendor) -> Self {
        self.vendor = vendor;
        self
    }

    /// The process id of host rows.
    pub fn pid(mut self, pid: i64) -> Self {
        self.pid = pid;
        self
    }

    /// Unix time of the builder's time 0, ns. Shifting it shifts the rank's clock.
    pub fn origin(mut self, unix_ns: i64) -> Self {
        self.origin_ns = unix_ns;
        self
    }

    /// `baseTimeNanoseconds`. Changes how times are written, not the times themselves.
    pub fn base_time(mut self, unix_ns: i64) -> Self {
        self.base_ns = unix_ns;
        self
    }

    /// Also write an `ac2g` flow from each launch to each of its device rows.
    pub fn with_flows(mut self) -> Self {
        self.draws_flows = true;
        self
    }

    /// A top-level key with any JSON text, valid or not; replaces the builder's own key of that name.
    pub fn top_level(mut self, key: &str, raw_json: &str) -> Self {
        self.top_level.push((key.to_owned(), raw_json.to_owned()));
        self
    }
}

impl TraceBuilder {
    pub(super) fn flow(&mut self, category: &str, phase: EventPhase, pid: IdValue, tid: IdValue, ts: i64) {
        let mut row = complete(category, category, pid, tid, ts..ts);
        row.phase = phase;
        row.dur = None;
        self.add(row);
    }

    pub(super) fn take_correlation(&mut self) -> u64 {
        take(&mut self.next_correlation)
    }

    pub(super) fn take_external(&mut self) -> u64 {
        take(&mut self.next_external)
    }

    pub(super) fn take_python(&mut self) -> u64 {
        take(&mut self.next_python)
    }

    pub(super) fn take_event_index(&mut self) -> u64 {
        take(&mut self.next_event_index)
    }
}

fn take(counter: &mut u64) -> u64 {
    let value = *counter;
    *counter += 1;
    value
}

/// A complete event without arguments. The end may precede the start, for tests of broken times.
pub(super) fn complete(
    category: &str,
    name: &str,
    pid: IdValue,
    tid: IdValue,
    span: Range<i64>,
) -> TestEvent {
    TestEvent {
        phase: EventPhase::Complete,
        category: category.to_owned(),
        name: NameValue::Text(name.to_owned()),
        pid,
        tid,
        ts: span.start,
        dur: Some(span.end.saturating_sub(span.start)),
        launch: None,
        args: Vec::new(),
    }
}
