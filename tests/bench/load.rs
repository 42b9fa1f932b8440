//! Measures loading alone, as a separate process: decompression, scanning, columns.
//!
//! ```text
//! cargo build --release --example load
//! target/release/examples/load [--threads N] TRACE...
//! ```
//!
//! `tests/bench/end_to_end.py` compares it with `gzip -dc`. Every command begins with this; connecting launches with
//! kernels and finding steps come later and count as analysis. Prints the number of events and bytes of JSON.

use hta::read::discover::discover;
use hta::read::load::load;
use hta::read::options::LoadOptions;
use hta::read::reading::Spread;
use hta::read::source::ByteCount;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let mut arguments = std::env::args_os().skip(1).peekable();
    let mut threads = 1;
    if arguments.next_if(|a| a == "--threads").is_some() {
        let given = arguments.next().ok_or("cannot use `--threads`: expected a number behind it")?;
        threads = given.to_string_lossy().parse()?;
    }
    let inputs = discover(&arguments.map(PathBuf::from).collect::<Vec<_>>())?;
    let spread = if threads > 1 { Spread::AllCores } else { Spread::Inline };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    pool.install(|| {
        for input in &inputs {
            let loaded = load(input, LoadOptions::default(), spread, &ByteCount::default())?;
            println!("{}\t{} events\t{} bytes", input.shown, loaded.columns.len(), loaded.unpacked_bytes);
        }
        Ok(())
    })
}
