//! The table of operators: host and GPU time of the operators of one name (shape, module, step).
//!
//! Self times add up over all rows. Total times would count recursion twice, so an operator that runs inside another
//! one of its own group adds nothing to the group's totals.

use crate::analysis::api::Options;
use crate::analysis::stacks::calls::CallForest;
use crate::table;
use crate::table::schema::{Batch, Text};
use crate::trace::args::Arg;
use crate::trace::interval::Union;
use crate::trace::rank_trace::RankTrace;
use crate::trace::step::StepRule;
use crate::trace::strings::StrId;
use crate::trace::window::{Scope, windows};
use crate::units::{Ns, Span, percent};
use hashbrown::HashMap;
use std::collections::BTreeMap;

table! {
    /// Operators by name. Own times add up over the rows of a scope; total times include nested operators and calls.
    pub struct Operators, OperatorRow = "operators" by "rank, scope, step, gpu_self_ns descending, host_self_ns descending, name, input_dims, module" {
        rank;
        scope: Text, "", "capture: all; step: those that start in it (with --by step); outside: the rest";
        step; step_label; ts_ns; dur_ns;
        name: Text, "", "operator; `[no operator]`: API calls outside any; `[unlinked]`: GPU work of unknown launch";
        input_dims: Option<Text>, "", "shape of each input (with --by shape, where recorded)";
        module: Option<Text>, "", "path of nn.Modules around it, backward: around its forward operator (with --by module)";
        count: u64, "", "calls";
        host_ns: i64, "ns", "time on the host, with everything nested in it";
        host_self_ns: i64, "ns", "the same without nested operators and API calls";
        host_api_ns: i64, "ns", "time in its own API calls";
        gpu_ns: i64, "ns", "sum of the GPU work launched by it and everything nested in it";
        gpu_self_ns: i64, "ns", "sum of the GPU work of its own API calls";
        gpu_busy_ns: i64, "ns", "length of the union of what gpu_ns sums";
        gpu_self_busy_ns: i64, "ns", "length of the union of what gpu_self_ns sums";
        activity_count: u64, "", "kernels, copies and sets that gpu_ns sums";
        bwd_gpu_ns: Option<i64>, "ns", "GPU work of its backward operators; null where none are joined";
        host_self_pct: Option<f64>, "%", "host_self_ns, of its sum over the scope";
        gpu_self_pct: Option<f64>, "%", "gpu_self_ns, of its sum over the scope";
    }
}

/// Name for API calls outside any operator.
pub const NO_OPERATOR: &str = "[no operator]";
/// Name for GPU work without a launch record.
pub const UNLINKED: &str = "[unlinked]";

/// Additional keys that divide operators of one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keys {
    pub shape: bool,
    pub step: bool,
}

/// The owner of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum RowOwner {
    Op { name: StrId, dims: Option<StrId>, module: Option<u32> },
    NoOperator { module: Option<u32> },
    Unlinked,
}

/// Scope and index of the step.
type ScopeAndStep = (Scope, Option<u32>);

/// One row while it is collected.
#[derive(Debug, Clone, Default)]
struct OperatorGroup {
    count: u64,
    host: Ns,
    host_self: Ns,
    host_api: Ns,
    gpu: Ns,
    gpu_self: Ns,
    activities: u64,
    backward: Ns,
    /// Instances that are not inside another one of the group and launched something.
    outer: Vec<u32>,
    /// Own activities.
    own: Vec<u32>,
    /// End of the subtree of the last outer instance.
    until: u32,
}

