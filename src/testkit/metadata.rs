//! Top-level keys of a file: devices, ranks and process groups, host, time base.
//!
//! Objects are assembled as text, so that the order of keys does not depend on features of serde_json.

use serde_json::{Value, json};

use crate::format::{Era, Format, MetadataSide, Placement};
use crate::trace::{TestDevice, TraceBuilder};
use crate::vendor::Vendor;
use crate::write::quoted;

impl TraceBuilder {
    /// The top-level keys before or after the events.
    pub(super) fn keys(&self, format: &Format, side: MetadataSide) -> Vec<(String, Vec<u8>)> {
        let early =
            if format.metadata == Placement::After { MetadataSide::After } else { MetadataSide::Before };
        let late =
            if format.metadata == Placement::Before { MetadataSide::Before } else { MetadataSide::After };
        let base = (format.era == Era::Base).then(|| self.base_ns.to_string());
        let devices: Vec<String> = self
            .devices
            .iter()
            .enumerate()
            .map(|(id, device)| device_json(id, device, self.vendor))
            .collect();
        let devices = format!("[{}]", devices.join(", "));
        let own = [
            (early, "schemaVersion", Some("1".to_owned())),
            (early, "deviceProperties", Some(devices)),
            (late, "distributedInfo", self.distributed_info()),
            (late, "host_name", self.host.as_deref().map(quoted)),
            (late, "displayTimeUnit", Some(quoted("ms"))),
            (format.base, "baseTimeNanoseconds", base),
        ];
        let given =
            |key: &str| self.top_level.iter().rev().find(|(k, _)| k == key).map(|(_, raw)| raw.clone());
        let mut keys: Vec<(String, Vec<u8>)> = own
            .iter()
            .filter(|(where_to, _, _)| *where_to == side)
            .filter_map(|(_, key, value)| {
                let text = given(key).or_else(|| value.clone())?;
                Some(((*key).to_owned(), text.into_bytes()))
            })
            .collect();
        if late == side {
            let extra = self.top_level.iter().filter(|(key, _)| own.iter().all(|(_, k, _)| k != key));
            keys.extend(extra.map(|(key, raw)| (key.clone(), raw.clone().into_bytes())));
        }
        keys
    }

    fn distributed_info(&self) -> Option<String> {
        if self.rank.is_none() && self.world.is_none() {
            return None;
        }
        let backend = self.backend.as_deref().unwrap_or("nccl");
        let device =
            if backend == "gloo" { "cpu:gloo,cuda:gloo".to_owned() } else { format!("cuda:{backend}") };
        let group = |name: &str, description: &str, ranks: &[u32]| {
            format!(
                "{{\"pg_name\": {}, \"pg_desc\": {}, \"backend_config\": {}, \"pg_size\": {}, \"ranks\": \
                 {}}}",
                quoted(name),
                quoted(description),
                quoted(&device),
                ranks.len(),
                json!(ranks)
            )
        };
        let mut parts = vec![format!("\"backend\": {}", quoted(backend))];
        if let Some(rank) = self.rank {
            parts.push(format!("\"rank\": {rank}"));
        }
        let mut groups = Vec::new();
        if let Some(world) = self.world {
            parts.push(format!("\"world_size\": {world}"));
            groups.push(group("0", "default_pg", &(0..world).collect::<Vec<u32>>()));
        }
        groups.extend(self.groups.iter().map(|g| group(&g.name, &g.description, &g.ranks)));
        parts.push(format!("\"pg_count\": {}", groups.len()));
        parts.push(format!("\"pg_config\": [{}]", groups.join(", ")));
        if backend == "nccl" {
            parts.push("\"nccl_version\": \"2.27.5\"".to_owned());
        }
        Some(format!("{{{}}}", parts.join(", ")))
    }
}

fn device_json(id: usize, device: &TestDevice, vendor: Vendor) -> String {
    let mut fields: Vec<(&str, Value)> = vec![("id", json!(id)), ("name", json!(device.name))];
    let multiprocessors = json!(device.multiprocessors);
    match vendor {
        Vendor::Nvidia => fields.extend([
            ("totalGlobalMem", json!(85_029_158_912_u64)),
            ("computeMajor", json!(9)),
            ("computeMinor", json!(0)),
            ("maxThreadsPerBlock", json!(1024)),
            ("maxThreadsPerMultiprocessor", json!(2048)),
            ("regsPerBlock", json!(65_536)),
            ("warpSize", json!(32)),
            ("sharedMemPerBlock", json!(49_152)),
            ("numSms", multiprocessors),
            ("regsPerMultiprocessor", json!(65_536)),
            ("sharedMemPerBlockOptin", json!(232_448)),
            ("sharedMemPerMultiprocessor", json!(233_472)),
        ]),
        Vendor::Amd => fields.extend([
            ("totalGlobalMem", json!(206_141_652_992_u64)),
            ("computeMajor", json!(9)),
            ("computeMinor", json!(4)),
            ("maxThreadsPerBlock", json!(1024)),
            ("maxThreadsPerMultiprocessor", json!(2048)),
            ("regsPerBlock", json!(65_536)),
            ("warpSize", json!(64)),
            ("sharedMemPerBlock", json!(65_536)),
            ("numSms", multiprocessors),
            ("maxSharedMemoryPerMultiProcessor", json!(65_536)),
        ]),
        Vendor::Xpu => fields.extend([
            ("vendor", json!("Intel(R) Corporation")),
            ("maxComputeUnits", multiprocessors),
            ("maxWorkGroupSize", json!(1024)),
            ("localMemSize", json!(131_072)),
            ("driverVersion", json!("1.6")),
        ]),
        Vendor::Mtia => fields.extend([
            ("runtimeMajorVersion", json!(1)),
            ("runtimeMinorVersion", json!(30)),
            ("maxGridHeight", json!(8)),
            ("maxGridWidth", json!(8)),
        ]),
    }
    let fields: Vec<String> = fields.iter().map(|(key, value)| format!("{}: {value}", quoted(key))).collect();
    format!("{{{}}}", fields.join(", "))
}
