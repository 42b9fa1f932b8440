//! Events that are no slices: flows, labels, memory and instants.

use crate::kineto::cursor::TokenKind;
use crate::kineto::event::EventReader;
use crate::kineto::memory::record;
use crate::kineto::number::{Integer, NumberError, integer};
use hta_base::health::Counter;
use hta_base::units::Ns;
use hta_trace::category::is_launch_flow;
use hta_trace::events::{CounterSample, FlowEnd, LaneName};
use hta_trace::hardware_counters::{CounterSource, SAMPLED_METRICS, source_of};
use hta_trace::memory::MemoryRecordKind;

impl EventReader {
    pub(super) fn commit_flow(&mut self, phase: u8, buf: &[u8], at: u64) {
        let cat = self.texts.intern(self.scratch.cat, buf, &mut self.columns, at);
        let is_start = phase == b's';
        if phase != b't' {
            self.columns.flow_counts.entry(cat).or_default()[usize::from(!is_start)] += 1;
        }
        let text = self.columns.strings.get(cat);
        let (launch, backward) = (is_launch_flow(text), matches!(text, "fwdbwd" | "forward_backward"));
        if !(launch && is_start || backward && phase != b't') {
            return;
        }
        let (Integer::Value(id) | Integer::Unsigned(id)) = integer(self.scratch.id.bytes(buf)) else {
            return;
        };
        if launch {
            self.columns.launch_flows.push(id);
            return;
        }
        if let Ok(ts) = self.ts(buf) {
            let lane = self.lane(buf, at);
            self.columns.flows.push(FlowEnd { id, ts, lane, is_start });
        }
    }

    pub(super) fn commit_label(&mut self, buf: &[u8], at: u64) {
        if !matches!(self.scratch.name.bytes(buf), b"process_name" | b"process_labels" | b"thread_name") {
            return;
        }
        let kind = self.texts.intern(self.scratch.name, buf, &mut self.columns, at);
        let text = self.texts.intern(self.scratch.label, buf, &mut self.columns, at);
        let lane = self.lane(buf, at);
        self.columns.lane_names.push(LaneName { lane, kind, text });
    }

    /// Keeps an allocation, a free or a failed request.
    pub(super) fn commit_memory(&mut self, buf: &[u8], at: u64) {
        let Some(kind) = MemoryRecordKind::of(self.scratch.name.bytes(buf)) else { return };
        if self.options.device_only {
            return;
        }
        if self.options.skip_memory {
            self.columns.health.hit(Counter::NotLoaded, at);
            return;
        }
        // Instants say nothing about the fractions of other times.
        let shapes = self.shapes;
        let ts = self.ts(buf);
        self.shapes = shapes;
        let ts = match ts {
            Ok(ts) => ts,
            Err(NumberError::Overflow) => return self.columns.health.hit(Counter::TimeOverflow, at),
            Err(NumberError::NotANumber) => return self.columns.health.hit(Counter::TsMissing, at),
        };
        let lane = self.lane(buf, at);
        match record(kind, ts, lane, &self.scratch.memory, buf) {
            Some(record) if kind == MemoryRecordKind::Change && record.bytes == 0 => {
                self.columns.health.hit(Counter::MemoryZeroBytes, at);
            }
            Some(record) => self.columns.memory.push(record),
            None => self.columns.health.hit(Counter::MemoryWithoutBytes, at),
        }
    }