/// The table. `module_of`: module by position; `paths`: paths of the modules.
pub fn table(
    calls: &CallForest,
    keys: Keys,
    module_of: Option<&[Option<u32>]>,
    paths: &[String],
    options: &Options,
) -> Batch {
    let trace = calls.trace;
    let mut groups = Groups { calls, module_of, shape: keys.shape, index: HashMap::new(), groups: Vec::new() };
    groups.fill(|_| (Scope::Capture, None), |_| (Scope::Capture, None));
    if keys.step || options.model.steps.is_some() {
        let when = |step: Option<u32>| match step {
            Some(s) => (Scope::Step, Some(s)),
            None => (Scope::Outside, None),
        };
        // Without marked steps the capture is the only step.
        let at = |ts| if trace.steps.rule == StepRule::Capture { Some(0) } else { trace.steps.at(ts) };
        groups.fill(|p| when(at(calls.start(p))), |i| when(trace.activities[i as usize].step()));
    }
    groups.write(paths, options)
}

struct Groups<'a> {
    calls: &'a CallForest<'a>,
    module_of: Option<&'a [Option<u32>]>,
    shape: bool,
    index: HashMap<(ScopeAndStep, RowOwner), u32>,
    groups: Vec<(ScopeAndStep, RowOwner, OperatorGroup)>,
}

impl Groups<'_> {
    fn group(&mut self, when: ScopeAndStep, who: RowOwner) -> &mut OperatorGroup {
        let new = self.groups.len() as u32;
        let i = *self.index.entry((when, who)).or_insert(new);
        if i == new {
            self.groups.push((when, who, OperatorGroup::default()));
        }
        &mut self.groups[i as usize].2
    }

    fn fill(&mut self, of_event: impl Fn(u32) -> ScopeAndStep, of_activity: impl Fn(u32) -> ScopeAndStep) {
        let calls = self.calls;
        let c = &calls.trace.columns;
        let dims = c.args.column(Arg::InputDims);
        let mut own = calls.own.iter().peekable();
        for p in 0..calls.forest.len() as u32 {
            let at = p as usize;
            let is_top_level_call = calls.op(p).is_none();
            if !calls.is_op(p) && !is_top_level_call {
                continue;
            }
            let row = calls.row(p);
            let module = self.module_of.and_then(|m| m[at]);
            let who = match is_top_level_call {
                true => RowOwner::NoOperator { module },
                false => RowOwner::Op {
                    name: c.name(row as usize),
                    dims: if self.shape { dims.get(row).map(|v| StrId(v as u32)) } else { None },
                    module,
                },
            };
            let group = self.group(of_event(p), who);
            group.count += 1;
            group.host_self += calls.host_self_ns(p);
            group.host_api += calls.host_api_ns[at];
            while let Some((_, i)) = own.next_if(|o| o.0 == p) {
                group.own.push(*i);
                group.gpu_self += calls.trace.activities[*i as usize].span.len();
            }
            if p < group.until {
                continue;
            }
            group.until = calls.forest.end[at];
            group.host += calls.host_ns[at];
            let below = calls.below.at(p);
            group.gpu += below.sum_ns;
            group.activities += u64::from(below.count);
            group.backward += calls.bwd_gpu_ns(p);
            if below.count > 0 {
                group.outer.push(p);
            }
        }
        for &i in &calls.trace.launches().unlinked {
            let ns = calls.trace.activities[i as usize].span.len();
            let group = self.group(of_activity(i), RowOwner::Unlinked);
            group.gpu_self += ns;
            group.gpu += ns;
            group.activities += 1;
            group.own.push(i);
        }
    }

    fn write(self, paths: &[String], options: &Options) -> Batch {
        let Groups { calls, mut groups, .. } = self;
        let trace = calls.trace;
        let spans = spans(trace);
        let mut sums: BTreeMap<ScopeAndStep, (Ns, Ns)> = BTreeMap::new();
        for (when, _, g) in &groups {
            let sum = sums.entry(*when).or_default();
            *sum = (sum.0 + g.host_self, sum.1 + g.gpu_self);
        }
        let text = |who: &RowOwner| -> (&str, Option<&str>, Option<&str>) {
            let path = |m: &Option<u32>| m.and_then(|m| paths.get(m as usize)).map(String::as_str);
            match who {
                RowOwner::Op { name, dims, module } => (trace.text(*name), dims.map(|d| trace.text(d)), path(module)),
                RowOwner::NoOperator { module } => (NO_OPERATOR, None, path(module)),
                RowOwner::Unlinked => (UNLINKED, None, None),
            }
        };
        groups.sort_by(|(when_a, a, x), (when_b, b, y)| {
            (when_a, y.gpu_self, y.host_self)
                .cmp(&(when_b, x.gpu_self, x.host_self))
                .then_with(|| text(a).cmp(&text(b)))
        });
        let mut table = Operators::default();
        for (when, who, g) in &groups {
            let step = when.1.and_then(|s| trace.steps.steps.get(s as usize));
            if step.is_some_and(|s| options.model.steps.as_ref().is_some_and(|f| !f.keeps(s.index, s.label))) {
                continue;
            }
            let (name, input_dims, module) = text(who);
            let (ts_ns, dur_ns) = spans.get(when).copied().unwrap_or((trace.capture.start, 0));
            let (all_host, all_gpu) = sums.get(when).copied().unwrap_or_default();
            let own_busy = busy(calls, g.own.iter().copied());
            table.push(OperatorRow {
                rank: trace.rank,
                scope: when.0.name(),
                step: when.1,
                step_label: step.and_then(|s| s.label),
                ts_ns,
                dur_ns,
                name,
                input_dims,
                module,
                count: g.count,
                host_ns: g.host,
                host_self_ns: g.host_self,
                host_api_ns: g.host_api,
                gpu_ns: g.gpu,
                gpu_self_ns: g.gpu_self,
                gpu_busy_ns: if *who == RowOwner::Unlinked { own_busy } else { busy_of(calls, &g.outer) },
                gpu_self_busy_ns: own_busy,
                activity_count: g.activities,
                bwd_gpu_ns: (!calls.backward.pairs.is_empty()).then_some(g.backward),
                host_self_pct: percent(g.host_self, all_host),
                gpu_self_pct: percent(g.gpu_self, all_gpu),
            });
        }
        table.finish()
    }
}

