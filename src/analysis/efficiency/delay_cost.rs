//! Delay cost: which rank made the others wait, and for how long.
//!
//! ```text
//!   rank 0  ....[wait.....|transfer]     0..a: waits for 1 and 2, each is charged half
//!   rank 1  .......[wait..|transfer]     a..b: 0 and 1 wait for 2, which is charged both
//!   rank 2  ..............[transfer]
//!               0  a      b
//! ```
//!
//! Each instant of a wait is shared equally by the members that have not arrived. What a late member is
//! charged is its own as far as it worked longer than the waiting one since the last collective of the group
//! (*direct*); as far as it itself waited in other groups since then, the charge is passed on to those that
//! made it wait (*propagated*). Instances are visited from the last to the first, because charges are passed
//! on to earlier ones only.

use hashbrown::HashMap;
use hta_base::units::Ns;
use hta_job::delay::{StepKey, step_of};
use hta_job::{Instance, Job, Member};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a rank cost the others, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// Waiting of others because it worked longer.
    pub direct: Ns,
    /// Waiting of others behind a rank that waited for it.
    pub propagated: Ns,
    /// Waiting in instances in which it came last, all of it.
    pub(crate) imposed_last: Ns,
}

/// Costs by part and step.
pub(crate) type Costs = BTreeMap<(u32, Option<StepKey>), Cost>;

/// A member of an instance, in order of arrival.
struct Arrived {
    member: Member,
    start: Ns,
    /// Its own wait; 0 if another instance decides the wait of its call.
    wait: Ns,
    /// Waits of others that are passed on to this wait, ns.
    passed: Ns,
    /// End of its previous call in the group, on the common axis; `None` for the first.
    since: Option<Ns>,
    /// Its waits in other groups since then.
    elsewhere: Vec<Elsewhere>,
}

/// A wait of a member in another group, since its previous call in this one.
struct Elsewhere {
    start: Ns,
    wait: Ns,
    instance: u32,
    /// This wait and all before it, ns.
    total: Ns,
}

impl Arrived {
    /// Index of its first wait elsewhere that began at `since` or later.
    fn first_since(&self, since: Option<Ns>) -> usize {
        if since == self.since {
            0
        } else {
            self.elsewhere.partition_point(|e| since.is_some_and(|s| e.start < s))
        }
    }

    /// How long it waited elsewhere, from the wait at this index on.
    fn waited_from(&self, first: usize) -> Ns {
        let before = first.checked_sub(1).and_then(|i| self.elsewhere.get(i)).map_or(0, |e| e.total);
        self.elsewhere.last().map_or(0, |e| e.total - before)
    }
}

/// A wait of a part in one instance: when the call started, and for how long it waited.
struct InstanceWait {
    start: Ns,
    wait: Ns,
    instance: u32,
    group: u32,
}

/// The costs of all matched waits, computed once for a job. Their direct and propagated parts add up to the
/// sum of all waits.
pub fn costs(job: &Job) -> Arc<Costs> {
    job.shared(all_costs)
}

