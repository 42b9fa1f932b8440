//! The work of one device.

use super::timeline::Timeline;
use crate::units::Span;

/// The activities of one device, or the host work of a CPU-only rank.
pub struct DeviceWork {
    /// `None` on a CPU-only rank, and where the back end records no device.
    pub device: Option<i64>,
    /// Whether this is a device, not the host work of a CPU-only rank.
    pub is_gpu: bool,
    /// Indices into `RankTrace::activities`, in order of start.
    pub activities: Vec<u32>,
    pub timeline: Timeline,
    /// First start to last end, zero-length activities included; inside `capture`.
    pub span: Option<Span>,
    /// First to last recorded event without the device's lead and its lost tail: what all of its windows lie in.
    pub capture: Span,
}
