//! Hardware counters of a planted trace that two writers recorded: the numbers of its known answers.

use crate::run::{Answer, Record, answer, options};
use crate::shared;

#[test]
fn counters_of_the_twin_are_as_planted_for_both_writers() {
    let Some(root) = shared::folder() else { return };
    for (file, samples) in [("kineto", 91), ("cuspy", 115)] {
        let path = root.trace(&format!("torch215/twin/{file}.json.gz"));
        let answer = answer(&[path], &options());
        assert_eq!(answer.rows("hardware_counters").len(), samples, "{file}");
        let mean = |kind: &str, scope: &str| -> Vec<Option<f64>> {
            let is = |r: &Record| r.text("kind") == kind && r.text("scope") == scope;
            answer.rows_where("hardware_counter_means", is).iter().map(|r| r.float("mean")).collect()
        };
        assert_eq!(mean("sm_active", "step"), [43.5, 51.5, 59.5].map(Some), "{file}");
        assert_eq!(mean("hbm", "step"), [11.75, 15.75, 19.75].map(Some), "{file}");
        let near = |value: Option<f64>, want: f64| value.is_some_and(|v| (v - want).abs() < 5e-7);
        assert!(near(mean("sm_active", "busy")[0], 51.303369), "{file}");
        assert!(near(mean("sm_clock", "busy")[0], 1702.127306), "{file}");
        // Kernels of 7 to 19 us, a sample every 50 us.
        assert_eq!(mean("sm_active", "kernel_name").into_iter().flatten().count(), 0, "{file}");
        let pj = |scope: &str| -> Vec<String> {
            let rows = answer.rows_where("energy", |r| r.text("scope") == scope);
            rows.iter().map(|r| r.text("pj").to_string()).collect()
        };
        assert_eq!(pj("capture"), ["432000000000"], "{file}");
        assert_eq!(pj("step"), ["128000000000", "144000000000", "160000000000"], "{file}");
        assert_eq!(
            (pj("busy"), pj("idle")),
            (vec!["114284023963".into()], vec!["317715976037".into()]),
            "{file}"
        );
        assert_eq!(energy(&answer), Some("144.0 mJ a step"), "{file}");
    }
}

fn energy(answer: &Answer) -> Option<&str> {
    answer.outcome.outputs.iter().find_map(|(_, o)| o.verdict.as_ref()?.energy.as_deref())
}

#[test]
fn one_sample_of_power_is_no_energy_of_a_step() {
    let Some(root) = shared::folder() else { return };
    let monitor = root.trace("torch215/hello_world_training_loop_monitor.pftrace");
    let answer = answer(&[monitor], &options());
    assert_eq!(energy(&answer), None);
    let reasons = answer.rows_where("energy", |r| r.text("scope") == "step" && !r.text("reason").is_empty());
    assert_eq!(reasons.len(), 3);
}

#[test]
fn a_file_without_properties_of_devices_says_why_there_is_no_peak() {
    let Some(root) = shared::folder() else { return };
    let twin = root.trace("torch215/twin");
    let notes = |file: &str| answer(&[twin.join(file)], &options()).notes("ops");
    let is_why = |note: &String| note.starts_with("a .pftrace of torch carries no properties of devices");
    assert!(notes("cuspy.pftrace.gz").iter().any(is_why));
    assert!(!notes("cuspy.json.gz").iter().any(is_why));
}
