//! `hta query`: the catalog, its answers on results and on traces, and the command as a user sees it.

mod answers;
mod catalog;
mod command;
mod evidence;
#[cfg(target_os = "linux")]
mod limits;
mod meaning;
mod texts;

use hta::results::Results;
use hta::sql::answer::QueryAnswer;
use hta::sql::catalog::Query;
use hta::sql::engine;
use hta::sql::results::load;
use hta::sql::statement::Statement;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Folders of the samples.
const SAMPLES: [&str; 8] =
    ["gpu_ddp8", "gpu_pp4", "gpu_ep4", "gpu_single", "gpu_counters", "gpu_cuspy", "gloo_ddp4", "cpu_single"];

/// The traces of a sample, as a user in the repository names them.
fn traces(sample: &str) -> PathBuf {
    Path::new("data/samples").join(sample)
}

/// The results of a sample, made once for all tests.
fn results(sample: &str) -> PathBuf {
    static MADE: OnceLock<tempfile::TempDir> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for sample in SAMPLES {
            let mut hta = Command::new(env!("CARGO_BIN_EXE_hta"));
            let hta = hta.arg("analyze").arg(traces(sample)).arg("-o").arg(folder.path().join(sample));
            let run = hta.current_dir(ROOT).output().expect("hta runs");
            assert!(
                run.status.code().is_some_and(|c| c < 2),
                "{sample}: {}",
                String::from_utf8_lossy(&run.stderr)
            );
        }
        folder
    });
    made.path().join(sample)
}

/// The answer to a statement on the results of a sample.
fn ask(sample: &str, text: &str) -> QueryAnswer {
    let statement = Statement::new(text).unwrap_or_else(|e| panic!("{e}: {text}"));
    let results = Results::open(results(sample)).unwrap_or_else(|e| panic!("{e}"));
    let tables = load(&results, &statement, None).unwrap_or_else(|e| panic!("{e}: {text}"));
    engine::run(&statement, tables, |t| results.columns(t))
        .unwrap_or_else(|e| panic!("{sample}: {e}: {text}"))
}

/// The answer to a query of the catalog.
fn answer(sample: &str, query: &Query) -> QueryAnswer {
    ask(sample, query.text)
}
