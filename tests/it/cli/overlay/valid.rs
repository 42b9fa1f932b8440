//! Added events are valid in the Chrome trace format.

use super::{Asked, is_added, raw_events, text};
use crate::shared;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

pub fn check(files: &[PathBuf]) -> BTreeMap<String, usize> {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("all.json");
    Asked::default().write(files, &out).unwrap_or_else(|e| panic!("{files:?}: {e}"));
    let events: Vec<(bool, Value)> =
        raw_events(&text(&out)).iter().map(|e| (is_added(e), serde_json::from_str(e).unwrap())).collect();
    let mut count: BTreeMap<String, usize> = BTreeMap::new();
    let mut flows: BTreeMap<u64, Vec<&Value>> = BTreeMap::new();
    let (mut counters, mut samples) = (BTreeMap::new(), BTreeMap::<(u64, &str), f64>::new());
    let mut named: BTreeSet<(u64, Option<u64>)> = BTreeSet::new();
    let mut used: BTreeSet<(u64, Option<u64>)> = BTreeSet::new();
    let mut tracks: BTreeMap<(u64, u64), f64> = BTreeMap::new();
    let is_number = |v: &Value| v.as_f64().is_some_and(f64::is_finite);
    let source_ids: BTreeSet<String> = events
        .iter()
        .filter(|(added, e)| !added && matches!(e["ph"].as_str(), Some("s" | "t" | "f")))
        .map(|(_, e)| e["id"].to_string())
        .collect();
    for (_, e) in events.iter().filter(|(added, _)| *added) {
        let ph = e["ph"].as_str().unwrap();
        *count.entry(ph.to_string()).or_default() += 1;
        let (pid, ts) = (&e["pid"], e["ts"].as_f64().unwrap());
        assert!(ts >= 0.0 && e["name"].as_str().is_some_and(|n| !n.is_empty()), "{e}");
        match ph {
            "M" => {
                let args = e["args"].as_object().unwrap();
                assert_eq!(args.len(), 1);
                match e["name"].as_str().unwrap() {
                    "process_name" => drop(named.insert((pid.as_u64().unwrap(), None))),
                    "thread_name" => drop(named.insert((pid.as_u64().unwrap(), e["tid"].as_u64()))),
                    "process_sort_index" => assert!(args["sort_index"].is_u64()),
                    other => panic!("{other}"),
                }
            }
            "C" => {
                let args = e["args"].as_object().unwrap();
                assert!(args.len() == 1 && is_number(&args["value"]) && e.get("id").is_none(), "{e}");
                let key = (pid.as_u64().unwrap(), e["name"].as_str().unwrap());
                let last = samples.insert(key, ts).unwrap_or(0.0);
                assert!(last <= ts, "{e}");
                counters.insert(key, args["value"].as_f64().unwrap());
                used.insert((pid.as_u64().unwrap(), None));
            }
            "X" => {
                let dur = e["dur"].as_f64().unwrap();
                let key = (pid.as_u64().unwrap(), e["tid"].as_u64().unwrap());
                assert!(dur >= 0.0 && e["args"].is_object());
                // Slices on a track do not overlap, except for the rounding of doubles.
                let before = tracks.insert(key, ts + dur).unwrap_or(f64::MIN);
                assert!(before <= ts + 0.6, "{before} {e}");
                used.insert((key.0, Some(key.1)));
            }
            "s" | "f" => {
                assert_eq!(ph == "f", e["bp"] == "e");
                flows.entry(e["id"].as_u64().unwrap()).or_default().push(e);
            }
            other => panic!("{other}"),
        }
    }
    assert!(used.is_subset(&named), "{used:?} {named:?}");
    for (key, last) in &counters {
        assert_eq!(*last, 0.0, "{key:?} ends at 0");
    }
    for (id, ends) in &flows {
        assert!(!source_ids.contains(&id.to_string()));
        let phases: Vec<&Value> = ends.iter().map(|e| &e["ph"]).collect();
        assert_eq!(phases, ["s", "f"], "{id}");
        assert!(ends[0]["ts"].as_f64() <= ends[1]["ts"].as_f64());
        assert_eq!((&ends[0]["cat"], &ends[0]["name"]), (&ends[1]["cat"], &ends[1]["name"]));
        for end in ends {
            // The end lies inside an event of the source on its thread (doubles of epochs in us have a resolution of a
            // quarter).
            let ts = end["ts"].as_f64().unwrap();
            let holds = |e: &Value| {
                let start = e["ts"].as_f64().unwrap_or(f64::MAX);
                e["ph"] == "X"
                    && e["pid"] == end["pid"]
                    && e["tid"] == end["tid"]
                    && start <= ts + 0.3
                    && ts <= start + e["dur"].as_f64().unwrap_or(0.0) + 0.3
            };
            assert!(events.iter().any(|(added, e)| !added && holds(e)), "{end}");
        }
    }
    count
}

#[test]
fn what_is_added_is_valid() {
    let files = |folder: &str| -> Vec<PathBuf> {
        let all = shared::files_below(&shared::samples().join(folder));
        all.into_iter().filter(|f| f.to_string_lossy().contains("rank_")).collect()
    };
    let gpu = files("gpu_ddp8");
    let all = check(&gpu);
    assert!(["M", "C", "X", "s", "f"].iter().all(|p| all[*p] > 0), "{all:?}");
    let one = check(&gpu[..1]);
    assert!(["M", "C", "X", "s", "f"].iter().all(|p| one[*p] > 0), "{one:?}");
    let host = check(&files("gloo_ddp4"));
    assert!(host["X"] > 0 && !host.contains_key("C"), "{host:?}");
}
