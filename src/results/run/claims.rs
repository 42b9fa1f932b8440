//! Which file holds which rank, as far as the heads of the files and their names say.

use crate::run::error::RunError;
use crate::run::programs::{PlacedFile, ProgramPlace, places};
use hta_base::wording::ranks::ranks_named;
use hta_read::coordinates::assign_ranks;
use hta_read::error::{ReadError, SetError};
use hta_read::input::{Input, PartKey};
use hta_read::load::peek;
use hta_read::roles::role_of;
use hta_trace::meta::{LARGEST_GROUP, Meta, ProcessRole, RankSource, Recorder};
use hta_trace::recorders::{MEMORY_DUMP, OtherRecorder};
use rayon::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Task {
    /// Index into the input files.
    pub input: usize,
    pub rank: u32,
    pub source: RankSource,
    /// Its place among the programs of the job; `None` in a job of one.
    pub place: Option<ProgramPlace>,
}

/// Rank and world size that a file says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileClaim {
    pub rank: Option<u32>,
    pub world: Option<u32>,
}

impl FileClaim {
    /// Whether a file was given another rank than it says, or a program of fewer ranks.
    pub fn contradicts(self, task: &Task) -> bool {
        let is_larger =
            |world: u32| world <= LARGEST_GROUP && task.place.is_some_and(|place| world > place.size);
        self.rank.is_some_and(|rank| rank != task.own_rank()) || self.world.is_some_and(is_larger)
    }
}

impl Task {
    /// The rank that the file or its name says: that inside its program.
    pub fn own_rank(&self) -> u32 {
        self.place.map_or(self.rank, |place| place.rank)
    }

    /// Gives what a file says its place among the programs of the job.
    pub(super) fn place_in(&self, meta: &mut Meta, input: &Input) {
        if let (Some(place), Some(told)) = (self.place, role_of(input)) {
            let ProgramPlace { rank, replica, first, size, world } = place;
            meta.place(ProcessRole { name: told.name, replica, rank, first, size }, world);
        }
    }
}

/// What is known of the files before they are read completely.
pub struct RankClaims {
    /// `distributedInfo.rank` of each file, if it precedes the events or has been found since.
    pub ranks: Vec<Option<u32>>,
    /// World size of each file, likewise.
    pub worlds: Vec<Option<u32>>,
    /// Files that are not traces.
    pub refused: Vec<Option<ReadError>>,
    /// The recorder of each file, where it is known.
    pub(crate) recorders: Vec<Option<Recorder>>,
}

impl RankClaims {
    /// Reads the heads of all files.
    pub fn peek(inputs: &[Input]) -> Self {
        let peeked: Vec<_> = inputs.par_iter().map(peek).collect();
        let (mut ranks, mut refused, mut recorders) = (Vec::new(), Vec::new(), Vec::new());
        let mut worlds = Vec::new();
        for p in peeked {
            match p {
                Ok(head) => {
                    ranks.push(head.rank);
                    worlds.push(head.world);
                    refused.push(None);
                    recorders.push(Some(head.recorder));
                }
                Err(e) => {
                    ranks.push(None);
                    worlds.push(None);
                    refused.push(Some(e));
                    recorders.push(None);
                }
            }
        }
        Self { ranks, worlds, refused, recorders }
    }

    /// Refuses dumps of memory if they are not to be analysed, or are beside traces, whose ranks they would
    /// claim.
    pub(crate) fn refuse_dumps(&mut self, inputs: &[Input], are_read: bool) {
        let is_dump = |recorder: &Option<Recorder>| *recorder == Some(Recorder::MemoryDump);
        if are_read && self.recorders.iter().flatten().all(|r| *r == Recorder::MemoryDump) {
            return;
        }
        for ((refused, recorder), input) in self.refused.iter_mut().zip(&mut self.recorders).zip(inputs) {
            if is_dump(recorder) {
                let OtherRecorder { what, hint } = MEMORY_DUMP;
                *refused =
                    Some(ReadError::NotATrace { file: input.shown.clone(), what, hint, is_known: true });
                *recorder = None;
            }
        }
    }

    /// Takes over what a file says of itself behind its events.
    pub(crate) fn learn(&mut self, input: usize, claim: FileClaim) {
        let set = |slot: Option<&mut Option<u32>>, said: Option<u32>| {
            if let (Some(slot), Some(said)) = (slot, said) {
                *slot = Some(said);
            }
        };
        set(self.ranks.get_mut(input), claim.rank);
        set(self.worlds.get_mut(input), claim.world);
    }

    /// Takes processes that launch nothing as well: what counts calls needs no ranks.
    pub(crate) fn take_idle_processes(&mut self, inputs: &[Input]) {
        for (refused, input) in self.refused.iter_mut().zip(inputs) {
            if matches!(input.process.as_ref().map(|part| &part.key), Some(PartKey::Idle(_))) {
                *refused = None;
            }
        }
    }

