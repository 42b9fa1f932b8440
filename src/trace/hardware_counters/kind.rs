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

/// Names of the counters: as Cuspy writes them without the unit, and as the metric is called whose roll-up
/// follows after a point.
const NAMES: [(HardwareCounter, &[&str]); 13] = [
    (HardwareCounter::Power, &["Power"]),
    (HardwareCounter::Temperature, &["Temperature"]),
    (HardwareCounter::SmClock, &["SM Clock"]),
    (HardwareCounter::MemoryClock, &["Memory Clock"]),
    (HardwareCounter::Fan, &["Fan Speed"]),
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
        let plain = name.split_once(" (").map_or(name, |(plain, _)| plain).trim();
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

    pub fn source(self) -> CounterSource {
        match self {
            Self::Power | Self::Temperature | Self::SmClock | Self::MemoryClock | Self::Fan => {
                CounterSource::Environment
            }
            Self::Cycles => CounterSource::Derived,
            _ => CounterSource::PmSampling,
        }
    }
}

/// The unit of a counter with this name; `None` where the file does not tell. `NVLink RX` without one can be
/// bytes or bytes per second.
pub fn unit_of(name: &str) -> Option<&'static str> {
    let ends_with = |unit: &str| name.trim_end().ends_with(unit);
    match HardwareCounter::of(name) {
        HardwareCounter::Power => Some("W"),
        HardwareCounter::Temperature => Some("C"),
        HardwareCounter::SmClock | HardwareCounter::MemoryClock => Some("MHz"),
        HardwareCounter::Fan => Some("%"),
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
        assert_eq!(HardwareCounter::of("lts__t_sectors.sum").source(), CounterSource::PmSampling);
    }

    #[test]
    fn each_kind_is_listed_once() {
        let mut keys: Vec<&str> = HardwareCounter::ALL.iter().map(|k| k.key()).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), HardwareCounter::ALL.len());
    }
}
