//! Compares a slow step with the median step.
//!
//! ```text
//!   median step   |CCCCCC..KKK|          6 + 2 + 3 = 11
//!   slow step     |CCCCC.......KKKKK|    5 + 7 + 5 = 17
//!   difference    compute -1, idle +5, communication +2: sums to +6
//! ```
//!
//! Both are windows of one device, divided by the same sweep, so differences of parts sum to the difference
//! of the lengths.

use crate::api::Options;
use crate::steps::tables::{
    SlowStepHost, SlowStepHostRow, SlowStepRow, SlowStepWork, SlowStepWorkRow, SlowSteps,
};
use hta_base::units::{Ns, Span};
use hta_facts::gaps::IdleSums;
use hta_facts::host_activity::HostNames;
use hta_facts::idle_split::{DeviceIdle, Split, UseKey, use_name};
use hta_trace::category::Class;
use hta_trace::device::DeviceWork;
use hta_trace::rank_trace::{RankTrace, is_host_communication};
use hta_trace::step::Step;
use hta_trace::strings::StrId;
use hta_trace::timeline::{TimePerSet, WorkClass};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Number of names of a step that have their own row.
const NAMES: usize = 20;

/// Replaces the names of step annotations, which differ in every step.
const STEP: &str = "[step]";

/// Name of the row for all other names.
const OTHER_NAMES: &str = "[other names]";

/// Count and summed duration of work, by class and name.
type WorkByName = BTreeMap<(WorkClass, StrId), (u64, Ns)>;

/// The tables about slow steps.
#[derive(Default)]
pub(crate) struct StepDifferenceTables {
    pub(crate) steps: SlowSteps,
    pub(crate) host: SlowStepHost,
    pub(crate) work: SlowStepWork,
}

/// One step's window of one device.
struct StepWindowOfDevice<'a> {
    step: &'a Step,
    shares: TimePerSet,
    idle: IdleByCause<'a>,
    names: WorkByName,
}

/// Idle time of a step.
struct IdleByCause<'a> {
    sums: IdleSums,
    /// Host wait by what the host did, ns.
    host: BTreeMap<UseKey<'a>, Ns>,
}

/// Compares slow steps, each with the median step of its like, on every device.
pub(crate) fn differences<'t>(
    trace: &'t RankTrace,
    options: &Options,
    pairs: &[(&'t Step, &'t Step)],
) -> StepDifferenceTables {
    let mut out = StepDifferenceTables::default();
    if pairs.is_empty() {
        return out;
    }
    let wanted: BTreeSet<u32> = pairs.iter().flat_map(|(slow, usual)| [slow.index, usual.index]).collect();
    let windows: Vec<Span> =
        trace.steps.steps.iter().filter(|s| wanted.contains(&s.index)).map(|s| s.window).collect();
    let marks: BTreeSet<&str> = trace.steps.steps.iter().map(|s| trace.text(s.name)).collect();
    let hosts = HostNames::of(trace);
    for work in &trace.devices {
        let idle = DeviceIdle::new(trace, work, options.kernel_wait_max, &hosts, &windows);
        let mut names = by_step(trace, work, &wanted);
        let mut side = |step: &'t Step| StepWindowOfDevice {
            step,
            shares: work.timeline.shares_in(step.window),
            idle: waits_in(&idle, step.window, &marks),
            names: names.remove(&step.index).unwrap_or_default(),
        };
        let medians: BTreeMap<u32, &Step> = pairs.iter().map(|(_, usual)| (usual.index, *usual)).collect();
        let medians: BTreeMap<u32, StepWindowOfDevice> =
            medians.into_iter().map(|(i, s)| (i, side(s))).collect();
        for (step, usual) in pairs {
            let Some(usual) = medians.get(&usual.index) else { continue };
            Pair { trace, device: work.device, slow: side(step), usual }.push(&mut out);
        }
    }
    out
}

/// Idle time of a step. Host time under step annotations, which contain numbers, is merged.
fn waits_in<'a>(idle: &DeviceIdle<'a>, step: Span, marks: &BTreeSet<&str>) -> IdleByCause<'a> {
    let Split { sums, host: used } = idle.split(&[step]);
    let mut host = BTreeMap::new();
    for u in used {
        let (activity, (name, caller)) = idle.key(u.key);
        let name = if activity == "annotation" && marks.contains(name) { STEP } else { name };
        *host.entry((activity, (name, caller))).or_default() += u.time;
    }
    IdleByCause { sums, host }
}

