//! Files that are found but left out of a job: merged copies of others, Perfetto traces of which the JSON is
//! there, and those whose ranks nobody tells. Each becomes an input that is refused with its reason.

use crate::coordinates::{Assigned, assign_ranks};
use crate::input::{FileHead, Input, PartKey, ProcessPart, base_name, is_json, is_packets_name};
use crate::kineto::merged::rows;
use crate::load::peek;
use crate::roles::role_of;
use hta_trace::meta::{RankSource, Recorder};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Leaves out merged files that lie beside the files of their ranks: each becomes one input that is refused.
pub(super) fn leave_out_copies(mut inputs: Vec<Input>) -> Vec<Input> {
    /// The rank of a part of a merged file, and its number of rows.
    fn rank_of(i: &Input) -> Option<(u32, Option<u64>)> {
        let part = i.process.as_ref()?;
        if let PartKey::Rank(rank, _) = part.key { Some((rank, part.rows)) } else { None }
    }
    let merged: BTreeSet<PathBuf> =
        inputs.iter().filter(|i| rank_of(i).is_some()).map(|i| i.path.to_path_buf()).collect();
    if merged.is_empty() || inputs.iter().all(|i| i.process.is_some()) {
        return inputs;
    }
    let alone = inputs.iter().filter(|i| i.process.is_none() && is_json(&i.path));
    let (others, claims): (Vec<Input>, Vec<Option<u32>>) =
        alone.filter_map(|i| Some((i.clone(), peek(i).ok()?.rank))).unzip();
    let ranks = assign_ranks(&others, &claims);
    for path in merged {
        let Some(whole) = inputs.iter().find(|i| *i.path == *path).cloned() else { continue };
        let whole = Input { process: None, seen: None, ..whole };
        let mut parts = inputs.iter().filter(|i| *i.path == *path).filter_map(rank_of);
        let is_copy = parts.all(|(rank, count)| {
            let beside = ranks.iter().position(|(r, _)| *r == rank).and_then(|at| others.get(at));
            beside.is_some_and(|other| rows(other) == count)
        });
        if is_copy {
            let at = inputs.iter().position(|i| *i.path == *path);
            let shown =
                whole.shown.rsplit_once(" (rank ").map_or(whole.shown.clone(), |(file, _)| file.to_string());
            let process = Some(ProcessPart { key: PartKey::CopyOfRanks, index: 0, count: 1, rows: None });
            inputs.retain(|i| *i.path != *path);
            inputs.insert(at.unwrap_or(0), Input { shown, process, ..whole });
        }
    }
    inputs
}

/// Leaves out Perfetto traces that lie beside the Chrome JSON of the same name: torch writes less into them.
/// Each becomes an input that is refused.
pub(super) fn leave_out_twins(mut inputs: Vec<Input>) -> Vec<Input> {
    let stem = |input: &Input| (input.path.parent().map(Path::to_path_buf), base_name(&input.path));
    let of_json = |input: &&Input| is_json(&input.path) && !is_packets_name(&input.path);
    let of_packets: BTreeSet<_> = inputs.iter().filter(|i| is_packets_name(&i.path)).map(stem).collect();
    // Other JSON may have the name, too: the settings of a run, its losses.
    let is_trace = |input: &&Input| of_packets.contains(&stem(input)) && peek(input).is_ok();
    let known: BTreeSet<_> = inputs.iter().filter(of_json).filter(is_trace).map(stem).collect();
    let is_twin = |input: &Input| is_packets_name(&input.path) && known.contains(&stem(input));
    inputs.iter_mut().filter(|input| is_twin(input)).for_each(|i| leave_out(i, PartKey::TwinOfJson));
    inputs.dedup_by(|a, b| a.path == b.path && is_packets_name(&a.path) && is_left_out(a) && is_left_out(b));
    inputs
}

/// Leaves out the Perfetto traces of torch whose names give no rank, if JSON of torch beside them has ranks:
/// a position among these says nothing. If no file has a rank, a position is all that there is.
pub(super) fn leave_out_without_rank(inputs: &mut [Input]) {
    if !inputs.iter().any(Input::is_own_packets) {
        return;
    }
    let is_read = |i: &Input| (!i.is_dump()).then(|| peek(i).ok()).flatten();
    let heads: Vec<Option<FileHead>> = inputs.iter().map(is_read).collect();
    let read = || inputs.iter().zip(&heads).filter_map(|(input, head)| Some((input, head.as_ref()?)));
    let (files, claims): (Vec<Input>, Vec<Option<u32>>) =
        read().map(|(input, head)| (input.clone(), head.rank)).unzip();
    let ranks = assign_ranks(&files, &claims);
    let is_of_torch = |head: &FileHead| head.recorder.family() == Recorder::Kineto.family();
    let is_ranked = |((input, head), (_, source)): ((&Input, &FileHead), &Assigned)| {
        !input.is_own_packets() && is_of_torch(head) && *source != RankSource::Position
    };
    if !read().zip(&ranks).any(is_ranked) {
        return;
    }
    let sources: Vec<RankSource> = ranks.into_iter().map(|(_, source)| source).collect();
    let files = inputs.iter_mut().zip(&heads).filter(|(_, head)| head.is_some());
    for ((input, _), source) in files.zip(sources) {
        if input.is_own_packets() && source == RankSource::Position && role_of(input).is_none() {
            leave_out(input, PartKey::WithoutRank);
        }
    }
}

fn leave_out(input: &mut Input, key: PartKey) {
    let process = Some(ProcessPart { key, index: 0, count: 1, rows: None });
    *input = Input { shown: input.path.display().to_string(), process, seen: None, ..input.clone() };
}

fn is_left_out(input: &Input) -> bool {
    matches!(input.process.as_ref().map(|part| &part.key), Some(PartKey::TwinOfJson))
}
