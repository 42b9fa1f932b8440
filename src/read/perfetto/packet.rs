//! One packet: its parts, borrowed from its bytes.

use super::fields::packet as at;
use super::wire::WireMessage;

/// The parts of a packet.
#[derive(Default)]
pub(super) struct TracePacket<'a> {
    pub(super) timestamp: u64,
    pub(super) sequence: u64,
    pub(super) flags: u64,
    /// Whether packets before this one are missing.
    pub(super) drops: bool,
    pub(super) clocks: Option<&'a [u8]>,
    pub(super) event: Option<&'a [u8]>,
    pub(super) interned: Option<&'a [u8]>,
    pub(super) counter: Option<&'a [u8]>,
    pub(super) stage: Option<&'a [u8]>,
    pub(super) track: Option<&'a [u8]>,
    /// Whether the packet is damaged behind these parts.
    pub(super) is_broken: bool,
    /// Number of bytes at its end that are packets of their own, because its length is wrong.
    pub(super) swallowed: usize,
}

/// The flag that what was named before is no longer valid.
const CLEARED: u64 = 1;

impl<'a> TracePacket<'a> {
    pub(super) fn read(mut message: WireMessage<'a>) -> Self {
        let mut found = Self::default();
        loop {
            let left = message.left();
            let Some((number, value)) = message.field() else { break };
            match number {
                // Packets of torch have no such field: this is the head of the next packet.
                1 => {
                    found.swallowed = left;
                    break;
                }
                at::TIMESTAMP => found.timestamp = value.number().unwrap_or(0),
                at::SEQUENCE => found.sequence = value.number().unwrap_or(0),
                at::FLAGS => found.flags = value.number().unwrap_or(0),
                at::DROPPED => found.drops = value.number().is_some_and(|n| n != 0),
                at::CLOCKS => found.clocks = value.bytes(),
                at::TRACK_EVENT => found.event = value.bytes(),
                at::INTERNED => found.interned = value.bytes(),
                at::GPU_COUNTER => found.counter = value.bytes(),
                at::RENDER_STAGE => found.stage = value.bytes(),
                at::TRACK => found.track = value.bytes(),
                _ => {}
            }
        }
        found.is_broken = message.is_broken();
        found
    }

    /// Whether what was named before is no longer valid.
    pub(super) fn clears(&self) -> bool {
        self.flags & CLEARED != 0
    }
}
