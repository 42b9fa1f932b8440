//! `comm_unmatched`: exposed communication without a match, because ranks are missing.

use crate::account::TimePart;
use crate::cause_words::CauseWords;
use crate::certainty::CauseCertainty;
use crate::context::Context;
use crate::evidence::Evidence;
use crate::gain;
use crate::rule::{CauseFamily, CauseRule, CommunicationRule};
use crate::trust::RecordingTrust;
use hta_base::units::{Ns, Span, fmt_ns, fmt_pct, percent};
use hta_base::wording::counts::{capital, uncapital};
use hta_base::wording::ranks::ranks_named;
use hta_job::exposed::{CallSpan, ExposedKind, divide};
use hta_job::recording::capability::Capability;
use hta_job::recording::limit::Limit;
use hta_job::recording::rules::MISSING_RANKS;
use hta_job::{Job, Member};
use std::collections::BTreeMap;

pub(super) const RULE: CauseRule = CauseRule {
    name: "comm_unmatched",
    certainty: CauseCertainty::AtMost,
    // It says itself which ranks are missing.
    needs: &[Capability::DeviceTime],
    // What cannot be divided into waiting and transfer for lack of ranks is no estimate.
    is_fact: true,
    evidence: "N of 5 % and more: ranks are missing",
    owns: "N",
    family: CauseFamily::Communication(CommunicationRule {
        part: TimePart::Unmatched,
        least_pct: 5.0,
        // Whatever the hosts could do meanwhile, this much of the time is not known.
        gain: |context, _| gain::least(context.account, TimePart::Unmatched),
        words,
        noun: "unmatched",
        beside: |trust| {
            let filter = "rank IS NOT NULL".to_string();
            Some(Evidence { table: "recordings", filter, words: uncapital(&there(trust)) })
        },
    }),
    ..CauseRule::DEFAULT
};

/// Rules by which communication is not divided although all ranks are recorded.
const TIMES: [&str; 2] = ["time_origin", "ends_apart"];

fn words(each: Ns, step: Ns, context: &Context) -> CauseWords {
    let (share, per) = (fmt_pct(percent(each, step)), context.trust.per_step());
    let takes = format!(
        "Communication that no compute hides takes {}{per} ({share}), and cannot be divided into waiting and \
         transfer",
        fmt_ns(each)
    );
    let (why, action) = why_unmatched(context.trust, || of_calls(context.job));
    CauseWords::new(takes, why, action)
}

/// Why communication is not divided, and what to do about it.
fn why_unmatched(
    trust: &RecordingTrust,
    of_calls: impl FnOnce() -> (&'static str, &'static str),
) -> (String, String) {
    let recording = &trust.recording;
    let limit = |is_one: &dyn Fn(&Limit) -> bool| recording.limits().iter().find(|l| is_one(l));
    let told = |l: &Limit| (capital(&l.sentence), l.next.clone());
    if let Some(of_times) = limit(&|l| TIMES.contains(&l.rule)) {
        return told(of_times);
    }
    let left_out: Vec<u32> = recording.left_out().into_iter().collect();
    let missing = limit(&|l| l.rule == MISSING_RANKS);
    let others = missing.map_or_else(|| OTHER_TRACES.to_string(), |l| l.next.clone());
    if let Some(lost) = recording.why_left_out() {
        let are = if left_out.len() == 1 { "is" } else { "are" };
        let why = format!("{}; {} {are} left out: {}", there(trust), ranks_named(&left_out), lost.sentence);
        let is_alone = missing.is_none_or(|l| l.next == lost.next);
        return (why, if is_alone { lost.next.clone() } else { format!("{}; {others}", lost.next) });
    }
    if trust.world != Some(trust.present) || trust.present < 2 {
        return (there(trust), others);
    }
    // Collectives may stand behind the cut of a file.
    let is_cut = |l: &Limit| l.is_behind_cut() && COMPARED.contains(&l.capability);
    limit(&is_cut).map(told).unwrap_or_else(|| {
        let (why, action) = of_calls();
        (why.to_string(), action.to_string())
    })
}

/// Capabilities that rest on the matched collectives of several ranks.
const COMPARED: [Capability; 2] = [Capability::Ranks, Capability::Transfer];

/// What to do about ranks that are missing.
const OTHER_TRACES: &str = "collect the traces of the other ranks and analyse them together";

/// Why collectives of ranks that are all recorded are not matched, and what to do about it.
const NO_GROUPS: (&str, &str) = (
    "The ranks of its collectives are not recorded",
    "record again with a PyTorch that writes the process group of each collective (2.2 or later)",
);

/// The same where other calls of the job have known groups: of kernels, and of ranges on the host.
const NOT_BY_THESE: [(&str, &str); 2] = [
    (
        "Its kernels name no process group, unlike others of the same job",
        "record the host, too (ProfilerActivity.CPU): the operators name the group of each collective",
    ),
    (
        "Its calls name no process group, and order, sizes and ends do not tell which it is",
        "hta communication lists the calls without a match",
    ),
];

/// The same where groups are known, but not the other ranks of messages.
const NO_PEERS: (&str, &str) = (
    "The ranks that its messages go to and come from are not recorded",
    "record the operators, too (ProfilerActivity.CPU): those of each send and receive name the other rank",
);

/// The same where groups are known, but no call of another rank is the same.
const ALONE: (&str, &str) = (
    "Its calls have no partner among those of the other ranks",
    "record the same steps on all ranks, whole: start and stop the profilers behind a barrier",
);

