//! Several ranks in one file: the changes can be reversed exactly.

use super::{Asked, exact, fields, is_added, members, raw_events, text};
use crate::job::planted::job::{Action, Job, about, all_reduce, forward, kernel};
use crate::job::planted::recording::{Clock, Recording};
use crate::job::planted::simulate::simulate;
use crate::shared;
use hta_testkit::{ms, us};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// An event without the changed fields, and the original values of these: pid, id, ts in 10^-9 us, name of the process.
type Undone = (BTreeMap<String, String>, String, Option<String>, Option<i128>);

fn plain(text: &str) -> String {
    serde_json::from_str::<Value>(text)
        .map_or(text.to_string(), |v| v.as_str().map_or(text.to_string(), str::to_string))
}

fn original(event: &str) -> Undone {
    let mut f = fields(event);
    let pid = f.remove("pid").map(|p| plain(&p)).unwrap_or_default();
    let ts = f.remove("ts").map(|t| exact(&t));
    let id = f.remove("id").map(|i| plain(&i));
    forget_names(&mut f);
    (f, pid, id, ts)
}

/// Names and order of processes are checked separately.
fn forget_names(f: &mut BTreeMap<String, String>) {
    let name = f.get("name").map(String::as_str);
    if f.get("ph").map(String::as_str) == Some("\"M\"")
        && matches!(name, Some("\"process_name\"" | "\"process_sort_index\""))
    {
        f.remove("args");
    }
}

/// Events of an overlay by rank, with all changes reversed.
fn undone(overlay: &[u8]) -> BTreeMap<u64, Vec<Undone>> {
    let legend: Value = serde_json::from_str(&members(overlay)["hta_overlay"]).unwrap();
    let ranks = legend["ranks"].as_array().unwrap();
    let mut out: BTreeMap<u64, Vec<Undone>> = BTreeMap::new();
    for event in raw_events(overlay).iter().filter(|e| !is_added(e)) {
        let mut f = fields(event);
        let pid = f.remove("pid").unwrap();
        let rank = ranks.iter().find(|r| r["pids"].get(&pid).is_some()).unwrap_or_else(|| panic!("{event}"));
        let shift = i128::from(rank["time_shift_ns"].as_i64().unwrap()) * 1_000_000;
        let ts = f.remove("ts").map(|t| exact(&t) - shift);
        let first = rank["first_flow_id"].as_u64().unwrap();
        let id = f.remove("id").map(|i| (i.parse::<u64>().unwrap() - first).to_string());
        forget_names(&mut f);
        let pid = rank["pids"][&pid].as_str().unwrap().to_string();
        out.entry(rank["rank"].as_u64().unwrap()).or_default().push((f, pid, id, ts));
    }
    out
}

pub fn check(files: &[PathBuf], asked: &Asked) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("all.json.gz");
    let summary = asked.write(files, &out).unwrap();
    let overlay = text(&out);
    let by_rank = undone(&overlay);
    assert_eq!(by_rank.len(), summary.drawn.len());
    for drawn in &summary.drawn {
        let source: Vec<Undone> =
            raw_events(&text(Path::new(&drawn.file))).iter().map(|e| original(e)).collect();
        assert!(by_rank[&u64::from(drawn.rank)] == source, "rank {}", drawn.rank);
    }
    overlay
}

fn program(rank: u32, step: u64) -> Vec<Action> {
    let mut actions = forward(rank, step);
    if rank == 2 {
        actions.push(kernel("slow", ms(4)));
    }
    actions.push(all_reduce(0, 4_000_000, us(300)));
    actions.push(kernel("backward", about(us(1_700), 5, rank, step, 50)));
    actions.push(all_reduce(0, 90_000, us(60)));
    actions
}

#[test]
fn events_of_all_ranks_are_there_with_clocks_aligned() {
    let dir = tempfile::tempdir().unwrap();
    let recording = Recording::full().clocks(&[0, ms(7) + 123, -ms(4), 0]);
    let files = recording.write(&simulate(&Job::new(4, 6, &program)), dir.path());
    let overlay = check(&files, &Asked::default());
    let legend: Value = serde_json::from_str(&members(&overlay)["hta_overlay"]).unwrap();
    let offset = |rank: usize| legend["ranks"][rank]["clock_offset_ns"].as_i64().unwrap();
    assert!((offset(1) - offset(0) - ms(7) - 123).abs() < us(2), "{legend}");
    assert!((offset(2) - offset(0) + ms(4)).abs() < us(2), "{legend}");
    // An all-reduce ends on all ranks at the same time within the accuracy of the offsets.
    let mut ends: BTreeMap<String, Vec<i128>> = BTreeMap::new();
    for event in raw_events(&overlay) {
        let f = fields(&event);
        let args: Value = f.get("args").map_or(Value::Null, |a| serde_json::from_str(a).unwrap());
        if f.get("cat").map(String::as_str) == Some("\"kernel\"") && args.get("Seq").is_some() {
            ends.entry(args["Seq"].to_string()).or_default().push(exact(&f["ts"]) + exact(&f["dur"]));
        }
    }
    assert!(ends.len() >= 12 && ends.values().all(|e| e.len() == 4));
    for e in ends.values() {
        let (least, most) = (e.iter().min().unwrap(), e.iter().max().unwrap());
        assert!(most - least < 4_000_000_000, "{e:?}");
    }
    // Rank 2 is late, and has a track with marks.
    let marks: Vec<Value> = raw_events(&overlay)
        .iter()
        .map(|e| serde_json::from_str::<Value>(e).unwrap())
        .filter(|e| e["cat"] == "hta_straggler")
        .collect();
    assert_eq!(marks.len(), 6, "one for each step");
    assert!(
        marks.iter().all(|m| m["pid"] == 3999 && m["args"]["finding"].as_str().unwrap().contains("Rank 2"))
    );
}

