//! Whether kernels take longer while the clock is low: the same kernel, with the same launch, at both clocks.
//!
//! A kernel that waits for memory takes as long at a lower clock, so a fall costs it nothing.

use crate::clocks::fall::ClockFall;
use crate::clocks::held::median_by_time;
use crate::compute::ComputeKernel;
use hashbrown::HashMap;
use hta_base::order_statistics::median;
use hta_base::units::{Ns, Span};
use hta_trace::args::Arg;
use hta_trace::interval::Union;
use hta_trace::kernel::category::Category;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;
use std::cmp::Reverse;

/// Fewest launches at each clock.
const LAUNCHES: usize = 5;
/// Share of the time of compared kernels that must follow the clock, percent.
const FOLLOW_PCT: i128 = 25;
/// Share of all compute time that must follow it, percent.
const FOLLOW_OF_ALL_PCT: i128 = 10;
/// Share of compute time that must be compared for the clock to be cleared, percent.
const COMPARED_PCT: i128 = 50;

/// What the lengths of kernels say of a fall.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KernelsSay {
    /// They are longer by what the clock is lower.
    Follow,
    /// They are not.
    Differ,
    /// Too few are launched at both clocks.
    Unknown,
}

impl KernelsSay {
    const ALL: [Self; 3] = [Self::Follow, Self::Differ, Self::Unknown];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Follow => "follow",
            Self::Differ => "differ",
            Self::Unknown => "unknown",
        }
    }

    pub(super) fn named(name: &str) -> Self {
        Self::ALL.into_iter().find(|say| say.name() == name).unwrap_or(Self::Unknown)
    }
}

/// Whether a time is longer by half to one and a half of what a clock is lower, in thousandths: `from` and
/// `to` are the higher and the lower clock.
pub(super) fn follows([from, to]: [i64; 2], [usual, longer]: [Ns; 2]) -> bool {
    let Some((lower, more)) = excesses([from, to], [usual, longer]) else { return false };
    more * 2 >= lower && more * 2 <= lower * 3
}

/// Whether a time is longer by at least half of what a clock is lower.
fn is_bound([from, to]: [i64; 2], [usual, longer]: [Ns; 2]) -> bool {
    excesses([from, to], [usual, longer]).is_some_and(|(lower, more)| more * 2 >= lower)
}

/// `from / to - 1` and `longer / usual - 1`, both times `to * usual`.
fn excesses([from, to]: [i64; 2], [usual, longer]: [Ns; 2]) -> Option<(i128, i128)> {
    let [from, to, usual, longer] = [from, to, usual, longer].map(i128::from);
    (to > 0 && usual > 0 && from > to).then(|| ((from - to) * usual, (longer - usual) * to))
}

/// The kernels of a device beside a fall of its clock.
pub(super) struct KernelLengths {
    pub(super) say: KernelsSay,
    /// The kernel with the most time that follows: its name, and its median lengths at the high and at the
    /// low clock, ns.
    pub(super) shown: Option<(StrId, [Ns; 2])>,
    /// The time of kernels that the clock bounds.
    pub(super) bound: Union,
}

/// Launches of one kernel.
#[derive(Default)]
struct SameKernel {
    spans: Vec<Span>,
    all: Ns,
    /// Lengths inside the time of the high clock, and of the low one, ns.
    lengths: [Vec<Ns>; 2],
    is_matrix: bool,
}

impl KernelLengths {
    pub(super) fn new(trace: &RankTrace, kernels: &[ComputeKernel], fall: &ClockFall) -> Self {
        let clocks = [&fall.high, &fall.low].map(|held| median_by_time(held).unwrap_or(0));
        let (mut all, mut compared, mut following) = (0i128, 0i128, 0i128);
        let mut longest: Option<(Ns, KernelLaunch, [Ns; 2])> = None;
        let mut bound = Vec::new();
        for (launch, mut k) in same_kernels(trace, kernels, fall) {
            all += i128::from(k.all);
            let is_compared = k.lengths.iter().all(|l| l.len() >= LAUNCHES);
            let lengths = k.lengths.each_mut().map(|l| median(l).unwrap_or(0));
            let is_following = is_compared && follows(clocks, lengths);
            compared += i128::from(if is_compared { k.all } else { 0 });
            following += i128::from(if is_following { k.all } else { 0 });
            let is_longest = |(all, of, _)| (k.all, Reverse(launch)) > (all, Reverse(of));
            if is_following && longest.is_none_or(is_longest) {
                longest = Some((k.all, launch, lengths));
            }
            let is_bound_by_clock = if is_compared { is_bound(clocks, lengths) } else { k.is_matrix };
            if is_bound_by_clock {
                bound.append(&mut k.spans);
            }
        }
        let is_followed = compared > 0 && following * 100 >= compared * FOLLOW_PCT;
        let say = if is_followed && following * 100 >= all * FOLLOW_OF_ALL_PCT {
            KernelsSay::Follow
        } else if compared * 100 >= all * COMPARED_PCT {
            KernelsSay::Differ
        } else {
            KernelsSay::Unknown
        };
        let shown = longest.map(|(_, (name, ..), lengths)| (name, lengths));
        Self { say, shown, bound: Union::new(bound) }
    }
}

/// Name, grid and block of a kernel.
type KernelLaunch = (StrId, Option<StrId>, Option<StrId>);

/// The kernels of a device by name and launch, with their lengths at the high and the low clock.
fn same_kernels(
    trace: &RankTrace,
    kernels: &[ComputeKernel],
    fall: &ClockFall,
) -> HashMap<KernelLaunch, SameKernel> {
    let [low, high] = fall.spans();
    let mut same: HashMap<KernelLaunch, SameKernel> = HashMap::new();
    for k in kernels {
        let Some(a) = trace.activities.get(k.activity as usize) else { continue };
        let args = &trace.columns.args;
        let of = same.entry((a.name, args.text(Arg::Grid, a.row), args.text(Arg::Block, a.row))).or_default();
        of.spans.push(k.own);
        of.all += k.own.len();
        of.is_matrix = is_matrix(k.work.category);
        for (set, lengths) in [&high, &low].into_iter().zip(&mut of.lengths) {
            if k.len > 0 && set.len_in(a.span) == k.len {
                lengths.push(k.len);
            }
        }
    }
    same
}

/// Whether kernels of a category compute more than they move, as far as the category tells.
fn is_matrix(category: Category) -> bool {
    matches!(category, Category::Gemm | Category::Attention | Category::Convolution | Category::Moe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_follows_by_half_to_one_and_a_half_of_the_clock() {
        // 1,000 of 1,250 MHz: 25 % longer, so 12.5 to 37.5 %.
        let of = |longer| follows([1_250, 1_000], [1_000, longer]);
        assert_eq!([1_124, 1_125, 1_250, 1_375, 1_376].map(of), [false, true, true, true, false]);
        assert!(is_bound([1_250, 1_000], [1_000, 2_000]) && !is_bound([1_250, 1_000], [1_000, 1_000]));
        assert!(!follows([1_000, 1_000], [10, 10]) && !follows([2, 0], [10, 20]) && !follows([2, 1], [0, 5]));
    }
}
