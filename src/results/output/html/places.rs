//! The map of a large job: what each rank cost the others, by host and place on the host, the most expensive
//! host first.

use crate::output::html::grid::{Cell, Grid};
use crate::output::html::texts::Texts;
use crate::results::{Results, ResultsError, columns};
use hta_analysis::efficiency::DelayCosts;
use hta_analysis::mesh::RankPlaces;
use hta_base::table;
use hta_base::table::schema::Text;
use hta_job::{HostSource, Hosts};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Fewest ranks for a map; the other sections show fewer ones by number.
const LEAST: usize = 16;

/// Largest number of hosts shown.
const HOSTS: usize = 256;

columns! {
    Cost of DelayCosts { rank, direct_ns: i64, propagated_ns: i64 }
}

columns! {
    Where of RankPlaces { rank, host: Option<Text>, device: Option<i64> }
}

table! {
    /// What ranks cost the others, by host.
    struct PlaceCosts, PlaceCostRow = "delay_cost" by "host, place" {
        host: Text, "", "host, or node of the job where hosts are not recorded";
        place: u32, "", "place on the host", "local rank";
        rank;
        cost_ns: i64, "ns", "waiting of others that the rank is charged with, direct and propagated";
    }
}

/// The ranks of a host, by place.
type Host = BTreeMap<u32, u32>;

/// # Errors
/// When a table is damaged.
pub(crate) fn map(results: &Results, texts: &mut Texts) -> Result<Option<Grid>, ResultsError> {
    let mut ranks: Vec<(u32, String, Option<i64>)> = Vec::new();
    results.read::<Where>(|r| {
        ranks.push((r.rank, r.host.unwrap_or("").to_string(), r.device));
    })?;
    let mut costs: BTreeMap<u32, i64> = BTreeMap::new();
    results.read::<Cost>(|r| *costs.entry(r.rank).or_default() += r.direct_ns + r.propagated_ns)?;
    if ranks.len() < LEAST || costs.values().all(|ns| *ns == 0) {
        return Ok(None);
    }
    let cost = |rank: &u32| costs.get(rank).copied().unwrap_or(0);
    let mut hosts: Vec<(i64, String, Host)> =
        hosts(ranks).into_iter().map(|(name, host)| (host.values().map(cost).sum(), name, host)).collect();
    hosts.sort_by_key(|(ns, ..)| Reverse(*ns));
    let mut costs_of = PlaceCosts::default();
    for (_, host, ranks) in hosts.iter().take(HOSTS) {
        for (place, rank) in ranks {
            costs_of.push(PlaceCostRow { host, place: *place, rank: *rank, cost_ns: cost(rank) });
        }
    }
    let mut grid = texts.grid(costs_of);
    let left: usize = hosts.iter().skip(HOSTS).map(|(_, _, host)| host.len()).sum();
    let sum: i64 = hosts.iter().skip(HOSTS).map(|(ns, ..)| ns).sum();
    grid.leave_out(left, vec![Cell::Nothing, Cell::Nothing, Cell::Nothing, sum.into()]);
    Ok(Some(grid))
}

/// The places of ranks (ascending) on their hosts. Where several ranks have the same host and place, as
/// without recorded host names, each has a node of its own.
fn hosts(ranks: Vec<(u32, String, Option<i64>)>) -> Vec<(String, Host)> {
    let mut out: BTreeMap<(String, usize), Host> = BTreeMap::new();
    let mut seen: BTreeMap<(String, u32), usize> = BTreeMap::new();
    let is_known = ranks.iter().all(|(_, host, _)| !host.is_empty());
    let source = if is_known { HostSource::Names } else { HostSource::Unknown };
    for (rank, host, place) in Hosts::at(source, ranks).places() {
        let host = host.unwrap_or_default().to_string();
        let node = seen.entry((host.clone(), place)).or_default();
        out.entry((host, *node)).or_default().insert(place, rank);
        *node += 1;
    }
    let several: std::collections::BTreeSet<String> =
        out.keys().filter(|(_, node)| *node > 0).map(|(host, _)| host.clone()).collect();
    let name = |(host, node): (String, usize)| match (host.is_empty(), several.contains(&host)) {
        (true, _) => format!("node {node}"),
        (false, true) => format!("{host} ({node})"),
        (false, false) => host,
    };
    out.into_iter().map(|(key, host)| (name(key), host)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_placed_by_host_and_device() {
        let rank = |r: u32, host: &str, device: Option<i64>| (r, host.to_string(), device);
        let two = |host: fn(u32) -> &'static str, device: fn(u32) -> Option<i64>| {
            let ranks = (0..4).map(|r| rank(r, host(r), device(r))).collect();
            hosts(ranks)
                .into_iter()
                .map(|(name, h)| (name, h.into_iter().collect::<Vec<_>>()))
                .collect::<Vec<_>>()
        };
        let named = |a: &str, b: &str| {
            vec![(a.to_string(), vec![(0, 0), (1, 1)]), (b.to_string(), vec![(0, 2), (1, 3)])]
        };
        assert_eq!(two(|r| if r < 2 { "a" } else { "b" }, |r| Some(i64::from(r % 2))), named("a", "b"));
        // Each process sees only its own device.
        assert_eq!(two(|r| if r < 2 { "a" } else { "b" }, |_| Some(0)), named("a", "b"));
        // Host names are not recorded.
        assert_eq!(two(|_| "", |r| Some(i64::from(r % 2))), named("node 0", "node 1"));
    }
}
