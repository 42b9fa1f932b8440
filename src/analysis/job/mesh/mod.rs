//! The mesh of a job: along which dimensions (tensor, pipeline, data, expert parallel) its process groups cut
//! the ranks.
//!
//! ```text
//!   groups of one description    ->  factors      {0, 1}, {2, 3}: 2 ranks at distance 1
//!   factors of all descriptions  ->  atoms        the finest division that explains all
//!   atoms that a description is  ->  names        coordinate of a rank = (rank / stride) mod size
//! ```
//!
//! Groups whose members are no such product, or that leave out ranks, are listed and used for nothing. A
//! dimension without a description has the name that its calls suggest, which is never sure.

mod cuts;
mod hosts;
mod names;
mod usage;

pub use hosts::Hosts;

use crate::job::families::{Factor, FamilyKey, GroupFactors, GroupFamily, factors, families};
use crate::job::matching::Matched;
use crate::job::mesh::cuts::{CutBy, atoms, atoms_of};
use crate::job::mesh::names::{GroupName, group_name};
use crate::job::mesh::usage::{Usage, usages};
use crate::job::part::RankSummary;
use hta_base::wording::ranks::ranks_named;
use hta_trace::collective::Members;
use std::collections::BTreeSet;

/// What a family of groups is in the mesh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FamilyState {
    /// A set of atoms.
    Regular,
    /// One rank a group.
    Single,
    /// Its members are no product of regular steps, or do not begin where such a product does.
    Irregular,
    /// Ranks are in none of its groups.
    Partial,
    /// It contradicts families with more calls.
    Contradicted,
}

/// The groups of one description, or of one shape without a description.
#[derive(Debug, Clone)]
pub struct MeshFamily {
    /// The description, empty if there is none.
    pub(crate) description: String,
    /// Its dimension in words: `tp`, `dp x cp`.
    pub(crate) name: Option<String>,
    pub(crate) factors: GroupFactors,
    /// Ranks of a group.
    pub(crate) size: u32,
    /// Positions of its atoms, smallest stride first.
    pub(crate) atoms: Vec<usize>,
    pub(crate) state: FamilyState,
    pub(crate) usage: Usage,
    /// Whether its name is taken from its use.
    pub(crate) is_by_use: bool,
    /// The recorded member lists.
    pub(crate) groups: Vec<Members>,
}

/// One dimension of the finest division.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Atom {
    /// All names that it has, the one that is shown first; none if nothing tells.
    pub(crate) names: Vec<String>,
    pub(crate) size: u32,
    pub(crate) stride: u32,
}

impl Atom {
    /// The coordinate of a rank.
    pub(crate) fn coordinate(&self, rank: u32) -> u32 {
        rank.checked_div(self.stride).and_then(|r| r.checked_rem(self.size)).unwrap_or(0)
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.names.first().map(String::as_str)
    }
}

/// The finest division of the ranks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Coordinates {
    /// Ranks of the job.
    world: u32,
    /// Smallest stride first; empty if the groups are no mesh.
    pub(crate) atoms: Vec<Atom>,
}

impl Coordinates {
    /// The named coordinates that all of these ranks share, outermost first, if they are all ranks that have
    /// them: `dp 2, pp 1` of one rank, `dp 1` of a tensor-parallel group. `None` for a job of one dimension,
    /// where a coordinate is the rank.
    pub(crate) fn label_of(&self, ranks: &[u32]) -> Option<String> {
        let (first, others) = ranks.split_first()?;
        if self.atoms.len() < 2 {
            return None;
        }
        let is_shared = |a: &&Atom| others.iter().all(|r| a.coordinate(*r) == a.coordinate(*first));
        let shared: Vec<&Atom> = self.atoms.iter().filter(is_shared).collect();
        let count: u32 = shared.iter().map(|a| a.size).product();
        let is_whole = self.world.checked_div(count).is_some_and(|n| n as usize == ranks.len());
        let named =
            shared.iter().rev().filter_map(|a| Some(format!("{} {}", a.name()?, a.coordinate(*first))));
        let text = named.collect::<Vec<_>>().join(", ");
        (is_whole && !text.is_empty()).then_some(text)
    }

    /// Ranks in words, with what they share: `rank 9 (dp 2, pp 1)`, `ranks 4-7 (dp 1)`.
    pub(crate) fn named(&self, ranks: &[u32]) -> String {
        let label = self.label_of(ranks).map_or(String::new(), |label| format!(" ({label})"));
        format!("{}{label}", ranks_named(ranks))
    }
}