    /// The files of the selected ranks (all if `ranks` is empty), in order of rank.
    ///
    /// # Errors
    /// When the files are of several recorders, two files claim one rank, or a selected rank has no file.
    pub fn tasks(&self, all: &[Input], ranks: &[(u32, u32)]) -> Result<Vec<Task>, RunError> {
        self.check_recorders(all)?;
        let usable: Vec<usize> = (0..all.len()).filter(|&i| self.refused[i].is_none()).collect();
        let inputs: Vec<Input> = usable.iter().map(|&i| all[i].clone()).collect();
        let claims: Vec<Option<u32>> = usable.iter().map(|&i| self.ranks[i]).collect();
        let worlds: Vec<Option<u32>> =
            usable.iter().map(|&i| self.worlds.get(i).copied().flatten()).collect();
        let placed = places(&inputs, &claims, &worlds).unwrap_or_else(|| {
            let of_one = assign_ranks(&inputs, &claims).into_iter();
            of_one.map(|(rank, source)| PlacedFile { rank, source, place: None }).collect()
        });
        let are_apart = are_apart(&inputs);
        let placed = placed.into_iter().map(|placed| match are_apart {
            true => PlacedFile { source: RankSource::Process, ..placed },
            false => placed,
        });
        let mut tasks: Vec<Task> = usable
            .iter()
            .zip(placed)
            .map(|(&input, PlacedFile { rank, source, place })| Task { input, rank, source, place })
            .collect();
        tasks.sort_by_key(|j| (j.rank, j.input));
        for pair in tasks.windows(2) {
            // A rank from a name may be wrong, and the file may give another one after its events. So only a
            // clash of two ranks stored in the files is final here.
            if pair[0].rank == pair[1].rank && pair.iter().all(|j| j.source == RankSource::File) {
                return Err(duplicate(all, &pair[0], &pair[1]));
            }
        }
        choose(&mut tasks, ranks)?;
        Ok(tasks)
    }
}

impl RankClaims {
    /// The files as processes of their own, numbered in natural order, whatever ranks they claim.
    ///
    /// # Errors
    /// When the files are of several recorders, or a selected number has no file.
    pub(crate) fn processes(&self, all: &[Input], numbers: &[(u32, u32)]) -> Result<Vec<Task>, RunError> {
        self.check_recorders(all)?;
        let usable = (0..all.len()).filter(|&i| self.refused[i].is_none());
        let mut tasks: Vec<Task> = (0..)
            .zip(usable)
            .map(|(rank, input)| Task { input, rank, source: RankSource::Process, place: None })
            .collect();
        choose(&mut tasks, numbers)?;
        Ok(tasks)
    }

    /// Recorders see different parts of a job, so their ranks cannot be compared with each other.
    fn check_recorders(&self, all: &[Input]) -> Result<(), SetError> {
        let mut known =
            all.iter().zip(&self.recorders).filter_map(|(input, recorder)| Some((input, (*recorder)?)));
        let Some(first) = known.next() else { return Ok(()) };
        let Some(other) = known.find(|(_, recorder)| recorder.family() != first.1.family()) else {
            return Ok(());
        };
        Err(SetError::SeveralRecorders {
            first: first.0.shown.clone(),
            first_recorder: first.1.name(),
            other: other.0.shown.clone(),
            other_recorder: other.1.name(),
        })
    }
}

/// Whether the files are captures that are not known to be ranks of one job: several that another program has
/// converted, which have no clock in common, or several Perfetto traces of torch of which a name gives no
/// rank.
pub fn are_apart(inputs: &[Input]) -> bool {
    let of_no_rank = || {
        let ranks = assign_ranks(inputs, &vec![None; inputs.len()]);
        let is_unnamed = ranks.iter().any(|(_, source)| *source == RankSource::Position);
        is_unnamed && inputs.iter().any(|input| role_of(input).is_none())
    };
    inputs.len() > 1
        && (inputs.iter().all(Input::is_converted)
            || inputs.iter().all(Input::is_own_packets) && of_no_rank())
}

/// Keeps the selected ranks (all if `ranks` is empty).
fn choose(tasks: &mut Vec<Task>, ranks: &[(u32, u32)]) -> Result<(), RunError> {
    let known: Vec<u32> = tasks.iter().map(|j| j.rank).collect();
    if !ranks.is_empty() {
        tasks.retain(|j| ranks.iter().any(|(a, b)| (*a..=*b).contains(&j.rank)));
        if tasks.is_empty() && !known.is_empty() {
            return Err(RunError::NoSuchRank(ranks_named(&known)));
        }
    }
    Ok(())
}

/// The error for two files of one rank.
pub fn duplicate(inputs: &[Input], a: &Task, b: &Task) -> RunError {
    let shown = |j: &Task| inputs[j.input].shown.clone();
    SetError::DuplicateRank { rank: a.own_rank(), first: shown(a), second: shown(b) }.into()
}

/// Size of a file or an object, or of its part for one process, bytes; 0 if it is not known.
pub fn stored_size(input: &Input) -> u64 {
    let size = input.path.size().unwrap_or(0);
    input.process.as_ref().map_or(size, |part| part.share(size))
}
