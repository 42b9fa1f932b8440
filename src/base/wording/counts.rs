//! Counts with their nouns, capital letters, lines of words, and bars.

/// A count with its noun: `1 step`, `5 steps`.
pub fn plural(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

/// Like [`plural`], with thousands separators: `1,234 calls`.
pub fn counted(n: u64, noun: &str) -> String {
    format!("{} {noun}{}", crate::units::fmt_count(n), if n == 1 { "" } else { "s" })
}

/// The text with its first letter in upper case.
pub fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |c| c.to_uppercase().chain(chars).collect())
}

/// The text with its first letter in lower case, unless its first word is an abbreviation.
pub fn uncapital(text: &str) -> String {
    let is_word = text.chars().nth(1).is_some_and(|c| c.is_lowercase() || c == ' ');
    let mut chars = text.chars();
    match chars.next().filter(|_| is_word) {
        Some(first) => first.to_lowercase().chain(chars).collect(),
        None => text.to_string(),
    }
}

/// Units, which stay on the line of their number.
const UNITS: [&str; 14] = ["%", "ns", "us", "ms", "s", "B", "kB", "MB", "GB", "GB/s", "uJ", "mJ", "J", "kJ"];

/// Words in lines of at most `width` characters, unless a word is longer. A number and its unit are one word.
pub fn wrapped<T: AsRef<str>>(words: impl Iterator<Item = T>, width: usize) -> Vec<String> {
    let mut whole: Vec<String> = Vec::new();
    for word in words {
        let word = word.as_ref();
        let is_unit = UNITS.contains(&word.trim_end_matches([')', '.', ',', ';', ':']));
        match whole.last_mut().filter(|last| is_unit && last.ends_with(|c: char| c.is_ascii_digit())) {
            Some(number) => *number = format!("{number} {word}"),
            None => whole.push(word.to_string()),
        }
    }
    let mut lines = vec![String::new()];
    for word in whole {
        let (word, Some(line)) = (word.as_str(), lines.last_mut()) else { break };
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(word.to_string());
            continue;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines
}

/// Length of a full bar, characters.
const BAR: usize = 16;

/// A bar of parts in percent, rounded so that they fill it.
pub fn bar(parts: &[(Option<f64>, char)]) -> String {
    let mut out = String::new();
    let mut sum = 0.0;
    for (share, mark) in parts {
        sum += share.unwrap_or(0.0);
        let upto = ((sum / 100.0 * BAR as f64).round() as usize).min(BAR);
        while out.len() < upto {
            out.push(*mark);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_not_parted_from_its_unit() {
        let lines = wrapped("saves 5 ms (28.4 %).".split(' '), 14);
        assert_eq!(lines, ["saves 5 ms", "(28.4 %)."]);
    }

    #[test]
    fn a_bar_is_filled_by_its_parts() {
        assert_eq!(bar(&[(Some(50.0), '#'), (Some(25.0), '='), (Some(25.0), '.')]), "########====....");
        assert_eq!(bar(&[(None, '#')]), "");
    }
}
