//! Means of one counter over sets of time, and why there is none.

use super::scopes::ScopedTime;
use super::words::covers;
use hta_base::units::{Ns, fmt_ns_tenths};
use hta_trace::hardware_counters::{CellMean, RecordedCounter, mean_over};

/// A mean with what the reader must know of it.
pub(super) struct JudgedMean {
    pub(super) mean: CellMean,
    pub(super) value: Option<f64>,
    pub(super) is_resolved: bool,
    pub(super) reason: Option<String>,
}

impl JudgedMean {
    pub(super) fn new(counter: &RecordedCounter, set: &ScopedTime) -> Self {
        let mean = mean_over(&counter.cells, &set.time);
        let is_resolved = mean.is_resolved(set.shortest, counter.period);
        let value = mean.value();
        let without = if counter.is_ambiguous {
            Some("two series share the name".to_string())
        } else if counter.period.is_none() {
            Some("one sample".to_string())
        } else if !mean.is_covered() {
            Some(covers(mean.covered, mean.window))
        } else if value.is_none() {
            Some("values that cannot be summed".to_string())
        } else {
            None
        };
        if let Some(reason) = without {
            return Self { mean, value: None, is_resolved: false, reason: Some(reason) };
        }
        let unresolved = (!is_resolved).then(|| unresolved(set, counter.period));
        let value = value.filter(|_| is_resolved || !set.scope.must_be_resolved());
        Self { mean, value, is_resolved, reason: unresolved.flatten() }
    }
}

/// What a value is that samples cannot tell from what else ran.
fn unresolved(set: &ScopedTime, period: Option<Ns>) -> Option<String> {
    use super::scopes::CounterScope as Scope;
    let (period, median) = (period?, set.median?);
    let (every, long) = (fmt_ns_tenths(period), fmt_ns_tenths(median));
    let that = if every == "1.0 ms" { "that millisecond" } else { "that time" };
    Some(match set.scope {
        Scope::KernelName => format!(
            "sampled every {every}, kernels of {long} (median): a value is the mean of all that ran in {that}"
        ),
        Scope::Collective => format!(
            "sampled every {every}, collectives of {long} (median): a value is the mean of all that ran in \
             {that}"
        ),
        Scope::Step => {
            format!("sampled every {every}, a step of {long}: a value is the mean of all in {that}")
        }
        _ => {
            format!("sampled every {every}, busy for {long} (median): the mean includes idle time in between")
        }
    })
}
