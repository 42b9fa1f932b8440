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

pub mod coordinates;
mod cuts;
mod heads;
mod hosts;
mod naming;
mod told;
mod usage;

pub use coordinates::Coordinates;
pub use heads::{RankHead, coordinates_of_heads};
pub use hosts::{HostSource, Hosts};
pub use told::{MeshShape, ProgramExtent, ToldMeshes, dimension_name};

use crate::connected::connected;
use crate::counted_groups::ALL_RANKS;
use crate::families::{Factor, FamilyKey, GroupFactors, GroupFamily, factors, families, listed};
use crate::groups::Group;
use crate::matching::Matched;
use crate::mesh::naming::{named_atoms, told_atoms};
use crate::mesh::usage::{LocalFamilies, Usage, lines, local_families, usages};
use crate::part::RankSummary;
use hta_facts::experts::kernel_ranks::KernelRanks;
use hta_facts::group_names::{GroupName, group_name};
use hta_read::coordinates::NamedPlace;
use hta_trace::collective::Members;
use std::collections::{BTreeMap, BTreeSet};
pub use usage::group_uses;

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
    /// Names of its groups that count up in the order of an engine.
    Count,
    /// The calls of its groups.
    Use,
    /// Names of kernels, which are made for so many ranks of so many hosts.
    Kernels(KernelRanks),
    /// Only the members of its groups.
    Shape,
}

impl DimensionSource {
    /// As in the tables.
    pub fn name(self) -> &'static str {
        match self {
            DimensionSource::Option => "option",
            DimensionSource::FileNames => "file_name",
            DimensionSource::Description => "description",
            DimensionSource::Count => "count",
            DimensionSource::Use => "use",
            DimensionSource::Kernels(_) => "kernel_name",
            DimensionSource::Shape => "shape",
        }
    }
}

/// The groups of one description, or of one shape without a description; or a dimension that is told and has
/// no groups.
#[derive(Debug, Clone)]
pub struct MeshFamily {
    /// The description, empty if there is none.
    pub description: String,
    /// Its dimension in words: `tp`, `dp x cp`.
    pub name: Option<String>,
    /// What its description, or the order of an engine, says.
    pub(crate) meaning: GroupName,
    pub factors: GroupFactors,
    /// Ranks of a group.
    pub size: u32,
    /// Positions of its atoms, smallest stride first.
    pub atoms: Vec<usize>,
    pub state: FamilyState,
    pub usage: Usage,
    pub source: DimensionSource,
    /// The recorded member lists.
    pub groups: Vec<Members>,
}

impl MeshFamily {
    /// A dimension that is told in another way than by groups.
    fn without_groups(size: u32, source: DimensionSource) -> Self {
        Self {
            description: String::new(),
            name: None,
            meaning: GroupName::Nameless,
            factors: Vec::new(),
            size,
            atoms: Vec::new(),
            state: FamilyState::Regular,
            usage: Usage::default(),
            source,
            groups: Vec::new(),
        }
    }
}

/// The dimensions of one program of the job.
#[derive(Debug, Clone, Default)]
pub struct ProgramMesh {
    /// Its role in a job of several programs, and which of several of this role it is.
    pub role: Option<String>,
    pub replica: Option<u32>,
    pub coordinates: Coordinates,
    pub families: Vec<MeshFamily>,
}

/// The dimensions of a job, and where its ranks are in them.
#[derive(Debug, Clone, Default)]
pub struct Mesh {
    /// In order of rank; one in a job of one program.
    pub programs: Vec<ProgramMesh>,
    pub hosts: Hosts,
    /// By group of the job, its program and family.
    of_group: Vec<Option<(usize, usize)>>,
    /// By group of the job: whether its ranks do nothing but send to the next and back.
    is_line: Vec<bool>,
    /// What the names of files say, where several meshes fit them.
    named: BTreeMap<u32, NamedPlace>,
}

impl Mesh {
    pub(crate) fn new(parts: &[RankSummary], matched: &Matched, told: &ToldMeshes) -> Self {
        let hosts = Hosts::new(parts);
        let (mut programs, mut of_part) = (Vec::new(), Vec::new());
        for parts in parts.chunk_by(|a, b| a.program() == b.program()) {
            let (mesh, of_local) = ProgramMesh::new(parts, &hosts, told);
            of_part.extend(of_local.into_iter().map(|families| (programs.len(), families)));
            programs.push(mesh);
        }
        let listed = |g: &Group| {
            g.uses.iter().find_map(|u| {
                let (program, families) = of_part.get(u.part as usize)?;
                Some((*program, families.get(u.local as usize).copied().flatten()?))
            })
        };
        let of_group = matched.groups.iter().map(|g| listed(g).or_else(|| place_of(&programs, g)));
        let of_group = of_group.collect();
        let named = if told.shape.is_none() { told.files.clone() } else { BTreeMap::new() };
        Self { programs, hosts, of_group, is_line: lines(parts, matched), named }
    }

    /// The position of a rank along a dimension, counted from 0. In a program of one dimension, where it is
    /// the rank, only names of files tell one.
    pub fn along(&self, rank: u32, dimension: &str) -> Option<u32> {
        let coordinates = &self.program(rank)?.coordinates;
        match coordinates.atoms.len() {
            0 | 1 => self.named.get(&rank)?.along(dimension),
            _ => coordinates.along(rank, dimension),
        }
    }

