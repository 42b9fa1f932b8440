//! Samples of hardware counters, as torch writes them.

use super::rows::{PerfettoRows, UNKNOWN};
use super::wire::WireMessage;
use crate::kineto::composed::{ComposedEvent, float, integer};
use hta_base::health::Counter;

/// Fields of a packet of samples.
const SAMPLE: u32 = 2;
const DESCRIPTOR: u32 = 4;

impl PerfettoRows {
    /// Keeps the samples of a packet.
    pub(super) fn counter(&mut self, bytes: &[u8], timestamp: u64, at: u64) {
        let Some(time) = self.time(timestamp, at) else { return };
        let (mut message, mut descriptor) = (WireMessage::new(bytes), 0);
        for (_, value) in message.by_ref().filter(|(number, _)| *number == DESCRIPTOR) {
            descriptor = value.number().unwrap_or(0);
        }
        self.check(!message.is_broken(), at);
        let Some(counters) = self.interned.counters.get(&descriptor) else {
            return self.count(Counter::NameNotInterned, at, &format!("the counters {descriptor}"));
        };
        let pid = format!("GPU {} Counters", counters.device);
        let mut missing = None;
        let samples = WireMessage::new(bytes).filter(|(number, _)| *number == SAMPLE);
        for sample in samples.filter_map(|(_, value)| value.bytes()) {
            let mut id = 0;
            let mut event = ComposedEvent::new(&mut self.reader, &mut self.text, b'C', at);
            event.place(pid.as_bytes(), b"");
            event.start(time);
            for (number, value) in WireMessage::new(sample) {
                match number {
                    1 => id = value.number().unwrap_or(0),
                    2 => event.argument(b"", |buf| integer(buf, value.number().unwrap_or(0) as i64)),
                    3 => event.argument(b"", |buf| float(buf, value.float().unwrap_or(f64::NAN))),
                    _ => {}
                }
            }
            let name = counters.names.event_text(id);
            if name.is_none() {
                missing = Some(id);
            }
            event.name(name.unwrap_or(UNKNOWN.into()));
            event.commit();
        }
        if let Some(id) = missing {
            self.count(Counter::NameNotInterned, at, &format!("the counter {id}"));
        }
    }
}
