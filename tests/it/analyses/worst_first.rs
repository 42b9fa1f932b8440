//! More ranks than rows: the worst have a row each, the others share one.

use crate::run::{Answer, Record, answer, options};
use crate::shared::samples;
use hta::analysis::api::Options;
use hta::units::{fmt_ns, fmt_pct, percent};
use std::collections::BTreeSet;

const TOP: usize = 1;

const RANKS: i64 = 8;

fn few_rows() -> Answer {
    answer(&[samples().join("gpu_ddp8")], &Options { top: TOP, ..options() })
}

/// In the view whose title begins with `title`: the ranks that are shown, and the last row.
fn shown(answer: &Answer, title: &str) -> (BTreeSet<i64>, Vec<String>) {
    let view = answer
        .views()
        .into_iter()
        .find(|v| v.title.starts_with(title))
        .unwrap_or_else(|| panic!("no view {title}"));
    let (last, each) = view.rows.split_last().unwrap();
    assert_eq!(each.len(), TOP, "{title}");
    let shown: BTreeSet<i64> = each.iter().flat_map(|r| ranks(&r[0])).collect();
    let others = others_name(&shown);
    assert_eq!(last[0], others);
    assert!(view.notes.iter().any(|n| n.starts_with(&format!("{others}: "))), "{:?}", view.notes);
    (shown, last.clone())
}

/// The ranks of a row, such as `0-2, 4`.
fn ranks(name: &str) -> Vec<i64> {
    let of = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        first.parse().unwrap()..=last.parse().unwrap()
    };
    name.split(", ").flat_map(of).collect()
}

fn others_name(shown: &BTreeSet<i64>) -> String {
    let n = RANKS - shown.len() as i64;
    format!("{n} other{}", if n == 1 { "" } else { "s" })
}

/// Rows of full steps of the ranks that are not shown.
fn others(answer: &Answer, table: &str, shown: &BTreeSet<i64>) -> Vec<Record> {
    answer.rows_where(table, |r| {
        r.text("scope") == "step"
            && r.opt_int("is_partial") != Some(1)
            && !shown.contains(&r.int("rank"))
            && (table != "idle" || r.opt_int("stream").is_none())
    })
}

fn sum(rows: &[Record], column: &str) -> i64 {
    rows.iter().map(|r| r.int(column)).sum()
}

#[test]
fn the_other_ranks_of_the_breakdown_are_their_means() {
    let answer = few_rows();
    let (ranks, last) = shown(&answer, "Where the time went");
    let rows = others(&answer, "temporal_breakdown", &ranks);
    let pct = |column: &str| fmt_pct(percent(sum(&rows, column), sum(&rows, "dur_ns")));
    assert_eq!(last[1], fmt_ns(sum(&rows, "dur_ns") / rows.len() as i64));
    let parts = ["compute_ns", "exposed_communication_ns", "copies_ns", "idle_ns"];
    assert_eq!(last[2..6], parts.map(pct));
    // None of them is worse than a rank that is shown.
    let lost = |rows: &[Record]| parts[1..].iter().map(|c| sum(rows, c)).sum::<i64>() / rows.len() as i64;
    let of_rank = |rank: i64| {
        answer.rows_where("temporal_breakdown", |r| {
            r.text("scope") == "step" && r.opt_int("is_partial") != Some(1) && r.int("rank") == rank
        })
    };
    let best_shown = ranks.iter().map(|r| lost(&of_rank(*r))).min().unwrap();
    let worst_other = (0..RANKS).filter(|r| !ranks.contains(r)).map(|r| lost(&of_rank(r))).max().unwrap();
    // Ranks whose printed rows are equal share one, which stands where its worst rank does.
    assert!(
        best_shown >= worst_other || fmt_ns(best_shown) == fmt_ns(worst_other),
        "{best_shown} {worst_other}"
    );
}

#[test]
fn the_other_ranks_of_idle_overlap_and_sync_are_their_means() {
    let answer = few_rows();
    for (title, table, columns) in [
        ("Why the device idles", "idle", vec![(1, "idle_ns"), (3, "host_wait_ns"), (4, "kernel_wait_ns")]),
        (
            "Communication hidden",
            "overlap",
            vec![(1, "communication_ns"), (2, "overlap_ns"), (3, "exposed_ns")],
        ),
    ] {
        let (ranks, last) = shown(&answer, title);
        let rows = others(&answer, table, &ranks);
        for (cell, column) in columns {
            assert_eq!(last[cell], fmt_ns(sum(&rows, column) / rows.len() as i64), "{title} {column}");
        }
    }
}

#[test]
fn delays_of_the_other_ranks_are_summed() {
    let answer = few_rows();
    let (ranks, last) = shown(&answer, "Who makes the others wait");
    let all = answer.rows_where("straggler_delays", |r| r.cell("process_group").is_null());
    let steps: BTreeSet<i64> = all.iter().filter_map(|r| r.opt_int("step_label")).collect();
    let rows: Vec<Record> = all.into_iter().filter(|r| !ranks.contains(&r.int("rank"))).collect();
    assert_eq!(last[1], fmt_ns(sum(&rows, "gain_ns") / steps.len() as i64));
    assert_eq!(last[4], sum(&rows, "last_count").to_string());
    assert_eq!(last[5], sum(&rows, "collective_count").to_string());
}

#[test]
fn every_view_that_leaves_ranks_out_has_a_row_for_them() {
    let answer = few_rows();
    for view in answer.views() {
        let is_by_rank = view.columns.first().is_some_and(|c| c == "ranks");
        // Slow steps and fixes are a selection, not all ranks; the account says how many rows are left out.
        let is_part =
            view.columns.iter().any(|c| c == "step") || view.notes.iter().any(|n| n.contains("more rows"));
        if !is_by_rank || is_part || view.rows.is_empty() {
            continue;
        }
        let names: Vec<&str> = view.rows.iter().map(|r| r[0].as_str()).collect();
        let is_whole = names.first().is_some_and(|n| *n == "0-7" || n.starts_with("all"));
        assert!(is_whole || names.last().is_some_and(|n| n.contains(" other")), "{}: {names:?}", view.title);
    }
}
