//! Waiting inside fused kernels: a bound, because nothing tells it from the work of the kernel.

use crate::joined::Job;
use crate::matching::Member;
use crate::part::RankSummary;
use hta_base::units::{Ns, fmt_ns};
use hta_trace::collective::CollectiveKind;
use std::cmp::Reverse;

/// Whether what some parts cost the others by coming last is for the most part inside fused kernels.
pub fn is_late_to_fused(job: &Job, parts: &[u32]) -> bool {
    let (mut fused, mut all) = (0, 0);
    for (id, i) in job.instances().iter().enumerate() {
        let arrivals = job.arrivals(id);
        let last = job.members(i).get(arrivals.last_member as usize);
        if !arrivals.is_impossible && last.is_some_and(|m| parts.contains(&m.part)) {
            all += arrivals.gain;
            fused += if i.kind == CollectiveKind::Fused { arrivals.gain } else { 0 };
        }
    }
    fused * 2 > all
}

/// What the rank that waits longest inside fused kernels waits at most, in words.
pub fn waits_in_fused(job: &Job) -> Option<String> {
    let of_part = |(part, p): (u32, &RankSummary)| {
        let calls = (0..).zip(&p.calls.calls).filter(|(_, c)| c.shape.kind == CollectiveKind::Fused);
        let waits = calls.filter_map(|(call, _)| job.outcome(Member { part, call })).map(|o| o.wait);
        (waits.sum::<Ns>(), Reverse(p.rank))
    };
    let (most, Reverse(rank)) = (0..).zip(&job.parts).map(of_part).max().filter(|(most, _)| *most > 0)?;
    let (most, rank) = (fmt_ns(most), job.words.plain(&[rank]));
    Some(format!("beside it a rank waits inside fused kernels, for at most {most} of the recording ({rank})"))
}
