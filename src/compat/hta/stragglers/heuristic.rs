//! `TraceAnalysis.get_potential_stragglers` of HTA 0.5.0, as a function of the rows of the ranks.
//!
//! What: the ranks on which one chosen communication kernel starts last:
//! 1. Population: see `load` below. Times are whole microseconds, rows are assigned to steps, the last step
//!    is dropped.
//! 2. Mean step = (last end - first start) over **all** rows of the selected steps and ranks, host and
//!    device, divided by the number of steps.
//! 3. Long kernels: name starts with `ncclKernel`, stream > 0, step > 0, length >= 1 % of the mean step.
//! 4. Of each (rank, stream, step, name), the last one **in file order** is used.
//! 5. For each (stream, name): the sample standard deviation of the length over ranks, per step, and its mean
//!    over steps. The (stream, name) with the largest mean is chosen.
//! 6. In each step, the k latest starts (and all starts as late as the k-th) give their rank one point.
//! 7. The result is the k ranks with the most points, most first.
//!
//! Why: users of HTA get the result that they know. It says which ranks start last, not which are slow, and
//! always names k ranks.
//!
//! Units: input is in ns as in the file, *without* `baseTimeNanoseconds` (HTA ignores it and compares ranks
//! even if they count from different origins). Output is in microseconds as f64, because HTA computes in f64.
//!
//! Surprising:
//! - Since 2.19, NCCL names its kernels `ncclDevKernel_*`: then there is no candidate, and HTA raises an
//!   exception. So for every trace of recent years the faithful result is [`HtaException::NoKernel`]. With
//!   [`Choice::prefix`], a caller can select the kernels that HTA means.
//! - HTA orders ranks with equal points by numpy's unstable sort: the order of its list, and at the cut even
//!   the set of ranks, depends on the machine. Here the lowest of them comes first;
//!   [`HeuristicStragglers::tied`] says that a tie decides which ranks are named.
//! - The last step is dropped by the start of the last row named `ProfilerStep*`. A GPU-side annotation of
//!   the last step starts later than the host's, so if there are such annotations, a part of the last step is
//!   kept: it counts as a step and has the host rows before that start and the rows that they launched. With
//!   only one step name, nothing is dropped.
//! - `include_last` compares a shifted time with an unshifted end and so keeps everything, including rows
//!   after the end.
//! - Rounding produces lengths of -1; step 0 never has a candidate; stream 0 and the file's first event are
//!   not linked.
//!
//! Not reproduced: the order of ranks with equal points, as described above; an exact tie in 5, which HTA
//! decides by Python's randomised string hashes (here by stream, then name); which of two files of one rank
//! HTA reads (here the later one). Times finer than 1 ns are not represented here.
//!
//! Source: behaviour of HTA 0.5.0 (PyPI, MIT) with pandas 2.2.3: `hta/analyzers/straggler.py`,
//! `straggler_analysis.py`, `hta/common/trace.py`, `trace_parser.py`, `trace_filter.py`. This is an
//! independent implementation, compared with HTA on real and random traces.

use crate::hta::loader::microseconds;
use hashbrown::{HashMap, HashSet};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// An event with a duration and a category other than `Trace`.
#[derive(Debug, Clone)]
pub(crate) struct HeuristicEvent<'a> {
    /// Position in `traceEvents`, counting rows that are left out. Only whether it is 0 matters.
    pub(crate) id: u32,
    pub(crate) name: &'a str,
    /// Start as in the file, ns.
    pub(crate) ts: i64,
    pub(crate) dur: i64,
    /// Argument `stream`; -1 if there is none or it is no whole number.
    pub(crate) stream: i64,
    /// Argument `correlation`; -1 if there is none.
    pub(crate) correlation: i64,
}

/// The rows of one file.
#[derive(Debug, Clone)]
pub(crate) struct Rank<'a> {
    pub(crate) rank: i64,
    /// True if any `ts` in the file is written with a fraction (also as `12.0`). Times are then rounded, see
    /// `load`.
    pub(crate) fractional: bool,
    /// In file order.
    pub(crate) rows: Vec<HeuristicEvent<'a>>,
}

/// Arguments of `get_potential_stragglers`, and one argument of `TraceAnalysis`.
#[derive(Debug, Clone)]
pub(crate) struct Choice {
    /// `profiler_steps`; `None`: all steps.
    pub(crate) steps: Option<Vec<i64>>,
    /// `num_candidates`; values below 1 count as 1.
    pub(crate) candidates: i64,
    /// `include_last_profiler_step`.
    pub(crate) include_last: bool,
    /// Prefix of the names of communication kernels; `ncclKernel` in HTA.
    pub(crate) prefix: &'static str,
}

impl Default for Choice {
    fn default() -> Self {
        Self { steps: None, candidates: 2, include_last: false, prefix: "ncclKernel" }
    }
}

