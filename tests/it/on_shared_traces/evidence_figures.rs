//! Sentences say what their evidence says, on small sets of real traces, and on the cases: the figures of
//! their causes stand in the rows that these name.

use crate::evidence::{Read, read};
use crate::robustness::subtract::sets;
use crate::run::{options, try_run};
use crate::shared;
use std::path::PathBuf;

/// Of the sets of traces one of so many is read, of those of the cases all.
const ONE_OF: usize = 4;

const CASES: [&str; 5] = ["jobs", "reports", "reports4", "files4", "gains4"];

#[test]
fn the_figures_of_causes_stand_in_their_evidence() {
    let Some(root) = shared::folder() else { return };
    let of_traces = sets(&root.traces()).into_iter().step_by(ONE_OF);
    let folders = CASES.iter().filter_map(|folder| root.cases(folder));
    let all: Vec<(String, Vec<PathBuf>)> =
        of_traces.chain(folders.flat_map(|folder| sets(&folder))).collect();
    let mut found = Read::default();
    for (what, files) in all {
        // What is refused has no causes.
        if let Ok(answer) = try_run(&files, &options()) {
            found.add(read(&answer, &what));
        }
    }
    assert!(found.wrong.is_empty(), "{}", found.wrong.join("\n"));
    println!("{} figures", found.figures);
    assert!(found.figures > 1_000, "{}", found.figures);
    assert!(found.found_if_changed * 20 < found.figures, "{} of {}", found.found_if_changed, found.figures);
}
