//! Databases: small exports of nsys that can be checked by eye, other databases, and damage.

use crate::run::{Answer, answer, options};
use hta::read::discover::discover;
use hta::read::load::load;
use hta::read::options::LoadOptions;
use hta::read::reading::Spread;
use hta::read::source::ByteCount;
use rusqlite::Connection;
use std::path::{Path, PathBuf};

/// Upper bits of the ids of one host.
const HOST: i64 = 3 << 48;

/// The id of a thread of a process.
pub fn id(pid: i64, thread: i64) -> i64 {
    HOST | (pid << 24) | thread
}

/// Two processes with one launch each; both have correlation 5, and device 0.
///
/// ```text
/// pid 7   aten::mm  [0.......20)   launch [5..8)     pid 9   launch [5..6)
///   gpu 0   gemm            [30.......70)              gpu 0   gemm [10.20)
/// ```
pub fn export(path: &Path) {
    let db = Connection::open(path).expect("a new file");
    let tables = "
        CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);
        INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_SCHEMA_VERSION', '3.99.0');
        CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
        INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'cudaLaunchKernel_v7000');
        CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER);
        INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1700000000000000000);
        CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER,
            correlationId INTEGER, globalPid INTEGER, shortName INTEGER);
        CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, eventClass INTEGER, globalTid INTEGER,
            correlationId INTEGER, nameId INTEGER);
        CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, globalTid INTEGER, text TEXT);
        CREATE TABLE OSRT_API (start INTEGER);
        INSERT INTO OSRT_API VALUES (1), (2);
    ";
    db.execute_batch(tables).expect("tables can be made");
    let kernel = "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, 0, 7, 5, ?, 1)";
    let call = "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, 0, ?, 5, 2)";
    let range = "INSERT INTO NVTX_EVENTS VALUES (?, ?, 59, ?, ?)";
    let rows = [
        db.execute(kernel, (30, 70, id(7, 0))),
        db.execute(kernel, (10, 20, id(9, 0))),
        db.execute(call, (5, 8, id(7, 2))),
        db.execute(call, (5, 6, id(9, 2))),
        db.execute(range, (0, 20, id(7, 2), "aten::mm, seq = 4, op_id = 11, sizes = [[4, 8], [8, 2]]")),
    ];
    assert!(rows.iter().all(Result::is_ok), "{rows:?}");
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn error(path: &Path) -> String {
    let inputs = discover(&[path.to_path_buf()]).expect("the file is there");
    let read = load(&inputs[0], LoadOptions::default(), Spread::Inline, &ByteCount::default());
    read.err().map_or_else(String::new, |e| e.to_string())
}

fn kernels(answer: &Answer) -> Vec<(i64, String, String, i64)> {
    let row = |r: &crate::run::Record| {
        (r.int("rank"), r.text("name").to_string(), r.text("op").to_string(), r.int("dur_ns"))
    };
    answer.rows("kernels").iter().map(row).collect()
}

#[test]
fn each_process_is_a_rank_with_its_own_launches() {
    let folder = folder();
    // The number in the name is that of neither process.
    let path = folder.path().join("rank_3.sqlite");
    export(&path);
    let before = std::fs::read(&path).expect("the file is there");
    for given in [path.clone(), folder.path().to_path_buf()] {
        let answer = answer(&[given], &options());
        let named = |rank: i64, op: &str, ns: i64| (rank, "gemm".to_string(), op.to_string(), ns);
        assert_eq!(kernels(&answer), [named(0, "aten::mm", 40), named(1, "", 10)]);
        let ignored = answer.rows_where("health", |r| r.text("counter") == "sqlite_table_ignored");
        assert_eq!(ignored.iter().map(|r| r.int("count")).sum::<i64>(), 4);
        let launches = answer.rows("launches");
        let calls: Vec<&str> = launches.iter().map(|r| r.text("api")).collect();
        assert_eq!(calls, ["cudaLaunchKernel", "cudaLaunchKernel"], "without the version of the API");
    }
    assert_eq!(std::fs::read(&path).expect("the file is there"), before);
    let names: Vec<PathBuf> =
        std::fs::read_dir(folder.path()).expect("a folder").map(|e| e.expect("an entry").path()).collect();
    assert_eq!(names, [path], "nothing is made beside the file");
}

