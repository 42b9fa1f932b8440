//! The tables of the fabric, and what is printed of them.

use crate::collectives::GroupSelection;
use crate::fabric::excess::{mean, quantile};
use crate::fabric::found::Fabric;
use crate::fabric::peaks::FabricPeaks;
use crate::fabric::places::{FabricPlace, Seat};
use crate::fabric::transfers::GroupTransfers;
use crate::fabric::verdict::{SlowPlaces, Visibility};
use hta_base::table;
use hta_base::table::rollup::Rollup;
use hta_base::table::schema::{Batch, Text};
use hta_base::table::view::{Keep, ViewSpec};
use hta_base::wording::ranks::rank_list;
use hta_job::Job;
use hta_job::delay::StepKey;

table! {
    /// One row per place that transfers pass: how far the groups of the job can see it, and whether it makes
    /// them slow.
    pub struct FabricPlaces, FabricPlaceRow = "fabric_places" by "kind, host, rail, to_host, to_rail" {
        kind: Text, "",
            "nic; link: between two NICs, or two GPUs of a host; gpu port: of a GPU to the switch of its \
             host; nvl: that switch; host: all NICs of a host; rail: the switch of all NICs with one local \
             rank";
        host: Option<Text>, "", "host, of a link that of its first end; null: a rail, or hosts are not known";
        rail: Option<u32>, "", "rail (local rank), of a link the one of its first end";
        rank: Option<u32>, "", "the rank that has it; of a link the rank at its first end";
        to_host: Option<Text>, "", "host of the second end of a link";
        to_rail: Option<u32>, "", "rail of the second end of a link";
        to_rank: Option<u32>, "", "rank at the second end of a link";
        visible: Text, "",
            "alone: no other place has the same groups; in set: others have; invisible: no group shows it";
        set_id: Option<u32>, "", "number of the set of places with the same groups";
        set_size: u32, "places", "places that cannot be told from it before anything is slow; 0: invisible";
        groups: u32, "groups", "groups that are evidence of it";
        factor: Option<f64>, "", "how many times slower than groups like them these are, over all steps",
            "times slower";
        gain: Option<f64>, "", "what it explains: groups x (ln factor)^2, without those explained already";
        p_value: Option<f64>, "", "of the slow groups, by chance in any place; null: not slow";
        verdict: Option<Text>, "",
            "named: this place is slow; in set: it, or another one of its set; late: groups are slow, in too \
             few steps to tell a place; null: not slow";
    }
}

table! {
    /// How many places of a kind the groups of the job can see.
    pub(crate) struct FabricVisibility, FabricVisibilityRow = "fabric_visibility" by "kind, visible" {
        kind: Text, "", "kind of place, as in fabric_places";
        visible: Text, "", "alone, in set or invisible, as in fabric_places";
        place_count: u64, "", "places", "places" => rows;
        set_size_min: u32, "places", "smallest set", "smallest set" => min(set_size);
        set_size_max: u32, "places", "largest set", "largest set" => max(set_size);
    }
}

table! {
    /// Groups that do the same, and which of them is slowest.
    pub(crate) struct FabricClasses, FabricClassRow = "fabric_classes"
        by "purpose, member_count, across_hosts, kind, size_least_bytes" {
        purpose: Text, "", "what the groups are for", "groups for";
        member_count: u32, "ranks", "members of each", "ranks";
        across_hosts: Option<bool>, "", "they span hosts; null: hosts are not known";
        kind: Text, "", "kind of collective; send_recv: messages";
        size_least_bytes: i64, "bytes", "power of two below the size", "size from";
        group_count: u32, "groups", "groups", "groups";
        bus_gb_per_s: Option<f64>, "GB/s", "bus bandwidth, median of groups and steps", "bus GB/s";
        slowest_factor: Option<f64>, "",
            "how many times slower the slowest group is than what is not slow, over all steps; null: fewer \
             than 3 groups", "times slower";
        slowest_ranks: Option<Text>, "", "ranks of that group", "slowest ranks";
    }
}

pub(super) const ROLLUPS: [Rollup; 1] = [Rollup::of(FabricPlaces::SPEC, FabricVisibility::SPEC)];