/// The same where no call runs.
const BESIDE_CALLS: (&str, &str) = (
    "It lies in operators of collectives and ranges around them, while no collective runs",
    "exchange in fewer and larger calls (buckets, coalescing), if the host's part of each is to be saved",
);

/// Why most of the time is not matched, by the calls that run in it.
fn of_calls(job: &Job) -> (&'static str, &'static str) {
    let has_groups = job.matched.groups.iter().any(|g| g.name.is_some() && g.members.is_some());
    let mut sums: BTreeMap<(&str, &str), Ns> = BTreeMap::new();
    for (part, p) in (0u32..).zip(&job.parts) {
        let reason =
            |call: u32| {
                let shape = &job.call(Member { part, call }).shape;
                let has_peers = || p.calls.edges.binary_search_by_key(&call, |m| m.call).is_ok();
                match job.matched.group_of(part, shape.group).and_then(|g| job.matched.groups.get(g as usize))
                {
                    Some(group) if group.members.is_some() => {
                        if shape.kind.is_point_to_point() && !has_peers() { NO_PEERS } else { ALONE }
                    }
                    _ if has_groups => NOT_BY_THESE[usize::from(shape.on_host)],
                    _ => NO_GROUPS,
                }
            };
        for (l, lane) in p.lanes.iter().enumerate() {
            let calls = p.calls_in(l, Span::new(Ns::MIN, Ns::MAX));
            let runs: Vec<CallSpan> = calls.map(|call| job.run(Member { part, call })).collect();
            let pieces = divide(&lane.exposed, &runs).into_iter();
            for piece in pieces.filter(|piece| piece.what == ExposedKind::Unmatched) {
                *sums.entry(piece.call.map_or(BESIDE_CALLS, reason)).or_default() += piece.span.len();
            }
        }
    }
    sums.into_iter().max_by_key(|(_, ns)| *ns).map_or(NO_GROUPS, |(most, _)| most)
}

/// How many ranks count.
fn there(trust: &RecordingTrust) -> String {
    let count = (trust.present as usize).saturating_sub(trust.recording.left_out().len());
    match (trust.world, count) {
        (Some(world), _) => format!("Only {count} of {world} ranks are there"),
        (None, 1) => "Only 1 rank is there".to_string(),
        (None, n) => format!("Only {n} ranks are there"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hta_job::recording::Recording;
    use std::sync::Arc;

    /// Why four ranks of a world of some size cannot be divided, given limits: rank, capability, grade, rule,
    /// sentence and next.
    fn why(world: Option<u32>, limits: &[(Option<u32>, [&str; 5])]) -> (String, String) {
        let recording = Arc::new(Recording::of_texts(limits.iter().copied(), 4));
        let trust = RecordingTrust { recording, world, present: 4, ..RecordingTrust::default() };
        why_unmatched(&trust, || NO_GROUPS)
    }

    const LOST: (Option<u32>, [&str; 5]) =
        (Some(2), ["device_time", "withheld", "device_not_recorded", "no kernel of rank 2", "record CUDA"]);
    const SLOW: (Option<u32>, [&str; 5]) =
        (Some(2), ["device_time", "at most", "profiler_overhead", "the profiler works", "profile less"]);
    const CUT: (Option<u32>, [&str; 5]) = (
        Some(1),
        [
            "ranks",
            "at most",
            "file_cut",
            "the file of rank 1 is cut",
            "get the whole file: copy it again, or let the profiler finish writing it",
        ],
    );
    const MISSING: (Option<u32>, [&str; 5]) =
        (None, ["ranks", "at most", "missing_ranks", "1 of 5 ranks not recorded", "collect the others"]);

    #[test]
    fn a_rank_that_is_left_out_is_not_there() {
        let said = "Only 3 of 4 ranks are there; rank 2 is left out: no kernel of rank 2";
        assert_eq!(why(Some(4), &[SLOW, LOST]), (said.to_string(), "record CUDA".to_string()));
        let said = "Only 3 ranks are there; rank 2 is left out: no kernel of rank 2";
        assert_eq!(why(None, &[LOST]), (said.to_string(), "record CUDA".to_string()));
        let (said, next) = why(Some(5), &[LOST, MISSING]);
        assert_eq!(said, "Only 3 of 5 ranks are there; rank 2 is left out: no kernel of rank 2");
        assert_eq!(next, "record CUDA; collect the others");
        let also = (Some(3), LOST.1);
        let (said, _) = why(Some(4), &[LOST, also]);
        assert!(said.starts_with("Only 2 of 4 ranks are there; ranks 2, 3 are left out: "), "{said}");
    }

    #[test]
    fn collectives_may_stand_behind_a_cut() {
        let (said, next) = why(Some(4), &[CUT]);
        assert_eq!(said, "The file of rank 1 is cut");
        assert!(next.starts_with("get the whole file"), "{next}");
    }

    #[test]
    fn groups_are_missing_only_where_all_ranks_are_there() {
        assert_eq!(why(Some(4), &[]).0, NO_GROUPS.0);
        let said = "Only 4 of 5 ranks are there".to_string();
        assert_eq!(why(Some(5), &[MISSING]), (said, "collect the others".to_string()));
        assert_eq!(why(None, &[]), ("Only 4 ranks are there".to_string(), OTHER_TRACES.to_string()));
    }
}
