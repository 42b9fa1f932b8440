//! Perfetto traces: the rows of the JSON of the same events, traces of other programs, damage of every kind, and files
//! that hold several runs.

use crate::robustness::recorders::hta;
use crate::run::{answer, options};
use hta::read::discover::discover;
use hta::read::error::ReadError;
use hta::read::input::Input;
use hta::read::load::load;
use hta::read::options::LoadOptions;
use hta::read::reading::{Chunks, Loaded, Spread};
use hta::read::source::ByteCount;
use hta::trace::args::Arg;
use hta_base::health::Counter;
use hta_testkit::{Format, ProtoMessage, TraceBuilder, perfetto_file, us};
use std::path::Path;

/// A step of two operators, a copy, and a graph of two kernels.
///
/// ```text
///   ProfilerStep#0  [0..................................200)
///   aten::mm        [10......30)     aten::add [40...60)     cudaGraphLaunch [70.80)
///   stream 7              copy [20.22) gemm [35.....50)   add [62.66) a [82..90) b [90.99)
/// ```
fn job() -> TraceBuilder {
    let mut t = TraceBuilder::new().rank(0).device("NVIDIA H100", 132);
    let mut main = t.thread(1000);
    main.annotation("ProfilerStep#0", us(0)..us(200));
    main.op("aten::mm", us(10)..us(30)).inputs(&[(&[4, 8], "float"), (&[8, 2], "float")]);
    main.launch(us(12)..us(14)).memcpy("HtoD (Pinned -> Device)", 7, 512, us(20)..us(22));
    main.launch(us(25)..us(29)).kernel("gemm<float>(float*)", 7, us(35)..us(50)).grid([4, 2, 1]);
    main.op("aten::add", us(40)..us(60));
    main.launch(us(50)..us(55)).kernel("add \"quoted\"", 7, us(62)..us(66));
    main.graph_launch(us(70)..us(80))
        .kernel("a", 7, us(82)..us(90))
        .arg("graph id", 2)
        .arg("graph node id", 0)
        .kernel("b", 7, us(90)..us(99))
        .arg("graph id", 2)
        .arg("graph node id", 1);
    t.overhead("Buffer Flush", us(120)..us(130));
    t
}

fn write(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).expect("a temporary file can be written");
}

fn read_file(path: &Path) -> Result<Loaded, ReadError> {
    let options = LoadOptions { event_args: true, ..LoadOptions::default() };
    load(&Input::named(path), options, Spread::Inline, &ByteCount::default())
}

fn read_bytes(bytes: &[u8]) -> Result<Loaded, ReadError> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("rank_0.pftrace");
    write(&path, bytes);
    read_file(&path)
}

fn loaded(packets: &[ProtoMessage]) -> Loaded {
    read_bytes(&perfetto_file(packets)).unwrap_or_else(|e| panic!("{e}"))
}

/// Category, name, start after the first row, length, correlation, stream, node of a graph.
type RowFacts = (String, String, i64, i64, [Option<i64>; 3]);

fn rows(loaded: &Loaded) -> Vec<RowFacts> {
    let c = &loaded.columns;
    let first = c.ts.iter().copied().min().unwrap_or(0);
    let fact = |at: usize| {
        let row = at as u32;
        let category = c.strings.get(c.categories[usize::from(c.cat[at])].text).to_string();
        let name = c.strings.get(c.name(at)).to_string();
        // The direction of a copy is not in torch's own file.
        let name = if category == "gpu_memcpy" { "Memcpy".to_string() } else { name };
        let numbers = [Arg::Correlation, Arg::Stream, Arg::GraphNodeId].map(|arg| c.args.int(arg, row));
        (category, name, c.ts[at] - first, c.dur[at], numbers)
    };
    let mut found: Vec<RowFacts> = (0..c.len()).map(fact).collect();
    found.sort();
    found
}

fn count(loaded: &Loaded, counter: Counter) -> u64 {
    loaded.columns.health.count(counter)
}

