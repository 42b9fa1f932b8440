//! Iterations of inference engines before and after: those of one phase and batch do the same work, others do
//! not.
//!
//! ```text
//!   base   decode 4   decode 4   prefill 1   decode 4          decode 4: period, window, busy share, gap, tokens/s of
//!   test   decode 4   decode 8   decode 4                      both; prefill 1 only before, decode 8 only after
//! ```
//!
//! Every figure is the mean of the iterations that count in `iteration_phases`; the values behind its noise
//! are one per iteration, each the mean over its ranks, because the ranks of a job run an iteration together.
//! Times in ns.

use hta_analysis::iterations::{IterationRow, IterationsTable};
use hta_analysis::printed::{View, number, text};
use hta_base::table;
use hta_base::table::compare::{ComparedFigure, Noise, RunFigure};
use hta_base::table::schema::{Batch, Table, Text};
use hta_base::units::{Ns, fmt_count, fmt_ns, fmt_number, fmt_pct, fmt_signed_pct};
use hta_base::wording::counts::plural;
use std::cmp::Reverse;
use std::collections::BTreeMap;

table! {
    /// Iterations of one phase and batch on both sides: means of the iterations that count in
    /// iteration_phases. Values are null on a side that has none.
    pub(crate) struct DiffIterations, DiffIterationRow = "diff_iterations" by "phase, mode, requests" {
        phase: Option<Text>, "", "as in iteration_phases";
        mode: Option<Text>, "", "as in iteration_phases";
        requests: Option<u64>, "", "batch";
        side: Text, "", "both, base or test: who has such iterations";
        base_iteration_count: u64, "", "iterations counted, over the ranks compared";
        test_iteration_count: u64, "", "the same of test";
        basis: Text, "",
            "period, or window if a side has no iteration with a next one: then period_ns is the window, and \
             rates are upper bounds";
        base_period_ns: Option<f64>, "ns", "from window to window";
        test_period_ns: Option<f64>, "ns", "the same of test";
        delta_period_ns: Option<f64>, "ns", "test - base";
        delta_period_pct: Option<f64>, "%", "of base";
        period_std_error_ns: Option<f64>, "ns",
            "standard error of the change; null below three iterations on a side";
        is_period_significant: Option<bool>, "",
            "the change is more than three standard errors; null where there is none";
        base_window_ns: Option<f64>, "ns", "length of the window";
        test_window_ns: Option<f64>, "ns", "the same of test";
        delta_window_ns: Option<f64>, "ns", "test - base";
        delta_window_pct: Option<f64>, "%", "of base";
        window_std_error_ns: Option<f64>, "ns", "as for the period";
        is_window_significant: Option<bool>, "", "as for the period";
        base_window_busy_pct: Option<f64>, "%", "busy share of a window";
        test_window_busy_pct: Option<f64>, "%", "the same of test";
        delta_window_busy_pct: Option<f64>, "%", "test - base, percentage points";
        is_window_busy_significant: Option<bool>, "", "as for the period";
        base_gap_idle_ns: Option<f64>, "ns", "idle time between windows";
        test_gap_idle_ns: Option<f64>, "ns", "the same of test";
        delta_gap_idle_ns: Option<f64>, "ns", "test - base";
        gap_idle_std_error_ns: Option<f64>, "ns", "as for the period";
        is_gap_idle_significant: Option<bool>, "", "as for the period";
        base_host_exposed_ns: Option<f64>, "ns", "the scheduler's bubble";
        test_host_exposed_ns: Option<f64>, "ns", "the same of test";
        delta_host_exposed_ns: Option<f64>, "ns", "test - base";
        host_exposed_std_error_ns: Option<f64>, "ns", "as for the period";
        is_host_exposed_significant: Option<bool>, "", "as for the period";
        base_tokens_per_s: Option<f64>, "tokens/s",
            "tokens by which an iteration brings its requests on, per time; null if not known";
        test_tokens_per_s: Option<f64>, "tokens/s", "the same of test";
        delta_tokens_per_s_pct: Option<f64>, "%", "change, of base";
        is_tokens_per_s_significant: Option<bool>, "", "as for the period";
    }
}

/// Change of the share of a kind among all iterations from which the mix is another one, percentage points.
const MIX_POINTS: f64 = 5.0;

/// Largest number of sentences.
const SENTENCES: usize = 3;

