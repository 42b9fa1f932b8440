//! Two runs beside each other: a figure of both, and comparisons, which say as data what figures two tables of
//! one declaration have.
//!
//! ```ignore
//! const PEAKS: Comparison = Comparison {
//!     by: &["device_type"],
//!     figures: &[
//!         FigureSpec { column: "peak_bytes", scope: "capture", role: FigureRole::Max },
//!         FigureSpec { column: "peak_bytes", scope: "step", role: FigureRole::Mean },
//!     ],
//!     ..Comparison::of(MemoryPeaks::SPEC)
//! };
//! let rows = PEAKS.rows(&base, &test)?;
//! ```
//!
//! A difference is significant if it is more than three standard errors over the steps.

use crate::table::column::Column;
use crate::table::schema::TableSpec;
use crate::table::value::{Value, compare};
use crate::table::view::{TableError, Tables};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// Statistics over the steps of one run, one value per step.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Noise {
    pub steps: usize,
    /// Sample standard deviation; `None` for fewer than two steps.
    pub std: Option<f64>,
}

impl Noise {
    pub fn of(values: &[f64]) -> Self {
        let n = values.len();
        let mean = values.iter().sum::<f64>() / n.max(1) as f64;
        let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
        Self { steps: n, std: (n > 1).then(|| (squares / (n - 1) as f64).sqrt()) }
    }
}

/// Least number of steps on each side for an estimate of the noise.
pub const MIN_STEPS: usize = 3;

/// A change larger than this many standard errors is significant.
pub const STANDARD_ERRORS: f64 = 3.0;

/// Standard error of the difference of two means.
fn standard_error(base: Noise, test: Noise) -> Option<f64> {
    let part = |n: Noise| n.std.filter(|_| n.steps >= MIN_STEPS).map(|s| s * s / n.steps as f64);
    Some((part(base)? + part(test)?).sqrt())
}

/// A figure of one run.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RunFigure {
    /// `None` where the run does not have it.
    pub value: Option<f64>,
    /// Over steps; no step where the figure is not of steps.
    pub noise: Noise,
}

impl RunFigure {
    /// A figure that is not of steps.
    pub fn of_run(value: Option<f64>) -> Self {
        Self { value, noise: Noise::default() }
    }
}

/// A figure of two runs.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ComparedFigure {
    pub base: Option<f64>,
    pub test: Option<f64>,
    /// Test - base.
    pub delta: Option<f64>,
    /// The same in percent of base.
    pub pct: Option<f64>,
    /// Standard error of the difference; `None` for too few steps.
    pub error: Option<f64>,
    /// `None` where there is no error.
    pub is_significant: Option<bool>,
}

impl ComparedFigure {
    pub fn new(base: RunFigure, test: RunFigure) -> Self {
        let Self { delta, pct, .. } = Self::known(base.value, test.value, None);
        Self::with_delta(base, test, delta, pct)
    }

    /// A figure whose difference is known more exactly than from both values.
    pub fn with_delta(base: RunFigure, test: RunFigure, delta: Option<f64>, pct: Option<f64>) -> Self {
        let error = standard_error(base.noise, test.noise);
        let is_significant = delta.zip(error).map(|(delta, error)| delta.abs() > STANDARD_ERRORS * error);
        Self { base: base.value, test: test.value, delta, pct, error, is_significant }
    }

    /// A figure of which it is known whether it changed.
    pub fn known(base: Option<f64>, test: Option<f64>, is_significant: Option<bool>) -> Self {
        let delta = test.zip(base).map(|(test, base)| test - base);
        let pct = delta.zip(base.filter(|b| *b != 0.0)).map(|(delta, base)| 100.0 * delta / base);
        Self { base, test, delta, pct, error: None, is_significant }
    }

    pub fn trend(&self) -> Trend {
        match (self.delta, self.is_significant) {
            (Some(0.0), _) => Trend::Same,
            (None, _) | (_, None) => Trend::Unknown,
            (_, Some(false)) => Trend::WithinNoise,
            (Some(delta), _) if delta > 0.0 => Trend::Slower,
            _ => Trend::Faster,
        }
    }
}

/// Which way a time changed, as far as the steps can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trend {
    Slower,
    Faster,
    Same,
    /// It differs by no more than the steps of one side.
    WithinNoise,
    /// It differs, and a side has too few steps.
    Unknown,
}