#[test]
fn both_kinds_of_packets_hold_the_rows_of_the_json() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("rank_0.json");
    write(&path, &job().to_bytes(&Format::default()));
    let json = rows(&read_file(&path).unwrap_or_else(|e| panic!("{e}")));
    assert_eq!(json.len(), 13);
    assert_eq!(rows(&loaded(&job().to_packets())), json);
    assert_eq!(rows(&loaded(&job().to_converted_packets())), json);
}

#[test]
fn what_is_read_does_not_depend_on_the_blocks() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("rank_0.pftrace");
    write(&path, &perfetto_file(&job().to_packets()));
    let whole = rows(&read_file(&path).unwrap_or_else(|e| panic!("{e}")));
    for block in [1, 7, 100, 4096] {
        let chunks = Chunks { block, ..Chunks::default() };
        let options = LoadOptions { event_args: true, ..LoadOptions::default() };
        let input = Input::named(path.as_path());
        let read =
            hta::read::load::load_in_chunks(&input, options, Spread::Inline, chunks, &ByteCount::default());
        assert_eq!(rows(&read.unwrap_or_else(|e| panic!("{e}"))), whole, "{block}");
    }
}

/// A packet of one field.
fn packet(field: u32, content: &ProtoMessage) -> ProtoMessage {
    ProtoMessage::new().int(8, 1_000).message(field, content)
}

#[test]
fn traces_of_other_programs_are_refused_by_name() {
    let nothing = ProtoMessage::new();
    let browser = ProtoMessage::new().int(9, 1).int(11, 5).text(22, "toplevel").text(23, "Run");
    let rocm = ProtoMessage::new().int(9, 1).int(11, 5).text(22, "kernel_dispatch").text(23, "gemm");
    let render = ProtoMessage::new().int(14, 1);
    let specification = ProtoMessage::new().int(1, 1).text(2, "Vertex");
    let names = ProtoMessage::new().message(24, &specification);
    let cases = [
        (vec![packet(1, &nothing)], "a Perfetto trace of Android or Linux"),
        (vec![packet(2, &nothing)], "a Perfetto trace of Android or Linux"),
        (vec![packet(33, &nothing), packet(45, &nothing)], "a Perfetto trace of Android or Linux"),
        (
            vec![packet(33, &nothing), packet(45, &nothing), packet(11, &rocm)],
            "a trace of rocprofv3 or ROCm Systems Profiler",
        ),
        (vec![packet(51, &nothing)], "a Perfetto trace of Chrome"),
        (vec![packet(66, &nothing)], "a heap or CPU profile of Perfetto"),
        (vec![packet(12, &names), packet(53, &render)], "GPU render stages of a graphics driver"),
        (vec![packet(11, &browser)], "TrackEvents of another program (of the category `toplevel`)"),
        (
            vec![packet(50, &ProtoMessage::new().text(1, "x"))],
            "a Perfetto trace whose packets are compressed inside",
        ),
    ];
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (packets, what) in cases {
        let path = folder.path().join("other.pftrace");
        write(&path, &perfetto_file(&packets));
        let run = hta(&["analyze", "--out", "unused"], &[&path]);
        let said = String::from_utf8_lossy(&run.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(what) && said.contains("hint: "), "{what}: {said}");
        assert_eq!(run.status.code(), Some(2), "{what}");
    }
}

