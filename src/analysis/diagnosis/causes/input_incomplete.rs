//! `input_incomplete`: the recording is not sufficient for a diagnosis.

use crate::diagnosis::CauseKind;
use crate::diagnosis::cause::Cause;
use crate::diagnosis::cause_words::CauseWords;
use crate::diagnosis::context::Context;
use crate::diagnosis::gain::OwnedTime;
use crate::diagnosis::rule::{CauseFamily, CauseRule};
use crate::diagnosis::trust::Trust;
use crate::recording::capability::{Capability, Grade};
use hta_base::wording::counts::uncapital;

pub(super) const RULE: CauseRule = CauseRule {
    name: "input_incomplete",
    evidence: "the recording is not sufficient",
    owns: "nothing",
    shown_by: "data/samples/serving_capture",
    family: CauseFamily::Job(|context, _, _| incomplete(context)),
    ..CauseRule::DEFAULT
};

/// What the recording lacks, if that withholds findings.
fn incomplete(context: &Context) -> Option<Cause> {
    let recording = &context.trust.recording;
    let limit = recording.reason(Capability::Idle).filter(|l| l.grade == Grade::Withheld)?;
    let ranks = context.job.parts.iter().map(|p| p.rank).collect();
    let mut cause = context.cause(CauseKind::InputIncomplete, "", ranks, OwnedTime::new(), 0);
    cause.trust = Trust::Withheld(limit.sentence.clone());
    let what = format!("Cannot tell where the time goes: {}", uncapital(&limit.sentence));
    cause.words = CauseWords::new(what, String::new(), limit.next.clone());
    Some(cause)
}
