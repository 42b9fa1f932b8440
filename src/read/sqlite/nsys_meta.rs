//! What an export of nsys says about its recording and the devices.

use super::database::{Database, int};
use super::devices::device;
use crate::error::ReadError;
use hta_trace::meta::{Meta, Recorder};
use std::collections::BTreeSet;

/// `pid`: the process in the operating system.
pub(super) fn meta(database: &Database, pid: i64) -> Result<Meta, ReadError> {
    let mut meta = Meta { recorder: Recorder::Nsys, ..Meta::default() };
    database.each("TARGET_INFO_SESSION_START_TIME", ["utcEpochNs"], |r| {
        meta.base_ns = meta.base_ns.or(int(r, 0))
    })?;
    for table in ["META_DATA_EXPORT", "EXPORT_META_DATA"] {
        database.each(table, ["name", "value"], |r| {
            let Some((name, value)) = database.text(r, 0).zip(database.text(r, 1)) else { return };
            if ["EXPORT_SCHEMA_VERSION", "EXPORT_PRODUCT_VERSION"].contains(&&*name) {
                meta.other.insert(name.to_ascii_lowercase(), serde_json::Value::from(value).to_string());
            }
        })?;
    }
    // Which GPU a number of the process stands for.
    let mut places: BTreeSet<(i64, i64)> = BTreeSet::new();
    database.each_of_few("TARGET_INFO_CUDA_DEVICE", ["gpuId", "cudaId", "pid"], |r| {
        if int(r, 2) == Some(pid) {
            places.extend(int(r, 0).zip(int(r, 1)));
        }
    })?;
    let columns = [
        "id",
        "name",
        "totalMemory",
        "smCount",
        "computeMajor",
        "computeMinor",
        "threadsPerWarp",
        "maxWarpsPerSm",
        "maxRegistersPerSm",
        "maxShmemPerSm",
    ];
    // A GPU that is described twice is taken as it was first.
    let mut described = BTreeSet::new();
    database.each_of_few("TARGET_INFO_GPU", columns, |r| {
        let Some(gpu) = int(r, 0).filter(|gpu| described.insert(*gpu)) else { return };
        let mine = places.range((gpu, i64::MIN)..=(gpu, i64::MAX)).map(|(_, cuda)| *cuda);
        let ids: Vec<i64> = if places.is_empty() { vec![gpu] } else { mine.collect() };
        let name = database.text(r, 1).unwrap_or_default();
        meta.devices.extend(ids.into_iter().map(|id| device(r, id, &name)));
    })?;
    Ok(meta)
}
