//! Peak rates of devices (`data/device_peaks.toml`, and the user's `--peaks`).

use crate::flops::Number;
use crate::meta::Device;
use serde::Deserialize;
use std::sync::OnceLock;

const BUILTIN: &str = include_str!("../../../data/device_peaks.toml");

/// Known devices, by file: those of a file count before those of the files after it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Peaks(Vec<PeaksFile>);

/// Peak rates of one product.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DevicePeaks {
    /// Name for reports.
    pub name: String,
    /// Parts of recorded names, one of which a device must contain.
    #[serde(rename = "match")]
    parts: Vec<String>,
    /// Least and greatest memory, 1e9 bytes.
    memory_gb: Option<[f64; 2]>,
    /// Multiprocessors or compute units.
    units: Option<u32>,
    tflops: DenseRates,
    /// Peak bandwidth of the device's memory, GB/s (1e9 bytes).
    pub bandwidth_gb_per_s: f64,
    /// Peak bandwidth of copies from or to the host, GB/s per direction.
    host_gb_per_s: Option<f64>,
    /// Public tables disagree.
    #[serde(default)]
    pub approximate: bool,
    #[serde(default)]
    #[allow(dead_code, reason = "for readers of the file")]
    source: String,
}

/// Dense rates, TFLOP/s.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct DenseRates {
    fp64: Option<f64>,
    fp64_matrix: Option<f64>,
    fp32: Option<f64>,
    fp32_matrix: Option<f64>,
    tf32: Option<f64>,
    fp16: Option<f64>,
    fp16_vector: Option<f64>,
    bf16: Option<f64>,
    fp8: Option<f64>,
    fp4: Option<f64>,
    int8: Option<f64>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct PeaksFile {
    /// Parts of names of devices that this file and those after it have no peaks of.
    without_peaks: Vec<String>,
    device: Vec<DevicePeaks>,
}

/// The units that compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Units {
    /// Tensor cores, matrix cores.
    Matrix,
    Vector,
}

impl Peaks {
    /// Reads a file of peaks.
    ///
    /// # Errors
    /// Says what is wrong with the file.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file: PeaksFile = toml::from_str(text).map_err(|e| e.to_string())?;
        for d in &file.device {
            let r = d.tflops;
            let rates =
                [r.fp64, r.fp64_matrix, r.fp32, r.fp32_matrix, r.tf32, r.fp16, r.fp16_vector, r.bf16, r.fp8];
            let mut all = rates
                .into_iter()
                .chain([r.fp4, r.int8, Some(d.bandwidth_gb_per_s), d.host_gb_per_s])
                .flatten();
            if !all.all(|rate| rate.is_finite() && rate > 0.0) {
                return Err(format!("device `{}`: expected rates above 0", d.name));
            }
            if d.parts.iter().all(String::is_empty) {
                return Err(format!("device `{}`: expected a part of its name in `match`", d.name));
            }
        }
        Ok(Self(vec![file]))
    }

    /// The devices that hta knows.
    pub fn builtin() -> &'static Peaks {
        static PEAKS: OnceLock<Peaks> = OnceLock::new();
        // The file is part of the program; a test reads it.
        PEAKS.get_or_init(|| Peaks::parse(BUILTIN).unwrap_or_default())
    }

    /// These devices before others.
    pub fn before(mut self, others: &Peaks) -> Self {
        self.0.extend(others.0.iter().cloned());
        self
    }

    /// The peaks of a device; `None` if no entry matches.
    pub fn of(&self, device: &Device) -> Option<&DevicePeaks> {
        let gigabytes = device.memory_bytes.map(|b| b as f64 / 1e9);
        self.named(device, |d| {
            let memory = d
                .memory_gb
                .is_none_or(|[least, most]| gigabytes.is_some_and(|g| (least..=most).contains(&g)));
            memory && d.units.is_none_or(|n| device.sm_count == Some(n))
        })
    }

    /// Peak bandwidth of copies from or to the host, GB/s per direction: of a product of that name, whatever
    /// its memory, else of its generation of NVIDIA devices; `None` if neither is known.
    pub fn host_gb_per_s(&self, device: &Device) -> Option<f64> {
        let named = self.named(device, |d| d.host_gb_per_s.is_some()).and_then(|d| d.host_gb_per_s);
        named.or_else(|| {
            let major: u32 = device.compute_capability.as_deref()?.split('.').next()?.parse().ok()?;
            Some(match major {
                ..8 => 12.0,
                8 => 25.0,
                _ => 50.0,
            })
        })
    }

    /// The entry that fits among those with the longest part of a device's name, and those that share a part
    /// of it with one of them: another shorter part is the name of another product.
    fn named(&self, device: &Device, fits: impl Fn(&DevicePeaks) -> bool) -> Option<&DevicePeaks> {
        let name = device.display_name().to_ascii_lowercase();
        let has = |p: &&String| !p.is_empty() && name.contains(&p.to_ascii_lowercase());
        let length = |d: &DevicePeaks| d.parts.iter().filter(has).map(String::len).max();
        for file in &self.0 {
            if file.without_peaks.iter().any(|p| has(&p)) {
                return None;
            }
            let Some(longest) = file.device.iter().filter_map(length).max() else { continue };
            let first = file.device.iter().filter(|d| length(d) == Some(longest));
            let names: Vec<&String> = first.flat_map(|d| &d.parts).filter(has).collect();
            let may = |d: &&DevicePeaks| d.parts.iter().any(|p| names.contains(&p)) && fits(d);
            // Of equally long matches the first entry counts.
            let found = file.device.iter().filter(may).min_by_key(|d| std::cmp::Reverse(length(d)));
            if found.is_some() {
                return found;
            }
        }
        None
    }
}

