//! Rows of one host thread: operators, annotations, Python frames, API calls, collectives.

use std::ops::Range;

use serde_json::json;

use crate::collective::Collective;
use crate::event::{EventPhase, IdValue, LaunchPoint, TestEvent};
use crate::row::TestRow;
use crate::trace::{TraceBuilder, complete};
use crate::vendor::{Call, Vendor};

/// One host thread of a trace. Each call adds one row and returns it, to set arguments or add device rows.
#[derive(Debug)]
pub struct Thread<'a> {
    trace: &'a mut TraceBuilder,
    tid: i64,
}

impl<'a> Thread<'a> {
    pub(super) fn new(trace: &'a mut TraceBuilder, tid: i64) -> Self {
        Thread { trace, tid }
    }

    /// An operator (`cpu_op`).
    pub fn op(&mut self, name: &str, span: Range<i64>) -> TestRow<'_> {
        self.recorded("cpu_op", name, span)
    }

    /// A `record_function` range (`user_annotation`).
    pub fn annotation(&mut self, name: &str, span: Range<i64>) -> TestRow<'_> {
        self.recorded("user_annotation", name, span)
    }

    /// `ProfilerStep#<number>`.
    pub fn step(&mut self, number: u64, span: Range<i64>) -> TestRow<'_> {
        self.annotation(&format!("ProfilerStep#{number}"), span)
    }

    /// The annotation around one fetch of a single-process data loader.
    pub fn data_loader(&mut self, span: Range<i64>) -> TestRow<'_> {
        self.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", span)
    }

    /// A Python frame such as `train.py(42): forward` or `nn.Module: Linear_0`. Its parent is the innermost
    /// frame of the thread that contains it.
    pub fn frame(&mut self, name: &str, span: Range<i64>) -> TestRow<'_> {
        let id = self.trace.take_python();
        let index = self.trace.take_event_index();
        let mut row = self.row("python_function", name, span);
        row.set_json("Python id", id);
        row.set_json("Ev Idx", index);
        self.trace.add(row)
    }

    /// A runtime API call under the vendor's own name.
    pub fn call(&mut self, call: Call, span: Range<i64>) -> TestRow<'_> {
        let (name, id) = self.trace.vendor.call(call);
        let key = self.trace.vendor.call_id_key();
        let row = self.runtime(name, span);
        match key {
            Some(key) => row.arg(key, id),
            None => row,
        }
    }

    /// A kernel launch; add its kernel with `.kernel(...)`.
    pub fn launch(&mut self, span: Range<i64>) -> TestRow<'_> {
        self.call(Call::Launch, span)
    }

    /// A graph launch; add all its device rows with `.kernel(...).kernel(...)`.
    pub fn graph_launch(&mut self, span: Range<i64>) -> TestRow<'_> {
        self.call(Call::LaunchGraph, span)
    }

    /// From here the thread's launches are recorded into a graph, until [`Thread::end_capture`].
    pub fn begin_capture(&mut self, span: Range<i64>) -> TestRow<'_> {
        let name = match self.trace.vendor {
            Vendor::Amd => "hipStreamBeginCapture",
            _ => "cudaStreamBeginCapture",
        };
        self.runtime(name, span)
    }

    /// Ends the graph.
    pub fn end_capture(&mut self, span: Range<i64>) -> TestRow<'_> {
        let name = match self.trace.vendor {
            Vendor::Amd => "hipStreamEndCapture",
            _ => "cudaStreamEndCapture",
        };
        self.runtime(name, span)
    }

    /// A kernel launch that is recorded into a graph, so that nothing runs. Only HIP records which kernel it
    /// is.
    pub fn captured_launch(&mut self, kernel: &str, span: Range<i64>) -> TestRow<'_> {
        let is_named = self.trace.vendor == Vendor::Amd;
        let call = self.launch(span);
        if is_named { call.arg("kernel", kernel) } else { call }
    }

    /// A runtime call of any name.
    pub fn runtime(&mut self, name: &str, span: Range<i64>) -> TestRow<'_> {
        let category = self.trace.vendor.runtime_category();
        self.api(category, name, span)
    }

    /// A driver call of any name, for example `cuLaunchKernel`.
    pub fn driver(&mut self, name: &str, span: Range<i64>) -> TestRow<'_> {
        let category = self.trace.vendor.driver_category();
        self.api(category, name, span)
    }

    /// A `[memory]` record: bytes allocated (negative: freed) and the total after it. Host memory, unless
    /// followed by `.on_device(...)`.
    pub fn memory(&mut self, ts: i64, address: u64, bytes: i64, total_allocated: i64) -> TestRow<'_> {
        self.memory_record("[memory]", ts, (address, bytes, total_allocated))
    }

    /// An `[OutOfMemory]` record: bytes requested, and the total at that time.
    pub fn failed_request(&mut self, ts: i64, bytes: i64, total_allocated: i64) -> TestRow<'_> {
        self.memory_record("[OutOfMemory]", ts, (0, bytes, total_allocated))
    }

    fn memory_record(
        &mut self,
        name: &str,
        ts: i64,
        (address, bytes, total_allocated): (u64, i64, i64),
    ) -> TestRow<'_> {
        let index = self.trace.take_event_index();
        let mut row = self.row("cpu_instant_event", name, ts..ts);
        row.phase = EventPhase::Instant { scope: "t" };
        row.dur = None;
        row.set_json("Total Reserved", 0);
        row.set_json("Total Allocated", total_allocated);
        row.set_json("Bytes", bytes);
        row.set_json("Device Id", -1);
        row.set_json("Device Type", 0);
        row.set_json("Addr", address);
        row.set_json("Ev Idx", index);
        self.trace.add(row)
    }

    /// `record_param_comms` with the collective's arguments.
    pub fn param_comms(&mut self, collective: &Collective, span: Range<i64>) -> TestRow<'_> {
        let args = collective.operator_args(self.trace.rank);
        let mut row = self.op("record_param_comms", span);
        for (key, value) in args {
            row = row.arg(key, value);
        }
        row
    }

    /// A whole collective on a GPU job, submitted by this thread:
    ///
    /// ```text
    /// submit    |c10d::allreduce_..................|
    ///            |record_param_comms..............|
    ///             |nccl:all_reduce...............|
    ///              |launch|
    /// stream                    |ncclDevKernel_AllReduce...|   run
    /// ```
    ///
    /// Returns the kernel. `submit` should be 8 ns or longer.
    pub fn nccl(
        &mut self,
        collective: &Collective,
        submit: Range<i64>,
        stream: i64,
        run: Range<i64>,
    ) -> TestRow<'_> {
        let inner = |n: i64| submit.start + n..submit.end - n;
        self.submission(collective, submit.clone());
        self.param_comms(collective, inner(1));
        self.annotation(&collective.annotation("nccl"), inner(2));
        let launch = self.call(Call::LaunchExtended, inner(3));
        launch.kernel(&collective.kernel_name(), stream, run).collective(collective)
    }

    /// A whole collective on a CPU job: `c10d::*` on this thread is only the submission, the collective is
    /// the annotation `gloo:*` on a worker thread. Returns the annotation.
    pub fn gloo(
        &mut self,
        collective: &Collective,
        submit: Range<i64>,
        worker: i64,
        run: Range<i64>,
    ) -> TestRow<'_> {
        self.submission(collective, submit);
        self.tid = worker;
        let row = self.annotation(&collective.annotation("gloo"), run);
        if collective.name() == "barrier" {
            return row;
        }
        row.arg("Concrete Inputs", json!([""]))
            .arg("Input type", json!([collective.input_type()]))
            .arg("Input Dims", json!([[collective.elements()]]))
    }

    /// Only the `c10d::*` operator.
    pub fn submission(&mut self, collective: &Collective, span: Range<i64>) -> TestRow<'_> {
        self.op(&collective.operator(), span)
            .arg("Concrete Inputs", json!(["", "", "", "", "-1"]))
            .arg("Input type", json!(["TensorList", "", "", "", "Scalar"]))
            .arg("Input Dims", json!([[[collective.elements()]], [], [], [], []]))
    }

    fn recorded(&mut self, category: &str, name: &str, span: Range<i64>) -> TestRow<'_> {
        let external = self.trace.take_external();
        let index = self.trace.take_event_index();
        let mut row = self.row(category, name, span);
        row.set_json("External id", external);
        row.set_json("Record function id", 0);
        row.set_json("Ev Idx", index);
        self.trace.add(row)
    }

    fn api(&mut self, category: &str, name: &str, span: Range<i64>) -> TestRow<'_> {
        let correlation = self.trace.take_correlation();
        let mut row = self.row(category, name, span);
        row.launch = Some(LaunchPoint { pid: self.trace.pid, tid: self.tid, ts: row.ts });
        row.set_json("correlation", correlation);
        self.trace.add(row);
        let at = self.trace.events.len() - 1;
        TestRow::launched(self.trace, Some(at), correlation)
    }

    fn row(&self, category: &str, name: &str, span: Range<i64>) -> TestEvent {
        complete(category, name, IdValue::Number(self.trace.pid), IdValue::Number(self.tid), span)
    }
}