/// Work of the selected steps by name.
fn by_step(trace: &RankTrace, work: &DeviceWork, wanted: &BTreeSet<u32>) -> BTreeMap<u32, WorkByName> {
    let mut out: BTreeMap<u32, WorkByName> = wanted.iter().map(|s| (*s, WorkByName::new())).collect();
    let mut add = |step: Option<u32>, class, name, ns| {
        if let Some(names) = step.and_then(|s| out.get_mut(&s)) {
            let sum = names.entry((class, name)).or_default();
            sum.0 += 1;
            sum.1 += ns;
        }
    };
    if work.is_gpu {
        for a in work.activities.iter().map(|&i| &trace.activities[i as usize]) {
            add(a.step(), a.work, a.name, a.span.len());
        }
        return out;
    }
    let c = &trace.columns;
    for (row, class) in trace.classes.iter().enumerate() {
        let class = match class {
            Class::HostOp | Class::Annotation if is_host_communication(*class, trace.name(row as u32)) => {
                WorkClass::Communication
            }
            Class::Collective => WorkClass::Communication,
            Class::HostOp | Class::Runtime => WorkClass::Compute,
            _ => continue,
        };
        // Operators are nested. Self time counts no time of a thread twice.
        let own = trace.stacks.self_ns(row as u32).unwrap_or(c.dur[row]);
        add(trace.steps.at(c.ts[row]), class, c.name(row), own);
    }
    out
}

struct Pair<'a, 'b> {
    trace: &'a RankTrace,
    device: Option<i64>,
    slow: StepWindowOfDevice<'a>,
    usual: &'b StepWindowOfDevice<'a>,
}

/// A name's activities in both steps.
struct NameDiff<'a> {
    work: WorkClass,
    name: &'a str,
    count: u64,
    usual_count: u64,
    sum: Ns,
    usual_sum: Ns,
}

impl NameDiff<'_> {
    fn diff(&self) -> Ns {
        self.sum - self.usual_sum
    }
}

/// A kind of waiting in both steps.
struct WaitDiff<'a> {
    wait: &'static str,
    used: Option<UseKey<'a>>,
    time: Ns,
    usual: Ns,
}

impl WaitDiff<'_> {
    fn diff(&self) -> Ns {
        self.time - self.usual
    }
}

