//! Reduces the paths of all ranks: divides matched communication into waiting and transfer, and makes the
//! path of all ranks.

use crate::api::{Output, Partial, ViewNote};
use crate::critical_path::segment::BEFORE_CAPTURE;
use crate::critical_path::tables;
use crate::critical_path::tables::{
    ClassRow, ClassTime, CriticalOverRanks, CriticalOverRanksRow, CriticalSummary, PathCallRow, PathCalls,
    PathWindowColumns,
};
use hta_base::table::schema::Batch;
use hta_base::units::{Ns, Span, fmt_ns, percent};
use hta_base::wording::counts::plural;
use hta_job::{Job, Member, RankSummary};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// One rank's path by class.
struct RankPath {
    head: PathWindowColumns,
    rows: Vec<ClassRow>,
}

pub fn reduce(partials: &[Partial], job: &Job) -> Output {
    let paths: Vec<RankPath> = partials.iter().filter_map(|p| read(p, job)).collect();
    let mut table = CriticalSummary::default();
    for p in &paths {
        tables::push(&mut table, &p.head, &p.rows);
    }
    Output {
        tables: vec![table.finish(), over_ranks(&paths)],
        notes: window(&paths).map(ViewNote::first).into_iter().collect(),
        ..Output::default()
    }
}

fn read(partial: &Partial, job: &Job) -> Option<RankPath> {
    let head = PathWindowColumns::read(partial.rows::<CriticalSummary>().next()?);
    let mut rows: Vec<ClassRow> = partial.rows::<CriticalSummary>().map(ClassRow::read).collect();
    let part = job.parts.iter().position(|p| p.rank == head.rank);
    if let Some(part) = part {
        let divided = divide(partial.rows::<PathCalls>(), job, part as u32, &job.parts[part]);
        // If no call is matched, the recorded rows stay.
        if divided.keys().any(|(_, what)| *what != CallPart::Whole) {
            rows.retain(|r| !divided.keys().any(|(class, _)| r.class == *class));
            rows.extend(
                divided
                    .iter()
                    .map(|((class, what), sum)| ClassRow::new(format!("{class}{}", what.suffix()), sum)),
            );
            tables::sort(&mut rows);
        }
    }
    Some(RankPath { head, rows })
}

/// Part of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum CallPart {
    /// The whole call, if it is not matched.
    Whole,
    Wait,
    Transfer,
}

impl CallPart {
    fn suffix(self) -> &'static str {
        match self {
            CallPart::Whole => "",
            CallPart::Wait => "_wait",
            CallPart::Transfer => "_transfer",
        }
    }
}

/// Divides segments of communication: the first part of a call is waiting.
fn divide<'a>(
    calls: impl Iterator<Item = PathCallRow<'a>>,
    job: &Job,
    part: u32,
    of: &RankSummary,
) -> BTreeMap<(&'a str, CallPart), ClassTime<'a>> {
    let mut out: BTreeMap<(&str, CallPart), ClassTime> = BTreeMap::new();
    for row in calls {
        let span = Span::new(row.ts_ns, row.ts_ns + row.dur_ns);
        let call = row.event_id.and_then(|e| of.calls.index_of(e));
        let outcome = call.and_then(|call| {
            Some((job.told_wait(Member { part, call })?, of.calls.calls.get(call as usize)?))
        });
        let pieces = match outcome {
            None => [(CallPart::Whole, span), (CallPart::Whole, Span::new(0, 0))],
            Some((outcome, call)) => {
                let until = (call.span.start + outcome.wait).clamp(span.start, span.end);
                [
                    (CallPart::Wait, Span::new(span.start, until)),
                    (CallPart::Transfer, Span::new(until, span.end)),
                ]
            }
        };
        for (what, piece) in pieces.into_iter().filter(|p| !p.1.is_empty()) {
            let sum = out.entry((row.class, what)).or_default();
            *(if row.is_work { &mut sum.work } else { &mut sum.overhead }) += piece.len();
            sum.count += 1;
            *sum.names.entry(row.name).or_default() += piece.len();
        }
    }
    out
}

/// Time of a class over several ranks, ns.
#[derive(Default)]
struct ClassTotal {
    ranks: u32,
    work: Ns,
    overhead: Ns,
    count: u64,
    /// The longest name on any rank, with its time.
    top: Option<(String, Ns)>,
}

fn totals(paths: &[RankPath]) -> Vec<(String, ClassTotal)> {
    let mut by_class: BTreeMap<&str, ClassTotal> = BTreeMap::new();
    for r in paths.iter().flat_map(|p| &p.rows) {
        let t = by_class.entry(&r.class).or_default();
        t.ranks += 1;
        t.work += r.work;
        t.overhead += r.overhead;
        t.count += r.count;
        if r.top_name.as_ref().is_some_and(|n| t.top.as_ref().is_none_or(|top| n.1 > top.1)) {
            t.top.clone_from(&r.top_name);
        }
    }
    let mut out: Vec<(String, ClassTotal)> = by_class.into_iter().map(|(c, t)| (c.to_string(), t)).collect();
    // The class before the window comes last.
    out.sort_by_key(|(class, t)| (class == BEFORE_CAPTURE, Reverse(t.work + t.overhead)));
    out
}

/// Mean path of the ranks by class.
fn over_ranks(paths: &[RankPath]) -> Batch {
    let (n, dur) = (paths.len().max(1) as i64, paths.iter().map(|p| p.head.dur).sum());
    let mut table = CriticalOverRanks::default();
    for (class, t) in totals(paths) {
        table.push(CriticalOverRanksRow {
            class: &class,
            rank_count: t.ranks,
            work_ns: t.work / n,
            overhead_ns: t.overhead / n,
            window_pct: percent(t.work + t.overhead, dur).filter(|_| class != BEFORE_CAPTURE),
            count: t.count,
            top_name: t.top.as_ref().map(|top| top.0.as_str()),
            top_name_ns: t.top.as_ref().map(|top| top.1),
        });
    }
    table.finish()
}

/// The window whose path it is.
fn window(paths: &[RankPath]) -> Option<String> {
    let (first, rest) = paths.split_first()?;
    if rest.is_empty() {
        return Some(format!("of {}, {}", first.head.window, fmt_ns(first.head.dur)));
    }
    let is_same = rest.iter().all(|p| p.head.window == first.head.window);
    let what = if is_same { first.head.window.as_str() } else { "one window a rank" };
    let mean = paths.iter().map(|p| p.head.dur).sum::<Ns>() / paths.len() as i64;
    Some(format!("of {what}, mean of {}, {}", plural(paths.len(), "rank"), fmt_ns(mean)))
}
