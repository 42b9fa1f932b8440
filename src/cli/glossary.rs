//! The words of screens and tables, with their meanings: `hta explain WORD`, and the glossary of the
//! documentation.

/// The page with all words, each a section.
pub const GLOSSARY: &str = include_str!("explain/glossary.md");

/// The words with their meanings, in the order of the page. Those of a section are separated by commas.
pub fn words() -> impl Iterator<Item = (&'static str, &'static str)> {
    let sections = GLOSSARY.split("\n## ").skip(1);
    let sections = sections.filter_map(|section| section.split_once('\n'));
    sections.flat_map(|(words, text)| words.split(", ").map(move |word| (word, text.trim())))
}

/// The meaning of a word; blanks, underscores and hyphens are alike, and so is its case.
pub fn meaning(word: &str) -> Option<(&'static str, &'static str)> {
    let plain = |text: &str| text.to_lowercase().replace(['_', '-'], " ");
    words().find(|(known, _)| plain(known) == plain(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::explain::page;

    #[test]
    fn words_are_found_however_they_are_spelled() {
        let found = meaning("Finished_early").map(|(word, _)| word);
        assert_eq!(found, Some("finished early"));
        assert_eq!(meaning("between steps"), meaning("between the steps").map(|(_, m)| ("between steps", m)));
        assert!(meaning("paced").is_some());
        assert!(meaning("nonsense").is_none() && words().count() > 40);
    }

    #[test]
    fn every_page_that_a_word_names_exists() {
        for (word, text) in words() {
            let plain = text.replace('\n', " ");
            for name in plain.split("`hta explain ").skip(1).filter_map(|rest| rest.split('`').next()) {
                assert!(page(name).is_ok(), "{word} names {name}");
            }
        }
    }
}
