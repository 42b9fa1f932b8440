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
//! dimension without a description has the name that its calls suggest, which is never sure. In a job of
//! several programs each has a mesh of its own.

mod coordinates;
mod cuts;
mod heads;
mod hosts;
mod names;
mod naming;
mod told;
mod usage;

pub use coordinates::Coordinates;
pub use heads::{RankHead, coordinates_of_heads};
pub use hosts::{HostSource, Hosts};
pub use told::{MeshShape, ProgramExtent, ToldMeshes, dimension_name};

use crate::job::families::{Factor, FamilyKey, GroupFactors, GroupFamily, factors, families, listed};
use crate::job::groups::Group;
use crate::job::matching::Matched;
use crate::job::mesh::names::{GroupName, group_name};
use crate::job::mesh::naming::{named_atoms, told_atoms};
use crate::job::mesh::usage::{Neighbours, Usage, usages};
use crate::job::part::RankSummary;
use hta_trace::collective::{CollectiveCall, Members, Message};
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

/// What tells the name of a dimension, strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DimensionSource {
    /// `--mesh`
    Option,
    /// Coordinates in the names of files.
    FileNames,
    /// The description of its groups.
    Description,
    /// The calls of its groups.
    Use,
    /// Only the members of its groups.
    Shape,
}

impl DimensionSource {
    /// As in the tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            DimensionSource::Option => "option",
            DimensionSource::FileNames => "file_name",
            DimensionSource::Description => "description",
            DimensionSource::Use => "use",
            DimensionSource::Shape => "shape",
        }
    }
}

/// The groups of one description, or of one shape without a description; or a dimension that is told and has
/// no groups.
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
    pub(crate) source: DimensionSource,
    /// The recorded member lists.
    pub(crate) groups: Vec<Members>,
}

/// The dimensions of one program of the job.
#[derive(Debug, Clone, Default)]
pub struct ProgramMesh {
    /// Its role in a job of several programs, and which of several of this role it is.
    pub(crate) role: Option<String>,
    pub(crate) replica: Option<u32>,
    pub(crate) coordinates: Coordinates,
    pub(crate) families: Vec<MeshFamily>,
}

/// The dimensions of a job, and where its ranks are in them.
#[derive(Debug, Clone, Default)]
pub struct Mesh {
    /// In order of rank; one in a job of one program.
    pub(crate) programs: Vec<ProgramMesh>,
    pub(crate) hosts: Hosts,
    /// By group of the job, its program and family.
    of_group: Vec<Option<(usize, usize)>>,
}

impl Mesh {
    pub(crate) fn new(parts: &[RankSummary], matched: &Matched, told: &ToldMeshes) -> Self {
        let hosts = Hosts::new(parts);
        let programs: Vec<ProgramMesh> = parts
            .chunk_by(|a, b| a.program() == b.program())
            .map(|parts| ProgramMesh::new(parts, &hosts, told))
            .collect();
        let of_group = matched.groups.iter().map(|group| family_of(&programs, group)).collect();
        Self { programs, hosts, of_group }
    }

    /// The program of a rank.
    pub(crate) fn program(&self, rank: u32) -> Option<&ProgramMesh> {
        self.programs.iter().find(|p| p.coordinates.holds(rank))
    }

    /// Whether a group of the job is a pipeline: by its dimension or what it is called, or because its ranks
    /// do nothing but send to the next and back. Two ranks, or a ring, may as well be something else.
    pub(crate) fn is_pipeline(&self, parts: &[RankSummary], index: u32, group: &Group) -> bool {
        let is_pp = |name: &str| name.split('_').any(|word| word == "pp");
        let family = self.of_group.get(index as usize).copied().flatten();
        let family = family.and_then(|(p, f)| self.programs.get(p)?.families.get(f));
        let is_sure = |f: &&MeshFamily| f.source != DimensionSource::Use;
        let name = family.filter(is_sure).and_then(|f| f.name.as_deref());
        let called = group.desc.as_deref().or(group.name.as_deref()).map(group_name);
        let is_called = matches!(called, Some(GroupName::Dimension(name)) if is_pp(name));
        name.map_or(is_called, is_pp) || is_line(parts, group)
    }

    /// The dimensions of a group of the job in words: `pp`, `dp x cp`.
    pub(crate) fn dimension_of(&self, group: u32) -> Option<&str> {
        let (program, family) = (*self.of_group.get(group as usize)?)?;
        self.programs.get(program)?.families.get(family)?.name.as_deref()
    }
}

