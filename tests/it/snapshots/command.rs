//! `hta memory` on snapshots and timelines, as a user sees it.

use super::pickle::{Py, Writer, at, dumps, entry, segment, snapshot};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub fn hta(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hta"))
        .arg("memory")
        .args(args)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap()
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A snapshot of a rank, with a peak of `peak` bytes.
pub fn write(folder: &Path, name: &str, peak: i64) -> PathBuf {
    let history = vec![
        entry("alloc", 4096, peak, 1_000, at(3)),
        entry("free_requested", 4096, peak, 2_000, at(5)),
        entry("free_completed", 4096, peak, 2_000, at(5)),
    ];
    let segments = vec![segment(0, 4096, 0, (0, 0), &[(512, 0, "inactive"), (512, 12, "active_allocated")])];
    let path = folder.join(name);
    std::fs::write(&path, dumps(&snapshot(segments, vec![history]), Writer::Python)).unwrap();
    path
}

#[test]
fn a_folder_of_snapshots_is_one_job() {
    let folder = tempfile::tempdir().unwrap();
    for (rank, peak) in [(0, 1_000_000), (1, 1_010_000), (10, 3_000_000), (2, 990_000)] {
        write(folder.path(), &format!("mem_rank{rank}.pickle"), peak);
    }
    std::fs::write(folder.path().join("notes.txt"), "no snapshot").unwrap();
    let path = folder.path().display().to_string();
    let run = hta(&[&path, "--format", "csv", "--table", "memory_peaks"]);
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
    let rows = text(&run.stdout);
    let ranks: Vec<&str> = rows.lines().skip(1).filter_map(|l| l.split(',').next()).collect();
    assert_eq!(ranks, ["0", "1", "2", "10"]);
    let report = text(&hta(&[&path]).stdout).replace("\n  ", " ");
    assert!(
        report.contains("rank 10, device 0: its peak is 3.00 MB, the median of the ranks 1.01 MB"),
        "{report}"
    );
    let all = text(&hta(&[&path]).stdout);
    let table = all.lines().skip_while(|l| !l.starts_with("Highest level of memory"));
    // Below the title, its line and the names of the columns.
    let ranks: Vec<&str> = table.skip(3).take(4).filter_map(|l| l.split_whitespace().next()).collect();
    assert_eq!(ranks, ["10", "1", "0", "2"], "{all}");
    let report = text(&hta(&[&path, "--ranks", "2"]).stdout);
    assert!(report.contains("rank 2, device 0") && !report.contains("rank 1,"), "{report}");
}

#[test]
fn the_brief_answer_of_a_dump_is_two_sentences() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "mem_rank0.pickle", 3_000_000);
    let without_history =
        snapshot(vec![segment(0, 4096, 0, (0, 0), &[(512, 12, "active_allocated")])], vec![]);
    let path = folder.path().join("end.pickle");
    std::fs::write(&path, dumps(&without_history, Writer::Python)).unwrap();
    for (name, first) in
        [("mem_rank0.pickle", "the peak is 3.00 MB"), ("end.pickle", "Highest level of memory: ")]
    {
        let (input, out) = (folder.path().join(name), folder.path().join("out"));
        let mut hta = Command::new(env!("CARGO_BIN_EXE_hta"));
        let run = hta.arg("analyze").arg(input).args(["--brief", "--force", "--out"]).arg(out);
        let said = text(&run.output().unwrap().stdout);
        assert!(said.lines().count() == 2 && said.contains(first), "{said}");
    }
}

