//! PyProf's columns as it prints them: names on the command line, headings, widths.

use crate::pyprof::PyProfRow;

/// A column of PyProf.
pub struct PyProfColumn {
    /// Name in `--cols`.
    pub(crate) name: &'static str,
    /// Heading.
    pub(crate) heading: &'static str,
    /// Least width in text; 0: shares what is left of the line.
    width: usize,
    /// Its text; `None` if not recorded.
    cell: fn(&PyProfRow) -> Option<String>,
}

/// PyProf's columns in its order.
pub(crate) const COLUMNS: [PyProfColumn; 20] = [
    PyProfColumn { name: "idx", heading: "Idx", width: 7, cell: |r| Some(r.idx.to_string()) },
    PyProfColumn { name: "seq", heading: "SeqId", width: 7, cell: |r| r.seq.map(str::to_string) },
    PyProfColumn { name: "altseq", heading: "AltSeqId", width: 7, cell: |r| r.altseq.map(str::to_string) },
    PyProfColumn { name: "tid", heading: "TId", width: 12, cell: |r| r.tid.map(str::to_string) },
    PyProfColumn { name: "layer", heading: "Layer", width: 10, cell: |r| r.layer.map(str::to_string) },
    PyProfColumn { name: "trace", heading: "Trace", width: 25, cell: |r| r.trace.map(str::to_string) },
    PyProfColumn { name: "dir", heading: "Direction", width: 5, cell: |r| r.dir.map(str::to_string) },
    PyProfColumn { name: "sub", heading: "Sub", width: 3, cell: |r| Some(r.sub.to_string()) },
    PyProfColumn { name: "mod", heading: "Module", width: 15, cell: |r| r.r#mod.map(str::to_string) },
    PyProfColumn { name: "op", heading: "Op", width: 15, cell: |r| r.op.map(str::to_string) },
    PyProfColumn { name: "kernel", heading: "Kernel", width: 0, cell: |r| Some(r.kernel.to_string()) },
    PyProfColumn { name: "params", heading: "Params", width: 0, cell: |r| r.params.map(str::to_string) },
    PyProfColumn { name: "sil", heading: "Sil(ns)", width: 10, cell: |r| Some(r.sil.to_string()) },
    PyProfColumn { name: "tc", heading: "TC", width: 2, cell: |r| Some(r.tc.to_string()) },
    PyProfColumn { name: "device", heading: "Device", width: 3, cell: |r| r.device.map(|d| d.to_string()) },
    PyProfColumn { name: "stream", heading: "Stream", width: 3, cell: |r| r.stream.map(|s| s.to_string()) },
    PyProfColumn { name: "grid", heading: "Grid", width: 12, cell: |r| r.grid.map(str::to_string) },
    PyProfColumn { name: "block", heading: "Block", width: 12, cell: |r| r.block.map(str::to_string) },
    PyProfColumn { name: "flops", heading: "FLOPs", width: 12, cell: |r| r.flops.map(|f| f.to_string()) },
    PyProfColumn { name: "bytes", heading: "Bytes", width: 12, cell: |r| r.bytes.map(|b| b.to_string()) },
];

/// The columns that PyProf prints by default.
pub const DEFAULT: &str = "idx,dir,sub,mod,op,kernel,params,sil";

/// What is not recorded.
pub(crate) const UNKNOWN: &str = "na";

/// The columns of a list of names.
///
/// # Errors
/// The first name that is none.
pub fn chosen(names: &str) -> Result<Vec<&'static PyProfColumn>, String> {
    let find =
        |name: &str| COLUMNS.iter().find(|c| c.name == name.trim()).ok_or_else(|| name.trim().to_string());
    names.split(',').map(find).collect()
}

fn cells(row: &PyProfRow, columns: &[&PyProfColumn]) -> Vec<String> {
    columns.iter().map(|c| (c.cell)(row).unwrap_or_else(|| UNKNOWN.to_string())).collect()
}

/// A line of CSV with all cells in quotes, as PyProf writes it.
fn quoted(cells: impl Iterator<Item = String>) -> String {
    let cells: Vec<String> = cells.map(|c| format!("\"{}\"", c.replace('"', "\"\""))).collect();
    cells.join(",") + "\n"
}

pub fn csv_header(columns: &[&PyProfColumn]) -> String {
    quoted(columns.iter().map(|c| c.heading.to_string()))
}

pub fn csv_line(row: &PyProfRow, columns: &[&PyProfColumn]) -> String {
    quoted(cells(row, columns).into_iter())
}

/// The widths of the columns within a line; `None` cuts nothing.
pub struct Widths(Vec<Option<usize>>);

impl Widths {
    /// # Errors
    /// The least width that the columns need.
    pub fn new(columns: &[&PyProfColumn], line: Option<usize>) -> Result<Self, usize> {
        let Some(line) = line else { return Ok(Self(vec![None; columns.len()])) };
        let shared = columns.iter().filter(|c| c.width == 0).count();
        let fixed: usize = columns.iter().map(|c| c.width).sum::<usize>() + columns.len().saturating_sub(1);
        if line < fixed + shared {
            return Err(fixed + shared);
        }
        let each = (line - fixed).checked_div(shared).unwrap_or(0);
        Ok(Self(columns.iter().map(|c| Some(if c.width == 0 { each } else { c.width })).collect()))
    }

    fn line(&self, columns: &[&PyProfColumn], cells: Vec<String>) -> String {
        let cell = |((cell, column), width): ((String, &&PyProfColumn), &Option<usize>)| match width {
            None => format!("{cell:<width$}", width = column.width),
            Some(width) => {
                let cut: String = cell.chars().take(*width).collect();
                format!("{cut:<width$}", width = *width)
            }
        };
        let line: Vec<String> = cells.into_iter().zip(columns).zip(&self.0).map(cell).collect();
        line.join(" ").trim_end().to_string() + "\n"
    }

    pub fn header(&self, columns: &[&PyProfColumn]) -> String {
        self.line(columns, columns.iter().map(|c| c.heading.to_string()).collect())
    }

    pub fn row(&self, row: &PyProfRow, columns: &[&PyProfColumn]) -> String {
        self.line(columns, cells(row, columns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_columns_share_what_is_left_of_the_line() {
        let columns = chosen("idx,kernel,params,sil").unwrap();
        let widths = Widths::new(&columns, Some(60)).unwrap();
        assert_eq!(widths.0, [Some(7), Some(20), Some(20), Some(10)]);
        assert_eq!(
            widths.header(&columns).trim_end(),
            "Idx     Kernel               Params               Sil(ns)"
        );
        assert_eq!(Widths::new(&columns, Some(10)).err(), Some(22));
    }

    #[test]
    fn an_unknown_column_is_refused() {
        assert_eq!(chosen("idx,nothing").err(), Some("nothing".to_string()));
        assert_eq!(chosen(DEFAULT).map(|c| c.len()), Ok(8));
    }
}
