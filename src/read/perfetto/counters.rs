//! Samples of hardware counters, as torch writes them.

use super::rows::{PerfettoRows, UNKNOWN};
use super::wire::WireMessage;
use crate::kineto::composed::{ComposedEvent, float, integer};
use hta_base::health::Counter;

impl PerfettoRows {
    /// Keeps the samples of a packet.
    pub(super) fn counter(&mut self, bytes: &[u8], timestamp: u64, at: u64) {
        let Some(time) = self.time(timestamp, at) else { return };
        let mut message = WireMessage::new(bytes);
        let (mut descriptor, mut samples) = (0, Vec::new());
        while let Some((number, value)) = message.field() {
            match number {
                4 => descriptor = value.number().unwrap_or(0),
                2 => samples.extend(value.bytes()),
                _ => {}
            }
        }
        self.check(!message.is_broken(), at);
        let Some(counters) = self.interned.counters.get(&descriptor) else {
            return self.count(Counter::NameNotInterned, at, &format!("the counters {descriptor}"));
        };
        let pid = format!("GPU {} Counters", counters.device);
        let mut missing = None;
        for sample in samples {
            let mut id = 0;
            let mut event = ComposedEvent::new(&mut self.reader, &mut self.text, b'C');
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
            let name = counters.names.get(id);
            if name.is_none() {
                missing = Some(format!("the counter {id}"));
            }
            event.name(name.unwrap_or(UNKNOWN));
            event.commit(at);
        }
        if let Some(missing) = missing {
            self.count(Counter::NameNotInterned, at, &missing);
        }
    }
}
