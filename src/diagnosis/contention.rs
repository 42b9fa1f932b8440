//! Kernels that are longer only beside copies or collectives: they share the memory and its links, or the
//! multiprocessors. Evidence of causes that say that kernels or steps are long, and a cause itself where
//! there is none.
//!
//! ```text
//!   kernels   [a ][a ][a    ][a    ][a ]     a takes 1.8 times as long beside a copy, and 1.0 elsewhere
//!   copies            [===========]
//! ```

use crate::CauseKind;
use crate::account::JobStep;
use crate::cause::Cause;
use crate::compute::{ComputeKernel, times_in};
use crate::context::Context;
use crate::evidence::{Evidence, of_ranks, of_text};
use crate::gain::{self, OwnedTime};
use crate::kernel_facts::SMALL;
use crate::lost_words::shown;
use hashbrown::HashMap;
use hta_analysis::api::{Partial, rows};
use hta_analysis::efficiency::account::PartDevice;
use hta_base::order_statistics::median;
use hta_base::table;
use hta_base::table::schema::Text;
use hta_base::units::{Ns, Span, fmt_ns};
use hta_base::wording::counts::capital;
use hta_job::delay::StepKey;
use hta_trace::args::Arg;
use hta_trace::device::DeviceWork;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;
use hta_trace::timeline::WorkClass;
use hta_trace::window::Window;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

table! {
    /// Kernels that are longer only beside other work of the device, by name and window.
    pub(crate) struct KernelsBeside, KernelBesideRow = "kernels_beside"
        by "rank, device, scope, step, beside, name, shape_known" {
        rank; device; scope; step; step_label;
        beside: Text, "", "copies or collectives";
        name: Text, "", "the kernel";
        shape_known: bool, "", "whether the shapes of the inputs of its operator are";
        count: u64, "", "launches of which at least half runs beside it";
        slow_count: u64, "", "of these, 1.5 times as long as the others and more";
        usual_ns: i64, "ns", "what they would take";
        excess_ns: i64, "ns", "what they take beyond it";
    }
}

/// How many times as long kernels are beside other work, in tenths,
const SLOW_TENTHS: Ns = 15;
/// and in how many of these launches, percent;
const SLOW_PCT: usize = 80;
/// how far the others may be from their median, in tenths,
const USUAL_TENTHS: Ns = 12;
/// in how many of them, percent,
const USUAL_PCT: usize = 80;
/// and how many launches of each kind show it.
const FEWEST: usize = 3;
/// What they take longer is at least this part of what a cause saves.
const LARGE_PART: Ns = 3;

/// LaunchesBeside of one name and shape.
#[derive(Default)]
struct LaunchesBeside {
    /// Lengths of those that run alone.
    alone: Vec<Ns>,
    /// Places of those beside other work.
    beside: Vec<usize>,
}

impl LaunchesBeside {
    /// The median of those that run alone, if only those beside other work are slow.
    fn usual(&mut self, kernels: &[ComputeKernel]) -> Option<Ns> {
        let usual = median(&mut self.alone)?;
        let alike = self.alone.iter().filter(|len| **len * 10 <= usual * USUAL_TENTHS).count();
        let slow = self.beside.iter().filter(|k| is_slow(kernels[**k].len, usual)).count();
        (self.alone.len() >= FEWEST
            && self.beside.len() >= FEWEST
            && alike * 100 >= self.alone.len() * USUAL_PCT
            && slow * 100 >= self.beside.len() * SLOW_PCT)
            .then_some(usual)
    }
}

fn is_slow(len: Ns, usual: Ns) -> bool {
    len * 10 >= usual * SLOW_TENTHS
}

