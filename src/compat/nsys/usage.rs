//! Where devices stand still: gaps between their activities, and parts of the recording with little work.
//!
//! ```text
//!   device   |kernel|.......gap.......|kernel||copy|       from the first start to the last end
//!   chunks   |     |     |     |     |     |     |         equal parts; busy time of each
//! ```

use crate::nsys::events::{Emit, NsysEventRow, NsysEvents, event};
use crate::nsys::process::process;
use hta_base::units::{Ns, Span};
use hta_trace::activity::Activity;
use hta_trace::args::Arg;
use hta_trace::rank_trace::RankTrace;
use hta_trace::step::StepRule;
use std::collections::{BTreeMap, BTreeSet};

/// Number of parts of a device's recording.
const CHUNKS: i64 = 30;

/// Busy share below which a part is reported, percent.
const LITTLE_PCT: i64 = 50;

/// Shortest gap that is ever reported, ns.
const LEAST_GAP: Ns = 100_000;

/// Gaps of this share of a step are reported.
const STEP_SHARE: Ns = 100;

/// A device's activities as separate busy spans, and its context if there is only one.
struct DeviceUsage {
    spans: Vec<Span>,
    contexts: BTreeSet<u64>,
}

impl DeviceUsage {
    fn context(&self) -> Option<u64> {
        self.contexts.first().copied().filter(|_| self.contexts.len() == 1)
    }
}

fn by_device(trace: &RankTrace) -> BTreeMap<Option<i64>, DeviceUsage> {
    let mut out: BTreeMap<Option<i64>, DeviceUsage> = BTreeMap::new();
    let add = |busy: &mut DeviceUsage, a: &Activity| {
        busy.contexts.extend(trace.columns.args.uint(Arg::Context, a.row));
        match busy.spans.last_mut() {
            // Activities are in order of start.
            Some(last) if a.span.start <= last.end => last.end = last.end.max(a.span.end),
            _ => busy.spans.push(a.span),
        }
    };
    for a in &trace.activities {
        let empty = || DeviceUsage { spans: Vec::new(), contexts: BTreeSet::new() };
        add(out.entry(a.device()).or_insert_with(empty), a);
    }
    out
}

/// The least gap to report: 100 us, or 1 % of the mean step if that is more.
fn least_gap(trace: &RankTrace) -> Ns {
    let steps = &trace.steps.steps;
    if trace.steps.rule == StepRule::Capture || steps.is_empty() {
        return LEAST_GAP;
    }
    let all: i128 = steps.iter().map(|s| i128::from(s.window.len())).sum();
    let mean = i64::try_from(all / steps.len() as i128).unwrap_or(0);
    (mean / STEP_SHARE).max(LEAST_GAP)
}

fn row<'a>(trace: &'a RankTrace, of: &DeviceUsage, device: Option<i64>, span: Span) -> NsysEventRow<'a> {
    NsysEventRow {
        process: process(trace).map(|p| trace.text(p)),
        device,
        context: of.context(),
        ..event(trace.rank, "", span.start.saturating_sub(trace.meta.base_ns.unwrap_or(0)), span.len())
    }
}

/// Gaps of each device between its first and its last activity.
pub(crate) fn gaps(trace: &RankTrace, give: &mut Emit) {
    let least = least_gap(trace);
    let mut table = NsysEvents::default();
    for (device, busy) in by_device(trace) {
        for pair in busy.spans.windows(2) {
            let [before, after] = pair else { continue };
            let gap = Span::new(before.end, after.start);
            if gap.len() >= least {
                table.push(row(trace, &busy, device, gap));
            }
        }
    }
    give(table.finish());
}

/// Equal parts of each device's recording in which it is busy for less than half of the time.
pub(crate) fn little_use(trace: &RankTrace, give: &mut Emit) {
    let mut table = NsysEvents::default();
    for (device, busy) in by_device(trace) {
        let (Some(first), Some(last)) = (busy.spans.first(), busy.spans.last()) else { continue };
        let all = Span::new(first.start, last.end);
        let edge = |i: i64| all.start + (i128::from(all.len()) * i128::from(i) / i128::from(CHUNKS)) as i64;
        for chunk in (0..CHUNKS).map(|i| Span::new(edge(i), edge(i + 1))).filter(|c| !c.is_empty()) {
            let from = busy.spans.partition_point(|s| s.end <= chunk.start);
            let inside = busy.spans.iter().skip(from).take_while(|s| s.start < chunk.end);
            let worked: Ns = inside.map(|s| s.intersect(chunk).len()).sum();
            if i128::from(worked) * 100 < i128::from(chunk.len()) * i128::from(LITTLE_PCT) {
                table.push(NsysEventRow { busy_ns: Some(worked), ..row(trace, &busy, device, chunk) });
            }
        }
    }
    give(table.finish());
}
