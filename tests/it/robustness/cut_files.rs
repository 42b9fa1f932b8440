//! Files that end in the middle: what is missing stands behind the cut, so the cut is named first, and the
//! advice is to get the whole file, whatever is missing.

use crate::robustness::recorders::hta;
use flate2::write::GzEncoder;
use hta_testkit::{Format, TraceBuilder, perfetto_file, us};
use std::io::{Read, Write};
use std::path::Path;

/// Steps of a rank that launches 150 kernels.
///
/// ```text
///   host        step [0 ......................) launch [5..7)  [15..17) ...
///   stream 7                                           [8....15) [18....25) ...
/// ```
fn job() -> TraceBuilder {
    let mut t = TraceBuilder::new().rank(0).device("NVIDIA H100", 132);
    let mut main = t.thread(1000);
    for step in 0..3 {
        main.annotation(&format!("ProfilerStep#{step}"), us(step * 500)..us(step * 500 + 500));
    }
    for i in 0..150 {
        let start = i * 10;
        main.op("aten::mm", us(start)..us(start + 9));
        main.launch(us(start + 5)..us(start + 7)).kernel("gemm", 7, us(start + 8)..us(start + 15));
    }
    t
}

/// The file in each format: its name and its bytes.
fn files() -> [(&'static str, Vec<u8>); 3] {
    [
        ("rank_0.json", job().to_bytes(&Format::default())),
        ("rank_0.pftrace", perfetto_file(&job().to_packets())),
        ("converted.pftrace", perfetto_file(&job().to_converted_packets())),
    ]
}

/// Advice about what was not recorded, which no file that is cut needs.
const OTHER_ADVICE: [&str; 7] = [
    "ProfilerActivity",
    "ynchronise before",
    "too short",
    "no other tool",
    "before the work is launched",
    "record again",
    "profile_memory",
];

fn words(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Checks what is said of a cut file. Returns whether anything was there to be said.
fn check(path: &Path, out: &Path, what: &str) -> bool {
    let (trace, folder) = (path.display().to_string(), out.display().to_string());
    let run = hta(&["breakdown", &trace], &[]);
    let said = words(&run.stdout);
    if run.status.code() == Some(2) {
        return false;
    }
    assert_eq!(run.status.code(), Some(1), "{what}: {said}");
    let (line, _) = said.split_once("Where the time went").expect("the section");
    assert!(
        line.contains("the file of rank 0 is cut: ") && line.contains("get the whole file"),
        "{what}: {line}"
    );
    for command in ["breakdown", "idle", "launches", "memory", "lines", "kernels"] {
        let said = words(&hta(&[command, &trace], &[]).stdout);
        for advice in OTHER_ADVICE {
            assert!(!said.contains(advice), "{what}, {command}: {said}");
        }
    }
    let _ = std::fs::remove_dir_all(out);
    let said = words(&hta(&["analyze", "--out", &folder, &trace], &[]).stdout);
    assert!(said.contains("the file of rank 0 is cut"), "{what}: {said}");
    assert!(!said.contains("1 rank (0), CPU"), "{what}: {said}");
    let summary = std::fs::read_to_string(out.join("summary.json")).expect("the summary");
    let page = std::fs::read_to_string(out.join("report.html")).expect("the page");
    for text in [&said, &summary, &page] {
        for advice in
            ["ProfilerActivity.CUDA, and", "ynchronise before", "too short: ", "No memory was recorded"]
        {
            assert!(!text.contains(advice), "{what}: {advice}");
        }
    }
    assert!(summary.contains("the file of rank 0 is cut: ") && page.contains("is cut: "), "{what}");
    true
}

#[test]
fn the_cut_is_named_before_what_is_missing_behind_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, bytes) in files() {
        let mut told = 0;
        for tenth in [2, 3, 5, 6, 8, 9] {
            let path = folder.path().join(name);
            // Not between two packets, where nothing tells that the file was longer.
            std::fs::write(&path, &bytes[..bytes.len() * tenth / 10 + 1]).expect("a temporary file");
            told += usize::from(check(&path, &folder.path().join("out"), &format!("{name} {tenth}")));
            std::fs::remove_file(&path).expect("the file is there");
        }
        assert!(told >= 5, "{name}: {told}");
        // As a compressed file that ends early.
        let mut packed = GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(&bytes).expect("memory can be written");
        let packed = packed.finish().expect("memory can be written");
        let path = folder.path().join(format!("{name}.gz"));
        std::fs::write(&path, &packed[..packed.len() * 7 / 10]).expect("a temporary file");
        assert!(check(&path, &folder.path().join("out"), &format!("{name}.gz")));
    }
}