/// Adds the rows of a device.
pub(crate) fn push(
    table: &mut KernelsBeside,
    trace: &RankTrace,
    work: &DeviceWork,
    kernels: &[ComputeKernel],
    windows: &[Window],
) {
    let [copies, collectives] =
        [WorkClass::Memory, WorkClass::Communication].map(|class| work.timeline.when(class));
    if copies.is_empty() && collectives.is_empty() {
        return;
    }
    let covered = |span: Span| [copies.len_in(span), collectives.len_in(span)];
    // The operator and what it reads tell products of one name and grid apart that are of other sizes.
    type Shape = (StrId, [Option<StrId>; 4]);
    let mut launches: [HashMap<Shape, LaunchesBeside>; 2] = Default::default();
    for (i, k) in kernels.iter().enumerate().filter(|(_, k)| k.len >= SMALL) {
        let a = &trace.activities[k.activity as usize];
        let arg = |arg| trace.columns.args.text(arg, a.row);
        let operator = a.op().map(|op| trace.columns.name(op as usize));
        let shape = (a.name, [arg(Arg::Grid), arg(Arg::Block), operator, inputs(trace, k)]);
        let covered = covered(a.span);
        for (of, own) in launches.iter_mut().zip(covered) {
            if covered == [0, 0] {
                of.entry(shape).or_default().alone.push(k.len);
            } else if own * 2 >= k.len {
                of.entry(shape).or_default().beside.push(i);
            }
        }
    }
    let [copies, collectives] = launches.map(|mut of| {
        let mut usual: HashMap<usize, Ns> = HashMap::new();
        for launches in of.values_mut() {
            let Some(ns) = launches.usual(kernels) else { continue };
            usual.extend(launches.beside.iter().map(|k| (*k, ns)));
        }
        usual
    });
    for w in windows {
        for (beside, usual) in [("collectives", &collectives), ("copies", &copies)] {
            if !usual.is_empty() {
                push_window(table, trace, work, (kernels, usual, beside), w);
            }
        }
    }
}

/// The shapes of what the operator of a kernel reads, where recorded.
fn inputs(trace: &RankTrace, k: &ComputeKernel) -> Option<StrId> {
    let op = trace.activities[k.activity as usize].op()?;
    trace.columns.args.text(Arg::InputDims, op)
}

fn push_window(
    table: &mut KernelsBeside,
    trace: &RankTrace,
    work: &DeviceWork,
    (kernels, usual, beside): (&[ComputeKernel], &HashMap<usize, Ns>, &str),
    w: &Window,
) {
    let mut sums: BTreeMap<(&str, bool), (u64, u64, Ns, Ns)> = BTreeMap::new();
    for part in w.parts() {
        let inside = times_in(kernels, *part).filter(|(i, _)| part.holds(kernels[*i].start));
        for (k, usual) in inside.filter_map(|(i, _)| Some((&kernels[i], *usual.get(&i)?))) {
            let name = trace.text(trace.activities[k.activity as usize].name);
            let sum = sums.entry((name, inputs(trace, k).is_some())).or_default();
            sum.0 += 1;
            sum.1 += u64::from(is_slow(k.len, usual));
            sum.2 += usual;
            sum.3 += k.len - usual;
        }
    }
    for ((name, shape_known), (count, slow_count, usual_ns, excess_ns)) in sums {
        table.push(KernelBesideRow {
            rank: trace.rank,
            device: work.device,
            scope: w.scope.name(),
            step: w.step,
            step_label: w.label,
            beside,
            name,
            shape_known,
            count,
            slow_count,
            usual_ns,
            excess_ns,
        });
    }
}

/// What kernels beside other work take longer on the ranks and in the steps of a cause.
#[derive(Default)]
struct Contention<'a> {
    count: u64,
    slow: u64,
    usual: Ns,
    excess: Ns,
    by_rank: BTreeMap<u32, Ns>,
    by_name: BTreeMap<&'a str, Ns>,
}

impl<'a> Contention<'a> {
    fn add(&mut self, r: &KernelBesideRow<'a>) {
        self.count += r.count;
        self.slow += r.slow_count;
        self.usual += r.usual_ns;
        self.excess += r.excess_ns;
        *self.by_rank.entry(r.rank).or_default() += r.excess_ns;
        *self.by_name.entry(r.name).or_default() += r.excess_ns;
    }
}

