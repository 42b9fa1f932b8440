//! Databases of nvprof: small ones that can be checked by eye, and damage.

use crate::run::{Answer, answer, options, rank_trace};
use hta::read::discover::discover;
use hta::read::load::load;
use hta::read::options::LoadOptions;
use hta::read::reading::Spread;
use hta::read::source::ByteCount;
use hta::trace::args::Arg;
use hta::trace::strings::StrId;
use rusqlite::Connection;
use std::path::{Path, PathBuf};

/// Start of the recording, ns after 1970.
const T: i64 = 1_583_978_808_000_000_000;

/// Threads whose numbers do not fit 31 bits, as nvprof writes them in markers.
const MAIN: i64 = 3_940_300_608;
const AUTOGRAD: i64 = 3_000_000_000;

/// The same thread as nvprof writes it in calls.
fn signed(thread: i64) -> i64 {
    thread - (1 << 32)
}

/// A database in the making.
struct Made {
    path: PathBuf,
    db: Connection,
    texts: i64,
}

impl Made {
    fn new(path: &Path) -> Self {
        let db = Connection::open(path).expect("a new file");
        let gpu = "start INT, end INT, deviceId INT, contextId INT, streamId INT, correlationId INT";
        let kernel = format!(
            "{gpu}, name INT, gridX INT, gridY INT, gridZ INT, blockX INT, blockY INT, blockZ INT,
             registersPerThread INT, staticSharedMemory INT, dynamicSharedMemory INT"
        );
        let call = "cbid INT, start INT, end INT, processId INT, threadId INT, correlationId INT";
        let tables = [
            ("CONCURRENT_KERNEL", kernel.as_str()),
            ("KERNEL", &kernel),
            ("MEMCPY", &format!("{gpu}, copyKind INT, srcKind INT, dstKind INT, bytes INT")),
            (
                "MEMCPY2",
                &format!(
                    "{gpu}, copyKind INT, srcKind INT, dstKind INT, bytes INT, srcDeviceId INT, dstDeviceId INT"
                ),
            ),
            ("MEMSET", &format!("{gpu}, value INT, bytes INT, memoryKind INT")),
            ("RUNTIME", call),
            ("DRIVER", call),
            (
                "SYNCHRONIZATION",
                "type INT, start INT, end INT, correlationId INT, contextId INT, streamId INT, cudaEventId INT",
            ),
            ("OVERHEAD", "overheadKind INT, objectKind INT, objectId BLOB, start INT, end INT"),
            (
                "MARKER",
                "flags INT, timestamp INT, id INT, objectKind INT, objectId BLOB, name INT, domain INT",
            ),
            ("CONTEXT", "contextId INT, deviceId INT"),
            ("DEVICE", "id INT, name INT, numMultiprocessors INT"),
            ("PCIE", "type INT"),
        ];
        let mut made =
            "CREATE TABLE StringTable (_id_ INTEGER PRIMARY KEY, value TEXT); CREATE TABLE Version (version INT);
             INSERT INTO Version VALUES (12);"
                .to_string();
        for (name, columns) in tables {
            made +=
                &format!("CREATE TABLE CUPTI_ACTIVITY_KIND_{name} (_id_ INTEGER PRIMARY KEY, {columns});");
        }
        db.execute_batch(&made).expect("tables can be made");
        Self { path: path.to_path_buf(), db, texts: 0 }
    }

    fn add(&mut self, table: &str, columns: &str, values: &str) -> &mut Self {
        let insert = format!("INSERT INTO CUPTI_ACTIVITY_KIND_{table} ({columns}) VALUES ({values})");
        self.db.execute(&insert, ()).unwrap_or_else(|e| panic!("{insert}: {e}"));
        self
    }

    fn string(&mut self, text: &str) -> i64 {
        self.texts += 1;
        self.db
            .execute("INSERT INTO StringTable VALUES (?, ?)", (self.texts, text))
            .expect("a text can be added");
        self.texts
    }