    /// Keeps a sample of a hardware counter, whose process is `GPU 0 Counters`. Other counters are not kept.
    pub(super) fn commit_counter(&mut self, buf: &[u8], at: u64) {
        self.columns.sampled_metrics |= self.scratch.cat.bytes(buf) == SAMPLED_METRICS.as_bytes();
        let pid = self.scratch.pid.bytes(buf);
        let device = pid.strip_prefix(b"GPU ").and_then(|rest| rest.strip_suffix(b" Counters"));
        let number = device.and_then(|d| std::str::from_utf8(d).ok()?.parse::<u32>().ok());
        let Some(device) = number.map(i64::from) else { return };
        let Some((ts, value)) = self.sample(buf, at) else {
            // That metrics were sampled is told by the name alone.
            let name = std::str::from_utf8(self.scratch.name.bytes(buf)).unwrap_or_default();
            self.columns.sampled_metrics |= source_of(name) == CounterSource::PmSampling;
            return;
        };
        let counter = self.texts.intern(self.scratch.name, buf, &mut self.columns, at);
        // What a name tells is told once for all of its samples.
        if !self.columns.sampled_metrics && self.told_counters.insert(counter) {
            let source = source_of(self.columns.strings.get(counter));
            self.columns.sampled_metrics = source == CounterSource::PmSampling;
        }
        self.columns.has_bare_samples |= self.scratch.cat.kind == TokenKind::Absent;
        self.columns.counter_samples.push(CounterSample { device, counter, ts, value });
    }

    /// Time and value of a sample; `None` (counted) if it has none.
    fn sample(&mut self, buf: &[u8], at: u64) -> Option<(Ns, f64)> {
        let ts = match self.ts(buf) {
            Ok(ts) => ts,
            Err(error) => {
                let is_overflow = matches!(error, NumberError::Overflow);
                let counter = if is_overflow { Counter::TimeOverflow } else { Counter::TsMissing };
                self.columns.health.hit(counter, at);
                return None;
            }
        };
        let token = self.scratch.value;
        let bits = self.float_argument(token, token.bytes(buf), at)?;
        Some((ts, f64::from_bits(bits)))
    }

    pub(super) fn commit_instant(&mut self, buf: &[u8]) {
        let name = self.scratch.name.bytes(buf);
        let (end, start) = (name == b"Record Window End", name.starts_with(b"Iteration Start"));
        if (end || start)
            && let Ok(ts) = self.ts(buf)
        {
            if end {
                self.columns.window_end = Some(ts);
            } else if self.columns.window_start.is_none() {
                self.columns.window_start = Some(ts);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::kineto::composed::{ComposedEvent, float};
    use crate::kineto::event::EventReader;
    use crate::options::LoadOptions;
    use hta_base::health::Counter;

    /// Reads samples of counters, `None` without a value, and returns whether metrics were sampled.
    fn read(samples: &[(&str, Option<f64>)]) -> (bool, EventReader) {
        let (mut reader, mut buf) = (EventReader::new(LoadOptions::default()), Vec::new());
        for (at, (name, value)) in samples.iter().enumerate() {
            let mut event = ComposedEvent::new(&mut reader, &mut buf, b'C', at as u64);
            event.name(name.as_bytes());
            event.place(b"GPU 3 Counters", b"");
            event.start(at as i64);
            if let Some(value) = value {
                event.argument(b"", |buf| float(buf, *value));
            }
            event.commit();
        }
        (reader.columns.sampled_metrics, reader)
    }

    #[test]
    fn the_name_of_a_counter_tells_once_whether_metrics_were_sampled() {
        let (power, cycles) = (("Power (W)", Some(700.0)), ("Cycles (Current Kernel)", Some(9.0)));
        let (sampled, reader) = read(&[power, cycles, power, power]);
        assert!(!sampled && reader.told_counters.len() == 2);
        let columns = &reader.columns;
        let kept: Vec<_> = columns.counter_samples.iter().map(|s| (s.device, s.ts, s.value)).collect();
        assert_eq!(kept, [(3, 0, 700.0), (3, 1, 9.0), (3, 2, 700.0), (3, 3, 700.0)]);
        assert_eq!(columns.strings.get(columns.counter_samples[3].counter), "Power (W)");
        // Whether the name comes first, last or between others.
        let metric = ("SM Active (%)", Some(85.5));
        for samples in [[metric, power, cycles], [power, metric, cycles], [power, cycles, metric]] {
            assert!(read(&samples).0);
        }
    }

    #[test]
    fn a_metric_without_a_value_was_sampled_and_is_not_kept() {
        let (sampled, reader) = read(&[("Power (W)", Some(1.0)), ("HBM BW (%)", None)]);
        assert!(sampled && reader.columns.counter_samples.len() == 1);
        assert_eq!(reader.columns.health.count(Counter::TsMissing), 0);
    }
}
