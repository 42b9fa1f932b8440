//! `--ranks pp=2`: ranks by their coordinates, which the heads of the files, their names or `--mesh` tell
//! before the files are read.

use crate::results::{Results, ResultsError, columns};
use crate::run::claims::{RankClaims, Task};
use crate::run::error::RunError;
use crate::run::reduce::named_places;
use hta_analysis::mesh::tables::{MeshDimensions, RankPlaces};
use hta_base::table::schema::Text;
use hta_job::{Coordinates, MeshShape, RankHead, ToldMeshes, coordinates_of_heads};
use hta_read::error::SetError;
use hta_read::input::Input;
use hta_read::load::head_of;
use rayon::prelude::*;
use std::collections::BTreeMap;

columns! {
    NamedDimension of MeshDimensions {
        role: Option<Text>, replica: Option<u32>, dimension: Option<Text>, size: u32, stride: Option<u32>,
    }
}

columns! {
    PlacedRank of RankPlaces {
        rank, role: Option<Text>, replica: Option<u32>, role_rank: Option<u32>, pp: Option<u32>,
        tp: Option<u32>, cp: Option<u32>, ep: Option<u32>, dp: Option<u32>,
        dp_replicate: Option<u32>, dp_shard: Option<u32>,
    }
}

impl PlacedRank<'_> {
    /// Its coordinates by the names of the dimensions; none in a program of one dimension, where the
    /// coordinate is the rank.
    fn coordinates(&self) -> Vec<(&'static str, u32)> {
        let shards = [("dp_replicate", self.dp_replicate), ("dp_shard", self.dp_shard)];
        let all = [("pp", self.pp), ("tp", self.tp), ("cp", self.cp), ("ep", self.ep), ("dp", self.dp)];
        all.into_iter().chain(shards).filter_map(|(name, at)| Some((name, at?))).collect()
    }
}

/// A dimension with a range of coordinates, both ends inclusive. Of several with one name any may hold.
pub type AlongDimension = (String, (u32, u32));

/// The ranks with these coordinates, as ranges.
///
/// # Errors
/// When the mesh cannot be told, has no such dimension or coordinate, or ranks cannot be assigned.
pub fn ranks_along(
    inputs: &[Input],
    asked: &[AlongDimension],
    mesh: Option<&MeshShape>,
) -> Result<Vec<(u32, u32)>, RunError> {
    let mut claims = RankClaims::peek(inputs);
    claims.refuse_dumps(inputs, false);
    let tasks = claims.tasks(inputs, &[])?;
    let head = |task: &Task| {
        let mut meta = inputs.get(task.input).map(head_of).unwrap_or_default();
        if let Some(input) = inputs.get(task.input) {
            task.place_in(&mut meta, input);
        }
        RankHead { rank: task.rank, meta }
    };
    let heads: Vec<RankHead> = tasks.par_iter().map(head).collect();
    let told = ToldMeshes { shape: mesh.cloned(), files: named_places(inputs, &tasks) };
    let refused = |option, value: String, reason| SetError::Argument { option, value, reason }.into();
    let given = || mesh.map_or_else(String::new, MeshShape::to_string);
    let programs = coordinates_of_heads(&heads, &told).map_err(|why| refused("--mesh", given(), why))?;
    let place = |rank: u32, name: &str| {
        let of_mesh = || programs.iter().find(|p| p.holds(rank))?.along(rank, name);
        of_mesh().or_else(|| told.files.get(&rank)?.along(name).filter(|_| mesh.is_none()))
    };
    let is_asked = |rank: &u32| are_asked(asked, |name| place(*rank, name));
    let ranks: Vec<(u32, u32)> = heads.iter().map(|h| h.rank).filter(is_asked).map(|r| (r, r)).collect();
    if ranks.is_empty() { Err(refused("--ranks", shown(asked), reason(&programs))) } else { Ok(ranks) }
}

/// The same of the ranks of results, whose table `rank_places` has their coordinates.
///
/// # Errors
/// When the table is damaged, or no rank has these coordinates.
pub fn ranks_along_of(results: &Results, asked: &[AlongDimension]) -> Result<Vec<(u32, u32)>, ResultsError> {
    let (mut only, mut ranks, mut sizes) = (Vec::new(), Vec::new(), BTreeMap::new());
    results.read::<NamedDimension>(|r| {
        // The one dimension of a program.
        let name = r.dimension.filter(|_| r.size > 1 && r.stride == Some(1));
        only.extend(name.map(|name| (r.role.map(str::to_string), r.replica, name.to_string(), r.size)));
    })?;
    let is_there = results.read::<PlacedRank>(|r| {
        let mut places = r.coordinates();
        if places.is_empty() {
            let at = r.role_rank.unwrap_or(r.rank);
            let is_own = |of: &&(Option<String>, Option<u32>, String, u32)| {
                (of.0.as_deref(), of.1) == (r.role, r.replica) && at < of.3
            };
            places.extend(only.iter().filter(is_own).map(|of| (of.2.as_str(), at)));
        }
        for (name, at) in &places {
            sizes
                .entry(name.to_string())
                .and_modify(|(least, most): &mut (u32, u32)| {
                    (*least, *most) = ((*at).min(*least), (*at).max(*most))
                })
                .or_insert((*at, *at));
        }
        if are_asked(asked, |name| places.iter().find(|(of, _)| *of == name).map(|(_, at)| *at)) {
            ranks.push((r.rank, r.rank));
        }
    })?;
    if !ranks.is_empty() {
        return Ok(ranks);
    }
    let known: Vec<String> =
        sizes.iter().map(|(name, (least, most))| format!("{name} {least}-{most}")).collect();
    let reason = match known.is_empty() {
        true if !is_there => {
            "these results have no table `rank_places` (analysis `mesh`): give numbers of ranks".to_string()
        }
        true => "these results know no coordinates of ranks: give their numbers".to_string(),
        false => format!("no rank has these coordinates; there are {}", known.join(", ")),
    };
    Err(SetError::Argument { option: "--ranks", value: shown(asked), reason }.into())
}

/// Whether coordinates are those that are asked for, along all dimensions that are named.
fn are_asked(asked: &[AlongDimension], place: impl Fn(&str) -> Option<u32>) -> bool {
    let holds = |name: &str, at| asked.iter().any(|(n, (a, b))| n == name && (*a..=*b).contains(&at));
    asked.iter().all(|(name, _)| place(name).is_some_and(|at| holds(name, at)))
}

/// What was asked for, as on the command line.
fn shown(asked: &[AlongDimension]) -> String {
    let one = |(name, (a, b)): &AlongDimension| match a == b {
        true => format!("{name}={a}"),
        false => format!("{name}={a}-{b}"),
    };
    asked.iter().map(one).collect::<Vec<_>>().join(",")
}

/// Why there are no such ranks.
fn reason(programs: &[Coordinates]) -> String {
    let sizes = |p: &Coordinates| {
        let of: Vec<String> = p.dimensions().map(|(name, size)| format!("{name} 0-{}", size - 1)).collect();
        of.join(", ")
    };
    let mut known: Vec<String> = programs.iter().map(sizes).filter(|text| !text.is_empty()).collect();
    known.dedup();
    match known.is_empty() {
        true => {
            "the heads of the files list no groups that tell the dimensions: add --mesh, outermost first, \
                 e.g. --mesh pp=4,dp=8,tp=8"
                .to_string()
        }
        false => format!("no file has these coordinates; there are {}", known.join("; ")),
    }
}
