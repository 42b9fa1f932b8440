//! What is a step, and which time is its window, in traces that are written and read.

mod evidence;
mod no_step;
mod window;

use hta::read::input::Input;
use hta::read::load::load;
use hta::read::options::LoadOptions;
use hta::read::reading::Spread;
use hta::read::source::ByteCount;
use hta::trace::meta::RankSource;
use hta::trace::rank_trace::{ModelOptions, RankTrace};
use hta_testkit::TraceBuilder;

/// The model of a trace that is written and read.
fn rank(t: &TraceBuilder, options: &ModelOptions) -> RankTrace {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rank_0.json");
    std::fs::write(&path, t.to_json()).unwrap();
    let input = Input::named(path);
    let l = load(&input, LoadOptions::default(), Spread::Inline, &ByteCount::default()).unwrap();
    l.into_trace(0, RankSource::File, input.shown, options)
}
