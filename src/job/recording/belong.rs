//! Whether files are ranks of one job at all. What is not is refused, because numbers that compare its files
//! would be sure and wrong.
//!
//! ```text
//!   captures of one process   pid 11 [recorded )                    no rank in the files, one process and its devices,
//!                             pid 11              [recorded )       never two at a time
//!   two jobs                  other world sizes, other members of a group, or recorded long after each other
//! ```

use crate::recording::facts::RecordingRow;
use crate::{Job, RankSummary};
use hta_base::units::{Ns, Span, fmt_ns};
use hta_read::error::SetError;
use hta_trace::collective::ranks::member_list;
use hta_trace::collective::{LocalGroup, Members};
use hta_trace::meta::RankSource;
use std::collections::BTreeMap;

/// Longest time between recordings of one job, ns: where one host recorded both, and where the clocks of two
/// may differ.
const APART_ON_ONE_HOST: Ns = 10_000_000_000;
const APART: Ns = 60_000_000_000;

/// What tells to which job and process a file belongs.
#[derive(Debug, Clone, Copy)]
pub struct FileOrigin<'a> {
    pub(crate) rank: u32,
    pub(crate) file: &'a str,
    /// Whether the rank stands in the file.
    pub(crate) tells_rank: bool,
    /// Whether the job is of several programs, so that several files may tell one rank.
    pub(crate) has_role: bool,
    pub(crate) host: Option<&'a str>,
    pub(crate) pids: &'a str,
    pub(crate) devices: &'a str,
    pub(crate) world: Option<u32>,
    pub(crate) recorded: Span,
    /// Whether times are on the Unix axis.
    pub(crate) has_origin: bool,
}

impl<'a> From<RecordingRow<'a>> for FileOrigin<'a> {
    fn from(r: RecordingRow<'a>) -> Self {
        Self {
            rank: r.rank,
            file: r.file,
            tells_rank: r.rank_source == RankSource::File.name(),
            has_role: r.role.is_some(),
            host: r.host_name,
            pids: r.pids,
            devices: r.devices,
            world: r.world_size,
            recorded: Span::new(r.recorded_start_ns, r.recorded_end_ns),
            has_origin: r.has_origin,
        }
    }
}

/// Positions of the captures of each process in order of time, if some process has several. Rows are in any
/// order.
pub fn captures(files: &[FileOrigin]) -> Vec<Vec<usize>> {
    type Key<'a> = (Option<&'a str>, &'a str, &'a str);
    let mut processes: BTreeMap<Key, Vec<usize>> = BTreeMap::new();
    for (at, r) in files.iter().enumerate() {
        let is_open = r.has_role || !r.tells_rank && (!r.devices.is_empty() || has_time(r.file));
        if is_open && r.has_origin && !r.pids.is_empty() {
            processes.entry((r.host, r.pids, r.devices)).or_default().push(at);
        }
    }
    let start = |at: &usize| files.get(*at).map(|r| r.recorded.start);
    let end = |at: &usize| files.get(*at).map(|r| r.recorded.end);
    for of in processes.values_mut() {
        of.sort_by_key(start);
    }
    let are_apart = |of: &Vec<usize>| of.windows(2).all(|w| end(&w[0]) <= start(&w[1]));
    if !processes.values().any(|of| of.len() > 1) || !processes.values().all(are_apart) {
        return Vec::new();
    }
    let mut found: Vec<Vec<usize>> = processes.into_values().collect();
    found.sort();
    found
}

/// Whether the name of a file has a time, as `tensorboard_trace_handler` writes it:
/// `host_4711.1733768415227842343.pt`. Of processes without devices it alone tells captures from recordings
/// of several programs.
fn has_time(file: &str) -> bool {
    let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
    name.split('.').any(|part| part.len() >= TIME_DIGITS && part.bytes().all(|b| b.is_ascii_digit()))
}

/// Digits of the shortest time in a name: milliseconds since 1970.
const TIME_DIGITS: usize = 13;

/// Refuses what are no ranks of one job, as far as each file tells.
///
/// # Errors
/// When files are captures of one process, or of two jobs.
pub fn check(files: &[FileOrigin]) -> Result<(), SetError> {
    let found = captures(files);
    if let Some(of) = found.iter().max_by_key(|of| of.len()).filter(|of| of.len() > 1) {
        let list = of.iter().filter_map(|at| files.get(*at)).map(|r| r.file.to_string()).collect();
        return Err(SetError::Captures { files: list });
    }
    let differ = |a: &FileOrigin, b: &FileOrigin, how: String| {
        Err(SetError::TwoJobs { first: a.file.to_string(), other: b.file.to_string(), how })
    };
    let mut sized = files.iter().filter_map(|r| Some((r, r.world?)));
    if let Some((first, world)) = sized.next()
        && let Some((other, others)) = sized.find(|(_, w)| *w != world)
    {
        return differ(first, other, format!("world sizes of {world} and {others} ranks"));
    }
    if files.iter().all(|r| r.has_origin) {
        let mut by_time: Vec<&FileOrigin> = files.iter().collect();
        by_time.sort_by_key(|r| (r.recorded.start, r.rank));
        let mut last: Option<&FileOrigin> = None;
        for (at, r) in by_time.iter().enumerate() {
            if let Some(before) = last {
                let (earlier, later) = by_time.split_at(at);
                let is_one_host =
                    || later.iter().any(|l| l.host.is_some() && earlier.iter().any(|e| e.host == l.host));
                let apart = r.recorded.start.saturating_sub(before.recorded.end);
                if apart > APART || apart > APART_ON_ONE_HOST && is_one_host() {
                    return differ(before, r, format!("recordings that are {} apart", fmt_ns(apart)));
                }
            }
            last = last.filter(|l| l.recorded.end >= r.recorded.end).or(Some(r));
        }
    }
    Ok(())
}

