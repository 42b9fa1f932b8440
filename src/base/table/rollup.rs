//! Rollups: tables that are made of another one by summing rows of equal keys, as their columns declare.
//!
//! A figure over ranks, devices or steps is declared once and made here; text, page, queries and assistants
//! read the table. Memory depends on the number of keys, not on the number of rows.
//!
//! ```ignore
//! table! {
//!     pub struct Categories, CategoryRow = "categories" by "scope, sum_ns descending, category" {
//!         scope: Text, "", "span or step";
//!         count: u64, "", "kernels" => sum(count);
//!         sum_ns: i64, "ns", "sum of their durations" => sum(sum_ns);
//!         mean_ns: Option<f64>, "ns", "mean duration" => ratio(sum_ns, count);
//!     }
//! }
//! const OVER_RANKS: Rollup = Rollup::of(KernelCategories::SPEC, Categories::SPEC);
//! let batch = OVER_RANKS.fold(&batches_in_order_of_rank);
//! ```

use crate::table::groups::Groups;
use crate::table::role::Role;
use crate::table::schema::{Batch, ColumnSpec, TableSpec};
use crate::table::value::{Codes, Value, array, compare, list, median};
use crate::table::windows::{WindowKeys, chosen_windows};
use std::cmp::{Ordering, Reverse};

/// Which rows of a table are rolled up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RolledRows {
    All,
    /// Of each rank and device the windows that averages are based on ([`chosen_windows`]).
    ChosenWindows,
    /// The rows of the windows that are chosen in another table, by rank, device, scope and step.
    WindowsOf(&'static TableSpec),
}

/// A table made of another one. Columns without a role are its key.
#[derive(Debug, Clone, Copy)]
pub struct Rollup {
    pub of: &'static TableSpec,
    pub table: &'static TableSpec,
    pub rows: RolledRows,
}

impl Rollup {
    /// All rows of a table by key.
    pub const fn of(of: &'static TableSpec, table: &'static TableSpec) -> Self {
        Self { of, table, rows: RolledRows::All }
    }

    /// The windows of each device on which averages are based, by key.
    pub const fn of_windows(of: &'static TableSpec, table: &'static TableSpec) -> Self {
        Self { of, table, rows: RolledRows::ChosenWindows }
    }

    /// Of rows of windows that another table chooses, their table.
    pub const fn of_windows_of(
        of: &'static TableSpec,
        windows: &'static TableSpec,
        table: &'static TableSpec,
    ) -> Self {
        Self { of, table, rows: RolledRows::WindowsOf(windows) }
    }

    /// Whether it is made of this table.
    pub fn reads(&self, table: &TableSpec) -> bool {
        let is_chosen_by = matches!(self.rows, RolledRows::WindowsOf(windows) if windows.name == table.name);
        self.of.name == table.name || is_chosen_by
    }