/// The dimensions of a job, and where its ranks are in them.
#[derive(Debug, Clone, Default)]
pub struct Mesh {
    pub(crate) coordinates: Coordinates,
    pub(crate) families: Vec<MeshFamily>,
    pub(crate) hosts: Hosts,
    /// By group of the job, its family.
    of_group: Vec<Option<usize>>,
}

impl Mesh {
    pub(crate) fn new(parts: &[RankSummary], matched: &Matched) -> Self {
        let world = world(parts);
        let hosts = Hosts::new(parts);
        // Programs of several roles have meshes of their own.
        let known = if parts.iter().any(|p| p.role.is_some()) { Vec::new() } else { families(parts) };
        let usages = usages(parts, &known, &hosts);
        let mut families: Vec<MeshFamily> =
            known.iter().zip(usages).map(|(f, usage)| family(parts, f, usage, world)).collect();
        let atoms = named_atoms(world, &mut families);
        let of_group = matched.groups.iter().map(|g| {
            let members = g.members.as_ref()?;
            let fits = |f: &&MeshFamily| f.groups.binary_search(members).is_ok();
            let described = |f: &MeshFamily| g.desc.as_deref() == Some(&f.description);
            let positions = || families.iter().enumerate().filter(|(_, f)| fits(f));
            positions().find(|(_, f)| described(f)).or_else(|| positions().next()).map(|(i, _)| i)
        });
        let of_group = of_group.collect();
        Self { coordinates: Coordinates { world, atoms }, families, hosts, of_group }
    }

    /// The position of a rank along a dimension, counted from 0.
    pub(crate) fn coordinate(&self, rank: u32, dimension: &str) -> Option<u32> {
        let atom = self.coordinates.atoms.iter().find(|a| a.names.iter().any(|n| n == dimension))?;
        Some(atom.coordinate(rank))
    }

    /// The dimensions of a group of the job in words: `pp`, `dp x cp`.
    pub(crate) fn dimension_of(&self, group: u32) -> Option<&str> {
        self.families.get((*self.of_group.get(group as usize)?)?)?.name.as_deref()
    }

    /// [`Coordinates::label_of`] one rank.
    pub(crate) fn label(&self, rank: u32) -> Option<String> {
        self.coordinates.label_of(&[rank])
    }

    /// [`Coordinates::named`].
    pub(crate) fn named(&self, ranks: &[u32]) -> String {
        self.coordinates.named(ranks)
    }
}

/// Ranks of the job: as the files say, and no fewer than are named anywhere.
fn world(parts: &[RankSummary]) -> u32 {
    let said = parts.iter().filter_map(|p| p.world).max();
    said.or_else(|| parts.iter().map(|p| p.rank.saturating_add(1)).max()).unwrap_or(0)
}

fn family(parts: &[RankSummary], family: &GroupFamily, usage: Usage, world: u32) -> MeshFamily {
    let description = match &family.key {
        FamilyKey::Described(text) => text.clone(),
        FamilyKey::Shaped(_) | FamilyKey::Irregular(_) => String::new(),
    };
    // Groups of the two ends of each message are joined to the pipelines that they are links of.
    let chains = if usage.dimension == Some("pp") { chains(&family.groups) } else { family.groups.clone() };
    let mut shapes = chains.iter().map(factors);
    let first = shapes.next().flatten();
    let is_aligned = |m: &Members| {
        let start = m.get(0).unwrap_or(0);
        let at_origin = |f: &Factor| start.checked_div(f.stride).is_some_and(|s| s.is_multiple_of(f.size));
        first.iter().flatten().all(at_origin)
    };
    let ranks: u64 = chains.iter().map(|m| m.len() as u64).sum();
    let is_regular = first.is_some() && shapes.all(|s| s == first) && chains.iter().all(is_aligned);
    let size = chains.first().map_or(0, |m| m.len() as u32);
    let all_recorded = parts.len() as u64 == u64::from(world);
    let state = match () {
        () if group_name(&description) == GroupName::Ends || all_recorded && ranks < u64::from(world) => {
            FamilyState::Partial
        }
        () if !is_regular || ranks > u64::from(world) || !world.is_multiple_of(size.max(1)) => {
            FamilyState::Irregular
        }
        () if size < 2 => FamilyState::Single,
        () => FamilyState::Regular,
    };
    MeshFamily {
        description,
        name: None,
        factors: first.filter(|_| is_regular).unwrap_or_default(),
        size,
        atoms: Vec::new(),
        state,
        usage,
        is_by_use: false,
        groups: family.groups.clone(),
    }
}

