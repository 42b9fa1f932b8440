//! Hardware counters that a profiler samples while work runs: kinds, the time for which a sample stands,
//! means over a set of time, and energy. All of it is integer arithmetic; ratios are made at the last step.
//!
//! Two sources have two meanings. A sample of the *environment* (power, clocks, temperature) is the value at
//! an instant. A sample of *PM sampling* (SM active, HBM) is the mean over the time that starts with it.

mod cells;
mod energy;
mod kind;
mod lost;
mod track;

pub use cells::{CellMean, CounterCell, mean_over};
pub use energy::PowerCurve;
pub use kind::{CounterSource, HardwareCounter, SAMPLED_METRICS, source_of, unit_of};
pub use track::{RecordedCounter, RecordedCounters};
