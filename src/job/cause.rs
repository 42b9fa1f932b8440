//! Why a rank was late: compares its local window with that of the typical rank, and divides the difference
//! completely.
//!
//! The typical rank is the member whose local time is the median of the other members', so the differences of
//! all parts sum to the excess exactly:
//!
//! ```text
//!   local(r) - local(q) = one factor on all kernels + some kernels slower + more or other kernels + copies
//!                       + waiting and transfer of other groups + idle by what the host did
//! ```

use crate::chain::Lateness;
pub use crate::difference::{DelayCause, Difference, WindowPair, WindowPairs};
use crate::difference::{LateAndTypical, UseTimes, push};
use crate::experts::{JobLayers, MoreExpertTime};
use crate::exposed::ExposedKind;
use crate::host_behind::give_to_host_behind;
use crate::joined::Job;
use crate::local::{LocalEntry, LocalUse, TimeUse};
use crate::matching::Member;
use crate::waited::pieces;
use crate::window::{LocalWindow, WindowStart, Windows};
use hta_base::units::Ns;
use hta_facts::host_activity::HostActivity;
use hta_trace::strings::StrId;
use std::collections::BTreeMap;

/// A common factor is accepted if at least this share of the kernels' time follows it,
const FACTOR_SHARE: f64 = 0.8;
/// with each kernel's factor within this relative distance,
const FACTOR_SPREAD: f64 = 0.05;
/// and if the factor is at least this.
const FACTOR_LEAST: f64 = 1.02;

/// The differences between the windows of a late member and the typical one; they sum to the excess.
pub fn differences(job: &Job, windows: &Windows, late: &Lateness) -> Vec<Difference> {
    let window = |m: Member| windows.get(m.part as usize)?.get(m.call as usize).copied().flatten();
    let (Some(own), Some(other)) = (window(late.member), window(late.typical)) else { return Vec::new() };
    differences_of(job, windows, &[[(late.member, own), (late.typical, other)]], None)
}

/// By how much all kernels of a late rank take longer than those of typical ones, over all its windows.
pub fn common_factor(job: &Job, pairs: &WindowPairs) -> Option<f64> {
    let mut entries: BTreeMap<(StrId, StrId), LateAndTypical> = BTreeMap::new();
    for (k, (member, w)) in pairs.iter().flat_map(|pair| pair.iter().enumerate()) {
        for e in entries_of(job, *member, w).filter(|e| e.what == TimeUse::Kernel && e.name != StrId::EMPTY) {
            let both = entries.entry((e.name, e.detail)).or_default();
            both.time[k] += e.time;
            both.count[k] += i64::from(e.count);
        }
    }
    let alike: Vec<_> = entries.values().filter(|b| is_alike(b)).map(|b| (b.time[0], b.time[1])).collect();
    factor(&alike, alike.iter().map(|(_, typical)| typical).sum())
}

/// Whether two ranks launched a kernel as often. Windows may cut a kernel in two.
fn is_alike(b: &LateAndTypical) -> bool {
    let (own, typical) = (b.count[0], b.count[1]);
    b.time[1] > 0 && (own - typical).abs() * 10 <= own.min(typical)
}

/// The differences between several windows of a late rank and those of typical ones, as pairs; they sum to
/// the difference of all local times. `known` is the factor of all kernels, if it was found in more windows
/// than these.
pub fn differences_of(
    job: &Job,
    windows: &Windows,
    pairs: &[[(Member, LocalWindow); 2]],
    known: Option<f64>,
) -> Vec<Difference> {
    let mut entries = UseTimes::new();
    for (k, (member, w)) in pairs.iter().flat_map(|pair| pair.iter().enumerate()) {
        for e in entries_of(job, *member, w) {
            let both = entries.entry((e.what, e.name, e.detail)).or_default();
            both.time[k] += e.time;
            both.count[k] += i64::from(e.count);
        }
    }
    let mut out = Vec::new();
    kernels(&mut entries, known, &mut out);
    give_to_host_behind(job, pairs, &mut entries, &mut out);
    for ((what, name, detail), b) in entries {
        let cause = match what {
            TimeUse::Copy => DelayCause::Copies,
            TimeUse::Host(HostActivity::Operator)
            | TimeUse::Host(HostActivity::LaunchCall)
            | TimeUse::Host(HostActivity::SyncCall)
                if b.count[0] > b.count[1] =>
            {
                DelayCause::MoreHost(what)
            }
            _ => DelayCause::Host(what),
        };
        push(&mut out, cause, name, detail, None, b);
    }
    more_in_experts(job, pairs, &mut out);
    communication(job, windows, pairs, &mut out);
    out.retain(|d| d.delta() != 0);
    out.sort_by_key(|d| (std::cmp::Reverse(d.delta()), d.cause, d.name, d.detail));
    out
}