/// Groups that share ranks, joined: `{0, 1}, {1, 2}, {2, 3}` are one chain.
fn chains(groups: &[Members]) -> Vec<Members> {
    let mut joined: Vec<BTreeSet<u32>> = Vec::new();
    for group in groups {
        let mut ranks: BTreeSet<u32> = group.iter().collect();
        let (touching, apart) = joined.into_iter().partition(|j| j.iter().any(|r| ranks.contains(r)));
        let touching: Vec<BTreeSet<u32>> = touching;
        joined = apart;
        ranks.extend(touching.into_iter().flatten());
        joined.push(ranks);
    }
    let mut chains: Vec<Members> =
        joined.into_iter().map(|j| Members::listed(j.into_iter().collect())).collect();
    chains.sort_unstable();
    chains
}

/// Order in which one of several names of a dimension is shown.
const PREFERRED: [&str; 7] = ["pp", "tp", "dp", "dp_replicate", "dp_shard", "cp", "ep"];

/// Divides the ranks by the regular families, and names what it can; the families get their atoms and names.
fn named_atoms(world: u32, families: &mut [MeshFamily]) -> Vec<Atom> {
    let regular: Vec<usize> =
        (0..families.len()).filter(|i| families[*i].state == FamilyState::Regular).collect();
    if regular.is_empty() {
        return Vec::new();
    }
    let cut = |i: &usize| CutBy { factors: families[*i].factors.clone(), calls: families[*i].usage.calls };
    let found = atoms(world, &regular.iter().map(cut).collect::<Vec<_>>());
    for dropped in &found.dropped {
        families[regular[*dropped]].state = FamilyState::Contradicted;
    }
    let mut named: Vec<Atom> =
        found.atoms.iter().map(|a| Atom { names: Vec::new(), size: a.size, stride: a.stride }).collect();
    let is_kept = |f: &&mut MeshFamily| f.state == FamilyState::Regular;
    for f in families.iter_mut().filter(is_kept) {
        f.atoms = atoms_of(&f.factors, &found.atoms);
        if let (GroupName::Dimension(name), [atom]) = (group_name(&f.description), &f.atoms[..]) {
            add(&mut named[*atom], name);
        }
    }
    name_rests(families, &mut named);
    name_by_use(families, &mut named);
    for f in families.iter_mut().filter(is_kept) {
        f.name = match group_name(&f.description) {
            GroupName::Dimension(name) => Some(name.to_string()),
            GroupName::Ends => None,
            GroupName::Product(_) | GroupName::Default | GroupName::Nameless => product_of(&f.atoms, &named),
        };
    }
    named
}

fn add(atom: &mut Atom, name: &str) {
    if !atom.names.iter().any(|n| n == name) {
        atom.names.push(name.to_string());
    }
    let place = |n: &String| PREFERRED.iter().position(|p| p == n).unwrap_or(PREFERRED.len());
    atom.names.sort_by_key(place);
}

/// Names the one atom of a product that has no name yet: `dp_shard x cp` without `cp` is `dp_shard`.
fn name_rests(families: &[MeshFamily], atoms: &mut [Atom]) {
    for f in families.iter().filter(|f| f.state == FamilyState::Regular) {
        let GroupName::Product(names) = group_name(&f.description) else { continue };
        let is_named = |name: &str| atoms.iter().any(|a| a.names.iter().any(|n| n == name));
        let unnamed: Vec<usize> = f.atoms.iter().copied().filter(|i| atoms[*i].names.is_empty()).collect();
        let left: Vec<&str> = names.iter().copied().filter(|n| !is_named(n)).collect();
        if let ([atom], [name, ..]) = (&unnamed[..], &left[..]) {
            add(&mut atoms[*atom], name);
        }
    }
}

/// Names atoms after the calls of groups without a description.
fn name_by_use(families: &mut [MeshFamily], atoms: &mut [Atom]) {
    for f in families.iter_mut().filter(|f| f.state == FamilyState::Regular) {
        let says_nothing = matches!(group_name(&f.description), GroupName::Nameless | GroupName::Default);
        let [atom] = f.atoms[..] else { continue };
        let is_named = |name: &str| atoms.iter().any(|a| a.names.iter().any(|n| n == name));
        if let (true, true, Some(name)) = (says_nothing, atoms[atom].names.is_empty(), f.usage.dimension)
            && !is_named(name)
        {
            add(&mut atoms[atom], name);
            f.is_by_use = true;
        }
    }
}

fn product_of(of_family: &[usize], atoms: &[Atom]) -> Option<String> {
    let names: Option<Vec<&str>> = of_family.iter().rev().map(|i| atoms.get(*i)?.name()).collect();
    names.filter(|n| !n.is_empty()).map(|n| n.join(" x "))
}
