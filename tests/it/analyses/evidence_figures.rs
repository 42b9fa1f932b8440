//! Sentences say what their evidence says: the figures of every cause of the samples, and of the recordings
//! with a planted cause, stand in the rows that it names.

use crate::evidence::{Read, read};
use crate::run::{answer, options};
use crate::shared;
use std::path::Path;

fn of_samples() -> Read {
    let causes = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/causes");
    let samples = shared::sample_names().into_iter().map(|name| shared::samples().join(name));
    let planted = shared::files_below(&causes).into_iter().filter(|file| shared::looks_like_a_trace(file));
    let mut all = Read::default();
    for path in samples.chain(planted) {
        let what = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        all.add(read(&answer(&[path], &options()), &what));
    }
    all
}

#[test]
fn the_figures_of_causes_stand_in_their_evidence() {
    let all = of_samples();
    assert!(all.wrong.is_empty(), "{}", all.wrong.join("\n"));
    assert!(all.figures > 300, "{}", all.figures);
    // Rows that have any figure would show nothing.
    assert!(all.found_if_changed * 20 < all.figures, "{} of {}", all.found_if_changed, all.figures);
}
