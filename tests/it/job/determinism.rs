//! The same input gives the same bytes: for any number of threads, order of files, and compression.

use crate::shared::{Files, contents, files_below, samples};
use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;

/// Runs `hta analyze` in `folder` and returns what it leaves.
fn analyze(folder: &Path, inputs: &[String], threads: &str) -> Files {
    let out = tempfile::tempdir().expect("a temporary folder");
    let run = Command::new(env!("CARGO_BIN_EXE_hta"))
        .current_dir(folder)
        .args(["analyze", "--keep-args", "--threads", threads, "--out"])
        .arg(out.path().join("result"))
        .args(inputs)
        .output()
        .expect("the binary runs");
    // In cpu_single the profiler itself has lost names, which is a loss.
    let expected = i32::from(inputs.iter().any(|i| i.contains("cpu_awkward_names")));
    assert_eq!(run.status.code(), Some(expected), "{inputs:?}: {}", String::from_utf8_lossy(&run.stderr));
    contents(&out.path().join("result"))
}

fn assert_same(what: &str, a: &Files, b: &Files) {
    assert!(a.keys().eq(b.keys()), "{what}: {:?} and {:?}", a.keys(), b.keys());
    let differing: Vec<&String> = a.keys().filter(|k| a[*k] != b[*k]).collect();
    assert!(differing.is_empty(), "{what}: {differing:?} differ");
    assert!(a.keys().any(|k| k.starts_with("events/")) && a.contains_key("report.txt"), "{:?}", a.keys());
}

/// Trace files of a sample set, relative to the samples.
fn set(name: &str) -> Vec<String> {
    let files = files_below(&samples().join(name));
    let names =
        files.iter().map(|f| f.strip_prefix(samples()).expect("below the samples").display().to_string());
    names.filter(|f| !f.ends_with("ground_truth.json")).collect()
}

const SETS: [(&str, usize); 3] = [("gpu_ddp8", 8), ("gloo_ddp4", 4), ("cpu_single", 2)];

#[test]
fn one_thread_and_four_leave_the_same_bytes() {
    for (name, ranks) in SETS {
        let inputs = set(name);
        assert_eq!(inputs.len(), ranks);
        assert_same(name, &analyze(&samples(), &inputs, "1"), &analyze(&samples(), &inputs, "4"));
    }
}

#[test]
fn one_file_spread_over_threads_leaves_the_same_bytes() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    // Plain text is read in pieces on all threads.
    let text = unpacked(&samples().join("gloo_ddp4/rank_2.pt.trace.json.gz"));
    std::fs::write(dir.path().join("rank_2.json"), &text).expect("a temporary file can be written");
    let inputs = ["rank_2.json".to_string()];
    assert!(text.len() > 4 << 20, "{} bytes are one piece", text.len());
    assert_same("one file", &analyze(dir.path(), &inputs, "1"), &analyze(dir.path(), &inputs, "4"));
}

#[test]
fn the_order_of_the_files_changes_nothing() {
    for (name, _) in SETS {
        let mut inputs = set(name);
        let first = analyze(&samples(), &inputs, "4");
        inputs.reverse();
        assert_same(name, &first, &analyze(&samples(), &inputs, "4"));
        inputs.rotate_left(1);
        inputs.swap(0, 1);
        assert_same(name, &first, &analyze(&samples(), &inputs, "4"));
    }
}

fn unpacked(path: &Path) -> Vec<u8> {
    let mut text = Vec::new();
    let file = std::fs::File::open(path).expect("a sample can be read");
    flate2::read::MultiGzDecoder::new(file).read_to_end(&mut text).expect("a sample is whole");
    text
}

/// The set of two ranks in `folder`, compressed by `pack`, with names that end in `ending`.
fn packed(folder: &Path, ending: &str, pack: impl Fn(&[u8]) -> Vec<u8>) -> Vec<String> {
    let write = |rank: u32| {
        let name = format!("rank_{rank}{ending}");
        let text = unpacked(&samples().join(format!("gpu_ddp8/rank_{rank}.json.gz")));
        std::fs::write(folder.join(&name), pack(&text)).expect("a temporary file can be written");
        name
    };
    [3, 5].map(write).to_vec()
}

pub fn gzip(text: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(text).expect("memory can be written");
    out.finish().expect("memory can be written")
}

pub fn zstandard(text: &[u8]) -> Vec<u8> {
    zstd::stream::encode_all(text, 1).expect("memory can be written")
}

/// The first bytes of a file decide about decompression, not its name: under the same name the results are identical,
/// including file names.
#[test]
fn packing_changes_nothing_under_one_name() {
    let dirs = [(); 3].map(|()| tempfile::tempdir().expect("a temporary folder"));
    let plain = packed(dirs[0].path(), ".json", <[u8]>::to_vec);
    let gz = packed(dirs[1].path(), ".json", gzip);
    let zst = packed(dirs[2].path(), ".json", zstandard);
    let first = analyze(dirs[0].path(), &plain, "4");
    assert_same("gzip", &first, &analyze(dirs[1].path(), &gz, "4"));
    assert_same("zstd", &first, &analyze(dirs[2].path(), &zst, "4"));
}

/// Under their usual names, only what contains the name differs.
#[test]
fn packing_changes_only_the_names_that_are_shown() {
    let dirs = [(); 3].map(|()| tempfile::tempdir().expect("a temporary folder"));
    let plain = packed(dirs[0].path(), ".json", <[u8]>::to_vec);
    let gz = packed(dirs[1].path(), ".json.gz", gzip);
    let zst = packed(dirs[2].path(), ".json.zst", zstandard);
    let first = analyze(dirs[0].path(), &plain, "4");
    for (dir, inputs, ending) in [(&dirs[1], &gz, ".json.gz"), (&dirs[2], &zst, ".json.zst")] {
        let other = analyze(dir.path(), inputs, "4");
        assert!(first.keys().eq(other.keys()));
        for (name, bytes) in &first {
            // A Parquet file contains the name in its pages, and their lengths in its footer.
            if ["tables/ranks.parquet", "tables/health.parquet", "tables/recordings.parquet"]
                .contains(&name.as_str())
            {
                continue;
            }
            let text = String::from_utf8_lossy(&other[name]).replace(ending, ".json");
            let same = other[name] == *bytes || text.as_bytes() == bytes.as_slice();
            assert!(same, "{name} differs for {ending}");
        }
    }
}