impl Trend {
    pub fn name(self) -> &'static str {
        match self {
            Trend::Slower => "slower",
            Trend::Faster => "faster",
            Trend::Same => "same",
            Trend::WithinNoise => "within_noise",
            Trend::Unknown => "unknown",
        }
    }

    /// Where a change lies by the noise of the steps, in a cell.
    pub fn noise(self) -> &'static str {
        match self {
            Trend::Same => "",
            Trend::Slower | Trend::Faster => "beyond",
            Trend::WithinNoise => "within",
            Trend::Unknown => "-",
        }
    }
}

/// What is compared of a table.
#[derive(Debug, Clone, Copy)]
pub struct Comparison {
    pub of: &'static TableSpec,
    /// Columns by whose values figures are told apart.
    pub by: &'static [&'static str],
    /// The key of a row, made of its values in these columns.
    pub key: fn(Vec<Value>) -> Vec<Value>,
    /// Columns whose distinct values in the rows of a step, of any key, are its windows: a mean is the sum over
    /// them. Empty: each row is one.
    pub windows: &'static [&'static str],
    pub figures: &'static [FigureSpec],
}

/// A figure of the rows of a key.
#[derive(Debug, Clone, Copy)]
pub struct FigureSpec {
    pub column: &'static str,
    /// Rows of which the value is; empty: all.
    pub scope: &'static str,
    pub role: FigureRole,
}

/// How a figure is made of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FigureRole {
    /// The largest value.
    Max,
    /// The mean over windows, with the noise of the means of steps.
    Mean,
    /// The value of the row, with the noise of those of the scope `step`.
    Whole,
}

/// A run, and its ranks that are compared; `None`: all.
pub type RunOfRanks<'a> = (&'a dyn Tables, Option<&'a BTreeSet<u32>>);

/// The figures of a key, in the order in which the comparison declares them.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparedRow {
    pub key: Vec<Value>,
    pub figures: Vec<ComparedFigure>,
}

impl Comparison {
    /// All rows of a table together, without figures yet.
    pub const fn of(table: &'static TableSpec) -> Self {
        Self { of: table, by: &[], key: std::convert::identity, windows: &[], figures: &[] }
    }

    /// The figures of two runs by key, in order of the key.
    ///
    /// # Errors
    /// When a table is damaged.
    pub fn rows(&self, base: &dyn Tables, test: &dyn Tables) -> Result<Vec<ComparedRow>, TableError> {
        self.rows_of_ranks([(base, None), (test, None)])
    }

    /// The same of some ranks of each run, or all; base and test.
    ///
    /// # Errors
    /// When a table is damaged.
    pub fn rows_of_ranks(&self, runs: [RunOfRanks; 2]) -> Result<Vec<ComparedRow>, TableError> {
        let [base, test] = runs;
        let (base, test) = (RunSums::read(self, base)?, RunSums::read(self, test)?);
        let keys: BTreeSet<&RowKey> = base.keys.keys().chain(test.keys.keys()).collect();
        let row = |key: &RowKey| {
            let pair = |at| ComparedFigure::new(base.figure(self, key, at), test.figure(self, key, at));
            ComparedRow { key: key.0.clone(), figures: (0..self.figures.len()).map(pair).collect() }
        };
        Ok(keys.into_iter().map(row).collect())
    }
}

/// Values of a row, in the order of columns.
#[derive(Debug, Clone, PartialEq)]
struct RowKey(Vec<Value>);

impl Eq for RowKey {}

impl Ord for RowKey {
    fn cmp(&self, other: &Self) -> Ordering {
        let orders = self.0.iter().zip(&other.0).map(|(a, b)| compare(a, b));
        orders.fold(Ordering::Equal, Ordering::then)
    }
}

impl PartialOrd for RowKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Number of a step, or else its index; both are unknown for rows that are not of a step.
type StepKey = (Option<i64>, Option<i64>);

/// What one run has of a figure.
#[derive(Debug, Clone, Default)]
struct FigureSums {
    /// The value of rows of its scope: the largest, or the first.
    value: Value,
    /// Sums of steps, and their numbers of rows.
    steps: BTreeMap<StepKey, (Value, usize)>,
}

/// The sums of one run.
#[derive(Debug, Default)]
struct RunSums {
    keys: BTreeMap<RowKey, Vec<FigureSums>>,
    windows: BTreeMap<StepKey, BTreeSet<RowKey>>,
}

