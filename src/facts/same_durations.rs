//! Kernels of several names that all last equally long, which no device does: their durations were not
//! measured. Durations that are short beside the resolution of times are equal by chance, and replays of a
//! graph are left out: some recorders give each node the same time.

use hashbrown::HashMap;
use hta_base::units::Ns;
use hta_trace::activity::Activity;
use hta_trace::args::Arg;
use hta_trace::category::Class;
use hta_trace::launch::is_graph_launch;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;
use std::collections::BTreeMap;

/// Kernels of several names that all last equally long.
#[derive(Debug, Clone, Copy, Default)]
pub struct SameDurations {
    pub count: u64,
    pub names: u64,
    pub ns: Ns,
}

impl SameDurations {
    /// Shortest duration of which equal ones say something, as a multiple of the resolution of times.
    const LEAST: Ns = 100;
    /// Resolution of a device's times at best, and of old recorders, ns.
    const RESOLUTIONS: (Ns, Ns) = (32, 1_000);
    /// Fewest kernels of each of fewest names, and share of the kernels of a name, percent.
    const KERNELS: u64 = 10;
    const NAMES: u64 = 4;
    const SHARE_PCT: u64 = 90;

    pub fn of(trace: &RankTrace) -> Self {
        let c = &trace.columns;
        let is_graph = c.strings.each(is_graph_launch);
        let is_of_graph = |a: &Activity| {
            a.launch().is_some_and(|row| is_graph.holds(c.name(row as usize)))
                || c.args.uint(Arg::GraphNodeId, a.row).is_some()
        };
        let kernels = || trace.activities.iter().filter(|a| a.class == Class::Kernel);
        let is_old = kernels().all(|a| a.span.len() % Self::RESOLUTIONS.1 == 0);
        let least = Self::LEAST * if is_old { Self::RESOLUTIONS.1 } else { Self::RESOLUTIONS.0 };
        // By name: a duration that may be that of nearly all, by majority vote, and its votes.
        let mut votes: HashMap<StrId, (Ns, u64)> = HashMap::new();
        for a in kernels().filter(|a| a.span.len() >= least && !is_of_graph(a)) {
            let (ns, count) = votes.entry(a.name).or_insert((a.span.len(), 0));
            match (*ns == a.span.len(), *count) {
                (true, _) => *count += 1,
                (false, 0) => (*ns, *count) = (a.span.len(), 1),
                (false, _) => *count -= 1,
            }
        }
        // Where nine of ten are equal, eight of ten votes are left.
        votes.retain(|_, (_, count)| *count * 10 >= Self::KERNELS * 8);
        let mut durations: BTreeMap<Ns, u64> = BTreeMap::new();
        votes.values().for_each(|(ns, _)| *durations.entry(*ns).or_default() += 1);
        let Some((ns, _)) = durations.into_iter().filter(|(_, n)| *n >= Self::NAMES).max_by_key(|(_, n)| *n)
        else {
            return Self::default();
        };
        let mut names: HashMap<StrId, (u64, u64)> = HashMap::new();
        for a in kernels().filter(|a| votes.get(&a.name).is_some_and(|v| v.0 == ns) && !is_of_graph(a)) {
            let (same, all) = names.entry(a.name).or_default();
            *same += u64::from(a.span.len() == ns);
            *all += 1;
        }
        names.retain(|_, (same, all)| *same >= Self::KERNELS && *same * 100 >= *all * Self::SHARE_PCT);
        let count = names.values().map(|(same, _)| same).sum();
        Self { count, names: names.len() as u64, ns }
    }
}
