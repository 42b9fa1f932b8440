//! Random small traces: a plan can be written with the trace builder, and counted by brute force.
//!
//! All times lie within [`END`] ns, so that every instant is one element of an array. Host events of one thread never
//! have equal spans, because then only the order of the file would decide which one is inner.

use hta_testkit::{Format, SyncKind, TraceBuilder};
use proptest::prelude::*;
use std::collections::HashSet;
use std::path::PathBuf;

/// No event ends later than this, ns after the origin.
pub const END: i64 = 160;

/// Unix time of a plan's time 0, ns.
pub const ORIGIN: i64 = 1_775_080_000_000_000_123;

pub const LOADER: &str = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    Compute,
    Communication,
    Memory,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Step,
    Op,
    CommunicationOp,
    Annotation,
    CommunicationRange,
    Frame,
    Loader,
    Call,
    Gpu,
    /// Drawn on a device, but not work.
    Drawn,
    /// The profiler's own row.
    Overhead,
}

/// One complete event of a plan, in the order of the file.
#[derive(Debug, Clone)]
pub struct Row {
    pub kind: Kind,
    pub name: String,
    pub start: i64,
    pub end: i64,
    /// For host events.
    pub thread: i64,
    /// For activities.
    pub device: i64,
    pub stream: i64,
    pub class: Class,
    /// Index of the launch call.
    pub launch: Option<usize>,
}

#[derive(Debug, Clone, Copy)]
pub struct Activity {
    pub class: Class,
    pub device: i64,
    pub stream: i64,
    pub start: i64,
    pub dur: i64,
}

#[derive(Debug, Clone)]
pub struct Host {
    pub kind: Kind,
    pub thread: i64,
    pub start: i64,
    pub dur: i64,
    /// Activities of a call: none, one, or those of a graph.
    pub launched: Vec<Activity>,
}

#[derive(Debug, Clone)]
pub struct Plan {
    /// Lengths of steps on thread 1 and the pause before each.
    pub steps: Vec<(i64, i64)>,
    pub host: Vec<Host>,
    pub unlinked: Vec<Activity>,
    /// A synchronisation row, a device annotation and an overhead row, at these times.
    pub drawn: Option<i64>,
}

fn activity() -> impl Strategy<Value = Activity> {
    let class = prop_oneof![Just(Class::Compute), Just(Class::Communication), Just(Class::Memory)];
    (class, 0i64..2, 0i64..3, 20i64..120, prop_oneof![Just(0i64), 1i64..40])
        .prop_map(|(class, device, stream, start, dur)| Activity { class, device, stream, start, dur })
}

fn host() -> impl Strategy<Value = Host> {
    let kind = prop_oneof![
        2 => Just(Kind::Op),
        1 => Just(Kind::CommunicationOp),
        1 => Just(Kind::Annotation),
        1 => Just(Kind::CommunicationRange),
        1 => Just(Kind::Frame),
        1 => Just(Kind::Loader),
        4 => Just(Kind::Call),
    ];
    let launched =
        prop_oneof![3 => prop::collection::vec(activity(), 1), 1 => prop::collection::vec(activity(), 0..4)];
    (kind, 1i64..3, 0i64..110, prop_oneof![1 => Just(0i64), 6 => 1i64..50], launched).prop_map(
        |(kind, thread, start, dur, mut launched)| {
            if kind != Kind::Call {
                launched.clear();
            }
            Host { kind, thread, start, dur, launched }
        },
    )
}

/// Plans of all shapes: GPU jobs, CPU only, GPU only, with and without steps.
pub fn plans() -> impl Strategy<Value = Plan> {
    let steps = prop::collection::vec((1i64..35, 0i64..8), 0..4);
    let host = prop::collection::vec(host(), 0..14);
    let unlinked =
        prop_oneof![2 => prop::collection::vec(activity(), 0), 1 => prop::collection::vec(activity(), 1..4)];
    let shape = prop_oneof![6 => Just(0), 1 => Just(1), 1 => Just(2)];
    (steps, host, unlinked, prop::option::of(0i64..END - 10), shape).prop_map(
        |(steps, mut host, mut unlinked, drawn, shape)| {
            if shape == 1 {
                // CPU only
                host.iter_mut().for_each(|h| h.launched.clear());
                unlinked.clear();
            } else if shape == 2 {
                // GPU only: no launch is recorded.
                unlinked.extend(host.drain(..).flat_map(|h| h.launched));
            }
            Plan { steps, host, unlinked, drawn }
        },
    )
}

/// Launches without an activity after the last one that has any would be a lost tail, which `record_edges` tests. Here
/// they become calls that start nothing.
fn without_lost_tail(rows: &mut [Row]) {
    let owners: HashSet<usize> = rows.iter().filter_map(|r| r.launch).collect();
    let Some(last) = owners.iter().map(|&i| rows[i].start).max() else { return };
    let unlinked = rows.iter().filter(|r| r.kind == Kind::Gpu && r.launch.is_none()).map(|r| r.start).max();
    for (i, r) in rows.iter_mut().enumerate() {
        if r.kind == Kind::Call
            && !owners.contains(&i)
            && r.start > last
            && unlinked.is_none_or(|u| r.start > u)
        {
            r.name = "cudaStreamQuery".to_string();
        }
    }
}