/// What is said of a file.
fn said_of(packets: &[ProtoMessage]) -> String {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("other.pftrace");
    write(&path, &perfetto_file(packets));
    let run = hta(&["kernels"], &[&path]);
    let said = [run.stdout, run.stderr].concat();
    String::from_utf8_lossy(&said).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn categories_that_others_have_too_make_no_trace_of_torch() {
    let event = |category: &str, track: i64| {
        let begin = ProtoMessage::new().int(9, 1).int(11, track).text(22, category).text(23, "work");
        ProtoMessage::new().int(8, 5).int(10, 1001).message(11, &begin)
    };
    let track =
        |name: &str| ProtoMessage::new().message(60, &ProtoMessage::new().int(1, 7).text(2, name).int(5, 1));
    let process = ProtoMessage::new().int(1, 1).message(3, &ProtoMessage::new().int(1, 1).text(6, "python"));
    let process = ProtoMessage::new().message(60, &process);
    for category in ["kernel", "runtime", "python", "trace", "Trace", "operator", "memset", "overhead"] {
        let said = said_of(&[process.clone(), track("worker"), event(category, 7)]);
        assert!(said.contains("TrackEvents of another program"), "{category}: {said}");
    }
    // On streams as a converter names them, kernels alone are torch's.
    let said = said_of(&[process.clone(), track("stream 7"), event("kernel", 7), event("kernel", 7)]);
    assert!(!said.contains("another program"), "{said}");
    // Fields of another program come before the categories.
    let names = ProtoMessage::new().message(1, &ProtoMessage::new().int(1, 1).text(2, "cuda_runtime"));
    let said = said_of(&[packet(1, &ProtoMessage::new()), packet(12, &names), event("cpu_op", 7)]);
    assert!(said.contains("a Perfetto trace of Android or Linux"), "{said}");
}

#[test]
fn damaged_traces_of_torch_are_not_called_those_of_others() {
    let whole = job().to_packets();
    let is_names = |packet: &ProtoMessage| packet.0.windows(8).any(|w| w == b"aten::mm");
    // The packet of names is missing.
    let without: Vec<ProtoMessage> = whole.iter().filter(|packet| !is_names(packet)).cloned().collect();
    let said = said_of(&without);
    assert!(said.contains("the packet of names is missing or damaged: the packet at byte"), "{said}");
    // A bit of the name of a stage is wrong.
    let mut wrong = whole.clone();
    let names = wrong.iter_mut().find(|packet| is_names(packet)).expect("the names");
    let at = names.0.windows(6).position(|w| w == b"Kernel").expect("the stage");
    names.0[at] ^= 1;
    let said = said_of(&wrong);
    assert!(!said.contains("found"), "{said}");
    // Wrong lengths of the first packets.
    for packets in [job().to_packets(), job().to_converted_packets()] {
        let bytes = perfetto_file(&packets);
        let mut starts = vec![0];
        for packet in packets.iter().take(6) {
            starts.push(starts.last().unwrap_or(&0) + packet.0.len() + 2);
        }
        for start in starts.into_iter().skip(1).take(5).filter(|start| bytes[start + 1] < 0x80) {
            for length in [1, 5, 60, 100] {
                let mut damaged = bytes.clone();
                damaged[start + 1] = length;
                if let Err(error) = read_bytes(&damaged) {
                    assert!(!error.is_other_format(), "{start} {length}: {error}");
                }
            }
        }
    }
}

#[test]
fn each_sequence_has_names_of_its_own() {
    let whole = rows(&loaded(&job().to_packets()));
    for (sequence, flags) in [(2001, 1), (2001, 0), (7, 1)] {
        let entry = |text: &str| ProtoMessage::new().int(1, 1).text(2, text);
        let names = ProtoMessage::new().message(1, &entry("other")).message(2, &entry("other"));
        let other = ProtoMessage::new().int(10, sequence).int(13, flags).message(12, &names);
        let mut packets = job().to_packets();
        let at = packets.iter().rposition(|packet| packet.0.windows(8).any(|w| w == b"aten::mm"));
        packets.insert(at.expect("the names") + 1, other);
        assert_eq!(rows(&loaded(&packets)), whole, "{sequence}");
    }
}

#[test]
fn empty_packets_at_the_beginning_hide_nothing() {
    let bytes = [vec![0x0a, 0, 0x0a, 0], perfetto_file(&job().to_packets())].concat();
    let read = read_bytes(&bytes).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(rows(&read), rows(&loaded(&job().to_packets())));
}

#[test]
fn a_file_that_is_cut_keeps_its_whole_packets() {
    let bytes = perfetto_file(&job().to_packets());
    let whole = loaded(&job().to_packets());
    let mut last = 0;
    for end in (0..bytes.len()).step_by(3) {
        let Ok(cut) = read_bytes(&bytes[..end]) else { continue };
        assert!(cut.columns.len() >= last && cut.columns.len() <= whole.columns.len(), "{end}");
        last = cut.columns.len();
        let unfinished = cut.columns.args.column(Arg::Finished).iter().filter(|(_, is)| *is == 0).count();
        assert!(cut.columns.dur.iter().all(|dur| *dur >= 0) && unfinished <= cut.columns.len(), "{end}");
    }
    // Cut behind the begins of the calls: the operators before them have ended.
    let packets = job().to_packets();
    let cut = loaded(&packets[..packets.len() - 12]);
    assert!(cut.columns.args.column(Arg::Finished).iter().any(|(_, is)| is == 0));
    let mut bytes = perfetto_file(&packets);
    bytes.pop();
    let cut = read_bytes(&bytes).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(count(&cut, Counter::Truncated), 1);
    assert_eq!(cut.columns.len(), whole.columns.len() - 1);
}

#[test]
fn what_the_file_does_not_name_is_unknown_and_counted() {
    let packets: Vec<ProtoMessage> = job()
        .to_packets()
        .into_iter()
        .filter(|packet| !packet.0.windows(8).any(|w| w == b"aten::mm"))
        .collect();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("rank_0.pftrace");
    // The first half names everything, the second has lost that.
    let mut twice = job().to_packets();
    twice.push(ProtoMessage::new().int(10, 1).int(13, 1).message(12, &ProtoMessage::new()));
    twice.extend(packets.iter().skip(4).cloned());
    write(&path, &perfetto_file(&twice));
    let read = read_file(&path).unwrap_or_else(|e| panic!("{e}"));
    let unknown =
        (0..read.columns.len()).filter(|at| read.columns.strings.get(read.columns.name(*at)) == "[unknown]");
    assert!(unknown.count() > 0 && count(&read, Counter::NameNotInterned) > 0);
}

#[test]
fn packets_that_the_recorder_dropped_are_counted() {
    let mut packets = job().to_packets();
    packets.push(ProtoMessage::new().int(42, 1));
    assert_eq!(count(&loaded(&packets), Counter::PacketsDropped), 1);
}

#[test]
fn reading_goes_on_behind_a_wrong_length() {
    let packets = job().to_packets();
    let whole = loaded(&packets).columns.len();
    let before: usize = perfetto_file(&packets[..packets.len() - 3]).len();
    let bytes = perfetto_file(&packets);
    for length in [0, 1, 90, 127] {
        let mut damaged = bytes.clone();
        damaged[before + 1] = length;
        let read = read_bytes(&damaged).unwrap_or_else(|e| panic!("{e}"));
        assert!(count(&read, Counter::PacketDamaged) > 0, "{length}");
        assert!(read.columns.len() + 3 >= whole, "{length}: {} of {whole}", read.columns.len());
    }
    // 2 GB are no packet.
    let mut damaged = bytes[..before].to_vec();
    damaged.extend([0x0a, 0xff, 0xff, 0xff, 0xff, 0x07, 1, 2, 3]);
    let Err(error) = read_bytes(&damaged) else { panic!("a packet of 2 GB") };
    assert!(error.to_string().contains("the packet at byte"), "{error}");
}

#[test]
fn no_cut_and_no_flipped_byte_stops_the_program() {
    for packets in [job().to_packets(), job().to_converted_packets()] {
        let bytes = perfetto_file(&packets);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("rank_0.pftrace");
        let mut read = 0;
        for at in (0..bytes.len()).step_by(3) {
            let mut damaged = bytes.clone();
            damaged[at] ^= if at % 2 == 0 { 0xff } else { 0x01 << (at % 8) };
            write(&path, &damaged);
            read += usize::from(read_file(&path).is_ok());
            write(&path, &bytes[..at]);
            let _ = read_file(&path);
        }
        assert!(read * 30 > bytes.len() * 9, "{read} of {}", bytes.len());
    }
}

/// Two runs, which a converter has merged: process 0 and process 1, with the same correlations.
fn merged() -> Vec<ProtoMessage> {
    let mut packets = Vec::new();
    for (run, name) in [(1, "before"), (2, "after")] {
        let process = ProtoMessage::new().int(1, run - 1).text(6, name);
        packets.push(ProtoMessage::new().int(1, run).message(3, &process));
        for (row, name) in [(0, "thread 4711 (python)"), (1, "stream 7")] {
            packets.push(ProtoMessage::new().int(1, 10 * run + row).text(2, name).int(5, run));
        }
    }
    let mut packets: Vec<ProtoMessage> =
        packets.iter().map(|track| ProtoMessage::new().int(8, 0).message(60, track)).collect();
    let number = |key: &str, value: i64| ProtoMessage::new().int(4, value).text(10, key);
    let event =
        |ts: i64, event: ProtoMessage| ProtoMessage::new().int(8, ts).int(10, 1001).message(11, &event);
    for (run, length) in [(1, 5_000), (2, 3_000)] {
        let begin = |category: &str, name: &str| {
            ProtoMessage::new()
                .message(4, &number("correlation", 3))
                .int(9, 1)
                .text(22, category)
                .text(23, name)
        };
        let kernel =
            begin("kernel", "gemm").message(4, &number("device", 0)).message(4, &number("stream", 7));
        let added = ProtoMessage::new().int(2, 1).text(10, "transformer_nuggets.graph_annotation");
        let added = begin("gpu_user_annotation", "a box").message(4, &added);
        let end = |track: i64| ProtoMessage::new().int(9, 2).int(11, track);
        packets.push(event(1_000, begin("cuda_runtime", "cudaLaunchKernel").int(11, 10 * run)));
        packets.push(event(2_000, end(10 * run)));
        packets.push(event(4_000, added.int(11, 10 * run + 1)));
        packets.push(event(4_000, kernel.int(11, 10 * run + 1)));
        packets.push(event(4_000 + length, end(10 * run + 1)));
        packets.push(event(4_000 + length, end(10 * run + 1)));
    }
    packets
}

/// The first run has more threads than are kept to tell runs apart. Alone it is read; with a second run
/// behind it the file is refused, because the correlations of the two repeat.
#[test]
fn runs_with_too_many_tracks_to_be_told_apart_are_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let thread =
        |i: i64| ProtoMessage::new().int(1, 1_000 + i).text(2, &format!("thread {i} (python)")).int(5, 1);
    let threads = (0..150_000).map(|i| ProtoMessage::new().int(8, 0).message(60, &thread(i)));
    let run = |packets: &[ProtoMessage]| {
        let (first, others) = packets.split_at(3);
        first.iter().cloned().chain(threads.clone()).chain(others.iter().cloned()).collect::<Vec<_>>()
    };
    let path = folder.path().join("runs.pftrace");
    write(&path, &perfetto_file(&run(&merged())));
    let answer = hta(&["inputs"], &[&path]);
    let said =
        String::from_utf8_lossy(&answer.stdout).into_owned() + &String::from_utf8_lossy(&answer.stderr);
    assert!(said.contains("several runs with more than 33.6 MB of tracks"), "{said}");
    // The first run alone: its three tracks and six events.
    let merged = merged();
    let alone: Vec<ProtoMessage> = merged[..3].iter().chain(&merged[6..12]).cloned().collect();
    write(&path, &perfetto_file(&run(&alone)));
    let inputs = discover(&[path.as_path()]).expect("the file is there");
    let read = load(&inputs[0], LoadOptions::default(), Spread::Inline, &ByteCount::default());
    assert_eq!(rows(&read.unwrap_or_else(|e| panic!("{e}"))).len(), 2);
}