    /// The rows by key, in the order that the table declares. Batches are of the tables that it reads, in
    /// order of rank; where windows are chosen, the rows of a rank must be in one batch.
    pub fn fold<'a>(&self, batches: impl IntoIterator<Item = &'a Batch> + Clone) -> Batch {
        let is_key = |c: &&ColumnSpec| c.role == Role::Key;
        let mut groups = Groups::new(self.table.columns.iter().filter(is_key).count());
        let mut sums: Vec<ColumnSums> = self.table.columns.iter().map(ColumnSums::new).collect();
        let windows = match self.rows {
            RolledRows::WindowsOf(table) => {
                let of = batches.clone().into_iter().filter(|b| b.spec.name == table.name);
                WindowKeys::new(of)
            }
            _ => WindowKeys::default(),
        };
        for batch in batches.into_iter().filter(|b| b.spec.name == self.of.name) {
            let rows: Vec<usize> = match self.rows {
                RolledRows::All => (0..batch.len()).collect(),
                RolledRows::WindowsOf(_) => windows.rows(batch),
                RolledRows::ChosenWindows => {
                    chosen_windows(batch).into_iter().flat_map(|of| of.rows).collect()
                }
            };
            let keys = self.table.columns.iter().filter(is_key).map(|c| c.name);
            let of_rows = groups.of_rows(batch, keys, &rows);
            let ranks = batch.column("rank");
            for sum in &mut sums {
                sum.add_rows(
                    batch,
                    rows.iter().zip(&of_rows).map(|(row, group)| FoldedRow {
                        row: *row,
                        group: *group as usize,
                        rank: ranks.and_then(|c| c.int(*row)).unwrap_or(0),
                    }),
                );
            }
        }
        self.finish(&groups, &sums)
    }

    fn finish(&self, groups: &Groups, sums: &[ColumnSums]) -> Batch {
        let mut columns: Vec<Vec<Value>> = Vec::with_capacity(sums.len());
        let mut key = 0;
        for sum in sums {
            let values = match sum.spec.role {
                Role::Key => {
                    key += 1;
                    groups.values(key - 1)
                }
                Role::Ratio(part, whole) => self.quotients(&columns, part, whole, 1.0),
                Role::Percent(part, whole) => self.quotients(&columns, part, whole, 100.0),
                _ => (0..groups.len()).map(|group| sum.value(group)).collect(),
            };
            columns.push(values);
        }
        let by: Vec<(&Vec<Value>, bool)> = self
            .table
            .order_columns()
            .filter_map(|(name, falls)| Some((columns.get(self.table.position(name)?)?, falls)))
            .collect();
        let compared = |a: usize, b: usize| {
            let of_column = |(values, falls): &(&Vec<Value>, bool)| {
                let order = compare(values.get(a)?, values.get(b)?);
                Some(if *falls { order.reverse() } else { order })
            };
            by.iter().filter_map(of_column).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
        };
        let mut order: Vec<usize> = (0..groups.len()).collect();
        order.sort_by(|a, b| compared(*a, *b));
        let sorted = columns
            .iter()
            .zip(self.table.columns)
            .map(|(values, spec)| array(spec, order.iter().filter_map(|row| values.get(*row))));
        crate::table::schema::assemble(self.table, sorted.collect())
    }

    /// One column over another, both to the left.
    fn quotients(&self, columns: &[Vec<Value>], part: &str, whole: &str, factor: f64) -> Vec<Value> {
        let column = |name: &str| self.table.position(name).and_then(|at| columns.get(at));
        let pairs = column(part).into_iter().zip(column(whole)).flat_map(|(p, w)| p.iter().zip(w));
        let quotient = |(part, whole): (&Value, &Value)| match (part.float(), whole.float()) {
            (Some(part), Some(whole)) if whole != 0.0 => Value::Float(factor * part / whole),
            _ => Value::Null,
        };
        pairs.map(quotient).collect()
    }
}

/// A row of a batch, and where it is summed.
#[derive(Clone, Copy)]
struct FoldedRow {
    row: usize,
    group: usize,
    rank: i64,
}

/// What a column has of each group so far.
struct ColumnSums {
    spec: &'static ColumnSpec,
    /// Sum, extreme or first value; of a mean the weighted sum.
    values: Vec<Value>,
    /// Sum of the weights of a mean; of rows about ranks the sum of the last rank.
    others: Vec<Value>,
    /// Rank of the last row, and rank with the largest sum so far.
    ranks: Vec<(Option<i64>, i64)>,
    /// By group the sums of texts, the numbers of a list, or the values of a median.
    texts: Vec<Vec<(u32, Value)>>,
    codes: Codes,
}

impl ColumnSums {
    fn new(spec: &'static ColumnSpec) -> Self {
        let (values, others, ranks, texts) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { spec, values, others, ranks, texts, codes: Codes::default() }
    }

    fn grow(&mut self, group: usize) {
        if self.values.len() <= group {
            self.values.resize(group + 1, Value::Null);
            self.others.resize(group + 1, Value::Null);
            self.ranks.resize(group + 1, (None, 0));
            self.texts.resize_with(group + 1, Vec::new);
        }
    }

