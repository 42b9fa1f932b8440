//! Counts with their nouns, the start of a sentence, and bars.

/// `1 step`, `5 steps`.
pub fn plural(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

/// `1 call`, `1,234 calls`: for counts that may be large.
pub fn counted(n: u64, noun: &str) -> String {
    format!("{} {noun}{}", crate::units::fmt_count(n), if n == 1 { "" } else { "s" })
}

/// First letter in upper case, for the start of a sentence.
pub fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |c| c.to_uppercase().chain(chars).collect())
}

/// Characters of a whole bar.
const BAR: usize = 20;

/// A bar whose parts are rounded so that they fill it.
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
        assert_eq!(bar(&[(Some(50.0), '#'), (Some(25.0), '='), (Some(25.0), '.')]), "##########=====.....");
        assert_eq!(bar(&[(None, '#')]), "");
    }
}