/// HTA's result (`ranks`), and the values that lead to it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HeuristicStragglers {
    /// Ranks with the most points first; of equal points, the lowest rank first.
    pub(crate) ranks: Vec<i64>,
    /// True if the first rank that is left out has as many points as the last one that is named.
    pub(crate) tied: bool,
    pub(crate) stream: i64,
    pub(crate) kernel: String,
    pub(crate) mean_step_us: f64,
    /// Rank and points of the ranks with a candidate, sorted by rank.
    pub(crate) points: Vec<(i64, i64)>,
    /// Sorted by rank, then step.
    pub(crate) starts: Vec<Start>,
}

/// A candidate: the last long kernel of a rank and step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Start {
    pub(crate) rank: i64,
    pub(crate) step: i64,
    /// Start, us from the first event of all ranks.
    pub(crate) ts_us: f64,
    pub(crate) dur_us: f64,
    /// Start from the first selected row, in units of the mean step.
    pub(crate) normalized: f64,
    pub(crate) late: bool,
}

/// The cases in which HTA raises an exception.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HtaException {
    /// A name starts with `ProfilerStep` but has no `#` and number after it (`AttributeError` while loading).
    StepName(String),
    /// None of the chosen steps exists (`ValueError: invalid value for argument`).
    NoStep { asked: Option<Vec<i64>>, available: Vec<i64> },
    /// There is no long communication kernel (`ValueError: attempt to get argmax of an empty sequence`; if
    /// the chosen steps contain no row at all, sometimes `ZeroDivisionError`).
    NoKernel,
    /// No (stream, name, step) is on two ranks (`TypeError: cannot unpack non-iterable float object`).
    NoSpread,
    /// More candidates were requested than a step has ranks with the kernel (`IndexError: list index out of
    /// range`).
    TooFew { step: i64, ranks: usize, asked: usize },
}

impl std::fmt::Display for HtaException {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            HtaException::StepName(name) => write!(f, "no step number in \"{name}\""),
            HtaException::NoStep { asked: None, .. } => write!(f, "no profiler step"),
            HtaException::NoStep { asked: Some(asked), available } => {
                write!(f, "none of the profiler steps {asked:?} is among {available:?}")
            }
            HtaException::NoKernel => write!(f, "no communication kernel of 1 % of a step"),
            HtaException::NoSpread => write!(f, "no communication kernel on two ranks in one step"),
            HtaException::TooFew { step, ranks, asked } => {
                write!(f, "{asked} candidates asked for, but step {step} has {ranks} ranks to choose from")
            }
        }
    }
}

impl std::error::Error for HtaException {}

/// Step -> rank -> start and length.
type ByStep = BTreeMap<i64, BTreeMap<i64, (f64, f64)>>;

