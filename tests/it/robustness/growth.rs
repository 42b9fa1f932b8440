//! Cost grows linearly with the size of a file, even if a number that is small in real traces (events of one
//! correlation id, threads, devices, operators open at once, ends of flows, process groups) grows with the file.
//! `tests/bench/growth.py` has more shapes and more commands.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Shorter runs are dominated by fixed costs.
const AT_LEAST: Duration = Duration::from_millis(700);

/// Largest allowed factor for four times the events; quadratic cost would be 16.
const MOST: u32 = 8;

fn kernel(out: &mut String, ts: usize, correlation: usize, device: usize, more: &str) {
    let name = if more.is_empty() { "gemm" } else { "ncclDevKernel_AllReduce_Sum_f32_RING_LL(int)" };
    let _ = writeln!(
        out,
        r#"{{"ph":"X","cat":"kernel","name":"{name}","pid":{device},"tid":7,"ts":{ts},"dur":3,"args":{{"device":{device},"stream":7,"correlation":{correlation}{more}}}}},"#
    );
}

fn launch(out: &mut String, ts: usize, correlation: usize, tid: usize) {
    let _ = writeln!(
        out,
        r#"{{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":{tid},"ts":{ts},"dur":3,"args":{{"correlation":{correlation}}}}},"#
    );
}

fn operator(out: &mut String, ts: usize, dur: usize, tid: usize) {
    let _ = writeln!(
        out,
        r#"{{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":{tid},"ts":{ts},"dur":{dur},"args":{{}}}},"#
    );
}

/// Writes a trace of `n` things and measures `hta analyze`.
fn analyze(folder: &Path, n: usize, events: impl Fn(&mut String, usize), header: &str) -> Duration {
    let mut text = format!(
        "{{\"schemaVersion\":1,\"baseTimeNanoseconds\":1700000000000000000,{header}\"traceEvents\":[\n"
    );
    (0..n).for_each(|i| events(&mut text, i));
    operator(&mut text, 0, 1, 1);
    text.truncate(text.trim_end_matches(",\n").len());
    text.push_str("]}");
    let path = folder.join("rank_0.json");
    std::fs::write(&path, text).expect("a temporary file can be written");
    let start = Instant::now();
    let run = Command::new(env!("CARGO_BIN_EXE_hta"))
        .args(["analyze", "--no-events", "--force", "-o"])
        .arg(folder.join("out"))
        .arg(&path)
        .output()
        .expect("hta runs");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    start.elapsed()
}

/// Compares `n` with a quarter of it. The best of three runs counts, because a busy machine may slow one down.
fn grows_with_the_file(n: usize, events: impl Fn(&mut String, usize), header: impl Fn(usize) -> String) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let time = |n: usize| analyze(dir.path(), n, &events, &header(n));
    let mut seen = Vec::new();
    for _ in 0..3 {
        let (quarter, whole) = (time(n / 4), time(n));
        if whole <= MOST * quarter.max(AT_LEAST) {
            return;
        }
        seen.push((quarter, whole));
    }
    panic!("{} things and {n}: {seen:?}", n / 4);
}

fn plain(_: usize) -> String {
    String::new()
}

#[test]
fn with_the_events_of_one_correlation_id() {
    let events = |out: &mut String, i: usize| {
        launch(out, 10 * i, 5, 1);
        kernel(out, 10 * i + 4, 5, 0, "");
    };
    grows_with_the_file(60_000, events, plain);
}

#[test]
fn with_the_number_of_threads() {
    let events = |out: &mut String, i: usize| {
        operator(out, 1000 * i, 8, 1000 + i);
        launch(out, 1000 * i + 2, i + 1, 1000 + i);
        kernel(out, 1000 * i + 6, i + 1, 0, "");
    };
    grows_with_the_file(12_000, events, plain);
}

