//! Jobs of several programs: a trainer and its rollout engines, each with ranks from 0.
//! `tests/data/roles/make.py` writes one with its truth.

use crate::run::{Answer, Record, answer, options};
use flate2::read::GzDecoder;
use hta::read::discover::{discover, discover_roles};
use hta::read::roles::RolePattern;
use hta::run::RankClaims;
use serde_json::Value;
use std::io::Read;
use std::path::{Path, PathBuf};

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/roles")
}

fn job() -> Answer {
    answer(&[data().join("loop")], &options())
}

/// Role and rank inside the program.
fn place(row: &Record) -> (String, i64) {
    (row.text("role").to_string(), row.int("role_rank"))
}

#[test]
fn ranks_of_two_programs_are_numbered_one_after_the_other() {
    let ranks = job().rows("ranks");
    let numbers: Vec<i64> = ranks.iter().map(|r| r.int("rank")).collect();
    assert_eq!(numbers, [0, 1, 2, 3, 4, 5]);
    let places: Vec<(String, i64)> = ranks.iter().map(place).collect();
    let expected = [("actor", 0), ("actor", 1), ("actor", 2), ("actor", 3), ("rollout", 0), ("rollout", 1)];
    assert_eq!(places, expected.map(|(role, rank)| (role.to_string(), rank)));
    assert!(ranks.iter().all(|r| r.int("world_size") == 6 && r.opt_int("replica").is_none()));
}

#[test]
fn collectives_join_ranks_of_one_program() {
    let found = job();
    let calls = found.rows("collective_ranks");
    assert!(!calls.is_empty() && calls.iter().all(|r| r.int("rank") < 4), "{calls:?}");
    assert!(found.rows("trust").iter().all(|r| r.text("rule") != "missing_ranks"));
}

/// A copy of the recordings in other folders.
fn copied(to: &Path, folders: &[(&str, &str)]) {
    for (from, into) in folders {
        std::fs::create_dir_all(to.join(into)).expect("a folder");
        for file in std::fs::read_dir(data().join("loop").join(from)).expect("the folder is there").flatten()
        {
            std::fs::copy(file.path(), to.join(into).join(file.file_name())).expect("copied");
        }
    }
}

#[test]
fn folders_without_the_name_of_a_role_are_no_programs() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    copied(folder.path(), &[("actor", "run_a"), ("rollout", "run_b")]);
    let refused = discover(&[folder.path().to_path_buf()]).expect_err("two runs");
    assert!(refused.to_string().contains("cannot tell which traces in"), "{refused}");
    assert!(refused.hint().is_some_and(|hint| hint.contains("--role NAME=GLOB")));
}

#[test]
fn roles_that_are_told_make_programs_of_folders() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    copied(folder.path(), &[("actor", "run_a"), ("rollout", "run_b")]);
    let told = |texts: &[&str]| -> Vec<RolePattern> {
        texts.iter().map(|text| RolePattern::parse(text).expect("a role")).collect()
    };
    let find = |texts: &[&str]| discover_roles(&[folder.path().to_path_buf()], &told(texts));
    let inputs = find(&["learn=run_a", "gen=run_b/*"]).expect("each file has a role");
    let tasks = RankClaims::peek(&inputs).tasks(&inputs, &[]).expect("no two files of one rank");
    // Programs are in order of the names of their roles.
    let numbers: Vec<(u32, u32)> = tasks.iter().map(|task| (task.rank, task.own_rank())).collect();
    assert_eq!(numbers, [(0, 0), (1, 1), (2, 0), (3, 1), (4, 2), (5, 3)]);
    let refused = find(&["gen=run_b"]).expect_err("files of no role");
    assert!(refused.to_string().contains("is of no role"), "{refused}");
}

/// Changes the trace of a file.
fn change(path: &Path, how: impl Fn(&mut Value)) {
    let mut text = String::new();
    let file = std::fs::File::open(path).expect("the file is there");
    GzDecoder::new(file).read_to_string(&mut text).expect("text");
    let mut trace = serde_json::from_str(&text).expect("JSON");
    how(&mut trace);
    std::fs::remove_file(path).expect("removed");
    std::fs::write(path.with_extension(""), trace.to_string()).expect("written");
}

#[test]
fn phases_of_programs_on_two_hosts_are_not_compared() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    copied(folder.path(), &[("actor", "actor"), ("rollout", "rollout")]);
    for rank in 0..2 {
        let path = folder.path().join(format!("rollout/rank_{rank}.json.gz"));
        change(&path, |trace| trace["host_name"] = Value::from("node1"));
    }
    let found = answer(&[folder.path().to_path_buf()], &options());
    assert!(found.rows("role_phases").is_empty() && found.rows("role_loops").is_empty());
    let causes = found.rows("findings");
    let wait = causes.iter().find(|row| row.text("kind") == "role_wait").expect("the cause");
    assert!(wait.text("detail").contains("not recorded on one host"), "{wait:?}");
    let notes = found.notes("diagnosis");
    assert!(notes.iter().any(|note| note.starts_with("phases of roles are not compared")), "{notes:?}");
}

/// The truth of the job.
fn truth() -> Value {
    let text = std::fs::read_to_string(data().join("loop.truth.json")).expect("the truth is there");
    serde_json::from_str(&text).expect("JSON")
}

