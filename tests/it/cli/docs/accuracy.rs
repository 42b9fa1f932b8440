//! The README repeats what the page on accuracy says, and its table has the same rates.

use super::{ROOT, read};
use std::path::Path;

const BEGIN: &str = "<!-- accuracy: begin, written by tests/bench/accuracy.py -->";
const END: &str = "<!-- accuracy: end -->";

/// The words between the marks of a page, whatever its lines.
fn told(page: &str) -> String {
    let text = read(&Path::new(ROOT).join(page));
    let inside = text.split_once(BEGIN).and_then(|(_, rest)| rest.split_once(END));
    let inside = inside.unwrap_or_else(|| panic!("{page} has no marks for the figures of accuracy")).0;
    inside.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_readme_repeats_the_figures_of_the_page_on_accuracy() {
    let of_page = told("docs/accuracy.md");
    assert_eq!(told("README.md"), of_page, "stale: tests/bench/accuracy.py --write writes both");
    let page = read(&Path::new(ROOT).join("docs/accuracy.md"));
    for name in ["right where it can be told", "wrong and sure, of all runs", "controls that are silent"] {
        let row = page.lines().find_map(|l| l.strip_prefix("| ")?.strip_prefix(name)).unwrap_or_default();
        let rate = row.trim_start_matches([' ', '|']).split(" (").next().unwrap_or_default();
        assert!(rate.ends_with(" %") && of_page.contains(rate), "{name}: `{rate}` is not in `{of_page}`");
    }
}
