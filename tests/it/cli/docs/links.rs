//! Relative links of the documentation lead to files and headings that exist.

use super::{ROOT, pages, read};
use std::path::{Path, PathBuf};

/// Pages outside `docs` that also contain links.
const OTHERS: [&str; 6] = [
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "data/README.md",
    "notebooks/README.md",
    "queries/README.md",
    "tests/README.md",
];

#[test]
fn every_relative_link_leads_to_a_file_and_a_heading() {
    let others = OTHERS.iter().map(|page| Path::new(ROOT).join(page));
    let mut broken = Vec::new();
    let mut checked = 0;
    for page in pages().into_iter().chain(others) {
        for target in links(&read(&page)) {
            if target.contains("://") {
                continue;
            }
            checked += 1;
            if let Err(reason) = follow(&page, &target) {
                broken.push(format!("{}: {target}: {reason}", page.display()));
            }
        }
    }
    assert!(checked > 50, "{checked} links: the pages were not read");
    assert!(broken.is_empty(), "broken links:\n{}", broken.join("\n"));
}

fn follow(page: &Path, target: &str) -> Result<(), String> {
    let (file, heading) = target.split_once('#').unwrap_or((target, ""));
    let path: PathBuf = if file.is_empty() {
        page.to_path_buf()
    } else {
        page.parent().unwrap_or(Path::new(ROOT)).join(file)
    };
    if !path.exists() {
        return Err("no such file".to_string());
    }
    let is_known = heading.is_empty() || headings(&read(&path)).iter().any(|h| h == heading);
    if is_known { Ok(()) } else { Err("no such heading".to_string()) }
}

/// The lines outside of fenced and indented code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut in_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.starts_with("```");
        in_code ^= is_fence;
        !in_code && !is_fence && !line.starts_with("    ")
    })
}

/// What stands between the parentheses of `[text](target)`.
fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in prose(text) {
        for (at, start) in line.match_indices("](") {
            let rest = &line[at + start.len()..];
            if let Some((target, _)) = rest.split_once(')') {
                found.push(target.to_string());
            }
        }
    }
    found
}

/// The anchors of a page's headings, as GitHub makes them.
fn headings(text: &str) -> Vec<String> {
    let title = |line: &str| line.trim_start_matches('#').trim().to_lowercase();
    let anchor = |title: String| -> String {
        let kept = title.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    prose(text).filter(|line| line.starts_with('#')).map(|line| anchor(title(line))).collect()
}