    fn add_rows(&mut self, batch: &Batch, rows: impl Iterator<Item = FoldedRow> + Clone) {
        let column = |name: &str| batch.column(name);
        let cell = |name: &str| {
            let column = column(name);
            move |row: usize| column.map_or(Value::Null, |c| Value::of(&c, row))
        };
        if let Some(last) = rows.clone().map(|r| r.group).max() {
            self.grow(last);
        }
        match self.spec.role {
            Role::Key | Role::Ratio(..) | Role::Percent(..) => {}
            Role::Sum(name) => {
                let of = cell(name);
                rows.for_each(|r| self.values[r.group].add(&of(r.row)));
            }
            Role::Min(name) => {
                let of = cell(name);
                rows.for_each(|r| self.values[r.group].keep(of(r.row), Ordering::Less));
            }
            Role::Max(name) => {
                let of = cell(name);
                rows.for_each(|r| self.values[r.group].keep(of(r.row), Ordering::Greater));
            }
            Role::First(name) => {
                let column = column(name);
                for r in rows {
                    if self.ranks[r.group].0.is_none() {
                        self.ranks[r.group].0 = Some(r.rank);
                        self.values[r.group] = column.map_or(Value::Null, |c| self.codes.value_of(&c, r.row));
                    }
                }
            }
            Role::Mean(name, weight) => {
                let (of, weights) = (cell(name), (!weight.is_empty()).then(|| cell(weight)));
                let weight_of = |row: usize| weights.as_ref().map_or(Some(1.0), |of| of(row).float());
                for r in rows {
                    if let (Some(value), Some(weight)) = (of(r.row).float(), weight_of(r.row)) {
                        self.values[r.group].add(&Value::Float(value * weight));
                        self.others[r.group].add(&Value::Float(weight));
                    }
                }
            }
            Role::Median(_) | Role::List(_) | Role::Most(..) | Role::SumOfMost(..) => {
                self.add_to_lists(batch, rows);
            }
            Role::Ranks => {
                for r in rows {
                    if self.ranks[r.group].0 != Some(r.rank) {
                        self.ranks[r.group].0 = Some(r.rank);
                        self.values[r.group].add(&Value::Int(1));
                    }
                }
            }
            Role::Rows => rows.for_each(|r| self.values[r.group].add(&Value::Int(1))),
            Role::AreSteps => {
                let scope = column("scope");
                for r in rows {
                    let is_step = scope.and_then(|c| c.text(r.row)) == Some("step");
                    self.values[r.group] = Value::Int(i128::from(is_step));
                }
            }
            Role::RankOfMax(name) | Role::MaxOfRank(name) => {
                let of = cell(name);
                rows.for_each(|r| self.add_of_rank(r, of(r.row)));
            }
        }
    }

    /// The same of roles that keep several values of a group.
    fn add_to_lists(&mut self, batch: &Batch, rows: impl Iterator<Item = FoldedRow>) {
        let column = |name: &str| batch.column(name);
        let cell = |name: &str| {
            let column = column(name);
            move |row: usize| column.map_or(Value::Null, |c| Value::of(&c, row))
        };
        match self.spec.role {
            Role::Median(name) => {
                let of = cell(name);
                rows.for_each(|r| self.texts[r.group].push((0, of(r.row))));
            }
            Role::List(name) => {
                let column = column(name);
                for r in rows {
                    let Some(n) = column.and_then(|c| u32::try_from(c.int(r.row)?).ok()) else { continue };
                    let of_group = &mut self.texts[r.group];
                    if let Err(at) = of_group.binary_search_by_key(&n, |known| known.0) {
                        of_group.insert(at, (n, Value::Null));
                    }
                }
            }
            Role::Most(name, by) | Role::SumOfMost(name, by) => {
                let (text, by) = (column(name), cell(by));
                for r in rows {
                    let Some(text) = text.filter(|c| c.text(r.row).is_some()) else { continue };
                    let code = self.codes.code(&text, r.row);
                    let of_group = &mut self.texts[r.group];
                    match of_group.iter_mut().find(|(known, _)| *known == code) {
                        Some((_, sum)) => sum.add(&by(r.row)),
                        None => of_group.push((code, by(r.row))),
                    }
                }
            }
            _ => {}
        }
    }

    /// Adds a value to the sum of its rank, which may become the largest.
    fn add_of_rank(&mut self, r: FoldedRow, value: Value) {
        let (last, largest) = &mut self.ranks[r.group];
        if *last != Some(r.rank) {
            *last = Some(r.rank);
            self.others[r.group] = Value::Null;
        }
        self.others[r.group].add(&value);
        if compare(&self.others[r.group], &self.values[r.group]) == Ordering::Greater {
            self.values[r.group] = self.others[r.group].clone();
            *largest = r.rank;
        }
    }

