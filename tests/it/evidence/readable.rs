//! The figures that may be read from rows: which columns of which tables, and in which ways. [`Way`] is the
//! whole list of what may be done with them, and [`READINGS`] says where. A table that is not there gives no
//! figures.

use super::condition::Condition;
use super::figure::Figure;
use super::job::JobFacts;
use crate::run::{Answer, Record};
use hta::units::{fmt_ns, fmt_pct};
use std::collections::{BTreeMap, BTreeSet};

/// What may be done with a column of the rows, each with the reason.
#[derive(Clone, Copy)]
enum Way {
    /// As it is, row by row: a row says all of it.
    Each,
    /// The largest.
    Most,
    /// Over all rows: what is owned, counted.
    Sum,
    /// The sum over steps and devices of the ranks that are meant: causes are told as means of these.
    OfStep,
    /// The same over ranks instead of devices: exchanges are calls of ranks.
    OfStepAndRank,
    /// The same over all devices of the job: what others wait is told as a mean of all.
    OfStepOfJob,
    /// The same of each step by itself: what grows is told by its first and last step.
    OfEachStep,
    /// `OfStep`, of the mean step.
    ShareOfStep,
    /// `OfStep` without the conditions on owner and name: the whole of which it is a part, `of 12.3 ms idle
    /// time`.
    WholeOfStep,
    /// Of the sum without the conditions on the name: `the largest part is ... (34.5 %)`.
    ShareOfWhole,
    /// Of all compute; and that itself: `12.3 ms of 1.20 s of compute`.
    ShareOfCompute,
    /// Row by row, times another column: stages are those of a rank on all ranks.
    Times(&'static str),
    /// The sums over the late ranks and steps: what a late rank takes longer is told as a mean of its late
    /// steps.
    OfLate,
    /// The sum of the column over that of another one, `1.35 times as long`,
    Over(&'static str),
    /// as a percentage.
    PercentOf(&'static str),
    /// Their difference, and that as a percentage of the first: `... of that (12.3 %) are not allocated`.
    Beyond(&'static str),
    /// The mean, each row as often as another column says.
    MeanBy(&'static str),
    /// The mean over rows.
    Mean,
    /// By rank: what is told as a range over ranks.
    SumOfRank,
    /// The number of rows.
    Rows,
    /// The number of values.
    Values,
    /// The same without the conditions on the column.
    ValuesOfWhole,
    /// The number of values with a sum above zero: `in 61 operators`.
    ValuesAbove(&'static str),
    /// By how much the steps of the rows are longer than the median step, together and each; and the median.
    BeyondMedianStep,
    /// The rows at the end whose value is above zero: how many, and the median: `grows in each of the last 5
    /// steps`.
    LastRun,
    /// The largest number of rows of a step and group, without the conditions on tokens.
    RowsOfStepAndGroup,
}

struct Reading {
    table: &'static str,
    column: &'static str,
    /// Only rows with one of these values in a column.
    only: Option<(&'static str, &'static [&'static str])>,
    /// Rows with the same values in these are read together; all rows, if empty.
    by: &'static [&'static str],
    ways: &'static [Way],
}

const fn of(table: &'static str, column: &'static str, ways: &'static [Way]) -> Reading {
    Reading { table, column, only: None, by: &[], ways }
}

const fn of_parts(parts: &'static [&'static str], ways: &'static [Way]) -> Reading {
    Reading { table: "time_account", column: "time_ns", only: Some(("part", parts)), by: &[], ways }
}

const fn by(
    table: &'static str,
    column: &'static str,
    by: &'static [&'static str],
    ways: &'static [Way],
) -> Reading {
    Reading { table, column, only: None, by, ways }
}

use Way::*;

const COST: &[Way] = &[OfStep, ShareOfStep];
const CAUSE: &[&str] = &["cause", "name", "detail", "origin_rank"];

const READINGS: &[Reading] = &[
    of_parts(&["idle"], &[OfStep, OfEachStep, ShareOfStep, WholeOfStep]),
    of_parts(&["idle", "copies"], COST),
    of_parts(&["transfer"], COST),
    of_parts(&["unmatched"], COST),
    of_parts(&["waiting"], &[OfStepOfJob]),
    of_parts(&["compute"], &[Sum]),
    of("time_account", "time_ns", &[BeyondMedianStep]),
    of("finding_names", "time_ns", &[OfStep, OfStepAndRank, ShareOfStep, ShareOfWhole]),
    of("finding_names", "count", &[Sum]),
    of("kernel_repairs", "time_ns", &[Sum, ShareOfCompute]),
    of("kernel_repairs", "kernel_count", &[Sum]),
    of("kernel_repairs", "ideal_ns", &[PercentOf("known_ns")]),
    of("straggler_causes", "delta_ns", &[OfLate]),
    by("straggler_causes", "delta_ns", &["cause"], &[OfLate]),
    by("straggler_causes", "name", &["cause"], &[ValuesAbove("delta_ns")]),
    by("straggler_causes", "delta_ns", CAUSE, &[OfLate]),
    by("straggler_causes", "own_ns", CAUSE, &[OfLate, Over("typical_ns")]),
    by("straggler_causes", "typical_ns", CAUSE, &[OfLate]),
    by("straggler_causes", "own_count", CAUSE, &[OfLate]),
    by("straggler_causes", "typical_count", CAUSE, &[OfLate]),
    of("straggler_delays", "excess_ns", &[Mean]),
    of("host_pauses", "excess_ns", &[SumOfRank, Sum, Rows]),
    of("pipelines", "t_ns", &[Each]),
    of("pipelines", "bubble_ns", &[Each]),
    of("pipelines", "bubble_pct", &[Each]),
    of("pipelines", "ideal_pct", &[Each]),
    of("pipelines", "schedule_ns", &[PercentOf("t_ns")]),
    of("pipelines", "imbalance_ns", &[PercentOf("t_ns")]),
    of("pipelines", "jitter_ns", &[PercentOf("t_ns")]),
    of("pipelines", "transfer_ns", &[PercentOf("t_ns")]),
    of("pipelines", "lag_ns", &[PercentOf("t_ns")]),
    of("pipelines", "rank_count", &[Each, Times("stages_per_rank")]),
    of("pipelines", "micro_batches", &[Each]),
    of("pipelines", "pipeline", &[ValuesOfWhole]),
    of("fabric_places", "factor", &[Each]),
    of("fabric_places", "groups", &[Each]),
    of("expert_layers", "max_over_mean", &[MeanBy("excess_ns")]),
    of("expert_layers", "per_token_over_mean", &[MeanBy("excess_ns")]),
    of("expert_layers", "max_over_mean", &[RowsOfStepAndGroup]),
    of("expert_layers", "step_label", &[Values]),
    of("recordings", "rank", &[Rows]),
    of("recordings", "world_size", &[Most]),
    of("sampled_means", "mean_pct", &[MeanBy("covered_ns")]),
    Reading {
        table: "role_phases",
        column: "time_ns",
        only: Some(("phase", &["idle"])),
        by: &[],
        ways: &[ShareOfWhole],
    },
    by("role_phases", "period_ns", &["period"], &[Most]),
    of("memory_events", "bytes", &[Most, Rows]),
    by("memory_events", "bytes", &["site"], &[Rows]),
    of("memory_steps", "net_bytes", &[LastRun]),
    of("memory_leaks", "bytes_per_group", &[Each]),
    of("memory_content", "pct", &[Each]),
    of("memory_peaks", "peak_bytes", &[Each, PercentOf("device_total_bytes")]),
    of("memory_peaks", "device_total_bytes", &[Each]),
    of("memory_peaks", "reserved_bytes", &[Each, Beyond("peak_bytes")]),
];

/// Conditions on these are those on the owner and the name of a row.
const OWNER: &[&str] = &["finding_id", "cause"];
const NAME: &[&str] = &["name", "detail"];

/// Figures by what they are of.
#[derive(Debug, Clone, Default)]
pub struct Readable {
    times: BTreeSet<i64>,
    shares: Vec<f64>,
    numbers: Vec<f64>,
    bytes: Vec<f64>,
}

impl Readable {
    /// Those of the row of a cause in `findings`, and the numbers of its ranks and steps.
    pub fn of_finding(row: &Record, job: &JobFacts) -> Self {
        let mut out = Self::default();
        for column in ["recoverable_ns", "owned_ns", "compute_ns"] {
            out.times.extend([row.int(column), row.int(column) / job.steps]);
        }
        out.times.insert(job.step_time());
        out.shares.extend(["recoverable_pct", "share_pct"].iter().filter_map(|column| row.float(column)));
        // The chance of a straggler is rounded up to a whole percentage.
        out.shares.extend(row.float("p_value").map(|p| (100.0 * p).ceil()));
        out.bytes.extend(row.opt_int("bytes").map(|b| b as f64));
        let listed = |column: &str| row.text(column).split(',').filter(|part| !part.is_empty()).count();
        let (ranks, steps) = (listed("ranks"), listed("step_labels"));
        let counts = [ranks, ranks.saturating_sub(1), steps, job.steps as usize, job.devices.len()];
        out.numbers.extend(counts.iter().map(|n| *n as f64));
        out
    }

    /// Those of the rows of a table that meet a condition; `None` if there are no such rows.
    pub fn of_rows(answer: &Answer, table: &str, condition: &Condition, job: &JobFacts) -> Option<Self> {
        let all = answer.rows(table);
        let without = |left_out: &[&str]| -> Vec<Record> {
            let counts = |column: &str| !left_out.contains(&column);
            all.iter().filter(|row| condition.holds(&|column| row.cell(column), &counts)).cloned().collect()
        };
        let rows = without(&[]);
        if rows.is_empty() {
            return None;
        }
        let is_of = |rank: i64| condition.holds(&|_| rank.into(), &|column| column == "rank");
        let ranks = job.devices.keys().filter(|rank| is_of(**rank)).count().max(1) as i64;
        let mut out = Self::default();
        let readings: Vec<&Reading> = READINGS.iter().filter(|r| r.table == table).collect();
        if readings.is_empty() {
            return Some(out);
        }
        let (whole, unnamed) = (without(&[OWNER, NAME].concat()), without(NAME));
        let late = late(&without(&["cause"]));
        for reading in readings {
            let has = |row: &Record| reading.only.is_none_or(|(of, values)| values.contains(&row.text(of)));
            let column = Column {
                reading,
                job,
                devices: job.devices_of(is_of),
                ranks,
                whole: &whole,
                unnamed: &unnamed,
                all: &all,
                late,
            };
            let mut groups: BTreeMap<Vec<String>, Vec<Record>> = BTreeMap::new();
            for row in rows.iter().filter(|row| has(row)) {
                let key = reading.by.iter().map(|of| row.cell(of).to_string()).collect();
                groups.entry(key).or_default().push(row.clone());
            }
            groups
                .values()
                .for_each(|rows| reading.ways.iter().for_each(|way| column.read(*way, rows, &mut out)));
        }
        Some(out)
    }

    pub fn add(&mut self, other: &Readable) {
        self.times.extend(&other.times);
        self.shares.extend(&other.shares);
        self.numbers.extend(&other.numbers);
        self.bytes.extend(&other.bytes);
    }

    pub fn has(&self, figure: &Figure) -> bool {
        let (value, half) = (figure.value(), 0.5 / 10f64.powi(figure.decimals() as i32));
        let is_near = |v: f64| (v.abs() - value).abs() <= half * 1.000_001;
        match figure.unit {
            // A mean is rounded down, once or twice.
            "ns" | "us" | "ms" | "s" => {
                let shown = figure.shown();
                self.times.iter().any(|ns| (-1..=1).any(|more| fmt_ns(ns + more) == shown))
            }
            "%" => self.shares.iter().any(|v| fmt_pct(Some(*v)) == figure.shown() || is_near(*v)),
            "B" => self.bytes.iter().any(|v| is_near(*v)),
            "kB" => self.bytes.iter().any(|v| is_near(*v / 1e3)),
            "MB" => self.bytes.iter().any(|v| is_near(*v / 1e6)),
            "GB" => self.bytes.iter().any(|v| is_near(*v / 1e9)),
            "" | "x" => self.numbers.iter().any(|v| is_near(*v)),
            _ => false,
        }
    }
}

/// The late ranks and steps of rows.
fn late(rows: &[Record]) -> i64 {
    let has = |row: &Record| ["rank", "step", "step_label"].iter().all(|column| row.has(column));
    let of = |row: &Record| (row.opt_int("rank"), row.opt_int("step"), row.opt_int("step_label"));
    rows.iter().filter(|row| has(row)).map(of).collect::<BTreeSet<_>>().len().max(1) as i64
}

/// A column of a table, and what its figures may be divided by.
struct Column<'a> {
    reading: &'a Reading,
    job: &'a JobFacts,
    devices: i64,
    ranks: i64,
    whole: &'a [Record],
    unnamed: &'a [Record],
    all: &'a [Record],
    late: i64,
}

impl Column<'_> {
    fn sum(&self, rows: &[Record]) -> i64 {
        rows.iter().filter_map(|row| row.opt_int(self.reading.column)).sum()
    }

    fn add(&self, value: i64, out: &mut Readable) {
        match self.reading.column {
            column if column.ends_with("_ns") => {
                out.times.insert(value);
            }
            column if column.ends_with("bytes") || column == "bytes_per_group" => {
                out.bytes.push(value as f64)
            }
            _ => out.numbers.push(value as f64),
        }
    }

    fn read(&self, way: Way, rows: &[Record], out: &mut Readable) {
        let (column, job) = (self.reading.column, self.job);
        let has = |row: &Record| self.reading.only.is_none_or(|(of, values)| values.contains(&row.text(of)));
        let sum = self.sum(rows);
        let of_step = |sum: i64| sum / (job.steps * self.devices);
        let share = |part: i64, whole: i64| (whole != 0).then(|| 100.0 * part as f64 / whole as f64);
        let other = |of: &str| rows.iter().filter_map(|row| row.opt_int(of)).sum::<i64>();
        match way {
            Each => {
                let is_share = column.ends_with("_pct") || column == "pct";
                let whole = rows.iter().filter_map(|row| row.opt_int(column));
                whole.for_each(|value| self.add(value, out));
                let of = if is_share { &mut out.shares } else { &mut out.numbers };
                of.extend(
                    rows.iter()
                        .filter(|row| row.opt_int(column).is_none())
                        .filter_map(|row| row.float(column)),
                );
            }
            Most => rows
                .iter()
                .filter_map(|row| row.opt_int(column))
                .max()
                .into_iter()
                .for_each(|v| self.add(v, out)),
            Sum => self.add(sum, out),
            OfStep => self.add(of_step(sum), out),
            OfEachStep => {
                let mut steps: BTreeMap<_, i64> = BTreeMap::new();
                let of = |row: &Record| (row.opt_int("step"), row.opt_int("step_label"));
                rows.iter().for_each(|row| *steps.entry(of(row)).or_default() += row.int(column));
                steps.values().for_each(|sum| self.add(sum / self.devices, out));
            }
            OfStepAndRank => self.add(sum / (job.steps * self.ranks), out),
            OfStepOfJob => self.add(sum / (job.steps * job.devices_of(|_| true)), out),
            ShareOfStep => out.shares.extend(share(of_step(sum), job.step_time())),
            WholeOfStep => {
                let whole: Vec<Record> = self.whole.iter().filter(|row| has(row)).cloned().collect();
                self.add(of_step(self.sum(&whole)), out);
            }
            ShareOfWhole => out.shares.extend(share(sum, self.sum(self.unnamed))),
            ShareOfCompute => {
                self.add(job.compute, out);
                out.shares.extend(share(sum, job.compute));
            }
            Times(of) => out.numbers.extend(rows.iter().map(|row| (row.int(column) * row.int(of)) as f64)),
            OfLate if column.ends_with("_ns") => self.add(sum / self.late, out),
            OfLate => out.numbers.push(sum as f64 / self.late as f64),
            Over(of) => out.numbers.push(sum as f64 / other(of).max(1) as f64),
            PercentOf(of) => {
                out.shares.extend(share(sum, other(of)));
                // The parts of a bubble stand without their unit, which is that of the bubble.
                out.numbers.extend(share(sum, other(of)));
            }
            Beyond(of) => {
                out.bytes.push((sum - other(of)) as f64);
                out.shares.extend(share(sum - other(of), sum));
            }
            _ => self.read_more(way, rows, out),
        }
    }

    /// The ways that are not sums, and shares of them.
    fn read_more(&self, way: Way, rows: &[Record], out: &mut Readable) {
        let column = self.reading.column;
        match way {
            MeanBy(of) => {
                let number =
                    |row: &Record, of: &str| row.float(of).or_else(|| row.opt_int(of).map(|n| n as f64));
                let known = rows.iter().filter_map(|row| Some((number(row, column)?, number(row, of)?)));
                let (sum, weight) =
                    known.fold((0.0, 0.0), |(sum, all), (v, weight)| (sum + v * weight, all + weight));
                let weighted = sum / weight;
                if column.ends_with("_pct") { out.shares.push(weighted) } else { out.numbers.push(weighted) }
            }
            Mean => self.add(self.sum(rows) / rows.len().max(1) as i64, out),
            Rows => out.numbers.push(rows.len() as f64),
            SumOfRank => {
                let mut ranks: BTreeMap<i64, Vec<Record>> = BTreeMap::new();
                rows.iter().for_each(|row| ranks.entry(row.int("rank")).or_default().push(row.clone()));
                ranks.values().for_each(|of_rank| self.add(self.sum(of_rank), out));
            }
            BeyondMedianStep => self.beyond_median_step(rows, out),
            _ => self.read_counts(way, rows, out),
        }
    }

    fn beyond_median_step(&self, rows: &[Record], out: &mut Readable) {
        let times = &self.job.step_times;
        let steps: BTreeSet<_> = rows.iter().map(|r| (r.opt_int("step"), r.opt_int("step_label"))).collect();
        let median = times.get((times.len().max(1) - 1) / 2).copied().unwrap_or(0);
        let beyond: i64 =
            steps.iter().filter_map(|s| self.job.time_of.get(s)).map(|time| time - median).sum();
        [median, beyond, beyond / steps.len().max(1) as i64].into_iter().for_each(|ns| self.add(ns, out));
    }

    fn read_counts(&self, way: Way, rows: &[Record], out: &mut Readable) {
        let column = self.reading.column;
        match way {
            Values | ValuesOfWhole => {
                let of = if matches!(way, Values) { rows } else { self.all };
                let values: BTreeSet<String> = of.iter().map(|row| row.cell(column).to_string()).collect();
                out.numbers.push(values.len() as f64);
            }
            ValuesAbove(of) => {
                let mut sums: BTreeMap<&str, i64> = BTreeMap::new();
                rows.iter().for_each(|row| *sums.entry(row.text(column)).or_default() += row.int(of));
                out.numbers
                    .push(sums.iter().filter(|(name, sum)| !name.is_empty() && **sum > 0).count() as f64);
            }
            LastRun => {
                let mut run: Vec<i64> =
                    rows.iter().rev().map(|row| row.int(column)).take_while(|bytes| *bytes > 0).collect();
                run.sort_unstable();
                out.numbers.push(run.len() as f64);
                out.bytes.extend(run.get((run.len().max(1) - 1) / 2).map(|b| *b as f64));
            }
            RowsOfStepAndGroup => {
                let mut counts: BTreeMap<[String; 2], i64> = BTreeMap::new();
                let of = |row: &Record| ["step_label", "process_group"].map(|of| row.cell(of).to_string());
                self.all.iter().for_each(|row| *counts.entry(of(row)).or_default() += 1);
                out.numbers.extend(counts.values().max().map(|n| *n as f64));
            }
            _ => unreachable!("{column} is read before"),
        }
    }
}