impl RunSums {
    fn read(of: &Comparison, (run, ranks): RunOfRanks) -> Result<Self, TableError> {
        let optional = ["rank", "scope", "step", "step_label"].into_iter();
        let mut names: Vec<&'static str> = [of.by, of.windows].concat();
        names.extend(of.figures.iter().map(|figure| figure.column));
        names.extend(optional.filter(|name| of.of.column_spec(name).is_some()));
        let place = |name: &str| names.iter().position(|known| *known == name);
        let [rank, scope, step, label] = ["rank", "scope", "step", "step_label"].map(place);
        let (by, windows) = (of.by.len(), of.by.len() + of.windows.len());
        let mut run_sums = Self::default();
        run.each_row(of.of, &names, &mut |columns: &[Column<'_>], row: usize| {
            let column = |at: Option<usize>| at.and_then(|at| columns.get(at));
            let values = |from: usize, to: usize| -> Vec<Value> {
                columns.get(from..to).unwrap_or_default().iter().map(|c| Value::of(c, row)).collect()
            };
            let number = |at| column(at).and_then(|c| c.int(row));
            let of_rank = number(rank).and_then(|rank| u32::try_from(rank).ok());
            if ranks.is_some_and(|ranks| of_rank.is_none_or(|rank| !ranks.contains(&rank))) {
                return;
            }
            let step: StepKey = (number(label), number(step).filter(|_| number(label).is_none()));
            let scope = column(scope).and_then(|c| c.text(row)).unwrap_or_default();
            if !of.windows.is_empty() {
                run_sums.windows.entry(step).or_default().insert(RowKey(values(by, windows)));
            }
            let sums = run_sums.keys.entry(RowKey((of.key)(values(0, by)))).or_default();
            sums.resize_with(of.figures.len(), FigureSums::default);
            for ((figure, sum), value) in of.figures.iter().zip(sums).zip(values(windows, names.len())) {
                sum.add(figure, scope, step, value);
            }
        })?;
        Ok(run_sums)
    }

    fn figure(&self, of: &Comparison, key: &RowKey, at: usize) -> RunFigure {
        let sums = self.keys.get(key).and_then(|figures| figures.get(at)).cloned().unwrap_or_default();
        match of.figures.get(at).map(|figure| figure.role) {
            Some(FigureRole::Mean) => self.mean(of, &sums),
            Some(FigureRole::Whole) => {
                let values = sums.steps.values().filter_map(|(value, _)| value.float());
                RunFigure { value: sums.value.float(), noise: Noise::of(&values.collect::<Vec<_>>()) }
            }
            _ => RunFigure::of_run(sums.value.float()),
        }
    }

    /// The mean over windows. Where they are those of all keys, a step without rows of this one has 0.
    fn mean(&self, of: &Comparison, sums: &FigureSums) -> RunFigure {
        let windows: BTreeMap<StepKey, usize> = match of.windows.is_empty() {
            true => sums.steps.iter().map(|(step, (_, rows))| (*step, *rows)).collect(),
            false => self.windows.iter().map(|(step, windows)| (*step, windows.len())).collect(),
        };
        let (mut total, mut samples) = (Value::Int(0), Vec::new());
        for (step, number) in &windows {
            let sum = sums.steps.get(step).map_or(&Value::Null, |(sum, _)| sum);
            total.add(sum);
            samples.push(sum.float().unwrap_or(0.0) / *number as f64);
        }
        let number: usize = windows.values().sum();
        let value = total.float().filter(|_| number > 0).map(|total| total / number as f64);
        RunFigure { value, noise: Noise::of(&samples) }
    }
}

