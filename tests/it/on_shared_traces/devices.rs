//! Peaks of the devices of `cases/kernels26/devices.tsv`, whose figures stand there with how sure they are.

use crate::shared;
use hta::flops::Number;
use hta::flops::peaks::{DevicePeaks, Peaks, Units};
use hta::trace::meta::Device;
use std::collections::BTreeMap;

type Row<'a> = BTreeMap<&'a str, &'a str>;

/// The device of a row, with the least and with the greatest memory.
fn devices(row: &Row) -> Vec<Device> {
    let memory = row["memory_gb"].split('-').map(|g| g.parse::<f64>().expect("a size in GB"));
    let device = |gigabytes: f64| Device {
        name: row["name"].to_string(),
        memory_bytes: Some((gigabytes * 1e9) as u64),
        sm_count: row["units"].parse().ok(),
        ..Device::default()
    };
    memory.map(device).collect()
}

fn check(row: &Row, peaks: &DevicePeaks) {
    let is_approximate = row["grade"] == "approximate";
    assert_eq!(peaks.approximate, is_approximate, "{}", row["name"]);
    let tolerance = if is_approximate { 0.1 } else { 0.01 };
    let tera = |number, units| peaks.flops_per_s(number, units).map(|rate| rate / 1e12);
    let figures = [
        ("fp64", tera(Number::Float64, Units::Vector)),
        ("fp32", tera(Number::Float32, Units::Vector)),
        ("tf32", tera(Number::Float32, Units::Matrix)),
        ("bf16", tera(Number::BFloat16, Units::Matrix)),
        ("fp8", tera(Number::Float8, Units::Matrix)),
        ("fp4", tera(Number::Float4, Units::Matrix)),
        ("bandwidth_gb_per_s", Some(peaks.bandwidth_gb_per_s)),
    ];
    for (column, known) in figures {
        let right: Option<f64> = row[column].parse().ok();
        let is_near = match (known, right) {
            (Some(a), Some(b)) => (a / b - 1.0).abs() <= tolerance,
            (a, b) => a == b,
        };
        assert!(is_near, "{} {column}: {known:?}, expected {right:?}", row["name"]);
    }
}

#[test]
fn devices_have_the_published_peaks_or_none() {
    let Some(folder) = shared::folder().and_then(|s| s.cases("kernels26")) else { return };
    let text = std::fs::read_to_string(folder.join("devices.tsv")).expect("the devices can be read");
    let mut lines = text.lines();
    let columns: Vec<&str> = lines.next().unwrap_or_default().split('\t').collect();
    for line in lines {
        let row: Row = columns.iter().copied().zip(line.split('\t')).collect();
        for device in devices(&row) {
            match Peaks::builtin().of(&device) {
                Some(peaks) if row["grade"] != "none" => check(&row, peaks),
                found => {
                    let is_right = found.is_none() && row["grade"] == "none";
                    assert!(is_right, "{}: {:?}", device.name, found.map(|d| &d.name));
                }
            }
        }
    }
}
