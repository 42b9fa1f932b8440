//! What a value of a table means: `hta explain kernel_gap`, `hta explain outside`.
//!
//! Values are defined where they belong, in lists of the pages and in the meanings of columns, so that a word
//! has one definition:
//!
//! ```text
//!   page of critical-path   kernel_gap    between the end of a kernel and ...   a line that begins with it
//!   column idle.scope       span, capture, step or outside; ...                 one of several in a row
//! ```

/// The entries of a page that define a word: a line that begins with it, and the lines that continue it.
pub fn entries(page: &str, word: &str) -> Vec<String> {
    let lines: Vec<&str> = page.lines().collect();
    let mut found = Vec::new();
    for (i, line) in lines.iter().enumerate().filter(|(_, line)| begins_with(line, word)) {
        let indent = depth(line);
        let rest = lines[i + 1..].iter().take_while(|next| depth(next) > indent && !next.trim().is_empty());
        let first = line.trim().trim_start_matches("- ");
        let first =
            first.split_once("  ").map_or(first.to_string(), |(words, text)| format!("{words}: {text}"));
        let text: Vec<&str> = std::iter::once(first.as_str()).chain(rest.map(|line| line.trim())).collect();
        found.push(text.join(" ").split_whitespace().collect::<Vec<_>>().join(" "));
    }
    found
}

fn depth(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Whether a line defines the word: in quotes after the sign of a list, or before a gap of two blanks, alone
/// or with others that have the same meaning.
fn begins_with(line: &str, word: &str) -> bool {
    let text = line.trim_start();
    let item = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-').trim_start();
    let quoted = item.strip_prefix('`').and_then(|rest| rest.strip_prefix(word)).filter(|_| item != text);
    if quoted.is_some_and(|rest| rest.starts_with('`')) {
        return true;
    }
    let Some((words, meaning)) = text.split_once("  ").filter(|_| depth(line) > 0) else { return false };
    let is_said =
        meaning.split_whitespace().any(|word| word.chars().filter(|c| c.is_alphabetic()).count() > 1);
    is_said && words.split(", ").any(|known| known == word)
}

/// Whether the meaning of a column names the word among its values: alone between the signs of a list.
pub fn is_listed(meaning: &str, word: &str) -> bool {
    let parts = meaning.split([',', ';', ':', '(', ')', '|']).flat_map(|part| part.split(" or "));
    parts.map(|part| part.trim().trim_end_matches('.').trim_start_matches("or ")).any(|part| {
        let plain = part.trim_matches('`');
        plain == word
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_list_is_a_definition_with_what_continues_it() {
        let page = "# page\n\n    gap        between two\n               kernels\n    gap_like   not\n\n\
                    - `tail`: the end\n";
        assert_eq!(entries(page, "gap"), ["gap: between two kernels"]);
        assert_eq!(entries(page, "tail"), ["`tail`: the end"]);
        assert!(entries(page, "between").is_empty() && entries(page, "#").is_empty());
    }

    #[test]
    fn words_with_one_meaning_share_a_line_and_drawings_are_none() {
        let page = "    all_gather, gather    the whole output\n    outside   [---)  [--)\n\
                    3. `pattern`: names that fit\n";
        assert_eq!(entries(page, "gather"), ["all_gather, gather: the whole output"]);
        assert!(entries(page, "outside").is_empty());
        assert_eq!(entries(page, "pattern").len(), 1);
    }

    #[test]
    fn values_stand_alone_between_the_signs_of_a_list() {
        let meaning = "span, capture, step or outside; streams have span only";
        assert!(is_listed(meaning, "outside") && is_listed(meaning, "capture") && is_listed(meaning, "span"));
        assert!(!is_listed(meaning, "streams") && !is_listed(meaning, "only"));
    }
}
