//! Whose pauses are one cause: those of a rank are, and those that come now on this rank and now on that one.

use crate::CauseKind;
use crate::account::{JobAccount, TimePart};
use crate::collected::{CauseKey, CollectedCause};
use crate::pauses::{HostPauses, MOST_PCT};
use hta_analysis::api::{Partial, rows};
use hta_base::units::Ns;
use hta_job::Job;
use std::collections::{BTreeMap, BTreeSet};

/// Number of pauses of a rank in one name from which the name says something, whatever other ranks do.
const OFTEN: usize = 3;

/// Makes pauses of few events in other names on each rank one cause without a name: where one or two calls
/// stand still, their name is only where the thread was. A name that holds most pauses of the job stays.
pub(crate) fn unite(job: &Job, partials: &[Partial], account: &mut JobAccount) {
    let pauses: Vec<(u32, &str, Ns)> =
        rows::<HostPauses>(partials).map(|row| (row.rank, row.name, row.excess_ns)).collect();
    unite_by(&pauses, |part| job.parts.get(part as usize).map(|p| p.rank), account);
}

/// The same with rank, name and length of each pause.
fn unite_by(pauses: &[(u32, &str, Ns)], rank: impl Fn(u32) -> Option<u32>, account: &mut JobAccount) {
    let mut counts: BTreeMap<(u32, &str), usize> = BTreeMap::new();
    let mut times: BTreeMap<&str, Ns> = BTreeMap::new();
    for (rank, name, ns) in pauses {
        *counts.entry((*rank, name)).or_default() += 1;
        *times.entry(name).or_default() += ns;
    }
    let all: Ns = times.values().sum();
    if times.values().any(|ns| ns * 100 >= all * MOST_PCT) {
        return;
    }
    for (place, cell) in account.steps.iter_mut().flat_map(|step| &mut step.cells) {
        let Some(rank) = rank(place.0) else { continue };
        for lost in cell.lost.iter_mut().filter(|lost| lost.kind == CauseKind::HostPause) {
            if counts.get(&(rank, lost.key.as_str())).is_some_and(|n| *n < OFTEN) {
                lost.key.clear();
            }
        }
    }
}

/// By rank: the causes for whose pauses its devices idle.
pub(crate) fn causes_of_ranks(
    job: &Job,
    all: &BTreeMap<CauseKey, CollectedCause>,
) -> BTreeMap<u32, BTreeSet<CauseKey>> {
    let mut out: BTreeMap<u32, BTreeSet<CauseKey>> = BTreeMap::new();
    for (key, found) in all.iter().filter(|((kind, _), _)| kind.is_of_pauses()) {
        let idle = found.owned.keys().filter(|(.., part)| *part == TimePart::Idle);
        for p in idle.filter_map(|(_, (part, _), _)| job.parts.get(*part as usize)) {
            out.entry(p.rank).or_default().insert(key.clone());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::{CellOfStep, JobStep, Lost};

    /// The names of the causes of pauses, by rank, after those are united.
    fn keys(pauses: &[(u32, &str, Ns)]) -> Vec<(u32, String)> {
        let lost = |(_, key, time): &(u32, &str, Ns)| Lost {
            part: TimePart::Idle,
            kind: CauseKind::HostPause,
            key: key.to_string(),
            detail: String::new(),
            place: String::new(),
            time: *time,
            count: 1,
        };
        let cell = |p: &(u32, &str, Ns)| CellOfStep { lost: vec![lost(p)], ..CellOfStep::default() };
        let step = |p: &(u32, &str, Ns)| JobStep {
            key: None,
            time: 100,
            cells: BTreeMap::from([((p.0, Some(0)), cell(p))]),
            windows: Default::default(),
        };
        let mut account = JobAccount { steps: pauses.iter().map(step).collect(), ..JobAccount::default() };
        unite_by(pauses, Some, &mut account);
        let of_step = |step: &JobStep| {
            let (place, cell) = step.cells.iter().next()?;
            Some((place.0, cell.lost.first()?.key.clone()))
        };
        account.steps.iter().filter_map(of_step).collect()
    }

    #[test]
    fn single_pauses_in_other_names_on_each_rank_are_one_cause() {
        let none = |rank: u32| (rank, String::new());
        assert_eq!(keys(&[(1, "a", 10), (4, "b", 10), (2, "a", 10)]), [none(1), none(4), none(2)]);
    }

    #[test]
    fn a_name_stays_that_holds_most_pauses_of_the_job_or_that_recurs_on_its_rank() {
        let named = |rank: u32, name: &str| (rank, name.to_string());
        assert_eq!(keys(&[(1, "a", 10), (4, "a", 10), (2, "b", 4)])[0], named(1, "a"));
        let some = keys(&[(1, "a", 10), (4, "b", 10), (4, "b", 10), (4, "b", 10)]);
        assert_eq!((&some[0], &some[1]), (&named(1, ""), &named(4, "b")));
    }
}