fn entries_of<'a>(job: &'a Job, m: Member, w: &LocalWindow) -> impl Iterator<Item = LocalEntry> + 'a {
    let span = w.span;
    let lane = job.parts[m.part as usize].lanes.get(w.lane as usize);
    lane.into_iter().flat_map(move |l| l.local.entries_in(span))
}

/// Moves the kernels from `entries` to `out`: first one factor over all kernels that both ranks launched
/// alike, then the remaining difference of each.
fn kernels(entries: &mut UseTimes, known: Option<f64>, out: &mut Vec<Difference>) {
    let keys: Vec<_> = entries.keys().copied().filter(|k: &LocalUse| k.0 == TimeUse::Kernel).collect();
    let all: Vec<_> = keys.into_iter().filter_map(|k| Some((k, entries.remove(&k)?))).collect();
    let is_same = |b: &LateAndTypical| b.time[1] > 0 && b.count[0] == b.count[1];
    let alike = |(k, b): &(LocalUse, LateAndTypical)| {
        k.1 != StrId::EMPTY && (is_same(b) || (known.is_some() && is_alike(b)))
    };
    let same: Vec<_> = all.iter().filter(|x| alike(x)).collect();
    let total: Ns = same.iter().map(|(_, b)| b.time[1]).sum();
    let factor = known
        .or_else(|| factor(&same.iter().map(|(_, b)| (b.time[0], b.time[1])).collect::<Vec<_>>(), total));
    let scaled = |t: Ns| factor.map_or(0, |f| ((f - 1.0) * t as f64).round() as Ns);
    let common: Ns = same.iter().map(|(_, b)| scaled(b.time[1])).sum();
    if common > 0 {
        let b = LateAndTypical { time: [total + common, total], count: [same.len() as i64; 2] };
        push(out, DelayCause::SlowDevice, StrId::EMPTY, StrId::EMPTY, None, b);
    }
    for x in &all {
        let ((_, name, detail), mut b) = *x;
        let cause = if alike(x) { DelayCause::SlowKernel } else { DelayCause::OtherKernels };
        if alike(x) && common > 0 {
            b.time[0] -= scaled(b.time[1]);
        }
        push(out, cause, name, detail, None, b);
    }
}

/// Smallest share of compute beside experts that tells whether a device is slow.
const LEAST_REST: f64 = 0.1;

/// Experts explain nearly all of a difference from this share on, so that it is not divided.
const NEARLY_ALL: f64 = 0.8;

/// Takes the time that a late rank computes longer in experts, because it has more tokens or because of
/// something that is not recorded, from the largest differences of its own work.
fn more_in_experts(job: &Job, pairs: &[[(Member, LocalWindow); 2]], out: &mut Vec<Difference>) {
    let layers = JobLayers::of(job);
    let [late, typical] = [0, 1].map(|side: usize| {
        let of_side = pairs.iter().filter_map(|pair| pair.get(side));
        of_side.fold(MoreExpertTime::default(), |sum, (m, w)| sum.plus(layers.more_in(m.part, w.span)))
    });
    let is_of_device = is_of_device(out, late.expert, typical.expert);
    take_longest(DelayCause::MoreTokens, late.by_tokens - typical.by_tokens, out);
    if !is_of_device {
        take_longest(DelayCause::ExpertTime, late.unknown - typical.unknown, out);
    }
}

