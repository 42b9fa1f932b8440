//! The figures of a text: numbers with their unit. Numbers that name something are none: of ranks, steps,
//! stages, groups, lines, and in names.

use regex::Regex;
use std::sync::LazyLock;

/// Longer ones before those that they begin with.
const UNITS: [&str; 20] = [
    "GB/s", "KiB", "MiB", "GiB", "MHz", "ns", "us", "ms", "kB", "MB", "GB", "mJ", "kJ", "uJ", "s", "B", "J",
    "W", "%", "x",
];

#[derive(Debug, Clone)]
pub struct Figure {
    pub number: String,
    pub unit: &'static str,
    /// The words around it, with `#` for it.
    pub around: String,
}

impl Figure {
    pub fn shown(&self) -> String {
        format!("{} {}", self.number, self.unit).trim_end().to_string()
    }

    pub fn value(&self) -> f64 {
        self.number.replace(',', "").parse().expect("a number")
    }

    pub fn decimals(&self) -> usize {
        self.number.split_once('.').map_or(0, |(_, decimals)| decimals.len())
    }

    /// Another figure of the same form: by about a tenth larger.
    pub fn changed(&self) -> Figure {
        let (value, decimals) = (self.value(), self.decimals());
        let more = (value * 1.09 + 2.0 / 10f64.powi(decimals as i32)).abs();
        Figure { number: format!("{more:.decimals$}"), ..self.clone() }
    }
}

/// What is no figure: names between backticks with their place, lists in brackets, and what is counted
/// through.
static NAMES: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let list = r"@?\d+(?:(?:, |-| and | to )@?\d+)*(?:, \.\.\. \(\d+ more\))?";
    let counted =
        "ranks?|steps?|iterations?|stages?|groups?|number|dp|tp|pp|cp|ep|dp_shard|dp_replicate|local rank";
    [
        r"`[^`]*`(?: \([^)]*:\d+\))?".to_string(),
        r"\[[^\]]*\]".to_string(),
        format!(r"(?i)\b(?:{counted})(?: \(?of)? {list}"),
    ]
    .map(|pattern| Regex::new(&pattern).expect("a pattern"))
    .into()
});

pub fn figures(text: &str) -> Vec<Figure> {
    static NUMBER: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\d[\d,]*(?:\.\d+)?").expect("a pattern"));
    let text = NAMES.iter().fold(text.to_string(), |text, names| names.replace_all(&text, "~").into_owned());
    let mut out = Vec::new();
    for found in NUMBER.find_iter(&text) {
        let number = found.as_str().trim_end_matches(',');
        let (before, after) = (&text[..found.start()], &text[found.start() + number.len()..]);
        let is_word = |c: char| c.is_alphanumeric() || "_.@/-".contains(c);
        let ends_word = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        // A part of a name, such as `fp32`.
        if before.ends_with(is_word) {
            continue;
        }
        let rest = after.strip_prefix(' ').unwrap_or(after);
        let unit = UNITS.into_iter().find(|unit| rest.strip_prefix(*unit).is_some_and(ends_word));
        if unit.is_none() && !ends_word(after) {
            continue;
        }
        let start = before.char_indices().rev().nth(24).map_or(0, |(at, _)| at);
        let end = after.char_indices().nth(24).map_or(after.len(), |(at, _)| at);
        let around = format!("{}#{}", &before[start..], &after[..end]);
        out.push(Figure { number: number.to_string(), unit: unit.unwrap_or(""), around });
    }
    out
}

#[test]
fn figures_of_a_text_are_numbers_with_units_and_no_names() {
    let of = |text: &str| figures(text).iter().map(Figure::shown).collect::<Vec<_>>();
    assert_eq!(of("It takes 12.3 ms of the 1.20 s idle time a step (4.5 %)"), ["12.3 ms", "1.20 s", "4.5 %"]);
    assert_eq!(of("Rank 3 is late in all 5 steps, fp32 `gemm_128` (a.py:12)"), ["5"]);
    assert_eq!(of("nearly all in steps 3, 4 (2 of 16) on ranks 0-3"), ["2", "16"]);
    assert_eq!(
        of("1,234 of them: 64 KiB at 9.4 instead of 134.3 GB/s"),
        ["1,234", "64 KiB", "9.4", "134.3 GB/s"]
    );
    let changed = figures("12.3 ms, 7 times").iter().map(|f| f.changed().shown()).collect::<Vec<_>>();
    assert_eq!(changed, ["13.6 ms", "10"]);
}
