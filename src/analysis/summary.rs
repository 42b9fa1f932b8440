//! Statistics of durations, and sums by name over all ranks.

use crate::analysis::api::Partial;
use crate::table::schema::TableSpec;
use crate::units::Ns;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    pub count: u64,
    pub sum: Ns,
    pub mean: f64,
    pub min: Ns,
    pub max: Ns,
    /// Sample standard deviation; `None` for fewer than two values.
    pub std: Option<f64>,
    pub p50: Ns,
    pub p95: Ns,
}

impl Summary {
    pub fn new(mut durations: Vec<Ns>) -> Self {
        durations.sort_unstable();
        let n = durations.len();
        let sum: Ns = durations.iter().sum();
        let mean = if n == 0 { 0.0 } else { sum as f64 / n as f64 };
        let squares: f64 = durations.iter().map(|d| (*d as f64 - mean).powi(2)).sum();
        Self {
            count: n as u64,
            sum,
            mean,
            min: durations.first().copied().unwrap_or(0),
            max: durations.last().copied().unwrap_or(0),
            std: (n > 1).then(|| (squares / (n - 1) as f64).sqrt()),
            p50: nearest_rank(&durations, 50),
            p95: nearest_rank(&durations, 95),
        }
    }
}

/// The value at position `ceil(q n)` of sorted values (nearest rank); 0 without values.
pub fn nearest_rank(sorted: &[Ns], percent: usize) -> Ns {
    let position = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(position - 1).copied().unwrap_or(0)
}

/// A kernel name, summed over all ranks and devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameTotal {
    pub class: String,
    pub short_name: String,
    pub count: i64,
    pub sum_ns: Ns,
    /// Largest number of steps in which one rank ran it.
    pub steps: i64,
}

/// Sums the `span` rows of `kernels_by_name` over ranks by class and short name, largest first.
pub fn top_names(partials: &[Partial], spec: &TableSpec) -> Vec<NameTotal> {
    top_names_by(partials, spec, "span", &[]).into_iter().map(|(total, _)| total).collect()
}

/// Sums the rows of a scope, divided also by further columns, whose cells are returned with each sum (`-` for null).
pub fn top_names_by(
    partials: &[Partial],
    spec: &TableSpec,
    scope: &str,
    columns: &[&str],
) -> Vec<(NameTotal, Vec<String>)> {
    let mut by_name: BTreeMap<(&str, &str, Vec<String>), (i64, Ns)> = BTreeMap::new();
    let mut steps = 1;
    for batch in partials.iter().filter_map(|p| p.table(spec)) {
        let of_rank: BTreeSet<i64> = (0..batch.len()).filter_map(|row| batch.int("step", row)).collect();
        steps = steps.max(of_rank.len() as i64);
        for row in 0..batch.len() {
            if batch.text("scope", row) != Some(scope) {
                continue;
            }
            let text = |column| batch.text(column, row).unwrap_or_default();
            let cell = |column: &&str| match (batch.text(column, row), batch.int(column, row)) {
                (Some(text), _) => text.to_string(),
                (None, Some(number)) => number.to_string(),
                (None, None) => "-".to_string(),
            };
            let key = (text("class"), text("short_name"), columns.iter().map(cell).collect());
            let (count, sum) = by_name.entry(key).or_default();
            *count += batch.int("count", row).unwrap_or(0);
            *sum += batch.int("sum_ns", row).unwrap_or(0);
        }
    }
    let mut totals: Vec<(NameTotal, Vec<String>)> = by_name
        .into_iter()
        .map(|((class, name, cells), (count, sum_ns))| {
            let (class, short_name) = (class.to_string(), name.to_string());
            (NameTotal { class, short_name, count, sum_ns, steps }, cells)
        })
        .collect();
    totals
        .sort_by(|(a, x), (b, y)| (b.sum_ns, &a.short_name, &a.class, x).cmp(&(a.sum_ns, &b.short_name, &b.class, y)));
    totals
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_by_hand() {
        let s = Summary::new(vec![4, 1, 3, 2]);
        assert_eq!((s.count, s.sum, s.min, s.max, s.p50, s.p95), (4, 10, 1, 4, 2, 4));
        assert_eq!(s.std, Some((5.0f64 / 3.0).sqrt()));
        assert_eq!(Summary::new(vec![7]).std, None);
        assert_eq!(nearest_rank(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20], 95), 19);
    }
}
