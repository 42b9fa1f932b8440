//! The sections of an analysis in a report that was written, for commands on results whose text needs more
//! than the tables.

/// Heading of the causes.
pub(crate) const CAUSES: &str = "Causes, by what fixing each saves";

/// What the report says of an analysis: its sections without its name, and for the diagnosis also the verdict
/// and the causes. `None` if it says nothing of it. `folder` is how commands name the results.
pub fn said(report: &str, stem: &str, folder: &str) -> Option<String> {
    let lines: Vec<&str> = report.lines().collect();
    let headings: Vec<usize> = (0..lines.len()).filter(|&i| is_heading(&lines, i)).collect();
    let mut out = String::new();
    if stem == "diagnosis" {
        // The head of the report ends with an empty line.
        let first = lines.iter().position(|line| line.is_empty())? + 1;
        let causes = |i: &&usize| !lines[**i].starts_with(CAUSES);
        let end = headings.iter().find(causes).copied().unwrap_or(lines.len());
        lines.get(first..end)?.iter().for_each(|line| out.push_str(&with_folder(line, folder)));
    }
    let suffix = format!(" ({stem})");
    for (k, &start) in headings.iter().enumerate() {
        let Some(title) = lines[start].strip_suffix(&suffix) else { continue };
        let end = headings.get(k + 1).copied().unwrap_or(lines.len());
        out.push_str(&format!("{title}\n{}\n", "-".repeat(title.chars().count())));
        lines[start + 2..end].iter().for_each(|line| out.push_str(&format!("{line}\n")));
    }
    (!out.is_empty()).then(|| out.trim_end().to_string() + "\n")
}

/// Whether a line is underlined over its whole length.
fn is_heading(lines: &[&str], i: usize) -> bool {
    let length = lines[i].chars().count();
    length > 0 && lines.get(i + 1).is_some_and(|under| *under == "-".repeat(length))
}

/// In a report commands name the folder that the report is in.
fn with_folder(line: &str, folder: &str) -> String {
    match line.strip_suffix(" .").filter(|rest| rest.trim_start().starts_with("see ")) {
        Some(rest) => format!("{rest} {folder}\n"),
        None => format!("{line}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::said;

    const REPORT: &str = "8 ranks\nrecorded: all\n\nRank 3 is late.\n\nCauses, by what fixing each saves\n\
                          ---------------------------------\n1. Rank 3 is late\n   see      hta stragglers .\n\n\
                          About the input\n---------------\nnothing\n\nWho waits (stragglers)\n\
                          ----------------------\nrank 3\n\nWhere (diagnosis)\n-----------------\nrows\n";

    #[test]
    fn sections_are_found_by_the_name_of_their_analysis() {
        assert_eq!(said(REPORT, "stragglers", "out").unwrap(), "Who waits\n---------\nrank 3\n");
        assert_eq!(said(REPORT, "sync", "out"), None);
        let told = said(REPORT, "diagnosis", "out").unwrap();
        assert!(told.starts_with("Rank 3 is late.\n"), "{told}");
        assert!(told.contains("hta stragglers out\n") && told.ends_with("Where\n-----\nrows\n"), "{told}");
        assert!(!told.contains("About the input"), "{told}");
    }
}