fn all_costs(job: &Job) -> Costs {
    let mut order: Vec<u32> = (0..job.instances().len() as u32).collect();
    order.sort_by_key(|id| Reverse((job.arrivals(*id as usize).last, *id)));
    let (waits, since) = (waits(job), previous_ends(job));
    let mut passed: HashMap<(u32, u32), Ns> = HashMap::new();
    let mut out = Costs::new();
    for id in order {
        let instance = &job.instances()[id as usize];
        let mut members: Vec<Arrived> = job
            .members(instance)
            .iter()
            .map(|m| Arrived {
                member: *m,
                start: job.aligned(m.part, job.call(*m).span.start),
                wait: job.told_wait(*m).filter(|o| o.instance == id).map_or(0, |o| o.wait),
                passed: passed.remove(&(id, m.part)).unwrap_or(0),
                since: since.get(&(id, m.part)).copied(),
                elsewhere: Vec::new(),
            })
            .collect();
        members.sort_by_key(|a| (a.start, a.member));
        for a in &mut members {
            a.elsewhere = elsewhere(waits_since(&waits, a.member.part, a.since, a.start), instance.group);
        }
        let step = members.first().and_then(|a| step_of(job, a.member));
        if let Some(last) = members.iter().max_by_key(|a| (a.start, Reverse(a.member))) {
            let total = members.iter().map(|a| a.wait).sum::<Ns>();
            out.entry((last.member.part, step)).or_default().imposed_last += total;
        }
        let root = job.root(id);
        if let Some(charges) = plain_charges(instance, &members) {
            for (member, ns) in charges {
                out.entry((member.part, step)).or_default().direct += ns;
            }
            continue;
        }
        for (is_passed, weight) in [(false, weight_own as fn(&Arrived) -> Ns), (true, weight_passed)] {
            // Summed by late member first: there are as many charges as pairs of members.
            let mut kept = vec![0; members.len()];
            let mut passed_on: Vec<Vec<Ns>> = members.iter().map(|a| vec![0; a.elsewhere.len()]).collect();
            charges(instance, root, &members, weight, |late, waiter, charge| {
                kept[late] += split(&members[late], &members[waiter], charge, &mut passed_on[late]);
            });
            for ((a, kept), passed_on) in members.iter().zip(kept).zip(passed_on) {
                if kept != 0 {
                    let cost = out.entry((a.member.part, step)).or_default();
                    let sum = if is_passed { &mut cost.propagated } else { &mut cost.direct };
                    *sum += kept;
                }
                for (earlier, ns) in a.elsewhere.iter().zip(passed_on).filter(|(_, ns)| *ns != 0) {
                    *passed.entry((earlier.instance, a.member.part)).or_default() += ns;
                }
            }
        }
    }
    // Charges that a call passed on to an instance which ended at the very moment when the call started.
    for ((_, part), ns) in passed {
        out.entry((part, None)).or_default().propagated += ns;
    }
    out.retain(|_, c| *c != Cost::default());
    out
}

/// The charges where every member waits for the last one, and nobody waited in other groups meanwhile:
/// computed for all members at once, because there may be thousands. `None` if this is not so.
fn plain_charges(instance: &Instance, members: &[Arrived]) -> Option<Vec<(Member, Ns)>> {
    let (first, last) = (members.first()?.start, members.last()?.start);
    let is_whole = |a: &Arrived| a.wait == 0 || a.start + a.wait == last;
    let is_plain = |a: &Arrived| a.elsewhere.is_empty() && a.passed == 0 && is_whole(a);
    if instance.kind.is_from_root() || instance.kind.is_to_root() || !members.iter().all(is_plain) {
        return None;
    }
    // What a member that comes next is charged so far: each interval between arrivals, times those who wait
    // in it, divided by those who are still to come.
    let (mut each, mut waiting, mut total) = (0.0, 0i64, 0);
    let mut out: Vec<(Member, Ns)> = Vec::with_capacity(members.len());
    for (k, a) in members.iter().enumerate() {
        if let Some(before) = k.checked_sub(1).and_then(|i| members.get(i)) {
            each += (waiting * (a.start - before.start)) as f64 / (members.len() - k) as f64;
        }
        waiting += i64::from(a.wait > 0);
        total += a.wait;
        if a.start > first {
            out.push((a.member, each.floor() as Ns));
        }
    }
    // Rounding must not lose anything.
    let rest = total - out.iter().map(|(_, ns)| ns).sum::<Ns>();
    if let Some((_, ns)) = out.iter_mut().min_by_key(|(m, _)| m.part) {
        *ns += rest;
    }
    Some(out)
}

/// Waits of a part from a moment on that begin before `until`, in order of time.
fn waits_since(
    waits: &[Vec<InstanceWait>],
    part: u32,
    since: Option<Ns>,
    until: Ns,
) -> impl Iterator<Item = &InstanceWait> {
    let all = &waits[part as usize];
    let first = all.partition_point(|w| w.start < since.unwrap_or(Ns::MIN));
    all[first..].iter().take_while(move |w| w.start < until)
}

/// Those of a part's waits that are in other groups.
fn elsewhere<'a>(waits: impl Iterator<Item = &'a InstanceWait>, group: u32) -> Vec<Elsewhere> {
    let mut total = 0;
    let others = waits.filter(|w| w.group != group);
    let add = |w: &InstanceWait| {
        total += w.wait;
        Elsewhere { start: w.start, wait: w.wait, instance: w.instance, total }
    };
    others.map(add).collect()
}

fn weight_own(a: &Arrived) -> Ns {
    a.wait
}

fn weight_passed(a: &Arrived) -> Ns {
    a.passed
}

