//! Sums over ranks, computed a second time by grouping with Polars.

use crate::run::{Record, answer, options};
use crate::shared::{files_below, samples};
use polars::prelude::{Column, DataFrame, NamedFrom, PolarsResult, Series};

/// Class, name, count, sum and number of ranks.
type NameSums = (String, String, i64, i64, usize);

fn grouped(columns: Vec<Column>) -> PolarsResult<Vec<NameSums>> {
    let frame = DataFrame::new_infer_height(columns)?;
    let total = |part: &DataFrame| -> PolarsResult<NameSums> {
        let text = |column: &str| -> PolarsResult<String> {
            Ok(part.column(column)?.str()?.get(0).unwrap_or_default().to_string())
        };
        let sum =
            |column: &str| -> PolarsResult<i64> { Ok(part.column(column)?.i64()?.iter().flatten().sum()) };
        Ok((text("class")?, text("name")?, sum("count")?, sum("sum")?, part.column("rank")?.n_unique()?))
    };
    frame.partition_by_stable(["class", "name"], true)?.iter().map(total).collect()
}

#[test]
fn names_are_summed_over_ranks_as_polars_sums_them() {
    let answer = answer(&files_below(&samples().join("gpu_ddp8")), &options());
    let of_span = |table: &str| answer.rows_where(table, |r| r.text("scope") == "span");
    let rows = of_span("kernels_by_name");
    let column = |name: &str, of: &str| {
        Column::from(Series::new(name.into(), rows.iter().map(|r| r.text(of)).collect::<Vec<_>>()))
    };
    let numbers = |name: &str, of: &str| {
        Column::from(Series::new(name.into(), rows.iter().map(|r| r.int(of)).collect::<Vec<_>>()))
    };
    let columns = vec![
        column("class", "class"),
        column("name", "name"),
        numbers("count", "count"),
        numbers("sum", "sum_ns"),
        numbers("rank", "rank"),
    ];
    let mut second = grouped(columns).expect("columns of one length");
    let row = |r: &Record| {
        let ranks = usize::try_from(r.int("rank_count")).expect("a count");
        (r.text("class").to_string(), r.text("name").to_string(), r.int("count"), r.int("sum_ns"), ranks)
    };
    let mut first: Vec<NameSums> = of_span("kernels_over_ranks").iter().map(row).collect();
    first.sort();
    second.sort();
    assert_eq!(first, second);
    assert!(second.len() > 3, "{second:?}");
}
