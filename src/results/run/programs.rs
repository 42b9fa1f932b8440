//! The programs of a job, by the roles of its files: a trainer, its engines, a reward model. Each numbers its
//! ranks from 0, so that in the job the ranks of one follow those of another.
//!
//! ```text
//!   files   actor: ranks 0 1 2 3 of 4    rollout: rank 0 of 1    rollout: rank 0 of 1
//!   job            0 1 2 3                             4                       5
//! ```
//!
//! The gap of a rank that is not recorded stays: numbers follow from the sizes of the programs. Ranks of
//! several roles that are numbered as one program already keep their numbers.

use hta_read::coordinates::world_in_name;
use hta_read::coordinates::{Assigned, assign_ranks};
use hta_read::input::{Input, ToldRole};
use hta_read::roles::role_of;
use hta_trace::meta::{LARGEST_GROUP, RankSource};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The place of a file's process in a job of several programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgramPlace {
    /// The rank inside the program.
    pub(crate) rank: u32,
    /// The number of the program among those of its role, if there are several.
    pub(crate) replica: Option<u32>,
    /// The number in the job of the program's rank 0, and (next field) the ranks of the program.
    pub(crate) first: u32,
    pub(crate) size: u32,
    /// Ranks of the job.
    pub(crate) world: u32,
}

/// A file with its rank.
pub(super) struct PlacedFile {
    pub(super) rank: u32,
    pub(super) source: RankSource,
    pub(super) place: Option<ProgramPlace>,
}

/// A file of a program: its position among the files, and its rank.
type ProgramFile = (usize, Assigned);

/// The files of one program.
struct Program {
    replica: Option<u32>,
    files: Vec<ProgramFile>,
}

impl Program {
    /// Number of its ranks, as far as its files tell.
    fn size(&self, worlds: &[Option<u32>]) -> u32 {
        let told = self.files.iter().filter_map(|(at, _)| worlds.get(*at).copied().flatten()).max();
        let seen = self.files.iter().map(|(_, (rank, _))| rank.saturating_add(1)).max();
        told.unwrap_or(0).max(seen.unwrap_or(0))
    }
}

/// The files with their ranks, in their order, if they are of several programs: each has a role, and there
/// are several roles or numbered programs.
pub(super) fn places(
    inputs: &[Input],
    claims: &[Option<u32>],
    worlds: &[Option<u32>],
) -> Option<Vec<PlacedFile>> {
    let roles: Vec<ToldRole> = inputs.iter().map(role_of).collect::<Option<_>>()?;
    if roles.iter().collect::<BTreeSet<_>>().len() < 2 {
        return None;
    }
    let worlds: Vec<Option<u32>> = worlds
        .iter()
        .zip(inputs)
        .map(|(world, input)| {
            world
                .or_else(|| world_in_name(&input.path.file_name()?.to_string_lossy()))
                .filter(|w| *w <= LARGEST_GROUP)
        })
        .collect();
    let mut by_role: BTreeMap<&ToldRole, Vec<usize>> = BTreeMap::new();
    roles.iter().enumerate().for_each(|(at, role)| by_role.entry(role).or_default().push(at));
    let programs: Vec<Program> =
        by_role.into_iter().flat_map(|(role, files)| divided(role, &files, inputs, claims)).collect();
    Some(numbered(&programs, &worlds))
}

/// The programs of the files of one role. Files that claim one rank are of several programs: those of one
/// folder each, or where every program has one rank, each file. Otherwise the clash stays, and is told.
fn divided(role: &ToldRole, files: &[usize], inputs: &[Input], claims: &[Option<u32>]) -> Vec<Program> {
    let program = |replica: Option<u32>, files: &[usize]| {
        let of: Vec<Input> = files.iter().filter_map(|at| inputs.get(*at).cloned()).collect();
        let claimed: Vec<Option<u32>> = files.iter().map(|at| claims.get(*at).copied().flatten()).collect();
        let ranks = assign_ranks(&of, &claimed);
        Program { replica, files: files.iter().copied().zip(ranks).collect() }
    };
    let whole = program(role.replica, files);
    let clashes = |p: &Program| {
        let distinct: BTreeSet<u32> = p.files.iter().map(|(_, (rank, _))| *rank).collect();
        distinct.len() < p.files.len()
    };
    let is_unnumbered =
        files.len() > 1 && whole.files.iter().all(|(_, (_, source))| *source == RankSource::Position);
    if role.replica.is_some() || !clashes(&whole) && !is_unnumbered {
        return vec![whole];
    }
    let folder = |at: &usize| inputs.get(*at).and_then(|i| Path::new(&i.shown).parent());
    let of_folder: Vec<&[usize]> = files.chunk_by(|a, b| folder(a) == folder(b)).collect();
    let folders: BTreeSet<Option<&Path>> = files.iter().map(folder).collect();
    let ranks: BTreeSet<u32> = whole.files.iter().map(|(_, (rank, _))| *rank).collect();
    let parts: Vec<&[usize]> = match folders.len() {
        // Files are in order of their names, so that those of a folder stand together.
        n if n > 1 && n == of_folder.len() => of_folder,
        _ if is_unnumbered || ranks.len() == 1 => files.chunks(1).collect(),
        _ => return vec![whole],
    };
    let replicas: Vec<Program> = (0..).map(Some).zip(parts).map(|(n, of)| program(n, of)).collect();
    if replicas.iter().any(clashes) { vec![whole] } else { replicas }
}

