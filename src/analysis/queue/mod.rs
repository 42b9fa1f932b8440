//! Queue length: the number of launches that wait on each stream, and whether the host or the device runs
//! ahead.

use crate::api::{About, Analysis, Options, Partial, RowEmitter};
use crate::settings::{Setting, ValueType};
use hta_base::table;
use hta_base::table::schema::{Table, Text};
use hta_base::table::view::{Fold, Keep, Note, TableError, ViewScope, ViewSpec};
use hta_base::units::{Ns, Span, fmt_count, ratio};
use hta_facts::queue_lengths::{QueuedLaunch, StreamQueue, queues};
use hta_facts::windows::WindowAccounts;
use hta_job::recording::capability::Capability;
use hta_trace::interval::Union;
use hta_trace::rank_trace::RankTrace;
use hta_trace::window::{Scope, Window};

table! {
    /// The queue of a stream in a window; wait_ns is the integral of its length over time.
    pub(crate) struct QueueStats, QueueStatRow = "queue_stats" by "rank, device, stream, scope, step" {
        rank; device; stream;
        scope: Text, "", "span (first entry into the queue to last exit), capture, step or outside";
        step; step_label; is_partial; ts_ns; dur_ns => sum(dur_ns);
        launch_count: u64, "", "launches that enter the queue in the window", "launches"
            => sum(launch_count);
        empty_at_launch_count: u64, "", "of these, those that found no earlier launch waiting";
        max_length: u32, "launches", "largest number of waiting launches", "max" => max(max_length);
        mean_length: Option<f64>, "launches", "number of waiting launches, mean over time", "mean"
            => mean(mean_length, dur_ns);
        p50_length: Option<u32>, "launches", "length that is not exceeded for half of the time";
        p95_length: Option<u32>, "launches", "length that is not exceeded for 95 % of the time", "p95";
        max_pending: u32, "activities",
            "largest number of waiting activities; a graph launch counts each of its activities";
        wait_ns: i64, "ns", "waiting of the launches in the window, summed";
        empty_ns: i64, "ns", "time in which no launch waits" => sum(empty_ns);
        full_ns: i64, "ns", "time in which --max-queue launches or more wait" => sum(full_ns);
        blocked_call_ns: i64, "ns", "part of full_ns in which a launch call for the stream is open", "blocked"
            => sum(blocked_call_ns);
        full_call_count: u64, "", "launches that find the queue full, or fill it"
            => sum(full_call_count);
        full_call_mean_ns: Option<f64>, "ns", "mean length of the calls of these", "call when full"
            => mean(full_call_mean_ns, full_call_count);
        other_call_mean_ns: Option<f64>, "ns", "the same of the others, where there are some of both",
            "other calls" => mean(other_call_mean_ns, launch_count);
        is_lower_bound: bool, "",
            "the window begins before the stream has finished the work from before the recording, so more \
             launches may have waited";
    }
}

const VIEW: ViewSpec = ViewSpec {
    title: "Launches that wait on each stream",
    columns: &[
        "rank",
        "device?",
        "stream",
        "step?",
        "launch_count",
        "mean_length",
        "p95_length",
        "max_length",
        "full_ns",
        "blocked_call_ns",
        "full_call_mean_ns?",
        "other_call_mean_ns?",
    ],
    keep: &[Keep::Scope("span")],
    by: "blocked_call_ns, launch_count",
    fold: Fold::Worst,
    percents: &[("empty_ns", "dur_ns", "empty")],
    notes: &[
        Note::Text(
            "length: launches submitted and not started, from the first to the last of the stream; mean and \
             p95 over time",
        ),
        Note::Made(when_full),
    ],
    ..ViewSpec::of(QueueStats::SPEC)
};

/// From how many launches on a queue is full.
fn when_full(scope: &ViewScope) -> Result<Option<String>, TableError> {
    let mut has_rows = false;
    scope.each::<QueueStats>(|_| has_rows = true)?;
    let full = (scope.option)(MAX_QUEUE.flag).filter(|_| has_rows).and_then(|n| n.parse().ok());
    Ok(full.map(|n| format!("full: {} or more wait; blocked: launch calls meanwhile", fmt_count(n))))
}

table! {
    /// Length of each queue over time. A row is written where a value changes; its values hold until the next
    /// row of the stream.
    pub(crate) struct QueueLengths, QueueLengthRow = "queue_length" by "rank, device, stream, ts_ns" {
        rank; device; stream;
        ts_ns: i64, "ns", "start of the time for which the values hold";
        queue_length: u32, "launches", "waiting launches; a graph launch counts as one";
        pending_activities: u32, "activities", "waiting activities";
        is_lower_bound: bool, "", "the stream still runs work from before the recording, so more may wait";
    }
}

const MAX_QUEUE: Setting = Setting {
    stem: "queue",
    flag: "--max-queue",
    value: "N",
    help: "Launches from which a queue counts as full",
    kind: ValueType::Count { default: 1024, min: 1 },
};

pub struct QueueLength;

impl Analysis for QueueLength {
    fn about(&self) -> About {
        About {
            stem: "queue",
            title: "how many launches wait on each stream, and when that blocks the host",
            explain: include_str!("page.md"),
            tables: &[QueueStats::SPEC, QueueLengths::SPEC],
            views: &[VIEW],
            settings: &[MAX_QUEUE],
            needs: &[Capability::Launch],
            ..About::DEFAULT
        }
    }

