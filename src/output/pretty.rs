//! Rows of tables as JSON, laid out as serde_json lays it out.
//!
//! Of a thousand ranks they are hundreds of megabytes, nearly all of it names of columns and blanks: what stands before a
//! value is made once for each column.

use crate::table::column::Column;
use crate::table::schema::Batch;
use serde::ser::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Bytes that are put together before they are written.
const AT_ONCE: usize = 32 << 10;

/// A cell; `None` where tables have no columns of its type.
pub struct Cell<'a> {
    pub column: Option<Column<'a>>,
    pub row: usize,
}

impl Serialize for Cell<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let row = self.row;
        match &self.column {
            None => to.serialize_unit(),
            Some(Column::F64(_)) => self.column.and_then(|c| c.float(row)).serialize(to),
            Some(c @ Column::U64(_)) => c.uint(row).serialize(to),
            Some(Column::Bool(_)) => self.column.and_then(|c| c.int(row)).map(|v| v != 0).serialize(to),
            Some(c @ Column::Text(..)) => c.text(row).serialize(to),
            Some(c) => c.int(row).serialize(to),
        }
    }
}

/// Writes tables by name as one object that stands `depth` levels deep.
///
/// # Errors
/// When it cannot be written.
pub fn tables(out: &mut impl Write, tables: &BTreeMap<&str, Vec<&Batch>>, depth: usize) -> io::Result<()> {
    let mut before = "{";
    for (name, batches) in tables {
        write!(out, "{before}{}\"{name}\": ", line(depth + 1))?;
        rows(out, batches, depth + 1)?;
        before = ",";
    }
    if tables.is_empty() { out.write_all(b"{}") } else { write!(out, "{}}}", line(depth)) }
}

/// Writes the rows of batches of one table as a list of objects, which stands `depth` levels deep; their fields are in
/// alphabetical order.
///
/// # Errors
/// When they cannot be written.
pub fn rows(out: &mut impl Write, batches: &[&Batch], depth: usize) -> io::Result<()> {
    let Some(first) = batches.iter().find(|b| !b.is_empty()) else { return out.write_all(b"[]") };
    let mut names: Vec<(&str, usize)> = first.spec.columns.iter().zip(0..).map(|(c, i)| (c.name, i)).collect();
    names.sort_unstable();
    let field = |(nth, (name, i)): (usize, &(&str, usize))| {
        let mark = if nth == 0 { '{' } else { ',' };
        (*i, format!("{mark}{}\"{name}\": ", line(depth + 2)))
    };
    let fields: Vec<(usize, String)> = names.iter().enumerate().map(field).collect();
    let (open, close) = (line(depth + 1), format!("{}}}", line(depth + 1)));
    let mut text = Vec::with_capacity(AT_ONCE);
    let mut mark = b'[';
    for batch in batches {
        let columns: Vec<Option<Column>> = batch.rows.columns().iter().map(Column::new).collect();
        for row in 0..batch.len() {
            text.push(std::mem::replace(&mut mark, b','));
            text.extend_from_slice(open.as_bytes());
            for (i, before) in &fields {
                text.extend_from_slice(before.as_bytes());
                serde_json::to_writer(&mut text, &Cell { column: columns[*i], row })?;
            }
            text.extend_from_slice(close.as_bytes());
            if text.len() >= AT_ONCE {
                out.write_all(&text)?;
                text.clear();
            }
        }
    }
    write!(text, "{}]", line(depth))?;
    out.write_all(&text)
}

/// A line break, and the blanks of a line so many levels deep.
fn line(depth: usize) -> String {
    format!("\n{}", "  ".repeat(depth))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::every::{Row, batch};
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn value((rank, at_ns, size, share, was_it, host): &Row) -> Value {
        json!({ "rank": rank, "at_ns": at_ns, "size": size, "share": share, "was_it": was_it, "host": host })
    }

    /// As serde_json prints it, in a value that stands `depth` levels deep.
    fn printed(value: &Value, depth: usize) -> String {
        serde_json::to_string_pretty(value).unwrap().replace('\n', &line(depth))
    }

    proptest! {
        #[test]
        fn rows_look_as_serde_json_prints_them(
            lists in prop::collection::vec(prop::collection::vec(any::<Row>(), 0..8), 0..4),
            depth in 0usize..4,
        ) {
            let batches: Vec<Batch> = lists.iter().map(|l| batch(l)).collect();
            let values = Value::Array(lists.concat().iter().map(value).collect());
            let mut out = Vec::new();
            let all: Vec<&Batch> = batches.iter().collect();
            rows(&mut out, &all, depth).unwrap();
            prop_assert_eq!(String::from_utf8(out).unwrap(), printed(&values, depth));
            let named = BTreeMap::from([("b", all), ("a", Vec::new())]);
            let mut out = Vec::new();
            tables(&mut out, &named, depth).unwrap();
            prop_assert_eq!(String::from_utf8(out).unwrap(), printed(&json!({ "a": [], "b": values }), depth));
        }
    }

    #[test]
    fn no_tables_are_an_empty_object_and_long_ones_come_out_whole() {
        let mut out = Vec::new();
        tables(&mut out, &BTreeMap::new(), 2).unwrap();
        assert_eq!(out, b"{}");
        let many: Vec<Row> = (0..5_000).map(|i| (i, Some(-1), None, Some(f64::NAN), None, None)).collect();
        let mut out = Vec::new();
        rows(&mut out, &[&batch(&many)], 1).unwrap();
        assert!(out.len() > 4 * AT_ONCE);
        let read: Vec<Value> = serde_json::from_slice(&out).unwrap();
        assert_eq!(read.len(), many.len());
        assert!(read.iter().zip(0..).all(|(r, i)| r["rank"] == i && r["share"].is_null()));
    }
}
