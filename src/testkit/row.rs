//! The row that was added last: sets its arguments, and adds device rows to a launch.

use std::ops::Range;

use serde_json::{Value, json};

use crate::collective::Collective;
use crate::event::{ArgValue, Event, NameValue, TestEvent};
use crate::trace::TraceBuilder;

/// The row that was added last. Calls that set arguments change it; calls that add a device row (`kernel`,
/// `memcpy`, `memset`, `sync_row`) add it under the same launch and continue with the new row.
#[derive(Debug)]
pub struct TestRow<'a> {
    pub(super) trace: &'a mut TraceBuilder,
    pub(super) at: Option<usize>,
    pub(super) launch: Option<usize>,
    pub(super) correlation: Option<u64>,
}

impl TraceBuilder {
    pub(super) fn add(&mut self, row: TestEvent) -> TestRow<'_> {
        self.events.push(Event::Row(row));
        let at = self.events.len() - 1;
        TestRow::at(self, at)
    }
}

impl<'a> TestRow<'a> {
    pub(super) fn at(trace: &'a mut TraceBuilder, at: usize) -> Self {
        TestRow { trace, at: Some(at), launch: None, correlation: None }
    }

    pub(super) fn launched(trace: &'a mut TraceBuilder, launch: Option<usize>, correlation: u64) -> Self {
        TestRow { trace, at: launch, launch, correlation: Some(correlation) }
    }

    /// Sets an argument, possibly replacing the builder's own.
    pub fn arg(self, key: &str, value: impl Into<Value>) -> Self {
        self.edit(|row| row.set(key, ArgValue::Json(value.into())))
    }

    /// Sets an argument to text that is written unchanged: `inf`, `0x0`, or invalid JSON.
    pub fn raw_arg(self, key: &str, text: &str) -> Self {
        self.edit(|row| row.set(key, ArgValue::Raw(text.to_owned())))
    }

    /// Removes an argument.
    pub fn without(self, key: &str) -> Self {
        self.edit(|row| row.args.retain(|(k, _)| k != key))
    }

    /// Replaces the name by bytes that are written unescaped.
    pub fn raw_name(self, bytes: impl AsRef<[u8]>) -> Self {
        self.edit(|row| row.name = NameValue::Raw(bytes.as_ref().to_vec()))
    }

    /// Replaces the category.
    pub fn category(self, category: &str) -> Self {
        self.edit(|row| category.clone_into(&mut row.category))
    }

    /// Operator inputs: dimensions and type of each tensor.
    pub fn inputs(self, tensors: &[(&[i64], &str)]) -> Self {
        let dims: Vec<&[i64]> = tensors.iter().map(|(dims, _)| *dims).collect();
        let types: Vec<&str> = tensors.iter().map(|(_, kind)| *kind).collect();
        let concrete = vec![""; tensors.len()];
        self.arg("Concrete Inputs", json!(concrete))
            .arg("Input type", json!(types))
            .arg("Input Dims", json!(dims))
    }

    /// `Sequence number` and `Fwd thread id` (0 on forward operators).
    pub fn sequence(self, number: u64, forward_thread: u64) -> Self {
        self.arg("Sequence number", number).arg("Fwd thread id", forward_thread)
    }

    /// `CallFrom` of a Python frame: the caller's `file:line`.
    pub fn called_from(self, place: &str) -> Self {
        self.arg("CallFrom", place)
    }

    /// `Python module id` of an `nn.Module` frame.
    pub fn module(self, id: u64) -> Self {
        self.arg("Python module id", id)
    }

    /// Makes a `[memory]` record one of a device: device id, total reserved.
    pub fn on_device(self, id: i64, reserved: i64) -> Self {
        self.arg("Device Type", 1).arg("Device Id", id).arg("Total Reserved", reserved)
    }

    /// The collective's arguments on a kernel.
    pub fn collective(self, collective: &Collective) -> Self {
        let mut row = self;
        for (key, value) in collective.kernel_args() {
            row = row.arg(key, value);
        }
        row
    }

    /// The correlation id of the launch.
    pub fn correlation(&self) -> Option<u64> {
        self.correlation
    }

    /// The row's `External id`.
    pub fn external_id(&self) -> Option<u64> {
        self.number("External id")
    }

    /// The row's `Python id`.
    pub fn python_id(&self) -> Option<u64> {
        self.number("Python id")
    }

    /// The row's span, in ns after the origin.
    pub fn span(&self) -> Option<Range<i64>> {
        self.read(|row| row.ts..row.ts.saturating_add(row.dur.unwrap_or(0)))
    }

    fn number(&self, key: &str) -> Option<u64> {
        self.read(|row| row.arg(key).and_then(Value::as_u64)).flatten()
    }

    pub(super) fn read<T>(&self, look: impl FnOnce(&TestEvent) -> T) -> Option<T> {
        match self.at.and_then(|at| self.trace.events.get(at)) {
            Some(Event::Row(row)) => Some(look(row)),
            _ => None,
        }
    }

    pub(super) fn edit(self, change: impl FnOnce(&mut TestEvent)) -> Self {
        if let Some(Event::Row(row)) = self.at.and_then(|at| self.trace.events.get_mut(at)) {
            change(row);
        }
        self
    }
}
