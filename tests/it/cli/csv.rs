//! Reads CSV files of other tools (RFC 4180), compressed or not.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

/// A row by column name.
pub type CsvRow = BTreeMap<String, String>;

/// The rows of `path`, or of `path` with `.gz` appended; `None` if neither exists.
pub fn read(path: &Path) -> Option<Vec<CsvRow>> {
    let packed = path.with_extension("csv.gz");
    let mut text = String::new();
    if path.exists() {
        text = std::fs::read_to_string(path).expect("a reference can be read");
    } else if packed.exists() {
        let file = std::fs::File::open(packed).expect("a reference can be read");
        flate2::read::GzDecoder::new(file).read_to_string(&mut text).expect("a reference is UTF-8");
    } else {
        return None;
    }
    let mut records = parse(&text).into_iter();
    let names = records.next().unwrap_or_default();
    Some(
        records
            .map(|cells| {
                assert_eq!(cells.len(), names.len(), "{}", path.display());
                names.iter().cloned().zip(cells).collect()
            })
            .collect(),
    )
}

fn parse(text: &str) -> Vec<Vec<String>> {
    let (mut records, mut record, mut cell) = (Vec::new(), Vec::new(), String::new());
    let mut quoted = false;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => cell.push(chars.next().unwrap_or(c)),
            '"' => quoted = !quoted,
            ',' if !quoted => record.push(std::mem::take(&mut cell)),
            '\r' if !quoted => {}
            '\n' if !quoted => {
                record.push(std::mem::take(&mut cell));
                records.push(std::mem::take(&mut record));
            }
            _ => cell.push(c),
        }
    }
    if !cell.is_empty() || !record.is_empty() {
        record.push(cell);
        records.push(record);
    }
    records
}

/// A number; `None` for an empty cell.
pub fn number(row: &CsvRow, column: &str) -> Option<f64> {
    let text = row.get(column).unwrap_or_else(|| panic!("no column `{column}` in {row:?}"));
    (!text.is_empty()).then(|| text.parse().unwrap_or_else(|_| panic!("`{text}` is no number")))
}

/// A text cell.
pub fn text<'a>(row: &'a CsvRow, column: &str) -> &'a str {
    row.get(column).unwrap_or_else(|| panic!("no column `{column}` in {row:?}"))
}

#[test]
fn quoted_cells_may_hold_commas_quotes_and_line_ends() {
    assert_eq!(parse("a,\"b,\"\"c\"\"\nd\",\n1,,2\n"), [vec!["a", "b,\"c\"\nd", ""], vec!["1", "", "2"]]);
}