#[test]
fn runs_that_were_merged_are_captures_of_their_own() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("runs.pftrace");
    write(&path, &perfetto_file(&merged()));
    let inputs = discover(&[path.as_path()]).expect("the file is there");
    let shown: Vec<String> =
        inputs.iter().map(|i| i.shown.rsplit('/').next().unwrap_or_default().to_string()).collect();
    assert_eq!(shown, ["runs.pftrace (before)", "runs.pftrace (after)"]);
    for (input, length) in inputs.iter().zip([5_000, 3_000]) {
        let read = load(input, LoadOptions::default(), Spread::Inline, &ByteCount::default());
        let read = read.unwrap_or_else(|e| panic!("{e}"));
        let kernels: Vec<RowFacts> = rows(&read).into_iter().filter(|row| row.0 == "kernel").collect();
        assert_eq!((kernels.len(), kernels[0].3, rows(&read).len()), (1, length, 2));
        assert_eq!(count(&read, Counter::ConverterRows), 1);
        let trace = read.into_trace(
            0,
            hta::trace::meta::RankSource::Process,
            String::new(),
            &hta::trace::rank_trace::ModelOptions::default(),
        );
        assert!(trace.activities.iter().all(|a| a.launch().is_some() && a.device() == Some(0)));
    }
    // Each is named as in messages.
    let one = discover(&[folder.path().join("runs.pftrace (after)")]).expect("a part of the file");
    assert_eq!(one.len(), 1);
    let run = hta(&["inputs"], &[&path]);
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(said.contains("process") && said.contains("(after)"), "{said}");
}