/// The files of all programs in their order, with their numbers in the job.
fn numbered(programs: &[Program], worlds: &[Option<u32>]) -> Vec<PlacedFile> {
    let files = || programs.iter().flat_map(|p| &p.files);
    let distinct: BTreeSet<u32> = files().map(|(_, (rank, _))| *rank).collect();
    let told: BTreeSet<Option<u32>> = worlds.iter().copied().collect();
    let is_one = distinct.len() == files().count()
        && told.len() == 1
        && files().all(|(_, (_, source))| *source != RankSource::Position);
    let sizes: Vec<u32> = programs.iter().map(|p| p.size(worlds)).collect();
    let most = sizes.iter().copied().max().unwrap_or(0);
    let world = if is_one { most } else { sizes.iter().fold(0, |sum: u32, n| sum.saturating_add(*n)) };
    let mut first = 0u32;
    let mut placed: Vec<(usize, PlacedFile)> = Vec::new();
    for (program, size) in programs.iter().zip(sizes) {
        let own = if is_one { (0, most) } else { (first, size) };
        for (at, (rank, source)) in &program.files {
            let place =
                ProgramPlace { rank: *rank, replica: program.replica, first: own.0, size: own.1, world };
            let file = PlacedFile { rank: own.0.saturating_add(*rank), source: *source, place: Some(place) };
            placed.push((*at, file));
        }
        first = first.saturating_add(size);
    }
    placed.sort_by_key(|(at, _)| *at);
    placed.into_iter().map(|(_, file)| file).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Job number, rank in the program, and replica of files that claim rank and world.
    fn of(files: &[(&str, Option<u32>, Option<u32>)]) -> Option<Vec<(u32, u32, Option<u32>)>> {
        let inputs: Vec<Input> = files.iter().map(|(name, ..)| Input::named(*name)).collect();
        let claims: Vec<Option<u32>> = files.iter().map(|f| f.1).collect();
        let worlds: Vec<Option<u32>> = files.iter().map(|f| f.2).collect();
        let placed = places(&inputs, &claims, &worlds)?;
        placed.iter().map(|f| f.place.map(|p| (f.rank, p.rank, p.replica))).collect()
    }

    #[test]
    fn ranks_of_one_program_follow_those_of_another() {
        let files = [
            ("j/actor/rank0.json", Some(0), Some(3)),
            ("j/actor/rank2.json", Some(2), Some(3)),
            ("j/rollout/rank0.json", Some(0), Some(2)),
            ("j/rollout/rank1.json", Some(1), Some(2)),
        ];
        let expected = vec![(0, 0, None), (2, 2, None), (3, 0, None), (4, 1, None)];
        assert_eq!(of(&files), Some(expected), "the number of rank 1 of the actor stays free");
    }

    #[test]
    fn files_of_a_role_that_claim_one_rank_are_of_several_programs() {
        let files = [
            ("j/actor/rank0.json", Some(0), Some(1)),
            ("j/rollout/a.json", Some(0), Some(1)),
            ("j/rollout/b.json", Some(0), Some(1)),
        ];
        assert_eq!(of(&files), Some(vec![(0, 0, None), (1, 0, Some(0)), (2, 0, Some(1))]));
        let files = [
            ("j/actor/rank0.json", Some(0), Some(1)),
            ("j/rollout/a/rank0.json", Some(0), Some(2)),
            ("j/rollout/a/rank1.json", Some(1), Some(2)),
            ("j/rollout/b/rank0.json", Some(0), Some(2)),
            ("j/rollout/b/rank1.json", Some(1), Some(2)),
        ];
        let expected = vec![(0, 0, None), (1, 0, Some(0)), (2, 1, Some(0)), (3, 0, Some(1)), (4, 1, Some(1))];
        assert_eq!(of(&files), Some(expected));
    }

    #[test]
    fn roles_of_one_numbering_keep_their_ranks() {
        let files = [
            ("j/actor/rank0.json", Some(0), Some(3)),
            ("j/actor/rank1.json", Some(1), Some(3)),
            ("j/rollout/rank2.json", Some(2), Some(3)),
        ];
        assert_eq!(of(&files), Some(vec![(0, 0, None), (1, 1, None), (2, 2, None)]));
    }

    #[test]
    fn files_without_a_role_or_of_one_role_are_of_one_program() {
        assert!(of(&[("j/actor/rank0.json", Some(0), None), ("j/run/rank0.json", Some(0), None)]).is_none());
        assert!(
            of(&[("j/actor/rank0.json", Some(0), None), ("j/actor/rank1.json", Some(1), None)]).is_none()
        );
    }
}
