//! Tables whose cells are made by hand: of two runs beside each other, and in the format of another tool.
//! Those of analyses are declared ([`ViewSpec`](hta_base::table::view::ViewSpec)).

/// A column: its heading, and whether it has numbers, which stand at the right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrintedColumn<'a> {
    pub heading: &'a str,
    pub is_number: bool,
}

/// A column of texts.
pub const fn text(heading: &str) -> PrintedColumn<'_> {
    PrintedColumn { heading, is_number: false }
}

/// A column of numbers.
pub const fn number(heading: &str) -> PrintedColumn<'_> {
    PrintedColumn { heading, is_number: true }
}

/// A small table for people, as formatted strings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    pub title: String,
    pub columns: Vec<PrintedColumn<'static>>,
    pub rows: Vec<Vec<String>>,
    /// Lines below the table.
    pub notes: Vec<String>,
}