/// What iterations must have in common to be compared: phase, the engine's word if the phase is not known,
/// batch.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ComparedKind {
    phase: Option<String>,
    mode: Option<String>,
    requests: Option<u64>,
}

impl ComparedKind {
    fn shown(&self) -> (String, String) {
        let phase = self.phase.as_deref().or(self.mode.as_deref()).unwrap_or("-").to_string();
        (phase, self.requests.map_or("-".to_string(), |n| n.to_string()))
    }

    fn words(&self) -> String {
        let (phase, batch) = self.shown();
        if self.requests.is_some() { format!("{phase} {batch}") } else { phase }
    }
}

/// An iteration on one device that counts in the averages.
#[derive(Debug, Clone)]
pub struct CountedIteration {
    pub(crate) rank: u32,
    step: u32,
    kind: ComparedKind,
    /// `None` without a next one.
    period: Option<Ns>,
    window: Ns,
    busy: Ns,
    gap_idle: Option<Ns>,
    host_exposed: Ns,
    /// Tokens by which it brings its requests on.
    progress: Option<f64>,
}

/// The iterations of a set that count, from its table `iterations`.
pub fn counted(tables: &[Batch]) -> Vec<CountedIteration> {
    let all =
        tables.iter().filter(|b| b.spec.name == IterationsTable::SPEC.name).flat_map(IterationsTable::rows);
    all.filter(|r| r.is_counted)
        .map(|r: IterationRow| {
            let mode = r.mode.filter(|_| r.phase.is_none());
            CountedIteration {
                rank: r.rank,
                step: r.step,
                kind: ComparedKind {
                    phase: r.phase.map(str::to_string),
                    mode: mode.map(str::to_string),
                    requests: r.requests,
                },
                period: r.gap_ns.map(|_| r.period_ns),
                window: r.dur_ns,
                busy: r.window_busy_ns,
                gap_idle: r.gap_idle_ns,
                host_exposed: r.host_exposed_ns,
                progress: r.tokens_per_s.map(|rate| (rate * r.period_ns as f64 / 1e9).round()),
            }
        })
        .collect()
}

/// What is compared of one phase and batch.
struct KindChange {
    kind: ComparedKind,
    counts: [u64; 2],
    basis: &'static str,
    period: ComparedFigure,
    window: ComparedFigure,
    busy_pct: ComparedFigure,
    gap_idle: ComparedFigure,
    host_exposed: ComparedFigure,
    tokens_per_s: ComparedFigure,
    /// Length of all its windows on both sides.
    time: Ns,
}

impl KindChange {
    fn new(kind: ComparedKind, sides: [Vec<&CountedIteration>; 2]) -> Self {
        let has_period =
            |side: &Vec<&CountedIteration>| side.is_empty() || side.iter().any(|i| i.period.is_some());
        let by_period = sides.iter().all(has_period);
        let time = |i: &CountedIteration| if by_period { i.period } else { Some(i.window) };
        let change = |of: &dyn Fn(&CountedIteration) -> Option<f64>| {
            ComparedFigure::new(mean(&sides[0], of), mean(&sides[1], of))
        };
        let ns = |ns: Ns| ns as f64;
        Self {
            kind,
            counts: [0, 1].map(|s| sides[s].len() as u64),
            basis: if by_period { "period" } else { "window" },
            period: change(&|i| time(i).map(ns)),
            window: change(&|i| Some(ns(i.window))),
            busy_pct: change(&|i| (i.window > 0).then(|| 100.0 * i.busy as f64 / i.window as f64)),
            gap_idle: change(&|i| i.gap_idle.map(ns)),
            host_exposed: change(&|i| Some(ns(i.host_exposed))),
            tokens_per_s: change(&|i| {
                let time = time(i).filter(|t| *t > 0)?;
                Some(i.progress? * 1e9 / time as f64)
            }),
            time: sides.iter().flatten().map(|i| i.window).sum(),
        }
    }

    fn side(&self) -> &'static str {
        match self.counts {
            [0, _] => "test",
            [_, 0] => "base",
            _ => "both",
        }
    }
}

