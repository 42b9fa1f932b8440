//! What the job is: the dimensions along which its process groups cut the ranks, and where each rank is.

pub mod tables;

use crate::api::{About, Align, Analysis, Options, Output, Partial, RowEmitter, View};
use crate::facts::collectives::collectives;
use crate::facts::experts::kernel_ranks::KernelRanks;
use crate::job::mesh::{DimensionSource, FamilyState, Mesh, MeshFamily, ProgramMesh, group_uses};
use crate::job::{Job, RankSummary};
pub use crate::mesh::tables::RankPlaces;

use crate::mesh::tables::{GroupUseRow, GroupUses, MeshDimensions, MeshRow, RankPlaceRow};
use crate::population::reasons;
use hta_base::table::schema::Batch;
use hta_base::wording::ranks::rank_list;
use hta_trace::collective::ranks::member_list;
use hta_trace::rank_trace::RankTrace;
use std::collections::BTreeMap;

pub(crate) struct MeshOf;

impl Analysis for MeshOf {
    fn about(&self) -> About {
        About {
            stem: "mesh",
            title: "what the job is: dimensions of parallelism, and the place of each rank in them",
            explain: include_str!("page.md"),
            tables: &[MeshDimensions::SPEC, RankPlaces::SPEC, GroupUses::SPEC],
            joins_ranks: true,
            takes_steps: false,
            ..About::DEFAULT
        }
    }

    fn map(&self, trace: &RankTrace, _: &Options, _: &mut RowEmitter) -> Partial {
        let reason = collectives(trace).groups.is_empty().then_some("no process groups recorded");
        Partial { rank: trace.rank, tables: Vec::new(), reason }
    }

    fn reduce(&self, partials: &[Partial], job: &Job, options: &Options) -> Output {
        let mesh = &job.mesh;
        let mut dimensions = MeshDimensions::default();
        for program in &mesh.programs {
            ordered(program).into_iter().for_each(|f| push(program, f, &mut dimensions));
        }
        let mut places = RankPlaces::default();
        let is_job = job.parts.len() > 1 || mesh.programs.iter().any(|p| !p.families.is_empty());
        job.parts.iter().filter(|_| is_job).for_each(|part| push_place(mesh, part, &mut places));
        let mut views = vec![dimension_view(mesh)];
        views.extend(place_view(job, options));
        if let Some(view) = views.last_mut() {
            view.notes.extend(notes(mesh));
            view.notes.extend(reasons(partials));
        }
        Output {
            tables: vec![dimensions.finish(), places.finish(), use_table(job)],
            views,
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

fn push(program: &ProgramMesh, f: &MeshFamily, table: &mut MeshDimensions) {
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

/// A line for each dimension. Programs of one role have equal lines as a rule, which are shown once.
fn dimension_view(mesh: &Mesh) -> View {
    let mut lines: Vec<(Vec<String>, Vec<&ProgramMesh>)> = Vec::new();
    let mut places: BTreeMap<(Option<&str>, Vec<String>), usize> = BTreeMap::new();
    for program in &mesh.programs {
        for cells in dimension_lines(program) {
            let place = *places.entry((program.role.as_deref(), cells.clone())).or_insert(lines.len());
            match lines.get_mut(place) {
                Some((_, programs)) => programs.push(program),
                None => lines.push((cells, vec![program])),
            }
        }
    }
    let mut columns = vec![
        ("dimension", Align::Left),
        ("size", Align::Right),
        ("size@stride", Align::Left),
        ("known by", Align::Left),
    ];
    let are_several = mesh.programs.len() > 1;
    if are_several {
        columns.insert(0, ("program", Align::Left));
    }
    let rows = lines.into_iter().map(|(mut cells, programs)| {
        if are_several {
            cells.insert(0, program_names(&programs));
        }
        cells
    });
    View { title: "Dimensions of the job".to_string(), columns, rows: rows.collect(), notes: Vec::new() }
}

/// Programs of one role: `actor`, `rollout 0-3`.
fn program_names(programs: &[&ProgramMesh]) -> String {
    let role = programs.first().and_then(|p| p.role.clone()).unwrap_or_default();
    let replicas: Vec<u32> = programs.iter().filter_map(|p| p.replica).collect();
    format!("{role} {}", rank_list(&replicas)).trim_end().to_string()
}

fn known_by(f: &MeshFamily) -> String {
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

fn dimension_lines(program: &ProgramMesh) -> Vec<Vec<String>> {
    let shown: Vec<&MeshFamily> =
        ordered(program).into_iter().filter(|f| f.state != FamilyState::Single).collect();
    // Families with the same groups, made for two back ends or two purposes, are one line.
    let twins = shown.chunk_by(|a, b| a.name == b.name && a.groups == b.groups);
    let rows = twins.filter_map(|twins| {
        let f = twins.first()?;
        let known_by = match f.state {
            FamilyState::Regular => known_by(f),
            _ => format!("{} ({})", f.description, source(f)).trim_start().to_string(),
        };
        let others = match twins.len() - 1 {
            0 => String::new(),
            n => format!(" and {n} with the same members"),
        };
        let name = f.name.clone().unwrap_or_else(|| "-".to_string());
        Some(vec![name, f.size.to_string(), atoms(program, f), format!("{known_by}{others}")])
    });
    rows.collect()
}

/// Ranks by host with the coordinates of each; ranks of a host that are in a row are one line.
fn place_view(job: &Job, options: &Options) -> Option<View> {
    let mesh = &job.mesh;
    if mesh.programs.iter().all(|p| p.coordinates.atoms.len() < 2) && mesh.hosts.names.len() < 2 {
        return None;
    }
    let mut by_host: BTreeMap<Option<u32>, Vec<u32>> = BTreeMap::new();
    for part in &job.parts {
        by_host.entry(mesh.hosts.host_of(part.rank)).or_default().push(part.rank);
    }
    let rows = by_host.iter().map(|(host, ranks)| {
        let name = host.and_then(|h| mesh.hosts.names.get(h as usize));
        let mut row = vec![name.cloned().unwrap_or_else(|| "unknown".to_string()), rank_list(ranks)];
        row.push(spread(mesh, ranks));
        row
    });
    let shown = options.top.max(1);
    let left = by_host.len().saturating_sub(shown);
    let mut notes = Vec::new();
    if left > 0 {
        notes.push(format!("{left} more hosts: --top {}, or the table rank_places", by_host.len()));
    }
    Some(View {
        title: "Places of the ranks".to_string(),
        columns: vec![("host", Align::Left), ("ranks", Align::Left), ("coordinates", Align::Left)],
        rows: rows.take(shown).collect(),
        notes,
    })
}

/// The coordinates that occur among ranks, by program: `dp 0, pp 0-3`.
fn spread(mesh: &Mesh, ranks: &[u32]) -> String {
    let of_programs = mesh.programs.iter().filter_map(|program| {
        let coordinates = &program.coordinates;
        let along = coordinates.atoms.iter().rev().filter_map(|atom| {
            let mut found: Vec<u32> = ranks.iter().filter_map(|r| coordinates.along_atom(*r, atom)).collect();
            found.sort_unstable();
            found.dedup();
            (!found.is_empty()).then_some(format!("{} {}", atom.name()?, rank_list(&found)))
        });
        let along = along.collect::<Vec<_>>().join(", ");
        let name = program_names(&[program]);
        (!along.is_empty()).then(|| if name.is_empty() { along } else { format!("{name}: {along}") })
    });
    of_programs.collect::<Vec<_>>().join("; ")
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
