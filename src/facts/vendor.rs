//! Who made the devices of a rank.

use hta_trace::launch::is_launch_call;
use hta_trace::rank_trace::RankTrace;

/// The maker of a rank's devices, as far as actions depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum DeviceVendor {
    Nvidia,
    Amd,
    #[default]
    Other,
    /// No devices.
    Host,
}

impl DeviceVendor {
    /// From the names of the calls that launch work.
    pub fn of(trace: &RankTrace) -> DeviceVendor {
        if trace.is_device_lost {
            return of_calls(
                trace.columns.strings.iter().map(|(_, text)| text).filter(|t| is_launch_call(t)),
            );
        }
        if trace.is_cpu_only() {
            return DeviceVendor::Host;
        }
        of_calls(trace.launches().iter().map(|(row, _)| trace.name(row)))
    }

    pub fn name(self) -> &'static str {
        match self {
            DeviceVendor::Nvidia => "nvidia",
            DeviceVendor::Amd => "amd",
            DeviceVendor::Other => "other",
            DeviceVendor::Host => "none",
        }
    }

    pub fn named(name: &str) -> DeviceVendor {
        [DeviceVendor::Nvidia, DeviceVendor::Amd, DeviceVendor::Host]
            .into_iter()
            .find(|v| v.name() == name)
            .unwrap_or(DeviceVendor::Other)
    }
}

/// From names of calls that launch work.
fn of_calls<'a>(mut calls: impl Iterator<Item = &'a str>) -> DeviceVendor {
    match calls.find(|n| n.starts_with("hip") || n.starts_with("cu")) {
        Some(name) if name.starts_with("hip") => DeviceVendor::Amd,
        Some(_) => DeviceVendor::Nvidia,
        None => DeviceVendor::Other,
    }
}
