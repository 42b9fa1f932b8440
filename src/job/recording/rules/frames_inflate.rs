//! Python frames are recorded, one in less than 20 us. Recording a frame takes time, so that hosts are slower
//! than without the profiler; what is said about hosts is a bound.

use crate::recording::capability::{Capability, Grade};
use crate::recording::limit::Limit;
use crate::recording::rules::Recorded;
use hta_base::units::{Ns, fmt_ns};

/// Recorded time per frame, ns.
const EVERY: Ns = 20_000;

pub fn find(recorded: &Recorded) -> Vec<Limit> {
    let framed =
        recorded.ranks.iter().filter(|r| r.frame_count > 0 && r.recorded_ns / (r.frame_count as i64) < EVERY);
    let Some(most) = framed.max_by_key(|r| r.frame_count) else { return Vec::new() };
    let every = fmt_ns(most.recorded_ns / most.frame_count as i64);
    vec![Limit {
        rank: None,
        capability: Capability::Host,
        grade: Grade::AtMost,
        rule: "frames_inflate",
        measured: every.clone(),
        limit: fmt_ns(EVERY),
        sentence: format!("Python frames were recorded (one every {every}), which makes hosts slower"),
        next: "record without stacks to time hosts".to_string(),
    }]
}