/// The view of slow places.
pub(super) const SLOW: &str = "Slow places";

pub(super) const VIEWS: [ViewSpec; 3] = [
    ViewSpec {
        title: "Places of the fabric that the groups of the job can see",
        columns: &["kind", "visible", "place_count", "set_size_min", "set_size_max"],
        ..ViewSpec::of(FabricVisibility::SPEC)
    },
    ViewSpec {
        title: "Transfers of groups that do the same",
        columns: &[
            "purpose",
            "kind",
            "size_least_bytes",
            "member_count",
            "group_count",
            "bus_gb_per_s",
            "slowest_factor",
            "slowest_ranks",
        ],
        ..ViewSpec::of(FabricClasses::SPEC)
    },
    ViewSpec {
        title: SLOW,
        columns: &[
            "kind", "host?", "rail?", "rank?", "to_host?", "to_rail?", "to_rank?", "factor", "p_value",
            "verdict",
        ],
        keep: &[Keep::Known("verdict")],
        by: "gain",
        ..ViewSpec::of(FabricPlaces::SPEC)
    },
];

table! {
    /// One row per group (of messages, per pair of ranks), kind, size and step: the middle transfer of its
    /// calls of 1 MiB and more, beside groups like it.
    pub struct FabricGroups, FabricGroupRow = "fabric_groups"
        by "purpose, member_count, across_hosts, kind, size_least_bytes, process_group, ranks, step" {
        purpose: Text, "", "what the group is for: its dimension, or else its description";
        member_count: u32, "ranks", "members";
        across_hosts: Option<bool>, "", "it spans hosts; null: hosts are not known";
        kind: Text, "", "kind of collective; send_recv: messages";
        size_least_bytes: i64, "bytes", "power of two below the size";
        process_group: Text, "", "name and members of the group";
        ranks: Text, "", "its ranks; of messages the two";
        step: Option<u32>, "", "index of the step in time, for steps without a number";
        step_label;
        call_count: u32, "calls", "calls that count";
        transfer_ns: i64, "ns", "transfer of the middle one";
        size_bytes: i64, "bytes", "size of that one";
        bus_gb_per_s: f64, "GB/s", "its bus bandwidth";
        z: Option<f64>, "",
            "ln of how many times slower it is than what is not slow in its class; null: fewer than 3 groups";
        peak_pct: Option<f64>, "%", "bus bandwidth, of the peak or of the group's own 90th percentile";
        peak_source: Option<Text>, "", "which peak";
    }
}

/// The two ends of a place, as far as it has some.
fn ends(place: FabricPlace) -> (Option<u32>, Option<u32>, Option<Seat>, Option<Seat>) {
    match place {
        FabricPlace::Nic(s) | FabricPlace::GpuPort(s) => (Some(s.host), Some(s.rail), Some(s), None),
        FabricPlace::Link(a, b) => (Some(a.host), Some(a.rail), Some(a), Some(b)),
        FabricPlace::Nvl(host) | FabricPlace::Host(host) => (Some(host), None, None, None),
        FabricPlace::Rail(rail) => (None, Some(rail), None, None),
    }
}

pub(crate) fn place_table(fabric: &Fabric) -> Batch {
    let mut table = FabricPlaces::default();
    let columns = &fabric.boundary;
    let mut rows: Vec<(usize, Visibility)> = columns.visible().into_iter().enumerate().collect();
    rows.sort_by_key(|(i, _)| columns.places.get(*i).map(|p| (p.kind(), *p)));
    let hosts = &fabric.hosts;
    for (i, visible) in rows {
        let (Some(place), Some(groups)) = (columns.places.get(i), columns.groups.get(i)) else { continue };
        let slow: Option<&SlowPlaces> = fabric.slow.iter().find(|s| s.places.contains(place));
        let (host, rail, from, to) = ends(*place);
        let name = |host: u32| Some(hosts.name(host)).filter(|_| hosts.is_known);
        let (host, to_host) = (host.and_then(name), to.and_then(|s| name(s.host)));
        let rail_of = |rail: Option<u32>| rail.filter(|_| hosts.is_known);
        let (set_id, set_size) = match visible {
            Visibility::Alone => (None, 1),
            Visibility::InSet(id, size) => (Some(id), size),
            Visibility::Invisible => (None, 0),
        };
        let factor = fabric.factor_of(groups);
        table.push(FabricPlaceRow {
            kind: place.kind(),
            host: host.as_deref(),
            rail: rail_of(rail),
            rank: from.and_then(|s| hosts.rank_at(s)),
            to_host: to_host.as_deref(),
            to_rail: rail_of(to.map(|s| s.rail)),
            to_rank: to.and_then(|s| hosts.rank_at(s)),
            visible: visible.name(),
            set_id,
            set_size,
            groups: groups.len() as u32,
            factor,
            gain: slow
                .map(|s| s.gain)
                .or_else(|| factor.map(|f| groups.len() as f64 * f.ln().max(0.0).powi(2))),
            p_value: slow.map(|s| s.p_value),
            verdict: slow.map(|s| s.verdict.name()),
        });
    }
    table.finish()
}