/// A folder with the JSON of ranks 0 and 1.
fn of_two_ranks() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for rank in 0..2 {
        let json = job().rank(rank).to_bytes(&Format::default());
        write(&folder.path().join(format!("rank_{rank}.json")), &json);
    }
    folder
}

#[test]
fn beside_json_a_name_must_give_the_rank() {
    let folder = of_two_ranks();
    write(&folder.path().join("capture.pftrace"), &perfetto_file(&job().to_packets()));
    for command in ["inputs", "breakdown"] {
        let run = hta(&[command], &[folder.path()]);
        let said = [run.stdout, run.stderr].map(|b| String::from_utf8_lossy(&b).into_owned()).join("\n");
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains("capture.pftrace: expected a name with its rank"), "{said}");
        assert!(!said.contains("2 capture.pftrace") && run.status.code() == Some(1), "{said}");
    }
    std::fs::rename(folder.path().join("capture.pftrace"), folder.path().join("rank_2.pftrace"))
        .expect("a file of another name");
    has_ranks(folder.path(), 3);
}

/// So many files of a folder are ranks, and no other is a loss.
fn has_ranks(folder: &Path, ranks: usize) {
    let run = hta(&["inputs"], &[folder]);
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(said.contains(&format!("{ranks} ranks")) && run.status.code() == Some(0), "{said}");
}