/// Says of causes about long kernels and long steps that most of it lies beside copies or collectives; where
/// there are none, this is a cause.
pub(crate) fn add(context: &Context, partials: &[Partial], causes: &mut Vec<Cause>) {
    let mut all: Vec<KernelBesideRow> = rows::<KernelsBeside>(partials).collect();
    // Rows of the recorded span count where there are no steps.
    let has_steps = all.iter().any(|r| r.step.is_some());
    all.retain(|r| r.step.is_some() == has_steps);
    let mut is_told = false;
    let is_about_kernels = |c: &&mut Cause| {
        let is_slow = matches!(c.key.as_str(), "slow_kernel" | "slow_device");
        c.kind == CauseKind::StepOutlier || (c.kind == CauseKind::Straggler && is_slow)
    };
    for cause in causes.iter_mut().filter(is_about_kernels) {
        let ranks: BTreeSet<u32> = cause.ranks.iter().copied().collect();
        let is_of = |r: &&KernelBesideRow| match r.step {
            Some(index) => {
                let step = StepKey::new(index, r.step_label).shown();
                ranks.contains(&r.rank) && (cause.steps.is_empty() || cause.steps.contains(&step))
            }
            None => ranks.contains(&r.rank),
        };
        let mut found: BTreeMap<&str, Contention> = BTreeMap::new();
        all.iter().filter(is_of).for_each(|r| found.entry(r.beside).or_default().add(r));
        // The others wait for the slowest rank.
        let of_rank = |c: &Contention| c.by_rank.values().max().copied().unwrap_or(0);
        let most = found.into_iter().max_by_key(|(_, c)| of_rank(c));
        if let Some((beside, most)) =
            most.filter(|(_, c)| of_rank(c) * LARGE_PART >= cause.gain && of_rank(c) > 0)
        {
            let excess = of_rank(&most);
            tell(cause, beside, (&most, excess));
            is_told = true;
        }
    }
    causes.extend(alone(context, &all).filter(|_| !is_told));
}

/// The cause of kernels that are long beside other work. Without shapes, work of other sizes may run there.
fn alone(context: &Context, all: &[KernelBesideRow]) -> Option<Cause> {
    /// What it runs beside, step, rank and device.
    type Place<'a> = (&'a str, Option<StepKey>, u32, Option<i64>);
    let mut sums: BTreeMap<Place, Ns> = BTreeMap::new();
    let mut found: BTreeMap<&str, Contention> = BTreeMap::new();
    for r in all.iter().filter(|r| r.shape_known) {
        let step = r.step.map(|index| StepKey::new(index, r.step_label));
        *sums.entry((r.beside, step, r.rank, r.device)).or_default() += r.excess_ns;
        found.entry(r.beside).or_default().add(r);
    }
    let (beside, found) = found.into_iter().max_by_key(|(_, c)| c.excess)?;
    let saved = |step: &JobStep, (part, device): PartDevice| {
        sums.get(&(beside, step.key, context.rank(part), device)).copied().unwrap_or(0)
    };
    let gain = gain::of_steps(context.account, |step, place| Some(saved(step, place)));
    let ranks = found.by_rank.keys().copied().collect();
    let mut cause = context.cause(CauseKind::Contention, beside, ranks, OwnedTime::new(), gain);
    cause.compute =
        context.account.cells().map(|(s, place, _)| saved(&context.account.steps[s], place)).sum();
    let steps: BTreeSet<StepKey> = sums.keys().filter(|k| k.0 == beside).filter_map(|k| k.1).collect();
    let (some, count) = (steps.len(), context.account.steps.len());
    let mut during = String::new();
    if some > 0 && some < count {
        cause.steps = steps.into_iter().map(StepKey::shown).collect();
        during = format!(" in {} of {count} steps", some);
    }
    cause.words.what = format!("Kernels run slower beside {beside}{during}");
    tell(&mut cause, beside, (&found, found.excess));
    cause.words.why = capital(&cause.words.why);
    Some(cause)
}

fn tell(cause: &mut Cause, beside: &str, (found, excess): (&Contention, Ns)) {
    let largest = found.by_name.iter().max_by_key(|(name, ns)| (**ns, Reverse(**name)));
    let Some((name, _)) = largest else { return };
    let factor = (found.usual + found.excess) as f64 / found.usual.max(1) as f64;
    let most = if found.by_name.len() > 1 { "most " } else { "" };
    let is_sum = matches!(cause.kind, CauseKind::StepOutlier | CauseKind::Contention);
    let all = if is_sum { format!(": {}", fmt_ns(excess)) } else { String::new() };
    let words = format!(
        "{} of {} kernels beside {beside} ({most}{}) are slow, {factor:.2} times as long as without{all}",
        found.slow,
        found.count,
        shown(name)
    );
    if !cause.words.why.is_empty() {
        cause.words.why.push_str("; ");
    }
    cause.words.why.push_str(&words);
    cause.words.action = match beside {
        "copies" => {
            "move the copies to where no kernel needs the memory: smaller pieces, another time, fewer \
                     bytes; asynchronous ones, such as checkpoints, are not free"
        }
        _ => {
            "give collectives beside compute fewer multiprocessors, or start them where no large kernel runs"
        }
    }
    .to_string();
    cause.evidence.push(Evidence {
        table: "kernels_by_name",
        filter: format!("{} AND {}", of_ranks(&cause.ranks), of_text("name", name)),
        words,
    });
}
