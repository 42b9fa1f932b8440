//! A figure has the same text in the text report as on the page: both are held to `tests/html/figures.tsv`, the page by
//! `tests/html/check.py` in a browser.

use hta_base::table::format::CellType;

const FIGURES: &str = include_str!("../../../html/figures.tsv");
const TYPES: [CellType; 8] = [
    CellType::Ns,
    CellType::Count,
    CellType::Bytes,
    CellType::Ratio,
    CellType::Percent,
    CellType::GbPerS,
    CellType::Number,
    CellType::Id,
];

#[test]
fn figures_have_the_text_that_the_page_gives_them() {
    for line in FIGURES.lines().filter(|line| !line.starts_with('#')) {
        let [name, value, text] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let of = TYPES.iter().find(|of| of.name() == name).unwrap_or_else(|| panic!("no type `{name}`"));
        let shown = match (*of, value.parse::<i64>()) {
            // A number with a fraction may happen to have none.
            (CellType::Ratio | CellType::Percent | CellType::GbPerS | CellType::Number, _) | (_, Err(_)) => {
                of.float(value.parse().expect("a number"))
            }
            (_, Ok(v)) => of.int(v),
        };
        assert_eq!(shown, text, "{line}");
    }
}
