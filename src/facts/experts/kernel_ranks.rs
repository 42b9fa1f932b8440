//! How many ranks exchange tokens, from the names of DeepEP's kernels, which are compiled for that number.
//!
//! ```text
//!   internode::dispatch<false, 8, true, 8>     low latency, hosts ...      8 hosts of 8 ranks
//!   intranode::dispatch<4, 768>                ranks ...                   4 ranks of one host
//!   intranode::combine<__nv_bfloat16, 4, 768>  type, ranks ...
//! ```

use hta_trace::rank_trace::RankTrace;
use regex::Regex;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// Ranks that exchange tokens with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KernelRanks {
    pub hosts: u32,
    pub per_host: u32,
}

impl KernelRanks {
    pub fn ranks(self) -> u32 {
        self.hosts.saturating_mul(self.per_host)
    }
}

/// Ranks of a host in the kernels between hosts (`NUM_MAX_NVL_PEERS`).
const OF_HOST: u32 = 8;

static BETWEEN_HOSTS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let first = r"(?-u:\b)internode::(?:notify_dispatch|dispatch|combine)<(?:true|false|\(bool\)[01]), *";
    Regex::new(&format!(r"{first}(?:\(int\))?([0-9]+)")).ok()
});

static ON_HOST: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?-u:\b)intranode::(?:(?:notify_dispatch|dispatch)<|combine<[^,<>]+, *)(?:\(int\))?([0-9]+)")
        .ok()
});

fn of_name(name: &str) -> Option<KernelRanks> {
    let number = |pattern: &LazyLock<Option<Regex>>| -> Option<u32> {
        pattern.as_ref()?.captures(name)?.get(1)?.as_str().parse().ok().filter(|n| *n > 0)
    };
    if !name.contains("tranode::") && !name.contains("ternode::") {
        return None;
    }
    let between = number(&BETWEEN_HOSTS).map(|hosts| KernelRanks { hosts, per_host: OF_HOST });
    between.or_else(|| number(&ON_HOST).map(|per_host| KernelRanks { hosts: 1, per_host }))
}

/// The ranks that the kernels of a rank are made for; `None` if none says it, or they are made for several.
pub fn kernel_ranks(trace: &RankTrace) -> Option<KernelRanks> {
    let said: BTreeSet<KernelRanks> =
        trace.columns.strings.iter().filter_map(|(_, name)| of_name(name)).collect();
    said.first().copied().filter(|_| said.len() == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_kernels_say_how_many_ranks_they_are_made_for() {
        let of = |name| of_name(name).map(|k| (k.hosts, k.per_host));
        assert_eq!(of("void dpsk::ep::internode::dispatch<false, 8, true, 8>(int4*, float*)"), Some((8, 8)));
        assert_eq!(of("void dpsk::ep::internode::combine<false, 4, __nv_bfloat16, 1>(x)"), Some((4, 8)));
        assert_eq!(of("void deep_ep::internode::notify_dispatch<false, 2>(x)"), Some((2, 8)));
        assert_eq!(of("void deep_ep::intranode::dispatch<4, 768, 8192>(int4*)"), Some((1, 4)));
        assert_eq!(of("void deep_ep::intranode::combine<__nv_bfloat16, 8, 768>(x)"), Some((1, 8)));
        assert_eq!(of("void deep_ep::internode::cached_notify<false>(x)"), None);
        assert_eq!(of("void deep_ep::internode_ll::dispatch<true, 3>(x)"), None);
    }
}