/// The mean of a figure over iterations, each the mean over its ranks.
fn mean(side: &[&CountedIteration], of: &dyn Fn(&CountedIteration) -> Option<f64>) -> RunFigure {
    let mut by_step: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
    for (step, value) in side.iter().filter_map(|i| Some((i.step, of(i)?))) {
        let sum = by_step.entry(step).or_default();
        sum.0 += value;
        sum.1 += 1.0;
    }
    let values: Vec<f64> = by_step.into_values().map(|(sum, n)| sum / n).collect();
    let value = (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
    RunFigure { value, noise: Noise::of(&values) }
}

/// The comparison of two sets of iterations.
pub(crate) struct IterationChanges(Vec<KindChange>);

impl IterationChanges {
    /// `None` if a side has no iterations.
    pub(crate) fn of_both(sides: [Vec<&CountedIteration>; 2]) -> Option<Self> {
        sides.iter().all(|side| !side.is_empty()).then(|| Self::new(sides))
    }

    /// Base and test.
    pub(crate) fn new(both: [Vec<&CountedIteration>; 2]) -> Self {
        let mut kinds: BTreeMap<&ComparedKind, [Vec<&CountedIteration>; 2]> = BTreeMap::new();
        for (side, all) in both.into_iter().enumerate() {
            all.into_iter().for_each(|i| kinds.entry(&i.kind).or_default()[side].push(i));
        }
        Self(kinds.into_iter().map(|(kind, sides)| KindChange::new(kind.clone(), sides)).collect())
    }

    pub(crate) fn table(&self) -> Batch {
        let mut table = DiffIterations::default();
        for k in &self.0 {
            let (period, window, busy, rate) = (k.period, k.window, k.busy_pct, k.tokens_per_s);
            let (gap, exposed) = (k.gap_idle, k.host_exposed);
            table.push(DiffIterationRow {
                phase: k.kind.phase.as_deref(),
                mode: k.kind.mode.as_deref(),
                requests: k.kind.requests,
                side: k.side(),
                base_iteration_count: k.counts[0],
                test_iteration_count: k.counts[1],
                basis: k.basis,
                base_period_ns: period.base,
                test_period_ns: period.test,
                delta_period_ns: period.delta,
                delta_period_pct: period.pct,
                period_std_error_ns: period.error,
                is_period_significant: period.is_significant,
                base_window_ns: window.base,
                test_window_ns: window.test,
                delta_window_ns: window.delta,
                delta_window_pct: window.pct,
                window_std_error_ns: window.error,
                is_window_significant: window.is_significant,
                base_window_busy_pct: busy.base,
                test_window_busy_pct: busy.test,
                delta_window_busy_pct: busy.delta,
                is_window_busy_significant: busy.is_significant,
                base_gap_idle_ns: gap.base,
                test_gap_idle_ns: gap.test,
                delta_gap_idle_ns: gap.delta,
                gap_idle_std_error_ns: gap.error,
                is_gap_idle_significant: gap.is_significant,
                base_host_exposed_ns: exposed.base,
                test_host_exposed_ns: exposed.test,
                delta_host_exposed_ns: exposed.delta,
                host_exposed_std_error_ns: exposed.error,
                is_host_exposed_significant: exposed.is_significant,
                base_tokens_per_s: rate.base,
                test_tokens_per_s: rate.test,
                delta_tokens_per_s_pct: rate.pct,
                is_tokens_per_s_significant: rate.is_significant,
            });
        }
        table.finish()
    }

    /// The kinds with most time first; those of both sides before others.
    fn by_time(&self) -> Vec<&KindChange> {
        let mut all: Vec<&KindChange> = self.0.iter().collect();
        all.sort_by_key(|k| (k.side() != "both", Reverse(k.time)));
        all
    }

    /// One line for each figure of each phase and batch.
    pub(crate) fn view(&self, top: usize) -> View {
        let mut rows = Vec::new();
        let all = self.by_time();
        for k in all.iter().take(top) {
            let (phase, batch) = k.kind.shown();
            let counts = match k.side() {
                "both" => format!("{} -> {}", fmt_count(k.counts[0]), fmt_count(k.counts[1])),
                "base" => format!("{} before", fmt_count(k.counts[0])),
                _ => format!("{} after", fmt_count(k.counts[1])),
            };
            let mut head = vec![phase, batch, counts];
            let rate = if k.basis == "window" { "<= tokens/s" } else { "tokens/s" };
            for (name, change, shown) in [
                (k.basis, &k.period, FigureFormat::Time),
                ("window", &k.window, FigureFormat::Time),
                ("GPU busy", &k.busy_pct, FigureFormat::Share),
                ("gap idle", &k.gap_idle, FigureFormat::Time),
                ("bubble", &k.host_exposed, FigureFormat::Time),
                (rate, &k.tokens_per_s, FigureFormat::Rate),
            ] {
                let (base, test) = (change.base, change.test);
                let is_twice = name == "window"
                    && k.basis == "window"
                    && rows.last().is_some_and(|r: &Vec<String>| r[3] == "window");
                if is_twice || (base.is_none() && test.is_none()) {
                    continue;
                }
                let mut row = std::mem::replace(&mut head, vec![String::new(); 3]);
                row.extend([
                    name.to_string(),
                    shown.value(base),
                    shown.value(test),
                    shown.change(change),
                    if change.delta.is_some() { change.trend().noise() } else { "" }.to_string(),
                ]);
                rows.push(row);
            }
        }
        let mut notes = vec![
            "means of the iterations that count (hta explain iterations); noise: beyond, or within three \
             standard errors (- : fewer than three iterations on a side)"
                .to_string(),
        ];
        if all.len() > top {
            notes.push(format!("{} in the table diff_iterations", plural(all.len() - top, "more kind")));
        }
        View {
            title: "Iterations by phase and batch, before and after".to_string(),
            columns: vec![
                text("phase"),
                number("batch"),
                text("iterations"),
                text(""),
                number("base"),
                number("test"),
                number("change"),
                text("noise"),
            ],
            rows,
            notes,
        }
    }

    /// Changes of the period beyond the noise, those with most time first.
    pub(crate) fn sentences(&self) -> Vec<String> {
        let all = self.by_time();
        let changed = all.iter().filter(|k| k.period.is_significant == Some(true));
        let sentence = |k: &&&KindChange| {
            let [base, test] = [k.period.base, k.period.test].map(|v| FigureFormat::Time.value(v));
            let rate = match (k.tokens_per_s.base, k.tokens_per_s.test) {
                (Some(b), Some(t)) => format!("; {b:.1} -> {t:.1} tokens/s"),
                _ => String::new(),
            };
            let slower = if k.period.delta > Some(0.0) { "slower" } else { "faster" };
            let words = k.kind.words();
            let change = FigureFormat::Time.change(&k.period);
            format!(
                "Iterations `{words}` are {slower}: {} {base} -> {test} ({change}), beyond the noise{rate}",
                k.basis
            )
        };
        changed.take(SENTENCES).map(|k| sentence(&k)).collect()
    }

    /// Why the mean over all iterations may change although none does.
    pub(crate) fn warning(&self) -> Option<String> {
        let all = [0, 1].map(|s| self.0.iter().map(|k| k.counts[s]).sum::<u64>().max(1) as f64);
        let shares = |k: &KindChange| [0, 1].map(|s| 100.0 * k.counts[s] as f64 / all[s]);
        let differs = |[base, test]: [f64; 2]| (base - test).abs();
        let largest = self.0.iter().max_by(|a, b| differs(shares(a)).total_cmp(&differs(shares(b))))?;
        let [base, test] = shares(largest);
        (differs([base, test]) > MIX_POINTS).then(|| {
            format!(
                "other iterations: `{}` are {} of those before and {} of those after, so compare by phase \
                 and batch",
                largest.kind.words(),
                fmt_pct(Some(base)),
                fmt_pct(Some(test))
            )
        })
    }
}

/// How a figure is printed.
#[derive(Clone, Copy)]
enum FigureFormat {
    Time,
    Share,
    Rate,
}

impl FigureFormat {
    fn value(self, value: Option<f64>) -> String {
        match (value, self) {
            (None, _) => "-".to_string(),
            (Some(v), FigureFormat::Time) => fmt_ns(v.round() as Ns),
            (Some(v), FigureFormat::Share) => fmt_pct(Some(v)),
            (Some(v), FigureFormat::Rate) => fmt_number(v),
        }
    }

    fn change(self, change: &ComparedFigure) -> String {
        match (change.delta, change.pct, self) {
            (None, ..) => "-".to_string(),
            (Some(delta), _, FigureFormat::Share) => format!("{delta:+.1} pts"),
            (_, Some(pct), _) => fmt_signed_pct(pct),
            (Some(delta), None, FigureFormat::Time) => {
                format!("{}{}", if delta > 0.0 { "+" } else { "" }, fmt_ns(delta.round() as Ns))
            }
            (Some(delta), None, FigureFormat::Rate) => format!("{delta:+.1}"),
        }
    }
}
