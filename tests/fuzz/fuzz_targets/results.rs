//! The table `steps` of a results folder: any bytes must be read within the memory limit or refused, by what single
//! commands and statements read tables with.

#![no_main]

use hta::registry::ANALYSES;
use hta::results::Results;
use hta::sql::{engine, results, statement::Statement};
use hta::units::MemoryLimit;
use libfuzzer_sys::fuzz_target;
use std::fs;
use std::sync::Once;

/// As in `partials`: panics of the Parquet decoders are caught and accepted.
static CAUGHT: Once = Once::new();

fuzz_target!(|data: &[u8]| {
    CAUGHT.call_once(|| std::panic::set_hook(Box::new(|_| {})));
    let folder = std::env::temp_dir().join(format!("hta-fuzz-results-{}", std::process::id()));
    fs::create_dir_all(folder.join("tables")).expect("a folder");
    fs::write(folder.join("summary.json"), "{\"empty_tables\": []}").expect("a file");
    fs::write(folder.join("tables/steps.parquet"), data).expect("a file");
    let limit = Some(MemoryLimit { bytes: 128 << 20, given: true });
    let spec = ANALYSES.iter().flat_map(|a| a.tables()).find(|t| t.name == "steps").expect("it is declared");
    let found = Results::open(folder.as_path()).expect("results").within(limit);
    let _ = found.batches(spec);
    let statement = Statement::new("SELECT * FROM steps").expect("a statement");
    if let Ok(tables) = results::load(&found, &statement, limit) {
        let _ = engine::run(&statement, tables, |t| found.columns(t));
    }
});
