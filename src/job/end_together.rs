//! Kernels of class compute that end together on all ranks although they start apart, as an exchange does
//! that no rule knows. Times in ns.
//!
//! ```text
//!   rank 0   [ fence          )
//!   rank 1        [ fence     )      S: last less first start        E: last less first end
//!   rank 2                 [f )      a kernel that computes starts and ends apart by the same: E / S is 1
//!            |------ S -----| E
//! ```
//!
//! They are listed and stay compute: a name alone does not prove an exchange.

use crate::Job;
use hta_base::order_statistics::median;
use hta_base::table::schema::{Batch, Text};
use hta_base::units::{Ns, Span};
use hta_base::{stored, table};
use hta_trace::activity::Activity;
use hta_trace::category::Class;
use hta_trace::kernel::category::by_name as by_name_of;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::{Interner, StrId};
use hta_trace::timeline::WorkClass;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The runs of each compute kernel by name, in order of start.
pub(crate) type RunsByName<'a> = BTreeMap<StrId, Vec<&'a Activity>>;

pub(crate) fn runs_by_name(trace: &RankTrace) -> RunsByName<'_> {
    let mut out = RunsByName::new();
    for a in trace.activities.iter().filter(|a| a.work == WorkClass::Compute) {
        out.entry(a.name).or_default().push(a);
    }
    out
}

/// A run of a kernel that is compared with those of other ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KernelRun {
    pub(crate) name: StrId,
    pub(crate) step: Option<u32>,
    pub(crate) span: Span,
}

/// Most runs of a rank that are kept, and of one name.
const MOST: usize = 16_384;
const MOST_OF_NAME: usize = 1_024;

/// The runs of a rank, of names that no category knows first, then of those with most time.
pub(crate) fn kernel_runs(trace: &RankTrace, by_name: &RunsByName, names: &mut Interner) -> Vec<KernelRun> {
    if trace.devices.iter().filter(|d| d.is_gpu).count() != 1 {
        return Vec::new();
    }
    let has_steps = !trace.steps.steps.is_empty();
    let is_whole = |a: &&Activity| match a.step().and_then(|step| trace.steps.steps.get(step as usize)) {
        Some(step) => !step.is_partial,
        None => !has_steps,
    };
    let mut all: Vec<(bool, Reverse<Ns>, StrId, Vec<&Activity>)> = Vec::new();
    for (name, runs) in by_name.iter().filter(|(_, runs)| runs.len() >= FEWEST) {
        let runs: Vec<&Activity> =
            runs.iter().copied().filter(|a| a.class == Class::Kernel).filter(is_whole).collect();
        if (FEWEST..=MOST_OF_NAME).contains(&runs.len()) {
            let time = runs.iter().map(|a| a.span.len()).sum();
            all.push((by_name_of(trace.text(*name)).category.is_some(), Reverse(time), *name, runs));
        }
    }
    all.sort_by_key(|(is_known, time, name, _)| (*is_known, *time, *name));
    let mut out = Vec::new();
    for (.., name, runs) in all {
        if out.len() + runs.len() <= MOST {
            let name = names.intern(trace.text(name));
            out.extend(runs.iter().map(|a| KernelRun { name, step: a.step(), span: a.span }));
        }
    }
    out
}

stored! {
    /// One row per run of a kernel that is compared with those of other ranks.
    pub(crate) struct PartRuns, PartRunRow = "part_runs" by "position" {
        name: u32, "", "position of its name";
        step: Option<u32>, "", "step";
        start_ns: i64, "ns", "start";
        end_ns: i64, "ns", "end";
    } of KernelRun = (KernelRun { name, step, span: Span { start: start_ns, end: end_ns } });
}

table! {
    /// Kernels of class compute that end together on all ranks although they start apart: they behave like
    /// an exchange between ranks that no rule knows. They stay compute. `--rules FILE` names them.
    pub struct KernelsEndTogether, KernelEndTogetherRow = "kernels_end_together"
        by "sum_ns descending, name" {
        name: Text, "", "full name", "kernel";
        rank_count: u32, "ranks", "ranks that run it, equally often in every step";
        instance_count: u64, "", "runs that start at least 20 us apart, each counted once for all ranks",
            "runs";
        start_apart_ns: i64, "ns", "from the first start on a rank to the last, median of these",
            "starts apart";
        end_apart_ns: i64, "ns", "from the first end to the last, median of these", "ends apart";
        end_ratio: f64, "", "end over start, median of these: about 1 for what computes; at most 0.1 here";
        sum_ns: i64, "ns", "time of all its runs in whole steps, summed over ranks", "time";
    }
}

