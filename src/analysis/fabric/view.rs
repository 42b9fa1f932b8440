//! What is printed of the fabric: first what the groups can see, then their transfers, and what is slow.

use crate::api::{Align, Certainty, Observation, Options, Partial, View};
use crate::fabric::excess::{mean, quantile};
use crate::fabric::found::Fabric;
use crate::fabric::verdict::{PlaceVerdict, STEPS_LEAST, SlowPlaces, Visibility};
use crate::job::Job;
use crate::population::reasons;
use hta_base::units::fmt_bytes;
use hta_base::wording::counts::{capital, plural};
use hta_base::wording::ranks::ranks_in_column;
use std::collections::{BTreeMap, BTreeSet};

/// What places of one kind can be seen as.
#[derive(Default)]
struct SeenPlaces {
    all: u32,
    alone: u32,
    invisible: u32,
    in_sets: u32,
    /// Sizes of sets.
    sizes: BTreeSet<u32>,
}

pub(crate) fn visibility_view(fabric: &Fabric, partials: &[Partial]) -> View {
    let mut kinds: BTreeMap<&'static str, SeenPlaces> = BTreeMap::new();
    for (place, visible) in fabric.boundary.places.iter().zip(fabric.boundary.visible()) {
        let seen = kinds.entry(place.kind()).or_default();
        seen.all += 1;
        match visible {
            Visibility::Alone => seen.alone += 1,
            Visibility::Invisible => seen.invisible += 1,
            Visibility::InSet(_, size) => {
                seen.in_sets += 1;
                seen.sizes.insert(size);
            }
        }
    }
    let row = |(kind, seen): (&str, SeenPlaces)| {
        let sizes = match (seen.sizes.first(), seen.sizes.last()) {
            (Some(a), Some(b)) if a == b => format!("{} (sets of {a})", seen.in_sets),
            (Some(a), Some(b)) => format!("{} (sets of {a} to {b})", seen.in_sets),
            _ => "0".to_string(),
        };
        let of = [seen.all, seen.alone].map(|n| n.to_string());
        vec![kind.to_string(), of[0].clone(), of[1].clone(), sizes, seen.invisible.to_string()]
    };
    let mut view = View {
        title: "Places of the fabric that the groups of the job can see".to_string(),
        columns: vec![
            ("kind", Align::Left),
            ("places", Align::Right),
            ("alone", Align::Right),
            ("in a set", Align::Right),
            ("invisible", Align::Right),
        ],
        rows: kinds.into_iter().map(row).collect(),
        notes: reasons(partials),
    };
    view.notes.extend(limits(fabric));
    view
}

/// What keeps places from being seen.
fn limits(fabric: &Fabric) -> Vec<String> {
    let mut out = Vec::new();
    if fabric.groups.is_empty() {
        out.push(
            "no place can be told: no transfer of 1 MiB or more among ranks that are all recorded, on devices"
                .to_string(),
        );
        return out;
    }
    if fabric.groups.iter().all(|g| g.factor.is_none()) {
        out.push(format!(
            "no place can be told: {} without peers; at least 3 groups that do the same are compared",
            plural(fabric.groups.len(), "group")
        ));
    }
    if !fabric.hosts.is_known {
        out.push(
            "hosts are not recorded: only the port of a rank and the link between two can be told"
                .to_string(),
        );
    }
    let steps = fabric.transfers.steps.len();
    if steps < STEPS_LEAST {
        out.push(format!("a place is named from {STEPS_LEAST} steps on; {} recorded", plural(steps, "step")));
    }
    out
}

/// The classes, and in each the slowest group.
pub(crate) fn class_view(job: &Job, fabric: &Fabric, options: &Options) -> View {
    let mut view = View {
        title: "Transfers of groups that do the same".to_string(),
        columns: vec![
            ("groups for", Align::Left),
            ("kind", Align::Left),
            ("size from", Align::Right),
            ("ranks", Align::Right),
            ("groups", Align::Right),
            ("bus GB/s", Align::Right),
            ("slowest", Align::Right),
            ("of ranks", Align::Left),
        ],
        rows: Vec::new(),
        notes: Vec::new(),
    };
    for (class, groups) in fabric.transfers.classes.iter().take(options.top) {
        let z = fabric.compared.get(class).map(|c| c.z.as_slice()).unwrap_or_default();
        let middle = |z: &Vec<Option<f64>>| mean(z.iter().flatten().copied());
        let slowest = z.iter().enumerate().filter_map(|(i, z)| Some((i, middle(z)?)));
        let slowest = slowest.reduce(|a, b| if b.1 > a.1 { b } else { a });
        let rates =
            groups.iter().flat_map(|g| g.steps.iter().flatten().map(|t| g.bus_rate(*t, class.members)));
        let mut rates: Vec<f64> = rates.collect();
        rates.sort_by(f64::total_cmp);
        let rate = quantile(&rates, 0.5);
        let ranks = slowest.and_then(|(i, _)| groups.get(i)).map(|g| g.link.ranks(job));
        view.rows.push(vec![
            class.purpose.clone(),
            class.kind.to_string(),
            fmt_bytes(class.size_least() as u64),
            class.members.to_string(),
            groups.len().to_string(),
            rate.map_or_else(|| "-".to_string(), |rate| format!("{rate:.1}")),
            slowest.map_or_else(|| "-".to_string(), |(_, z)| format!("{:.2} x", z.exp())),
            ranks.map_or_else(String::new, |r| ranks_in_column(&r)),
        ]);
    }
    if fabric.transfers.classes.len() > options.top {
        let more = fabric.transfers.classes.len() - options.top;
        view.notes.push(format!("{} in the table fabric_groups", plural(more, "more kind")));
    }
    view
}

/// What is slow.
pub(crate) fn slow_view(fabric: &Fabric) -> Option<View> {
    let mut notes = Vec::new();
    for slow in &fabric.slow {
        notes.push(format!("{}.", fabric.sentence(slow)));
        if slow.is_lasting {
            notes.push(
                "Slowness lasts from step to step by itself here: with fewer than 30 steps this is less sure."
                    .to_string(),
            );
        }
        notes.push(format!("do: {}", fabric.action(slow)));
    }
    let is_seen = fabric.groups.iter().any(|g| g.factor.is_some());
    if notes.is_empty() && is_seen {
        notes.push("no place is slower than chance makes some".to_string());
    }
    (!notes.is_empty()).then(|| View {
        title: "Slow places".to_string(),
        columns: Vec::new(),
        rows: Vec::new(),
        notes,
    })
}

pub(crate) fn observations(fabric: &Fabric) -> Vec<Observation> {
    let one = |slow: &SlowPlaces| {
        let groups = slow.groups.iter().filter_map(|g| fabric.groups.get(*g as usize));
        let ranks: BTreeSet<u32> = groups.flat_map(|g| g.ranks.iter().copied()).collect();
        Observation {
            analysis: "fabric",
            ranks: ranks.into_iter().collect(),
            steps: Vec::new(),
            cost_ns_per_step: fabric.excess_per_step(slow),
            share_of_step: None,
            certainty: match slow.verdict {
                PlaceVerdict::Named if !slow.is_lasting => Certainty::Measured,
                _ => Certainty::Inferred,
            },
            sentence: format!("{}.", capital(&fabric.sentence(slow))),
            table: "fabric_places",
        }
    };
    fabric.slow.iter().map(one).collect()
}
