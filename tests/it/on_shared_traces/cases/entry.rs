//! The entries of `tests/cases/*.toml`.
//!
//! ```toml
//! [[row]]
//! input = "07_launches_without_kernels"     # the first cell of the row of EXPECTED.md begins with it
//! right = ["260 launches"]                  # must stand in the row: what the checks below rest on
//! elsewhere = "snapshots::hostile::name"    # optional: the row is checked by this test instead
//! open = "why"                              # optional: the row is not right yet, and why
//!
//! [[row.run]]
//! command = "analyze 07_launches_without_kernels"   # run in the folder of the page
//! exit = 0                                  # 0 if absent
//! says = ["260 of 260"]                     # in stdout or stderr, where white space is one blank
//! never = ["trust: ok"]
//!
//! [[row.run.table]]                         # for commands that write results: `--out` is added
//! sql = "SELECT rank, imposed_wait_ns FROM straggler_delays"
//! is = [["2", "1009600000"]]                # the cells as `hta query --format csv` prints them; or
//! near = [[2.0, 1009.6e6]]                  # numbers, each within the share `within` (0.005 if absent)
//! ```

use serde::Deserialize;
use std::path::Path;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default, rename = "row")]
    rows: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    pub input: String,
    #[serde(default)]
    pub right: Vec<String>,
    pub elsewhere: Option<String>,
    pub open: Option<String>,
    #[serde(default, rename = "run")]
    pub runs: Vec<Run>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    pub command: String,
    #[serde(default)]
    pub exit: i32,
    #[serde(default)]
    pub says: Vec<String>,
    #[serde(default)]
    pub never: Vec<String>,
    #[serde(default, rename = "table")]
    pub tables: Vec<Cells>,
}

/// What a statement over the results must give.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cells {
    pub sql: String,
    pub is: Option<Vec<Vec<String>>>,
    pub near: Option<Vec<Vec<f64>>>,
    #[serde(default = "half_a_percent")]
    pub within: f64,
}

fn half_a_percent() -> f64 {
    0.005
}

pub fn read(path: &Path) -> Vec<Entry> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    toml::from_str::<File>(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display())).rows
}
