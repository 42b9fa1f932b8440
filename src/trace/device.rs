//! The work of one device.

use super::timeline::Timeline;
use hta_base::units::Span;

/// The activities of one device, or the host work of a CPU-only rank.
pub struct DeviceWork {
    /// `None` on a CPU-only rank, and if the back end records no device.
    pub device: Option<i64>,
    /// True for a device, false for the host work of a CPU-only rank.
    pub is_gpu: bool,
    /// Indices into `RankTrace::activities`, in order of start.
    pub activities: Vec<u32>,
    pub timeline: Timeline,
    /// First start to last end, including activities of length 0; inside `capture`.
    pub(crate) span: Option<Span>,
    /// First to last recorded event, without the device's lead and lost tail: contains all of its windows.
    pub capture: Span,
}
