//! Benchmark of event readers: hta's scanner against simd-json's tape and serde_json structs.
//!
//! `cargo bench --bench reader` reads the largest sample (decompressed into memory once) with
//!  - `hta`: the scanner, straight from bytes to columns with interned texts,
//!  - `simd_json_tape`: simd-json's tape over event-sized slices, names interned, times parsed,
//!  - `serde_json_structs`: serde_json into borrowed structs over event-sized slices, the same work,
//!  - `gzip_inflate`: decompression alone, for comparison.
//!
//! All report bytes of JSON per second.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use hta::read::kineto::cursor::Cursor;
use hta::read::kineto::document::Document;
use hta::read::kineto::number::{Fraction, FractionShapes, micros_to_ns};
use hta::read::options::LoadOptions;
use hta::trace::strings::Interner;
use serde::Deserialize;
use simd_json::prelude::*;
use std::borrow::Cow;
use std::hint::black_box;
use std::io::Read;

const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/samples/gloo_ddp4/rank_0.pt.trace.json.gz");

fn unpacked() -> Vec<u8> {
    let packed = std::fs::read(SAMPLE).expect("the sample is part of the repository");
    let mut text = Vec::new();
    flate2::read::MultiGzDecoder::new(&packed[..]).read_to_end(&mut text).expect("the sample is gzip");
    text
}

/// The slice of every event, found by the tokenizer.
fn event_slices(text: &[u8]) -> Vec<&[u8]> {
    let key = b"\"traceEvents\":";
    let at = memchr::memmem::find(text, key).expect("the sample has events") + key.len();
    let mut c = Cursor::new(text, at);
    c.expect(b'[').expect("an array");
    let mut out = Vec::new();
    loop {
        match c.peek().expect("the sample is complete") {
            b',' => c.pos += 1,
            b']' => return out,
            _ => {
                let token = c.value().expect("an event");
                out.push(&text[token.start..token.end]);
            }
        }
    }
}

/// The data of an event that both competitors keep.
#[derive(Default)]
struct Kept {
    ts: Vec<i64>,
    dur: Vec<i64>,
    name: Vec<u32>,
    correlation: Vec<Option<u64>>,
    strings: Interner,
    shapes: FractionShapes,
}

impl Kept {
    fn push(&mut self, name: &str, ts: &str, dur: &str, correlation: Option<u64>) {
        let mut ns = |t: &str| micros_to_ns(t.as_bytes(), Fraction::Decimal, &mut self.shapes).unwrap_or(0);
        self.ts.push(ns(ts));
        self.dur.push(ns(dur));
        self.name.push(self.strings.intern(name).0);
        self.correlation.push(correlation);
    }
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, default)]
    ph: Cow<'a, str>,
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    ts: Option<&'a serde_json::value::RawValue>,
    #[serde(borrow)]
    dur: Option<&'a serde_json::value::RawValue>,
    #[serde(default)]
    args: Args,
}

#[derive(Deserialize, Default)]
struct Args {
    correlation: Option<u64>,
}

fn readers(c: &mut Criterion) {
    let text = unpacked();
    let slices = event_slices(&text);
    let mut group = c.benchmark_group("reader");
    group.throughput(Throughput::Bytes(text.len() as u64));
    for (name, event_args) in [("hta", false), ("hta_all_arguments", true)] {
        group.bench_function(name, |b| {
            b.iter(|| {
                let mut d = Document::new(LoadOptions { event_args, ..LoadOptions::default() });
                d.feed_last(&text, false).expect("the sample is a trace");
                black_box(d.reader.columns.len())
            });
        });
    }
    group.bench_function("simd_json_tape", |b| {
        let mut scratch = Vec::new();
        b.iter(|| {
            let mut kept = Kept::default();
            for slice in &slices {
                scratch.clear();
                scratch.extend_from_slice(slice);
                let Ok(tape) = simd_json::to_tape(&mut scratch) else { continue };
                let e = tape.as_value();
                let text = |key: &str| e.get(key).and_then(|v| v.into_string());
                if text("ph") == Some("X") {
                    // The tape stores numbers as f64; exact times would need the text again.
                    let number = |key: &str| {
                        e.get(key).and_then(|v| v.cast_f64()).map(|v| v.to_string()).unwrap_or_default()
                    };
                    let correlation =
                        e.get("args").and_then(|a| a.get("correlation")).and_then(|v| v.as_u64());
                    kept.push(text("name").unwrap_or(""), &number("ts"), &number("dur"), correlation);
                }
            }
            black_box(kept.ts.len())
        });
    });
    group.bench_function("serde_json_structs", |b| {
        b.iter(|| {
            let mut kept = Kept::default();
            for slice in &slices {
                let Ok(e) = serde_json::from_slice::<Event>(slice) else { continue };
                if e.ph == "X" {
                    kept.push(
                        &e.name,
                        e.ts.map_or("", |t| t.get()),
                        e.dur.map_or("", |t| t.get()),
                        e.args.correlation,
                    );
                }
            }
            black_box(kept.ts.len())
        });
    });
    group.bench_function("gzip_inflate", |b| {
        let packed = std::fs::read(SAMPLE).expect("the sample is part of the repository");
        b.iter(|| {
            let mut out = Vec::with_capacity(text.len());
            flate2::read::MultiGzDecoder::new(&packed[..]).read_to_end(&mut out).expect("the sample is gzip");
            black_box(out.len())
        });
    });
    group.finish();
}

criterion_group!(benches, readers);
criterion_main!(benches);
