//! Reduces the queues of all ranks to the printed table and the observations.

use crate::api::{Align, Certainty, Observation, Options, Output, Partial, View, rows};
use crate::population::{SelectedRows, groups, reasons, several_devices};
use crate::queue::{DeviceQueues, QueueStatRow, QueueStats};
use crate::worst_first::WorstFirst;
use hta_base::units::{Ns, fmt_count, fmt_ns, fmt_number, fmt_pct, percent};
use hta_base::wording::counts::capital;
use std::cmp::Reverse;

/// Smallest share of the window that blocked launch calls must take for an observation, percent.
const BLOCKED_FROM_PCT: f64 = 1.0;

/// A full queue blocks the host if calls that find it full take at least this many times as long as others.
const BLOCKED_CALLS_LONGER: i128 = 2;

/// A device may be launch-bound if kernels run for less than this share of time, percent,
const KERNELS_BELOW_PCT: f64 = 50.0;

/// and at least this share of launches finds an empty queue, percent.
const EMPTY_FROM_PCT: f64 = 50.0;

pub fn reduce(partials: &[Partial], options: &Options, full: u64) -> Output {
    let devices = groups::<DeviceQueues>(partials);
    let several = several_devices(&devices);
    let mut observations = Vec::new();
    let blocked = devices.iter().max_by_key(|g| (g.mean(|t| t.blocked_call_ns), Reverse(g.rank)));
    observations.extend(blocked.and_then(|g| blocked_host(g, several, full)));
    let bound = devices.iter().filter(|g| is_launch_bound(g));
    let bound_count = bound.clone().count();
    let worst = bound.max_by_key(|g| (g.mean(|t| t.idle_ns), Reverse(g.rank)));
    observations.extend(worst.and_then(|g| launch_bound(g, several, bound_count, devices.len())));
    Output {
        tables: partials.iter().filter_map(|p| p.table(QueueStats::SPEC).cloned()).collect(),
        observations,
        views: vec![view(partials, options, several, full)],
        ..Output::default()
    }
}

fn view(partials: &[Partial], options: &Options, several: bool, full: u64) -> View {
    let scope = options.printed_scope("span");
    let rows: Vec<QueueStatRow> = rows::<QueueStats>(partials).filter(|r| r.scope == scope).collect();
    let mut notes = reasons(partials);
    let shown = WorstFirst::new(&rows, options.top, |r| (r.blocked_call_ns, r.launch_count));
    if !rows.is_empty() {
        notes.push(
            "length: launches submitted and not started, from the first to the last of the stream; mean and \
             p95 over time"
                .to_string(),
        );
        notes.push(format!("full: {} or more wait; blocked: launch calls meanwhile", fmt_count(full)));
    }
    let name = |r: &QueueStatRow| {
        let device = r.device.filter(|_| several).map_or(String::new(), |d| format!(" device {d}"));
        let step = match (r.scope, r.step_label, r.step) {
            ("step", Some(label), _) => format!(" step {label}"),
            ("step", None, Some(index)) => format!(" step @{index}"),
            _ => String::new(),
        };
        (r.rank, device + &step)
    };
    let cells = |name: String, of: &[&QueueStatRow]| {
        let sum = |ns: fn(&QueueStatRow) -> Ns| of.iter().map(|r| ns(r)).sum::<Ns>();
        let text = |value: Option<i64>| value.map_or("-".to_string(), |v| v.to_string());
        let one = match of {
            [one] => Some(one),
            _ => None,
        };
        let window = sum(|r| r.dur_ns);
        let weighted = of.iter().map(|r| Some(r.mean_length? * r.dur_ns as f64));
        let mean = match one {
            Some(one) => one.mean_length,
            _ => weighted.sum::<Option<f64>>().filter(|_| window > 0).map(|s| s / window as f64),
        };
        vec![
            name,
            text(one.and_then(|r| r.stream)),
            fmt_count(of.iter().map(|r| r.launch_count).sum()),
            mean.map_or("-".to_string(), fmt_number),
            text(one.and_then(|r| r.p95_length.map(i64::from))),
            text(of.iter().map(|r| i64::from(r.max_length)).max()),
            fmt_pct(percent(sum(|r| r.empty_ns), window)),
            fmt_ns(sum(|r| r.full_ns)),
            fmt_ns(sum(|r| r.blocked_call_ns)),
        ]
    };
    let shown = shown.rows(name, cells);
    notes.extend(shown.others_note(
        "stream",
        "sums, longest and mean over time",
        "that block the host no longer",
    ));
    View {
        title: "Launches that wait on each stream".to_string(),
        columns: vec![
            ("ranks", Align::Left),
            ("stream", Align::Right),
            ("launches", Align::Right),
            ("mean", Align::Right),
            ("p95", Align::Right),
            ("max", Align::Right),
            ("empty", Align::Right),
            ("full", Align::Right),
            ("blocked", Align::Right),
        ],
        rows: shown.rows,
        notes,
    }
}

