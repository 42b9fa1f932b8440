//! `comm_unmatched`: exposed communication without a match, because ranks are missing.

use crate::diagnosis::account::TimePart;
use crate::diagnosis::cause_words::CauseWords;
use crate::diagnosis::certainty::CauseCertainty;
use crate::diagnosis::gain;
use crate::diagnosis::rule::{CauseFamily, CauseRule, CommunicationRule};
use crate::diagnosis::trust::RecordingTrust;
use crate::recording::capability::Capability;
use hta_base::units::{Ns, fmt_ns, fmt_pct, percent};

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
    if let Some(limit) = trust.recording.limits().iter().find(|l| TIMES.contains(&l.rule)) {
        return CauseWords::new(takes, limit.sentence.clone(), limit.next.clone());
    }
    let is_whole = trust.world == Some(trust.present) && trust.present > 1;
    let present = match trust.world {
        _ if is_whole => "The ranks of its collectives are not recorded".to_string(),
        Some(world) => format!("Only {} of {world} ranks are there", trust.present),
        None => format!(
            "Only {} there",
            match trust.present {
                1 => "1 rank is".to_string(),
                n => format!("{n} ranks are"),
            }
        ),
    };
    let action = match is_whole {
        true => "record again with a PyTorch that writes the process group of each collective (2.2 or later)",
        false => "collect the traces of the other ranks and analyse them together",
    };
    CauseWords::new(takes, present, action)
}