/// The classes, and in each the slowest group.
pub(crate) fn class_table(job: &Job, fabric: &Fabric) -> Batch {
    let mut table = FabricClasses::default();
    for (class, groups) in &fabric.transfers.classes {
        let z = fabric.compared.get(class).map(|c| c.z.as_slice()).unwrap_or_default();
        let middle = |z: &Vec<Option<f64>>| mean(z.iter().flatten().copied());
        let slowest = z.iter().enumerate().filter_map(|(i, z)| Some((i, middle(z)?)));
        let slowest = slowest.reduce(|a, b| if b.1 > a.1 { b } else { a });
        let rates =
            groups.iter().flat_map(|g| g.steps.iter().flatten().map(|t| g.bus_rate(*t, class.members)));
        let mut rates: Vec<f64> = rates.collect();
        rates.sort_by(f64::total_cmp);
        let ranks = slowest.and_then(|(i, _)| groups.get(i)).map(|g| rank_list(&g.link.ranks(job)));
        table.push(FabricClassRow {
            purpose: &class.purpose,
            member_count: class.members,
            across_hosts: class.spans,
            kind: class.kind,
            size_least_bytes: class.size_least(),
            group_count: groups.len() as u32,
            bus_gb_per_s: quantile(&rates, 0.5),
            slowest_factor: slowest.map(|(_, z)| z.exp()),
            slowest_ranks: ranks.as_deref(),
        });
    }
    table.finish()
}

pub(crate) fn group_table(job: &Job, fabric: &Fabric, shown: &GroupSelection, peaks: &FabricPeaks) -> Batch {
    let mut table = FabricGroups::default();
    for (class, groups) in &fabric.transfers.classes {
        let z = fabric.compared.get(class).map(|c| &c.z);
        let mut order: Vec<(usize, &GroupTransfers)> =
            groups.iter().enumerate().filter(|(_, g)| shown.has(g.link.group)).collect();
        order.sort_by_key(|(_, g)| (shown.name(g.link.group), g.link));
        for (i, group) in order {
            let ranks = group.link.ranks(job);
            let peak = peaks.of_group(&fabric.hosts, class, group, &ranks);
            for (k, transfer) in group.steps.iter().enumerate() {
                let (Some(transfer), Some(step)) = (transfer, fabric.transfers.steps.get(k)) else {
                    continue;
                };
                let z = z.and_then(|z| *z.get(i)?.get(k)?);
                let bus = group.bus_rate(*transfer, class.members);
                let (step, step_label) = StepKey::cells(Some(*step));
                table.push(FabricGroupRow {
                    purpose: &class.purpose,
                    member_count: class.members,
                    across_hosts: class.spans,
                    kind: class.kind,
                    size_least_bytes: class.size_least(),
                    process_group: shown.name(group.link.group),
                    ranks: &rank_list(&ranks),
                    step,
                    step_label,
                    call_count: transfer.calls,
                    transfer_ns: transfer.transfer,
                    size_bytes: transfer.bytes,
                    bus_gb_per_s: bus,
                    z,
                    peak_pct: peak.as_ref().map(|p| 100.0 * bus / p.gb_per_s),
                    peak_source: peak.as_ref().map(|p| p.source.as_str()),
                });
            }
        }
    }
    table.finish()
}
