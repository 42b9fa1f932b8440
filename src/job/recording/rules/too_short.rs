//! Fewer than 100 GPU activities are recorded of every rank, which take less than 10 ms together: too little
//! for a statement about a job. What is said is a bound if at least 30 of them are in 10 ms and more of
//! recorded time, or fill it: then the account shows where most of the time goes.

use crate::recording::capability::{Capability, Grade};
use crate::recording::facts::NOT_RECORDED;
use crate::recording::limit::Limit;
use crate::recording::rules::Recorded;
use hta_base::units::{fmt_count, fmt_ns, percent};
use hta_facts::vendor::DeviceVendor;

/// Name of the rule.
pub const NAME: &str = "too_short";

/// Fewest GPU activities.
const LEAST: u64 = 100;
/// Least GPU time, ns. A few long activities tell as much as many short ones.
const LEAST_NS: i64 = 10_000_000;
/// Fewest GPU activities for a bound.
const LEAST_OF_BOUND: u64 = 30;
/// Share of the recorded time that they fill, percent.
const FILLED_PCT: f64 = 90.0;

pub fn find(recorded: &Recorded) -> Vec<Limit> {
    // A whole file with as much as one that is cut is too short.
    let most = recorded.ranks.iter().max_by_key(|r| (r.activity_count, !r.is_cut()));
    let Some(most) = most.filter(|r| {
        r.activity_count < LEAST
            && r.gpu_sum_ns < LEAST_NS
            && r.vendor != DeviceVendor::Host.name()
            && r.device_state != NOT_RECORDED
    }) else {
        return Vec::new();
    };
    let count = fmt_count(most.activity_count);
    let is_filled = percent(most.gpu_sum_ns, most.recorded_ns).is_some_and(|pct| pct >= FILLED_PCT);
    let is_bound = most.activity_count >= LEAST_OF_BOUND && (is_filled || most.recorded_ns >= LEAST_NS);
    let (before, behind) = if most.is_cut() { ("", " before the cut") } else { ("too short: ", "") };
    let limit = Limit {
        rank: None,
        capability: Capability::Idle,
        grade: if is_bound { Grade::AtMost } else { Grade::Withheld },
        rule: NAME,
        measured: count.clone(),
        limit: LEAST.to_string(),
        sentence: format!(
            "{before}{count} GPU {}, {} of GPU time{behind}",
            if most.activity_count == 1 { "activity" } else { "activities" },
            fmt_ns(most.gpu_sum_ns)
        ),
        next: "record again for longer: more steps, after a warm-up".to_string(),
    };
    use Capability::{DeviceTime, Host, Idle, Launch, Work};
    let cut = recorded.cut(|_| most.is_cut());
    limit.behind_cut(&cut).of_all(&[DeviceTime, Idle, Host, Launch, Work])
}

#[cfg(test)]
mod tests {
    use crate::recording::capability::Grade;
    use crate::recording::rules::testing::{found, rank};

    #[test]
    fn few_activities_are_too_few_unless_they_are_long() {
        let with = |count: u64, ns: i64| {
            found("too_short", vec![rank(0, |r| (r.activity_count, r.gpu_sum_ns) = (count, ns))])
        };
        assert_eq!(with(99, 51_400)[0].sentence, "too short: 99 GPU activities, 51.4 us of GPU time");
        assert_eq!(with(100, 51_400), []);
        assert_eq!(with(95, 182_000_000), []);
    }

    #[test]
    fn few_activities_in_much_time_or_that_fill_it_bound_what_is_said() {
        let grade = |count: u64, ns: i64, recorded: i64| {
            let row = rank(0, |r| (r.activity_count, r.gpu_sum_ns, r.recorded_ns) = (count, ns, recorded));
            found("too_short", vec![row])[0].grade
        };
        assert_eq!(grade(85, 900_000, 40_000_000), Grade::AtMost);
        assert_eq!(grade(85, 900_000, 2_000_000), Grade::Withheld);
        assert_eq!(grade(85, 1_900_000, 2_000_000), Grade::AtMost);
        assert_eq!(grade(16, 900_000, 40_000_000), Grade::Withheld);
    }
}