#[test]
fn a_drifting_clock_moves_both_ends_and_keeps_the_nesting() {
    let dir = tempfile::tempdir().unwrap();
    let mut recording = Recording::full();
    recording.clocks = vec![Clock::default(), Clock { offset: ms(3), drift: 100_000 }, Clock::default()];
    let files = recording.write(&simulate(&Job::new(3, 40, &program)), dir.path());
    let out = dir.path().join("all.json");
    let summary = Asked::default().write(&files, &out).unwrap();
    let clocks = &summary.outcome.as_ref().unwrap().clocks;
    assert!(clocks.iter().any(|(r, c)| *r == 1 && c.is_applied && c.is_linear), "{clocks:?}");
    let overlay = text(&out);
    // Kernels of a stream do not overlap, before and after.
    let mut spans: Vec<(i128, i128)> = Vec::new();
    for event in raw_events(&overlay) {
        let f = fields(&event);
        if f.get("cat").map(String::as_str) == Some("\"kernel\"")
            && f["pid"].starts_with("20")
            && f["tid"] == "7"
        {
            spans.push((exact(&f["ts"]), exact(&f["ts"]) + exact(&f["dur"])));
        }
    }
    spans.sort_unstable();
    assert!(spans.len() > 100 && spans.windows(2).all(|w| w[0].1 <= w[1].0));
}

#[test]
fn processes_say_their_rank_and_are_sorted_by_it() {
    let files = shared::files_below(&shared::samples().join("gpu_ddp8"));
    let files: Vec<PathBuf> = files.into_iter().filter(|f| f.to_string_lossy().contains("rank_")).collect();
    let overlay = check(&files, &Asked { draw: vec![(2, 2), (5, 6)], ..Asked::default() });
    let (mut names, mut order) = (BTreeMap::new(), BTreeMap::new());
    for event in raw_events(&overlay) {
        let e: Value = serde_json::from_str(&event).unwrap();
        let pid = e["pid"].as_u64().unwrap();
        if e["name"] == "process_name" {
            names.insert(pid, e["args"]["name"].as_str().unwrap().to_string());
        } else if e["name"] == "process_sort_index" {
            order.insert(pid, e["args"]["sort_index"].as_u64().unwrap());
        }
        assert!([3, 6, 7].contains(&(pid / 1000)));
    }
    assert_eq!(names.keys().collect::<Vec<_>>(), order.keys().collect::<Vec<_>>());
    let mut sorted: Vec<(u64, u64)> = order.into_iter().map(|(pid, o)| (o, pid)).collect();
    sorted.sort_unstable();
    let ranks: Vec<u64> = sorted.iter().map(|(_, pid)| pid / 1000 - 1).collect();
    assert!(ranks.is_sorted(), "{ranks:?}");
    for (pid, name) in &names {
        assert!(name.starts_with(&format!("rank {}: ", pid / 1000 - 1)), "{name}");
    }
    assert_eq!(names[&3999], "rank 2: hta");
}

#[test]
fn bases_that_differ_become_one() {
    let dir = tempfile::tempdir().unwrap();
    let program = |_: u32, _: u64| vec![kernel("gemm", us(50)), all_reduce(0, 1000, us(20))];
    let files = Recording::full().write(&simulate(&Job::new(2, 3, &program)), dir.path());
    // The second file has a base that is 7,889,238 s later.
    let later: i128 = 7_889_238_000_000_000;
    let shifted = String::from_utf8(text(&files[1])).unwrap();
    let base: i128 = members(shifted.as_bytes())["baseTimeNanoseconds"].parse().unwrap();
    let mut file: Value = serde_json::from_str(&shifted).unwrap();
    file["baseTimeNanoseconds"] = serde_json::from_str(&(base - later).to_string()).unwrap();
    let events = raw_events(shifted.as_bytes());
    let moved: Vec<String> = events
        .iter()
        .map(|e| {
            let ts = &fields(e)["ts"];
            let ns = exact(ts) / 1_000_000 + later;
            e.replacen(ts.as_str(), &format!("{}.{:03}", ns / 1000, ns % 1000), 1)
        })
        .collect();
    file["traceEvents"] = Value::from("EVENTS");
    let file = serde_json::to_string(&file).unwrap().replace("\"EVENTS\"", &format!("[{}]", moved.join(",")));
    std::fs::write(&files[1], file).unwrap();
    let overlay = check(&files, &Asked::nothing());
    assert_eq!(members(&overlay)["baseTimeNanoseconds"], (base - later).to_string());
    let first = |rank: u64| {
        let all = raw_events(&overlay);
        let own = all.iter().filter(|e| fields(e)["pid"].parse::<u64>().unwrap() / 1000 == rank + 1);
        own.filter_map(|e| fields(e).get("ts").map(|t| exact(t))).min().unwrap()
    };
    assert!((first(0) - first(1)).abs() < 1_000_000_000_000, "within a millisecond, as they were");
}