/// By part: its waits, in order of time.
fn waits(job: &Job) -> Vec<Vec<InstanceWait>> {
    let mut out: Vec<Vec<InstanceWait>> = job.parts.iter().map(|_| Vec::new()).collect();
    for (id, instance) in (0u32..).zip(job.instances()) {
        for m in job.members(instance) {
            let wait = job.told_wait(*m).filter(|o| o.instance == id && o.wait > 0);
            let start = job.aligned(m.part, job.call(*m).span.start);
            out[m.part as usize].extend(wait.map(|o| InstanceWait {
                start,
                wait: o.wait,
                instance: id,
                group: instance.group,
            }));
        }
    }
    out.iter_mut().for_each(|w| w.sort_by_key(|w| (w.start, w.instance)));
    out
}

/// By instance and part: the end of the part's previous call in the same group, on the common axis.
fn previous_ends(job: &Job) -> HashMap<(u32, u32), Ns> {
    // By group and part: start, end and instance of each call.
    type CallsOf = BTreeMap<(u32, u32), Vec<(Ns, Ns, u32)>>;
    let mut calls = CallsOf::new();
    for (id, instance) in (0u32..).zip(job.instances()) {
        for m in job.members(instance) {
            let span = job.aligned_span(m.part, job.call(*m).span);
            calls.entry((instance.group, m.part)).or_default().push((span.start, span.end, id));
        }
    }
    let mut out = HashMap::new();
    for ((_, part), mut of_group) in calls {
        of_group.sort_unstable();
        out.extend(of_group.windows(2).map(|w| ((w[1].2, part), w[0].1)));
    }
    out
}

/// Distributes the weights of waiting members over the late ones: calls `give` with (late, waiter, ns), as
/// indices of `members`, which are in order of start. The charges of a waiter add up to its weight.
fn charges(
    instance: &Instance,
    root: Option<Member>,
    members: &[Arrived],
    weight: impl Fn(&Arrived) -> Ns,
    mut give: impl FnMut(usize, usize, Ns),
) {
    let mut behind: Vec<usize> = Vec::with_capacity(members.len());
    for (w, waiter) in members.iter().enumerate().filter(|(_, a)| a.wait > 0 && weight(a) != 0) {
        let later = members.partition_point(|a| a.start <= waiter.start);
        behind.clear();
        behind.extend(
            (later..members.len()).filter(|l| instance.depends(root, waiter.member, members[*l].member)),
        );
        let Some(&lowest) = behind.iter().min_by_key(|&&l| members[l].member.part) else { continue };
        let until = waiter.start + waiter.wait;
        let whole = weight(waiter);
        let (mut at, mut share, mut left, mut of_lowest) = (waiter.start, 0.0, whole, 0);
        // Pieces of the wait end where a late member arrives; all who are still to come share a piece.
        for (i, &l) in behind.iter().enumerate() {
            let to = members[l].start.min(until);
            if to > at {
                share += (to - at) as f64 / (behind.len() - i) as f64;
                at = to;
            }
            let ns = (share / waiter.wait as f64 * whole as f64).floor() as Ns;
            left -= ns;
            if l == lowest {
                of_lowest = ns;
            } else if ns != 0 {
                give(l, w, ns);
            }
        }
        // Rounding must not lose anything.
        if of_lowest + left != 0 {
            give(lowest, w, of_lowest + left);
        }
    }
}

/// Divides a charge: returns what the late member keeps, and adds what is passed on to `passed`, by its wait
/// elsewhere.
fn split(late: &Arrived, waiter: &Arrived, charge: Ns, passed: &mut [Ns]) -> Ns {
    if late.elsewhere.is_empty() {
        return charge;
    }
    let since = late.since.max(waiter.since);
    let first = late.first_since(since);
    let waited = late.waited_from(first);
    if waited <= 0 {
        return charge;
    }
    let waited_by_other = waiter.waited_from(waiter.first_since(since));
    let excess = ((late.start - waited) - (waiter.start - waited_by_other)).max(0);
    let direct = part(excess, excess + waited, charge);
    let on = charge - direct;
    let shares = || late.elsewhere[first..].iter().map(|e| part(e.wait, waited, on));
    // The first takes what rounding leaves.
    let mut rest = on - shares().sum::<Ns>();
    for (sum, share) in passed[first..].iter_mut().zip(shares()) {
        *sum += share + std::mem::take(&mut rest);
    }
    direct
}

/// The share of a total that `of` has in `whole`, rounded towards zero.
fn part(of: Ns, whole: Ns, total: Ns) -> Ns {
    // There is one for each pair of members, and dividing 128 bits takes several times as long.
    match total.checked_mul(of) {
        Some(product) => product / whole,
        None => (i128::from(total) * i128::from(of) / i128::from(whole)) as Ns,
    }
}
