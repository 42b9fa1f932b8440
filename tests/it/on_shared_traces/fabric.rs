//! Jobs on 8 hosts of 8 GPUs with one slow NIC and with none. The truth stands beside each folder.

use crate::run::{Answer, Record, answer, options};
use crate::shared;

fn of(set: &str) -> Option<Answer> {
    // Not every copy of the folder has these sets.
    let folder = shared::folder()?.traces().join("parallelism").join(set);
    folder.is_dir().then(|| answer(&[folder], &options()))
}

fn told(answer: &Answer) -> Vec<Record> {
    answer.rows_where("fabric_places", |r| !r.cell("verdict").is_null())
}

#[test]
fn the_slow_nic_is_the_planted_one_and_its_repair_gains() {
    let Some(answer) = of("fabric64_nic_h5_r3") else { return };
    let told = told(&answer);
    assert_eq!(told.len(), 1, "{told:?}");
    let place = &told[0];
    assert_eq!((place.text("kind"), place.text("host"), place.int("rail")), ("nic", "node5", 3));
    assert_eq!(place.text("verdict"), "named");
    let factor = place.float("factor").expect("a factor");
    assert!((factor - 1.611).abs() < 0.03, "{factor}");
    assert_eq!(place.float("p_value"), Some(0.01));
    let found = answer.rows_where("findings", |r| r.text("kind") == "link_slow");
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].int("recoverable_ns") > 0 && found[0].text("ranks") == "43", "{found:?}");
}

#[test]
fn no_place_is_told_where_none_is_slow() {
    let Some(answer) = of("fabric64_none") else { return };
    assert!(told(&answer).is_empty());
    assert!(answer.rows_where("findings", |r| r.text("kind") == "link_slow").is_empty());
}
