//! The rule on simulated jobs with a known slow place: 8 hosts with 8 GPUs and NICs each.
//!
//! A transfer has 6 % noise, and a lasting offset of 3 % that is its group's own; in half of the jobs 5 % of
//! the transfers take 22 to 123 % longer. All numbers are drawn with fixed seeds.

use super::excess;
use super::places::{FabricPlace, PathModel, Seat, Traffic, columns, path};
use super::rule::FabricEvidence;
use super::verdict::{FabricColumns, PlaceVerdict, SlowPlaces, judge};
use crate::random::below;

/// Random numbers of one job.
struct Draws(u64);

impl Draws {
    fn uniform(&mut self) -> f64 {
        (below(&mut self.0, 1 << 52) as f64 + 0.5) / (1u64 << 52) as f64
    }

    fn normal(&mut self) -> f64 {
        let (a, b) = (self.uniform(), self.uniform());
        (-2.0 * a.ln()).sqrt() * (2.0 * std::f64::consts::PI * b).cos()
    }
}

/// Class, members and traffic of each group.
type SimulatedJob = Vec<(u32, Vec<Seat>, Traffic)>;

fn seats(ranks: impl Iterator<Item = u32>) -> Vec<Seat> {
    ranks.map(|r| Seat { host: r / 8, rail: r % 8 }).collect()
}

/// Rings of tensor and data parallelism, and messages between the stages of a pipeline.
fn mesh(tp: u32, dp: u32, pp: u32) -> SimulatedJob {
    let mut groups: SimulatedJob = Vec::new();
    for stage in 0..pp {
        let first = stage * tp * dp;
        groups.extend((0..dp).map(|d| (0, seats((0..tp).map(|t| first + d * tp + t)), Traffic::Ring)));
        groups.extend((0..tp).map(|t| (1, seats((0..dp).map(|d| first + d * tp + t)), Traffic::Ring)));
        let next = (stage + 1 < pp).then_some(tp * dp).into_iter();
        let pair = |to: u32, i: u32| (2, seats([first + i, first + to + i].into_iter()), Traffic::Ring);
        groups.extend(next.flat_map(|to| (0..tp * dp).map(move |i| (to, i))).map(|(to, i)| pair(to, i)));
    }
    groups.retain(|(_, members, _)| members.len() > 1);
    groups
}

/// Shards inside hosts, replicas across them, and experts on two hosts each.
fn experts() -> SimulatedJob {
    let mut groups: SimulatedJob = Vec::new();
    groups.extend((0..8).map(|h| (0, seats(h * 8..h * 8 + 8), Traffic::Ring)));
    groups.extend((0..8).map(|r| (1, seats((0..8).map(|h| h * 8 + r)), Traffic::Ring)));
    groups.extend((0..4).map(|e| (2, seats(e * 16..e * 16 + 16), Traffic::AllToAll)));
    groups
}

#[derive(Clone, Copy, PartialEq)]
enum Noise {
    Normal,
    /// With bursts in every second job.
    Half,
    Bursts,
    /// What is slow in a step is nearly as slow in the next one.
    Lasting,
}

/// What is planted: the slow place, how many times slower, and the model of paths that is true.
type Plant = Option<(FabricPlace, f64, PathModel)>;

fn transfers(job: &SimulatedJob, plant: Plant, steps: usize, noise: Noise, n: u64) -> FabricEvidence {
    let mut draws = Draws(n.wrapping_mul(7919) + 17);
    let has_bursts = noise == Noise::Bursts || (noise == Noise::Half && n % 2 == 1);
    let mut of_group = |(class, members, traffic): &(u32, Vec<Seat>, Traffic)| -> Vec<Option<f64>> {
        let slow = plant.filter(|(place, _, model)| path(members, *traffic, *model).contains(place));
        let level = f64::from(*class) + slow.map_or(0.0, |(_, factor, _)| factor.ln());
        let (offset, mut state) = (0.03 * draws.normal(), 0.08 * draws.normal());
        let mut step = || {
            let noise = match noise {
                Noise::Lasting => {
                    state = 0.7 * state + 0.08 * 0.51_f64.sqrt() * draws.normal();
                    state
                }
                _ => offset + 0.06 * draws.normal(),
            };
            let burst = if has_bursts && draws.uniform() < 0.05 { 0.22 + draws.uniform() } else { 0.0 };
            Some(level + noise + (1.0 + burst).ln())
        };
        (0..steps).map(|_| step()).collect()
    };
    let y: Vec<Vec<Option<f64>>> = job.iter().map(&mut of_group).collect();
    let mut evidence = FabricEvidence { z: vec![Vec::new(); job.len()], class: Vec::new() };
    evidence.class = job.iter().map(|(class, ..)| *class).collect();
    for class in 0..3 {
        let own: Vec<usize> = (0..job.len()).filter(|g| job[*g].0 == class).collect();
        let (z, _) = excess::of_class(&own.iter().map(|g| y[*g].clone()).collect::<Vec<_>>());
        own.into_iter().zip(z).for_each(|(g, z)| evidence.z[g] = z);
    }
    evidence
}

fn columns_of(job: &SimulatedJob, evidence: &FabricEvidence, model: PathModel) -> FabricColumns {
    let groups: Vec<(Vec<Seat>, Traffic)> = job.iter().map(|(_, m, t)| (m.clone(), *t)).collect();
    FabricColumns::new(columns(&groups, model), evidence)
}

fn found(job: &SimulatedJob, evidence: &FabricEvidence, by_both: bool) -> Vec<SlowPlaces> {
    let boundary = columns_of(job, evidence, PathModel::Boundary);
    let all = by_both.then(|| columns_of(job, evidence, PathModel::AllNics));
    judge(evidence, &boundary, all.as_ref())
}

