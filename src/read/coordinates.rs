//! The ranks of files: what a file says of itself, what its name or its folder says, or its position.
//!
//! Names are rules of many tools, tried in order; a number that fits none of them is no rank.

use crate::input::{Input, base_name};
use hta_trace::meta::RankSource;
use regex::Regex;
use std::collections::{BTreeSet, HashSet};
use std::path::Path;
use std::sync::LazyLock;

static PARALLEL: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"(?i)\b(DP|PP|EP|TP)-([0-9]+)").ok());

static FOLDER: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?i)(?:^|[^a-z])rank[-_.=\[]?([0-9]+)").ok());

/// How verl names the places of a process: `rank5-of-8_tp1-pp1-dp0-cp0_pid7`.
static PLACES: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?i)[_.-]((?:tp|pp|dp|cp)[0-9]+(?:-(?:tp|pp|dp|cp)[0-9]+)+)(?:[_.]|$)").ok()
});

/// Ranks of the whole program, as verl writes them: `rank0-of-4`.
static OF_WORLD: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?i)rank[-_.]?[0-9]+-of-([0-9]+)").ok());

/// The size of the program that the name of a file tells.
pub fn world_in_name(name: &str) -> Option<u32> {
    OF_WORLD.as_ref()?.captures(name)?.get(1)?.as_str().parse().ok()
}

/// The coordinates of a rank that the name of its file tells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamedPlace {
    /// Ranks of its program.
    pub world: Option<u32>,
    /// Dimensions with coordinates.
    pub along: Vec<(String, u32)>,
}

impl NamedPlace {
    /// The coordinates in the name of an input, if it is the file of one rank.
    pub fn of(input: &Input) -> Option<Self> {
        let name = input.path.file_name()?.to_string_lossy();
        let found = PLACES.as_ref()?.captures(&name)?.get(1)?.as_str();
        let coordinate = |part: &str| {
            let (name, digits) = part.split_at_checked(2)?;
            Some((name.to_ascii_lowercase(), digits.parse().ok()?))
        };
        let along: Vec<(String, u32)> = found.split('-').map(coordinate).collect::<Option<_>>()?;
        Some(Self { world: world_in_name(&name), along })
    }

    /// The coordinate along a dimension.
    pub fn along(&self, dimension: &str) -> Option<u32> {
        self.along.iter().find(|(name, _)| name == dimension).map(|(_, coordinate)| *coordinate)
    }
}

/// The rank that a name says by the word `rank`: `rank3`, `rank-3`, `rank[3]`.
pub(crate) fn named_rank(name: &str) -> Option<u32> {
    number_behind(name, &["rank"], &['-', '_', '.', '[', '='])
}

/// Ranks from the names of files, by the first rule that fits each name; `folders` are the nearest folders of
/// each file, innermost first.
pub(crate) fn ranks_from_names(names: &[String], folders: &[Vec<String>]) -> Vec<Option<u32>> {
    let own =
        |n: &String| named_rank(n).or_else(|| number_behind(n, &["worker", "gpu", "device"], &['-', '_']));
    let mut ranks: Vec<Option<u32>> = names.iter().map(own).collect();
    if ranks.iter().any(Option::is_none) {
        let tuples = ranks_from_parallel_tuples(names);
        ranks.iter_mut().zip(tuples).for_each(|(rank, tuple)| *rank = rank.or(tuple));
    }
    if ranks.iter().all(Option::is_none) {
        ranks = ranks_from_folders(folders);
    }
    if ranks.iter().all(Option::is_none) {
        ranks = ranks_from_trailing_number(names);
    }
    ranks
}

/// Ranks from folders such as `rank0_ascend_pt/trace.json`: every one of several files must have its own,
/// because a number of a folder is often one of the run.
fn ranks_from_folders(folders: &[Vec<String>]) -> Vec<Option<u32>> {
    let said = |folder: &String| FOLDER.as_ref()?.captures(folder)?.get(1)?.as_str().parse().ok();
    let ranks: Option<Vec<u32>> = folders.iter().map(|of| of.iter().find_map(said)).collect();
    let Some(ranks) = ranks else { return vec![None; folders.len()] };
    let distinct: BTreeSet<u32> = ranks.iter().copied().collect();
    let is_each = distinct.len() == ranks.len() && ranks.len() > 1;
    ranks.into_iter().map(|rank| is_each.then_some(rank)).collect()
}

/// The nearest folders of a file, innermost first.
pub(crate) fn folder_names(path: &Path) -> Vec<String> {
    let folders = path.ancestors().skip(1).take(FOLDERS);
    folders.filter_map(|folder| Some(folder.file_name()?.to_string_lossy().into_owned())).collect()
}