/// Refuses ranks that say different members of one group.
///
/// # Errors
/// When a group that two ranks share has other members for each.
pub fn check_groups(job: &Job) -> Result<(), SetError> {
    let mut known: BTreeMap<&str, Vec<(&RankSummary, &Members)>> = BTreeMap::new();
    for part in &job.parts {
        for group in &part.calls.groups {
            let LocalGroup { name: Some(name), members: Some(members), .. } = group else { continue };
            if !members.contains(part.rank) {
                continue;
            }
            let seen = known.entry(name).or_default();
            let other = seen.iter().find(|(other, theirs)| {
                *theirs != members && (theirs.contains(part.rank) || members.contains(other.rank))
            });
            if let Some((other, theirs)) = other {
                let (theirs, members) = (member_list(theirs), member_list(members));
                let how = format!("the members {theirs} and {members} of the group {name}");
                return Err(SetError::TwoJobs { first: shown(other), other: shown(part), how });
            }
            if seen.len() < MOST_MEMBER_LISTS && !seen.iter().any(|(_, theirs)| *theirs == members) {
                seen.push((part, members));
            }
        }
    }
    Ok(())
}

/// Largest number of member lists of one name that are compared.
const MOST_MEMBER_LISTS: usize = 64;

fn shown(part: &RankSummary) -> String {
    format!("rank {}", part.rank)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: FileOrigin = FileOrigin {
        rank: 0,
        file: "f",
        tells_rank: false,
        has_role: false,
        host: None,
        pids: "7",
        devices: "0",
        world: None,
        recorded: Span { start: 0, end: 10 },
        has_origin: true,
    };

    fn from(start: Ns) -> FileOrigin<'static> {
        FileOrigin { recorded: Span { start, end: start + 10 }, ..PLAIN }
    }

    #[test]
    fn captures_of_one_process_follow_each_other_and_ranks_do_not() {
        assert_eq!(captures(&[from(20), PLAIN]), [[1, 0]]);
        assert!(captures(&[PLAIN, from(5)]).is_empty());
        assert!(captures(&[PLAIN, FileOrigin { tells_rank: true, ..from(20) }]).is_empty());
        let of_role = |start| FileOrigin { tells_rank: true, has_role: true, ..from(start) };
        assert_eq!(captures(&[of_role(0), of_role(20)]), [[0, 1]], "one process is no two engines");
        assert!(captures(&[of_role(0), of_role(5)]).is_empty(), "they ran at once");
        assert!(captures(&[PLAIN, FileOrigin { devices: "1", ..from(20) }]).is_empty());
        assert!(captures(&[PLAIN, FileOrigin { pids: "8", ..from(20) }]).is_empty());
        let of_cpu = |start, file| FileOrigin { devices: "", file, ..from(start) };
        assert!(captures(&[of_cpu(0, "a.json"), of_cpu(20, "b.json")]).is_empty());
        let timed = ["f/h_7.1733768415227842343.pt.trace.json", "f/h_7.1733768415227999999.pt.trace.json"];
        assert_eq!(captures(&[of_cpu(0, timed[0]), of_cpu(20, timed[1])]), [[0, 1]]);
        let other = |start| FileOrigin { pids: "8", ..from(start) };
        assert_eq!(captures(&[PLAIN, other(0), from(20), other(20)]), [[0, 2], [1, 3]]);
    }

    #[test]
    fn two_jobs_differ_in_world_size_or_time() {
        let of = |world, start| FileOrigin { tells_rank: true, world: Some(world), ..from(start) };
        assert!(check(&[of(2, 0), of(2, 5)]).is_ok());
        assert!(check(&[of(2, 0), of(4, 5)]).is_err());
        assert!(check(&[of(2, 0), of(2, APART + 11)]).is_err());
        assert!(check(&[of(2, 0), of(2, APART)]).is_ok());
        let on = |start| FileOrigin { host: Some("a"), ..of(2, start) };
        assert!(check(&[on(0), on(APART_ON_ONE_HOST + 11)]).is_err());
        let unknown = |start| FileOrigin { has_origin: false, ..of(2, start) };
        assert!(check(&[unknown(0), unknown(2 * APART)]).is_ok());
    }
}
