//! `copy_pageable`: copies from or to pageable memory.

use crate::CauseKind;
use crate::account::TimePart;
use crate::cause::Cause;
use crate::certainty::CauseCertainty;
use crate::context::Context;
use crate::copy_times::CopyTime;
use crate::rule::{CauseFamily, CauseRule, LostRule, OfHost};
use hta_base::units::{Ns, fmt_ns, fmt_number};
use hta_job::recording::capability::Capability;

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
        finish: pinned,
        ..LostRule::COPIES
    }),
    ..CauseRule::DEFAULT
};

/// The fastest copy shows the rate of the link if it is so many times as fast as all pageable ones.
const FASTER: f64 = 1.25;

/// Copies of pinned memory still take what the link needs, which pinning alone does not hide. The compute of
/// the steps can hide it with a stream of its own, except that of a single window, which waits for its input
/// and whose results are copied.
fn pinned(context: &Context, cause: &mut Cause) {
    let steps = &context.account.steps;
    let (mut most, mut about, mut alone, mut stays) = (0, 0, 0, 0);
    let (mut bytes, mut seen) = (0u64, 0);
    for (s, step) in steps.iter().enumerate() {
        let saved = step.cells.iter().map(|(place, cell)| {
            let of_part = |part| cause.owned.get(&(s, *place, part)).copied().unwrap_or(0);
            let owned = of_part(TimePart::Idle) + of_part(TimePart::Copies);
            let hidden = if steps.len() > 1 { cell.parts.compute } else { 0 };
            let all = cell.copies.iter().fold(CopyTime::default(), |mut sum, (_, of)| {
                sum.add(of);
                sum
            });
            bytes = bytes.saturating_add(all.pageable_bytes);
            seen += all.seen;
            stays += (all.linked - hidden).max(0);
            [all.linked - hidden, all.seen - hidden, all.linked].map(|takes| owned - takes.max(0))
        });
        let of_step = saved.fold([0; 3], |a, b| [a[0].max(b[0]), a[1].max(b[1]), a[2].max(b[2])]);
        most += of_step[0];
        about += of_step[1];
        alone += of_step[2];
    }
    let each = |ns: Ns| fmt_ns(ns / steps.len().max(1) as Ns);
    if stays == 0 {
        if alone < cause.gain {
            let (per, all) = (context.trust.per_step(), each(cause.gain));
            let beside = format!("; copied ahead on a stream of their own they save at most {all}{per}");
            cause.words.why.push_str(&beside);
            cause.gain = alone;
        }
        return;
    }
    cause.certainty = CauseCertainty::AtMost;
    cause.gain = cause.gain.min(most);
    // If the fastest copy is hardly faster than all of them, it shows the rate of staging, not of the link.
    let (rate, mean) =
        (bytes as f64 / seen.max(1) as f64, bytes as f64 / cause.owned_part(TimePart::Copies) as f64);
    if about < cause.gain && rate >= mean * FASTER {
        let about = each(about);
        let (rate, per) = (fmt_number(rate), context.trust.per_step());
        cause
            .words
            .why
            .push_str(&format!("; at {rate} GB/s, the best rate here, pinning saves about {about}{per}"));
    }
}
