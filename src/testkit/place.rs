//! Rows that belong to no host thread: device annotations, overhead, counters, flows, the record window,
//! names.

use std::ops::Range;

use serde_json::{Value, json};

use crate::event::{ArgValue, Event, EventPhase, IdValue};
use crate::row::TestRow;
use crate::thread::Thread;
use crate::trace::{TraceBuilder, complete};

impl TraceBuilder {
    /// A host thread, to which operators, annotations, Python frames and API calls are added.
    pub fn thread(&mut self, tid: i64) -> Thread<'_> {
        Thread::new(self, tid)
    }

    /// The launch with this correlation id, to add device rows to it later. If there is no such launch, the
    /// device row is unlinked, as if launched before the capture.
    pub fn linked(&mut self, correlation: u64) -> TestRow<'_> {
        let found = self.events.iter().position(|event| match event {
            Event::Row(row) => {
                row.launch.is_some() && row.dur.is_some() && row.correlation() == Some(correlation)
            }
            Event::Raw(_) => false,
        });
        TestRow::launched(self, found, correlation)
    }

    /// A launch that is not in the trace: `t.unlinked().kernel(...)`.
    pub fn unlinked(&mut self) -> TestRow<'_> {
        let correlation = self.take_correlation();
        TestRow::launched(self, None, correlation)
    }

    /// `gpu_user_annotation`: a host range repeated on a stream.
    pub fn gpu_annotation(&mut self, name: &str, stream: i64, span: Range<i64>) -> TestRow<'_> {
        let pid = IdValue::Number(self.device_index);
        self.add(complete("gpu_user_annotation", name, pid, IdValue::Stream(stream), span))
    }

    /// Time that the profiler itself took.
    pub fn overhead(&mut self, name: &str, span: Range<i64>) -> TestRow<'_> {
        self.add(complete("overhead", name, IdValue::Number(-1), IdValue::Number(0), span))
    }

    /// A counter sample, shown under the rank's device.
    pub fn counter(&mut self, name: &str, ts: i64, values: &[(&str, f64)]) -> TestRow<'_> {
        let mut row = complete("", name, IdValue::Number(self.device_index), IdValue::Number(0), ts..ts);
        row.phase = EventPhase::Counter;
        row.dur = None;
        for (key, value) in values {
            row.set_json(key, *value);
        }
        self.add(row)
    }

    /// A sample of a hardware counter of the rank's device, as Cuspy writes it: `Power (W)`, `SM Active (%)`.
    pub fn hardware_counter(&mut self, name: &str, ts: i64, value: f64) -> TestRow<'_> {
        let process = IdValue::Text(format!("GPU {} Counters", self.device_index));
        let mut row = complete("", name, process, IdValue::Number(0), ts..ts);
        row.phase = EventPhase::Counter;
        row.dur = None;
        row.set_json("", value);
        self.add(row)
    }

    /// A `fwdbwd` flow from a forward operator to its backward node, each given as (thread, time).
    pub fn forward_backward(&mut self, id: u64, forward: (i64, i64), backward: (i64, i64)) {
        let pid = IdValue::Number(self.pid);
        let ends = [(EventPhase::FlowStart { id }, forward), (EventPhase::FlowEnd { id }, backward)];
        for (phase, (tid, ts)) in ends {
            self.flow("fwdbwd", phase, pid.clone(), IdValue::Number(tid), ts);
        }
    }

    /// The record window: the `Trace` span, `Iteration Start` and `Record Window End`.
    pub fn window(&mut self, span: Range<i64>) {
        let (start, end) = (span.start, span.end);
        let tid = IdValue::Text("PyTorch Profiler".to_owned());
        let mut trace =
            complete("Trace", "PyTorch Profiler (0)", IdValue::Text("Spans".to_owned()), tid, span);
        trace.set_json("Op count", 0);
        self.add(trace);
        self.instant("Iteration Start: PyTorch Profiler", "Traces", "Trace PyTorch Profiler", start);
        self.instant("Record Window End", "", "", end);
    }

    /// Any complete event.
    pub fn event(&mut self, category: &str, name: &str, pid: i64, tid: i64, span: Range<i64>) -> TestRow<'_> {
        self.add(complete(category, name, IdValue::Number(pid), IdValue::Number(tid), span))
    }

    /// Bytes that are written into the list of events unchanged, JSON or not.
    pub fn raw_event(&mut self, bytes: impl AsRef<[u8]>) {
        self.events.push(Event::Raw(bytes.as_ref().to_vec()));
    }

    /// `process_name`, `process_labels`, `thread_name` and sort rows for every process, thread and stream
    /// used so far.
    pub fn name_rows(&mut self, process: &str, threads: &[(i64, &str)]) {
        let mut places: Vec<(IdValue, IdValue)> = Vec::new();
        for event in &self.events {
            if let Event::Row(row) = event
                && row.phase == EventPhase::Complete
                && !matches!(row.pid, IdValue::Text(_))
                && row.pid != IdValue::Number(-1)
            {
                places.push((row.pid.clone(), row.tid.clone()));
            }
        }
        places.sort();
        places.dedup();
        let mut last_pid = None;
        for (pid, tid) in places {
            let on_host = pid == IdValue::Number(self.pid);
            if last_pid.as_ref() != Some(&pid) {
                let label = if on_host { "CPU".to_owned() } else { format!("GPU {}", self.device_index) };
                let sort_index = if on_host { self.pid } else { 5_000_000 + self.device_index };
                let zero = IdValue::Number(0);
                self.meta("process_name", &pid, &zero, "name", json!(process));
                self.meta("process_labels", &pid, &zero, "labels", json!(label));
                self.meta("process_sort_index", &pid, &zero, "sort_index", json!(sort_index));
                last_pid = Some(pid.clone());
            }
            let (number, text) = match &tid {
                IdValue::Stream(n) => (*n, format!("stream {n} ")),
                IdValue::Number(n) => {
                    let name = threads.iter().find(|(t, _)| t == n).map_or(process, |(_, name)| name);
                    (*n, format!("thread {n} ({name})"))
                }
                IdValue::Text(t) => (0, t.clone()),
            };
            self.meta("thread_name", &pid, &tid, "name", json!(text));
            self.meta("thread_sort_index", &pid, &tid, "sort_index", json!(number));
        }
    }

    /// Number of events so far, including rows that the builder adds itself.
    pub fn event_count(&self) -> usize {
        self.events.len()
    }

    fn instant(&mut self, name: &str, pid: &str, tid: &str, ts: i64) {
        let mut row =
            complete("", name, IdValue::Text(pid.to_owned()), IdValue::Text(tid.to_owned()), ts..ts);
        row.phase = EventPhase::Instant { scope: "g" };
        row.dur = None;
        self.add(row);
    }

    fn meta(&mut self, name: &str, pid: &IdValue, tid: &IdValue, key: &str, value: Value) {
        let mut row = complete("", name, pid.clone(), tid.clone(), 0..0);
        row.phase = EventPhase::Metadata;
        row.dur = None;
        row.set(key, ArgValue::Json(value));
        self.add(row);
    }
}