/// Mean duration of calls, ns; `None` without calls.
fn mean_call(ns: Ns, count: Ns) -> Option<Ns> {
    (count > 0).then(|| ns / count)
}

/// The observation that the host waited for a full queue: calls that found it full took longer than others.
fn blocked_host(g: &SelectedRows<DeviceQueues>, several: bool, full: u64) -> Option<Observation> {
    let cost = g.mean(|t| t.blocked_call_ns);
    let share = g.percent(|t| t.blocked_call_ns).filter(|s| *s >= BLOCKED_FROM_PCT)?;
    let (held_count, held_ns) = (g.sum(|t| t.full_call_count), g.sum(|t| t.full_call_ns));
    let (other_count, other_ns) = (g.sum(|t| t.launch_count) - held_count, g.sum(|t| t.other_call_ns));
    let held = mean_call(held_ns, held_count)?;
    let other = mean_call(other_ns, other_count)?;
    if i128::from(held) < BLOCKED_CALLS_LONGER * i128::from(other) {
        return None;
    }
    Some(Observation {
        analysis: "queue",
        ranks: vec![g.rank],
        steps: Vec::new(),
        cost_ns_per_step: cost,
        share_of_step: Some(share / 100.0),
        certainty: Certainty::Inferred,
        sentence: format!(
            "{}: the host spends {} {} ({}) in launch calls while {} or more launches wait; such a call \
             takes {}, others take {}. The device has work; what the thread does besides launching (data, \
             logging) comes late: launch less at once with CUDA graphs or fused kernels",
            capital(&g.who(several)),
            fmt_ns(cost),
            g.per(),
            fmt_pct(Some(share)),
            fmt_count(full),
            fmt_ns(held),
            fmt_ns(other),
        ),
        table: QueueStats::SPEC.name,
    })
}

fn is_launch_bound(g: &SelectedRows<DeviceQueues>) -> bool {
    let found_empty = percent(g.sum(|t| t.empty_at_launch_count), g.sum(|t| t.launch_count));
    g.percent(|t| t.kernel_ns).is_some_and(|s| s < KERNELS_BELOW_PCT)
        && found_empty.is_some_and(|s| s > EMPTY_FROM_PCT)
}

/// The observation that the device waits for launches more than it runs.
fn launch_bound(
    g: &SelectedRows<DeviceQueues>,
    several: bool,
    bound: usize,
    of: usize,
) -> Option<Observation> {
    let launches = g.sum(|t| t.launch_count);
    let idle = g.percent(|t| t.idle_ns)?;
    let also = match bound {
        1 => String::new(),
        n => format!(", the most idle of {n} such (of {of})"),
    };
    Some(Observation {
        analysis: "queue",
        ranks: vec![g.rank],
        steps: Vec::new(),
        cost_ns_per_step: g.mean(|t| t.idle_ns),
        share_of_step: Some(idle / 100.0),
        certainty: Certainty::Inferred,
        sentence: format!(
            "{} is launch bound{also}: {} of its {} launches found no other waiting on their stream, and \
             kernels run {} of the time ({} idle {}). CUDA graphs, torch.compile or larger batches give the \
             device more work per launch; first remove what else delays the host (`hta idle`)",
            capital(&g.who(several)),
            fmt_pct(percent(g.sum(|t| t.empty_at_launch_count), launches)),
            fmt_count(launches as u64),
            fmt_pct(g.percent(|t| t.kernel_ns)),
            fmt_ns(g.mean(|t| t.idle_ns)),
            g.per(),
        ),
        table: QueueStats::SPEC.name,
    })
}
