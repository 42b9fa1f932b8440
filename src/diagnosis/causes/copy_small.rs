//! `copy_small`: copies below 64 KiB.

use crate::CauseKind;
use crate::rule::{CauseFamily, CauseRule, LostRule, OfHost};
use hta_job::recording::capability::Capability;

pub(super) const RULE: CauseRule = CauseRule {
    name: "copy_small",
    needs: &[Capability::Idle],
    evidence: "copies below 64 KiB",
    owns: "M, I in the call",
    command: "copies",
    shown_by: "data/samples/gpu_single",
    family: CauseFamily::Lost(LostRule {
        of_host: OfHost::InMarkedCall(|host, m| host.in_copy(m, CauseKind::CopySmall)),
        of_copy: |c| c.is_small(),
        words: |w| w.copies("of less than 64 KiB", "pack small tensors into one copy"),
        ..LostRule::COPIES
    }),
    ..CauseRule::DEFAULT
};