/// Whether a slow device is why experts of unknown sizes take `late` instead of `typical`: what the rank
/// computes beside them takes longer by the same factor.
fn is_of_device(out: &[Difference], late: Ns, typical: Ns) -> bool {
    let (mut own, mut other) = (0, 0);
    for d in out {
        match d.cause {
            DelayCause::SlowDevice => own += d.delta(),
            DelayCause::SlowKernel | DelayCause::OtherKernels => {
                (own, other) = (own + d.own, other + d.typical)
            }
            _ => {}
        }
    }
    let (rest, rest_of_typical) = (own - late, other - typical);
    let is_enough = typical > 0 && rest_of_typical as f64 >= LEAST_REST * other as f64;
    let (rest, experts) = (rest as f64 / rest_of_typical as f64, late as f64 / typical as f64);
    out.iter().any(|d| d.cause == DelayCause::SlowDevice)
        && is_enough
        && rest >= FACTOR_LEAST
        && (rest / experts - 1.0).abs() <= FACTOR_SPREAD
}

/// Makes a time that the differences of a rank's own work contain a difference of its own: of the one that is
/// as long, within a twentieth, else of the largest ones.
fn take_longest(cause: DelayCause, mut left: Ns, out: &mut Vec<Difference>) {
    let (mut own, mut typical) = (0, 0);
    let mut order: Vec<usize> = (0..out.len()).filter(|i| out[*i].cause.is_own_work()).collect();
    let is_as_long = |d: &Difference| (d.delta() - left).abs() * 20 <= left;
    order.sort_by_key(|i| {
        let d = &out[*i];
        (!is_as_long(d), std::cmp::Reverse(d.delta()), d.cause, d.name, d.detail)
    });
    for i in order {
        let d = &mut out[i];
        let delta = d.delta();
        if left <= 0 || delta <= 0 {
            break;
        }
        let taken = if left as f64 >= NEARLY_ALL * delta as f64 { delta } else { left };
        left -= delta;
        // All of them are one cause, whichever kernels or ranges show it.
        own += if taken == delta { d.own } else { d.typical + taken };
        typical += d.typical;
        d.own -= taken;
    }
    let both = LateAndTypical { time: [own, typical], count: [1, 1] };
    push(out, cause, StrId::EMPTY, StrId::EMPTY, None, both);
}

/// The common factor by which the first of all pairs (late, typical) are slower, if there is one.
fn factor(pairs: &[(Ns, Ns)], total: Ns) -> Option<f64> {
    // One or two kernels cannot distinguish a slow device from a slow kernel.
    if pairs.len() < 3 || total == 0 {
        return None;
    }
    let mut ratios: Vec<(f64, Ns)> = pairs.iter().map(|(a, b)| (*a as f64 / *b as f64, *b)).collect();
    ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut sum = 0;
    let middle = ratios.iter().find(|(_, w)| {
        sum += w;
        sum * 2 >= total
    })?;
    let f = middle.0;
    let near: Ns = ratios.iter().filter(|(r, _)| (r / f - 1.0).abs() <= FACTOR_SPREAD).map(|(_, w)| *w).sum();
    let kinds = ratios.iter().filter(|(r, _)| (r / f - 1.0).abs() <= FACTOR_SPREAD).count();
    (f >= FACTOR_LEAST && near as f64 >= FACTOR_SHARE * total as f64 && kinds >= 3).then_some(f)
}

/// Differences in the exposed communication inside the two windows, by instance: waiting with its origin,
/// transfer, unmatched.
fn communication(
    job: &Job,
    windows: &Windows,
    pairs: &[[(Member, LocalWindow); 2]],
    out: &mut Vec<Difference>,
) {
    let mut sums: BTreeMap<(DelayCause, Option<u32>), LateAndTypical> = BTreeMap::new();
    for (k, (m, w)) in pairs.iter().flat_map(|pair| pair.iter().enumerate()) {
        for (cause, origin, time) in exposed(job, windows, *m, w) {
            let both = sums.entry((cause, origin)).or_default();
            both.time[k] += time;
            both.count[k] += 1;
        }
    }
    for ((cause, origin), b) in sums {
        push(out, cause, StrId::EMPTY, StrId::EMPTY, origin, b);
    }
}