/// How often a planted place is named, is in a set, another one is told, and nothing is.
#[derive(Debug, Default, PartialEq)]
struct Rates {
    named: u32,
    in_set: u32,
    wrong: u32,
    missed: u32,
}

fn rates(job: &SimulatedJob, kind: &str, truth: PathModel, by_both: bool) -> Rates {
    let groups: Vec<(Vec<Seat>, Traffic)> = job.iter().map(|(_, m, t)| (m.clone(), *t)).collect();
    let places = columns(&groups, truth).into_iter().map(|(place, _)| place);
    let places: Vec<FabricPlace> = places.filter(|p| p.kind() == kind).collect();
    let mut rates = Rates::default();
    for n in 0..48 {
        let place = places[below(&mut (n + 1), places.len())];
        let evidence = transfers(job, Some((place, 1.5, truth)), 10, Noise::Half, n);
        match found(job, &evidence, by_both).first() {
            None => rates.missed += 1,
            Some(slow) if !slow.places.contains(&place) => rates.wrong += 1,
            Some(slow) if slow.verdict == PlaceVerdict::Named => rates.named += 1,
            Some(_) => rates.in_set += 1,
        }
    }
    rates
}

fn alarms(job: &SimulatedJob, noise: Noise, steps: usize) -> u32 {
    let is_alarm = |n: &u64| !found(job, &transfers(job, None, steps, noise, 1000 + n), false).is_empty();
    (0..192).filter(is_alarm).count() as u32
}

#[test]
fn a_nic_a_host_and_a_rail_are_named_where_groups_cross() {
    for job in [mesh(8, 4, 2), mesh(4, 4, 4)] {
        for kind in ["nic", "host", "rail"] {
            let rates = rates(&job, kind, PathModel::Boundary, false);
            assert!(rates.named >= 45 && rates.wrong == 0, "{kind}: {rates:?}");
        }
    }
}

/// Half of the rings of its stages pass a host, which makes their spread look larger than it is.
#[test]
fn a_host_that_is_a_little_slow_is_named_by_all_of_its_links() {
    let job = mesh(8, 4, 2);
    for noise in [Noise::Normal, Noise::Bursts] {
        let is_named = |n: &u64| {
            let host = FabricPlace::Host((n % 8) as u32);
            let evidence = transfers(&job, Some((host, 1.3, PathModel::Boundary)), 10, noise, *n);
            let slow = found(&job, &evidence, false);
            slow.first().is_some_and(|s| s.verdict == PlaceVerdict::Named && s.places.iter().eq([&host]))
        };
        assert!((0..48).filter(is_named).count() >= 45);
    }
}

/// One ring carries all of a rail: its switch, 8 NICs and 8 links look the same.
#[test]
fn what_the_same_groups_pass_is_a_set() {
    let job = mesh(8, 8, 1);
    for kind in ["nic", "rail"] {
        let rates = rates(&job, kind, PathModel::Boundary, false);
        assert!(rates.named == 0 && rates.in_set >= 45 && rates.wrong == 0, "{kind}: {rates:?}");
    }
    let evidence =
        transfers(&job, Some((FabricPlace::Rail(2), 2.0, PathModel::Boundary)), 10, Noise::Half, 5);
    let slow = found(&job, &evidence, false);
    assert_eq!((slow.len(), slow[0].places.len()), (1, 17));
    assert_eq!((slow[0].around, slow[0].verdict), (Some(FabricPlace::Rail(2)), PlaceVerdict::InSet));
    // A host covers all rings, so nothing is left to compare it with.
    let rates = rates(&job, "host", PathModel::Boundary, false);
    assert_eq!(rates, Rates { missed: 48, ..Rates::default() });
}

/// Two hosts of one group of experts: a NIC looks the same as the one of its rail on the other host.
#[test]
fn a_nic_behind_experts_is_one_of_two() {
    let rates = rates(&experts(), "nic", PathModel::Boundary, false);
    assert!(rates.in_set >= 45 && rates.named + rates.wrong == 0, "{rates:?}");
}

#[test]
fn without_a_fault_hardly_any_place_is_told() {
    for job in [mesh(8, 8, 1), mesh(8, 4, 2), mesh(4, 4, 4), experts()] {
        for noise in [Noise::Normal, Noise::Bursts] {
            assert!(alarms(&job, noise, 10) <= 3, "of 192");
        }
        // 7 % of 192 jobs.
        assert!(alarms(&job, Noise::Lasting, 10) <= 13);
    }
}

#[test]
fn few_steps_tell_no_place() {
    let job = mesh(8, 4, 2);
    let place = FabricPlace::Nic(Seat { host: 5, rail: 3 });
    for (steps, verdict) in [(9, PlaceVerdict::Late), (10, PlaceVerdict::Named)] {
        let evidence = transfers(&job, Some((place, 2.0, PathModel::Boundary)), steps, Noise::Half, 2);
        let slow = found(&job, &evidence, false);
        assert_eq!(slow.iter().map(|s| s.verdict).collect::<Vec<_>>(), [verdict]);
        assert!((1.8..2.2).contains(&slow[0].factor), "{}", slow[0].factor);
    }
}

/// Four members of each ring are on one host: rings may enter it by one NIC or by all four.
#[test]
fn what_only_one_model_of_paths_names_is_not_named() {
    let job = mesh(2, 8, 4);
    for truth in [PathModel::Boundary, PathModel::AllNics] {
        for kind in ["nic", "host", "rail"] {
            let rates = rates(&job, kind, truth, true);
            assert!(rates.wrong == 0 && rates.missed <= 2, "{kind} {truth:?}: {rates:?}");
        }
    }
}
