//! GPU activities: kernels, copies and sets, with the call that launched them, the operator that owns the
//! launch, and their class.
//!
//! Links come from the correlation id (L1 to L4 of trace-format). One call may own many activities (graph
//! launches). External ids are not needed, because they give the same links when they are usable.

use crate::args::Arg;
use crate::category::Class;
use crate::collective::KernelRole;
use crate::events::Columns;
use crate::rules::{ClassRules, copy_kind};
use crate::strings::StrId;
use crate::timeline::WorkClass;
use hashbrown::{HashMap, HashSet};
use hta_base::health::{Counter, Health};
use hta_base::units::{Ns, Span};
use std::collections::BTreeMap;

/// One GPU activity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Activity {
    /// Row of the event.
    pub row: u32,
    pub span: Span,
    pub name: StrId,
    pub class: Class,
    pub work: WorkClass,
    /// Index of the kernel rule that determined `work`.
    pub rule: u16,
    /// Part in an exchange between ranks that the rule names.
    pub role: Option<KernelRole>,
    // The fields below use sentinels instead of `Option` to save memory: all activities of a rank stay in
    // memory while it is analysed.
    device: i64,
    stream: i64,
    launch: u32,
    op: u32,
    step: u32,
}

/// Sentinel for a device or a stream that is not recorded.
const NO_PLACE: i64 = i64::MIN;

/// Sentinel for a missing row or index.
const NO_ROW: u32 = u32::MAX;

impl Activity {
    /// An activity without links, device and stream.
    pub fn new(row: u32, span: Span, name: StrId, class: Class) -> Self {
        Self {
            row,
            span,
            name,
            class,
            work: WorkClass::Compute,
            rule: 0,
            role: None,
            device: NO_PLACE,
            stream: NO_PLACE,
            launch: NO_ROW,
            op: NO_ROW,
            step: NO_ROW,
        }
    }

    /// Device; `None` if the back end records none (MTIA).
    #[inline]
    pub fn device(&self) -> Option<i64> {
        Some(self.device).filter(|d| *d != NO_PLACE)
    }

    /// Stream; `None` if the back end records none (XPU).
    #[inline]
    pub fn stream(&self) -> Option<i64> {
        Some(self.stream).filter(|s| *s != NO_PLACE)
    }

    /// Row of the launch call; `None` if it was not recorded.
    #[inline]
    pub fn launch(&self) -> Option<u32> {
        Some(self.launch).filter(|row| *row != NO_ROW)
    }

    /// Row of the innermost operator around the launch.
    #[inline]
    pub fn op(&self) -> Option<u32> {
        Some(self.op).filter(|row| *row != NO_ROW)
    }

    /// Index of the step that contains the launch, or, without a launch, the activity's own start.
    #[inline]
    pub fn step(&self) -> Option<u32> {
        Some(self.step).filter(|step| *step != NO_ROW)
    }

    #[cfg(test)]
    pub(super) fn on(self, device: i64, stream: i64) -> Self {
        Self { device, stream, ..self }
    }

    pub(super) fn set_launch(&mut self, row: Option<u32>) {
        self.launch = row.unwrap_or(NO_ROW);
    }

    pub(super) fn set_step(&mut self, step: Option<u32>) {
        self.step = step.unwrap_or(NO_ROW);
    }
}

/// Extracts, repairs and links the activities, in order of (start, row).
pub(crate) fn linked(c: &Columns, classes: &[Class], base: Ns, health: &mut Health) -> Vec<Activity> {
    let mut all = extract(c, classes, base, health);
    all.sort_by_key(|a| (a.span.start, a.row));
    drop_duplicates(&mut all, c, health);
    link(&mut all, c, classes, health);
    all
}

/// Sets the operator and the work class of each activity.
pub(crate) fn classified(
    all: &mut [Activity],
    c: &Columns,
    classes: &[Class],
    hosts: &[(u32, Vec<u32>)],
    rules: &ClassRules,
    health: &mut Health,
) {
    own(all, c, classes, hosts);
    let exchanges = exchanges(all, c, classes, hosts);
    classify(all, c, rules, &exchanges);
    count_oddities(all, c, health);
}