#[test]
fn a_whole_file_is_not_called_cut() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, bytes) in files() {
        let path = folder.path().join(name);
        std::fs::write(&path, &bytes).expect("a temporary file");
        let run = hta(&["breakdown"], &[&path]);
        assert!(!words(&run.stdout).contains("cut") && run.status.code() == Some(0), "{name}");
    }
    // All events are there, and only what follows them is cut.
    let json = job().to_bytes(&Format::default());
    let end = json.iter().rposition(|byte| *byte == b']').expect("the end of the events");
    let path = folder.path().join("tail.json");
    std::fs::write(&path, [&json[..=end], b", \"traceName\": \"a"].concat()).expect("a temporary file");
    let run = hta(&["breakdown"], &[&path]);
    assert!(!words(&run.stdout).contains("cut") && run.status.code() == Some(1), "{}", words(&run.stdout));
    assert!(words(&run.stderr).contains("file_truncated"), "{}", words(&run.stderr));
}

#[test]
fn a_rank_whose_file_is_cut_is_left_out_with_that_reason() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for rank in 0..3 {
        let mut bytes = perfetto_file(&job().to_packets());
        if rank == 1 {
            bytes.truncate(bytes.len() / 2);
        }
        std::fs::write(folder.path().join(format!("rank_{rank}.pftrace")), bytes).expect("a temporary file");
    }
    let said = words(&hta(&["breakdown"], &[folder.path()]).stdout);
    assert!(said.contains("nothing is said about rank 1: the file of rank 1 is cut: "), "{said}");
    assert!(!said.contains("device was not recorded"), "{said}");
    // The reason is what its rank is left out for, not a weaker one.
    let said = words(&hta(&["diagnosis"], &[folder.path()]).stdout);
    let (_, why) = said.split_once("rank 1 is left out of all shares and sums: ").expect("the note");
    assert!(why.starts_with("the file of rank 1 is cut: "), "{why}");
    assert!(!why.starts_with("the file of rank 1 is cut: events may be missing"), "{why}");
}

/// Steps of a rank that works on the CPU only: 10 operators of 9 us.
fn cpu_job(rank: u32) -> TraceBuilder {
    let mut t = TraceBuilder::new().rank(rank).world(3).backend("gloo");
    let mut main = t.thread(1000);
    for step in 0..2 {
        main.step(step, us(step as i64 * 50)..us(step as i64 * 50 + 50));
    }
    for i in 0..10 {
        main.op("aten::mm", us(i * 10)..us(i * 10 + 9));
    }
    t
}

#[test]
fn a_cut_file_of_a_rank_without_a_device_is_told_as_a_bound() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let write = |rank: u32, job: TraceBuilder, share: usize| {
        let bytes = job.to_bytes(&Format::default());
        let path = folder.path().join(format!("rank_{rank}.json"));
        std::fs::write(path, &bytes[..bytes.len() * share / 100]).expect("a temporary file");
    };
    let said = || words(&hta(&["breakdown"], &[folder.path()]).stdout);
    (0..3).for_each(|rank| write(rank, cpu_job(rank), if rank == 2 { 90 } else { 100 }));
    let bound = said();
    assert!(bound.starts_with("at most: the file of rank 2 is cut: events may be missing"), "{bound}");
    assert!(!bound.contains("nothing is said"), "{bound}");
    // With a device in its properties, a back end that needs one, or one on another rank, its work may stand
    // behind the cut.
    let withheld = "nothing is said about rank 2: the file of rank 2 is cut: neither a launch";
    for named in [cpu_job(2).device("NVIDIA H100", 132), cpu_job(2).backend("nccl")] {
        write(2, named, 90);
        assert!(said().contains(withheld), "{}", said());
    }
    write(2, cpu_job(2), 90);
    write(1, job().rank(1).world(3), 100);
    assert!(said().contains(withheld), "{}", said());
}

#[test]
fn a_bare_list_without_its_end_is_whole() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let json = job().to_bytes(&Format::default());
    let key = b"\"traceEvents\":";
    let key = json.windows(key.len()).position(|w| w == key).expect("the events") + key.len();
    let begin = key + json[key..].iter().position(|byte| *byte == b'[').expect("the list");
    let end = json.iter().rposition(|byte| *byte == b']').expect("the end of the list");
    let list = &json[begin..end];
    let last = list.iter().rposition(|byte| *byte == b'}').expect("an event") + 1;
    let path = folder.path().join("rank_0.json");
    for tail in ["", ",", ",\n", "\n"] {
        std::fs::write(&path, [&list[..last], tail.as_bytes()].concat()).expect("a temporary file");
        let run = hta(&["breakdown"], &[&path]);
        assert!(!words(&run.stdout).contains("cut"), "{tail:?}: {}", words(&run.stdout));
        assert!(words(&run.stderr).contains("file_truncated"), "{tail:?}: {}", words(&run.stderr));
    }
    // In the middle of an event it is cut.
    std::fs::write(&path, &list[..last - 3]).expect("a temporary file");
    let said = words(&hta(&["breakdown"], &[&path]).stdout);
    assert!(said.contains("the file of rank 0 is cut: "), "{said}");
}

