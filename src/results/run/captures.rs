//! Reads traces of graph captures before the ranks: one after another, each reduced to its graphs and
//! dropped.

use hta_facts::graphs::capture_file::capture_file;
use hta_read::coordinates::assign_ranks;
use hta_read::error::{ReadError, SetError};
use hta_read::input::Input;
use hta_read::load::load;
use hta_read::options::LoadOptions;
use hta_read::reading::{Loaded, Spread};
use hta_read::source::ByteCount;
use hta_trace::graph_capture::{CaptureFile, Captures};
use hta_trace::meta::RankSource;
use hta_trace::rank_trace::ModelOptions;

/// Why captures cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Set(#[from] SetError),
}

/// The graphs of these files. A file that was only found in a folder may hold none.
///
/// # Errors
/// When a file cannot be read, or holds no captured graphs although it was named.
pub fn read_captures(inputs: &[Input], options: LoadOptions) -> Result<Captures, CaptureError> {
    let options = LoadOptions { event_args: true, rest_args: false, skip_memory: true, ..options };
    let (mut files, mut claims): (Vec<CaptureFile>, Vec<Option<u32>>) = (Vec::new(), Vec::new());
    let mut used: Vec<Input> = Vec::new();
    for input in inputs {
        let file = match load(input, options, Spread::Inline, &ByteCount::default()) {
            Ok(loaded) => graphs(input, loaded),
            Err(error) if !input.named && (error.is_foreign() || !input.has_trace_name()) => continue,
            Err(error) => return Err(error.into()),
        };
        if !file.graphs.is_empty() {
            used.push(input.clone());
            claims.push(file.rank);
            files.push(file);
        } else if input.named {
            return Err(SetError::NoCapture { what: input.shown.clone() }.into());
        }
    }
    if let (Some(first), true) = (inputs.first(), files.is_empty()) {
        let folder = first.path.parent().map_or_else(|| first.shown.clone(), |p| p.display().to_string());
        return Err(SetError::NoCapture { what: folder }.into());
    }
    for (file, (rank, source)) in files.iter_mut().zip(assign_ranks(&used, &claims)) {
        file.rank = Some(rank).filter(|_| source != RankSource::Position);
    }
    Ok(Captures { files })
}

/// The graphs of one file; `rank` is that of the file itself.
fn graphs(input: &Input, loaded: Loaded) -> CaptureFile {
    let rank = loaded.meta.rank;
    let shown = input.shown.clone();
    capture_file(
        &loaded.into_trace(rank.unwrap_or(0), RankSource::File, shown, &ModelOptions::default()),
        rank,
    )
}
