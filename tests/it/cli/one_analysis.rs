//! Runs one analysis over one built trace.

use crate::run::{Answer, Keep, Quiet};
use hta::analysis::api::{Analysis, Options};
use hta::read::discover::discover;
use hta::read::options::LoadOptions;
use hta::registry::find;
use hta::run::{Request, run};
use hta_testkit::{Format, TraceBuilder};
use std::path::PathBuf;

/// The answer of the analysis `stem` alone, over files.
pub fn of_files(stem: &str, paths: &[PathBuf], options: &Options) -> Answer {
    let analyses: Vec<&'static dyn Analysis> = vec![find(stem).expect("a known analysis")];
    let inputs = discover(paths).expect("files that exist");
    let keep = Keep::default();
    let load = LoadOptions::default();
    let request = Request { inputs: &inputs, analyses: &analyses, options, load, ranks: &[] };
    let outcome = run(&request, &keep, &Quiet).unwrap_or_else(|e| panic!("{paths:?}: {e}"));
    Answer::of(outcome, keep, options)
}

/// The same over a built trace.
pub fn of_trace(stem: &str, trace: &TraceBuilder, options: &Options) -> Answer {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("rank_0.json");
    std::fs::write(&path, trace.to_bytes(&Format::default())).expect("a temporary file can be written");
    of_files(stem, &[path], options)
}

/// Sets an option of an analysis as a user writes it.
pub fn set(options: &mut Options, stem: &str, flag: &str, value: &str) {
    let settings = find(stem).expect("a known analysis").about().settings;
    let setting = settings.iter().find(|s| s.flag == flag).expect("a declared option");
    options.settings.set(setting, value).expect("a good value");
}
