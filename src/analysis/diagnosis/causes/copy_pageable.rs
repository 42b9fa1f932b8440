//! `copy_pageable`: copies from or to pageable memory.

use crate::diagnosis::CauseKind;
use crate::diagnosis::rule::{CauseFamily, CauseRule, LostRule, OfHost};
use crate::recording::capability::Capability;

pub(super) const RULE: CauseRule = CauseRule {
    name: "copy_pageable",
    needs: &[Capability::Idle],
    evidence: "copies from or to pageable memory",
    owns: "M, I in the call",
    command: "copies",
    shown_by: "tests/data/causes/copy_pageable.json.gz",
    family: CauseFamily::Lost(LostRule {
        of_host: OfHost::InMarkedCall(|host, m| host.in_copy(m, CauseKind::CopyPageable)),
        of_copy: |c| c.is_pageable(),
        words: |w| {
            w.copies(
                "from or to pageable memory",
                "pin the memory (pin_memory=True), then copy with non_blocking=True",
            )
        },
        ..LostRule::COPIES
    }),
    ..CauseRule::DEFAULT
};
