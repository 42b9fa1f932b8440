//! `report.html`: it agrees with the tables, no name breaks out of it, it loads nothing, and it stays small.
//!
//! `tests/html/check.py` tests it in a browser.

pub mod against;
mod figures;
mod hostile;
mod many;
mod page;
mod same;

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// Runs `hta` in the repository.
fn hta(arguments: &[&str]) -> Output {
    let root = env!("CARGO_MANIFEST_DIR");
    Command::new(env!("CARGO_BIN_EXE_hta"))
        .current_dir(root)
        .args(arguments)
        .output()
        .expect("the binary runs")
}

pub fn shown(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// Analyses `inputs` into `out`, and gives its page.
pub fn analyze(inputs: &str, out: &Path, options: &[&str]) -> Page {
    let run = hta(&[&["analyze", inputs, "-o", shown(out)], options].concat());
    assert!(run.status.code().is_some_and(|c| c < 2), "{inputs}: {}", String::from_utf8_lossy(&run.stderr));
    Page::read(&out.join("report.html"))
}

/// A page, and the data in it.
pub struct Page {
    html: String,
    data: Value,
}

const DATA: &str = "<script type=\"application/json\" id=\"data\">";

impl Page {
    fn read(path: &Path) -> Self {
        let html = std::fs::read_to_string(path).expect("a page in UTF-8");
        let (_, rest) = html.split_once(DATA).expect("the page holds data");
        let (json, _) = rest.split_once("</script>").expect("the data ends");
        let data = serde_json::from_str(json).expect("the data is JSON");
        Self { html, data }
    }

    /// A section's part of the data.
    fn section(&self, name: &str) -> &Value {
        let all = self.data["sections"].as_array().expect("sections");
        all.iter().find(|s| s[0] == name).map(|s| &s[1]).unwrap_or_else(|| panic!("no section `{name}`"))
    }

    /// Why a section is empty.
    fn reason(&self, section: &str) -> Option<&str> {
        self.section(section)["empty"].as_str()
    }

    pub fn has(&self, section: &str, grid: &str) -> bool {
        self.section(section)["grids"].get(grid).is_some()
    }

    fn grid(&self, section: &str, grid: &str) -> &Value {
        let found = &self.section(section)["grids"][grid];
        assert!(found.is_object(), "no grid `{grid}` in `{section}`");
        found
    }

    fn column(&self, section: &str, grid: &str, name: &str) -> &Value {
        let columns = self.grid(section, grid)["columns"].as_array().expect("columns");
        columns.iter().find(|c| c["name"] == name).unwrap_or_else(|| panic!("no column `{name}` in `{grid}`"))
    }

    fn cells(&self, section: &str, grid: &str, name: &str) -> Vec<Option<i64>> {
        self.column(section, grid, name)["cells"]
            .as_array()
            .expect("cells")
            .iter()
            .map(Value::as_i64)
            .collect()
    }

    pub fn texts(&self, section: &str, grid: &str, name: &str) -> Vec<String> {
        let text = |id: &Option<i64>| id.and_then(|i| self.data["texts"][usize::try_from(i).ok()?].as_str());
        self.cells(section, grid, name).iter().map(|id| text(id).unwrap_or_default().to_string()).collect()
    }

    /// A column summed, with the rows that are not listed.
    fn sum(&self, section: &str, grid: &str, name: &str) -> i64 {
        let listed: i64 = self.cells(section, grid, name).iter().flatten().sum();
        listed + self.rest(section, grid, name)
    }

    /// The sums of the rows that are not listed.
    fn rest(&self, section: &str, grid: &str, name: &str) -> i64 {
        let columns = self.grid(section, grid)["columns"].as_array().expect("columns");
        let at =
            columns.iter().position(|c| c["name"] == name).unwrap_or_else(|| panic!("no column `{name}`"));
        self.grid(section, grid)["rest"][1][at].as_i64().unwrap_or(0)
    }

    /// No name began or ended a script: there are Plotly, the data, the modules, their map, and the first import.
    fn assert_scripts_are_ours(&self) {
        let ours = 4 + self.html.matches("<script type=\"text/plain\" data-module=\"page/").count();
        assert_eq!(self.html.matches("</script").count(), ours, "an element was ended by a name");
        assert_eq!(self.html.matches("<script").count(), ours, "an element was begun by a name");
    }

    /// The page without data and scripts: our own HTML and style.
    fn frame(&self) -> String {
        let mut out = String::new();
        let mut rest = self.html.as_str();
        while let Some((before, inside)) = rest.split_once("<script") {
            out.push_str(before);
            rest = inside.split_once("</script>").expect("a script ends").1;
        }
        out + rest
    }
}
