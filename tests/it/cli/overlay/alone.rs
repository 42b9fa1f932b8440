//! One rank: its file is unchanged except for added events, and gives the same answers.

use super::{Asked, is_added, members, raw_events, text};
use crate::robustness::invariants::traces_below;
use crate::run::{answer, options};
use crate::shared;
use hta::analysis::counters::series::{DeviceCounter, series};
use hta::read::input::Input;
use hta::read::load::load;
use hta::read::options::LoadOptions;
use hta::read::reading::Spread;
use hta::read::source::ByteCount;
use hta::trace::meta::RankSource;
use hta_testkit::{Era, Format, MetadataSide, Placement, Root, TraceBuilder, WhiteSpace, us};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Rows of all tables except `health`, without columns that contain the file name.
fn rows(path: &Path) -> Vec<Value> {
    let answer = answer(&[path.to_path_buf()], &options());
    let mut tables: Vec<_> = answer.batches().filter(|b| b.spec.name != "health").collect();
    // Analyses finish in any order.
    tables.sort_by_key(|b| b.spec.name);
    let mut rows: Vec<Value> = tables.into_iter().flat_map(hta::output::json::records).collect();
    for row in rows.iter_mut().filter_map(Value::as_object_mut) {
        row.remove("file");
        row.remove("capture_file");
        row.remove("unpacked_bytes");
    }
    rows
}

/// The overlay of a file contains its events, gives the same answers, and adds only marked events.
pub fn check(path: &Path) -> (usize, usize) {
    let dir = tempfile::tempdir().unwrap();
    // With the same name, because the rank may come from it.
    let name = path.file_name().unwrap().to_str().unwrap().trim_end_matches(".gz").trim_end_matches(".zst");
    let out = dir.path().join(name);
    let summary =
        Asked::default().write(&[path.to_path_buf()], &out).unwrap_or_else(|e| panic!("{path:?}: {e}"));
    let (before, after) = (text(path), text(&out));
    let (source, overlay) = (raw_events(&before), raw_events(&after));
    let kept = overlay.iter().position(|e| is_added(e)).unwrap_or(overlay.len());
    assert_eq!(summary.drawn[0].events, kept as u64);
    assert!(source == overlay[..kept], "{path:?}: events differ");
    assert!(overlay[kept..].iter().all(|e| is_added(e)));
    let (mut old, mut new) = (members(&before), members(&after));
    new.remove("hta_overlay");
    old.remove("hta_overlay");
    assert_eq!(old, new, "{path:?}");
    let (old, new) = (rows(path), rows(&out));
    assert_eq!(old.len(), new.len(), "{path:?}");
    for (a, b) in old.iter().zip(&new) {
        assert_eq!(a, b, "{path:?}");
    }
    (kept, overlay.len() - kept)
}

fn one_rank() -> TraceBuilder {
    let mut t = TraceBuilder::new().rank(3).world(8).host("node-0").device("NVIDIA H100", 132).with_flows();
    let mut main = t.thread(1);
    main.step(7, us(0)..us(200));
    main.op("aten::mm", us(1)..us(50));
    main.launch(us(10)..us(15)).kernel("sgemm", 7, us(60) + 1..us(120)).grid([132, 1, 1]).block([256, 1, 1]);
    main.launch(us(20)..us(25)).memcpy("Memcpy HtoD (Pinned -> Device)", 7, 4096, us(121)..us(130));
    main.launch(us(30)..us(35)).kernel("relu", 9, us(131)..us(150)).grid([10, 1, 1]).block([64, 1, 1]);
    t
}

#[test]
fn every_byte_of_every_event_stays_in_every_format() {
    let dir = tempfile::tempdir().unwrap();
    let mut formats = Vec::new();
    for era in Era::ALL {
        for metadata in [Placement::Before, Placement::After, Placement::Both] {
            formats.push(Format { era, metadata, ..Format::default() });
        }
    }
    formats.push(Format { base: MetadataSide::After, ..Format::default() });
    formats.push(Format { root: Root::Array, era: Era::Decimal, ..Format::default() });
    formats.push(Format { layout: WhiteSpace::Pretty, ..Format::default() });
    for (i, format) in formats.iter().enumerate() {
        let path = dir.path().join(format!("rank_{i}.json"));
        std::fs::write(&path, one_rank().to_bytes(format)).unwrap();
        let (kept, added) = check(&path);
        assert!(kept >= 7 && added > 20, "{format:?}: {kept} {added}");
    }
}

fn samples() -> Vec<PathBuf> {
    let mut files = traces_below(&shared::samples());
    files.retain(|f| !f.to_string_lossy().contains("truth") && !f.to_string_lossy().contains("KNOWN"));
    files
}

/// The samples that are JSON, which is all that the overlay copies.
fn json_samples() -> Vec<PathBuf> {
    samples().into_iter().filter(|f| !f.to_string_lossy().contains(".pftrace")).collect()
}

/// Counters read from device rows and calls alone are those of all rows; returns how many there are.
pub fn check_counters(files: &[PathBuf]) -> usize {
    let mut found = 0;
    for file in files {
        let of = |device_only: bool, spread: Spread| {
            let input = Input::named(file);
            let options = LoadOptions { device_only, ..LoadOptions::default() };
            let l = load(&input, options, spread, &ByteCount::default()).unwrap_or_else(|e| panic!("{e}"));
            let trace = l.into_trace(0, RankSource::File, input.shown, &crate::run::options().model);
            (trace.capture, series(&trace, &DeviceCounter::ALL, None))
        };
        let (all, few) = (of(false, Spread::Inline), of(true, Spread::Inline));
        assert_eq!(all, few, "{file:?}");
        assert_eq!(few, of(true, Spread::AllCores), "{file:?}");
        found += few.1.series.len();
    }
    found
}

#[test]
fn counters_need_no_host_events_but_calls() {
    assert!(check_counters(&samples()) > 20);
}

#[test]
fn samples_read_as_they_did() {
    assert!(json_samples().iter().map(|file| check(file).1).sum::<usize>() > 1000);
}