impl DevicePeaks {
    /// Peak rate for a number type, FLOP/s; `None` if the device has none. Single precision on matrix units
    /// is TF32; only matrix units of before BF16 have no other rate of it than the vector units.
    pub fn flops_per_s(&self, number: Number, units: Units) -> Option<f64> {
        let r = self.tflops;
        let tera = match (number, units) {
            (Number::Float64, Units::Matrix) => r.fp64_matrix.or(r.fp64),
            (Number::Float64, Units::Vector) => r.fp64,
            (Number::Float32, Units::Matrix) => {
                r.tf32.or(r.fp32_matrix).or(r.fp32.filter(|_| r.bf16.is_none()))
            }
            (Number::Float32, Units::Vector) => r.fp32,
            (Number::Float16, Units::Matrix) => r.fp16,
            (Number::Float16, Units::Vector) => r.fp16_vector.or(r.fp32),
            (Number::BFloat16, Units::Matrix) => r.bf16,
            (Number::BFloat16 | Number::Float8 | Number::Float4 | Number::Int8, Units::Vector) => r.fp32,
            (Number::Float8, Units::Matrix) => r.fp8,
            (Number::Float4, Units::Matrix) => r.fp4,
            (Number::Int8, Units::Matrix) => r.int8,
        };
        tera.map(|t| t * 1e12)
    }

