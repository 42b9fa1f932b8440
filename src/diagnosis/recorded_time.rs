//! All recorded time of each device: before the first step, in the steps, between them, and after the last.
//! What the account of the steps leaves out is told from here.
//!
//! ```text
//!   capture  [before.[step 0   )between[step 1   ).after.)
//! ```

use crate::CauseKind;
use crate::piece::LostPiece;
use crate::trust::RecordingTrust;
use hashbrown::HashMap;
use hta_analysis::api::{Options, Partial, rows};
use hta_base::table;
use hta_base::table::schema::Text;
use hta_base::units::{Ns, Span, fmt_pct, percent};
use hta_base::wording::counts::uncapital;
use hta_facts::vendor::DeviceVendor;
use hta_trace::device::DeviceWork;
use hta_trace::rank_trace::RankTrace;
use hta_trace::step::{StepRule, StepWindow};
use hta_trace::strings::StrId;
use std::cmp::Reverse;
use std::collections::BTreeMap;

table! {
    /// All recorded time of every device, from its first to its last recorded event, without the leads and
    /// lost tails of `record_edges`. Over all rows of a device, ns adds up to that. Empty if steps were
    /// chosen.
    pub struct RecordedTime, RecordedTimeRow = "recorded_time" by "rank, device, stretch, part, cause" {
        rank; device;
        stretch: Text, "",
            "before (the first step; without steps: the first work of the device), steps, between (the \
             steps), or after (the last step)";
        part: Text, "",
            "compute, communication (that no compute hides), copies (that neither hides), or idle";
        cause: Option<Text>, "", "of idle time, the kind of cause that owns it, or not_explained; else null";
        key: Text, "", "what most of the idle time is about: a loader, a call, an operator; may be empty";
        time_ns: i64, "ns", "time";
    }
}

/// Share of the time from the first step to the last that lies between steps, and of the recorded time that
/// lies outside them, from which it is told, percent.
const BETWEEN_PCT: f64 = 2.0;
const OUTSIDE_PCT: f64 = 10.0;

/// Idle time of set-up that no call names.
const SET_UP: &str = "during set-up";

const STRETCHES: [&str; 4] = ["before", "steps", "between", "after"];

/// The spans of each stretch of a device.
fn stretches(trace: &RankTrace, work: &DeviceWork) -> [Vec<Span>; 4] {
    let all = work.capture;
    let steps: Vec<Span> = match trace.steps.rule {
        StepRule::Capture => {
            let busy = work.timeline.busy();
            let spans = busy.spans();
            spans.first().zip(spans.last()).map(|(a, b)| a.hull(*b)).into_iter().collect()
        }
        _ => trace.steps.steps.iter().map(|s| s.window).collect(),
    };
    let mut out: [Vec<Span>; 4] = Default::default();
    let mut at = all.start;
    for (i, step) in steps.iter().map(|s| s.intersect(all)).filter(|s| !s.is_empty()).enumerate() {
        out[if i == 0 { 0 } else { 2 }].push(Span::new(at, step.start.max(at)));
        out[1].push(Span::new(step.start.max(at), step.end.max(at)));
        at = at.max(step.end);
    }
    out[if out[1].is_empty() { 0 } else { 3 }].push(Span::new(at.min(all.end), all.end));
    out
}

/// Adds the rows of a device, whose idle time is divided into pieces.
pub(super) fn push(table: &mut RecordedTime, trace: &RankTrace, work: &DeviceWork, idle: &[LostPiece]) {
    for (stretch, spans) in STRETCHES.into_iter().zip(stretches(trace, work)) {
        let shares = work.timeline.shares_in_all(&spans);
        let parts = [
            ("compute", shares.compute()),
            ("fused", shares.fused()),
            ("communication", shares.exposed_communication()),
            ("copies", shares.copies()),
        ];
        let base = RecordedTimeRow { rank: trace.rank, device: work.device, stretch, ..Default::default() };
        for (part, time_ns) in parts.into_iter().filter(|(_, ns)| *ns > 0) {
            table.push(RecordedTimeRow { part, time_ns, ..base });
        }
        let mut sums: HashMap<(CauseKind, StrId), Ns> = HashMap::new();
        let mut rest = spans.iter().map(|s| s.len()).sum::<Ns>() - shares.busy();
        for span in &spans {
            let first = idle.partition_point(|p| p.span.end <= span.start);
            for p in idle[first..].iter().take_while(|p| p.span.start < span.end) {
                let ns = p.span.intersect(*span).len();
                *sums.entry((p.kind, p.key)).or_default() += ns;
                rest -= ns;
            }
        }
        if rest > 0 {
            *sums.entry((CauseKind::NotExplained, StrId::EMPTY)).or_default() += rest;
        }
        // By kind, its time and the key with most of it.
        let mut kinds: BTreeMap<CauseKind, (Ns, (Ns, Reverse<&str>))> = BTreeMap::new();
        for ((kind, key), ns) in sums {
            let (time, most) = kinds.entry(kind).or_default();
            *time += ns;
            *most = (ns, Reverse(trace.text(key))).max(*most);
        }
        for (kind, (time_ns, (_, Reverse(key)))) in kinds {
            let cause = Some(kind.name());
            table.push(RecordedTimeRow { part: "idle", cause, key, time_ns, ..base });
        }
    }
}