    fn map(&self, trace: &RankTrace, options: &Options, give: &mut RowEmitter) -> Partial {
        let full = options.settings.count(&MAX_QUEUE);
        let queues = queues(trace);
        let mut stats = QueueStats::default();
        for (work, windows) in WindowAccounts::of(trace).by_device(trace, &options.model) {
            let own = queues.iter().filter(|q| work.is_gpu && q.device == work.device);
            for m in own.map(|q| MeasuredQueue::new(trace, q, full)) {
                windows.iter().for_each(|w| m.push(&mut stats, trace, w, full));
            }
        }
        if options.wants(QueueLengths::SPEC) {
            series(trace, &queues, give);
        }
        let reason = match (trace.is_cpu_only(), queues.is_empty()) {
            (true, _) => Some("no GPU activity"),
            (false, true) => Some("no launches recorded"),
            (false, false) => None,
        };
        Partial { rank: trace.rank, tables: vec![stats.finish()], reason }
    }
}

/// A queue, with the times when it is full and when it blocks launch calls.
struct MeasuredQueue<'a> {
    queue: &'a StreamQueue,
    blocked: Union,
    /// Duration of the call of each entry, ns.
    calls: Vec<Ns>,
    /// The queue's own span without the lead of the device.
    span: Span,
    /// Start of the first launched activity, if it was queued behind unrecorded work.
    unrecorded_until: Option<Ns>,
}

impl<'a> MeasuredQueue<'a> {
    fn new(trace: &RankTrace, queue: &'a StreamQueue, full: u64) -> Self {
        let calls = Union::new(queue.entries.iter().map(|e| trace.span(e.call)));
        Self {
            queue,
            blocked: calls.and(&queue.full(full)),
            calls: queue.entries.iter().map(|e| trace.span(e.call).len()).collect(),
            span: match trace.edges.lead_end(queue.device) {
                Some(lead) => Span::new(queue.span.start.max(lead), queue.span.end.max(lead)),
                None => queue.span,
            },
            unrecorded_until: trace.edges.unrecorded_until((queue.device, queue.stream)),
        }
    }

    /// Parts of a window; for the span, the queue's own span.
    fn parts(&self, w: &Window) -> Vec<Span> {
        if w.scope == Scope::Span { vec![self.span] } else { w.parts().to_vec() }
    }

    /// Launches that enter in a window, with the durations of their calls.
    fn entered(&self, w: &Window) -> impl Iterator<Item = (&QueuedLaunch, Ns)> {
        let entries = &self.queue.entries;
        let at = |t: Ns| entries.partition_point(|e| e.enter < t);
        let ranges: Vec<(usize, usize)> = match w.scope {
            Scope::Span => vec![(at(self.span.start), entries.len())],
            _ => w.parts().iter().map(|p| (at(p.start), at(p.end.max(p.start)))).collect(),
        };
        ranges.into_iter().flat_map(move |(a, b)| entries[a..b].iter().zip(self.calls[a..b].iter().copied()))
    }

    fn push(&self, table: &mut QueueStats, trace: &RankTrace, w: &Window, full: u64) {
        let parts = self.parts(w);
        let l = self.queue.in_parts(&parts, full);
        let dur: Ns = parts.iter().map(|p| p.len()).sum();
        let (mut launches, mut found_empty) = (0, 0);
        // Number and summed length of the calls that find their queue full or fill it, and of the others.
        let mut calls: [(i64, Ns); 2] = [(0, 0); 2];
        for (e, call) in self.entered(w) {
            launches += 1;
            found_empty += u64::from(e.found == 0);
            let (count, sum) = &mut calls[usize::from(u64::from(e.found) + 1 < full)];
            (*count, *sum) = (*count + 1, *sum + call);
        }
        let [(full_call_count, full_call_ns), (other_count, other_ns)] = calls;
        table.push(QueueStatRow {
            rank: trace.rank,
            device: self.queue.device,
            stream: self.queue.stream,
            scope: w.scope.name(),
            step: w.step,
            step_label: w.label,
            is_partial: w.is_partial,
            ts_ns: parts.first().map_or(0, |p| p.start),
            dur_ns: dur,
            launch_count: launches,
            empty_at_launch_count: found_empty,
            max_length: l.max,
            mean_length: (dur > 0).then(|| l.wait as f64 / dur as f64),
            p50_length: l.p50,
            p95_length: l.p95,
            max_pending: l.max_pending,
            wait_ns: Ns::try_from(l.wait).unwrap_or(Ns::MAX),
            empty_ns: l.empty,
            full_ns: l.full,
            blocked_call_ns: parts.iter().map(|p| self.blocked.len_in(*p)).sum(),
            full_call_count: full_call_count as u64,
            full_call_mean_ns: ratio(full_call_ns, full_call_count),
            other_call_mean_ns: ratio(other_ns, other_count).filter(|_| full_call_count > 0),
            is_lower_bound: self
                .unrecorded_until
                .is_some_and(|t| parts.iter().any(|p| !p.is_empty() && p.start < t)),
        });
    }
}

fn series(trace: &RankTrace, queues: &[StreamQueue], give: &mut RowEmitter) {
    let mut table = QueueLengths::default();
    for q in queues {
        let unrecorded_until = trace.edges.unrecorded_until((q.device, q.stream));
        for c in &q.changes {
            table.push(QueueLengthRow {
                rank: trace.rank,
                device: q.device,
                stream: q.stream,
                ts_ns: c.at,
                queue_length: c.length,
                pending_activities: c.pending,
                is_lower_bound: unrecorded_until.is_some_and(|t| c.at < t),
            });
            table.give_piece(give);
        }
    }
    give(table.finish());
}
