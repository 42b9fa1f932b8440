//! What the job is: the dimensions along which its process groups cut the ranks, and where each rank is.

pub mod tables;

use crate::api::{About, Analysis, Options, Output, Partial, RowEmitter, ViewNote};
pub use crate::mesh::tables::RankPlaces;
use crate::mesh::tables::{
    GroupUseRow, GroupUses, HostPlaces, MeshDimensions, MeshOverPrograms, MeshRow, ROLLUPS, RankPlaceRow,
    VIEWS,
};
use hta_base::table::schema::Batch;
use hta_facts::collectives::collectives;
use hta_facts::experts::kernel_ranks::KernelRanks;
use hta_job::mesh::{DimensionSource, FamilyState, Mesh, MeshFamily, ProgramMesh, group_uses};
use hta_job::{Job, RankSummary};
use hta_trace::collective::ranks::member_list;
use hta_trace::rank_trace::RankTrace;

pub struct MeshOf;

impl Analysis for MeshOf {
    fn about(&self) -> About {
        About {
            stem: "mesh",
            title: "what the job is: dimensions of parallelism, and the place of each rank in them",
            explain: include_str!("page.md"),
            tables: &[
                MeshDimensions::SPEC,
                MeshOverPrograms::SPEC,
                RankPlaces::SPEC,
                HostPlaces::SPEC,
                GroupUses::SPEC,
            ],
            views: &VIEWS,
            rollups: &ROLLUPS,
            joins_ranks: true,
            takes_steps: false,
            ..About::DEFAULT
        }
    }

    fn map(&self, trace: &RankTrace, _: &Options, _: &mut RowEmitter) -> Partial {
        let reason = collectives(trace).groups.is_empty().then_some("no process groups recorded");
        Partial { rank: trace.rank, tables: Vec::new(), reason }
    }

    fn reduce(&self, _: &[Partial], job: &Job, _: &Options) -> Output {
        let mesh = &job.mesh;
        let mut dimensions = MeshDimensions::default();
        for program in &mesh.programs {
            let families = ordered(program);
            families.iter().for_each(|f| push(program, f, alike(f, &families), &mut dimensions));
        }
        let mut places = RankPlaces::default();
        let is_job = job.parts.len() > 1 || mesh.programs.iter().any(|p| !p.families.is_empty());
        job.parts.iter().filter(|_| is_job).for_each(|part| push_place(mesh, part, &mut places));
        let notes = notes(mesh).into_iter().map(|text| ViewNote { view: "", text });
        Output {
            tables: vec![dimensions.finish(), places.finish(), use_table(job)],
            notes: notes.collect(),
            ..Output::default()
        }
    }
}

/// The families in the order of the table.
fn ordered(program: &ProgramMesh) -> Vec<&MeshFamily> {
    let mut all: Vec<&MeshFamily> = program.families.iter().collect();
    all.sort_by_cached_key(|f| {
        (f.name.is_none(), f.name.clone(), f.description.clone(), f.size, f.groups.clone())
    });
    all
}

/// Of families with the same groups, made for two back ends or two purposes, how many others the first one
/// has.
fn alike(f: &MeshFamily, families: &[&MeshFamily]) -> Option<u32> {
    let is_alike = |other: &&&MeshFamily| {
        other.state != FamilyState::Single && other.name == f.name && other.groups == f.groups
    };
    let mut all = families.iter().filter(is_alike);
    all.next().filter(|first| std::ptr::eq(**first, f)).map(|_| all.count() as u32)
}

fn push(program: &ProgramMesh, f: &MeshFamily, alike: Option<u32>, table: &mut MeshDimensions) {
    let atoms = atoms(program, f);
    table.push(MeshRow {
        role: program.role.as_deref(),
        replica: program.replica,
        dimension: f.name.as_deref(),
        description: Some(f.description.as_str()).filter(|d| !d.is_empty()),
        size: f.size,
        stride: match &f.factors[..] {
            [one] => Some(one.stride),
            _ => None,
        },
        atoms: Some(atoms.as_str()).filter(|a| !a.is_empty()),
        used_as: f.usage.dimension,
        confidence: f.name.as_ref().map(|_| confidence(f)),
        source: source(f),
        group_count: f.groups.len() as u32,
        call_count: f.usage.calls,
        backward_count: f.usage.backward,
        largest_bytes: f.usage.largest_bytes,
        known_by: &known_by(f),
        alike,
    });
}

fn confidence(f: &MeshFamily) -> &'static str {
    match f.source {
        DimensionSource::Count | DimensionSource::Use | DimensionSource::Kernels(_) => "B",
        _ => "A",
    }
}