/// Start and length of each window.
fn spans(trace: &RankTrace) -> BTreeMap<ScopeAndStep, (Ns, Ns)> {
    let all = windows(None, trace.capture, &trace.steps.steps, |_| true);
    all.iter().map(|w| ((w.scope, w.step), (w.start(), w.len()))).collect()
}

/// Length of the union of activities, ns.
fn busy(calls: &CallForest, activities: impl Iterator<Item = u32>) -> Ns {
    let all = &calls.trace.activities;
    let mut alone = 0;
    let mut crowded: Vec<Span> = Vec::new();
    for i in activities {
        let span = all[i as usize].span;
        match calls.alone[i as usize] {
            true => alone += span.len(),
            false => crowded.push(span),
        }
    }
    alone + Union::new(crowded).len()
}

/// Length of the union of everything launched below instances, none of which contains another. The union of each
/// instance is known; only those whose work overlaps in time are united again.
fn busy_of(calls: &CallForest, instances: &[u32]) -> Ns {
    let extent = |p: u32| calls.below.at(p).extent;
    let mut sorted: Vec<u32> = instances.to_vec();
    sorted.sort_unstable_by_key(|&p| (extent(p).start, extent(p).end));
    let mut total = 0;
    let mut from = 0;
    while from < sorted.len() {
        let mut end = extent(sorted[from]).end;
        let mut until = from + 1;
        while until < sorted.len() && extent(sorted[until]).start < end {
            end = end.max(extent(sorted[until]).end);
            until += 1;
        }
        total += match &sorted[from..until] {
            [one] => calls.below.at(*one).busy_ns,
            several => {
                let of = |p: &u32| calls.below.within(*p, calls.forest.end[*p as usize]);
                busy(calls, several.iter().flat_map(of).map(|l| l.1))
            }
        };
        from = until;
    }
    total
}