fn extract(c: &Columns, classes: &[Class], base: Ns, health: &mut Health) -> Vec<Activity> {
    let (mut device, mut stream) = (c.args.cursor(Arg::Device), c.args.cursor(Arg::Stream));
    let mut out = Vec::with_capacity(classes.iter().filter(|k| k.is_gpu()).count());
    for (row, class) in classes.iter().enumerate().filter(|(_, k)| k.is_gpu()) {
        let id = row as u32;
        if c.ts[row] == base && c.dur[row] == 0 {
            health.note(Counter::ZeroStart, c.strings.get(c.name(row)));
            continue;
        }
        out.push(Activity {
            device: device.get(id).map_or(NO_PLACE, |v| v as i64),
            stream: stream.get(id).map_or(NO_PLACE, |v| v as i64),
            ..Activity::new(id, c.span(row), c.name(row), *class)
        });
    }
    out
}

/// Drops duplicates: activities that agree in start, length, correlation, device, stream, name and graph
/// node.
fn drop_duplicates(all: &mut Vec<Activity>, c: &Columns, health: &mut Health) {
    let mut seen = HashSet::new();
    let mut start = Ns::MIN;
    let mut dropped = 0;
    let same_start: Vec<bool> = (0..all.len())
        .map(|i| {
            let near = |j: Option<usize>| {
                j.and_then(|j| all.get(j)).is_some_and(|b| b.span.start == all[i].span.start)
            };
            near(i.checked_sub(1)) || near(Some(i + 1))
        })
        .collect();
    let mut i = 0;
    all.retain(|a| {
        i += 1;
        if !same_start[i - 1] {
            return true;
        }
        if a.span.start != start {
            start = a.span.start;
            seen.clear();
        }
        let node = c.args.uint(Arg::GraphNodeId, a.row);
        let new =
            seen.insert((a.span.end, c.args.uint(Arg::Correlation, a.row), a.device, a.stream, a.name, node));
        dropped += u64::from(!new);
        new
    });
    health.add(Counter::GpuDuplicate, dropped, None, "");
}

/// Rule L1: links each activity with the call that has its correlation id.
fn link(all: &mut [Activity], c: &Columns, classes: &[Class], health: &mut Health) {
    let mut correlation = c.args.cursor(Arg::Correlation);
    let mut calls: Vec<(u64, u32)> = Vec::new();
    for (row, _) in classes.iter().enumerate().filter(|(_, k)| **k == Class::Runtime) {
        if let Some(id) = correlation.get(row as u32) {
            calls.push((id, row as u32));
        }
    }
    calls.sort();
    let pid = |row: u32| c.lanes.get(c.lane[row as usize] as usize).map(|l| l.pid);
    // Ids that several calls share, each with the call that is chosen and the counter for it. Each id is
    // judged once, because all calls and activities of a file may have the same id.
    let mut several: BTreeMap<u64, (Option<u32>, Counter)> = BTreeMap::new();
    let judge = |same: &[(u64, u32)]| {
        let process = same.first().and_then(|k| pid(k.1));
        if same.iter().all(|k| pid(k.1) == process) {
            (same.iter().max_by_key(|k| (c.ts[k.1 as usize], k.1)).map(|k| k.1), Counter::ManyLaunches)
        } else {
            (None, Counter::AmbiguousCorrelation)
        }
    };
    for a in all.iter_mut() {
        let Some(id) = c.args.uint(Arg::Correlation, a.row) else { continue };
        let from = calls.partition_point(|k| k.0 < id);
        let call = calls.get(from).filter(|k| k.0 == id);
        let is_one = calls.get(from + 1).is_none_or(|k| k.0 != id);
        a.set_launch(match call {
            Some(one) if is_one => Some(one.1),
            Some(_) => {
                let same = || &calls[from..calls.partition_point(|k| k.0 <= id)];
                several.entry(id).or_insert_with(|| judge(same())).0
            }
            None => None,
        });
    }
    for (id, (_, counter)) in several {
        health.add(counter, 1, None, &format!("correlation {id}"));
    }
}