#[test]
fn a_row_around_another_row_of_its_call_is_dropped_wherever_it_stands() {
    let folder = folder();
    let path = folder.path().join("old.sqlite");
    export(&path);
    let db = Connection::open(&path).expect("it is there");
    // Around the launch of process 7, around one that is recorded later, and around none.
    let call = "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, ?, ?, 2)";
    let rows = [
        (4, 9, 67, id(7, 2), 5),
        (80, 89, 67, id(7, 2), 6),
        (81, 88, 0, id(7, 2), 6),
        (90, 95, 67, id(9, 2), 6),
    ];
    let added: Vec<_> = rows.into_iter().map(|row| db.execute(call, row)).collect();
    assert!(added.iter().all(Result::is_ok), "{added:?}");
    db.execute("INSERT INTO NVTX_EVENTS VALUES (0, NULL, 39, ?, 'MPI Rank 5')", [id(9, 2)]).expect("a row");
    let answer = answer(std::slice::from_ref(&path), &options());
    let twice = answer.rows_where("health", |r| r.text("counter") == "nsys_api_twice");
    assert_eq!(twice.iter().map(|r| (r.int("rank"), r.int("count"))).collect::<Vec<_>>(), [(0, 2)]);
    assert_eq!(kernels(&answer).iter().map(|k| k.0).collect::<Vec<_>>(), [0, 5], "MPI names the rank");
}

#[test]
fn other_databases_are_refused_by_what_they_hold() {
    let folder = folder();
    let made = |name: &str, tables: &str| {
        let path = folder.path().join(name);
        Connection::open(&path).expect("a new file").execute_batch(tables).expect("tables can be made");
        error(&path)
    };
    let table = |name: &str| format!("CREATE TABLE {name} (a INTEGER);");
    let nvprof = made("a.sql", &(table("StringTable") + &table("CUPTI_ACTIVITY_KIND_MARKER")));
    assert!(nvprof.contains("a database of nvprof without GPU activity"), "{nvprof}");
    let rocpd = made("b.rpd", &(table("rocpd_op") + &table("rocpd_api")));
    assert!(rocpd.contains("rocpd"), "{rocpd}");
    let other = made("c.db", &(table("songs") + &table("albums")));
    assert!(other.contains("the tables albums, songs"), "{other}");
    let bare = made("d.sqlite", &(table("StringIds") + &table("META_DATA_EXPORT")));
    assert!(bare.contains("without GPU activity"), "{bare}");
    let calls = table("CUPTI_ACTIVITY_KIND_RUNTIME") + "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1);";
    let calls = made("e.sqlite", &(table("StringIds") + &table("META_DATA_EXPORT") + &calls));
    assert!(calls.contains("an export of nsys with CUDA calls, but without kernels"), "{calls}");
    for (name, tables, what) in [
        ("f.db", &["HSA", "HIP", "OPS", "COPY", "A"][..], "a database of rocprof or hipprof"),
        ("g.db", &["A", "OPS"], "a database of rocprof or hipprof"),
        ("h.db", &["hip_api", "hip_kernel"], "a database of rocprof or hipprof"),
        ("i.db", &["STRING_IDS", "TASK"], "an Ascend database"),
        ("j.db", &["ClusterStepTraceTime"], "an Ascend database"),
        ("k.db", &["AscendTask"], "an Ascend database"),
        ("l.db", &["rocpd_op", "rocpd_api"], "rocpd"),
    ] {
        let told = made(name, &tables.iter().map(|t| table(t)).collect::<String>());
        assert!(told.contains(what), "{name}: {told}");
    }
}

#[test]
fn an_export_that_says_nothing_of_itself_is_read() {
    let folder = folder();
    let path = folder.path().join("old.sqlite");
    export(&path);
    let before = kernels(&answer(std::slice::from_ref(&path), &options()));
    let db = Connection::open(&path).expect("it is there");
    db.execute_batch("DROP TABLE META_DATA_EXPORT").expect("it can be dropped");
    assert_eq!(kernels(&answer(std::slice::from_ref(&path), &options())), before);
    assert_eq!(before.len(), 2);
}

