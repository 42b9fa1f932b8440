//! `copy_sync`: copies by calls that block.

use crate::CauseKind;
use crate::rule::{CauseFamily, CauseRule, LostRule, OfHost};
use hta_analysis::copies::copy::Api;
use hta_job::recording::capability::Capability;

pub(super) const RULE: CauseRule = CauseRule {
    name: "copy_sync",
    needs: &[Capability::Idle],
    evidence: "copies by calls that block",
    owns: "M, I in the call",
    family: CauseFamily::Lost(LostRule {
        of_host: OfHost::InMarkedCall(|host, m| host.in_copy(m, CauseKind::CopySync)),
        of_copy: |c| matches!(c.api, Api::SyncCopy | Api::SyncSet),
        words: |w| w.copies("that block the host", "copy with non_blocking=True from pinned memory"),
        ..LostRule::COPIES
    }),
    ..CauseRule::DEFAULT
};
