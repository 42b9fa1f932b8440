//! The printed rows of the summaries.

use crate::nsys::distribution::Distribution;
use crate::nsys::names::shown_dimensions;
use crate::nsys::samples::{Quantity, Samples, SummaryKey, key};
use hta_analysis::api::{Partial, rows};
use hta_analysis::printed::{PrintedColumn, View, number, text};
use std::cmp::Reverse;
use std::collections::BTreeMap;

type SumColumns = Vec<PrintedColumn<'static>>;

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

/// A number with one digit behind the point.
fn tenths(value: Option<f64>) -> String {
    value.map_or_else(String::new, |v| format!("{v:.1}"))
}

fn whole(value: Option<i64>) -> String {
    value.map_or_else(String::new, |v| v.to_string())
}

/// Mean, median, least, largest and deviation.
fn spread(d: &Distribution) -> [String; 5] {
    [tenths(d.mean()), tenths(d.median()), whole(d.min()), whole(d.max()), tenths(d.deviation())]
}

fn share(part: i128, all: i128) -> String {
    tenths((all != 0).then(|| 100.0 * part as f64 / all as f64))
}

/// A key column of a summary: heading and cell.
type SumKeyColumn = (&'static str, fn(&SummaryKey<&str>) -> String);

/// The text of a range as nsys prints it: behind the colon is the text, before it the domain, which is not
/// read.
fn range_text(name: &str) -> String {
    format!(":{name}")
}

/// A summary of times: share, total, count, spread, then what the row is for.
fn times(title: &str, partials: &[Partial], count: &'static str, keys: &[SumKeyColumn]) -> View {
    let groups = groups(partials, Quantity::Time);
    let nothing = Distribution::default();
    let of = |values: &RowValues| values.get(&Quantity::Time).unwrap_or(&nothing).clone();
    let all: i128 = groups.iter().map(|(_, values)| of(values).total()).sum();
    let mut columns: SumColumns =
        ["Time (%)", "Total Time (ns)", count, "Avg (ns)", "Med (ns)", "Min (ns)", "Max (ns)", "StdDev (ns)"]
            .map(number)
            .to_vec();
    columns.extend(keys.iter().map(|k| text(k.0)));
    let row = |(key, values): &(SummaryKey<&str>, RowValues)| {
        let d = of(values);
        let mut row = vec![share(d.total(), all), d.total().to_string(), d.count().to_string()];
        row.extend(spread(&d));
        row.extend(keys.iter().map(|k| (k.1)(key)));
        row
    };
    View { title: title.to_string(), columns, rows: groups.iter().map(row).collect(), notes: Vec::new() }
}

const NAME: SumKeyColumn = ("Name", |k| k.name.to_string());
const OPERATION: SumKeyColumn = ("Operation", |k| k.name.to_string());
const CATEGORY: SumKeyColumn = ("Category", |k| k.category.unwrap_or_default().to_string());
const GRID: SumKeyColumn = ("GridXYZ", |k| shown_dimensions(k.grid));
const BLOCK: SumKeyColumn = ("BlockXYZ", |k| shown_dimensions(k.block));
const STYLE: SumKeyColumn = ("Style", |k| k.style.unwrap_or_default().to_string());
const RANGE: SumKeyColumn = ("Range", |k| range_text(k.name));

pub(crate) fn api(title: &str, partials: &[Partial]) -> View {
    times(title, partials, "Num Calls", &[NAME])
}

pub(crate) fn kernels(title: &str, partials: &[Partial]) -> View {
    times(title, partials, "Instances", &[NAME])
}

pub(crate) fn kernels_by_grid(title: &str, partials: &[Partial]) -> View {
    times(title, partials, "Instances", &[GRID, BLOCK, NAME])
}

pub(crate) fn memory_times(title: &str, partials: &[Partial]) -> View {
    times(title, partials, "Count", &[OPERATION])
}

pub(crate) fn operations(title: &str, partials: &[Partial]) -> View {
    times(title, partials, "Instances", &[CATEGORY, OPERATION])
}

pub(crate) fn ranges(title: &str, partials: &[Partial]) -> View {
    times(title, partials, "Instances", &[STYLE, RANGE])
}

/// Bytes as megabytes of 10^6 bytes, exactly.
pub(crate) fn megabytes(bytes: i128) -> String {
    let sign = if bytes < 0 { "-" } else { "" };
    let bytes = bytes.unsigned_abs();
    format!("{sign}{}.{:06}", bytes / 1_000_000, bytes % 1_000_000)
}

pub(crate) fn memory_sizes(title: &str, partials: &[Partial]) -> View {
    let ratio = |v: Option<f64>| v.map_or_else(String::new, |v| format!("{:.6}", v / 1e6));
    let exact = |v: Option<i64>| v.map_or_else(String::new, |v| megabytes(i128::from(v)));
    let headings = ["Total (MB)", "Count", "Avg (MB)", "Med (MB)", "Min (MB)", "Max (MB)", "StdDev (MB)"];
    let mut columns: SumColumns = headings.map(number).to_vec();
    columns.push(text("Operation"));
    let row = |(key, values): (SummaryKey<&str>, RowValues)| {
        let d = values.get(&Quantity::Bytes).cloned().unwrap_or_default();
        vec![
            megabytes(d.total()),
            d.count().to_string(),
            ratio(d.mean()),
            ratio(d.median()),
            exact(d.min()),
            exact(d.max()),
            ratio(d.deviation()),
            key.name.to_string(),
        ]
    };
    let rows = groups(partials, Quantity::Bytes).into_iter().map(row).collect();
    View { title: title.to_string(), columns, rows, notes: Vec::new() }
}

pub(crate) fn executions(title: &str, partials: &[Partial]) -> View {
    const HEADINGS: [&str; 25] = [
        "PID",
        "TID",
        "DevId",
        "Count",
        "QCount",
        "TAvg (ns)",
        "TMed (ns)",
        "TMin (ns)",
        "TMax (ns)",
        "TStdDev (ns)",
        "AAvg (ns)",
        "AMed (ns)",
        "AMin (ns)",
        "AMax (ns)",
        "AStdDev (ns)",
        "QAvg (ns)",
        "QMed (ns)",
        "QMin (ns)",
        "QMax (ns)",
        "QStdDev (ns)",
        "KAvg (ns)",
        "KMed (ns)",
        "KMin (ns)",
        "KMax (ns)",
        "KStdDev (ns)",
    ];
    let mut columns: SumColumns = HEADINGS.map(number).to_vec();
    columns.extend([text("API Name"), text("Kernel Name")]);
    let row = |(key, values): (SummaryKey<&str>, RowValues)| {
        let of = |quantity| values.get(&quantity).cloned().unwrap_or_default();
        let shown = |t: Option<&str>| t.unwrap_or_default().to_string();
        let mut row = vec![
            shown(key.process),
            shown(key.thread),
            whole(key.device),
            of(Quantity::Time).count().to_string(),
            of(Quantity::Queue).count().to_string(),
        ];
        for quantity in [Quantity::Time, Quantity::Api, Quantity::Queue, Quantity::Kernel] {
            row.extend(spread(&of(quantity)));
        }
        row.extend([key.name.to_string(), shown(key.kernel)]);
        row
    };
    let rows = groups(partials, Quantity::Time).into_iter().map(row).collect();
    View { title: title.to_string(), columns, rows, notes: Vec::new() }
}

pub(crate) fn projections(title: &str, partials: &[Partial]) -> View {
    const HEADINGS: [&str; 12] = [
        "Total Proj Time (ns)",
        "Total Range Time (ns)",
        "Range Instances",
        "Proj Avg (ns)",
        "Proj Med (ns)",
        "Proj Min (ns)",
        "Proj Max (ns)",
        "Proj StdDev (ns)",
        "Total GPU Ops",
        "Avg GPU Ops",
        "Avg Range Lvl",
        "Avg Num Child",
    ];
    let mut columns: SumColumns = vec![text("Range"), text("Style")];
    columns.extend(HEADINGS.map(number));
    let row = |(key, values): (SummaryKey<&str>, RowValues)| {
        let of = |quantity| values.get(&quantity).cloned().unwrap_or_default();
        let projected = of(Quantity::Time);
        let mut row = vec![
            range_text(key.name),
            key.style.unwrap_or_default().to_string(),
            projected.total().to_string(),
            of(Quantity::Range).total().to_string(),
            projected.count().to_string(),
        ];
        row.extend(spread(&projected));
        row.push(of(Quantity::Operations).total().to_string());
        row.extend([Quantity::Operations, Quantity::Level, Quantity::Children].map(|q| tenths(of(q).mean())));
        row
    };
    let rows = groups(partials, Quantity::Time).into_iter().map(row).collect();
    View { title: title.to_string(), columns, rows, notes: Vec::new() }
}

pub(crate) fn range_kernels(title: &str, partials: &[Partial]) -> View {
    const HEADINGS: [&str; 10] = [
        "PID",
        "TID",
        "NVTX Inst",
        "Kern Inst",
        "Total Time (ns)",
        "Avg (ns)",
        "Med (ns)",
        "Min (ns)",
        "Max (ns)",
        "StdDev (ns)",
    ];
    let mut columns: SumColumns = vec![text("NVTX Range"), text("Style")];
    columns.extend(HEADINGS.map(number));
    columns.push(text("Kernel Name"));
    let row = |(key, values): (SummaryKey<&str>, RowValues)| {
        let of = |quantity| values.get(&quantity).cloned().unwrap_or_default();
        let shown = |t: Option<&str>| t.unwrap_or_default().to_string();
        let d = of(Quantity::Time);
        let mut row = vec![
            range_text(key.name),
            shown(key.style),
            shown(key.process),
            shown(key.thread),
            of(Quantity::Range).count().to_string(),
            d.count().to_string(),
            d.total().to_string(),
        ];
        row.extend(spread(&d));
        row.push(shown(key.kernel));
        row
    };
    let rows = groups(partials, Quantity::Time).into_iter().map(row).collect();
    View { title: title.to_string(), columns, rows, notes: Vec::new() }
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