fn source(f: &MeshFamily) -> &'static str {
    match f.state {
        FamilyState::Regular => f.source.name(),
        FamilyState::Single => "one rank",
        FamilyState::Irregular => "irregular",
        FamilyState::Partial => "partial",
        FamilyState::Contradicted => "contradicted",
    }
}

/// The atoms of a family, outermost first: `2@4 x 2@1`.
fn atoms(program: &ProgramMesh, f: &MeshFamily) -> String {
    let atom = |i: &usize| program.coordinates.atoms.get(*i).map(|a| format!("{}@{}", a.size, a.stride));
    f.atoms.iter().rev().filter_map(atom).collect::<Vec<_>>().join(" x ")
}

fn push_place(mesh: &Mesh, part: &RankSummary, table: &mut RankPlaces) {
    let rank = part.rank;
    let program = mesh.program(rank);
    let coordinates = program.map(|p| &p.coordinates);
    let place = coordinates.and_then(|c| c.label_of(&[rank]));
    let along = |dimension: &str| mesh.along(rank, dimension);
    table.push(RankPlaceRow {
        rank,
        role: part.role_name(),
        replica: program.and_then(|p| p.replica),
        role_rank: part.role.as_ref().map(|role| role.rank),
        place: place.as_deref(),
        pp: along("pp"),
        tp: along("tp"),
        cp: along("cp"),
        ep: along("ep"),
        dp: along("dp"),
        dp_replicate: along("dp_replicate"),
        dp_shard: along("dp_shard"),
        host: mesh.hosts.name_of(rank),
        host_source: mesh.hosts.source.name(),
        local_rank: mesh.hosts.local_rank(rank),
        device: part.gpu_device(),
    });
}

fn use_table(job: &Job) -> Batch {
    let mut table = GroupUses::default();
    let uses = group_uses(&job.parts, &job.matched, &job.mesh.hosts);
    for (index, (group, of)) in (0..).zip(job.matched.groups.iter().zip(uses)) {
        let family = job.mesh.family_of(index).filter(|f| f.name.is_some());
        let members = group.members.as_ref().map(member_list);
        let used_as = Some(of.dimensions.join(" and ")).filter(|text| !text.is_empty());
        table.push(GroupUseRow {
            process_group: &group.shown(&job.parts),
            members: members.as_deref(),
            dimension: family.and_then(|f| f.name.as_deref()),
            confidence: family.map(confidence).or(used_as.as_ref().map(|_| "B")),
            used_as: used_as.as_deref(),
            calls_forward: of.usage.calls - of.usage.backward,
            calls_backward: of.usage.backward,
            size_bytes: of.usage.largest_bytes,
        });
    }
    table.finish()
}

fn known_by(f: &MeshFamily) -> String {
    if f.state != FamilyState::Regular {
        return format!("{} ({})", f.description, source(f)).trim_start().to_string();
    }
    match f.source {
        DimensionSource::Option => "--mesh".to_string(),
        DimensionSource::FileNames => "the names of the files".to_string(),
        DimensionSource::Description => f.description.clone(),
        DimensionSource::Count => "the numbers of its groups, likely".to_string(),
        DimensionSource::Use => "the use of its calls, likely".to_string(),
        DimensionSource::Kernels(KernelRanks { hosts: 1, .. }) => "names of kernels, likely".to_string(),
        DimensionSource::Kernels(KernelRanks { hosts, per_host }) => {
            format!("names of kernels ({hosts} hosts x {per_host}), likely")
        }
        DimensionSource::Shape => "the shape of its groups".to_string(),
    }
}

fn notes(mesh: &Mesh) -> Vec<String> {
    let families = || mesh.programs.iter().flat_map(|p| &p.families);
    let mut notes = Vec::new();
    let called = |f: &'_ MeshFamily| match f.description.is_empty() {
        true => f.name.clone(),
        false => Some(f.description.clone()),
    };
    let single = families().filter(|f| f.state == FamilyState::Single);
    let mut single: Vec<String> = single.filter_map(called).collect();
    if !single.is_empty() {
        if mesh.programs.len() > 1 {
            single.sort_unstable();
            single.dedup();
        }
        notes.push(format!("groups of one rank: {}", single.join(", ")));
    }
    if families().all(|f| f.groups.is_empty()) {
        notes.push("no process groups with known members are recorded".to_string());
    } else if mesh.programs.iter().all(|p| p.coordinates.atoms.is_empty()) {
        notes.push("the process groups are no mesh of regular steps: ranks have no coordinates".to_string());
    }
    if mesh.hosts.names.is_empty() {
        notes.push(
            "hosts are unknown: all ranks name the same host (or none) although their devices repeat"
                .to_string(),
        );
    }
    if families().any(|f| f.source == DimensionSource::Use) {
        notes.push(
            "a name by use is likely, not sure: the kinds and directions of the calls suggest it".to_string(),
        );
    }
    notes
}
