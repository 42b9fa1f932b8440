//! Benchmark of the stages of a run, in bytes of JSON per second: decompression, scanning, linking, every analysis,
//! Parquet.
//!
//! ```text
//! cargo bench --bench stages                          the largest sample
//! HTA_TRACE=big.json.gz cargo bench --bench stages    a trace of your own
//! cargo bench --bench stages -- map/queue             one stage
//! ```
//!
//! Each stage starts from the result of the stages before it, so the times add up to a run on one thread. An analysis
//! is measured as `map` on a freshly linked trace, because shared facts are computed by the first analysis that needs
//! them. So each includes what it needs, and their sum is more than a run takes; `map_all` is what a run takes.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use hta::analysis::api::{Analysis, Options, Wanted};
use hta::output::folder::Folder;
use hta::output::inputs::Inputs;
use hta::output::place::{OutputPlace, RESULTS};
use hta::read::discover::discover;
use hta::read::input::Input;
use hta::read::kineto::document::Document;
use hta::read::load::load;
use hta::read::options::LoadOptions;
use hta::read::reading::{Loaded, Spread};
use hta::read::source::ByteCount;
use hta::registry::ANALYSES;
use hta::run::RowSink;
use hta::table::schema::Batch;
use hta::trace::meta::RankSource;
use hta::trace::rank_trace::{ModelOptions, RankTrace};
use hta::trace::step::StepWindow;
use std::hint::black_box;
use std::io::Read;
use std::path::PathBuf;

const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/samples/gloo_ddp4/rank_0.pt.trace.json.gz");

/// All rows that an analysis emits for a rank.
fn mapped(analysis: &dyn Analysis, trace: &RankTrace, options: &Options) -> Vec<Batch> {
    let mut rows = Vec::new();
    analysis.map(trace, options, &mut |batch| rows.push(batch));
    rows
}

struct Source {
    input: Input,
    options: Options,
}

impl Source {
    fn new() -> Self {
        let path = std::env::var_os("HTA_TRACE").map_or_else(|| PathBuf::from(SAMPLE), PathBuf::from);
        let input = discover(&[path]).expect("the trace is there").remove(0);
        Self { input, options: options() }
    }

    fn load(&self) -> Loaded {
        self.load_with(false)
    }

    fn load_with(&self, event_args: bool) -> Loaded {
        let options = LoadOptions { event_args, ..LoadOptions::default() };
        load(&self.input, options, Spread::Inline, &ByteCount::default()).expect("it is a trace")
    }

    fn link(&self, loaded: Loaded) -> RankTrace {
        let Loaded { columns, meta, unpacked_bytes } = loaded;
        let rank = meta.rank.unwrap_or(0);
        let (shown, model) = (self.input.shown.clone(), &self.options.model);
        RankTrace::new(rank, RankSource::File, shown, unpacked_bytes, meta, columns, model)
    }
}

/// The default options without events, and with the windows of steps on the host.
fn options() -> Options {
    let model = ModelOptions { step_window: StepWindow::Host, ..ModelOptions::default() };
    Options { model, wanted: Wanted::NoEvents, ..Options::default() }
}

fn stages(c: &mut Criterion) {
    let source = Source::new();
    let packed = std::fs::read(&source.input.path).expect("the trace is there");
    let mut text = Vec::new();
    if packed.starts_with(&[0x1f, 0x8b]) {
        flate2::read::MultiGzDecoder::new(&packed[..]).read_to_end(&mut text).expect("it is gzip");
    } else {
        text.clone_from(&packed);
    }
    let size = text.len();
    let mut group = c.benchmark_group("stages");
    group.throughput(Throughput::Bytes(size as u64)).sample_size(10);
    if packed.len() < size {
        group.bench_function("unpack", |b| {
            b.iter(|| {
                let mut out = Vec::with_capacity(size);
                flate2::read::MultiGzDecoder::new(&packed[..]).read_to_end(&mut out).expect("it is gzip");
                black_box(out.len())
            });
        });
    }
    for (name, event_args) in [("scan", false), ("scan_all_arguments", true)] {
        group.bench_function(name, |b| {
            b.iter(|| {
                let mut d = Document::new(LoadOptions { event_args, ..LoadOptions::default() });
                d.feed_last(&text, false).expect("it is a trace");
                black_box(d.reader.columns.len())
            });
        });
    }
    drop(text);
    group.bench_function("load", |b| b.iter(|| black_box(source.load().columns.len())));
    group.bench_function("link", |b| {
        b.iter_batched(|| source.load(), |loaded| black_box(source.link(loaded)), BatchSize::PerIteration);
    });
    group.bench_function("map_all", |b| {
        b.iter_batched(
            || source.link(source.load()),
            |trace| ANALYSES.iter().for_each(|a| drop(black_box(mapped(*a, &trace, &source.options)))),
            BatchSize::PerIteration,
        );
    });
    for analysis in ANALYSES {
        group.bench_function(format!("map/{}", analysis.stem()), |b| {
            b.iter_batched(
                || source.link(source.load()),
                |trace| black_box(mapped(*analysis, &trace, &source.options)),
                BatchSize::PerIteration,
            );
        });
    }
    let trace = source.link(source.load());
    let rows: Vec<_> = ANALYSES.iter().map(|a| mapped(*a, &trace, &source.options)).collect();
    let place = tempfile::tempdir().expect("there is a place for temporary files");
    let out = place.path().join("out");
    let folder = || {
        let place = OutputPlace::find(&RESULTS, &out, &Inputs::default(), true).expect("the place is free");
        Folder::create(place, Some(false)).expect("the place can be written")
    };
    group.bench_function("parquet_tables", |b| {
        b.iter_batched(
            || (folder(), rows.clone()),
            |(folder, rows)| {
                rows.into_iter().flatten().for_each(|r| folder.rows(r).expect("rows can be written"));
                folder.finish().expect("the folder can be closed");
            },
            BatchSize::PerIteration,
        );
    });
    let trace = source.link(source.load_with(true));
    group.bench_function("parquet_events", |b| {
        b.iter_batched(folder, |f| f.trace(&trace).expect("events can be written"), BatchSize::PerIteration);
    });
    group.finish();
}

criterion_group!(benches, stages);
criterion_main!(benches);
