//! What a counter measures, by the name that the recorder gives it.

/// What a hardware counter measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HardwareCounter {
    Power,
    Temperature,
    SmClock,
    MemoryClock,
    Fan,
    SmActive,
    Hbm,
    HbmRead,
    HbmWrite,
    NvlinkRx,
    NvlinkTx,
    Pcie,
    /// Cycles of each kernel, which the recorder computes from a median clock. Not measured.
    Cycles,
    /// Any other metric.
    Other,
}

/// How the values of a counter come about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CounterSource {
    /// The value at the time of the sample.
    Environment,
    /// A mean over the time that starts with the sample.
    PmSampling,
    /// Computed by the recorder from other values.
    Derived,
}

impl CounterSource {
    pub const ALL: [CounterSource; 3] = [Self::Environment, Self::PmSampling, Self::Derived];

    /// Name in tables.
    pub fn key(self) -> &'static str {
        match self {
            Self::Environment => "environment",
            Self::PmSampling => "pm_sampling",
            Self::Derived => "derived",
        }
    }
}

/// Category of rows of PM sampling. The profiler itself writes them as counters; its export in Python makes
/// slices of them, and leaves the values out.
pub const SAMPLED_METRICS: &str = "hardware_counters";

/// What is read from the device itself, as Cuspy writes it, with its unit. A value in another unit, or in
/// none, is another counter.
const ENVIRONMENT: [(HardwareCounter, &str, &str); 5] = [
    (HardwareCounter::Power, "Power", "W"),
    (HardwareCounter::Temperature, "Temperature", "C"),
    (HardwareCounter::SmClock, "SM Clock", "MHz"),
    (HardwareCounter::MemoryClock, "Memory Clock", "MHz"),
    (HardwareCounter::Fan, "Fan Speed", "%"),
];

/// Names of the metrics: as Cuspy writes them without the unit, and as the metric is called whose roll-up
/// follows after a point.
const NAMES: [(HardwareCounter, &[&str]); 8] = [
    (HardwareCounter::SmActive, &["SM Active", "sm__cycles_active"]),
    (HardwareCounter::Hbm, &["DRAM BW", "HBM BW", "gpu__dram_throughput", "dram__throughput"]),
    (HardwareCounter::HbmRead, &["HBM Read", "dram__read_throughput"]),
    (HardwareCounter::HbmWrite, &["HBM Write", "dram__write_throughput"]),
    (HardwareCounter::NvlinkRx, &["NVLink RX", "nvlrx__bytes"]),
    (HardwareCounter::NvlinkTx, &["NVLink TX", "nvltx__bytes"]),
    (HardwareCounter::Pcie, &["PCIe", "pcie__throughput"]),
    (HardwareCounter::Cycles, &["Cycles"]),
];

impl HardwareCounter {
    pub const ALL: [HardwareCounter; 14] = [
        Self::Power,
        Self::Temperature,
        Self::SmClock,
        Self::MemoryClock,
        Self::Fan,
        Self::SmActive,
        Self::Hbm,
        Self::HbmRead,
        Self::HbmWrite,
        Self::NvlinkRx,
        Self::NvlinkTx,
        Self::Pcie,
        Self::Cycles,
        Self::Other,
    ];

    /// The kind of a counter with this name.
    pub fn of(name: &str) -> Self {
        let (plain, unit) = plain_and_unit(name);
        if let Some((kind, _, own)) = ENVIRONMENT.iter().find(|(_, known, _)| *known == plain) {
            return if unit == Some(*own) { *kind } else { Self::Other };
        }
        let base = plain.split_once('.').map_or(plain, |(base, _)| base);
        let named = NAMES.iter().find(|(_, names)| names.contains(&base));
        named.map_or(Self::Other, |(kind, _)| *kind)
    }

