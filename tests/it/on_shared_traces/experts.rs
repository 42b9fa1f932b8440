//! Layers of experts against what was planted: tokens, expert times and excess by layer and step. The truth lies beside
//! each set (`<set>.truth.json`); the sets are not published.

use crate::run::{Answer, answer, options};
use crate::shared;
use serde_json::Value;
use std::path::PathBuf;

/// A set of recorded ranks with its truth, if it is there.
fn set(name: &str) -> Option<(Answer, Value)> {
    let folder = shared::folder()?.traces().join("parallelism");
    let truth = std::fs::read_to_string(folder.join(format!("{name}.truth.json"))).ok()?;
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder.join(name)).ok()?.map(|f| f.expect("an entry").path()).collect();
    files.sort();
    Some((answer(&files, &options()), serde_json::from_str(&truth).expect("JSON")))
}

fn numbers(value: &Value) -> Vec<i64> {
    value.as_array().expect("a list").iter().map(|v| v.as_i64().expect("an integer")).collect()
}

fn us(value: &Value) -> i64 {
    (value.as_f64().expect("a number") * 1e3).round() as i64
}

#[test]
fn a_hot_rank_has_the_planted_excess_in_every_layer_and_step() {
    let Some((answer, truth)) = set("moe_ep4_hot_rank2") else { return };
    let layers = answer.rows("expert_layers");
    let rows = truth["rows"].as_array().expect("rows");
    assert_eq!(layers.len(), rows.len());
    for row in rows {
        let [step, layer] = ["step", "layer"].map(|c| row[c].as_i64());
        let found = layers
            .iter()
            .find(|l| (Some(l.int("step_label")), Some(l.int("position"))) == (step, layer))
            .expect("the layer");
        assert_eq!((found.int("excess_ns"), found.int("hot_rank")), (us(&row["excess_us"]), 2), "{row}");
        let ratio = row["max_over_mean"].as_f64().expect("a ratio");
        assert!((found.float("max_over_mean").expect("a ratio") - ratio).abs() < 1e-5, "{row}");
        assert_eq!((found.float("token_share_pct"), found.flag("sizes_agree")), (Some(100.0), Some(true)));
        for (rank, time) in row["expert_us"].as_array().expect("times").iter().enumerate() {
            let pass = answer.rows_where("expert_ranks", |r| {
                (r.int("rank"), Some(r.int("step_label")), Some(r.int("position")))
                    == (rank as i64, step, layer)
            });
            assert_eq!(pass[0].int("expert_ns"), us(time), "{row}");
            assert_eq!(pass[0].int("combine_wait_ns"), us(&row["wait_combine_us"][rank]), "{row}");
        }
    }
    assert!(answer.rows("findings").iter().any(|r| r.text("kind") == "expert_imbalance"));
    assert!(!answer.rows("findings").iter().any(|r| r.text("kind") == "straggler"));
}

#[test]
fn tokens_of_unequal_exchanges_are_the_planted_ones_and_nothing_is_lost() {
    for (name, is_hot) in [("gloo_moe_hot_rank", true), ("gloo_moe_ragged", false)] {
        let Some((answer, truth)) = set(name) else { return };
        // The profiler's steps count from 1, those of the truth from 2.
        for row in truth["rows"].as_array().expect("rows") {
            let [step, layer, rank] = ["step", "layer", "rank"].map(|c| row[c].as_i64().expect("a number"));
            let pass = answer.rows_where("expert_ranks", |r| {
                (r.int("rank"), r.int("step_label"), r.int("position")) == (rank, step - 1, layer)
            });
            let sum = |column: &str| numbers(&row[column]).iter().sum::<i64>();
            assert_eq!((pass.len(), pass[0].int("tokens_in")), (1, sum("recv")), "{name} {row}");
            assert_eq!(pass[0].int("tokens_out"), sum("send"), "{name} {row}");
        }
        let all = |column: &str| answer.rows("expert_ranks").iter().map(|r| r.int(column)).sum::<i64>();
        assert_eq!(all("tokens_in"), all("tokens_out"), "{name}");
        let layers = answer.rows("expert_layers");
        assert!(layers.iter().all(|l| l.flag("sizes_agree") == Some(true)), "{name}");
        let found = answer.rows_where("findings", |r| r.text("kind") == "expert_imbalance");
        assert_eq!(!found.is_empty(), is_hot, "{name}");
        // Unequal sizes do not cost matches.
        let calls = answer.rows_where("collectives", |r| r.text("kind") == "all_to_all");
        assert!(calls.iter().all(|r| r.int("member_count") == 4), "{name}");
    }
}