    /// A kernel on stream 7 with its launch by a thread, at times after the start.
    fn kernel(&mut self, name: &str, thread: i64, launch: [i64; 2], [start, end]: [i64; 2]) -> &mut Self {
        let name = self.string(name);
        let correlation = launch[0] + 1;
        self.call("RUNTIME", 211, thread, launch, correlation);
        let (start, end) = (T + start, T + end);
        let values = format!("{start}, {end}, 0, 1, 7, {correlation}, {name}, 4, 1, 1, 128, 1, 1, 32, 8, 16");
        let columns = "start, end, deviceId, contextId, streamId, correlationId, name, gridX, gridY, gridZ, blockX, blockY, \
             blockZ, registersPerThread, staticSharedMemory, dynamicSharedMemory";
        self.add("CONCURRENT_KERNEL", columns, &values)
    }

    fn call(
        &mut self,
        table: &str,
        cbid: i64,
        thread: i64,
        [start, end]: [i64; 2],
        correlation: i64,
    ) -> &mut Self {
        let values = format!("{cbid}, {}, {}, 77, {}, {correlation}", T + start, T + end, signed(thread));
        self.add(table, "cbid, start, end, processId, threadId, correlationId", &values)
    }

    /// Start (flags 2), end (4) or instant (1) of a range.
    fn mark(&mut self, flags: i64, id: i64, thread: i64, at: i64, text: &str) -> &mut Self {
        let name = self.string(text);
        let object: Vec<u8> = [&77i32.to_le_bytes()[..], &thread.to_le_bytes()[..]].concat();
        let insert = "INSERT INTO CUPTI_ACTIVITY_KIND_MARKER
            (flags, timestamp, id, objectKind, objectId, name, domain) VALUES (?, ?, ?, 2, ?, ?, 0)";
        self.db.execute(insert, (flags, T + at, id, object, name)).expect("a marker can be added");
        self
    }

    fn range(&mut self, id: i64, thread: i64, [start, end]: [i64; 2], text: &str) -> &mut Self {
        self.mark(2, id, thread, start, text).mark(4, id, thread, end, "")
    }

    fn answer(&self) -> Answer {
        answer(std::slice::from_ref(&self.path), &options())
    }

    /// The events of a category, or all, in order of start.
    fn events(&self, category: &str) -> Vec<Event> {
        let inputs = discover(std::slice::from_ref(&self.path)).expect("the file is there");
        let how = LoadOptions { event_args: true, ..LoadOptions::default() };
        let loaded =
            load(&inputs[0], how, Spread::Inline, &ByteCount::default()).unwrap_or_else(|e| panic!("{e}"));
        let c = &loaded.columns;
        let text = |id: StrId| c.strings.get(id).to_string();
        let event = |row: usize| Event {
            category: text(c.categories[usize::from(c.cat[row])].text),
            name: text(c.name(row)),
            ns: [c.ts[row] - T, c.dur[row]],
            dims: c.args.text(Arg::InputDims, row as u32).map(text),
            stack: c.args.text(Arg::CallStack, row as u32).map(text),
            forward_thread: c.args.int(Arg::FwdThread, row as u32),
        };
        let mut events: Vec<Event> = (0..c.len()).map(event).collect();
        events.retain(|e| category.is_empty() || e.category == category);
        events.sort_by_key(|e| e.ns[0]);
        events
    }
}