#[test]
fn with_the_number_of_devices() {
    let events = |out: &mut String, i: usize| {
        launch(out, 10 * i + 2, i + 1, 1);
        kernel(out, 10 * i + 6, i + 1, i, "");
    };
    let header = |n: usize| {
        let device = |i: usize| format!(r#"{{"id":{i},"name":"NVIDIA H100","numSms":132}}"#);
        format!(r#""deviceProperties":[{}],"#, (0..n).map(device).collect::<Vec<_>>().join(","))
    };
    grows_with_the_file(4_000, events, header);
}

#[test]
fn with_the_number_of_steps() {
    let events = |out: &mut String, i: usize| {
        let ts = 10 * i;
        let _ = writeln!(
            out,
            r#"{{"ph":"X","cat":"user_annotation","name":"ProfilerStep#{i}","pid":1,"tid":1,"ts":{ts},"dur":9,"args":{{}}}},"#
        );
        launch(out, ts + 1, i + 1, 1);
        kernel(out, ts + 5, i + 1, 0, "");
    };
    grows_with_the_file(24_000, events, plain);
}

fn annotation(out: &mut String, ts: usize, dur: usize, name: &str) {
    let _ = writeln!(
        out,
        r#"{{"ph":"X","cat":"user_annotation","name":"{name}","pid":1,"tid":1,"ts":{ts},"dur":{dur},"args":{{}}}},"#
    );
}

#[test]
fn with_the_number_of_ranges_that_count_up_and_are_not_called_steps() {
    let events = |out: &mut String, i: usize| {
        annotation(out, 20 * i, 18, &format!("execute_{i}"));
        launch(out, 20 * i + 2, i + 1, 1);
        kernel(out, 20 * i + 8, i + 1, 0, "");
    };
    grows_with_the_file(20_000, events, plain);
}

#[test]
fn with_the_sets_of_ranges_that_may_be_steps() {
    const N: usize = 16_000;
    let events = |out: &mut String, i: usize| {
        // Without digits: numbers would make one set of all.
        let letters: String =
            format!("{:x}", i % (N / 8)).bytes().map(|b| char::from(b'g' + b % 16)).collect();
        annotation(out, 20 * i, 18, &letters);
        launch(out, 20 * i + 2, i + 1, 1);
        kernel(out, 20 * i + 8, i + 1, 0, "");
    };
    grows_with_the_file(N, events, plain);
}

#[test]
fn with_the_number_of_exchanges_that_are_no_layers() {
    let events = |out: &mut String, i: usize| {
        let more = format!(
            r#","Collective name":"all_to_allv","Process Group Name":"ep","Group size":2,"Process Group Ranks":"[0, 1]","Seq":{i},"In msg nelems":5,"Out msg nelems":5,"dtype":"Float""#
        );
        kernel(out, 10 * i, i, 0, &more);
    };
    grows_with_the_file(32_000, events, plain);
}

#[test]
fn with_the_records_of_memory_in_steps() {
    let events = |out: &mut String, i: usize| {
        annotation(out, 20 * i, 18, &format!("ProfilerStep#{i}"));
        launch(out, 20 * i + 2, i + 1, 1);
        kernel(out, 20 * i + 8, i + 1, 0, "");
        for (at, bytes) in [(i, 512), (i.wrapping_sub(1), -512i64)] {
            let (addr, ts) = (at.wrapping_mul(512), 20 * i + 9);
            let _ = writeln!(
                out,
                r#"{{"ph":"i","cat":"cpu_instant_event","name":"[memory]","s":"t","pid":1,"tid":1,"ts":{ts},"args":{{"Addr":{addr},"Bytes":{bytes},"Device Id":0,"Device Type":1,"Total Allocated":1024,"Total Reserved":4096}}}},"#
            );
        }
    };
    grows_with_the_file(20_000, events, plain);
}

#[test]
fn with_the_operators_that_overlap_in_part() {
    const N: usize = 200_000;
    grows_with_the_file(N, |out, i| operator(out, 2 * i, 2 * N, 1), plain);
}

#[test]
fn with_the_ends_of_flows_at_one_place() {
    let events = |out: &mut String, i: usize| {
        operator(out, 10, 1_000_000 - i, 1);
        for phase in ["s", "f"] {
            let _ = writeln!(
                out,
                r#"{{"ph":"{phase}","cat":"fwdbwd","name":"fwdbwd","id":{i},"pid":1,"tid":1,"ts":10,"bp":"e"}},"#
            );
        }
    };
    grows_with_the_file(60_000, events, plain);
}

#[test]
fn with_the_number_of_process_groups() {
    let events = |out: &mut String, i: usize| {
        launch(out, 10 * i + 2, i + 1, 1);
        let more = format!(
            r#","Collective name":"allreduce","In msg nelems":1024,"Out msg nelems":1024,"Group size":2,"dtype":"Float","Process Group Name":"group {i}","Process Group Description":"default_pg","Process Group Ranks":"[0, {}]""#,
            i + 1
        );
        kernel(out, 10 * i + 6, i + 1, 0, &more);
    };
    let header = |n: usize| {
        let group =
            |i: usize| format!(r#"{{"pg_name":"group {i}","pg_desc":"","pg_size":2,"ranks":[0,{}]}}"#, i + 1);
        let groups: Vec<String> = (0..n).map(group).collect();
        format!(
            r#""distributedInfo":{{"backend":"nccl","rank":0,"world_size":2,"pg_config":[{}]}},"#,
            groups.join(",")
        )
    };
    grows_with_the_file(12_000, events, header);
}