    /// Name in tables.
    pub fn key(self) -> &'static str {
        match self {
            Self::Power => "power",
            Self::Temperature => "temperature",
            Self::SmClock => "sm_clock",
            Self::MemoryClock => "memory_clock",
            Self::Fan => "fan",
            Self::SmActive => "sm_active",
            Self::Hbm => "hbm",
            Self::HbmRead => "hbm_read",
            Self::HbmWrite => "hbm_write",
            Self::NvlinkRx => "nvlink_rx",
            Self::NvlinkTx => "nvlink_tx",
            Self::Pcie => "pcie",
            Self::Cycles => "cycles",
            Self::Other => "other",
        }
    }
}

/// The name of a counter without its unit, and the unit in brackets.
fn plain_and_unit(name: &str) -> (&str, Option<&str>) {
    match name.split_once(" (") {
        Some((plain, unit)) => (plain.trim(), unit.trim_end().strip_suffix(')')),
        None => (name.trim(), None),
    }
}

/// How the values of a counter with this name come about, in whatever unit.
pub fn source_of(name: &str) -> CounterSource {
    let (plain, _) = plain_and_unit(name);
    match HardwareCounter::of(name) {
        _ if ENVIRONMENT.iter().any(|(_, known, _)| *known == plain) => CounterSource::Environment,
        HardwareCounter::Cycles => CounterSource::Derived,
        _ => CounterSource::PmSampling,
    }
}

/// The unit of a counter with this name; `None` where the file does not tell. `NVLink RX` without one can be
/// bytes or bytes per second.
pub fn unit_of(name: &str) -> Option<&'static str> {
    let ends_with = |unit: &str| name.trim_end().ends_with(unit);
    let kind = HardwareCounter::of(name);
    if let Some((.., unit)) = ENVIRONMENT.iter().find(|(known, ..)| *known == kind) {
        return Some(unit);
    }
    match kind {
        HardwareCounter::Cycles => Some("cycles"),
        _ if ends_with("(%)") || name.contains("pct_of_peak") => Some("%"),
        _ if name.contains("per_second") => Some("per s"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_both_recorders_tell_kind_and_unit() {
        let of = |name: &str| (HardwareCounter::of(name).key(), unit_of(name));
        assert_eq!(of("Power (W)"), ("power", Some("W")));
        assert_eq!(of("Fan Speed (%)"), ("fan", Some("%")));
        assert_eq!(of("SM Active (%)"), ("sm_active", Some("%")));
        assert_eq!(of("SM Active"), ("sm_active", None));
        assert_eq!(of("DRAM BW (%)"), ("hbm", Some("%")));
        assert_eq!(of("NVLink RX"), ("nvlink_rx", None));
        assert_eq!(of("sm__cycles_active.avg.pct_of_peak_sustained_elapsed"), ("sm_active", Some("%")));
        assert_eq!(of("nvltx__bytes.sum.per_second"), ("nvlink_tx", Some("per s")));
        assert_eq!(of("gpu__dram_throughput"), ("hbm", None));
        assert_eq!(of("lts__t_sectors.sum"), ("other", None));
        assert_eq!(of("sm__cycles_active_foo.sum"), ("other", None));
        assert_eq!(of("Cycles (Current Kernel)"), ("cycles", Some("cycles")));
        assert_eq!(source_of("lts__t_sectors.sum"), CounterSource::PmSampling);
        assert_eq!(source_of("Cycles (Current Kernel)"), CounterSource::Derived);
    }

    #[test]
    fn a_value_in_another_unit_is_another_counter() {
        for name in
            ["Power (mW)", "Power", "SM Clock (GHz)", "Temperature (F)", "Fan Speed (rpm)", "Power (W"]
        {
            assert_eq!((HardwareCounter::of(name), unit_of(name)), (HardwareCounter::Other, None), "{name}");
            assert_eq!(source_of(name), CounterSource::Environment, "{name}");
        }
        assert_eq!((HardwareCounter::of("Power.max"), unit_of("Power.max")), (HardwareCounter::Other, None));
    }

    #[test]
    fn each_kind_is_listed_once() {
        let mut keys: Vec<&str> = HardwareCounter::ALL.iter().map(|k| k.key()).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), HardwareCounter::ALL.len());
    }
}
