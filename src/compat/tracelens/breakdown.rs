//! TraceLens' `gpu_timeline`.
//!
//! Its events are the GPU activities whose correlation is the id of a launch-side `ac2g` flow, and those that
//! share their correlation with a `*GraphLaunch` call; in a file without CPU operators, all GPU activities.
//! Its classes: copies (not memsets) are memory, names with nccl, rccl or cross_device_reduce are
//! communication, the rest is compute.

use crate::tracelens::NAME;
use hashbrown::HashSet;
use hta_analysis::api::{About, Analysis, Options, Partial, RowEmitter};
use hta_base::table;
use hta_base::table::schema::Text;
use hta_base::units::{Ns, Span};
use hta_trace::args::Arg;
use hta_trace::category::Class;
use hta_trace::rank_trace::RankTrace;
use hta_trace::timeline::{Timeline, WorkClass};

table! {
    /// TraceLens' `gpu_timeline`, with all devices pooled. Times are computed in exact nanoseconds and
    /// converted to ms.
    pub(crate) struct GpuTimeline, GpuTimelineRow = "compat_tracelens_gpu_timeline" by "rank, position" {
        rank: u32, "", "rank";
        kind as "type": Text, "", "part of the time";
        time as "time ms": f64, "ms", "length of this part";
        percent: Option<f64>, "%", "share of total_time";
    }
}

pub(crate) struct TraceLensBreakdown;

impl Analysis for TraceLensBreakdown {
    fn about(&self) -> About {
        head!(Some(NAME), "breakdown", "TraceLens' GPU timeline", [GpuTimeline])
    }

    fn map(&self, trace: &RankTrace, _: &Options, _: &mut RowEmitter) -> Partial {
        gpu_timeline(trace)
    }
}

fn is_communication(name: &str) -> bool {
    ["nccl", "rccl", "cross_device_reduce"].iter().any(|p| name.contains(p))
}

fn work_of(class: Class, name: &str) -> WorkClass {
    if class == Class::Memcpy || name.starts_with("__amd_rocclr_copyBuffer") {
        WorkClass::Memory
    } else if is_communication(name) {
        WorkClass::Communication
    } else {
        WorkClass::Compute
    }
}

fn gpu_timeline(trace: &RankTrace) -> Partial {
    let c = &trace.columns;
    let mut launched: HashSet<u64> = c.launch_flows.iter().copied().collect();
    let mut correlation = c.args.cursor(Arg::Correlation);
    for row in 0..c.len() {
        let id = correlation.get(row as u32);
        if let Some(id) = id
            && trace.name(row as u32).ends_with("GraphLaunch")
        {
            launched.insert(id);
        }
    }
    let has_ops = trace.classes.contains(&Class::HostOp);
    let mut correlation = c.args.cursor(Arg::Correlation);
    let mut activities: Vec<(Span, WorkClass)> = Vec::new();
    for (row, class) in trace.classes.iter().enumerate().filter(|(_, k)| k.is_gpu()) {
        let id = correlation.get(row as u32);
        if !has_ops || id.is_some_and(|i| launched.contains(&i)) {
            activities.push((trace.span(row as u32), work_of(*class, trace.name(row as u32))));
        }
    }
    let mut table = GpuTimeline::default();
    let first = activities.iter().map(|a| a.0.start).min();
    let last = activities.iter().map(|a| a.0.end).max();
    let window = first.zip(last).map(|(a, b)| Span::new(a, b));
    if let Some(window) = window {
        let s = Timeline::new(activities).shares_in(window);
        let total = window.len();
        let parts: [(&str, Ns); 8] = [
            ("computation_time", s.compute()),
            ("exposed_comm_time", s.exposed_communication()),
            ("exposed_memcpy_time", s.copies()),
            ("busy_time", s.busy()),
            ("idle_time", total - s.busy()),
            ("total_time", total),
            ("total_comm_time", s.communication()),
            ("total_memcpy_time", s.memory()),
        ];
        for (kind, ns) in parts {
            table.push(GpuTimelineRow {
                rank: trace.rank,
                kind,
                time: ns as f64 / 1e6,
                percent: hta_base::units::percent(ns, total),
            });
        }
    }
    let reason = window.is_none().then_some("no GPU activity with a launch");
    Partial { rank: trace.rank, tables: vec![table.finish()], reason }
}