/// A kernel that ends together.
#[derive(Debug, Clone)]
pub(crate) struct EndsTogether {
    pub(crate) name: String,
    ranks: u32,
    instances: u64,
    start_apart: Ns,
    end_apart: Ns,
    /// Median of end over start, millionths.
    ratio: i64,
    sum: Ns,
}

/// The runs of one name on a part.
type RunsOfPart<'a> = (usize, &'a [KernelRun]);

/// Fewest ranks, fewest instances, the least time between starts, and the most of end over start, millionths.
const LEAST_RANKS: usize = 3;
const FEWEST: usize = 8;
const LEAST_APART: Ns = 20_000;
const MOST_RATIO: i64 = 100_000;
/// Part of the time between starts that the clocks may be wrong by: one in so many.
const CLOCK_PART: Ns = 5;

/// The kernels of a job that end together, by time.
pub(crate) fn ends_together(job: &Job) -> Arc<Vec<EndsTogether>> {
    job.shared(|job| {
        let mut by_name: BTreeMap<(u32, &str), Vec<RunsOfPart>> = BTreeMap::new();
        for (i, part) in job.parts.iter().enumerate().filter(|(_, p)| !p.is_left_out) {
            for runs in part.runs.chunk_by(|a, b| a.name == b.name) {
                let name = runs.first().map_or("", |r| job.names.get(r.name));
                by_name.entry((part.program(), name)).or_default().push((i, runs));
            }
        }
        let mut out: Vec<EndsTogether> =
            by_name.iter().filter_map(|((_, name), ranks)| of_name(job, name, ranks)).collect();
        out.sort_by(|a, b| (Reverse(a.sum), &a.name).cmp(&(Reverse(b.sum), &b.name)));
        out
    })
}

fn of_name(job: &Job, name: &str, ranks: &[RunsOfPart]) -> Option<EndsTogether> {
    let (lead, first) = ranks.first()?;
    let step = |part: usize, r: &KernelRun| {
        let step = job.parts.get(part)?.steps.get(r.step? as usize)?;
        Some(step.label.unwrap_or_else(|| i64::from(step.index)))
    };
    let is_alike = |(part, runs): &(usize, &[KernelRun])| {
        runs.len() == first.len() && runs.iter().zip(*first).all(|(a, b)| step(*part, a) == step(*lead, b))
    };
    if ranks.len() < LEAST_RANKS || !ranks.iter().all(is_alike) {
        return None;
    }
    let clocks: Vec<_> = ranks.iter().map(|(part, _)| job.clocks.get(*part)).collect::<Option<_>>()?;
    let doubt = clocks
        .iter()
        .map(|c| c.residual.max(c.doubt))
        .max()
        .filter(|_| clocks.iter().all(|c| c.is_aligned))?;
    let (mut starts, mut ends, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for i in 0..first.len() {
        let spans = ranks.iter().zip(&clocks).filter_map(|((_, runs), clock)| {
            let span = runs.get(i)?.span;
            Some((clock.aligned(span.start), clock.aligned(span.end)))
        });
        let (mut start, mut end) = ((Ns::MAX, Ns::MIN), (Ns::MAX, Ns::MIN));
        for (s, e) in spans {
            start = (start.0.min(s), start.1.max(s));
            end = (end.0.min(e), end.1.max(e));
        }
        let (start, end) = (start.1 - start.0, end.1 - end.0);
        if start >= LEAST_APART && doubt * CLOCK_PART < start {
            starts.push(start);
            ends.push(end);
            ratios.push((i128::from(end) * 1_000_000 / i128::from(start)) as i64);
        }
    }
    let instances = ratios.len();
    let ratio = median(&mut ratios).filter(|ratio| instances >= FEWEST && *ratio <= MOST_RATIO)?;
    Some(EndsTogether {
        name: name.to_string(),
        ranks: ranks.len() as u32,
        instances: instances as u64,
        start_apart: median(&mut starts)?,
        end_apart: median(&mut ends)?,
        ratio,
        sum: ranks.iter().flat_map(|(_, runs)| runs.iter()).map(|r| r.span.len()).sum(),
    })
}

/// The table of them.
pub fn ends_together_table(job: &Job) -> Batch {
    let mut table = KernelsEndTogether::default();
    for k in ends_together(job).iter() {
        table.push(KernelEndTogetherRow {
            name: &k.name,
            rank_count: k.ranks,
            instance_count: k.instances,
            start_apart_ns: k.start_apart,
            end_apart_ns: k.end_apart,
            end_ratio: k.ratio as f64 / 1e6,
            sum_ns: k.sum,
        });
    }
    table.finish()
}