    /// The program of a rank.
    pub fn program(&self, rank: u32) -> Option<&ProgramMesh> {
        self.programs.iter().find(|p| p.coordinates.holds(rank))
    }

    /// Whether a group of the job is a pipeline: by its dimension or what it is called, or because its ranks
    /// do nothing but send to the next and back. Two ranks, or a ring, may as well be something else.
    pub fn is_pipeline(&self, index: u32, group: &Group) -> bool {
        let is_pp = |name: &str| name.split('_').any(|word| word == "pp");
        let is_sure = |f: &&MeshFamily| f.source != DimensionSource::Use;
        let name = self.family_of(index).filter(is_sure).and_then(|f| f.name.as_deref());
        let called = group.desc.as_deref().or(group.name.as_deref()).map(group_name);
        let is_called = matches!(called, Some(GroupName::Dimension(name)) if is_pp(name));
        let is_line = || self.is_line.get(index as usize).copied().unwrap_or_default();
        name.map_or(is_called, is_pp) || is_line()
    }

    /// The family of a group of the job.
    pub fn family_of(&self, group: u32) -> Option<&MeshFamily> {
        let (program, family) = (*self.of_group.get(group as usize)?)?;
        self.programs.get(program)?.families.get(family)
    }

    /// The dimensions of a group of the job in words: `pp`, `dp x cp`.
    pub fn dimension_of(&self, group: u32) -> Option<&str> {
        self.family_of(group)?.name.as_deref()
    }
}

/// The program and family of a group that no rank lists: the one with its members, and if possible its
/// description.
fn place_of(programs: &[ProgramMesh], group: &Group) -> Option<(usize, usize)> {
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
    fn new(parts: &[RankSummary], hosts: &Hosts, told: &ToldMeshes) -> (Self, LocalFamilies) {
        let known = families(&listed(parts));
        let of_local = local_families(parts, &known);
        let usages = usages(parts, &known, &of_local, hosts);
        let mut mesh = Self::of(extent(parts), &known, usages, parts.len(), told);
        mesh.add_experts(parts);
        (mesh, of_local)
    }

    /// Adds the expert parallelism that names of kernels tell, where no groups do. Which ranks exchange
    /// tokens is known only if these are all.
    fn add_experts(&mut self, parts: &[RankSummary]) {
        let told: BTreeSet<KernelRanks> = parts.iter().filter_map(|p| p.kernel_ranks).collect();
        let (Some(told), 1) = (told.first(), told.len()) else { return };
        let (ranks, world) = (told.ranks(), self.coordinates.size);
        let is_said = parts.iter().any(|p| p.program_size().is_some());
        let is_possible = ranks > 1 && (!is_said || world.is_multiple_of(ranks));
        let mut is_known = false;
        for f in self.families.iter_mut().filter(|f| f.name.as_deref() == Some("ep")) {
            match f.source {
                DimensionSource::Use if is_possible && f.size == ranks => {
                    f.source = DimensionSource::Kernels(*told);
                }
                // The calls may be of fewer ranks than the group that they are taken for.
                DimensionSource::Use => {
                    (f.name, f.source) = (None, DimensionSource::Shape);
                    self.coordinates.atoms.iter_mut().for_each(|a| a.names.retain(|name| name != "ep"));
                    continue;
                }
                _ => {}
            }
            is_known = true;
        }
        if is_known || !is_possible {
            return;
        }
        let is_whole = world == ranks;
        self.families.push(MeshFamily {
            name: Some("ep".to_string()),
            factors: if is_whole { vec![Factor { size: ranks, stride: 1 }] } else { Vec::new() },
            ..MeshFamily::without_groups(ranks, DimensionSource::Kernels(*told))
        });
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
        FamilyKey::Counted(_) | FamilyKey::Shaped(_) | FamilyKey::Irregular(_) => String::new(),
    };
    let (meaning, source) = match &family.key {
        FamilyKey::Described(text) => (group_name(text), DimensionSource::Description),
        FamilyKey::Counted(ALL_RANKS) => (GroupName::Default, DimensionSource::Count),
        FamilyKey::Counted(name) => (GroupName::Dimension(name), DimensionSource::Count),
        FamilyKey::Shaped(_) | FamilyKey::Irregular(_) => (GroupName::Nameless, DimensionSource::Shape),
    };
    // Groups of the two ends of each message are joined to the pipelines that they are links of.
    let chains: Vec<Members> = match usage.dimension {
        Some("pp") => {
            connected(family.groups.iter().map(Members::iter)).into_iter().map(Members::listed).collect()
        }
        _ => family.groups.clone(),
    };
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
        () if meaning == GroupName::Ends || all_recorded && ranks < u64::from(world) => FamilyState::Partial,
        () if !is_regular || ranks > u64::from(world) || !world.is_multiple_of(size.max(1)) => {
            FamilyState::Irregular
        }
        () if size < 2 => FamilyState::Single,
        () => FamilyState::Regular,
    };
    MeshFamily {
        description,
        name: None,
        meaning,
        factors: first.filter(|_| is_regular).unwrap_or_default(),
        size,
        atoms: Vec::new(),
        state,
        usage,
        source,
        groups: family.groups.clone(),
    }
}