/// Computes HTA's result.
///
/// # Errors
/// When HTA raises an exception; see [`HtaException`].
pub(crate) fn potential_stragglers(
    ranks: &[Rank<'_>],
    options: &Choice,
) -> Result<HeuristicStragglers, HtaException> {
    let loaded = load(ranks, options.include_last)?;
    let available = &loaded.steps;
    let chosen: BTreeSet<i64> = match &options.steps {
        None => available.clone(),
        Some(asked) => asked.iter().copied().filter(|s| available.contains(s)).collect(),
    };
    if chosen.is_empty() {
        let available = available.iter().copied().collect();
        return Err(HtaException::NoStep { asked: options.steps.clone(), available });
    }

    let selected = || {
        let in_chosen = |r: &&HeuristicRow<'_>| r.step.is_some_and(|s| chosen.contains(&s));
        loaded
            .ranks
            .iter()
            .flat_map(move |(rank, rows)| rows.iter().filter(in_chosen).map(move |r| (*rank, r)))
    };
    let steps: BTreeSet<i64> = selected().filter_map(|(_, r)| r.step).collect();
    let first = selected().map(|(_, r)| r.ts).fold(f64::INFINITY, f64::min);
    let last = selected().map(|(_, r)| r.ts + r.dur).fold(f64::NEG_INFINITY, f64::max);
    let mean_step = (last - first) / steps.len() as f64;
    let shortest = mean_step * 0.01;

    // A later kernel in the file replaces an earlier one.
    let mut last_of: BTreeMap<(i64, &str), ByStep> = BTreeMap::new();
    for (rank, r) in selected() {
        let long = r.stream > 0 && r.dur >= shortest && r.name.starts_with(options.prefix);
        if let Some(step) = r.step.filter(|s| long && *s > 0) {
            let of_step = last_of.entry((r.stream, r.name)).or_default().entry(step).or_default();
            of_step.insert(rank, (r.ts, r.dur));
        }
    }

    let key = widest(&last_of, mean_step)?;
    let asked = usize::try_from(options.candidates.max(1)).unwrap_or(usize::MAX);
    let mut points: BTreeMap<i64, i64> = BTreeMap::new();
    let mut starts = Vec::new();
    for (step, of_step) in last_of.get(&key).into_iter().flatten() {
        let normalized = |ts: f64| (ts - first) / mean_step;
        let mut latest: Vec<f64> = of_step.values().map(|(ts, _)| normalized(*ts)).collect();
        latest.sort_by(|a, b| b.total_cmp(a));
        let Some(threshold) = latest.get(asked - 1) else {
            return Err(HtaException::TooFew { step: *step, ranks: of_step.len(), asked });
        };
        for (rank, (ts, dur)) in of_step {
            let late = normalized(*ts) >= *threshold;
            *points.entry(*rank).or_default() += i64::from(late);
            let normalized = normalized(*ts);
            starts.push(Start { rank: *rank, step: *step, ts_us: *ts, dur_us: *dur, normalized, late });
        }
    }
    starts.sort_by_key(|s| (s.rank, s.step));
    let points: Vec<(i64, i64)> = points.into_iter().collect();
    // The sort is stable, so of equal points the lowest rank comes first.
    let mut ordered = points.clone();
    ordered.sort_by_key(|(_, points)| Reverse(*points));
    Ok(HeuristicStragglers {
        ranks: ordered.iter().take(asked).map(|p| p.0).collect(),
        tied: ordered.get(asked).is_some_and(|next| next.1 == ordered[asked - 1].1),
        stream: key.0,
        kernel: key.1.to_string(),
        mean_step_us: mean_step,
        points,
        starts,
    })
}

/// The kernel whose duration spreads most over the ranks, in steps of the mean length.
fn widest<'a>(
    last_of: &BTreeMap<(i64, &'a str), ByStep>,
    mean_step: f64,
) -> Result<(i64, &'a str), HtaException> {
    let mut widest = None;
    for (key, of) in last_of {
        let width =
            mean(of.values().map(|of_step| deviation(of_step.values().map(|(_, dur)| dur / mean_step))));
        // NaN is never the largest spread.
        if widest.map_or(!width.is_nan(), |(_, w)| width > w) {
            widest = Some((*key, width));
        }
    }
    match widest {
        Some((key, _)) => Ok(key),
        None if last_of.is_empty() => Err(HtaException::NoKernel),
        None => Err(HtaException::NoSpread),
    }
}

/// A row of HTA's table. Times are in microseconds from the first event of all ranks.
struct HeuristicRow<'a> {
    name: &'a str,
    ts: f64,
    dur: f64,
    stream: i64,
    step: Option<i64>,
}

struct HeuristicTable<'a> {
    /// Numbers of the steps whose own row is kept.
    steps: BTreeSet<i64>,
    /// Rows of each rank, in file order.
    ranks: BTreeMap<i64, Vec<HeuristicRow<'a>>>,
}

/// Loads rows like HTA's loader, as far as it matters here.
///
/// - If a file's `ts` have fractions, starts are rounded up and ends down, and length = the difference (-1
///   occurs).
/// - A row is a device row if it has a stream and a correlation >= 0, or is named `Event Sync` or `Context
///   Sync`.
/// - The launch of a device row is the last one in the file of the other rows with its correlation.
/// - The step of a row without a stream is the last one in the file of the rows named `ProfilerStep*` (host
///   or GPU annotations) that contain its start. The step of a row on a stream > 0 is that of its launch.
///   Other rows have no step.
/// - If all ranks together have two or more names that contain `ProfilerStep`, then in each rank a row that
///   is not a device row is kept if it starts before the last such step row, and a device row is kept if some
///   other row that is kept has its correlation.
fn load<'a>(ranks: &[Rank<'a>], include_last: bool) -> Result<HeuristicTable<'a>, HtaException> {
    let mut files: BTreeMap<i64, &Rank<'a>> = BTreeMap::new();
    for file in ranks {
        files.insert(file.rank, file);
    }
    let is_step: HashSet<&str> =
        files.values().flat_map(|f| &f.rows).map(|r| r.name).filter(|n| n.contains("ProfilerStep")).collect();

    let mut read: BTreeMap<i64, Vec<(HeuristicRow<'a>, bool, i64)>> = BTreeMap::new();
    for (rank, file) in &files {
        read.insert(*rank, rows_with_steps(file)?);
    }
    let origin = read.values().flatten().map(|(r, _, _)| r.ts).fold(f64::INFINITY, f64::min);

    let mut table = HeuristicTable { steps: BTreeSet::new(), ranks: BTreeMap::new() };
    for (rank, mut rows) in read {
        let step_rows = || rows.iter().filter(|(r, device, _)| !device && is_step.contains(r.name));
        let last_start = step_rows().map(|(r, _, _)| r.ts - origin).fold(f64::NAN, f64::max);
        // The end is not shifted by the origin, as in HTA.
        let last_end = step_rows().map(|(r, _, _)| r.ts + r.dur).fold(f64::NAN, f64::max);
        for (r, _, _) in &mut rows {
            r.ts -= origin;
        }
        if is_step.len() >= 2 {
            // A rank without steps loses all rows, because no number is less than NaN.
            let stays =
                |r: &HeuristicRow<'_>| if include_last { r.ts <= last_end } else { r.ts < last_start };
            let kept: HashSet<i64> = rows
                .iter()
                .filter(|(r, device, _)| !device && stays(r))
                .map(|(_, _, correlation)| *correlation)
                .collect();
            rows.retain(
                |(r, device, correlation)| if *device { kept.contains(correlation) } else { stays(r) },
            );
        }
        let rows: Vec<HeuristicRow<'a>> = rows.into_iter().map(|(r, _, _)| r).collect();
        for r in rows.iter().filter(|r| r.name.starts_with("ProfilerStep")) {
            table.steps.insert(step_number(r.name)?);
        }
        table.ranks.insert(rank, rows);
    }
    Ok(table)
}

