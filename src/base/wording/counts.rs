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

/// Words in lines of at most `width` characters, unless a word is longer.
pub fn wrapped<T: AsRef<str>>(words: impl Iterator<Item = T>, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in words {
        let (word, Some(line)) = (word.as_ref(), lines.last_mut()) else { break };
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
    fn a_bar_is_filled_by_its_parts() {
        assert_eq!(bar(&[(Some(50.0), '#'), (Some(25.0), '='), (Some(25.0), '.')]), "########====....");
        assert_eq!(bar(&[(None, '#')]), "");
    }
}
