//! Device rows: kernels, copies, fills and synchronisation, with the arguments of each vendor.
//!
//! Sizes in bytes. Unspecified values get plausible defaults: one block of 128 threads, context 1.

use std::ops::Range;

use serde_json::{Value, json};

use crate::event::{Event, EventPhase, IdValue, LaunchPoint, TestEvent};
use crate::row::TestRow;
use crate::trace::complete;
use crate::vendor::Vendor;

/// Meaning of a synchronisation row. Such rows are host waits or dependencies drawn on the device, not work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncKind {
    /// The host waited for a stream.
    StreamSync,
    /// The host waited for an event.
    EventSync,
    /// The host waited for the device.
    ContextSync,
    /// A stream waits for an event of another stream.
    StreamWaitEvent,
}

impl SyncKind {
    fn name(self) -> &'static str {
        match self {
            SyncKind::StreamSync => "Stream Sync",
            SyncKind::EventSync => "Event Sync",
            SyncKind::ContextSync => "Context Sync",
            SyncKind::StreamWaitEvent => "Stream Wait Event",
        }
    }
}

impl<'a> TestRow<'a> {
    /// Adds a kernel under this launch. On a graph launch, call it once per kernel.
    pub fn kernel(self, name: &str, stream: i64, span: Range<i64>) -> TestRow<'a> {
        let vendor = self.trace.vendor;
        let mut row = self.device_row(vendor.kernel_category(), name, stream, span);
        match vendor {
            Vendor::Nvidia => {
                row.set_json("registers per thread", 32);
                row.set_json("shared memory", 0);
            }
            Vendor::Amd => row.set_json("kind", "Dispatch Kernel"),
            Vendor::Xpu => row.set_json("kernel_id", self.correlation),
            Vendor::Mtia => {}
        }
        let launched = match vendor {
            Vendor::Amd => self.edit_launch(|launch| launch.set_json("kernel", name)),
            _ => self,
        };
        launched.add_device_row(row).grid([1, 1, 1]).block([128, 1, 1])
    }

    /// Adds a copy; `kind` as in the name: `HtoD (Pageable -> Device)`.
    pub fn memcpy(self, kind: &str, stream: i64, bytes: u64, span: Range<i64>) -> TestRow<'a> {
        let vendor = self.trace.vendor;
        let short = kind.split(' ').next().unwrap_or(kind);
        let name = match vendor {
            Vendor::Mtia => "dma_request".to_owned(),
            _ => format!("Memcpy {kind}"),
        };
        let mut row = self.device_row(vendor.copy_category(), &name, stream, span);
        let launched = match vendor {
            Vendor::Nvidia | Vendor::Xpu => {
                set_bytes(&mut row, bytes);
                self
            }
            Vendor::Amd => {
                row.set_json("kind", short);
                self.edit_launch(|launch| {
                    launch.set_json("size", bytes.to_string());
                    launch.set_json("kind", if short == "HtoD" { "1" } else { "3" });
                })
            }
            Vendor::Mtia => {
                row.set_json("direction", if short == "HtoD" { "HOST_TO_DEVICE" } else { "DEVICE_TO_HOST" });
                row.set_json("size", bytes);
                self.edit_launch(|launch| launch.set_json("mem size", format!("{bytes} bytes")))
            }
        };
        launched.add_device_row(row)
    }

    /// Adds a fill of device memory.
    pub fn memset(self, stream: i64, bytes: u64, span: Range<i64>) -> TestRow<'a> {
        let mut row = self.device_row("gpu_memset", "Memset (Device)", stream, span);
        match self.trace.vendor {
            Vendor::Amd => row.set_json("kind", "Device"),
            _ => set_bytes(&mut row, bytes),
        }
        self.add_device_row(row)
    }

    /// Adds a synchronisation row; `stream` is -1 for none.
    pub fn sync_row(self, kind: SyncKind, stream: i64, span: Range<i64>) -> TestRow<'a> {
        let category = self.trace.vendor.sync_category();
        let mut row = self.device_row(category, kind.name(), stream, span);
        row.set_json("cuda_sync_kind", kind.name());
        self.add_device_row(row)
    }

    /// What a synchronisation row waits for: stream, event, and the correlation id of the call that recorded
    /// the event.
    pub fn waits_on(self, stream: i64, event: i64, record: Option<u64>) -> TestRow<'a> {
        let record = record.map_or(json!(-1), |id| json!(id));
        self.arg("wait_on_stream", stream)
            .arg("wait_on_cuda_event_id", event)
            .arg("wait_on_cuda_event_record_corr_id", record)
    }

    /// Number of blocks of a kernel. Also sets the occupancy values that follow from it.
    pub fn grid(self, grid: [u32; 3]) -> TestRow<'a> {
        self.shape("grid", grid)
    }

    /// Number of threads per block of a kernel.
    pub fn block(self, block: [u32; 3]) -> TestRow<'a> {
        self.shape("block", block)
    }

    /// Node of a captured graph.
    pub fn graph_node(self, graph: u64, node: u64) -> TestRow<'a> {
        self.arg("graph id", graph).arg("graph node id", node)
    }

    fn shape(self, key: &str, shape: [u32; 3]) -> TestRow<'a> {
        let index = usize::try_from(self.trace.device_index).unwrap_or(0);
        let vendor = self.trace.vendor;
        let devices = &self.trace.devices;
        let multiprocessors = devices.get(index).or(devices.first()).map_or(0, |d| d.multiprocessors);
        let changed = match vendor {
            Vendor::Amd => self.edit_launch(|launch| launch.set_json(key, json!(shape))),
            Vendor::Mtia => return self,
            _ => self,
        };
        changed.edit(|row| {
            row.set_json(key, json!(shape));
            if vendor == Vendor::Nvidia && multiprocessors > 0 {
                set_occupancy(row, multiprocessors);
            }
        })
    }

    fn device_row(&self, category: &str, name: &str, stream: i64, span: Range<i64>) -> TestEvent {
        let device = self.trace.device_index;
        let mut row = complete(category, name, IdValue::Number(device), IdValue::Stream(stream), span);
        row.launch = Some(self.launch_point());
        match self.trace.vendor {
            Vendor::Nvidia => {
                if category == "kernel" {
                    row.set_json("queued", 0);
                }
                row.set_json("device", device);
                row.set_json("context", 1);
                row.set_json("stream", stream);
            }
            Vendor::Amd => {
                row.set_json("device", device);
                row.set_json("stream", stream);
            }
            Vendor::Xpu => {
                row.set_json("device", device);
                row.set_json("context", "0x1f00");
                row.set_json("sycl queue", stream);
            }
            Vendor::Mtia => {
                row.set_json("device", device);
                row.set_json("stream", stream);
            }
        }
        if let Some(correlation) = self.correlation {
            row.set_json("correlation", correlation);
        }
        row
    }

    /// Where the launch happened. A launch that is not in the trace has no place, so no operator is found
    /// around it.
    fn launch_point(&self) -> LaunchPoint {
        match self.launch.and_then(|at| self.trace.events.get(at)) {
            Some(Event::Row(row)) => row.launch.unwrap_or(NOWHERE),
            _ => NOWHERE,
        }
    }

    fn add_device_row(self, row: TestEvent) -> TestRow<'a> {
        let TestRow { trace, launch, correlation, .. } = self;
        let point = row.launch.unwrap_or(NOWHERE);
        let (pid, tid, ts) = (row.pid.clone(), row.tid.clone(), row.ts);
        trace.events.push(Event::Row(row));
        let at = trace.events.len() - 1;
        if let (true, Some(_), Some(id)) = (trace.draws_flows, launch, correlation) {
            let (from_pid, from_tid) = (IdValue::Number(point.pid), IdValue::Number(point.tid));
            trace.flow("ac2g", EventPhase::FlowStart { id }, from_pid, from_tid, point.ts);
            trace.flow("ac2g", EventPhase::FlowEnd { id }, pid, tid, ts);
        }
        TestRow { trace, at: Some(at), launch, correlation }
    }

    fn edit_launch(self, change: impl FnOnce(&mut TestEvent)) -> Self {
        if let Some(Event::Row(row)) = self.launch.and_then(|at| self.trace.events.get_mut(at)) {
            change(row);
        }
        self
    }
}