/// The rows of a file with their steps. For each row also whether it is a device row, and its correlation.
fn rows_with_steps<'a>(file: &Rank<'a>) -> Result<Vec<(HeuristicRow<'a>, bool, i64)>, HtaException> {
    let times: Vec<(f64, f64)> = file
        .rows
        .iter()
        .map(|r| {
            let (ts, dur) = (microseconds(r.ts), microseconds(r.dur));
            if file.fractional { (ts.ceil(), (ts + dur).floor() - ts.ceil()) } else { (ts, dur) }
        })
        .collect();
    let mut steps: Vec<(f64, f64, i64)> = Vec::new();
    for (r, (ts, dur)) in file.rows.iter().zip(&times).filter(|(r, _)| r.name.starts_with("ProfilerStep")) {
        steps.push((*ts, ts + dur, step_number(r.name)?));
    }
    let step_at = |ts: f64| steps.iter().rev().find(|s| s.0 <= ts && ts < s.1).map(|s| s.2);
    let is_device = |r: &HeuristicEvent<'_>| {
        (r.stream >= 0 && r.correlation >= 0) || r.name == "Event Sync" || r.name == "Context Sync"
    };

    // The last launch with a correlation is used. Event 0 and events on a stream do not count as launches.
    let mut launches: HashMap<i64, Option<i64>> = HashMap::new();
    for (r, (ts, _)) in file.rows.iter().zip(&times).filter(|(r, _)| !is_device(r) && r.correlation != -1) {
        launches.insert(r.correlation, (r.id > 0 && r.stream < 0).then(|| step_at(*ts)).flatten());
    }
    let rows = file.rows.iter().zip(&times).map(|(r, (ts, dur))| {
        let device = is_device(r);
        let step = match r.stream {
            ..0 => step_at(*ts),
            0 => None,
            _ if device => launches.get(&r.correlation).copied().flatten(),
            _ => None,
        };
        (HeuristicRow { name: r.name, ts: *ts, dur: *dur, stream: r.stream, step }, device, r.correlation)
    });
    Ok(rows.collect())
}

/// The step number, such as 15 in `ProfilerStep#15` or `ProfilerStep # 15`.
fn step_number(name: &str) -> Result<i64, HtaException> {
    let digits = name
        .strip_prefix("ProfilerStep")
        .and_then(|rest| rest.trim_start().strip_prefix('#'))
        .map(|rest| rest.trim_start())
        .map(|rest| &rest[..rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())]);
    digits.and_then(|d| d.parse().ok()).ok_or_else(|| HtaException::StepName(name.to_string()))
}

/// Sample standard deviation, summed like in pandas (Welford); NaN for a single value. NaN values are
/// ignored.
fn deviation(values: impl Iterator<Item = f64>) -> f64 {
    let (mut count, mut mean, mut sum) = (0.0, 0.0, 0.0);
    for v in values.filter(|v| !v.is_nan()) {
        count += 1.0;
        let before = mean;
        mean += (v - before) / count;
        sum += (v - mean) * (v - before);
    }
    if count <= 1.0 { f64::NAN } else { f64::sqrt(sum / (count - 1.0)) }
}

/// Mean, summed like in pandas (Kahan); NaN if there are no values. NaN values are ignored.
fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (mut count, mut sum, mut lost) = (0.0, 0.0, 0.0);
    for v in values.filter(|v| !v.is_nan()) {
        count += 1.0;
        let exact = v - lost;
        let next = sum + exact;
        lost = next - sum - exact;
        if f64::is_nan(lost) {
            lost = 0.0;
        }
        sum = next;
    }
    if count == 0.0 { f64::NAN } else { sum / count }
}

#[cfg(test)]
mod tests;