    /// Peak bandwidth, bytes per second.
    pub fn bytes_per_s(&self) -> f64 {
        self.bandwidth_gb_per_s * 1e9
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(name: &str, gigabytes: u64, units: u32) -> Device {
        Device {
            name: name.to_string(),
            memory_bytes: Some(gigabytes * 1_000_000_000),
            sm_count: Some(units),
            compute_capability: Some("9.4".to_string()),
            ..Device::default()
        }
    }

    fn known(name: &str, gigabytes: u64, units: u32) -> Option<String> {
        Peaks::parse(BUILTIN).unwrap().of(&device(name, gigabytes, units)).map(|d| d.name.clone())
    }

    #[test]
    fn devices_are_known_by_name_memory_and_units() {
        let is = |name: &str| Some(name.to_string());
        assert_eq!(known("NVIDIA H100 80GB HBM3", 85, 132), is("H100 SXM"));
        assert_eq!(known("NVIDIA A100-PG509-200", 42, 108), is("A100 40 GB"));
        assert_eq!(known("NVIDIA A100-SXM4-80GB", 85, 108), is("A100 SXM 80 GB"));
        assert_eq!(known("AMD Instinct MI250X", 68, 110), is("MI250X (one die)"));
        assert_eq!(known("NVIDIA L40S", 48, 142), is("L40S"));
        assert_eq!(known("NVIDIA A10G", 24, 80), None);
        // The only product with these properties, as ROCm records it in containers.
        assert_eq!(known("", 206, 304), is("MI300X"));
        assert_eq!(known("NVIDIA H100", 102, 132), None);
        assert_eq!(known("A device of tomorrow", 206, 100), None);
    }

    #[test]
    fn no_entry_takes_the_name_of_another() {
        let peaks = Peaks::builtin();
        let all: Vec<&DevicePeaks> = peaks.0.iter().flat_map(|file| &file.device).collect();
        let named = |text: &str, d: &DevicePeaks| Device {
            memory_bytes: Some(d.memory_gb.map_or(0, |[least, most]| ((least + most) / 2.0 * 1e9) as u64)),
            sm_count: d.units,
            ..device(text, 0, 0)
        };
        for (own, part) in all.iter().flat_map(|d| d.parts.iter().map(move |p| (*d, p))) {
            for text in [part.clone(), format!("NVIDIA {part}"), format!("AMD {part} AC")] {
                assert_eq!(peaks.of(&named(&text, own)).map(|d| &d.name), Some(&own.name), "{text}");
                // Whatever the properties: its own, one that shares the name, or none.
                for other in &all {
                    let found = peaks.of(&named(&text, other));
                    let is_kin = found.is_none_or(|d| d.parts.iter().any(|p| own.parts.contains(p)));
                    assert!(is_kin, "{text} as {}", other.name);
                }
            }
        }
    }

    #[test]
    fn products_without_known_peaks_take_those_of_no_other() {
        for (name, gigabytes, units) in [
            ("AMD Instinct MI308X", 206, 80),
            ("AMD Instinct MI308X", 206, 304),
            ("", 206, 80),
            ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", 10, 16),
            ("NVIDIA H20", 150, 132),
            ("NVIDIA L4", 48, 142),
            ("NVIDIA L20Z", 85, 132),
            ("NVIDIA L40G", 25, 142),
            ("NVIDIA T400 4GB", 4, 6),
            ("Quadro P1000", 4, 5),
            ("NVIDIA H800 NVL", 100, 132),
            ("NVIDIA RTX 6000 Ada Generation", 51, 142),
            ("NVIDIA RTX PRO 5000 Blackwell", 51, 110),
            ("NVIDIA RTX PRO 4500 Blackwell", 34, 82),
            ("NVIDIA GeForce RTX 5080", 17, 84),
            ("NVIDIA GeForce RTX 5070 Ti", 17, 70),
            ("NVIDIA GeForce RTX 5090 D", 34, 170),
            ("NVIDIA GeForce RTX 5090 Laptop GPU", 25, 82),
            ("NVIDIA GeForce RTX 4090 Laptop GPU", 17, 76),
        ] {
            assert_eq!(known(name, gigabytes, units), None, "{name}");
        }
        let is = |name: &str| Some(name.to_string());
        assert_eq!(known("NVIDIA GB200 NVL4", 190, 152), is("GB200"));
        assert_eq!(known("NVIDIA B200", 192, 148), is("B200"));
        assert_eq!(known("NVIDIA B300 SXM6 AC", 288, 148), is("B300"));
        assert_eq!(known("NVIDIA H200", 150, 132), is("H200 SXM"));
        assert_eq!(known("NVIDIA H20-3e", 150, 78), is("H20 141 GB"));
        assert_eq!(known("NVIDIA H800 PCIe", 85, 114), is("H800 PCIe"));
        assert_eq!(known("Tesla P100-PCIE-16GB", 17, 56), is("P100 PCIe 16 GB"));
        assert_eq!(known("AMD Instinct MI250X / MI250", 68, 104), is("MI250 (one die)"));
    }

    #[test]
    fn single_precision_on_matrix_units_is_not_guessed() {
        let tera = |name: &str, units: Units| {
            let d = Peaks::builtin().0.iter().flat_map(|f| &f.device).find(|d| d.name == name)?;
            d.flops_per_s(Number::Float32, units).map(|rate| rate / 1e12)
        };
        assert_eq!((tera("GB10", Units::Matrix), tera("GB10", Units::Vector)), (None, Some(31.0)));
        assert_eq!(tera("V100 SXM2", Units::Matrix), Some(15.7));
        assert_eq!(tera("MI355X", Units::Matrix), Some(157.0));
    }

    #[test]
    fn entries_of_the_user_come_first() {
        let mine = "[[device]]\nname = 'mine'\nmatch = ['H100']\ntflops = { bf16 = 700 }\n\
                    bandwidth_gb_per_s = 3000\n";
        let peaks = Peaks::parse(mine).unwrap().before(Peaks::builtin());
        let found = peaks.of(&device("NVIDIA H100 80GB HBM3", 85, 132)).unwrap();
        assert_eq!(found.flops_per_s(Number::BFloat16, Units::Matrix), Some(700e12));
        assert_eq!(found.flops_per_s(Number::Float16, Units::Matrix), None);
        assert!(
            Peaks::parse("[[device]]\nname = 'x'\nmatch = ['x']\ntflops = {}\nbandwidth_gb_per_s = -1\n")
                .is_err()
        );
    }
}
