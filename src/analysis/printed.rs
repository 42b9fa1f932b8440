//! Tables whose cells are made by hand: of two runs beside each other, and in the format of another tool.
//! Those of analyses are declared ([`ViewSpec`](hta_base::table::view::ViewSpec)).

/// Alignment of a column of a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

/// A small table for people, as formatted strings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    pub title: String,
    pub columns: Vec<(&'static str, Align)>,
    pub rows: Vec<Vec<String>>,
    /// Lines below the table.
    pub notes: Vec<String>,
}