#[test]
fn changes_beside_a_database_are_told_and_both_files_stay_as_they_are() {
    let folder = folder();
    let path = folder.path().join("one.sqlite");
    export(&path);
    let journal = folder.path().join("one.sqlite-wal");
    std::fs::write(&journal, b"not merged").expect("a file");
    let before = std::fs::read(&path).expect("the file is there");
    let answer = answer(std::slice::from_ref(&path), &options());
    let told = answer.rows_where("health", |r| r.text("counter") == "sqlite_wal_ignored");
    assert_eq!(told.len(), 2, "one for each process");
    assert_eq!(std::fs::read(&path).expect("the file is there"), before);
    assert_eq!(std::fs::read(&journal).expect("the file is there"), b"not merged");
    // A lock of another program does not matter to a reader that takes none.
    std::fs::remove_file(&journal).expect("it is there");
    let other = Connection::open(&path).expect("it is there");
    other.execute_batch("BEGIN EXCLUSIVE").expect("nobody else has it");
    assert_eq!(kernels(&crate::run::answer(std::slice::from_ref(&path), &options())).len(), 2);
}

#[test]
fn a_limit_stops_the_reading_of_a_large_export() {
    let folder = folder();
    let path = folder.path().join("large.sqlite");
    export(&path);
    let db = Connection::open(&path).expect("it is there");
    let many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300000)
        INSERT INTO NVTX_EVENTS SELECT i, i + 1, 59, (3 << 48) | (7 << 24) | 2, 'aten::mm, seq = ' || i FROM n";
    db.execute_batch(many).expect("rows can be added");
    drop(db);
    let inputs = discover(std::slice::from_ref(&path)).expect("the file is there");
    let limit = hta::units::MemoryLimit { bytes: 32 << 20, given: true };
    let how = LoadOptions { memory: Some(limit), ..LoadOptions::default() };
    let read = load(&inputs[0], how, Spread::Inline, &ByteCount::default());
    assert!(matches!(read, Err(hta::error::ReadError::TooLarge { .. })), "{:?}", read.err());
    // The other process is small.
    assert!(load(&inputs[1], how, Spread::Inline, &ByteCount::default()).is_ok());
}

#[test]
fn what_a_large_export_makes_the_reader_keep_is_bounded() {
    const NUMBERS: &str = "WITH RECURSIVE n(i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n WHERE i < 70000)";
    let limited = |path: &Path| {
        let inputs = discover(&[path.to_path_buf()]).expect("the file is there");
        let memory = Some(hta::units::MemoryLimit { bytes: 4 << 20, given: true });
        let options = LoadOptions { memory, ..LoadOptions::default() };
        load(&inputs[0], options, Spread::Inline, &ByteCount::default())
            .err()
            .map_or_else(String::new, |e| e.to_string())
    };
    for (statement, expected) in [
        (
            "UPDATE StringIds SET value = zeroblob(5000000) WHERE id = 1",
            "a value is longer than 4194304 bytes",
        ),
        ("INSERT INTO StringIds SELECT i, 'name ' || i FROM n", "it needs more than"),
        (
            "INSERT INTO StringIds SELECT i, 'cudaLaunchKernel' FROM n",
            "more than 65536 processes, or names of launches",
        ),
        (
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT 1, 2, 0, 7, 5, i << 24, 1 FROM n",
            "more than 65536 processes",
        ),
        (
            "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME SELECT 1, 2, 67, 7 << 24, i, 2 FROM n",
            "it needs more than",
        ),
        ("INSERT INTO TARGET_INFO_GPU SELECT i FROM n", "more than 65536 rows in TARGET_INFO_GPU"),
    ] {
        let folder = folder();
        let path = folder.path().join("rank_0.sqlite");
        export(&path);
        let db = Connection::open(&path).expect("the export");
        db.execute_batch("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE start = 10; CREATE TABLE TARGET_INFO_GPU (id INTEGER)")
            .expect("one process is left");
        let statement = if statement.starts_with("INSERT") {
            format!("{NUMBERS} {statement}")
        } else {
            statement.to_string()
        };
        db.execute_batch(&statement).expect("rows can be added");
        drop(db);
        assert!(limited(&path).contains(expected), "{statement}: {}", limited(&path));
    }
}

#[test]
fn damage_is_an_error_or_counted_and_never_a_panic() {
    let folder = folder();
    let path = folder.path().join("one.sqlite");
    export(&path);
    let whole = std::fs::read(&path).expect("the file is there");
    std::fs::write(&path, &whole[..whole.len() / 2]).expect("the file can be written");
    assert!(error(&path).contains("bytes"), "{}", error(&path));
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
                assert!(e.to_string().contains("one.sqlite"), "{e}");
            }
        }
        assert_eq!(std::fs::read(&path).expect("the file is there"), damaged, "at {at}");
    }
    assert!(refused > 0);
}