#[test]
fn a_name_gives_a_rank_whatever_else_lies_beside() {
    let packets = perfetto_file(&job().to_packets());
    // The number at the end is the rank, because the names differ in nothing else.
    for (other, bytes) in [("run_0.pftrace", &packets[..]), ("config.json", b"{\"steps\": 3}")] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let write = |name: &str, bytes: &[u8]| write(&folder.path().join(name), bytes);
        write("run_0.json", &job().to_bytes(&Format::default()));
        write("run_1.pftrace", &packets);
        write(other, bytes);
        has_ranks(folder.path(), 2);
    }
}

#[test]
fn where_no_file_has_a_rank_all_are_numbered() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut bare = TraceBuilder::new();
    let mut main = bare.thread(1000);
    main.launch(us(25)..us(29)).kernel("gemm<float>(float*)", 7, us(35)..us(50));
    write(&folder.path().join("before.json"), &bare.to_bytes(&Format::default()));
    write(&folder.path().join("after.pftrace"), &perfetto_file(&job().to_packets()));
    has_ranks(folder.path(), 2);
}

#[test]
fn beside_json_of_the_same_name_the_json_is_read() {
    let folder = of_two_ranks();
    for rank in 0..2 {
        write(&folder.path().join(format!("rank_{rank}.pftrace")), &perfetto_file(&job().to_packets()));
    }
    let run = hta(&["inputs"], &[folder.path()]);
    let said = String::from_utf8_lossy(&run.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(said.matches("found that of the JSON file beside it").count(), 2, "{said}");
    assert!(said.contains("2 ranks") && run.status.code() == Some(0), "{said}");
    // Alone each is read, and its name gives its rank.
    for rank in 0..2 {
        std::fs::remove_file(folder.path().join(format!("rank_{rank}.json"))).expect("the file is there");
    }
    let run = hta(&["inputs"], &[folder.path()]);
    let said = String::from_utf8_lossy(&run.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("1 name") && said.contains("2 ranks") && !said.contains("beside"), "{said}");
}

/// ```text
///   stream 7    gemm [20........60)          one rank
///   stream 20          all_reduce [40....80)
/// ```
#[test]
fn beside_numbers_on_overlap_stands_what_a_pftrace_does_not_record() {
    let name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
    let mut t = TraceBuilder::new().rank(0).device("NVIDIA H100", 132);
    let mut main = t.thread(1000);
    main.annotation("ProfilerStep#0", us(0)..us(100));
    main.launch(us(10)..us(12)).kernel("gemm<float>(float*)", 7, us(20)..us(60));
    main.launch(us(14)..us(16)).kernel(name, 20, us(40)..us(80));
    let said = |bytes: &[u8], file: &str| -> Vec<usize> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join(file);
        write(&path, bytes);
        let answer = answer(&[path], &options());
        // What one stream runs beside another is known all the same.
        let overlap = answer.rows_where("overlap", |r| r.text("scope") == "span");
        assert_eq!(overlap[0].int("overlap_ns"), us(20), "{file}");
        let is_it = |note: &&String| note.starts_with("overlap inside a stream is not recorded");
        let of = |stem| answer.notes(stem).iter().filter(is_it).count();
        ["overlap", "breakdown", "diagnosis", "idle"].map(of).to_vec()
    };
    assert_eq!(said(&perfetto_file(&t.to_packets()), "rank_0.pftrace"), [1, 1, 1, 0]);
    assert_eq!(said(&perfetto_file(&t.to_converted_packets()), "rank_0.pftrace"), [0; 4]);
    assert_eq!(said(&t.to_bytes(&Format::default()), "rank_0.json"), [0; 4]);
}

