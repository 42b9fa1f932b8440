//! Tests of the file around the rows.

use std::io::Read;

use crate::tests::*;

#[test]
fn metadata_names_rank_world_host_and_device() {
    let file = parse(one_kernel().to_json().as_bytes());
    assert_eq!(file["distributedInfo"]["rank"], 3);
    assert_eq!(file["distributedInfo"]["world_size"], 8);
    assert_eq!(file["distributedInfo"]["pg_config"][0]["pg_size"], 8);
    assert_eq!(file["host_name"], "node-0");
    assert_eq!(file["deviceProperties"][0]["numSms"], 132);
    assert_eq!(file["baseTimeNanoseconds"].as_i64(), Some(DEFAULT_BASE_NS));
}

#[test]
fn a_trace_without_rank_has_no_distributed_info() {
    let file = parse(TraceBuilder::new().to_json().as_bytes());
    assert!(file.get("distributedInfo").is_none());
    assert!(events(&file).is_empty());
}

#[test]
fn every_era_says_the_same_start() {
    let mut t = TraceBuilder::new();
    t.thread(1).op("x", ns(1_234_567)..ns(1_240_568));
    let origin = DEFAULT_BASE_NS + 1_000_000_000_000;
    let text = |era| String::from_utf8_lossy(&t.to_bytes(&Format { era, ..Format::default() })).into_owned();
    assert!(text(Era::Base).contains("\"ts\": 1000001234.567, \"dur\": 6.001"));
    assert!(
        text(Era::Decimal).contains(&format!("\"ts\": {}.567, \"dur\": 6.001", (origin + 1_234_000) / 1000))
    );
    assert!(
        text(Era::Microseconds).contains(&format!("\"ts\": {}, \"dur\": 6,\n", (origin + 1_234_000) / 1000))
    );
    assert!(!text(Era::Decimal).contains("baseTimeNanoseconds"));
}

#[test]
fn metadata_and_base_stand_where_they_are_asked_to() {
    let t = one_kernel();
    let order = |format: &Format| {
        let text = String::from_utf8_lossy(&t.to_bytes(format)).into_owned();
        let at = |key: &str| text.find(key).unwrap_or(usize::MAX);
        let events = at("traceEvents");
        [at("schemaVersion") < events, at("distributedInfo") < events, at("baseTimeNanoseconds") < events]
    };
    let base = Format { base: MetadataSide::After, ..Format::default() };
    assert_eq!(order(&Format::default()), [true, true, true]);
    assert_eq!(order(&base), [true, true, false]);
    assert_eq!(order(&Format { metadata: Placement::Both, ..Format::default() }), [true, false, true]);
    assert_eq!(order(&Format { metadata: Placement::After, ..base }), [false, false, false]);
}

#[test]
fn root_layout_ids_and_times_are_still_json() {
    let t = one_kernel();
    let array = in_format(&t, Format { root: Root::Array, layout: WhiteSpace::Compact, ..Format::default() });
    assert_eq!(array.as_array().map(Vec::len), Some(t.event_count()));
    let file = in_format(&t, Format { ids: Ids::Text, times: Times::Text, ..Format::default() });
    let kernel = named(&file, "sgemm");
    assert_eq!((&kernel["tid"], &kernel["dur"]), (&"stream 7".into(), &"60.000".into()));
    assert_eq!(named(&file, "aten::mm")["tid"], "1");
    let compact = t.to_bytes(&Format { layout: WhiteSpace::Compact, ..Format::default() });
    assert!(!compact.contains(&b'\n'));
    assert_eq!(events(&parse(&compact)), events(&parse(t.to_json().as_bytes())));
}

#[test]
fn legacy_categories_are_capitalised() {
    let mut t = one_kernel();
    t.thread(1).step(5, us(0)..us(200));
    let file = in_format(&t, Format { categories: CategorySpelling::Legacy, ..Format::default() });
    let kernel = named(&file, "sgemm");
    assert_eq!((&kernel["cat"], &kernel["args"]["external id"]), (&"Kernel".into(), &1.into()));
    assert_eq!(named(&file, "ProfilerStep#5")["cat"], "Operator");
    assert_eq!(named(&file, "cudaLaunchKernel")["cat"], "Runtime");
}

#[test]
fn broken_text_goes_into_the_file_as_it_is() {
    let mut t = TraceBuilder::new().top_level("INFO", "[\"a \"quoted\" word\"]");
    t.thread(1).op("x", us(0)..us(1)).raw_name(b"a \"b\" \xff").raw_arg("rate", "inf");
    t.raw_event(b"{\"ph\": \"X\", cut");
    let bytes = t.to_bytes(&Format::default());
    let contains = |part: &[u8]| bytes.windows(part.len()).any(|w| w == part);
    assert!(contains(b"\"name\": \"a \"b\" \xff\""));
    assert!(contains(b"\"rate\": inf"));
    assert!(contains(b"{\"ph\": \"X\", cut"));
    assert!(contains(b"\"INFO\": [\"a \"quoted\" word\"]"));
}

#[test]
fn a_top_level_key_replaces_the_builders_own() {
    let t = one_kernel().top_level("distributedInfo", "{\"rank\": \"3\"}").top_level("with_stack", "1");
    let file = parse(t.to_json().as_bytes());
    assert_eq!(file["distributedInfo"]["rank"], "3");
    assert_eq!(file["with_stack"], 1);
    assert_eq!(t.to_json().matches("distributedInfo").count(), 1);
}

#[test]
fn external_ids_can_repeat_the_correlation_or_be_absent() {
    let t = one_kernel();
    let with = |external_ids| named(&in_format(&t, Format { external_ids, ..Format::default() }), "sgemm");
    let trap = with(ExternalIds::Correlation);
    assert_eq!(trap["args"]["External id"], trap["args"]["correlation"]);
    assert!(with(ExternalIds::Absent)["args"].get("External id").is_none());
}

#[test]
fn shuffling_keeps_the_events_and_a_seed_repeats_itself() {
    let mut t = TraceBuilder::new();
    for n in 0..50 {
        t.thread(1).op(&format!("op {n}"), us(n)..us(n + 1));
    }
    let with = |shuffle| t.to_bytes(&Format { shuffle, layout: WhiteSpace::Compact, ..Format::default() });
    assert_eq!(with(Some(1)), with(Some(1)));
    assert_ne!(with(Some(1)), with(Some(2)));
    let sorted = |bytes: Vec<u8>| {
        let mut lines: Vec<String> = events(&parse(&bytes)).iter().map(Value::to_string).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(with(Some(1))), sorted(with(None)));
}

#[test]
fn gzip_unpacks_to_the_same_bytes_and_repeats_itself() {
    let t = one_kernel();
    let packed = t.to_gz(&Format::default()).expect("writing to memory");
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut plain).expect("a gzip stream");
    assert_eq!(plain, t.to_bytes(&Format::default()));
    assert_eq!(packed, t.to_gz(&Format::default()).expect("writing to memory"));
}