struct Event {
    category: String,
    name: String,
    /// Start and length.
    ns: [i64; 2],
    dims: Option<String>,
    stack: Option<String>,
    forward_thread: Option<i64>,
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn count(answer: &Answer, counter: &str) -> i64 {
    answer.rows_where("health", |r| r.text("counter") == counter).iter().map(|r| r.int("count")).sum()
}

/// Name, operator and length of each kernel.
fn kernels(answer: &Answer) -> Vec<(String, String, i64)> {
    let rows = answer.rows("kernels");
    rows.iter().map(|r| (r.text("name").to_string(), r.text("op").to_string(), r.int("dur_ns"))).collect()
}

/// A product that PyProf marked, its gradient on the thread of autograd, and what autograd adds up on its own.
///
/// ```text
///   main      {traceMarker} [0..............................60)
///               {mod: torch, op: mm} [5....................55)
///                 mm, seq = 3          [10.............50)
///                   launch               [20.30)
///   autograd                                  MmBackward, seq = 3 [70........90)  add_, seq = 0 [92.....98)
///                                               mm, seq = 0        [72....88)
///                                                 launch             [75.80)        launch       [94.96)
///   gpu 0                   gemm [100......140)   gradient [150.200)                add [210.220)
/// ```
fn product(path: &Path) -> Made {
    let mut made = Made::new(path);
    let mm = "{'mod': 'torch', 'op': 'mm', 'args': [\
        {'name': '', 'type': 'tensor', 'shape': (2, 3), 'dtype': 'float32'}, \
        {'name': '', 'type': 'tensor', 'shape': (3, 4), 'dtype': 'float32'}]}";
    made.range(1, MAIN, [0, 60], "{'traceMarker': ['main.py:3', 'model.py:9']}")
        .range(2, MAIN, [5, 55], mm)
        .range(3, MAIN, [10, 50], "mm, seq = 3")
        .range(4, AUTOGRAD, [70, 90], "MmBackward, seq = 3")
        .range(5, AUTOGRAD, [72, 88], "mm, seq = 0")
        .range(6, AUTOGRAD, [92, 98], "add_, seq = 0")
        .kernel("_Z4gemmPfi", MAIN, [20, 30], [100, 140])
        .kernel("gradient", AUTOGRAD, [75, 80], [150, 200])
        .kernel("add", AUTOGRAD, [94, 96], [210, 220]);
    made
}

#[test]
fn markers_are_ranges_around_the_launches_of_threads_with_negative_numbers() {
    let folder = folder();
    let made = product(&folder.path().join("rank_5.nvprof"));
    let before = std::fs::read(&made.path).expect("the file is there");
    let answer = made.answer();
    let named = |name: &str, op: &str, ns: i64| (name.to_string(), op.to_string(), ns);
    let expected = [
        named("gemm(float*, int)", "aten::mm", 40),
        named("gradient", "aten::mm", 50),
        named("add", "aten::add_", 10),
    ];
    assert_eq!(kernels(&answer), expected);
    let ranks = answer.rows("ranks");
    assert_eq!(ranks.iter().map(|r| r.int("rank")).collect::<Vec<_>>(), [5]);
    // Five operators and their launches; the marker of the stack is no row of its own.
    let ops: Vec<_> = made.events("cpu_op").iter().map(|e| (e.name.clone(), e.ns[1])).collect();
    let op = |name: &str, ns: i64| (name.to_string(), ns);
    let all = [
        op("torch.mm", 50),
        op("aten::mm", 40),
        op("MmBackward", 20),
        op("aten::mm", 16),
        op("aten::add_", 6),
    ];
    assert_eq!(ops, all);
    assert_eq!(count(&answer, "nvprof_marker_unpaired") + count(&answer, "pyprof_marker_damaged"), 0);
    assert_eq!(std::fs::read(&made.path).expect("the file is there"), before);
}

#[test]
fn marked_calls_give_shapes_work_stack_and_direction() {
    let folder = folder();
    let made = product(&folder.path().join("one.sql"));
    let rows = made.events("cpu_op");
    let shown: Vec<_> = rows.iter().map(|e| (e.dims.as_deref(), e.forward_thread)).collect();
    let expected =
        [(Some("[[2,3],[3,4]]"), None), (None, None), (None, Some(1)), (None, None), (None, Some(1))];
    assert_eq!(shown, expected);
    let stack = Some("model.py:9;main.py:3");
    assert_eq!(rows.iter().map(|e| e.stack.as_deref()).collect::<Vec<_>>(), [stack, stack, None, None, None]);
    let printed = |more: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_hta"));
        command.arg("pyprof").arg(&made.path).args(["--csv", "--cols"]).args(more);
        String::from_utf8(command.output().expect("hta runs").stdout).expect("text")
    };
    let own = printed(&["mod,op,dir,seq,altseq,flops,trace"]);
    let lines: Vec<&str> = own.lines().skip(1).collect();
    // 2 x 2 x 3 x 4 operations, also for the gradient of one of both factors.
    let expected = [
        r#""aten","mm","fprop","3","na","48","model.py:9;main.py:3""#,
        r#""aten","mm","bprop","na","3","48","model.py:9;main.py:3""#,
        r#""aten","add_","bprop","na","na","na","na""#,
    ];
    assert_eq!(lines, expected);
    let theirs = printed(&["mod,op,dir,tc", "--labels", "pyprof"]);
    let lines: Vec<&str> = theirs.lines().skip(1).collect();
    assert_eq!(lines[2], r#""na","add_","fprop","na""#);
    assert!(
        lines[0].starts_with(r#""torch","mm","fprop""#) && lines[1].starts_with(r#""torch","mm","bprop""#),
        "{theirs}"
    );
}

#[test]
fn unknown_calls_copies_waits_and_overhead_have_names() {
    let folder = folder();
    let mut made = Made::new(&folder.path().join("one.nvvp"));
    let copy = "start, end, deviceId, contextId, streamId, correlationId, copyKind, srcKind, dstKind, bytes";
    let peer = format!("{copy}, srcDeviceId, dstDeviceId");
    let set = "start, end, deviceId, contextId, streamId, correlationId, value, bytes, memoryKind";
    let wait = "type, start, end, correlationId, contextId, streamId, cudaEventId";
    made.call("RUNTIME", 41, MAIN, [0, 5], 1)
        .call("RUNTIME", 99_999, MAIN, [6, 8], 2)
        .call("DRIVER", 307, MAIN, [8, 9], 3)
        .add("MEMCPY", copy, &format!("{}, {}, 0, 1, 7, 1, 2, 3, 1, 640", T + 10, T + 20))
        .add("MEMCPY2", &peer, &format!("{}, {}, 0, 1, 7, 1, 10, 3, 3, 64, 0, 1", T + 21, T + 24))
        .add("MEMSET", set, &format!("{}, {}, 0, 1, 7, 1, 0, 32, 3", T + 30, T + 32))
        .add("CONTEXT", "contextId, deviceId", "1, 0")
        .add("SYNCHRONIZATION", wait, &format!("3, {}, {}, 4, 1, 7, -1", T + 33, T + 35))
        .add("OVERHEAD", "overheadKind, objectKind, start, end", &format!("131072, 1, {}, {}", T + 1, T + 2))
        .add("PCIE", "type", "0")
        .mark(1, 9, MAIN, 3, "now");
    let answer = made.answer();
    let rows = made.events("");
    let named: Vec<(&str, &str)> = rows.iter().map(|e| (e.category.as_str(), e.name.as_str())).collect();
    let expected = [
        ("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)"),
        ("gpu_memcpy", "Memcpy PtoP (Device -> Device)"),
        ("gpu_memset", "Memset (Device)"),
        ("cuda_sync", "Stream Sync"),
        ("cuda_runtime", "cudaMemcpyAsync"),
        ("cuda_runtime", "cbid 99999"),
        ("cuda_driver", "cuLaunchKernel"),
        ("overhead", "Instrumentation"),
    ];
    for row in expected {
        assert!(named.contains(&row), "{row:?} in {named:?}");
    }
    assert_eq!(named.len(), expected.len());
    assert_eq!(count(&answer, "nvprof_call_unnamed"), 1);
    // One row of a table that is not read, and one instant.
    assert_eq!(count(&answer, "sqlite_table_ignored"), 2);
    let busy = answer.rows_where("temporal_breakdown", |r| r.text("scope") == "span");
    assert_eq!(busy.iter().map(|r| r.int("busy_ns")).collect::<Vec<_>>(), [10 + 3 + 2]);
}

#[test]
fn damaged_markers_are_counted_and_kept_as_annotations() {
    let folder = folder();
    let mut made = Made::new(&folder.path().join("one.sql"));
    made.kernel("gemm", MAIN, [20, 30], [100, 140])
        .range(1, MAIN, [0, 60], "{'mod': 'torch', 'op': 'mm', 'args': [{'name': '', 'ty")
        .range(2, MAIN, [5, 50], "{'step': 3}")
        .range(3, MAIN, [10, 45], "layer:head")
        // An end without a start, a start without an end, and a range that ends on another thread.
        .mark(4, 4, MAIN, 40, "")
        .mark(2, 5, MAIN, 41, "mm, seq = 9")
        .mark(2, 6, MAIN, 42, "mm, seq = 10")
        .mark(4, 6, AUTOGRAD, 43, "");
    let answer = made.answer();
    assert_eq!([count(&answer, "pyprof_marker_damaged"), count(&answer, "nvprof_marker_unpaired")], [1, 1]);
    let names: Vec<String> = made.events("user_annotation").into_iter().map(|e| e.name).collect();
    let damaged = "{'mod': 'torch', 'op': 'mm', 'args': [{'name': '', 'ty";
    assert_eq!(names, [damaged, "{'step': 3}", "layer:head", "mm, seq = 10"]);
    // What is open ends with the last recorded work.
    let open: Vec<_> = made.events("cpu_op").iter().map(|e| (e.name.clone(), e.ns[1])).collect();
    assert_eq!(open, [("aten::mm".to_string(), 140 - 41)]);
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_hta"));
    command.arg("pyprof").arg(&made.path).args(["--csv", "--cols", "layer"]);
    let layer = String::from_utf8(command.output().expect("hta runs").stdout).expect("text");
    assert_eq!(layer.lines().nth(1), Some(r#""head""#));
}

#[test]
fn folders_take_databases_of_recorders_by_what_they_hold() {
    let folder = folder();
    for name in ["a.nvvp", "b.sql", "c.nvprof"] {
        Made::new(&folder.path().join(name)).kernel("gemm", MAIN, [20, 30], [100, 140]);
    }
    Made::new(&folder.path().join("empty.sqlite"));
    std::fs::write(folder.path().join("dump.sql"), "CREATE TABLE a (b INT);").expect("a file can be written");
    std::fs::write(folder.path().join("session.nvvp"), "<?xml version='1.0'?><session/>").expect("a file");
    let other = Connection::open(folder.path().join("songs.sql")).expect("a new file");
    other.execute_batch("CREATE TABLE songs (a INT)").expect("a table can be made");
    let found = discover(&[folder.path().to_path_buf()]).expect("files are there");
    let names: Vec<String> =
        found.iter().filter_map(|i| Some(i.path.file_name()?.to_string_lossy().into_owned())).collect();
    assert_eq!(names, ["a.nvvp", "b.sql", "c.nvprof", "empty.sqlite"]);
    let read = load(&found[3], LoadOptions::default(), Spread::Inline, &ByteCount::default());
    let error = read.err().map_or_else(String::new, |e| e.to_string());
    assert!(error.contains("a database of nvprof without GPU activity"), "{error}");
}

/// Two ranks exchange 24 times, in turn by an all-reduce and by messages, and end together. Each computes
/// before that, rank 1 for 6 ms, and its clock is 40 ms ahead.
fn exchanging(folder: &Path, compute: [i64; 2], swapped: bool) -> Answer {
    const MS: i64 = 1_000_000;
    let names = [
        "_Z39ncclDevKernel_AllReduce_Sum_f64_RING_LLP11ncclDevCommmP8ncclWork",
        "_Z22ncclDevKernel_SendRecvP11ncclDevCommmP8ncclWork",
    ];
    for (rank, own) in (0..).zip(compute) {
        let mut made = Made::new(&folder.join(format!("rank_{rank}.nvvp")));
        for k in 0..24i64 {
            // Not regular: the distances tell one exchange from the next.
            let at = (k * 10 + k * k % 3) * MS + 40 * MS * i64::from(rank);
            let start = at + own * MS + 20_000;
            let kind = (k + i64::from(swapped && rank == 1 && k > 10)) % 2;
            made.kernel("gemm", MAIN, [at, at + 5_000], [at + 10_000, start]);
            let end = at + (compute[0].max(compute[1]) + 1) * MS;
            made.kernel(names[kind as usize], MAIN, [at + 6_000, at + 9_000], [start + 5_000, end]);
        }
    }
    answer(&[folder.to_path_buf()], &options())
}

#[test]
fn kernels_of_collectives_pair_by_turn_where_names_and_ends_agree() {
    let folder = folder();
    let slow = exchanging(folder.path(), [3, 6], false);
    let of = |rank| slow.rows_where("collectives", |r| r.int("rank") == rank);
    let waits = |rank| of(rank).iter().map(|r| r.opt_int("wait_ns")).collect::<Vec<_>>();
    assert_eq!(waits(0), [Some(3_000_000); 24]);
    assert_eq!(waits(1), [Some(0); 24]);
    assert!(of(0).iter().all(|r| r.text("matched_by") == "inferred" && r.int("last_rank") == 1));
}

#[test]
fn ranks_that_take_as_long_are_not_late() {
    let folder = folder();
    let even = exchanging(folder.path(), [4, 4], false);
    assert!(even.rows("collectives").iter().all(|r| r.opt_int("wait_ns") == Some(0)));
    assert!(even.rows_where("findings", |r| r.text("kind") == "straggler").is_empty());
}

#[test]
fn kernels_of_collectives_in_another_order_have_no_partners() {
    let folder = folder();
    let other = exchanging(folder.path(), [3, 6], true);
    let messages = other.rows_where("collectives", |r| r.text("kind") == "send_recv");
    assert!(!messages.is_empty() && messages.iter().all(|r| r.opt_int("wait_ns").is_none()));
}

#[test]
fn a_session_of_the_visual_profiler_is_refused_by_what_it_is() {
    let folder = folder();
    let path = folder.path().join("one.nvvp");
    std::fs::write(&path, "<?xml version='1.0'?>\n<session><file/></session>")
        .expect("a file can be written");
    let inputs = discover(&[path]).expect("the file is there");
    let read = load(&inputs[0], LoadOptions::default(), Spread::Inline, &ByteCount::default());
    let error = read.err().map_or_else(String::new, |e| e.to_string());
    assert!(error.contains("a session of the Visual Profiler"), "{error}");
}

#[test]
fn a_device_has_its_properties() {
    let folder = folder();
    let mut made = Made::new(&folder.path().join("one.sql"));
    let name = made.string("Tesla V100");
    made.add("DEVICE", "id, name, numMultiprocessors", &format!("0, {name}, 80"));
    made.kernel("gemm", MAIN, [20, 30], [100, 140]);
    let trace = rank_trace(&made.path, 0);
    let device = trace.device_properties(Some(0)).expect("a device");
    assert_eq!((device.name.as_str(), device.sm_count, device.memory_bytes), ("Tesla V100", Some(80), None));
}

#[test]
fn damage_is_an_error_or_counted_and_never_a_panic() {
    let folder = folder();
    let path = folder.path().join("one.sql");
    drop(product(&path));
    let whole = std::fs::read(&path).expect("the file is there");
    let step = whole.len() / 200;
    let mut refused = 0;
    for at in (0..whole.len()).step_by(step.max(1)) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x55;
        std::fs::write(&path, &damaged).expect("the file can be written");
        let Ok(inputs) = discover(std::slice::from_ref(&path)) else { continue };
        for input in &inputs {
            let read = load(input, LoadOptions::default(), Spread::Inline, &ByteCount::default());
            refused += usize::from(read.is_err());
            if let Err(e) = read {
                assert!(e.to_string().contains("one.sql"), "{e}");
            }
        }
    }
    assert!(refused > 0);
}