#[test]
fn a_run_without_threads_is_a_capture_of_its_own() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("runs.pftrace");
    let is_thread = |packet: &ProtoMessage| {
        let thread = ProtoMessage::new().int(1, 20).text(2, "thread 4711 (python)").int(5, 2);
        *packet == ProtoMessage::new().int(8, 0).message(60, &thread)
    };
    let packets: Vec<ProtoMessage> = merged().into_iter().filter(|packet| !is_thread(packet)).collect();
    assert_eq!(packets.len() + 1, merged().len());
    write(&path, &perfetto_file(&packets));
    let inputs = discover(&[path.as_path()]).expect("the file is there");
    assert_eq!(inputs.len(), 2);
    // A device of a program that has a process of its own is none.
    let path = folder.path().join("one.pftrace");
    write(&path, &perfetto_file(&job().to_converted_packets()));
    assert_eq!(discover(&[path.as_path()]).expect("the file is there").len(), 1);
}

#[test]
fn json_that_is_no_trace_hides_no_trace_of_its_name() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write(&folder.path().join("run.json"), b"{\"lr\": 0.1}");
    write(&folder.path().join("run.pftrace"), &perfetto_file(&job().to_packets()));
    let run = hta(&["kernels"], &[folder.path()]);
    let said = String::from_utf8_lossy(&[run.stdout, run.stderr].concat()).into_owned();
    assert!(said.contains("gemm") && run.status.code() == Some(0), "{said}");
}

#[test]
fn own_traces_whose_names_give_no_rank_are_processes() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let said = |names: [&str; 2]| {
        for name in names {
            write(&folder.path().join(name), &perfetto_file(&job().to_packets()));
        }
        let paths = names.map(|name| folder.path().join(name));
        let run = hta(&["inputs"], &[paths[0].as_path(), paths[1].as_path()]);
        String::from_utf8_lossy(&run.stdout).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let apart = said(["foo.pftrace", "bar.pftrace"]);
    assert!(apart.contains("0 process") && apart.contains("1 process"), "{apart}");
    let job = said(["rank_0.pftrace", "rank_1.pftrace"]);
    assert!(job.contains("0 name") && job.contains("1 name"), "{job}");
}
