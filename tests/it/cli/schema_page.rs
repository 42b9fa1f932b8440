//! The schema page agrees with the metadata of the Parquet files. `docs::reference` tests that its copy is current.

use crate::shared::files_below;
use hta::output::schema_page::page;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::collections::BTreeSet;
use std::fs::File;
use std::process::Command;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

#[test]
fn hta_explain_schema_prints_the_page() {
    let printed = Command::new(env!("CARGO_BIN_EXE_hta")).args(["explain", "schema"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&printed.stdout), page());
}

/// The section of a table, for its first definition.
fn section<'p>(page: &'p str, table: &str) -> &'p str {
    let start =
        page.find(&format!("\n### {table}\n")).unwrap_or_else(|| panic!("{table} is not on the page"));
    let rest = &page[start + 1..];
    rest.split_once("\n#").map_or(rest, |(own, _)| own)
}

#[test]
fn parquet_files_carry_the_units_and_meanings_of_the_page() {
    let out = tempfile::tempdir().unwrap();
    let page = page();
    let mut seen = BTreeSet::new();
    for sample in ["gpu_ddp8", "gpu_counters"] {
        let run = Command::new(env!("CARGO_BIN_EXE_hta"))
            .args(["analyze", "--keep-args", &format!("data/samples/{sample}"), "--force", "--out"])
            .arg(out.path())
            .current_dir(ROOT)
            .output()
            .unwrap();
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        for file in
            files_below(out.path()).into_iter().filter(|f| f.extension().is_some_and(|e| e == "parquet"))
        {
            let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(&file).unwrap()).unwrap();
            let schema = reader.schema();
            let table = &schema.metadata()["table"];
            let own = section(&page, table);
            let said = own.lines().nth(2).unwrap_or_default();
            assert!(
                said.to_lowercase().starts_with(&schema.metadata()["description"].trim().to_lowercase()),
                "{said}"
            );
            assert!(said.ends_with(&format!("Sorted by {}.", schema.metadata()["sorted_by"])), "{said}");
            assert_eq!(
                own.lines().filter(|l| l.starts_with("| `")).count(),
                schema.fields().len(),
                "{table}"
            );
            for field in schema.fields() {
                let note = |key: &str| field.metadata().get(key).map_or("", |v| v.trim());
                let start = format!("| `{}` | ", field.name());
                let end = format!(" | {} | {} |", note("unit"), note("description").replace('|', "\\|"));
                let told = own.lines().any(|l| l.starts_with(&start) && l.ends_with(&end));
                assert!(told, "{table}.{}: {end}", field.name());
            }
            seen.insert(table.clone());
        }
    }
    assert!(seen.len() > 40 && seen.contains("events"), "{seen:?}");
}
