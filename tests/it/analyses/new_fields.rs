//! Categories and arguments that torch 2.10 to 2.15 added, on traces of a few rows.

use crate::run::{Answer, answer, options};
use hta::read::input::Input;
use hta::read::load::load;
use hta::read::options::LoadOptions;
use hta::read::reading::Spread;
use hta::read::source::ByteCount;
use hta_testkit::{Collective, TraceBuilder, us};

fn run(traces: &[TraceBuilder]) -> Answer {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (rank, t) in traces.iter().enumerate() {
        std::fs::write(folder.path().join(format!("rank_{rank}.json")), t.to_json()).expect("written");
    }
    answer(&[folder.path().to_path_buf()], &options())
}

/// A rank that records its collectives with XCCL, on the thread that submits them.
///
/// ```text
///   thread   [c10d::allreduce_         )
///              [xccl:all_reduce       )      the back end's range
///               [xccl::all_reduce  )         the record, of category collective_comm
/// ```
fn on_xpu(rank: u32) -> TraceBuilder {
    let mut t = TraceBuilder::new().rank(rank).world(2).backend("xccl");
    for k in 0..4i64 {
        let at = us(1000 * k + 10 * i64::from(rank));
        t.thread(1).submission(&Collective::all_reduce(64, "Float"), at..at + us(60));
        t.thread(1).annotation("xccl:all_reduce", at + us(5)..at + us(55)).inputs(&[(&[64], "float")]);
        t.thread(1)
            .op("xccl::all_reduce", at + us(10)..us(1000 * k + 50))
            .category("collective_comm")
            .arg("Communicator_id", 7);
        t.thread(1).op("aten::mm", at + us(100)..at + us(300));
    }
    t
}

#[test]
fn records_of_xccl_are_the_collectives_of_xpu() {
    let found = run(&[on_xpu(0), on_xpu(1)]);
    let rows = found.rows("collectives");
    assert_eq!(rows.len(), 8, "{rows:?}");
    for r in &rows {
        assert_eq!((r.text("kind"), r.opt_int("member_count")), ("all_reduce", Some(2)));
        assert_eq!(r.int("arrival_ns"), r.int("submit_ns"));
        // 64 floats
        assert_eq!((r.opt_int("size_bytes"), r.opt_int("device")), (Some(256), None));
    }
    assert!(found.rows("ranks").iter().all(|r| r.text("step_rule") == "capture"));
    assert!(found.rows("health").iter().all(|r| r.text("counter") != "category_unknown"));
}

#[test]
fn where_kernels_of_collectives_are_recorded_the_records_are_none_beside_them() {
    let with = |rank| {
        let mut t = on_xpu(rank);
        let c = Collective::all_reduce(64, "Float").group("0", "default_pg", 0..2).seq(1);
        t.thread(1).nccl(&c, us(5000)..us(5010), 7, us(5020)..us(5040));
        t
    };
    let rows = run(&[with(0), with(1)]).rows("collectives");
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert!(rows.iter().all(|r| r.opt_int("device").is_some()));
}

#[test]
fn counter_rows_without_values_are_neither_work_nor_counters() {
    let mut t = TraceBuilder::new();
    t.thread(1).launch(us(0)..us(5)).kernel("gemm", 7, us(10)..us(20));
    let plain = run(&[t]);
    let mut t = TraceBuilder::new();
    t.thread(1).launch(us(0)..us(5)).kernel("gemm", 7, us(10)..us(20));
    for category in ["hardware_counters", "mtia_counters", "xpu_scope_profiler"] {
        t.event(category, "sm__cycles_active.avg", 0, 7, us(12)..us(900));
    }
    t.event("xpu_sync", "Event Sync", 0, 7, us(12)..us(13));
    let found = run(&[t]);
    let of =
        |a: &Answer, table: &str| -> Vec<String> { a.rows(table).iter().map(|r| r.0.to_string()).collect() };
    for table in ["breakdown", "kernels", "counters", "counter_ranges"] {
        assert_eq!(of(&found, table), of(&plain, table), "{table}");
    }
    let recording = &found.rows("recordings")[0];
    assert_eq!((recording.text("device_state"), recording.int("activity_count")), ("recorded", 1));
    assert!(found.rows("health").iter().all(|r| r.text("counter") != "category_unknown"));
}

#[test]
fn launches_beside_rows_of_hardware_counters_are_not_taken_for_counted_ones() {
    let state = |category: &str| {
        let mut t = TraceBuilder::new();
        t.thread(1).launch(us(0)..us(5));
        t.thread(1).launch(us(10)..us(15));
        t.event(category, "x", 0, 7, us(12)..us(13));
        run(&[t]).rows("recordings")[0].text("device_state").to_string()
    };
    assert_eq!(state("hardware_counters"), "not_recorded");
    assert_eq!(state("cuda_profiler_range"), "counted");
}

#[test]
fn arguments_of_xpu_are_kept_on_request() {
    let mut t = TraceBuilder::new();
    let keys = ["engine_ordinal", "engine_index", "Return_code", "Number_wait_events", "sycl_queue_id"];
    {
        let mut main = t.thread(1);
        let mut row = main.launch(us(0)..us(5)).kernel("gemm", 7, us(10)..us(20));
        for key in keys {
            row = row.arg(key, 3);
        }
        row.arg("CallFrom", "train.py:7");
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("rank_0.json");
    std::fs::write(&path, t.to_json()).expect("it can be written");
    let options = LoadOptions { rest_args: true, ..LoadOptions::default() };
    let loaded = load(&Input::named(path), options, Spread::Inline, &ByteCount::default()).expect("read");
    let c = &loaded.columns;
    let texts: Vec<&str> =
        c.args.rest.iter().map(|(_, id)| c.strings.get(hta::trace::strings::StrId(id as u32))).collect();
    for key in keys {
        assert!(texts.iter().any(|text| text.contains(&format!("\"{key}\":3"))), "{key}: {texts:?}");
    }
    assert!(!texts.iter().any(|text| text.contains("CallFrom")), "it has a column");
}
