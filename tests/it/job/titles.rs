//! Titles that `dist.record_comm` gives to collectives: the sample `gpu_ddp8` with every range `nccl:*` renamed, and
//! hosts where a range with the title lies inside the operator.

use crate::run::{Answer, answer, options};
use crate::shared::{files_below, samples};
use flate2::read::MultiGzDecoder;
use hta_testkit::{Collective, TraceBuilder, us};
use serde_json::{Value, json};
use std::io::Read;

/// The sample with a title in the place of each name of the back end.
fn renamed(title: impl Fn(usize) -> String) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for file in files_below(&samples().join("gpu_ddp8")) {
        let name = file.file_name().expect("a name").to_string_lossy().into_owned();
        let Some(name) = name.strip_suffix(".gz") else { continue };
        let mut text = String::new();
        let packed = std::fs::File::open(&file).expect("the sample can be read");
        MultiGzDecoder::new(packed).read_to_string(&mut text).expect("the sample is gzip");
        let mut trace: Value = serde_json::from_str(&text).expect("the sample is JSON");
        let events = trace["traceEvents"].as_array_mut().expect("events");
        let of_backend = |e: &&mut Value| e["name"].as_str().is_some_and(|n| n.starts_with("nccl:"));
        for (k, event) in events.iter_mut().filter(of_backend).enumerate() {
            event["name"] = title(k).into();
            // Torch records the inputs of the range, which the sample leaves out.
            event["args"]["Input Dims"] = json!([[64]]);
        }
        std::fs::write(folder.path().join(name), trace.to_string()).expect("it can be written");
    }
    folder
}

/// The rows of a table without the columns of titles.
fn rows(answer: &Answer, table: &str) -> Vec<String> {
    let text = |row: &crate::run::Record| {
        let mut row: Value = serde_json::from_str(&row.0.to_string()).expect("a row is an object");
        row.as_object_mut().map(|row| row.remove("title"));
        row.to_string()
    };
    answer.rows(table).iter().map(text).collect()
}

#[test]
fn titles_change_neither_collectives_nor_steps() {
    let plain = answer(&[samples().join("gpu_ddp8")], &options());
    assert!(!rows(&plain, "collectives").is_empty());
    for title in ["FSDP::all_gather (layer", "ProfilerStep#", "generate_sequences ", "nonsense, broadcast "] {
        let folder = renamed(|k| format!("{title}{k}"));
        let titled = answer(&[folder.path().to_path_buf()], &options());
        for table in ["collectives", "collective_ranks", "steps", "sync", "breakdown"] {
            assert_eq!(rows(&titled, table), rows(&plain, table), "{table} with `{title}`");
        }
        let all = titled.rows("collectives");
        assert!(all.iter().all(|r| r.text("title").starts_with(title)), "{title}");
        let by_title = titled.rows("collective_titles");
        assert!(
            by_title.iter().all(|r| r.text("title") == format!("{}#", title.trim_end_matches('#'))),
            "{by_title:?}"
        );
        assert_eq!(by_title.iter().map(|r| r.int("count")).sum::<i64>(), all.len() as i64);
        let annotations = titled.rows_where("user_annotations", |r| r.text("side") == "host");
        assert!(
            !annotations
                .iter()
                .any(|r| r.text("name").starts_with(title) && r.flag("is_step") == Some(false))
        );
    }
}

/// Two ranks with four all-reduces under titles: inside the operator, or around it.
fn on_hosts(is_around: bool, inputs: Value) -> Answer {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for number in 0..2 {
        let mut t = TraceBuilder::new().rank(number).world(2).backend("gloo");
        for k in 0..4i64 {
            let at = us(1000 * k);
            let op = at + us(10)..at + us(60);
            let title = if is_around { at + us(5)..at + us(950) } else { at + us(20)..at + us(30) };
            t.thread(1).op("aten::mm", at + us(400)..at + us(900));
            t.thread(1).gloo(&Collective::all_reduce(64, "Float"), op, 7, at + us(100)..at + us(300));
            let mut main = t.thread(1);
            let row = main.annotation(&format!("train step {k}"), title);
            if !inputs.is_null() {
                row.arg("Input Dims", inputs[0].clone()).arg("Input type", inputs[1].clone());
            }
        }
        std::fs::write(folder.path().join(format!("rank_{number}.json")), t.to_json()).expect("written");
    }
    answer(&[folder.path().to_path_buf()], &options())
}

#[test]
fn a_range_inside_the_operator_or_around_it_with_tensors_is_a_title() {
    for (is_around, inputs) in [
        (false, json!([[[64]], ["float"]])),
        (false, json!([[[]], ["float"]])),
        (true, json!([[[64]], ["float"]])),
    ] {
        let found = on_hosts(is_around, inputs);
        let ranks = found.rows("ranks");
        assert!(ranks.iter().all(|r| r.text("step_rule") == "capture"), "{is_around}: {ranks:?}");
        let titles = found.rows("collective_titles");
        let row =
            (titles.len(), titles[0].text("title"), titles[0].int("count"), titles[0].int("text_count"));
        assert_eq!(row, (1, "train step #", 8, 4));
        // 4 calls of 200 us on two ranks
        assert_eq!(titles[0].int("dur_sum_ns"), us(1600));
        let third = found.rows_where("collectives", |r| r.int("rank") == 0);
        assert_eq!((third[2].text("title"), third[2].text("kind")), ("train step 2", "all_reduce"));
    }
}

#[test]
fn a_range_of_the_user_around_a_collective_is_none() {
    // `record_function(name, args)` records its text as an input without a shape.
    for inputs in [Value::Null, json!([[[]], [""]])] {
        let found = on_hosts(true, inputs);
        assert!(found.rows("ranks").iter().all(|r| r.text("step_rule") == "annotation"));
        assert!(found.rows("collective_titles").is_empty());
    }
}
