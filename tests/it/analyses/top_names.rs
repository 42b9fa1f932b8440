//! Sums over ranks, computed a second time by grouping with Polars.

use crate::run::{answer, options};
use crate::shared::{files_below, samples};
use hta::analysis::api::Partial;
use hta::analysis::kernels::totals::{NameTotal, top_names};
use polars::prelude::{Column, DataFrame, NamedFrom, PolarsResult, Series};

fn grouped(columns: Vec<Column>, steps: i64) -> PolarsResult<Vec<NameTotal>> {
    let frame = DataFrame::new_infer_height(columns)?;
    let total = |part: &DataFrame| -> PolarsResult<NameTotal> {
        let text = |column: &str| -> PolarsResult<String> {
            Ok(part.column(column)?.str()?.get(0).unwrap_or_default().to_string())
        };
        let sum = |column: &str| -> PolarsResult<i64> { Ok(part.column(column)?.i64()?.iter().flatten().sum()) };
        Ok(NameTotal {
            class: text("class")?,
            short_name: text("name")?,
            cells: Vec::new(),
            count: sum("count")?,
            sum_ns: sum("sum")?,
            steps,
        })
    };
    frame.partition_by_stable(["class", "name"], true)?.iter().map(total).collect()
}

#[test]
fn names_are_summed_over_ranks_as_polars_sums_them() {
    let answer = answer(&files_below(&samples().join("gpu_ddp8")), &options());
    let rows = answer.rows("kernels_by_name");
    let spans: Vec<_> = rows.iter().filter(|r| r.text("scope") == "span").collect();
    let steps = rows.iter().filter_map(|r| r.opt_int("step")).max().map_or(1, |s| s + 1);
    let column = |name: &str, of: &str| {
        Column::from(Series::new(name.into(), spans.iter().map(|r| r.text(of)).collect::<Vec<_>>()))
    };
    let numbers = |name: &str, of: &str| {
        Column::from(Series::new(name.into(), spans.iter().map(|r| r.int(of)).collect::<Vec<_>>()))
    };
    let columns = vec![
        column("class", "class"),
        column("name", "short_name"),
        numbers("count", "count"),
        numbers("sum", "sum_ns"),
    ];
    let mut second = grouped(columns, steps).expect("columns of one length");
    second.sort_by(|a, b| (b.sum_ns, &a.short_name, &a.class).cmp(&(a.sum_ns, &b.short_name, &b.class)));
    let batches = answer.batches().filter(|b| b.spec.name == "kernels_by_name");
    let partials: Vec<Partial> = batches.map(|b| Partial { rank: 0, tables: vec![b.clone()], reason: None }).collect();
    assert_eq!(top_names(&partials, "span", |_| Vec::new()), second);
    assert!(second.len() > 3, "{second:?}");
}