    fn value(&self, group: usize) -> Value {
        let Some(value) = self.values.get(group) else { return Value::Null };
        match self.spec.role {
            Role::Mean(..) => match (value.float(), self.others[group].float()) {
                (Some(sum), Some(weight)) if weight > 0.0 => Value::Float(sum / weight),
                _ => Value::Null,
            },
            Role::RankOfMax(_) => Value::Int(i128::from(self.ranks[group].1)),
            Role::Median(_) => median(self.texts[group].iter().map(|(_, value)| value)),
            Role::List(_) => list(self.texts[group].iter().map(|(number, _)| *number)),
            Role::Most(..) | Role::SumOfMost(..) => {
                let most = self.texts[group].iter().max_by(|a, b| {
                    compare(&a.1, &b.1)
                        .then_with(|| Reverse(self.codes.text(a.0)).cmp(&Reverse(self.codes.text(b.0))))
                });
                match (most, self.spec.role) {
                    (None, _) => Value::Null,
                    (Some((_, sum)), Role::SumOfMost(..)) => sum.clone(),
                    (Some((code, _)), _) => self.codes.value(*code),
                }
            }
            // A sum of nothing is null only where the column can be.
            _ if matches!(value, Value::Null) && !self.spec.nullable => Value::Int(0),
            _ => value.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table;
    use crate::table::schema::{Table, Text};

    table! {
        /// Kernels of a window of a device.
        struct Kernels, KernelRow = "kernels" by "rank, device, scope, step" {
            rank; device; scope; step; step_label; is_partial; ts_ns; dur_ns;
            name: Text, "", "what runs";
            sum_ns: i64, "ns", "how long";
            count: u64, "", "how often";
            pct: Option<f64>, "%", "how well";
        }
    }

    table! {
        /// Kernels by name.
        struct Names, NameRow = "names" by "sum_ns descending, name" {
            name: Text, "", "what runs";
            sum_ns: i64, "ns", "how long" => sum(sum_ns);
            count: u64, "", "how often" => sum(count);
            mean_ns: Option<f64>, "ns", "mean" => ratio(sum_ns, count);
            max_ns: i64, "ns", "most in a row" => max(sum_ns);
            min_ns: i64, "ns", "least in a row" => min(sum_ns);
            pct: Option<f64>, "%", "by time" => mean(pct, sum_ns);
            scope: Text, "", "of the first" => first(scope);
            main: Text, "", "scope with most" => most(scope, sum_ns);
            main_ns: i64, "ns", "its time" => sum_of_most(scope, sum_ns);
            rank_count: u32, "", "ranks" => ranks;
            max_rank: u32, "", "rank with most" => rank_of_max(sum_ns);
            max_rank_ns: i64, "ns", "its time" => max_of_rank(sum_ns);
        }
    }

    table! {
        /// Windows of a device.
        struct Devices, DeviceRow = "devices" by "rank, device" {
            rank; device;
            is_steps: bool, "", "steps" => are_steps;
            windows: u64, "", "windows" => rows;
            sum_ns: i64, "ns", "how long" => sum(sum_ns);
            dur_ns: i64, "ns", "of" => sum(dur_ns);
            share_pct: Option<f64>, "%", "share" => percent(sum_ns, dur_ns);
        }
    }

    /// Scope, step, whether it is partial, name and time.
    type KernelParts = (&'static str, Option<u32>, Option<bool>, &'static str, i64);

    fn batch(rank: u32, rows: &[KernelParts]) -> Batch {
        let mut table = Kernels::default();
        for (scope, step, is_partial, name, sum_ns) in rows {
            let (ts_ns, dur_ns) =
                (step.map_or(0, |s| i64::from(s) * 100), if step.is_some() { 100 } else { 300 });
            table.push(KernelRow {
                rank,
                scope,
                step: *step,
                is_partial: *is_partial,
                ts_ns,
                dur_ns,
                name,
                sum_ns: *sum_ns,
                count: 2,
                pct: (*sum_ns != 5).then_some(*sum_ns as f64),
                ..KernelRow::default()
            });
        }
        table.finish()
    }

    #[test]
    fn rows_of_equal_keys_are_one_as_the_roles_say() {
        let first =
            [("span", None, None, "a", 10), ("step", None, None, "a", 20), ("span", None, None, "b", 5)];
        let all =
            [batch(0, &first), batch(3, &[("step", None, None, "a", 25), ("span", None, None, "a", 5)])];
        let rolled = Rollup::of(Kernels::SPEC, Names::SPEC).fold(&all);
        let rows: Vec<NameRow> = Names::rows(&rolled).collect();
        assert_eq!(rows.len(), 2);
        let a = rows[0];
        assert_eq!((a.name, a.sum_ns, a.count, a.mean_ns), ("a", 60, 8, Some(7.5)));
        assert_eq!((a.max_ns, a.min_ns, a.scope, a.main, a.main_ns), (25, 5, "span", "step", 45));
        // (10 x 10 + 20 x 20 + 25 x 25) / 55; of 5 nothing is known.
        assert_eq!(a.pct.map(|v| (v * 55.0).round()), Some(1125.0));
        assert_eq!((a.rank_count, a.max_rank, a.max_rank_ns), (2, 0, 30), "of equal ranks the first");
        let b = rows[1];
        assert_eq!((b.name, b.sum_ns, b.pct, b.rank_count, b.max_rank), ("b", 5, None, 1, 0));
    }

    #[test]
    fn of_windows_those_are_rolled_up_that_averages_are_based_on() {
        let span = ("span", None, None, "", 250);
        let steps =
            |partial| [span, ("step", Some(0), Some(partial), "", 90), ("step", Some(1), Some(true), "", 50)];
        let all = [batch(0, &steps(false)), batch(1, &steps(true)), batch(2, &[span])];
        let rolled = Rollup::of_windows(Kernels::SPEC, Devices::SPEC).fold(&all);
        let rows: Vec<_> =
            Devices::rows(&rolled).map(|r| (r.rank, r.is_steps, r.windows, r.sum_ns, r.share_pct)).collect();
        let expected = [
            (0, true, 1, 90, Some(90.0)),
            (1, true, 2, 140, Some(70.0)),
            (2, false, 1, 250, Some(250.0 / 3.0)),
        ];
        assert_eq!(rows, expected);
    }

    /// Whatever the rows and however they are divided into ranks: the parts sum to the whole.
    #[test]
    fn sums_by_name_are_the_sum_of_all_rows() {
        let names = ["a", "b", "c", ""];
        let rows: Vec<KernelParts> = (0..997i64)
            .map(|i| ("span", None, None, names[(i * 5 % 11 % 4) as usize], i * 37 % 101))
            .collect();
        let all: Vec<Batch> = rows.chunks(83).zip(0..).map(|(rows, rank)| batch(rank, rows)).collect();
        let rolled = Rollup::of(Kernels::SPEC, Names::SPEC).fold(&all);
        let sum = |name: &str| rows.iter().filter(|r| r.3 == name).map(|r| r.4).sum::<i64>();
        let got: Vec<(&str, i64)> = Names::rows(&rolled).map(|r| (r.name, r.sum_ns)).collect();
        assert!(got.windows(2).all(|w| w[0].1 >= w[1].1), "{got:?}");
        assert_eq!(got.len(), 4);
        assert!(got.iter().all(|(name, ns)| sum(name) == *ns), "{got:?}");
        assert_eq!(Rollup::of(Kernels::SPEC, Names::SPEC).fold(&[]).len(), 0);
    }

    table! {
        /// What is rolled up.
        struct Parts, PartRow = "parts" by "rank" {
            rank;
            name: Text, "", "key";
            time_ns: Option<i64>, "ns", "a time";
        }
    }

    table! {
        /// The rollup.
        struct Wholes, WholeRow = "wholes" by "name" {
            name: Text, "", "key";
            ranks: Option<Text>, "", "ranks" => list(rank);
            median_ns: Option<i64>, "ns", "median" => median(time_ns);
            mean_ns: Option<f64>, "ns", "mean" => mean(time_ns);
        }
    }

    #[test]
    fn ranks_are_listed_and_medians_and_means_leave_out_nulls() {
        let mut parts = Parts::default();
        for (rank, name, time_ns) in [
            (1, "b", None),
            (2, "a", Some(7)),
            (3, "a", None),
            (4, "a", Some(1)),
            (4, "a", Some(4)),
            (6, "a", Some(4)),
        ] {
            parts.push(PartRow { rank, name, time_ns });
        }
        let rolled = Rollup::of(Parts::SPEC, Wholes::SPEC).fold(&[parts.finish()]);
        let rows: Vec<_> = Wholes::rows(&rolled).map(|r| (r.name, r.ranks, r.median_ns, r.mean_ns)).collect();
        assert_eq!(rows, [("a", Some("2-4, 6"), Some(4), Some(4.0)), ("b", Some("1"), None, None)]);
    }
}
