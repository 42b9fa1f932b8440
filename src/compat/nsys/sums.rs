//! The columns of the summaries, as data, and their printed rows.

use crate::nsys::distribution::Distribution;
use crate::nsys::names::shown_dimensions;
use crate::nsys::samples::Quantity::{Api, Bytes, Children, Kernel, Level, Operations, Queue, Range, Time};
use crate::nsys::samples::{Quantity, Samples, SummaryKey, key};
use hta_analysis::api::{Partial, rows};
use hta_analysis::printed::{PrintedColumn, View, number, text};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A summary: the quantity by whose total its rows fall, and its columns in groups.
#[derive(Clone, Copy)]
pub(crate) struct Summary {
    by: Quantity,
    columns: &'static [&'static [SumColumn]],
}

/// A column and what its cells are of.
type SumColumn = (PrintedColumn<'static>, SumCell);

#[derive(Clone, Copy)]
enum SumCell {
    /// What the row is for.
    Key(fn(&SummaryKey<&str>) -> String),
    /// The values of a quantity.
    Of(Quantity, fn(&Distribution) -> String),
    /// The total of the quantity by which rows fall, as a share of that of all rows.
    Share,
}

const fn label(heading: &'static str, cell: fn(&SummaryKey<&str>) -> String) -> SumColumn {
    (text(heading), SumCell::Key(cell))
}

/// A number that is part of the key.
const fn id(heading: &'static str, cell: fn(&SummaryKey<&str>) -> String) -> SumColumn {
    (number(heading), SumCell::Key(cell))
}

const fn of(quantity: Quantity, heading: &'static str, cell: fn(&Distribution) -> String) -> SumColumn {
    (number(heading), SumCell::Of(quantity, cell))
}

/// Mean, median, least, largest and deviation.
const fn spread(of_quantity: Quantity, headings: [&'static str; 5]) -> [SumColumn; 5] {
    let [mean, median, least, most, deviation] = headings;
    [
        of(of_quantity, mean, |d| tenths(d.mean())),
        of(of_quantity, median, |d| tenths(d.median())),
        of(of_quantity, least, |d| shown(d.min())),
        of(of_quantity, most, |d| shown(d.max())),
        of(of_quantity, deviation, |d| tenths(d.deviation())),
    ]
}

fn shown<T: ToString>(cell: Option<T>) -> String {
    cell.map_or_else(String::new, |of| of.to_string())
}

/// A number with one digit behind the point.
fn tenths(value: Option<f64>) -> String {
    value.map_or_else(String::new, |v| format!("{v:.1}"))
}

fn count(d: &Distribution) -> String {
    d.count().to_string()
}

fn total(d: &Distribution) -> String {
    d.total().to_string()
}

fn mean(d: &Distribution) -> String {
    tenths(d.mean())
}

/// Bytes as megabytes of 10^6 bytes, exactly.
pub(crate) fn megabytes(bytes: i128) -> String {
    let sign = if bytes < 0 { "-" } else { "" };
    let bytes = bytes.unsigned_abs();
    format!("{sign}{}.{:06}", bytes / 1_000_000, bytes % 1_000_000)
}

/// The same of a number of bytes.
fn whole_megabytes(bytes: Option<i64>) -> String {
    bytes.map_or_else(String::new, |v| megabytes(i128::from(v)))
}

/// The same of a mean, rounded.
fn mean_megabytes(bytes: Option<f64>) -> String {
    bytes.map_or_else(String::new, |v| format!("{:.6}", v / 1e6))
}

/// The text of a range as nsys prints it: behind the colon is the text, before it the domain, which is not
/// read.
fn range_text(key: &SummaryKey<&str>) -> String {
    format!(":{}", key.name)
}

const NAME: SumColumn = label("Name", |k| k.name.to_string());
const API_NAME: SumColumn = label("API Name", |k| k.name.to_string());
const KERNEL: SumColumn = label("Kernel Name", |k| shown(k.kernel));
const OPERATION: SumColumn = label("Operation", |k| k.name.to_string());
const CATEGORY: SumColumn = label("Category", |k| shown(k.category));
const GRID: SumColumn = label("GridXYZ", |k| shown_dimensions(k.grid));
const BLOCK: SumColumn = label("BlockXYZ", |k| shown_dimensions(k.block));
const STYLE: SumColumn = label("Style", |k| shown(k.style));
const RANGE: SumColumn = label("Range", range_text);
const PID: SumColumn = id("PID", |k| shown(k.process));
const TID: SumColumn = id("TID", |k| shown(k.thread));

/// What summaries of times begin with.
const SHARE: &[SumColumn] = &[(number("Time (%)"), SumCell::Share), of(Time, "Total Time (ns)", total)];
const TIMES: [SumColumn; 5] = spread(Time, ["Avg (ns)", "Med (ns)", "Min (ns)", "Max (ns)", "StdDev (ns)"]);
const CALLS: &[SumColumn] = &[of(Time, "Num Calls", count)];
const INSTANCES: &[SumColumn] = &[of(Time, "Instances", count)];
const COUNT: &[SumColumn] = &[of(Time, "Count", count)];

pub(crate) const API: Summary = Summary { by: Time, columns: &[SHARE, CALLS, &TIMES, &[NAME]] };
pub(crate) const KERNELS: Summary = Summary { by: Time, columns: &[SHARE, INSTANCES, &TIMES, &[NAME]] };
pub(crate) const KERNELS_BY_GRID: Summary =
    Summary { by: Time, columns: &[SHARE, INSTANCES, &TIMES, &[GRID, BLOCK, NAME]] };
pub(crate) const MEMORY_TIMES: Summary = Summary { by: Time, columns: &[SHARE, COUNT, &TIMES, &[OPERATION]] };
pub(crate) const OPERATIONS: Summary =
    Summary { by: Time, columns: &[SHARE, INSTANCES, &TIMES, &[CATEGORY, OPERATION]] };
pub(crate) const RANGES: Summary =
    Summary { by: Time, columns: &[SHARE, INSTANCES, &TIMES, &[STYLE, RANGE]] };

pub(crate) const MEMORY_SIZES: Summary = Summary {
    by: Bytes,
    columns: &[&[
        of(Bytes, "Total (MB)", |d| megabytes(d.total())),
        of(Bytes, "Count", count),
        of(Bytes, "Avg (MB)", |d| mean_megabytes(d.mean())),
        of(Bytes, "Med (MB)", |d| mean_megabytes(d.median())),
        of(Bytes, "Min (MB)", |d| whole_megabytes(d.min())),
        of(Bytes, "Max (MB)", |d| whole_megabytes(d.max())),
        of(Bytes, "StdDev (MB)", |d| mean_megabytes(d.deviation())),
        OPERATION,
    ]],
};

pub(crate) const EXECUTIONS: Summary = Summary {
    by: Time,
    columns: &[
        &[PID, TID, id("DevId", |k| shown(k.device)), of(Time, "Count", count), of(Queue, "QCount", count)],
        &spread(Time, ["TAvg (ns)", "TMed (ns)", "TMin (ns)", "TMax (ns)", "TStdDev (ns)"]),
        &spread(Api, ["AAvg (ns)", "AMed (ns)", "AMin (ns)", "AMax (ns)", "AStdDev (ns)"]),
        &spread(Queue, ["QAvg (ns)", "QMed (ns)", "QMin (ns)", "QMax (ns)", "QStdDev (ns)"]),
        &spread(Kernel, ["KAvg (ns)", "KMed (ns)", "KMin (ns)", "KMax (ns)", "KStdDev (ns)"]),
        &[API_NAME, KERNEL],
    ],
};

pub(crate) const PROJECTIONS: Summary = Summary {
    by: Time,
    columns: &[
        &[
            RANGE,
            STYLE,
            of(Time, "Total Proj Time (ns)", total),
            of(Range, "Total Range Time (ns)", total),
            of(Time, "Range Instances", count),
        ],
        &spread(
            Time,
            ["Proj Avg (ns)", "Proj Med (ns)", "Proj Min (ns)", "Proj Max (ns)", "Proj StdDev (ns)"],
        ),
        &[
            of(Operations, "Total GPU Ops", total),
            of(Operations, "Avg GPU Ops", mean),
            of(Level, "Avg Range Lvl", mean),
            of(Children, "Avg Num Child", mean),
        ],
    ],
};

pub(crate) const RANGE_KERNELS: Summary = Summary {
    by: Time,
    columns: &[
        &[
            label("NVTX Range", range_text),
            STYLE,
            PID,
            TID,
            of(Range, "NVTX Inst", count),
            of(Time, "Kern Inst", count),
            of(Time, "Total Time (ns)", total),
        ],
        &TIMES,
        &[KERNEL],
    ],
};

/// The values of one row.
type RowValues = BTreeMap<Quantity, Distribution>;

/// The rows of a summary with their values, the largest total first.
fn groups(partials: &[Partial], by: Quantity) -> Vec<(SummaryKey<&str>, RowValues)> {
    let mut groups: BTreeMap<SummaryKey<&str>, RowValues> = BTreeMap::new();
    for row in rows::<Samples>(partials) {
        if let Some(quantity) = Quantity::named(row.quantity) {
            let values = groups.entry(key(&row)).or_default().entry(quantity).or_default();
            values.add(row.value, row.count);
        }
    }
    let mut all: Vec<_> = groups.into_iter().collect();
    all.sort_by_cached_key(|(_, values)| Reverse(values.get(&by).map_or(0, Distribution::total)));
    all
}

impl Summary {
    pub(crate) fn view(&self, title: &str, partials: &[Partial]) -> View {
        let groups = groups(partials, self.by);
        let nothing = Distribution::default();
        let total = |values: &RowValues| values.get(&self.by).map_or(0, Distribution::total);
        let all: i128 = groups.iter().map(|(_, values)| total(values)).sum();
        let share = |part: i128| (all != 0).then(|| 100.0 * part as f64 / all as f64);
        let columns: Vec<SumColumn> = self.columns.concat();
        let row = |(key, values): &(SummaryKey<&str>, RowValues)| {
            let cell = |(_, cell): &SumColumn| match cell {
                SumCell::Key(shown) => shown(key),
                SumCell::Of(of, shown) => shown(values.get(of).unwrap_or(&nothing)),
                SumCell::Share => tenths(share(total(values))),
            };
            columns.iter().map(cell).collect()
        };
        View {
            title: title.to_string(),
            columns: columns.iter().map(|c| c.0).collect(),
            rows: groups.iter().map(row).collect(),
            notes: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn megabytes_are_exact() {
        assert_eq!(
            [0, 4, 1_000_000, 8_046_134_272].map(megabytes),
            ["0.000000", "0.000004", "1.000000", "8046.134272"]
        );
        assert_eq!(megabytes(-1), "-0.000001");
    }
}
