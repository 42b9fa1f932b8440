//! Sequences of names as one text, and the selection of operators by name.

use hta_base::wording::names::clip;

/// Largest number of names written; a longer sequence shows its first and last names.
const SHOWN: usize = 4096;

/// Names joined by `|`. Beyond [`SHOWN`], the names in the middle are replaced by their count: `...(1430
/// more)`.
pub(crate) fn joined<'a>(names: impl ExactSizeIterator<Item = &'a str> + Clone) -> String {
    let n = names.len();
    let hidden = if n > SHOWN { SHOWN / 2..n - SHOWN / 2 } else { 0..0 };
    // Allocate once, because half a megabyte is not rare; the count of hidden names fits into the reserve.
    let shown = names.clone().enumerate().filter(|(i, _)| !hidden.contains(i));
    let mut out = String::with_capacity(shown.map(|(_, name)| name.len() + 1).sum::<usize>() + 32);
    for (i, name) in names.enumerate() {
        if hidden.contains(&i) && i > hidden.start {
            continue;
        }
        if i > 0 {
            out.push('|');
        }
        if hidden.contains(&i) {
            out.push_str(&format!("...({} more)", hidden.len()));
        } else {
            out.push_str(name);
        }
    }
    out
}

/// The first name of a sequence, shortened for a line of text.
pub(crate) fn brief<'a>(mut names: impl Iterator<Item = &'a str>) -> String {
    let short = hta_trace::kernel::short_name(names.next().unwrap_or_default());
    clip(short.rsplit("::").next().unwrap_or(&short), 40)
}

/// The selection of operators.
pub(crate) enum OperatorSelection<'a> {
    /// Operators that no other operator contains.
    Outermost,
    Exact(&'a str),
    Glob(&'a str),
}

impl OperatorSelection<'_> {
    /// Whether an operator is selected by its name.
    pub(crate) fn matches(&self, name: &str) -> bool {
        match self {
            OperatorSelection::Outermost => true,
            OperatorSelection::Exact(text) => *text == name,
            OperatorSelection::Glob(pattern) => glob(pattern, name),
        }
    }
}

/// Whether `text` matches `pattern`: `*` is any text, `?` any character.
pub fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    // Where to continue if the part after the last star does not match: the star takes one more character.
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                retry = Some((p, t));
                p += 1;
            }
            Some(c) if *c == '?' || *c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match retry {
                Some((star, from)) => {
                    retry = Some((star, from + 1));
                    (p, t) = (star + 1, from + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glob_fits_whole_names() {
        assert!(glob("aten::*", "aten::mm") && glob("*mm", "aten::addmm") && glob("a*::?m", "aten::mm"));
        assert!(!glob("aten::m", "aten::mm") && !glob("*add", "aten::addmm") && !glob("?", ""));
        assert!(glob("*", "") && glob("**", "x") && glob("", ""));
        assert!(!glob("", "x"));
    }

    #[test]
    fn very_long_sequences_show_their_ends() {
        let names: Vec<String> = (0..5000).map(|i| format!("k{i}")).collect();
        let text = joined(names.iter().map(String::as_str));
        assert!(text.starts_with("k0|k1|") && text.ends_with("|k4998|k4999"));
        assert!(text.contains("|k2047|...(904 more)|k2952|"));
        assert_eq!(joined(names[..3].iter().map(String::as_str)), "k0|k1|k2");
    }
}