#[test]
fn moments_keys_and_stacks_can_be_chosen() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "snapshot.pickle", 5_000);
    let path = path.display().to_string();
    let rows = |args: &[&str]| {
        let run = hta(&[&[path.as_str(), "--format", "csv", "--table", "memory_content"], args].concat());
        assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
        let rows = text(&run.stdout);
        rows.lines().skip(1).filter(|l| l.contains(",line,")).map(str::to_string).collect::<Vec<_>>()
    };
    let before = "[before window] still alive,1,12,";
    let is = |rows: Vec<String>, wanted: &[&str]| {
        assert_eq!(rows.len(), wanted.len(), "{rows:?}");
        rows.iter().zip(wanted).for_each(|(row, w)| assert!(row.contains(w), "{row} has no {w}"));
    };
    is(rows(&[]), &[before, "train.py:3,1,5000,", before]);
    is(rows(&["--at", "entry:0"]), &["train.py:3,1,5000,", before]);
    is(rows(&["--at", "1999999"]), &["train.py:3,1,5000,", before]);
    is(rows(&["--at", "2000000"]), &[before]);
    is(rows(&["--at", "2000000", "--until", "requested"]), &[before]);
    let folded = text(&hta(&[&path, "--folded", "peak"]).stdout);
    assert_eq!(
        folded,
        "rank 0;device 0;[before window] still alive;train (/home/me/train.py:1) 12\n\
         rank 0;device 0;train (/home/me/train.py:3) 5000\n"
    );
    let folded = text(&hta(&[&path, "--folded", "alloc"]).stdout);
    assert_eq!(folded, "rank 0;device 0;train (/home/me/train.py:3) 5000\n");
    let file = folder.path().join("peak.json");
    assert_eq!(hta(&[&path, "--speedscope", &file.display().to_string()]).status.code(), Some(0));
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(
        (&json["profiles"][0]["unit"], &json["profiles"][0]["endValue"]),
        (&"bytes".into(), &5012.into())
    );
    let small = text(&hta(&[&path, "--min-bytes", "100"]).stdout);
    assert!(small.contains("below --min-bytes: 1 holder with 12 B"), "{small}");
    for bad in [
        ["--at", "step:1"],
        ["--min-bytes", "many"],
        ["--by", "op"],
        ["--at", "soon"],
        ["--at", "entry:77"],
        ["--device", "5"],
        ["--until", "x"],
        ["--folded", "x"],
        ["--table", "steps"],
    ] {
        let run = hta(&[&[path.as_str()], bad.as_slice()].concat());
        assert_eq!((run.status.code(), run.stdout.len()), (Some(2), 0), "{bad:?}: {}", text(&run.stderr));
    }
    let packed = folder.path().join("packed.pickle.gz");
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut out, &std::fs::read(&path).unwrap()).unwrap();
    std::fs::write(&packed, out.finish().unwrap()).unwrap();
    assert_eq!(text(&hta(&[&packed.display().to_string()]).stdout), text(&hta(&[&path]).stdout));
}

#[test]
fn a_snapshot_inside_a_page_of_the_viewer_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "snapshot.pickle", 5_000);
    // As `torch.cuda._memory_viz` does: zeros until three bytes make four characters.
    let mut pickle = std::fs::read(&path).unwrap();
    pickle.resize(pickle.len() + 3 - pickle.len() % 3, 0);
    let code = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, pickle);
    let page = format!(
        "\n<!DOCTYPE html>\n<html>\n<body>\n<script type=\"module\">\nconst local_files = \
         [{{\"name\": \"snapshot.pickle\", \"base64\": \"{code}\"}}]\n</script>\n</body>\n"
    );
    let html = folder.path().join("page.html");
    std::fs::write(&html, &page).unwrap();
    let run = hta(&[&html.display().to_string()]);
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
    assert_eq!(text(&run.stdout), text(&hta(&[&path.display().to_string()]).stdout));
    let early = page.find(&code).unwrap() + code.len() / 10;
    for (cut, told) in [(early, "the page ends within the snapshot"), (60, "hta: ")] {
        std::fs::write(&html, &page[..cut]).unwrap();
        let run = hta(&[&html.display().to_string()]);
        assert_eq!(run.status.code(), Some(2));
        assert!(text(&run.stderr).contains(told), "{}", text(&run.stderr));
    }
}

