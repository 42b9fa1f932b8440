//! Hosts that are behind: their devices idle under what all hosts do as long.
//!
//! ```text
//!   late      |mm|launch......|mm|launch......|mm|launch......|      the launches take longer
//!   device        [gemm]......    [gemm].......   [gemm]              it idles under `mm` as well
//!   typical   |mm|launch|mm|launch|mm|launch|                         `mm` takes as long
//! ```

use crate::difference::{DelayCause, Difference, HostDelay, LateAndTypical, UseTimes, WindowPair, push};
use crate::joined::Job;
use crate::local::{LocalUse, TimeUse};
use crate::matching::Member;
use crate::part::PartStep;
use hta_base::units::Ns;
use hta_facts::host_activity::HostActivity;
use hta_trace::strings::StrId;

/// A part is small below one in so many.
const SMALL: Ns = 20;

/// Moves idle time under what all hosts do alike from `entries` to `out`. A device idles so if its host is
/// behind: by something else that it does longer than the other in this step, or by what it did longer in
/// earlier ones, so that it began this one later. Either is known if it is at least half of that idle time,
/// and if what the device idles under is not.
pub(super) fn give_to_host_behind(
    job: &Job,
    pairs: &[WindowPair],
    entries: &mut UseTimes,
    out: &mut Vec<Difference>,
) {
    let Some([(late, window), (typical, _)]) = pairs.first().copied() else { return };
    let part = |m: Member| &job.parts[m.part as usize];
    let is_gpu = part(late).lanes.get(window.lane as usize).is_some_and(|lane| lane.is_gpu);
    let until = |m: Member| part(m).steps.get(..=job.call(m).step? as usize).filter(|_| is_gpu);
    let Some(([first @ .., own], [of_first @ .., other])) = until(late).zip(until(typical)) else { return };
    let began = |m: Member, step: &PartStep| job.aligned(m.part, step.host_start);
    let later = began(late, own) - began(typical, other);
    let longer = |a: HostActivity| own.host[a as usize] - other.host[a as usize];
    let before = |a: HostActivity| {
        let sum = |of: &[PartStep]| of.iter().map(|step| step.host[a as usize]).sum::<Ns>();
        if first.len() == of_first.len() { longer(a) + sum(first) - sum(of_first) } else { 0 }
    };
    let most_by = |time: &dyn Fn(HostActivity) -> Ns| {
        HostActivity::ALL.into_iter().max_by_key(|a| time(*a)).map(|a| (a, time(a)))
    };
    let all: Ns = pairs.iter().map(|[(_, own), (_, typical)]| own.span.len() - typical.span.len()).sum();
    let (most, most_before) = (most_by(&longer), most_by(&before));
    for activity in HostActivity::ALL {
        let keys: Vec<LocalUse> = keys_under(entries, activity);
        let sum = |k: usize| keys.iter().filter_map(|key| entries.get(key)).map(|b| b.time[k]).sum::<Ns>();
        let time = [sum(0), sum(1)];
        let is_half = |ns: Ns| ns * 2 >= time[0] - time[1];
        let is_most =
            |most: Option<(HostActivity, Ns)>| most.filter(|most| is_half(most.1)).map(|most| most.0);
        let now = is_most(most);
        let (by, is_earlier) = (now.or(is_most(most_before).filter(|_| is_half(later))), now.is_none());
        // Of a small part of what the rank takes longer, it does not matter.
        let is_small = (time[0] - time[1]) * SMALL < all;
        if is_small || time[0] <= time[1] || is_half(longer(activity)) || by.is_none() && !is_half(later) {
            continue;
        }
        // The name under which the device idles most, if it does so under what makes the host late.
        let under = by.map_or(Vec::new(), |by| keys_under(entries, by));
        let delta = |key: &LocalUse| entries.get(key).map_or(0, |b| b.time[0] - b.time[1]);
        let name = under.into_iter().filter(|key| delta(key) > 0).max_by_key(|key| (delta(key), *key));
        keys.iter().for_each(|key| _ = entries.remove(key));
        let both = LateAndTypical { time, count: [1; 2] };
        push(
            out,
            DelayCause::HostBehind(HostDelay { by, is_earlier }),
            name.map_or(StrId::EMPTY, |n| n.1),
            StrId::EMPTY,
            None,
            both,
        );
    }
}

fn keys_under(entries: &UseTimes, activity: HostActivity) -> Vec<LocalUse> {
    entries.keys().filter(|key| key.0 == TimeUse::Host(activity)).copied().collect()
}
