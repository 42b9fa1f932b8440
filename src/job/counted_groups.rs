//! Process groups whose names count up, of an engine that makes its groups in one order.
//!
//! torch numbers every group of the job, those of other ranks as well, so that the names of a rank's own
//! groups tell how many groups a dimension has. vLLM makes one for the devices and one for the hosts of each:
//!
//! ```text
//!   names     1 2    3 4    5 6    21 22    37 38    53 54    69 70       of a job of 8 ranks
//!   size      8      8      1      1        1        1        8
//!   groups    1      1      8      8        8        8        (unknown)
//!             world  tp     dcp    pcp      pp       dp       ep
//! ```

use crate::part::RankSummary;
use hta_trace::collective::Members;
use std::collections::BTreeMap;

/// The order in which vLLM makes its groups. Earlier versions have no groups for the context of prefills.
const OF_VLLM: [&str; 7] = [ALL_RANKS, "tp", "dcp", "pcp", "pp", "dp", "ep"];

/// The group of all ranks.
pub(crate) const ALL_RANKS: &str = "world";

/// The dimensions of a rank's groups without a description, by position among its groups.
pub(crate) fn counted(part: &RankSummary) -> BTreeMap<u32, &'static str> {
    names(part).unwrap_or_default()
}

fn names(part: &RankSummary) -> Option<BTreeMap<u32, &'static str>> {
    let world = part.program_size().filter(|_| part.is_vllm)?;
    let mut groups: Vec<(u32, u32, &Members)> = Vec::new();
    for (local, group) in (0..).zip(&part.calls.groups) {
        if let (None, Some(Ok(number))) = (group.description(), group.name.as_ref().map(|n| n.parse())) {
            groups.push((number, local, group.members.as_ref()?));
        }
    }
    groups.sort_unstable();
    let pairs: Vec<&[(u32, u32, &Members)]> = groups.chunks(2).collect();
    let is_pair = |p: &[(u32, u32, &Members)]| match p {
        [(a, _, of), (b, _, with)] => a.checked_add(1) == Some(*b) && of == with,
        _ => false,
    };
    // As many groups lie between two of the rank's own as the dimension of the first has.
    let is_whole = |w: &[&[(u32, u32, &Members)]]| match w {
        [[(a, _, of), ..], [(b, ..), ..]] => {
            let between = u64::from(b.saturating_sub(*a));
            between * of.len() as u64 == 2 * u64::from(world)
        }
        _ => false,
    };
    let order: Vec<&str> = match pairs.len() {
        7 => OF_VLLM.to_vec(),
        6 => OF_VLLM.into_iter().filter(|name| *name != "pcp").collect(),
        _ => return None,
    };
    if !pairs.iter().all(|p| is_pair(p)) || !pairs.windows(2).all(is_whole) {
        return None;
    }
    let named = pairs.iter().zip(order).flat_map(|(pair, name)| pair.iter().map(move |(_, l, _)| (*l, name)));
    Some(named.collect())
}