/// Whether the ranks of a group do nothing but send to the next and back.
fn is_line(parts: &[RankSummary], group: &Group) -> bool {
    let mut neighbours = Neighbours::default();
    for (part, local) in &group.uses {
        let Some(calls) = parts.get(*part as usize).map(|p| &p.calls) else { return false };
        let is_of_group = |c: &&CollectiveCall| c.shape.group == *local;
        if calls.calls.iter().filter(is_of_group).any(|c| !c.shape.kind.is_point_to_point()) {
            return false;
        }
        let call = |m: &&Message| calls.calls.get(m.call as usize).filter(is_of_group).is_some();
        calls.edges.iter().filter(call).for_each(|m| neighbours.add(m));
    }
    neighbours.are_line()
}

/// The program and family of a group of the job: the one with its members, and if possible its description.
fn family_of(programs: &[ProgramMesh], group: &Group) -> Option<(usize, usize)> {
    let members = group.members.as_ref()?;
    let program = programs.iter().position(|p| members.get(0).is_some_and(|r| p.coordinates.holds(r)))?;
    let families = &programs.get(program)?.families;
    let fits = |f: &&MeshFamily| f.groups.binary_search(members).is_ok();
    let described = |f: &MeshFamily| group.desc.as_deref() == Some(&f.description);
    let positions = || families.iter().enumerate().filter(|(_, f)| fits(f));
    let family = positions().find(|(_, f)| described(f)).or_else(|| positions().next());
    family.map(|(i, _)| (program, i))
}

impl ProgramMesh {
    fn new(parts: &[RankSummary], hosts: &Hosts, told: &ToldMeshes) -> Self {
        let known = families(&listed(parts));
        let usages = usages(parts, &known, hosts);
        Self::of(extent(parts), &known, usages, parts.len(), told)
    }

    /// The mesh of a program, of which some ranks are recorded.
    fn of(
        program: ProgramExtent,
        known: &[GroupFamily],
        usages: Vec<Usage>,
        recorded: usize,
        told: &ToldMeshes,
    ) -> Self {
        let told = told.of_program(&program);
        let size = told.as_ref().map(|(shape, _)| shape.ranks()).or(program.said).unwrap_or(program.seen);
        let first = program.first;
        let whole = ProgramRanks { first, size, all_recorded: recorded as u64 == u64::from(size) };
        let mut families: Vec<MeshFamily> =
            known.iter().zip(usages).map(|(f, usage)| family(f, usage, whole)).collect();
        let atoms = match told {
            Some((shape, source)) => told_atoms(&shape, source, &mut families),
            None => named_atoms(size, &mut families),
        };
        let coordinates = Coordinates { first, size, atoms };
        Self { role: program.role, replica: program.replica, coordinates, families }
    }
}

/// The program of these parts. Processes of several roles that are numbered as one program have no role.
pub(super) fn extent(parts: &[RankSummary]) -> ProgramExtent {
    let first = parts.first().map_or(0, RankSummary::program);
    let role = parts.first().and_then(RankSummary::role_name);
    let seen = parts.iter().map(|p| p.rank.saturating_add(1).saturating_sub(first)).max();
    let role = role.filter(|r| parts.iter().all(|p| p.role_name() == Some(r)));
    ProgramExtent {
        role: role.map(str::to_string),
        replica: parts.first().and_then(|p| p.role.as_ref()?.replica).filter(|_| role.is_some()),
        first,
        said: parts.iter().filter_map(RankSummary::program_size).max(),
        seen: seen.unwrap_or(0),
    }
}

/// The ranks of a program, and whether all of them are recorded.
#[derive(Debug, Clone, Copy)]
struct ProgramRanks {
    first: u32,
    size: u32,
    all_recorded: bool,
}

fn family(family: &GroupFamily, usage: Usage, program: ProgramRanks) -> MeshFamily {
    let ProgramRanks { first: origin, size: world, all_recorded } = program;
    let description = match &family.key {
        FamilyKey::Described(text) => text.clone(),
        FamilyKey::Shaped(_) | FamilyKey::Irregular(_) => String::new(),
    };
    // Groups of the two ends of each message are joined to the pipelines that they are links of.
    let chains = if usage.dimension == Some("pp") { chains(&family.groups) } else { family.groups.clone() };
    let mut shapes = chains.iter().map(factors);
    let first = shapes.next().flatten();
    let is_aligned = |m: &Members| {
        let start = m.get(0).unwrap_or(0).saturating_sub(origin);
        let at_origin = |f: &Factor| start.checked_div(f.stride).is_some_and(|s| s.is_multiple_of(f.size));
        first.iter().flatten().all(at_origin)
    };
    let ranks: u64 = chains.iter().map(|m| m.len() as u64).sum();
    let is_regular = first.is_some() && shapes.all(|s| s == first) && chains.iter().all(is_aligned);
    let size = chains.first().map_or(0, |m| m.len() as u32);
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
    let source = if description.is_empty() { DimensionSource::Shape } else { DimensionSource::Description };
    MeshFamily {
        description,
        name: None,
        factors: first.filter(|_| is_regular).unwrap_or_default(),
        size,
        atoms: Vec::new(),
        state,
        usage,
        source,
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
