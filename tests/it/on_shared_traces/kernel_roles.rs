//! Classes, roles, kinds and categories of kernels of exchange libraries, by the list
//! `cases/kernels26/kernels.tsv`.

use crate::run::{answer, options};
use crate::shared;
use hta_testkit::{Format, TraceBuilder, us};
use std::collections::BTreeMap;

/// One kernel of the list.
struct KnownKernel {
    columns: BTreeMap<String, String>,
}

impl KnownKernel {
    fn text(&self, column: &str) -> &str {
        self.columns.get(column).map_or("", String::as_str)
    }

    /// The kind of collective that follows from the role.
    fn kind(&self) -> &str {
        match self.text("role") {
            "dispatch" | "combine" => "all_to_all",
            "put" | "get" => "unknown",
            "none" | "prepare" | "finish" | "copy_in" | "copy_out" | "kv_copy" => "",
            role if role.contains('+') => "fused",
            role => role,
        }
    }
}

fn known(text: &str) -> Vec<KnownKernel> {
    let mut lines = text.lines().map(|line| line.split('\t'));
    let heads: Vec<&str> = lines.next().expect("a line of heads").collect();
    let row = |cells: std::str::Split<char>| {
        heads.iter().zip(cells).map(|(head, cell)| (head.to_string(), cell.to_string())).collect()
    };
    lines.map(|cells| KnownKernel { columns: row(cells) }).collect()
}

/// Every kernel of the list in a trace of its own moment, below its operator.
fn trace_of(all: &[KnownKernel]) -> TraceBuilder {
    let mut t = TraceBuilder::new().device("NVIDIA B200", 148).world(4);
    for (i, kernel) in (0..).zip(all) {
        let mut main = t.thread(1);
        let at = 100 * i;
        if !kernel.text("op").is_empty() {
            main.op(kernel.text("op"), us(at)..us(at + 20));
        }
        main.launch(us(at + 5)..us(at + 10)).kernel(kernel.text("name"), 7, us(at + 12)..us(at + 42));
    }
    t
}

#[test]
fn kernels_of_exchange_libraries_have_their_class_role_and_kind() {
    let Some(folder) = shared::folder().and_then(|root| root.cases("kernels26")) else { return };
    let text = std::fs::read_to_string(folder.join("kernels.tsv")).expect("the list can be read");
    let all = known(&text);
    let place = tempfile::tempdir().expect("a temporary folder");
    let path = place.path().join("rank_0.json");
    std::fs::write(&path, trace_of(&all).to_bytes(&Format::default())).expect("a file can be written");
    let rows = answer(&[path], &options()).rows("kernels");
    assert_eq!((rows.len(), all.len() >= 190), (all.len(), true));
    let mut wrong = Vec::new();
    for (kernel, row) in all.iter().zip(&rows) {
        assert_eq!(row.text("name"), kernel.text("name"));
        let role = match row.text("role") {
            "" => "none",
            role => role,
        };
        let found = [row.text("class"), role, row.text("kind"), row.text("category")];
        let is_right = [kernel.text("class"), kernel.text("also")].contains(&found[0])
            && found[1] == kernel.text("role")
            && found[2] == kernel.kind()
            && ["-", found[3]].contains(&kernel.text("category"));
        if !is_right && kernel.text("grade") == "must" {
            wrong.push(format!("{}: {found:?}", kernel.text("name")));
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