impl Plan {
    /// The events in the order of the file.
    pub fn rows(&self) -> Vec<Row> {
        let blank = Row {
            kind: Kind::Step,
            name: String::new(),
            start: 0,
            end: 0,
            thread: 0,
            device: 0,
            stream: 0,
            class: Class::Compute,
            launch: None,
        };
        let mut rows: Vec<Row> = Vec::new();
        let mut taken: HashSet<(i64, i64, i64)> = HashSet::new();
        let mut at = 5;
        for (i, (len, pause)) in self.steps.iter().enumerate() {
            let (start, end) = (at + pause, at + pause + len);
            at = end;
            taken.insert((1, start, end));
            let name = format!("ProfilerStep#{}", i + 7);
            rows.push(Row { name, start, end, thread: 1, ..blank.clone() });
        }
        let gpu = |rows: &mut Vec<Row>, a: &Activity, launch| {
            let name = match a.class {
                Class::Compute => format!("gemm_{}", a.start % 2),
                Class::Communication => "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)".to_string(),
                Class::Memory => "Memcpy HtoD (Pinned -> Device)".to_string(),
            };
            let (start, end) = (a.start, a.start + a.dur);
            let place = Row { device: a.device, stream: a.stream, class: a.class, launch, ..blank.clone() };
            rows.push(Row { kind: Kind::Gpu, name, start, end, ..place });
        };
        for (i, h) in self.host.iter().enumerate() {
            let (start, end) = (h.start, h.start + h.dur);
            if !taken.insert((h.thread, start, end)) {
                continue;
            }
            let name = match h.kind {
                Kind::Op => format!("aten::op_{}", i % 3),
                Kind::CommunicationOp => "c10d::allreduce_".to_string(),
                Kind::CommunicationRange => "gloo:all_reduce".to_string(),
                Kind::Frame => format!("train.py({}): step", i % 3),
                Kind::Loader => LOADER.to_string(),
                Kind::Call if h.launched.len() > 1 => "cudaGraphLaunch".to_string(),
                Kind::Call => format!("cudaLaunchKernel{}", ["", "ExC"][i % 2]),
                _ => format!("range_{}", i % 3),
            };
            rows.push(Row { kind: h.kind, name, start, end, thread: h.thread, ..blank.clone() });
            let call = rows.len() - 1;
            h.launched.iter().for_each(|a| gpu(&mut rows, a, Some(call)));
        }
        self.unlinked.iter().for_each(|a| gpu(&mut rows, a, None));
        without_lost_tail(&mut rows);
        if let Some(t) = self.drawn {
            for (kind, name, end) in [
                (Kind::Drawn, "Stream Sync", t + 3),
                (Kind::Drawn, "range_0", t + 5),
                (Kind::Overhead, "Buffer Flush", t + 9),
            ] {
                rows.push(Row { kind, name: name.to_string(), start: t, end, ..blank.clone() });
            }
        }
        rows
    }

    /// The trace, its time 0 at `origin`.
    pub fn builder(&self, origin: i64) -> TraceBuilder {
        let mut t = TraceBuilder::new().rank(0).world(1).origin(origin);
        let mut correlations = Vec::new();
        for (i, r) in self.rows().iter().enumerate() {
            let span = r.start..r.end;
            t = t.device_index(r.device);
            let mut main = t.thread(r.thread);
            let correlation = match r.kind {
                Kind::Op | Kind::CommunicationOp => main.op(&r.name, span).correlation(),
                Kind::Frame => main.frame(&r.name, span).correlation(),
                Kind::Call => main.runtime(&r.name, span).correlation(),
                Kind::Gpu => {
                    let launch = match r.launch.and_then(|l| correlations.get(l).copied().flatten()) {
                        Some(correlation) => t.linked(correlation),
                        None => t.unlinked(),
                    };
                    let row = match r.class {
                        Class::Memory => launch.memcpy("HtoD (Pinned -> Device)", r.stream, 64, span),
                        _ => launch.kernel(&r.name, r.stream, span),
                    };
                    // Nodes of a graph get distinct ids, because equal rows would be removed as duplicates.
                    row.graph_node(1, i as u64).correlation()
                }
                Kind::Drawn if r.name == "Stream Sync" => {
                    t.unlinked().sync_row(SyncKind::StreamSync, 1, span).correlation()
                }
                Kind::Drawn => t.gpu_annotation(&r.name, 1, span).correlation(),
                Kind::Overhead => t.overhead(&r.name, span).correlation(),
                _ => main.annotation(&r.name, span).correlation(),
            };
            correlations.push(correlation);
        }
        t
    }

    /// Writes the trace below `folder` and returns its path.
    pub fn write(&self, folder: &std::path::Path, origin: i64, format: &Format) -> PathBuf {
        let path = folder.join("rank_0.json");
        std::fs::write(&path, self.builder(origin).to_bytes(format))
            .expect("a temporary file can be written");
        path
    }
}
