//! What ranks leave gives the same bytes whether it stays in memory or is spooled, as a result and as a partial.

use crate::run::{Quiet, options};
use crate::shared::{Files, contents, samples};
use hta::analysis::api::{Analysis, Output};
use hta::output::folder::Folder;
use hta::output::inputs::Inputs;
use hta::output::place::{Layout, OutputPlace, RESULTS};
use hta::output::tables::RowGrouping;
use hta::partial::{LAYOUT, OptionTexts, leave, record};
use hta::read::discover::discover;
use hta::read::options::LoadOptions;
use hta::registry::ANALYSES;
use hta::run::{Extent, Request, RowSink, map, run};
use hta::store::Spool;
use hta::table::schema::Batch;
use hta::trace::rank_trace::RankTrace;
use std::io;

/// A folder of results whose ranks are spooled above some bytes.
struct Spooling {
    folder: Folder,
    above: usize,
}

impl RowSink for Spooling {
    fn rows(&self, rows: Batch) -> io::Result<()> {
        self.folder.rows(rows)
    }

    fn trace(&self, trace: &RankTrace) -> io::Result<()> {
        self.folder.trace(trace)
    }

    fn reduced(&self, analysis: &dyn Analysis, output: &mut Output) -> io::Result<()> {
        self.folder.reduced(analysis, output)
    }

    fn spool(&self) -> Spool {
        Spool { above: self.above, ..self.folder.spool() }
    }

    fn void(&self) -> io::Result<()> {
        self.folder.void()
    }
}

/// What a run over a set leaves with these threads, where more than `above` bytes are spooled.
fn left(set: &str, extent: Extent, threads: usize, above: usize) -> Files {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let out = dir.path().join("out");
    let is_part = extent == Extent::Part;
    let layout: &'static Layout = if is_part { &LAYOUT } else { &RESULTS };
    let groups = if is_part { RowGrouping::ByRank } else { RowGrouping::ByWeight };
    let place = OutputPlace::find(layout, &out, &Inputs::default(), false).expect("an empty place");
    let sink = Spooling { folder: Folder::create_by(groups, place, None).expect("a folder"), above };
    let (inputs, options) = (discover(&[samples().join(set)]).expect("traces"), options());
    let load = LoadOptions { event_args: false, ..LoadOptions::default() };
    let request = Request { inputs: &inputs, analyses: ANALYSES, options: &options, load, ranks: &[] };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
    pool.install(|| {
        if is_part {
            let set = map(&request, extent, &sink, &Quiet).unwrap_or_else(|e| panic!("{e}"));
            leave(&sink.folder, &set, record(&options, None, &OptionTexts::default(), None, None))
                .expect("a partial");
        } else {
            let outcome = run(&request, &sink, &Quiet).unwrap_or_else(|e| panic!("{e}"));
            outcome
                .inventory
                .iter()
                .flat_map(|p| &p.tables)
                .for_each(|b| sink.folder.append(b).expect("rows"));
            sink.folder.summary(&outcome).expect("a summary");
        }
    });
    sink.folder.finish().expect("a complete folder");
    contents(&out)
}

#[test]
fn spooled_ranks_leave_the_same_bytes_as_those_in_memory() {
    for set in ["gpu_ddp8", "gloo_ddp4"] {
        for extent in [Extent::Whole, Extent::Part] {
            let in_memory = left(set, extent, 2, usize::MAX);
            assert!(in_memory.len() > 20, "{set}: {} files", in_memory.len());
            // after every table, and a few times in a run
            for (threads, above) in [(1, 0), (2, 0), (2, 200_000)] {
                let spooled = left(set, extent, threads, above);
                let differing: Vec<&String> = in_memory
                    .keys()
                    .chain(spooled.keys())
                    .filter(|k| in_memory.get(*k) != spooled.get(*k))
                    .collect();
                assert!(
                    differing.is_empty(),
                    "{set}, {extent:?}, {threads} threads, {above} bytes: {differing:?}"
                );
            }
        }
    }
}