/// Exposed communication of a window. Each instant counts once: transfer before unmatched before waiting.
fn exposed(job: &Job, windows: &Windows, m: Member, w: &LocalWindow) -> Vec<(DelayCause, Option<u32>, Ns)> {
    let mut origins: BTreeMap<u32, Option<u32>> = BTreeMap::new();
    let pieces = pieces(job, m, w).into_iter();
    pieces
        .map(|piece| {
            let time = piece.span.len();
            match (piece.what, piece.call) {
                (ExposedKind::Sync, Some(call)) => {
                    let instance = || job.outcome(Member { part: m.part, call }).map(|o| o.instance);
                    let of_call = || instance().and_then(|i| origin(job, windows, i, 0));
                    (DelayCause::EarlierWait, *origins.entry(call).or_insert_with(of_call), time)
                }
                (ExposedKind::Transfer, _) => (DelayCause::EarlierTransfer, None, time),
                // Communication that does not belong to a call counts as unmatched, too.
                _ => (DelayCause::UnmatchedCommunication, None, time),
            }
        })
        .collect()
}

/// Length to which a chain of waiting is followed.
const HOPS: u32 = 8;

/// The rank that an instance waited for. If that rank had itself been waiting in another group for longer
/// than it worked, the rank that was waited for there, and so on.
pub(crate) fn origin(job: &Job, windows: &Windows, instance: u32, hops: u32) -> Option<u32> {
    let i = job.instances().get(instance as usize)?;
    let last = *job.members(i).get(job.arrivals(instance as usize).last_member as usize)?;
    let p = &job.parts[last.part as usize];
    let held = windows.get(last.part as usize)?.get(last.call as usize).copied().flatten().and_then(|w| {
        // The collective after which its window starts.
        let WindowStart::Call(before) = w.from else { return None };
        let before = Member { part: last.part, call: before };
        let o = job.outcome(before)?;
        let other = job.instances().get(o.instance as usize)?;
        (other.group != i.group && o.wait > w.span.len() && hops < HOPS).then_some(o.instance)
    });
    match held {
        Some(earlier) => origin(job, windows, earlier, hops + 1),
        None => Some(p.rank),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Beside experts both ranks compute 1000; `device` is what a slow device adds.
    #[test]
    fn a_device_is_slow_if_all_else_takes_longer_by_the_same_factor() {
        let difference = |cause, own, typical| Difference {
            cause,
            name: StrId::EMPTY,
            detail: StrId::EMPTY,
            origin: None,
            own,
            typical,
            own_count: 1,
            typical_count: 1,
        };
        let of = |device: Ns, kernels: Ns| {
            let all =
                [(DelayCause::SlowDevice, 2000 + device, 2000), (DelayCause::SlowKernel, kernels, 2000)];
            all.map(|(cause, own, typical)| difference(cause, own, typical))
        };
        assert!(is_of_device(&of(600, 2000), 1300, 1000));
        // The device makes up a tenth, and the experts take longer than that.
        assert!(!is_of_device(&of(200, 2200), 1300, 1000));
        // Experts alone look like a device.
        assert!(!is_of_device(&of(300, 2000), 1300, 1000));
        assert!(!is_of_device(&of(600, 2000)[1..], 1300, 1000));
    }

    #[test]
    fn one_factor_needs_most_kernels_to_follow_it() {
        let total = |p: &[(Ns, Ns)]| p.iter().map(|x| x.1).sum();
        let slow = [(120, 100), (241, 200), (59, 50)];
        assert!((factor(&slow, total(&slow)).unwrap() - 1.2).abs() < 0.01);
        let one = [(100, 100), (200, 200), (500, 50)];
        assert_eq!(factor(&one, total(&one)), None);
        let two = [(120, 100), (240, 200)];
        assert_eq!(factor(&two, total(&two)), None);
    }
}
