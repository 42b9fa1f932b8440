//! The figures of a baseline beside those of this run, in every table of the page whose rows have a key.
//!
//! ```text
//!   this run        baseline             page
//!   a  5 ns         b  3 ns              a  5 ns   baseline: none
//!   b  4 ns         b' 2 ns              b  4 ns   baseline: 3 ns
//! ```
//!
//! Both runs are shown by the same code, so a row of one stands for the same thing in the other where their
//! keys are equal. A key that several rows have names none of them.

use crate::output::html::grid::{Cell, Grid, Sections};
use crate::output::html::sections::compared;
use std::collections::BTreeMap;

/// Whether a section has tables that are compared.
pub(crate) fn has_keys(section: &str) -> bool {
    compared().any(|(of, ..)| of == section)
}

/// Adds the figures of the baseline to the grids of this run. Texts of both must have the same indices.
/// Columns `apart` are not figures of one thing in both runs.
pub(crate) fn add(this: &mut Sections, base: &Sections, apart: &[&str]) {
    for (section, grid, key) in compared() {
        let of_base = base.iter().find(|(name, _)| *name == section).and_then(|(_, s)| s.grid(grid));
        let of_this = this.iter_mut().find(|(name, _)| *name == section).and_then(|(_, s)| s.grid_mut(grid));
        if let Some((this, base)) = of_this.zip(of_base) {
            let places = places(this, base, &key);
            this.set_baseline(base, &places, &[key.as_slice(), apart].concat());
        }
    }
}

/// By row of this run: the row of the baseline.
fn places(this: &Grid, base: &Grid, key: &[&str]) -> Vec<Option<usize>> {
    let mut of_base: BTreeMap<Vec<KeyCell>, Option<usize>> = BTreeMap::new();
    for (i, cells) in keys(base, key).into_iter().enumerate() {
        let Some(cells) = cells else { continue };
        of_base.entry(cells).and_modify(|place| *place = None).or_insert(Some(i));
    }
    let all = keys(this, key);
    let mut times: BTreeMap<&[KeyCell], usize> = BTreeMap::new();
    all.iter().flatten().for_each(|cells| *times.entry(cells).or_default() += 1);
    let place = |cells: &Option<Vec<KeyCell>>| {
        let cells = cells.as_ref().filter(|cells| times.get(cells.as_slice()) == Some(&1))?;
        of_base.get(cells).copied().flatten()
    };
    all.iter().map(place).collect()
}

/// A cell of a key: nothing, a number or the index of a text.
type KeyCell = (u8, i64);

/// The keys of the rows; `None` where the page does not have a text.
fn keys(grid: &Grid, columns: &[&str]) -> Vec<Option<Vec<KeyCell>>> {
    let columns: Vec<&[Cell]> = columns.iter().filter_map(|name| grid.cells(name)).collect();
    let cell = |cell: Option<&Cell>| match cell {
        Some(Cell::Int(v)) => Some((1, *v)),
        Some(Cell::Text(u32::MAX)) | Some(Cell::Float(_)) => None,
        Some(Cell::Text(id)) => Some((2, i64::from(*id))),
        Some(Cell::Nothing) | None => Some((0, 0)),
    };
    (0..grid.len()).map(|i| columns.iter().map(|column| cell(column.get(i))).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::html::grid::Section;
    use hta_base::table;
    use hta_base::table::schema::Text;

    table! {
        /// Lines of code.
        struct ShownLines, ShownLineRow = "lines" by "name, thread" {
            name: Text, "", "line";
            thread: Option<Text>, "", "thread";
            self_ns: i64, "ns", "time of its own", "time";
        }
    }

    fn grid(rows: &[(u32, i64)]) -> Grid {
        let mut grid = Grid::whole(ShownLines::SPEC);
        for (name, ns) in rows {
            grid.push([Cell::Text(*name), Cell::Nothing, Cell::Int(*ns)]);
        }
        grid
    }

    /// The figures of the baseline by row.
    fn beside(this: &[(u32, i64)], base: &[(u32, i64)]) -> serde_json::Value {
        let section = |rows| vec![("lines", Section::default().with("lines", grid(rows)))];
        let mut both: Sections = section(this);
        add(&mut both, &section(base), &[]);
        let all = serde_json::to_value(&both[0].1).expect("a section is JSON");
        let columns = &all["grids"]["lines"]["columns"];
        assert!(
            columns[0].get("base").is_none() && columns[1].get("base").is_none(),
            "keys are not compared"
        );
        columns[2]["base"].clone()
    }

    #[test]
    fn rows_with_the_same_key_stand_beside_each_other() {
        let this = [(1, 10), (2, 20), (3, 30)];
        let base = [(3, 33), (1, 11), (4, 44)];
        assert_eq!(beside(&this, &base), serde_json::json!([11, null, 33]));
    }

    #[test]
    fn a_key_that_is_not_the_key_of_one_row_names_none() {
        let (twice, once) = ([(1, 10), (1, 12)], [(1, 11)]);
        // Where no row has a partner, no column has a baseline.
        assert_eq!(beside(&twice, &once), serde_json::Value::Null);
        assert_eq!(beside(&once, &twice), serde_json::Value::Null);
        // A name that the page does not have is not that of another one.
        assert_eq!(beside(&[(u32::MAX, 1)], &[(u32::MAX, 2)]), serde_json::Value::Null);
    }
}