impl FigureSums {
    fn add(&mut self, figure: &FigureSpec, scope: &str, step: StepKey, value: Value) {
        let is_of_scope = figure.scope.is_empty() || figure.scope == scope;
        let is_of_steps = match figure.role {
            FigureRole::Max => false,
            FigureRole::Mean => is_of_scope,
            FigureRole::Whole => scope == "step",
        };
        if is_of_steps && !value.is_null() {
            let (sum, rows) = self.steps.entry(step).or_default();
            sum.add(&value);
            *rows += 1;
        }
        if is_of_scope {
            self.value.keep(value, Ordering::Greater);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::schema::{Batch, Text};

    crate::table! {
        /// Times of ranks.
        struct Spent, SpentRow = "spent" by "rank, step, part" {
            rank; scope; step;
            part: Text, "", "what took it";
            time_ns: i64, "ns", "time";
        }
    }

    const BY_PART: Comparison = Comparison {
        by: &["part"],
        windows: &["rank"],
        figures: &[FigureSpec { column: "time_ns", scope: "", role: FigureRole::Mean }],
        ..Comparison::of(Spent::SPEC)
    };

    fn run(rows: &[(u32, Option<u32>, &str, i64)]) -> Vec<Batch> {
        let mut table = Spent::default();
        for (rank, step, part, time_ns) in rows {
            let scope = if step.is_some() { "step" } else { "job" };
            table.push(SpentRow { rank: *rank, scope, step: *step, part, time_ns: *time_ns });
        }
        vec![table.finish()]
    }

    #[test]
    fn a_mean_is_over_the_windows_of_all_keys() {
        // Two ranks and two steps: work takes 10 + 20 + 10 + 20 ns, waiting 4 ns of one rank.
        let work = [(0, Some(0), "work", 10), (1, Some(0), "work", 20), (0, Some(1), "work", 10)];
        let base = run(&[&work[..], &[(1, Some(1), "work", 20), (1, Some(1), "wait", 4)]].concat());
        let test = run(&[(0, Some(0), "work", 30)]);
        let rows = BY_PART.rows(&base, &test).expect("tables in memory");
        let told: Vec<_> = rows.iter().map(|r| (r.key[0].text(), r.figures[0])).collect();
        let figure = |base, test| ComparedFigure::known(Some(base), Some(test), None);
        let ranks: BTreeSet<u32> = [0].into_iter().collect();
        let of_rank =
            BY_PART.rows_of_ranks([(&base, Some(&ranks)), (&test, None)]).expect("tables in memory");
        assert_eq!(of_rank.iter().map(|r| r.figures[0]).collect::<Vec<_>>(), [figure(10.0, 30.0)]);
        assert_eq!(told, [(Some("wait"), figure(1.0, 0.0)), (Some("work"), figure(15.0, 30.0))]);
        assert_eq!((told[1].1.pct, told[1].1.trend()), (Some(100.0), Trend::Unknown));
    }

    #[test]
    fn a_whole_has_the_noise_of_its_steps_and_a_largest_value_none() {
        const WHOLE: Comparison = Comparison {
            figures: &[
                FigureSpec { column: "time_ns", scope: "job", role: FigureRole::Whole },
                FigureSpec { column: "time_ns", scope: "step", role: FigureRole::Max },
            ],
            ..Comparison::of(Spent::SPEC)
        };
        let side = |whole: i64, steps: [i64; 3]| {
            let steps = (0..).zip(steps).map(|(step, ns)| (0, Some(step), "work", ns));
            run(&[(0, None, "work", whole)].into_iter().chain(steps).collect::<Vec<_>>())
        };
        let rows = WHOLE.rows(&side(11, [10, 12, 11]), &side(14, [13, 12, 14])).expect("tables in memory");
        let [whole, most] = rows[0].figures[..] else { panic!("two figures") };
        // Both runs have a standard deviation of 1, so three errors are 3 x sqrt(2 / 3) = 2.45.
        assert_eq!((whole.delta, whole.is_significant), (Some(3.0), Some(true)));
        assert_eq!((most.base, most.test, most.is_significant), (Some(12.0), Some(14.0), None));
        assert!(WHOLE.rows(&Vec::new(), &Vec::new()).expect("no tables").is_empty());
    }

    #[test]
    fn a_change_within_three_standard_errors_is_noise() {
        let side = |value: f64, steps: &[f64]| RunFigure { value: Some(value), noise: Noise::of(steps) };
        let base = side(11.0, &[10.0, 12.0, 11.0]);
        let trend = |test| ComparedFigure::new(base, test).trend();
        assert_eq!(trend(side(13.0, &[13.0, 12.0, 14.0])), Trend::WithinNoise);
        assert_eq!(trend(side(14.0, &[13.0, 12.0, 14.0])), Trend::Slower);
        assert_eq!(trend(side(11.0, &[])), Trend::Same);
        assert_eq!(trend(side(20.0, &[1.0, 2.0])), Trend::Unknown);
        assert_eq!(trend(RunFigure::default()), Trend::Unknown);
    }
}
