//! `comm_unmatched`: exposed communication without a match, because ranks are missing.

use crate::diagnosis::account::TimePart;
use crate::diagnosis::cause_words::CauseWords;
use crate::diagnosis::certainty::CauseCertainty;
use crate::diagnosis::evidence::Evidence;
use crate::diagnosis::gain;
use crate::diagnosis::rule::{CauseFamily, CauseRule, CommunicationRule};
use crate::diagnosis::trust::RecordingTrust;
use crate::recording::capability::Capability;
use crate::recording::limit::Limit;
use crate::recording::rules::MISSING_RANKS;
use hta_base::units::{Ns, fmt_ns, fmt_pct, percent};
use hta_base::wording::counts::{capital, uncapital};
use hta_base::wording::ranks::ranks_named;

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

fn words(each: Ns, step: Ns, trust: &RecordingTrust) -> CauseWords {
    let (share, per) = (fmt_pct(percent(each, step)), trust.per_step());
    let takes = format!(
        "Communication that no compute hides takes {}{per} ({share}), and cannot be divided into waiting and \
         transfer",
        fmt_ns(each)
    );
    let (why, action) = why_unmatched(trust);
    CauseWords::new(takes, why, action)
}

/// Why communication is not divided, and what to do about it.
fn why_unmatched(trust: &RecordingTrust) -> (String, String) {
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
    limit(&is_cut).map_or_else(|| (NO_GROUPS.0.to_string(), NO_GROUPS.1.to_string()), told)
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
    use crate::recording::Recording;
    use std::sync::Arc;

    /// Why four ranks of a world of some size cannot be divided, given limits: rank, capability, grade, rule,
    /// sentence and next.
    fn why(world: Option<u32>, limits: &[(Option<u32>, [&str; 5])]) -> (String, String) {
        let recording = Arc::new(Recording::of_texts(limits.iter().copied(), 4));
        why_unmatched(&RecordingTrust { recording, world, present: 4, ..RecordingTrust::default() })
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
