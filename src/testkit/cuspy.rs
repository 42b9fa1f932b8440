//! Rows in the form in which Cuspy, the second CUDA recorder of torch.profiler, writes them.

use serde_json::Value;

use crate::event::{ArgValue, NameValue, TestEvent};

/// Arguments of device rows that Kineto adds, and Cuspy does not.
const ADDED_BY_KINETO: [&str; 4] =
    ["blocks per SM", "warps per SM", "est. achieved occupancy %", "memory bandwidth (GB/s)"];

/// Kinds of memory in the order of CUPTI's numbers.
const MEMORIES: [&str; 8] =
    ["unknown", "pageable", "pinned", "device", "array", "managed", "device_static", "managed_static"];

impl TestEvent {
    /// The row as Cuspy writes it; rows of the host are the same, except for calls.
    pub(super) fn of_cuspy(&self) -> TestEvent {
        let mut row = self.clone();
        let is_call = matches!(self.category.as_str(), "cuda_runtime" | "cuda_driver");
        if !(is_call || matches!(self.category.as_str(), "kernel" | "gpu_memcpy" | "gpu_memset")) {
            return row;
        }
        // `External id` is written only for rows with a launch.
        row.launch = None;
        row.args.retain(|(key, _)| !key.eq_ignore_ascii_case("external id"));
        if is_call {
            return row;
        }
        row.args.retain(|(key, _)| !ADDED_BY_KINETO.contains(&key.as_str()));
        match self.arg("graph id").and_then(Value::as_u64) {
            Some(graph) if graph > 0 => {
                let node = self.arg("graph node id").and_then(Value::as_u64).unwrap_or(0);
                row.set_json("graph node id", node & u64::from(u32::MAX));
            }
            _ => row.args.retain(|(key, _)| !key.starts_with("graph ")),
        }
        let NameValue::Text(name) = &self.name else { return row };
        let name = name.clone();
        if let Some((kind, between)) = name.strip_prefix("Memcpy ").and_then(|rest| rest.split_once(" (")) {
            let (source, target) = between.trim_end_matches(')').split_once(" -> ").unwrap_or_default();
            row.name = NameValue::Text("Memcpy".to_owned());
            row.set_json("copy kind", kind);
            row.set_json("src kind", word(source));
            row.set_json("dst kind", word(target));
        }
        if let Some(filled) = name.strip_prefix("Memset (") {
            let filled = word(filled.trim_end_matches(')'));
            row.name = NameValue::Text("Memset".to_owned());
            row.set("memory kind", ArgValue::Raw(number(&filled).to_string()));
        }
        row
    }
}

/// Kineto's words for a kind of memory as Cuspy's word.
fn word(kind: &str) -> String {
    kind.to_ascii_lowercase().replace(' ', "_")
}

fn number(kind: &str) -> usize {
    MEMORIES.iter().position(|known| *known == kind).unwrap_or(0)
}
