//! Top-level keys other than the events: small or rare values, parsed by simd-json.

use hta_base::health::{Counter, Health};
use hta_trace::meta::{Device, LARGEST_GROUP, Meta, ProcessGroup};
use simd_json::OwnedValue as Value;
use simd_json::prelude::*;

/// Reads one top-level `key: value` into the metadata. `raw` is the value's JSON text.
pub(crate) fn take(meta: &mut Meta, key: &str, raw: &[u8], health: &mut Health, at: u64) {
    // Deeply nested values are not metadata that is used, and their trees would cost stack.
    if depth(raw) > DEEPEST || (raw.len() > LONGEST && !READ.contains(&key)) {
        meta.other.insert(key.to_string(), String::from_utf8_lossy(raw).into_owned());
        return;
    }
    let Ok(value) = simd_json::to_owned_value(&mut raw.to_vec()) else {
        health.add(Counter::TopLevelSkipped, 1, Some(at), key);
        return;
    };
    match key {
        "schemaVersion" => meta.schema_version = value.as_i64(),
        "baseTimeNanoseconds" => meta.base_ns = int(&value),
        "distributedInfo" => distributed(meta, &value, health, at),
        "deviceProperties" | "computeProperties" => {
            meta.devices = value.as_array().into_iter().flatten().map(device).collect();
        }
        "host_name" => meta.host_name = value.as_str().map(str::to_string),
        "trace_id" => meta.trace_id = value.as_str().map(str::to_string),
        "traceName" => {
            meta.trace_name =
                value.as_str().map(|s: &str| s.rsplit(['/', '\\']).next().unwrap_or(s).to_string());
        }
        _ => {
            meta.other.insert(key.to_string(), String::from_utf8_lossy(raw).into_owned());
        }
    }
}

/// Keys whose values are interpreted.
const READ: [&str; 8] = [
    "schemaVersion",
    "baseTimeNanoseconds",
    "distributedInfo",
    "deviceProperties",
    "computeProperties",
    "host_name",
    "trace_id",
    "traceName",
];

/// Longest value that is only stored and whose validity is checked, bytes: the check takes many times its
/// size in memory.
const LONGEST: usize = 1 << 20;

/// Deepest nesting that is parsed.
const DEEPEST: usize = 128;

/// An upper bound of a value's nesting depth: brackets in texts count, too.
fn depth(raw: &[u8]) -> usize {
    let (mut now, mut most) = (0usize, 0);
    for b in raw {
        match b {
            b'{' | b'[' => now += 1,
            b'}' | b']' => now = now.saturating_sub(1),
            _ => {}
        }
        most = most.max(now);
    }
    most
}

fn distributed(meta: &mut Meta, value: &Value, health: &mut Health, at: u64) {
    meta.rank = value.get("rank").and_then(small);
    meta.world_size = value.get("world_size").and_then(|v| group_size(v, health, at));
    meta.backend = value.get("backend").and_then(|v| v.as_str()).map(str::to_string);
    let groups = value.get("pg_config").and_then(|v| v.as_array());
    meta.groups = groups.into_iter().flatten().map(|v| group(v, health, at)).collect();
}

/// A number of ranks. An impossible one is counted and read as unknown.
fn group_size(value: &Value, health: &mut Health, at: u64) -> Option<u32> {
    let size = int(value)?;
    if size > i64::from(LARGEST_GROUP) {
        health.add(Counter::GroupTooLarge, 1, Some(at), &size.to_string());
        return None;
    }
    u32::try_from(size).ok()
}

fn group(value: &Value, health: &mut Health, at: u64) -> ProcessGroup {
    let text = |key: &str| value.get(key).map(text_of).unwrap_or_default();
    ProcessGroup {
        name: text("pg_name"),
        desc: text("pg_desc"),
        size: value.get("pg_size").and_then(|v| group_size(v, health, at)),
        ranks: value.get("ranks").map(rank_list).unwrap_or_default(),
    }
}

/// Member ranks: a list of integers, or (on-demand traces) the same as text, possibly truncated.
fn rank_list(value: &Value) -> Vec<u32> {
    if let Some(list) = value.as_array() {
        return list.iter().filter_map(small).collect();
    }
    let text = value.as_str().unwrap_or_default();
    let numbers = text.split(|c: char| !c.is_ascii_digit()).filter(|s| !s.is_empty());
    numbers.filter_map(|s| s.parse().ok()).collect()
}

fn device(value: &Value) -> Device {
    let number = |keys: [&str; 2]| keys.iter().find_map(|k| value.get(*k)).and_then(int);
    let count = |keys| number(keys).and_then(|v| u32::try_from(v).ok());
    let major = number(["computeMajor", "major"]);
    let minor = number(["computeMinor", "minor"]);
    Device {
        id: value.get("id").and_then(int).unwrap_or(-1),
        name: value.get("name").map(text_of).unwrap_or_default(),
        memory_bytes: number(["totalGlobalMem", "totalGlobalMem"]).and_then(|v| u64::try_from(v).ok()),
        sm_count: count(["numSms", "multiProcessorCount"]),
        compute_capability: major.map(|m| format!("{m}.{}", minor.unwrap_or(0))),
        warp_size: count(["warpSize", "warpSize"]),
        max_threads_per_sm: count(["maxThreadsPerMultiprocessor", "maxThreadsPerMultiProcessor"]),
        registers_per_sm: count(["regsPerMultiprocessor", "regsPerMultiProcessor"]),
        shared_memory_per_sm: count(["sharedMemPerMultiprocessor", "maxSharedMemoryPerMultiProcessor"]),
    }
}

/// An integer, also if it is written as text.
fn int(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str().and_then(|s| s.trim().parse().ok()))
}

fn small(value: &Value) -> Option<u32> {
    int(value).and_then(|v| u32::try_from(v).ok())
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.encode(), str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_and_groups_are_read_in_both_spellings() {
        let (mut meta, mut health) = (Meta::default(), Health::default());
        let raw = br#"{"rank": "3", "world_size": 8, "pg_config": [
            {"pg_name": "0", "pg_size": 2, "ranks": "[0, 1]"}, {"pg_name": 1, "ranks": [2, 3]}]}"#;
        take(&mut meta, "distributedInfo", raw, &mut health, 0);
        assert_eq!((meta.rank, meta.world_size), (Some(3), Some(8)));
        assert_eq!(meta.groups[0].ranks, [0, 1]);
        assert_eq!((meta.groups[1].name.as_str(), &meta.groups[1].ranks[..]), ("1", &[2, 3][..]));
        take(&mut meta, "WARNING", br#"["a" b"]"#, &mut health, 9);
        assert_eq!(health.count(Counter::TopLevelSkipped), 1);
    }
}