/// Time of all devices in the stretches.
#[derive(Default)]
struct StretchTimes<'a> {
    time: BTreeMap<&'a str, Ns>,
    /// Their idle time by what it is about.
    idle: BTreeMap<&'a str, BTreeMap<&'a str, Ns>>,
}

/// What lies outside the steps, in words for the first screen.
#[derive(Default)]
pub(super) struct OutsideSteps {
    /// Empty if it is little.
    pub(super) notes: Vec<String>,
    /// The time between the steps, if no step of the account counts it.
    pub(super) uncounted: Option<String>,
}

pub(super) fn outside(partials: &[Partial], options: &Options, trust: &RecordingTrust) -> OutsideSteps {
    let mut times = StretchTimes::default();
    for r in rows::<RecordedTime>(partials) {
        *times.time.entry(r.stretch).or_default() += r.time_ns;
        if r.part == "idle" {
            let is_set_up = r.key.is_empty() && r.cause == Some(CauseKind::SetUp.name());
            let key = if is_set_up { SET_UP } else { r.key };
            *times.idle.entry(r.stretch).or_default().entry(key).or_default() += r.time_ns;
        }
    }
    let of = |stretch: &str| times.time.get(stretch).copied().unwrap_or(0);
    let about = |stretch: &str| {
        let most = times.idle.get(stretch)?.iter().max_by_key(|(key, ns)| (**ns, Reverse(**key)));
        let (key, _) = most.filter(|(key, ns)| !key.is_empty() && **ns * 2 > of(stretch))?;
        let what = if *key == SET_UP { SET_UP.to_string() } else { format!("in `{key}`") };
        Some(format!(", most of it idle {what}"))
    };
    let mut out = OutsideSteps::default();
    let share = percent(of("between"), of("steps") + of("between"));
    // An iteration always counts up to the start of the next one, and the time between them has a cause of
    // its own.
    if !trust.has_iterations && share.is_some_and(|p| p >= BETWEEN_PCT) {
        let about = about("between").unwrap_or_default();
        let is_counted = options.model.step_window == StepWindow::Auto;
        let counted = match is_counted {
            true => "a step counts from the end of the one before",
            false => "in no step (--step-window)",
        };
        let between = format!("Between the steps lie {} of the time{about}: {counted}", fmt_pct(share));
        match is_counted {
            true => out.notes.push(uncapital(&between)),
            false => out.uncounted = Some(between),
        }
    }
    let all: Ns = times.time.values().sum();
    // Without steps, what counts begins with the first work; and where only some ranks have steps, with that
    // or with a step.
    let noun = match (trust.has_steps, trust.recording.has_mixed_steps(), trust.vendor) {
        (true, ..) => trust.step_noun(),
        (_, true, _) => "work or step",
        (_, _, DeviceVendor::Host) => "operator",
        _ => "work of the device",
    };
    let ends = [("before", "before the first"), ("after", "after the last")];
    let told = ends.iter().filter_map(|(stretch, place)| {
        let share = percent(of(stretch), all).filter(|p| *p >= OUTSIDE_PCT);
        let about = about(stretch).unwrap_or_default();
        share.map(|p| format!("{} lie {place} {noun}{about}", fmt_pct(Some(p))))
    });
    let told: Vec<String> = told.collect();
    if !told.is_empty() {
        out.notes.push(format!("of the recorded time, {}: counted in no share", told.join(", and ")));
    }
    out
}
