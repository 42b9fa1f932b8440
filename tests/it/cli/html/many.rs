//! Many ranks and many steps: merged, counted, summed, and within the size limit.

use super::{Page, analyze, hta, shown};
use hta_testkit::{Collective, Format, TraceBuilder, us};
use serde_json::Value;
use std::sync::OnceLock;

const RANKS: u32 = 300;
const STEPS: i64 = 150;

/// A rank that computes and then joins a collective; rank 7 is late, more so in later steps.
fn rank(rank: u32) -> TraceBuilder {
    let mut t = TraceBuilder::new().rank(rank).world(RANKS).device("NVIDIA H100", 132);
    let mut main = t.thread(1);
    for step in 0..STEPS {
        let at = step * 1000;
        let late = if rank == 7 { step } else { i64::from(rank % 5) };
        main.step(step as u64, us(at)..us(at + 900));
        main.op("aten::mm", us(at + 10)..us(at + 60));
        main.launch(us(at + 20)..us(at + 30)).kernel(
            &format!("gemm_{}<float>", step % 30),
            7,
            us(at + 40)..us(at + 300 + late),
        );
        let sum = Collective::all_reduce(1 << (10 + step % 10), "Float")
            .group("0", "default_pg", 0..RANKS)
            .seq(step as u64);
        main.nccl(&sum, us(at + 70)..us(at + 80), 20, us(at + 300 + late)..us(at + 700));
    }
    t
}

/// The page, and the folder of the results.
fn set() -> &'static (tempfile::TempDir, Page, String) {
    static MADE: OnceLock<(tempfile::TempDir, Page, String)> = OnceLock::new();
    MADE.get_or_init(make)
}

fn make() -> (tempfile::TempDir, Page, String) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let traces = dir.path().join("traces");
    std::fs::create_dir(&traces).expect("a folder can be made");
    for r in 0..RANKS {
        let bytes = rank(r).to_bytes(&Format::default());
        std::fs::write(traces.join(format!("rank_{r}.json")), bytes).expect("a file can be written");
    }
    let results = dir.path().join("out");
    let page = analyze(shown(&traces), &results, &["--no-events"]);
    // A folder that all tests share is never removed: leave little in it.
    std::fs::remove_dir_all(&traces).expect("the traces can be removed");
    let results = shown(&results).to_string();
    (dir, page, results)
}

#[test]
fn a_set_of_many_ranks_and_steps_is_joined_without_losing_a_nanosecond() {
    let (_, page, results) = set();
    assert!(page.html.len() < 8_000_000, "{} bytes", page.html.len());
    let of = |analysis: &str, table: &str| -> Vec<Value> {
        let run = hta(&[analysis, results, "--format", "json", "--table", table]);
        serde_json::from_slice(&run.stdout).expect("rows")
    };
    let total = |rows: &[Value], column: &str| rows.iter().filter_map(|r| r[column].as_i64()).sum::<i64>();

    let mut steps = of("breakdown", "temporal_breakdown");
    steps.retain(|r| r["scope"] == "step");
    let windows = i64::from(RANKS) * STEPS;
    assert_eq!(steps.len() as i64, windows);
    let mut full = steps.clone();
    full.retain(|r| r["is_partial"] != true);
    for column in ["dur_ns", "compute_ns", "exposed_communication_ns", "idle_ns"] {
        assert_eq!(page.sum("breakdown", "lanes", column), total(&full, column), "{column}");
        assert_eq!(page.sum("breakdown", "steps", column), total(&full, column), "{column}");
        assert_eq!(page.sum("breakdown", "cells", column), total(&steps, column), "{column}");
    }
    let listed = page.cells("breakdown", "cells", "rank").len() as i64;
    let rest = page.grid("breakdown", "cells")["rest"][0].as_i64().expect("rows are left out");
    assert!(listed <= 8_192 && listed + rest == windows, "{listed} and {rest}");

    let mut delays = of("stragglers", "straggler_delays");
    delays.retain(|r| r["process_group"].is_null());
    assert_eq!(delays.len() as i64, windows);
    assert_eq!(page.sum("stragglers", "delays", "count"), windows);
    for column in ["gain_ns", "excess_ns", "imposed_wait_ns", "wait_ns"] {
        assert_eq!(page.sum("stragglers", "delays", column), total(&delays, column), "{column}");
    }
    let most = page.cells("stragglers", "delays", "most_ns").into_iter().flatten().max();
    assert_eq!(
        most,
        delays.iter().filter_map(|r| r["gain_ns"].as_i64()).max(),
        "a late step does not vanish in a mean"
    );
    let places = page.cells("stragglers", "delays", "most_ns");
    let at = places.iter().position(|m| *m == most).expect("the largest");
    assert_eq!(page.cells("stragglers", "delays", "most_rank")[at], Some(7));
}

#[test]
fn the_page_says_what_it_has_joined() {
    let (_, page, _) = set();
    let notes = |section: &str, grid: &str| page.grid(section, grid)["notes"].to_string();
    assert!(
        notes("stragglers", "delays").contains("3 consecutive ranks and 2 consecutive steps"),
        "{}",
        notes("stragglers", "delays")
    );
    assert!(notes("breakdown", "cells").contains("54 of 300 ranks"), "{}", notes("breakdown", "cells"));
    assert!(page.section("utilization")["notes"].to_string().contains("2 consecutive ranks share a row"));
    assert!(page.has("breakdown", "lengths"));
}
