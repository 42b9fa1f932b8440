//! Parts sum to the whole on every real trace.

use crate::robustness::invariants::*;
use crate::shared;

#[test]
fn parts_sum_to_the_whole_on_every_real_trace() {
    let Some(root) = shared::folder() else { return };
    let files = traces_below(&root.traces());
    let (readable, windows) = check_files(&files);
    // Five more are traces of other profilers, which are refused.
    assert!(
        readable >= 69 && windows >= 69 * 4,
        "{readable} files, {windows} windows of {} files",
        files.len()
    );
}
