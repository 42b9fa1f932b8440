//! The meshes of a job before its files are read: from the groups that their heads list.

use crate::families::{ListedGroups, families};
use crate::mesh::coordinates::Coordinates;
use crate::mesh::usage::Usage;
use crate::mesh::{FamilyState, ProgramExtent, ProgramMesh, ToldMeshes};
use hta_trace::collective::LocalGroup;
use hta_trace::collective::group::HeaderGroups;
use hta_trace::meta::Meta;
use std::collections::BTreeMap;

/// What the head of a file says of its rank.
#[derive(Debug, Clone)]
pub struct RankHead {
    /// Its number in the job.
    pub rank: u32,
    pub meta: Meta,
}

impl RankHead {
    fn program(&self) -> u32 {
        self.meta.role.as_ref().map_or(0, |role| role.first)
    }
}

/// The dimensions of each program, as far as descriptions of groups, names of files or `--mesh` tell them:
/// without calls, nothing is known of the use of groups. `heads` are in order of rank.
///
/// # Errors
/// When `--mesh` cannot be the mesh of the job.
pub fn coordinates_of_heads(heads: &[RankHead], told: &ToldMeshes) -> Result<Vec<Coordinates>, String> {
    let programs: Vec<&[RankHead]> = heads.chunk_by(|a, b| a.program() == b.program()).collect();
    let extents: Vec<ProgramExtent> = programs.iter().map(|heads| extent(heads)).collect();
    told.check(&extents)?;
    let of_program = |(heads, extent): (&[RankHead], ProgramExtent)| {
        let groups: Vec<Vec<LocalGroup>> = heads.iter().map(|h| HeaderGroups::new(&h.meta).all()).collect();
        let lists: Vec<ListedGroups> = heads
            .iter()
            .zip(&groups)
            .map(|(head, groups)| ListedGroups { rank: head.rank, groups, counted: BTreeMap::new() })
            .collect();
        let known = families(&lists);
        let is_told = told.of_program(&extent).is_some();
        let mesh = ProgramMesh::of(extent, &known, vec![Usage::default(); known.len()], heads.len(), told);
        // Which of the groups that contradict each other hold, only their calls tell.
        let is_open = mesh.families.iter().any(|f| f.state == FamilyState::Contradicted);
        let atoms = if is_open && !is_told { Vec::new() } else { mesh.coordinates.atoms };
        Coordinates { atoms, ..mesh.coordinates }
    };
    Ok(programs.into_iter().zip(extents).map(of_program).collect())
}

fn extent(heads: &[RankHead]) -> ProgramExtent {
    let role = heads.first().and_then(|h| h.meta.role.as_ref());
    let first = heads.first().map_or(0, RankHead::program);
    let size = |h: &RankHead| h.meta.role.as_ref().map(|role| role.size).or(h.meta.world_size);
    let seen = heads.iter().map(|h| h.rank.saturating_add(1).saturating_sub(first)).max();
    ProgramExtent {
        role: role.map(|role| role.name.clone()),
        replica: role.and_then(|role| role.replica),
        first,
        said: heads.iter().filter_map(size).max(),
        seen: seen.unwrap_or(0),
    }
}
