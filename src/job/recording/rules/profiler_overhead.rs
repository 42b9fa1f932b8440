//! The profiler itself worked for more than 20 % of the recorded time of all ranks. Nothing but memory is
//! told then: hosts and devices waited for the profiler.

use crate::recording::capability::{Capability, Grade};
use crate::recording::limit::Limit;
use crate::recording::rules::Recorded;
use hta_base::units::{fmt_pct, percent};

/// Share of the recorded time, percent.
const MOST_PCT: f64 = 20.0;

pub fn find(recorded: &Recorded) -> Vec<Limit> {
    let sum =
        |of: fn(&crate::recording::facts::RecordingRow) -> i64| recorded.ranks.iter().map(of).sum::<i64>();
    let Some(share) = percent(sum(|r| r.overhead_ns), sum(|r| r.recorded_ns)).filter(|p| *p > MOST_PCT)
    else {
        return Vec::new();
    };
    let limit = Limit {
        rank: None,
        capability: Capability::DeviceTime,
        grade: Grade::Withheld,
        rule: "profiler_overhead",
        measured: fmt_pct(Some(share)),
        limit: fmt_pct(Some(MOST_PCT)),
        sentence: format!("the profiler itself worked for {} of the time", fmt_pct(Some(share))),
        next:
            "record again with fewer kinds of events (no stacks, shapes or memory), after a warm-up of the \
               profiler"
                .to_string(),
    };
    let all: Vec<Capability> = Capability::of_times().filter(|c| *c != Capability::Memory).collect();
    limit.of_all(&all)
}