/// How many folders above a file may say its rank.
const FOLDERS: usize = 3;

/// The ranks of the labels of a merged file, such as `TP01` and `TP00-DP01`: as of files with these names.
pub(crate) fn ranks_of_labels(labels: &[&str]) -> Option<Vec<u32>> {
    let spelled = |label: &&str| {
        let at = label.find(|c: char| c.is_ascii_digit()).unwrap_or(0);
        format!("{}-{}", label.get(..at).unwrap_or_default(), label.get(at..).unwrap_or_default())
    };
    let names: Vec<String> = labels
        .iter()
        .map(|label| label.split('-').map(|part| spelled(&part)).collect::<Vec<_>>().join("-"))
        .collect();
    let ranks: Vec<u32> = ranks_from_parallel_tuples(&names).into_iter().collect::<Option<_>>()?;
    let distinct: BTreeSet<u32> = ranks.iter().copied().collect();
    (distinct.len() == ranks.len()).then_some(ranks)
}

/// The first number that follows one of `words`, ignoring case, with or without one of `marks` in between.
fn number_behind(name: &str, words: &[&str], marks: &[char]) -> Option<u32> {
    let digits = name.char_indices().find_map(|(at, _)| {
        let head = |word: &&&str| name.get(at..at + word.len()).is_some_and(|h| h.eq_ignore_ascii_case(word));
        let behind = &name[at + words.iter().find(head)?.len()..];
        let rest = behind.strip_prefix(marks).unwrap_or(behind);
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        (end > 0).then(|| &rest[..end])
    });
    digits?.parse().ok()
}

/// Ranks from names such as `TP-1-DP-0`: positions in the order of (PP, DP, EP, TP), so that tensor-parallel
/// neighbours are adjacent. A single coordinate is the rank itself.
fn ranks_from_parallel_tuples(names: &[String]) -> Vec<Option<u32>> {
    let Some(re) = PARALLEL.as_ref() else { return vec![None; names.len()] };
    let coordinates = |name: &String| -> Option<[Option<u32>; 4]> {
        let mut tuple = [None; 4];
        for c in re.captures_iter(name) {
            let at = ["PP", "DP", "EP", "TP"].iter().position(|k| c[1].eq_ignore_ascii_case(k))?;
            tuple[at] = c[2].parse().ok();
        }
        tuple.iter().any(Option::is_some).then_some(tuple)
    };
    let tuples: Vec<_> = names.iter().map(coordinates).collect();
    let kinds = |t: &[Option<u32>; 4]| t.iter().filter(|c| c.is_some()).count();
    if tuples.iter().flatten().all(|t| kinds(t) == 1) {
        return tuples.iter().map(|t| t.and_then(|t| t.into_iter().flatten().next())).collect();
    }
    let mut order: Vec<_> = tuples.iter().flatten().copied().collect();
    order.sort_unstable();
    order.dedup();
    tuples.iter().map(|t| t.and_then(|t| order.iter().position(|o| *o == t).map(|p| p as u32))).collect()
}

/// Kineto's own files, of profiles on demand, have the process id behind their name.
const KINETO: &str = "libkineto";

/// Trailing numbers from this one on are process ids or times, not ranks.
const PROCESS_IDS: u32 = 100_000;

/// Ranks from a trailing number, if the names differ only in it: `megatron_kineto_3`.
fn ranks_from_trailing_number(names: &[String]) -> Vec<Option<u32>> {
    let split = |name: &String| -> Option<(String, u32)> {
        let at = name.rfind(|c: char| !c.is_ascii_digit()).map_or(0, |i| i + 1);
        Some((name[..at].to_string(), name[at..].parse().ok()?))
    };
    let parts: Option<Vec<_>> = names.iter().map(split).collect();
    let is_rank = |p: &(String, u32)| p.1 < PROCESS_IDS && !p.0.starts_with(KINETO);
    match parts {
        Some(parts) if names.len() > 1 && parts.iter().all(|p| p.0 == parts[0].0 && is_rank(p)) => {
            parts.into_iter().map(|p| Some(p.1)).collect()
        }
        _ => vec![None; names.len()],
    }
}

/// A rank, and where it comes from.
pub type Assigned = (u32, RankSource);