impl<'a> Pair<'a, '_> {
    fn push(&self, out: &mut StepDifferenceTables) {
        let (names, waits) = (self.names(), self.waits());
        self.push_step(out, &names, &waits);
        self.push_waits(out, &waits);
        self.push_names(out, &names);
    }

    /// Names of both steps, the largest difference first.
    fn names(&self) -> Vec<NameDiff<'a>> {
        let (slow, usual) = (&self.slow.names, &self.usual.names);
        let keys: BTreeSet<(WorkClass, StrId)> = slow.keys().chain(usual.keys()).copied().collect();
        let of = |names: &WorkByName, key| names.get(key).copied().unwrap_or_default();
        let mut all: Vec<NameDiff> = keys
            .iter()
            .map(|key| {
                let ((count, sum), (usual_count, usual_sum)) = (of(slow, key), of(usual, key));
                NameDiff { work: key.0, name: self.trace.text(key.1), count, usual_count, sum, usual_sum }
            })
            .collect();
        // Sort by the text of names, because ids depend on the order of the file.
        all.sort_by_key(|n| (Reverse(n.diff().abs()), n.work, n.name));
        all
    }

    /// What the device waited for in either step, the largest growth first.
    fn waits(&self) -> Vec<WaitDiff<'a>> {
        let (slow, usual) = (&self.slow.idle, &self.usual.idle);
        let keys: BTreeSet<_> = slow.host.keys().chain(usual.host.keys()).copied().collect();
        let time = |waits: &IdleByCause, key| waits.host.get(key).copied().unwrap_or(0);
        let mut all: Vec<WaitDiff> = keys
            .iter()
            .map(|key| WaitDiff {
                wait: "host_wait",
                used: Some(*key),
                time: time(slow, key),
                usual: time(usual, key),
            })
            .collect();
        let rest = |s: &IdleSums| [s.kernel, s.other - s.unlinked, s.unlinked];
        let both = rest(&slow.sums).into_iter().zip(rest(&usual.sums));
        for (wait, (time, usual)) in ["kernel_wait", "other", "unlinked"].into_iter().zip(both) {
            if time != 0 || usual != 0 {
                all.push(WaitDiff { wait, used: None, time, usual });
            }
        }
        all.sort_by_key(|w| (Reverse(w.diff()), w.wait, w.used));
        all
    }

    fn push_step(&self, out: &mut StepDifferenceTables, names: &[NameDiff], waits: &[WaitDiff]) {
        let (step, median) = (self.slow.step, self.usual.step);
        let diff = |of: fn(&TimePerSet) -> Ns| of(&self.slow.shares) - of(&self.usual.shares);
        let wait = |of: fn(&IdleSums) -> Ns| of(&self.slow.idle.sums) - of(&self.usual.idle.sums);
        let longer = step.window.len() - median.window.len();
        let classes = [
            ("compute", Some(WorkClass::Compute), diff(TimePerSet::compute)),
            (
                "exposed_communication",
                Some(WorkClass::Communication),
                diff(TimePerSet::exposed_communication),
            ),
            ("copies", Some(WorkClass::Memory), diff(TimePerSet::copies)),
            ("idle", None, longer - diff(TimePerSet::busy)),
            ("fused", Some(WorkClass::Fused), diff(TimePerSet::fused)),
        ];
        // Of equal classes, the first is chosen. The list is never empty.
        let largest = classes.iter().rev().max_by_key(|c| c.2).unwrap_or(&classes[0]);
        let host = waits.iter().find(|w| w.used.is_some() && w.diff() > 0);
        let host_name =
            host.and_then(|w| w.used).map(|u| use_name(u.1).into_owned()).filter(|n| !n.is_empty());
        let kernel = largest.1.and_then(|work| {
            let grown = names.iter().filter(|n| n.work == work && n.diff() > 0);
            // Names are sorted by difference, so the first one differs most.
            grown.into_iter().next()
        });
        let count = |s: &StepWindowOfDevice| s.names.values().map(|(n, _)| *n as i64).sum::<i64>();
        out.steps.push(SlowStepRow {
            rank: self.trace.rank,
            device: self.device,
            scope: "step",
            step: step.index,
            step_label: step.label,
            is_partial: step.is_partial,
            ts_ns: step.window.start,
            dur_ns: step.window.len(),
            median_step: median.index,
            median_step_label: median.label,
            median_dur_ns: median.window.len(),
            diff_ns: longer,
            compute_diff_ns: classes[0].2,
            exposed_communication_diff_ns: classes[1].2,
            copies_diff_ns: classes[2].2,
            idle_diff_ns: classes[3].2,
            host_wait_diff_ns: wait(|s| s.host),
            kernel_wait_diff_ns: wait(|s| s.kernel),
            other_diff_ns: wait(|s| s.other),
            activity_count_diff: count(&self.slow) - count(self.usual),
            largest: largest.0,
            host_activity: host.and_then(|w| w.used).map(|u| u.0),
            host_name: host_name.as_deref(),
            host_diff_ns: host.map(WaitDiff::diff),
            work_name: kernel.map(|n| n.name),
            work_diff_ns: kernel.map(NameDiff::diff),
            work_count_diff: kernel.map(|n| n.count as i64 - n.usual_count as i64),
            joined_by: None,
            is_worst: false,
            rank_count: None,
            slow_rank_count: None,
            fused_diff_ns: classes[4].2,
        });
    }

    fn push_waits(&self, out: &mut StepDifferenceTables, waits: &[WaitDiff]) {
        let step = self.slow.step;
        for w in waits {
            let name = w.used.map(|u| use_name(u.1)).filter(|n| !n.is_empty());
            out.host.push(SlowStepHostRow {
                rank: self.trace.rank,
                device: self.device,
                scope: "step",
                step: step.index,
                step_label: step.label,
                ts_ns: step.window.start,
                dur_ns: step.window.len(),
                wait: w.wait,
                activity: w.used.map(|u| u.0),
                name: name.as_deref(),
                time_ns: w.time,
                median_time_ns: w.usual,
                diff_ns: w.diff(),
            });
        }
    }

    fn push_names(&self, out: &mut StepDifferenceTables, names: &[NameDiff]) {
        let step = self.slow.step;
        let (own, rest) = names.split_at(names.len().min(NAMES));
        let mut push = |class, name, sums: [u64; 2], times: [Ns; 2]| {
            out.work.push(SlowStepWorkRow {
                rank: self.trace.rank,
                device: self.device,
                scope: "step",
                step: step.index,
                step_label: step.label,
                ts_ns: step.window.start,
                dur_ns: step.window.len(),
                class,
                name,
                count: sums[0],
                median_count: sums[1],
                sum_ns: times[0],
                median_sum_ns: times[1],
                diff_ns: times[0] - times[1],
            });
        };
        for n in own {
            push(Some(n.work.name()), n.name, [n.count, n.usual_count], [n.sum, n.usual_sum]);
        }
        if !rest.is_empty() {
            let counts = [rest.iter().map(|n| n.count).sum(), rest.iter().map(|n| n.usual_count).sum()];
            let times = [rest.iter().map(|n| n.sum).sum(), rest.iter().map(|n| n.usual_sum).sum()];
            push(None, OTHER_NAMES, counts, times);
        }
    }
}