/// An integer of the truth.
fn int(of: &Value, key: &str) -> i64 {
    of[key].as_i64().unwrap_or_else(|| panic!("no {key} in {of}"))
}

#[test]
fn each_rank_divides_the_period_into_phases_and_idle_time() {
    let (found, truth) = (job(), truth());
    let rows = found.rows("role_phases");
    let loops = truth["loops"].as_array().expect("loops");
    for (rank, process) in (0i64..).zip(truth["processes"].as_array().expect("processes")) {
        for of in loops {
            let (number, period) = (int(of, "loop"), int(of, "period_ns"));
            let own = |r: &&Record| r.int("rank") == rank && r.int("period") == number;
            let all: Vec<&Record> = rows.iter().filter(own).collect();
            assert_eq!(
                all.iter().map(|r| r.int("time_ns")).sum::<i64>(),
                period,
                "rank {rank}, period {number}"
            );
            assert!(all.iter().all(|r| r.int("period_ns") == period));
            let planted = process["phases"].as_array().expect("phases");
            let kinds = planted.len() / loops.len();
            for phase in planted.iter().skip(kinds * usize::try_from(number).expect("small")).take(kinds) {
                let kind = phase["phase"].as_str().expect("a kind");
                let row = all.iter().find(|r| r.text("phase") == kind).expect("a row of the phase");
                let times = [row.int("time_ns"), row.int("busy_ns")];
                assert_eq!(times, [int(phase, "time_ns"), int(phase, "busy_ns")], "rank {rank}, {kind}");
            }
        }
    }
}

#[test]
fn idle_time_of_a_role_and_the_tail_of_a_rollout_are_as_planted() {
    let (found, truth) = (job(), truth());
    let rows = found.rows("role_loops");
    assert_eq!(rows.len(), 6, "{rows:?}");
    for of in truth["loops"].as_array().expect("loops") {
        let row = |role: &str| {
            let is = |r: &&Record| r.int("period") == int(of, "loop") && r.text("role") == role;
            rows.iter().find(is).expect("a row of the role")
        };
        let (actor, rollout) = (row("actor"), row("rollout"));
        assert_eq!(actor.int("idle_ns"), int(&of["idle_ns"], "actor"));
        assert_eq!(rollout.int("idle_ns"), int(&of["idle_ns"], "rollout"));
        assert_eq!(actor.int("waits_rollout_ns"), int(of, "actor_waits_for_rollout_ns"));
        assert_eq!(rollout.int("tail_ns"), int(of, "tail_ns"));
        assert_eq!((rollout.int("engine_count"), actor.opt_int("tail_ns")), (2, None));
        let near = |found: Option<f64>, key: &str| {
            let expected = of[key].as_f64().expect("a share");
            found.is_some_and(|share| (share - expected).abs() < 0.051)
        };
        assert!(near(actor.float("idle_pct"), "actor_idle_pct"), "{actor:?}");
        assert!(near(rollout.float("tail_pct"), "tail_pct"), "{rollout:?}");
        for row in [actor, rollout] {
            let whole = row.int("period_ns") * row.int("rank_count");
            assert_eq!(row.int("phase_ns") + row.int("idle_ns"), whole);
        }
    }
}

/// The first period starts with the rollout, before the first event of the trainers.
#[test]
fn no_role_finishes_early_because_another_one_takes_longer() {
    let found = job();
    let time = |part: &str| -> i64 {
        found.rows_where("time_account", |r| r.text("part") == part).iter().map(|r| r.int("time_ns")).sum()
    };
    assert_eq!(time("finished_early"), 0);
    let waits = found.rows_where("time_account", |r| r.cell("cause").as_str() == Some("role_wait"));
    assert!(waits.iter().any(|r| r.int("rank") == 0 && r.int("step") == 0), "{waits:?}");
}

#[test]
fn the_turns_of_the_loop_are_the_steps_of_each_rank() {
    let ranks = job().rows("ranks");
    assert!(ranks.iter().all(|r| r.text("step_rule") == "loop" && r.int("step_count") == 3), "{ranks:?}");
}

#[test]
fn the_wait_of_a_role_for_another_is_the_cause_of_its_idle_time() {
    let findings = job().rows("findings");
    let first = findings.first().expect("a cause");
    assert_eq!((first.text("kind"), first.text("certainty")), ("role_wait", "at most"));
    let said = [first.text("sentence"), first.text("detail")].join(". ");
    assert!(said.starts_with("Training devices idle 63.") && said.contains("waiting for rollout"), "{said}");
    assert!(said.contains("tail of the rollout, in which 1 of 2 engines works"), "{said}");
    // In each period the second engine has the shortest idle time: training, and the pauses between phases.
    let shortest: i64 = 3 * (100 + 2_000 + 100 + 4_000 + 100) * 1000 + 2 * 100 * 1000;
    assert_eq!(first.int("recoverable_ns"), shortest);
    let alone = answer(&[data().join("loop/actor")], &options()).rows("findings");
    let first = alone.first().expect("a cause");
    assert_eq!(first.text("kind"), "role_wait");
    assert!(first.text("sentence").ends_with("for other roles"), "{first:?}");
    assert!(first.text("detail").contains("the phases of no other role are recorded"), "{first:?}");
}