/// Assigns a rank to each file: from the file, else from its name, else by position.
///
/// `claims` holds each file's `distributedInfo.rank`.
pub fn assign_ranks(inputs: &[Input], claims: &[Option<u32>]) -> Vec<Assigned> {
    // The name of a file with several processes says nothing about one of them.
    let name = |i: &Input| if i.process.is_some() { String::new() } else { base_name(&i.path) };
    let names: Vec<String> = inputs.iter().map(name).collect();
    // A partial keeps the folders in the shown name only.
    let folder = |i: &Input| if i.process.is_some() { Vec::new() } else { folder_names(Path::new(&i.shown)) };
    let folders: Vec<Vec<String>> = inputs.iter().map(folder).collect();
    let from_names = ranks_from_names(&names, &folders);
    let mut ranks: Vec<Option<Assigned>> = claims
        .iter()
        .zip(&from_names)
        .map(|(file, name)| match (file, name) {
            (Some(r), _) => Some((*r, RankSource::File)),
            (None, Some(r)) => Some((*r, RankSource::Name)),
            (None, None) => None,
        })
        .collect();
    // Assign the lowest free numbers in natural order of the names, which is the order of the inputs.
    let taken: HashSet<u32> = ranks.iter().flatten().map(|r| r.0).collect();
    let mut free = (0..).filter(|r| !taken.contains(r));
    for rank in &mut ranks {
        if rank.is_none() {
            *rank = free.next().map(|r| (r, RankSource::Position));
        }
    }
    ranks.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_without_a_rank_take_the_lowest_free_numbers() {
        let inputs = ["a.json", "b.json", "c.json"].map(Input::named);
        let got = assign_ranks(&inputs, &[None, Some(0), None]);
        assert_eq!(got, [(1, RankSource::Position), (0, RankSource::File), (2, RankSource::Position)]);
    }
    use crate::input::base_name;

    fn ranks(names: &[&str]) -> Vec<Option<u32>> {
        let of = |n: &&str| (base_name(Path::new(n)), folder_names(Path::new(n)));
        let (names, folders): (Vec<_>, Vec<_>) = names.iter().map(of).unzip();
        ranks_from_names(&names, &folders)
    }

    #[test]
    fn names_give_ranks_by_the_first_rule_that_fits() {
        assert_eq!(ranks(&["rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz"]), [Some(34)]);
        assert_eq!(
            ranks(&["worker0.1623143089861.pt.trace.json", "worker1.2.pt.trace.json"]),
            [Some(0), Some(1)]
        );
        assert_eq!(
            ranks(&["x-TP-0-DECODE.trace.json.gz", "x-TP-1-DECODE.trace.json.gz"]),
            [Some(0), Some(1)]
        );
        assert_eq!(
            ranks(&["a-DP-0-TP-1.json", "a-DP-1-TP-0.json", "a-DP-0-TP-0.json"]),
            [Some(1), Some(2), Some(0)]
        );
        assert_eq!(ranks(&["megatron_kineto_0.json.gz", "megatron_kineto_7.json.gz"]), [Some(0), Some(7)]);
        assert_eq!(ranks(&["libkineto_trace_1519.json", "libkineto_trace_1520.json"]), [None, None]);
        assert_eq!(ranks(&["trace_151419.json", "trace_151420.json"]), [None, None]);
        assert_eq!(ranks(&["host_4242.1623143089861.pt.trace.json"]), [None]);
        assert_eq!(ranks(&["ranked_RANK-.rank_gpu3_Rank.12x7"]), [Some(12)]);
        assert_eq!(ranks(&["rank_-1.DEVICE-5", "\u{e9}rank--3.worker_06"]), [Some(5), Some(6)]);
    }

    #[test]
    fn ranks_in_brackets_and_in_folders_are_read() {
        assert_eq!(
            ranks(&["exp[llama2-70b]-rank[2].17.pt.trace.json.gz", "x-rank[3].json"]),
            [Some(2), Some(3)]
        );
        assert_eq!(ranks(&["rank1_ascend_pt/OUT/t.json", "rank0_ascend_pt/OUT/t.json"]), [Some(1), Some(0)]);
        assert_eq!(ranks(&["rank3_run/a.json", "rank3_run/b.json"]), [None, None]);
        assert_eq!(ranks(&["lora_rank16/a.json"]), [None]);
        assert_eq!(ranks(&["rank3_run/rank_1.json", "rank3_run/rank_2.json"]), [Some(1), Some(2)]);
    }

    #[test]
    fn labels_of_merged_files_are_numbered_as_the_files_are() {
        assert_eq!(ranks_of_labels(&["TP01", "TP00"]), Some(vec![1, 0]));
        assert_eq!(ranks_of_labels(&["TP00-DP01", "TP01-DP00", "TP00-DP00"]), Some(vec![2, 1, 0]));
        assert_eq!(ranks_of_labels(&["TP00", "DP00"]), None);
    }
}