#[test]
fn the_page_says_what_whole_files_lack() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let page = |shares: [usize; 2]| {
        for (rank, share) in (0..).zip(shares) {
            let bytes = job().rank(rank).world(2).to_bytes(&Format::default());
            let path = folder.path().join(format!("rank_{rank}.json"));
            std::fs::write(path, &bytes[..bytes.len() * share / 100]).expect("a temporary file");
        }
        let out = tempfile::tempdir().expect("a temporary folder");
        let results = out.path().join("out").display().to_string();
        hta(&["analyze", "--out", &results], &[folder.path()]);
        std::fs::read_to_string(out.path().join("out/report.html")).expect("the page")
    };
    let (missing, cut) = ("No memory was recorded", "Nothing of this stands before the cut");
    let of_one = page([100, 90]);
    assert!(of_one.contains(missing) && !of_one.contains(cut));
    let of_all = page([90, 90]);
    assert!(!of_all.contains(missing) && of_all.contains(cut));
}

/// Copies the sample of eight ranks, with so many percent of the file of rank 3.
fn sample_with_cut_rank(folder: &Path, percent: usize) {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/samples/gpu_ddp8");
    for rank in 0..8 {
        let name = format!("rank_{rank}.json.gz");
        let packed = std::fs::read(sample.join(&name)).expect("the sample");
        if rank != 3 {
            std::fs::write(folder.join(&name), packed).expect("a temporary file");
            continue;
        }
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut bytes).expect("the sample is whole");
        std::fs::write(folder.join("rank_3.json"), &bytes[..bytes.len() * percent / 100])
            .expect("a temporary file");
    }
}

#[test]
fn communication_with_a_cut_rank_lacks_no_groups() {
    for percent in [10, 18, 40, 70] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        sample_with_cut_rank(folder.path(), percent);
        let results = tempfile::tempdir().expect("a temporary folder");
        let out = results.path().join("out").display().to_string();
        let said = words(&hta(&["analyze", "--out", &out], &[folder.path()]).stdout);
        assert!(said.contains("the file of rank 3 is cut: "), "{percent}: {said}");
        for never in ["The ranks of its collectives are not recorded", "record again"] {
            assert!(!said.contains(never), "{percent}: {said}");
        }
        if said.contains("cannot be divided into waiting and transfer") {
            assert!(said.contains("do get the whole file: copy it again"), "{percent}: {said}");
        }
    }
}

#[test]
fn what_is_said_of_ranks_beside_a_cut_one_is_a_bound() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    sample_with_cut_rank(folder.path(), 70);
    let said = words(&hta(&["stragglers"], &[folder.path()]).stdout);
    let (of_ranks, _) = said.split_once("Who makes the others wait").expect("the section");
    let count = |what: &str| of_ranks.matches(what).count();
    assert!(count("makes the others wait") > 0, "{said}");
    assert_eq!(count("makes the others wait"), count("(at most)"), "{said}");
}

#[test]
fn a_comparison_says_which_side_is_cut() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/samples/gpu_ddp8");
    for percent in [18, 70] {
        sample_with_cut_rank(folder.path(), percent);
        let said = words(&hta(&["diff", "--force"], &[folder.path(), &sample]).stdout);
        assert!(said.contains("base: the file of rank 3 is cut: "), "{percent}: {said}");
        assert!(!said.contains("test: the file"), "{percent}: {said}");
    }
    let (whole, cut) = (folder.path().join("whole"), folder.path().join("cut"));
    let bytes = job().to_bytes(&Format::default());
    for (side, end) in [(&whole, bytes.len()), (&cut, bytes.len() * 9 / 10)] {
        std::fs::create_dir(side).expect("a temporary folder");
        std::fs::write(side.join("rank_0.json"), &bytes[..end]).expect("a temporary file");
    }
    let said = words(&hta(&["diff"], &[&whole, &cut]).stdout);
    assert!(said.contains("comparable: at most: ") && said.contains("; files are cut; "), "{said}");
    let why =
        "test: the file of rank 0 is cut: part of a change may stand behind the cut; get the whole file";
    assert!(said.contains(why), "{said}");
    let said = words(&hta(&["diff"], &[&whole, &whole]).stdout);
    assert!(!said.contains(" cut") && !said.contains("comparable: at most"), "{said}");
}
