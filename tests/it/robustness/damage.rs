//! Damaged files in depth: the results of the repairs of `tests/broken`, value by value, and that neither the division
//! of a file into blocks and pieces nor damage changes more than it must.

use crate::job::determinism::{gzip, zstandard};
use crate::run::{options, try_run};
use hta::error::ReadError;
use hta::health::Counter;
use hta::read::input::Input;
use hta::read::load::load_in_chunks;
use hta::read::options::LoadOptions;
use hta::read::reading::{Chunks, Loaded, Spread};
use hta::read::source::ByteCount;
use hta::trace::args::{ARGS, Arg, ArgType};
use hta::trace::meta::RankSource;
use hta::trace::rank_trace::RankTrace;
use proptest::prelude::*;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// `baseTimeNanoseconds` of the fixtures.
const BASE: i64 = 1_711_964_646_000_000_000;

fn fixture(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/broken").join(path)
}

fn read(path: &Path, spread: Spread, chunks: Chunks) -> Result<Loaded, ReadError> {
    let input = Input::named(path).shown_as("the file");
    let all = LoadOptions { event_args: true, rest_args: true, ..LoadOptions::default() };
    load_in_chunks(&input, all, spread, chunks, &ByteCount::default())
}

fn loaded(path: &str) -> Loaded {
    read(&fixture(path), Spread::Inline, Chunks::default()).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Name, start after the base, and length of each event, in file order.
fn events(path: &str) -> Vec<(String, i64, i64)> {
    let c = loaded(path).columns;
    let base = loaded(path).meta.base_ns.unwrap_or(0);
    (0..c.len()).map(|i| (c.strings.get(c.name(i)).to_string(), c.ts[i] - base, c.dur[i])).collect()
}

fn times(path: &str) -> Vec<(i64, i64)> {
    events(path).into_iter().map(|(_, ts, dur)| (ts, dur)).collect()
}

fn trace(path: &str) -> RankTrace {
    loaded(path).into_trace(0, RankSource::File, path.to_string(), &options().model)
}

/// Busy time of the only device.
fn busy(t: &RankTrace) -> i64 {
    assert_eq!(t.devices.len(), 1);
    t.devices[0].timeline.segments().iter().map(|s| s.span.len()).sum()
}

fn float(t: &Loaded, arg: Arg, event: u32) -> Option<f64> {
    t.columns.args.column(arg).get(event - 1).map(f64::from_bits)
}

#[test]
fn words_where_numbers_belong_read_as_missing_and_texts_keep_them() {
    let t = loaded("d06_bare_word.json");
    assert_eq!(float(&t, Arg::BlocksPerSm, 3), None);
    assert_eq!(float(&t, Arg::WarpsPerSm, 3), Some(0.592593));
    assert_eq!(float(&t, Arg::WarpsPerSm, 6), None);
    assert_eq!(float(&t, Arg::Bandwidth, 9), None);
    assert_eq!(float(&t, Arg::Bandwidth, 11), None);
    assert_eq!(float(&t, Arg::Occupancy, 13), None);
    assert_eq!(t.columns.strings.get(t.columns.name(13)), "nan");
    let inputs = t.columns.args.text(Arg::ConcreteInputs, 6).map(|s| t.columns.strings.get(s));
    assert_eq!(inputs, Some(r#"["","inf","nan"]"#));
}

#[test]
fn a_broken_top_level_value_hides_nothing_behind_it() {
    for (path, rank) in [("d07_log_lines_before.json", 0), ("d07_log_lines_after.json", 5)] {
        let t = loaded(path);
        assert_eq!((t.columns.ts[0], t.meta.rank), (BASE + 1_000_100, Some(rank)), "{path}");
    }
}

#[test]
fn broken_arguments_cost_their_own_event_only_its_arguments() {
    let t = loaded("d08_broken_args.json").columns;
    assert_eq!((t.ts[3], t.dur[3], t.args.uint(Arg::ExternalId, 3)), (BASE + 1_060_400, 30_500, None));
    assert_eq!([4, 5].map(|e| t.args.uint(Arg::Correlation, e)), [Some(102), Some(102)]);
}

#[test]
fn integers_beyond_64_bits_keep_their_value_or_their_text() {
    let c = loaded("big_ints.json").columns;
    let ids = [0, 1].map(|e| c.args.uint(Arg::CommsId, e));
    assert_eq!(ids, [Some(9_223_372_036_854_775_807), Some(u64::MAX)]);
    assert_eq!(c.args.uint(Arg::CommsId, 2), None);
    let rest = c.args.rest.get(2).map(|v| c.strings.get(hta::trace::strings::StrId(v as u32)));
    assert!(rest.is_some_and(|r| r.contains(r#""Comms Id":18446744073709551616"#)), "{rest:?}");
    let c = loaded("d09_huge_integer.json").columns;
    assert_eq!([6, 8].map(|e| c.args.uint(Arg::CommsId, e)), [Some(10_159_970_886_766_084_423); 2]);
    let rest = c.args.rest.get(3).map(|v| c.strings.get(hta::trace::strings::StrId(v as u32)));
    assert_eq!(rest, Some(r#"{"job token":36893488147419103232}"#));
}

/// The generator of the fixtures: fractions `(37 i + 5) mod 1000` and `(91 i + 40) mod 1000` without leading zeros.
#[test]
fn unpadded_fractions_are_nanoseconds_and_ambiguous_ones_decimals() {
    for (i, (ts, dur)) in times("d10_unpadded_fraction.json.gz").into_iter().enumerate() {
        let i = i as i64;
        assert_eq!(
            (ts, dur),
            ((1_000 + 100 * i) * 1_000 + (37 * i + 5) % 1_000, 20_000 + (91 * i + 40) % 1_000)
        );
    }
    let ambiguous = times("d10_ambiguous_fraction.json.gz");
    assert_eq!((ambiguous[0], ambiguous[1].0), ((1_000_050, 20_400), 1_100_420));
    assert_eq!(times("d10_too_few_fractions.json")[0], (1_000_500, 20_400));
    assert_eq!(times("d31_reserialised.json")[0], (1_000_100, 50_250));
}

#[test]
fn base_times_are_added_even_where_ranks_differ() {
    let files = |dir: &str| {
        let mut all: Vec<_> = std::fs::read_dir(fixture(dir)).unwrap().map(|f| f.unwrap().path()).collect();
        all.sort();
        all.into_iter()
            .map(|p| read(&p, Spread::Inline, Chunks::default()).unwrap().columns.ts[0])
            .collect::<Vec<_>>()
    };
    assert_eq!(files("d12_base_differs"), [1_719_853_883_999_000_100, 1_719_853_884_001_000_100]);
    assert_eq!(files("d11_mixed_eras"), [1_711_964_646_001_000_000, 1_711_964_646_001_000_100]);
}

#[test]
fn impossible_starts_stay_out_of_the_device_tables_only() {
    let t = trace("d14_zero_start.json");
    assert_eq!((t.columns.len(), t.activities.len()), (10, 2));
    assert_eq!(t.activities[0].span.start, BASE + 1_040_500);
    assert_eq!(busy(&t), 121_125);
    let t = trace("d14_far_outlier.json");
    assert_eq!((t.columns.len(), t.activities.len()), (8, 2));
    assert_eq!(t.activities[0].span.start, 1_711_971_846_001_040_500);
}

#[test]
fn device_time_counts_copies_once_and_overlaps_once() {
    let t = trace("d19_duplicate_kernel.json");
    assert_eq!((t.columns.len(), t.activities.len(), busy(&t)), (7, 2, 121_125));
    assert_eq!(trace("d19_graph_nodes.json").activities.len(), 4);
    assert_eq!(busy(&trace("d18_stream_overlap.json")), 119_125);
    assert_eq!(busy(&trace("d33_sync_rows.json")), 121_125);
    assert_eq!(busy(&trace("d38_unlinked_kernel.json")), 126_250);
    let t = trace("d39_zero_length.json");
    assert_eq!((t.activities.len(), busy(&t)), (3, 121_125));
}

#[test]
fn steps_come_from_the_host_with_the_numbers_they_have() {
    let labels = |path| trace(path).steps.steps.iter().map(|s| s.label).collect::<Vec<_>>();
    assert_eq!(labels("d19_step_numbers.json"), [Some(3), Some(3), Some(7)]);
    assert_eq!(labels("d20_gpu_step_annotation.json"), [Some(1), Some(2)]);
}

#[test]
fn links_follow_the_correlation_and_nothing_else() {
    let call =
        |t: &RankTrace, event: u32| t.activities.iter().find(|a| a.row == event - 1).and_then(|a| a.launch());
    let op = |t: &RankTrace, event: u32| {
        let a = t.activities.iter().find(|a| a.row == event - 1);
        a.and_then(|a| a.op()).map_or("none".to_string(), |o| t.name(o).to_string())
    };
    let t = trace("d26_external_id.json");
    assert_eq!([3, 6, 9].map(|e| op(&t, e)), ["aten::mm", "aten::relu", "aten::add"]);
    let t = trace("link_many_launches.json");
    assert_eq!(call(&t, 4), Some(2));
    let t = trace("link_two_processes.json");
    assert!(call(&t, 3).is_none() && call(&t, 6).is_some());
    let t = trace("numeric_strings.json");
    assert!(t.activities.iter().all(|a| a.launch().is_some()));
    let t = trace("event_without_args.json");
    assert_eq!(op(&t, 6), "aten::relu");
}

#[test]
fn a_list_that_was_cut_is_kept_as_it_stands() {
    let c = loaded("d24_cut_list.json").columns;
    let ranks = c.args.text(Arg::GroupRanks, 6).map(|s| c.strings.get(s).to_string());
    assert!(ranks.is_some_and(|r| r.starts_with("[0, 1, 2") && r.ends_with("29, ...]")));
    assert_eq!((c.args.int(Arg::GroupSize, 6), c.args.int(Arg::GlobalRankStride, 6)), (Some(64), Some(1)));
}

#[test]
fn escapes_are_undone_in_names_keys_and_phases() {
    let names: Vec<String> = events("escapes.json").into_iter().map(|e| e.0).collect();
    assert_eq!(
        names[0],
        "quote \" backslash \\ slash / b\u{8} f\u{c} n\n r\r t\t AA eé nul\0 one\u{1} smile 😀 end"
    );
    assert_eq!((names[3].as_str(), names[6].as_str()), ("lone \u{fffd} end", "low \u{fffd} end"));
    assert_eq!(names[7], "café 😀");
    assert_eq!(events("escaped_keys.json")[3].0, "aten::relu");
    assert_eq!(events("duplicate_keys.json")[3], ("aten::relu".to_string(), 1_060_400, 30_500));
}

#[test]
fn times_are_exact_in_every_spelling() {
    let exponents =
        [(1_000_100, 50_250), (1_100_300, 50_250), (1_200_000, 50_000), (1_300_125, 50_000), (1_400_000, 0)];
    assert_eq!(times("exponents.json"), exponents);
    let decimals = [
        (1_000_100, 50_000),
        (1_000_102, 50_002),
        (1_001_000, 51_000),
        (1_000_101, 50_000),
        (1_000_101, 50_001),
        (1_000_100, 50_123),
    ];
    assert_eq!(times("six_decimals.json"), decimals);
    let starts = |path| times(path).into_iter().map(|t| t.0).collect::<Vec<_>>();
    assert_eq!(starts("epoch_with_fraction.json"), [1_711_964_646_001_000_123, 1_711_964_646_001_000_999]);
    assert_eq!(starts("negative_ts.json"), [-12_500, -1, 0]);
    assert_eq!(starts("ts_strings.json")[0], 1_000_100);
    assert!(loaded("epoch_overflow.json").columns.ts.iter().all(|t| (BASE..=BASE + 1_150_200).contains(t)));
}

#[test]
fn texts_survive_the_borders_of_compressed_members_and_any_length() {
    assert_eq!(events("multi_member.json.gz")[3].0, "aten::relu");
    assert_eq!(events("huge_string.json.gz")[3].0, "x".repeat(300_000));
}

#[test]
fn begin_and_end_pair_per_thread_as_a_stack() {
    let mut found = events("be_nested.json");
    found.sort();
    let expected = [("inner", 110_000, 10_000), ("other", 115_000, 15_000), ("outer", 100_000, 50_000)];
    assert_eq!(found, expected.map(|(n, t, d)| (n.to_string(), t, d)));
    assert_eq!(events("be_unmatched.json"), [("paired".to_string(), 110_000, 10_000)]);
    assert!(events("be_among_complete.json").iter().any(|e| e.0 == "manual" && e.2 == 10_250));
}

#[test]
fn refusals_say_what_was_found() {
    for (path, found) in [
        ("truncated_in_header.json", "found the end of the file before the first"),
        ("interleaved.json", "two writers wrote to it"),
        ("empty.json", "found an empty file"),
        ("blank.json", "found an empty file"),
        ("text.json", "found not JSON"),
        ("not_a_trace.json", "found JSON without `traceEvents`"),
        ("trace_events_empty.json", "expected events, found none"),
        ("empty_array.json", "expected events, found none"),
        ("execution_trace.json", "PyTorch execution trace"),
        ("sqlite.json", "SQLite database"),
        ("rocprof_results.json", "rocprofv3"),
        ("profile.xplane.pb", "a trace of TensorFlow or JAX (XLA)"),
    ] {
        let error = read(&fixture(path), Spread::Inline, Chunks::default()).err().map(|e| e.to_string());
        assert!(error.as_ref().is_some_and(|e| e.contains(found)), "{path}: {error:?}");
    }
}

/// A decoder that has failed may report the end of the data after it has returned all the text.
#[test]
fn a_wrong_checksum_is_no_silent_loss() {
    let mut packed = std::fs::read(fixture("gz_named_json.json")).unwrap();
    let checksum = packed.len() - 8;
    packed[checksum] ^= 1;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.json.gz");
    std::fs::write(&path, packed).unwrap();
    for spread in [Spread::Inline, Spread::AllCores] {
        let t = read(&path, spread, Chunks::default()).unwrap();
        assert_eq!((t.columns.len(), t.columns.health.count(Counter::Truncated)), (6, 1));
    }
}

#[test]
fn times_that_cannot_be_never_reach_an_analysis() {
    let event =
        |ts: &str, dur: &str| format!(r#"{{"ph":"X","cat":"kernel","name":"k","ts":{ts},"dur":{dur}}}"#);
    let list = [
        event("1", "2"),
        event("0", "9223372036854775807"),
        event("-9223372036854775.808", "1"),
        event("9e15", "1"),
        event("5", "-1e300"),
    ];
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.json");
    std::fs::write(&path, format!("[{}]", list.join(","))).unwrap();
    let c = read(&path, Spread::Inline, Chunks::default()).unwrap().columns;
    assert_eq!((&c.ts[..], &c.dur[..]), (&[1_000, 0, 5_000][..], &[2_000, 0, 0][..]));
    let counts =
        [Counter::TimeOverflow, Counter::DurOverflow, Counter::DurNegative].map(|k| c.health.count(k));
    assert_eq!(counts, [2, 1, 1]);
}

#[test]
fn deep_nesting_costs_no_stack_wherever_it_stands() {
    let deep = "[".repeat(2_000_000) + &"]".repeat(2_000_000);
    let event = r#"{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1,"dur":1,"args":{"x":DEEP,"grid":DEEP}}"#;
    let text = format!(r#"{{"distributedInfo":{deep},"traceEvents":[{event}],"odd":{deep}}}"#)
        .replace("DEEP", &deep);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.json");
    std::fs::write(&path, text).unwrap();
    let answer = try_run(&[path], &options()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(answer.rows("ranks")[0].int("event_count"), 1);
}

/// Events of every kind, good and bad.
const PARTS: [&str; 24] = [
    r#"{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":2,"ts":1.5,"dur":2.25,"args":{"External id":1}}"#,
    r#"{"ph":"X","cat":"kernel","name":"k<{\"ph\": \"X\"}>","pid":0,"tid":7,"ts":3.125,"dur":1,"args":{"stream":7}}"#,
    r#"{"name":"late phase","ts":4,"dur":1,"tid":"a","pid":"b","cat":"x","ph":"X"}"#,
    "{\"ph\":\"X\",\"cat\":\"c\u{1}\",\"name\":\"n\u{1}\",\"pid\":\"p\u{1}\",\"tid\":\"t\u{1}\",\"ts\":5,\"dur\":1}",
    r#"{"ph":"X","cat":"c\q","name":"n\ud800","pid":"p\q","tid":"\u0074","ts":5,"dur":1}"#,
    r#"{"ph":"X","cat":"cpu_op","name":"bare "quotes" here","pid":1,"tid":2,"ts":6,"dur":1}"#,
    r#"{"ph":"X","cat":"cpu_op","name":"broken","pid":1,"tid":2,"ts":7,"dur":1,"args":{"a": "x "y" z", "b": 1}}"#,
    r#"{"ph":"X","cat":"cpu_op","name":"odd quote","pid":1,"tid":2,"ts":7,"dur":1,"args":{"a": "x" y", "b": 1}}"#,
    r#"{"ph":"B","name":"b","pid":1,"tid":2,"ts":8}"#,
    r#"{"ph":"E","pid":1,"tid":2,"ts":9}"#,
    r#"{"ph":"i","name":"Record Window End","ts":20}"#,
    r#"{"ph":"s","cat":"ac2g","id":3,"pid":1,"tid":2,"ts":9}"#,
    r#"{"ph":"f","cat":"fwdbwd","id":3,"pid":1,"tid":2,"ts":9}"#,
    r#"{"ph":"M","name":"thread_name","pid":1,"tid":2,"args":{"name":"main"}}"#,
    r#"{"ph":"X","name":"no dur","ts":1}"#,
    r#"{"ph":"X","name":"no ts","dur":1}"#,
    r#"{"name":"no ph","ts":1,"dur":1}"#,
    r#"{"ph":"X","name":"twice","name":"again","ts":1,"dur":inf,"args":{"bytes":"7"},"args":{"stream":99999999999999999999}}"#,
    "null",
    "[1, {\"ph\":\"X\",\"name\":\"inside\",\"ts\":1,\"dur\":1}]",
    "\"text, {\\\"ph\\\": 1}\"",
    "{}",
    "@",
    "",
];

/// Everything that was read, as text.
fn digest(read: Result<Loaded, ReadError>) -> String {
    let l = match read {
        Ok(l) => l,
        Err(e) => return e.to_string(),
    };
    let c = &l.columns;
    let text = |s| c.strings.get(s);
    let mut out = format!("{:?}\n{} bytes\n", l.meta, l.unpacked_bytes);
    for i in 0..c.len() {
        let lane = c.lanes[c.lane[i] as usize];
        let cat = c.categories[usize::from(c.cat[i])].text;
        let row = (text(c.name(i)), text(cat), c.ts[i], c.dur[i], text(lane.pid), text(lane.tid));
        let _ = writeln!(out, "{row:?}");
    }
    let texts: Vec<&str> = c.strings.iter().map(|s| s.1).collect();
    let _ = writeln!(out, "{texts:?}\n{:?} {:?} {:?}", c.phases, c.flows, c.launch_flows);
    let _ = writeln!(out, "{:?} {:?} {:?}", c.lane_names, c.flow_counts, (c.window_start, c.window_end));
    for spec in ARGS {
        let column = c.args.column(spec.id);
        let is_text = matches!(spec.ty, ArgType::Text | ArgType::Json);
        if !column.is_empty() {
            let _ = writeln!(out, "{} {:?} {is_text}", spec.column, column.iter().collect::<Vec<_>>());
        }
    }
    let _ = writeln!(out, "{:?} {:?}", c.args.rest.iter().collect::<Vec<_>>(), c.args.quoted_ids);
    for (counter, tally) in c.health.iter() {
        let _ = writeln!(out, "{} {tally:?}", counter.spec().name);
    }
    out
}

/// A document, shown as text when a test fails.
#[derive(Clone)]
struct Text(Vec<u8>);

impl std::fmt::Debug for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.escape_ascii().to_string())
    }
}

/// Documents of such events, with keys before and after them, truncated or not, with a damaged byte or not.
fn document() -> impl Strategy<Value = Text> {
    let parts = prop::collection::vec((prop::sample::select(&PARTS[..]), any::<bool>()), 0..40);
    let head = prop::sample::select(
        &[
            "{\"traceEvents\":[",
            "[",
            "\n{\"schemaVersion\":1,\"INFO\":[\"a \"b\" c\"],\"traceEvents\": [",
            "{\"baseTimeNanoseconds\":7,\"distributedInfo\":{\"rank\":3},\"traceEv\\u0065nts\":[\n",
        ][..],
    );
    let tail = prop::sample::select(
        &[
            "]}",
            "]",
            "",
            "],\"distributedInfo\":{\"rank\":4},\"x\":[1,\"]}\"]}\n\n",
            "]}\0\0\0\0",
            "]} \"schemaVersion\"",
            "],\"schemaVersion\":1\u{1c}\n\"deviceProperties\":[],\"traceName\":\"/tmp/t.json\"}",
        ][..],
    );
    let cut = prop::option::weighted(0.2, any::<prop::sample::Index>());
    let damage = prop::option::weighted(0.3, (any::<prop::sample::Index>(), any::<u8>()));
    (head, parts, tail, cut, damage).prop_map(|(head, parts, tail, cut, damage)| {
        let mut text = head.as_bytes().to_vec();
        for (i, (part, pretty)) in parts.iter().enumerate() {
            text.extend_from_slice(if i == 0 { b"" } else { b"," });
            let part = if *pretty { part.replace(",\"", ",\n    \"") + "\n" } else { (*part).to_string() };
            text.extend_from_slice(part.as_bytes());
        }
        text.extend_from_slice(tail.as_bytes());
        if let Some((at, byte)) = damage {
            let at = at.index(text.len());
            text[at] = byte;
        }
        if let Some(at) = cut {
            text.truncate(at.index(text.len()));
        }
        Text(text)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn neither_blocks_nor_pieces_change_what_is_read(text in document(), piece in 1usize..400) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        std::fs::write(&path, &text.0).unwrap();
        let whole = digest(read(&path, Spread::Inline, Chunks::default()));
        for block in [1, 7, 64] {
            let blocks = digest(read(&path, Spread::Inline, Chunks { block, piece }));
            prop_assert_eq!(&blocks, &whole, "blocks of {}", block);
            let pieces = digest(read(&path, Spread::AllCores, Chunks { block, piece }));
            prop_assert_eq!(&pieces, &whole, "pieces of {}", piece);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Bytes that a decoder decompresses in the call in which it meets damage are read, however many were requested.
    #[test]
    fn damage_of_packed_files_costs_the_same_in_any_blocks_and_on_any_threads(
        text in document(),
        is_gzip in any::<bool>(),
        damage in (any::<prop::sample::Index>(), 1u8..),
    ) {
        let mut packed = if is_gzip { gzip(&text.0) } else { zstandard(&text.0) };
        // Keep the magic number, so that the file is still recognized as compressed.
        let at = 4 + damage.0.index(packed.len() - 4);
        packed[at] ^= damage.1;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        std::fs::write(&path, &packed).unwrap();
        let whole = digest(read(&path, Spread::Inline, Chunks::default()));
        prop_assert_eq!(&digest(read(&path, Spread::AllCores, Chunks::default())), &whole);
        for block in [1, 64, 700] {
            let chunks = Chunks { block, piece: 300 };
            prop_assert_eq!(&digest(read(&path, Spread::Inline, chunks)), &whole, "blocks of {}", block);
        }
    }
}

/// Complete runs over damaged files must give an answer or an error, without a panic in any analysis.
#[test]
fn analyses_bear_what_damage_leaves() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.json");
    let options = options();
    for name in
        ["clean.json", "d19_step_numbers.json", "d25_comm_args_missing.json", "d30_python_and_memory.json"]
    {
        let text = std::fs::read(fixture(name)).unwrap();
        for (i, at) in (0..text.len()).step_by(5).enumerate() {
            let mut damaged = text.clone();
            damaged[at] = *b"\"{}],9e-.0\\".get(i % 11).unwrap();
            std::fs::write(&path, damaged).unwrap();
            let _ = try_run(std::slice::from_ref(&path), &options);
        }
    }
}