/// Rule L2: sets the innermost operator that is open on the calling thread when the call starts; see
/// [`owners`].
fn own(all: &mut [Activity], c: &Columns, classes: &[Class], hosts: &[(u32, Vec<u32>)]) {
    let mut queries: BTreeMap<u32, Vec<(Span, u32)>> = BTreeMap::new();
    for (i, a) in all.iter().enumerate() {
        if let Some(call) = a.launch() {
            queries.entry(c.lane[call as usize]).or_default().push((c.span(call as usize), i as u32));
        }
    }
    for (lane, rows) in hosts {
        let Some(mut asked) = queries.remove(lane) else { continue };
        let ops = rows.iter().copied().filter(|&r| classes[r as usize] == Class::HostOp);
        asked.sort_by_key(|(call, i)| (call.start, *i));
        owners(ops, c, &asked, |i, op| all[i as usize].op = op.unwrap_or(NO_ROW));
    }
}

/// Whether an event of the host is an exchange between ranks: an operator, or the range of a back end.
fn is_exchange(name: &str) -> bool {
    name == "record_param_comms" || ["c10d::", "symm_mem::", "nccl:"].iter().any(|p| name.starts_with(p))
}

/// The innermost exchange around the launch of each copy between devices: the copy may be launched by an
/// operator inside it, such as `aten::copy_`.
fn exchanges(
    all: &[Activity],
    c: &Columns,
    classes: &[Class],
    hosts: &[(u32, Vec<u32>)],
) -> HashMap<u32, StrId> {
    let mut out = HashMap::new();
    let mut queries: BTreeMap<u32, Vec<(Span, u32)>> = BTreeMap::new();
    let mut known: HashMap<StrId, bool> = HashMap::new();
    let mut is_peer = |name: StrId| {
        *known.entry(name).or_insert_with(|| copy_kind(Class::Memcpy, c.strings.get(name)) == "PtoP")
    };
    for (i, a) in all.iter().enumerate().filter(|(_, a)| a.class == Class::Memcpy && is_peer(a.name)) {
        if let Some(call) = a.launch() {
            queries.entry(c.lane[call as usize]).or_default().push((c.span(call as usize), i as u32));
        }
    }
    if queries.is_empty() {
        return out;
    }
    let of_exchange = c.strings.each(is_exchange);
    let is_range = |row: &u32| {
        matches!(classes[*row as usize], Class::HostOp | Class::Annotation)
            && of_exchange.holds(c.name(*row as usize))
    };
    for (lane, rows) in hosts {
        let Some(mut asked) = queries.remove(lane) else { continue };
        asked.sort_by_key(|(call, i)| (call.start, *i));
        owners(rows.iter().copied().filter(is_range), c, &asked, |i, op| {
            out.extend(op.map(|op| (i, c.name(op as usize))));
        });
    }
    out
}

/// The operator that owns each call `(span, tag)`; calls are in order of start, operators outer first.
///
/// ```text
///   A   [.................................)
///   B       [.......)     [......)
///   call     x  y   z         w.....            x, y: B   z: A, B has ended   w: A, B does not contain all of it
/// ```
///
/// The owner has started and has not ended when the call starts. If there are several such operators, the
/// owner is the innermost one that contains the whole call, or else the innermost one. A call of length 0 may
/// also start exactly at the end of its operator.
fn owners(
    ops: impl Iterator<Item = u32>,
    c: &Columns,
    calls: &[(Span, u32)],
    mut found: impl FnMut(u32, Option<u32>),
) {
    // Ends decrease from the outermost to the innermost operator: one that ends no later than an operator
    // that started after it is removed, because the later operator owns all further calls.
    let mut open: Vec<(Ns, u32)> = Vec::new();
    let mut ops = ops.peekable();
    for &(call, tag) in calls {
        while let Some(op) = ops.next_if(|&op| c.ts[op as usize] <= call.start) {
            let end = c.span(op as usize).end;
            while open.last().is_some_and(|o| o.0 <= end) {
                open.pop();
            }
            open.push((end, op));
        }
        let until = |end: Ns| open.get(open.partition_point(|o| o.0 >= end).checked_sub(1)?).map(|o| o.1);
        let after_start = call.start.saturating_add(1);
        let owner =
            if call.is_empty() { until(call.start) } else { until(call.end).or_else(|| until(after_start)) };
        found(tag, owner);
    }
}

