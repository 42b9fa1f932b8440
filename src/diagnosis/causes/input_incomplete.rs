//! `input_incomplete`: the recording is not sufficient for a diagnosis.

use crate::CauseKind;
use crate::cause::Cause;
use crate::cause_words::CauseWords;
use crate::context::Context;
use crate::gain::OwnedTime;
use crate::rule::{CauseFamily, CauseRule};
use crate::trust::Trust;
use hta_base::wording::counts::uncapital;
use hta_job::recording::capability::{Capability, Grade};

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