const NOWHERE: LaunchPoint = LaunchPoint { pid: i64::MIN, tid: i64::MIN, ts: i64::MIN };

fn set_bytes(row: &mut TestEvent, bytes: u64) {
    row.set_json("bytes", bytes);
    if let Some(dur) = row.dur.filter(|dur| *dur > 0) {
        row.set_json("memory bandwidth (GB/s)", bytes as f64 / dur as f64);
    }
}

/// Blocks and warps per multiprocessor, with six digits as Kineto writes them.
fn set_occupancy(row: &mut TestEvent, multiprocessors: u32) {
    let product = |key: &str| {
        let sides = row.arg(key).and_then(Value::as_array)?;
        Some(sides.iter().filter_map(Value::as_f64).product::<f64>())
    };
    let (Some(blocks), Some(threads)) = (product("grid"), product("block")) else {
        return;
    };
    let blocks_per_sm = blocks / f64::from(multiprocessors);
    let warps_per_sm = blocks_per_sm * threads / 32.0;
    row.set_json("blocks per SM", six_digits(blocks_per_sm));
    row.set_json("warps per SM", six_digits(warps_per_sm));
    row.set_json("est. achieved occupancy %", (warps_per_sm / 64.0 * 100.0).min(100.0) as u64);
}

fn six_digits(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}
