//! Columns of a view, and their cells as people read them.

use crate::table::format::CellType;
use crate::table::schema::ColumnSpec;
use crate::table::value::Value;
use std::borrow::Cow;

/// A column of a view.
#[derive(Debug, Clone)]
pub struct ViewColumn {
    pub name: &'static str,
    pub heading: Cow<'static, str>,
    pub doc: &'static str,
    pub cells: CellType,
    /// Whether its values are flags.
    is_flag: bool,
    /// What stands for null.
    pub(super) null: &'static str,
}

impl ViewColumn {
    pub(super) fn of(spec: &'static ColumnSpec, is_folded: bool) -> Self {
        let ranks = is_folded && spec.name == "rank";
        let is_text = ranks || spec.name == "step";
        Self {
            name: spec.name,
            heading: if ranks { Cow::Borrowed("ranks") } else { spec.title() },
            doc: spec.doc,
            cells: if is_text { CellType::Text } else { spec.cells() },
            is_flag: spec.kind == "bool",
            null: "-",
        }
    }

    /// A column as another tool has it.
    pub(super) fn exact(spec: &'static ColumnSpec) -> Self {
        let cells = if spec.kind == "text" { CellType::Text } else { CellType::Exact };
        Self { heading: Cow::Borrowed(spec.name), cells, is_flag: false, ..Self::of(spec, false) }
    }

    /// A column that no table declares.
    pub(super) fn made(name: &'static str, heading: Cow<'static, str>, cells: CellType) -> Self {
        Self { name, heading, doc: "", cells, is_flag: false, null: "-" }
    }

    /// A cell as people read it.
    pub fn text(&self, value: &Value) -> String {
        match value {
            Value::Null => self.null.to_string(),
            Value::Text(text) if text.is_empty() => "-".to_string(),
            Value::Text(text) => text.to_string(),
            Value::Int(v) if self.is_flag => if *v == 0 { "no" } else { "yes" }.to_string(),
            Value::Int(_) => self.cells.int(value.int().unwrap_or(0)),
            Value::Float(v) => self.cells.float(*v),
        }
    }
}

/// One number over another; null where one of them is unknown or the other is 0.
pub(super) fn quotient(part: &Value, whole: &Value, factor: f64) -> Value {
    match (part.float(), whole.float()) {
        (Some(part), Some(whole)) if whole != 0.0 => Value::Float(factor * part / whole),
        _ => Value::Null,
    }
}

/// Whether a cell says nothing.
pub(super) fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Text(text) => text.is_empty(),
        _ => value.float() == Some(0.0),
    }
}
