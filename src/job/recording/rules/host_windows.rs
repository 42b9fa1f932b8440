//! The windows of steps are those of the host (`--step-window host`), and hold less than 90 % of what the
//! steps launch: the host runs ahead, and its windows say how fast it launches. Nothing is told by step.

use crate::recording::capability::{Capability, Grade};
use crate::recording::facts::RecordingRow;
use crate::recording::limit::Limit;
use crate::recording::rules::Recorded;
use hta_base::units::{fmt_ns, fmt_pct, percent};
use hta_base::wording::ranks::ranks_named;
use hta_trace::step::{HELD_PCT, misses_work};

pub fn find(recorded: &Recorded) -> Vec<Limit> {
    let is_missed =
        |r: &&RecordingRow| r.step_window == "host" && misses_work(r.step_held_ns, r.step_launched_ns);
    let mut missed: Vec<&RecordingRow> = recorded.ranks.iter().filter(is_missed).collect();
    missed.sort_by(|a, b| {
        let across =
            |x: &RecordingRow, y: &RecordingRow| i128::from(x.step_held_ns) * i128::from(y.step_launched_ns);
        across(a, b).cmp(&across(b, a)).then(a.rank.cmp(&b.rank))
    });
    missed.into_iter().map(limit).collect()
}

fn limit(r: &RecordingRow) -> Limit {
    let held = fmt_pct(percent(r.step_held_ns, r.step_launched_ns));
    Limit {
        rank: Some(r.rank),
        capability: Capability::Steps,
        grade: Grade::Withheld,
        rule: "host_windows",
        measured: held.clone(),
        limit: format!("{HELD_PCT} %"),
        sentence: format!(
            "the host windows of the steps of {} hold {held} of the {} that they launch",
            ranks_named(&[r.rank]),
            fmt_ns(r.step_launched_ns)
        ),
        next: "analyse without --step-window host".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use crate::recording::rules::testing::{found, rank};

    #[test]
    fn host_windows_that_hold_little_of_what_steps_launch_say_nothing_by_step() {
        let with = |window: &'static str, held: i64| {
            let row =
                rank(0, |r| (r.step_window, r.step_launched_ns, r.step_held_ns) = (window, 1_000_000, held));
            found("host_windows", vec![row]).into_iter().map(|l| l.sentence).collect::<Vec<_>>()
        };
        let sentence = "the host windows of the steps of rank 0 hold 1.4 % of the 1.00 ms that they launch";
        assert_eq!(with("host", 14_000), [sentence]);
        assert!(with("host", 900_000).is_empty() && with("device", 14_000).is_empty());
    }
}