#[test]
fn leaks_are_told_by_steps_that_the_user_names() {
    let mark = |name: &str, time: i64| {
        Py::Dict(vec![
            ("stage", "START".into()),
            ("name", name.into()),
            ("device", Py::Int(0)),
            ("time_us", time.into()),
        ])
    };
    // 64 bytes of line 3 stay in each of the steps 0, 1 and 2; 8 bytes of line 4 only in the first.
    let history = vec![
        entry("alloc", 4096, 64, 1_000, at(3)),
        entry("alloc", 4160, 8, 1_001, at(4)),
        entry("alloc", 4224, 64, 2_000, at(3)),
        entry("alloc", 4288, 64, 3_500, at(3)),
    ];
    let Py::Dict(mut top) = snapshot(Vec::new(), vec![history]) else { panic!("a dict") };
    let marks = [("step#0", 1_000), ("step#1", 2_000), ("other", 2_500), ("step#2", 3_000)];
    top.push(("external_annotations", Py::List(marks.map(|(name, time)| mark(name, time)).into())));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot.pickle");
    std::fs::write(&path, dumps(&Py::Dict(top), Writer::Python)).unwrap();
    let path = path.display().to_string();
    let leaks = |args: &[&str]| {
        let run = hta(&[&[path.as_str(), "--format", "csv", "--table", "memory_leaks"], args].concat());
        assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
        let rows = text(&run.stdout);
        rows.lines().skip(1).map(|l| l.split(',').skip(4).collect::<Vec<_>>().join(",")).collect::<Vec<_>>()
    };
    assert_eq!(
        leaks(&["--steps-by", "step#"]),
        ["train.py:3,line,3,3,192,64,true", "train.py:4,line,1,1,8,8,false"]
    );
    assert_eq!(leaks(&[]), ["train.py:3,line,1,3,192,192,false", "train.py:4,line,1,1,8,8,false"]);
    let run = hta(&[&path, "--steps-by", "epoch"]);
    assert_eq!(run.status.code(), Some(2));
    assert!(text(&run.stderr).contains("there are other, step#0, step#1, step#2"), "{}", text(&run.stderr));
}

#[test]
fn traces_beside_snapshots_and_bad_files_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let good = write(folder.path(), "rank_0.pickle", 5_000).display().to_string();
    let trace = "data/samples/cpu_single/cpu_modules_stack_memory.pt.trace.json.gz";
    let table = |inputs: &[&str]| {
        let run = hta(&[inputs, &["--format", "csv", "--table", "memory_peaks"]].concat());
        assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
        text(&run.stdout)
    };
    let both = table(&[&good, trace]);
    let rows_of = |rows: String| rows.lines().skip(1).map(str::to_string).collect::<Vec<String>>();
    assert_eq!(rows_of(both), [rows_of(table(&[&good])), rows_of(table(&[trace]))].concat());
    let both = text(&hta(&[trace, &good]).stdout);
    assert_eq!(both, text(&hta(&[&good]).stdout) + "\n" + &text(&hta(&[trace]).stdout));
    // Of a folder traces are taken, too, but not what is neither.
    std::fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join(trace), folder.path().join("trace.json.gz"))
        .unwrap();
    std::fs::write(folder.path().join("config.json"), "{\"layers\": 3}").unwrap();
    let of_folder = text(&hta(&[&folder.path().display().to_string()]).stdout).replace("\n  ", " ");
    assert!(
        of_folder.contains("device 0: the peak is 5.01 kB") && of_folder.contains("What holds memory"),
        "{of_folder}"
    );
    for option in [["--until", "requested"], ["--steps-by", "step"]] {
        let run = hta(&[[trace].as_slice(), &option].concat());
        assert_eq!(run.status.code(), Some(2));
        assert!(text(&run.stderr).contains("it is for memory snapshots"), "{}", text(&run.stderr));
    }
    let run = hta(&[&good, trace, "--speedscope", "x.json"]);
    assert_eq!((run.status.code(), run.stdout.len()), (Some(2), 0));
    std::fs::remove_file(folder.path().join("trace.json.gz")).unwrap();
    let bad = folder.path().join("rank_1.pickle");
    std::fs::write(&bad, b"\x80\x02cos\nsystem\nX\x02\0\0\0ls\x85R.").unwrap();
    let bad = bad.display().to_string();
    let run = hta(&[&bad]);
    assert_eq!((run.status.code(), run.stdout.len()), (Some(2), 0));
    assert!(text(&run.stderr).contains("asks to run `os.system`"), "{}", text(&run.stderr));
    let run = hta(&[&good, &bad]);
    assert_eq!(run.status.code(), Some(1));
    assert!(text(&run.stdout).contains("What holds memory"));
    assert_eq!(hta(&[&good, &bad, "--strict"]).status.code(), Some(2));
    let run = hta(&["no/such/file.pickle"]);
    assert_eq!(run.status.code(), Some(2));
    assert!(text(&run.stderr).contains("no such file"), "{}", text(&run.stderr));
    // Cut: the complete entries are used, and the loss is told.
    let bytes = std::fs::read(&good).unwrap();
    let cut = folder.path().join("rank_7.pickle");
    std::fs::write(&cut, &bytes[..bytes.len() - 10]).unwrap();
    let run = hta(&[&cut.display().to_string()]);
    assert_eq!(run.status.code(), Some(1));
    assert!(text(&run.stderr).contains("snapshot_cut"), "{}", text(&run.stderr));
}