fn classify(all: &mut [Activity], c: &Columns, rules: &ClassRules, exchanges: &HashMap<u32, StrId>) {
    let mut matcher = rules.matcher(&c.strings);
    let collective = c.args.column(Arg::CollectiveName);
    for (i, a) in (0..).zip(all.iter_mut()) {
        let has_arg = collective.get(a.row).is_some();
        let op = exchanges.get(&i).copied().or_else(|| a.op().map(|o| c.name(o as usize)));
        a.rule = matcher.find(a.class, a.name, has_arg, op);
        (a.work, a.role) = (rules.work(a.rule), rules.role(a.rule));
    }
}

/// Counts anomalies of activities that are kept unchanged.
fn count_oddities(all: &[Activity], c: &Columns, health: &mut Health) {
    let (mut unlinked, mut no_args) = (0, 0);
    let mut external = (0, 0);
    for a in all {
        unlinked += u64::from(a.launch().is_none());
        no_args += u64::from(
            a.work == WorkClass::Communication
                && a.class != Class::Memcpy
                && c.args.column(Arg::CollectiveName).get(a.row).is_none(),
        );
        if let Some(id) = c.args.uint(Arg::ExternalId, a.row) {
            external.0 += u64::from(id == 0);
            external.1 += u64::from(id != 0 && Some(id) == c.args.uint(Arg::Correlation, a.row));
        }
    }
    health.add(Counter::GpuUnlinked, unlinked, None, "");
    health.add(Counter::CommArgsMissing, no_args, None, "");
    health.add(Counter::ExternalZero, external.0, None, "");
    health.add(Counter::ExternalIsCorrelation, external.1, None, "");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::ColumnsBuilder;
    use crate::thread::sort_outer_first;
    use proptest::prelude::*;

    /// The owner of each call. Operators and calls are given as (start, length).
    fn owned(ops: &[(Ns, Ns)], calls: &[(Ns, Ns)]) -> Vec<Option<u32>> {
        let mut c = ColumnsBuilder::default();
        for (ts, dur) in ops {
            c.ts.push(*ts);
            c.dur.push(*dur);
        }
        let c = c.finish();
        let mut rows: Vec<u32> = (0..ops.len() as u32).collect();
        sort_outer_first(&mut rows, &c);
        let mut asked: Vec<(Span, u32)> =
            (0..).zip(calls).map(|(i, (t, d))| (Span::new(*t, t + d), i)).collect();
        asked.sort_by_key(|(call, i)| (call.start, *i));
        let mut out = vec![None; calls.len()];
        owners(rows.into_iter(), &c, &asked, |i, op| out[i as usize] = op);
        out
    }

    #[test]
    fn an_operator_that_ends_when_a_call_starts_does_not_own_it() {
        // A is [0,100), B is [10,20).
        let ops = [(0, 100), (10, 10)];
        assert_eq!(owned(&ops, &[(19, 1), (20, 5), (20, 0), (21, 0)]), [Some(1), Some(0), Some(1), Some(0)]);
        assert_eq!(owned(&ops[1..], &[(20, 5), (20, 0)]), [None, Some(0)]);
    }

    #[test]
    fn of_several_operators_the_one_that_holds_the_whole_call_owns_it() {
        // A is [0,100), B is [10,20); the call ends after B.
        assert_eq!(owned(&[(0, 100), (10, 10)], &[(15, 10)]), [Some(0)]);
        // No operator contains the whole call, so the innermost one owns it.
        assert_eq!(owned(&[(0, 100), (10, 10)], &[(15, 90)]), [Some(1)]);
    }

    proptest! {
        #[test]
        fn owners_match_a_look_at_every_operator(
            ops in prop::collection::vec((0i64..30, 0i64..12), 0..10),
            calls in prop::collection::vec((0i64..30, 0i64..6), 0..10),
        ) {
            let mut order: Vec<usize> = (0..ops.len()).collect();
            order.sort_by_key(|&i| (ops[i].0, std::cmp::Reverse(ops[i].1), i));
            for ((t, d), owner) in calls.iter().zip(owned(&ops, &calls)) {
                let end = |i: usize| ops[i].0 + ops[i].1;
                let open = |i: &&usize| ops[**i].0 <= *t && (end(**i) > *t || (*d == 0 && end(**i) == *t));
                let holds = |i: &&usize| open(i) && end(**i) >= t + d;
                let want = order.iter().rfind(holds).or(order.iter().rfind(open));
                prop_assert_eq!(owner, want.map(|i| *i as u32), "call at {} of {}", t, d);
            }
        }
    }
}
