//! What tells lines apart.

use crate::lines::tables::LineRow;

/// The key cells of a line, as all ranks have them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LineKey<'a> {
    pub(crate) file: Option<&'a str>,
    pub(crate) line: Option<u32>,
    pub(crate) function: Option<&'a str>,
    pub(crate) module: Option<&'a str>,
}

impl<'a> LineKey<'a> {
    pub(crate) fn new(row: &LineRow<'a>) -> Self {
        Self { file: row.file, line: row.line, function: row.function, module: row.module }
    }
}
