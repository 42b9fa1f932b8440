//! `warm_up`: the device idles inside launch calls that load a kernel at its first use.

use crate::diagnosis::cause_words::CauseWords;
use crate::diagnosis::lost_words::LostWords;
use crate::diagnosis::rule::{CauseFamily, CauseRule, LAUNCHING, LostRule, OfHost};

pub(super) const RULE: CauseRule = CauseRule {
    name: "warm_up",
    evidence: "I inside launch calls of 1 ms and longer that use their kernel for the first time, and calls \
               that load a module or library of kernels",
    owns: "that I",
    shown_by: "tests/it/analyses/graph_ops.rs",
    family: CauseFamily::Lost(LostRule {
        of_host: OfHost::InMarkedCall(|host, m| host.is_first_use(m).then(|| m.own())),
        late_by: LAUNCHING,
        words,
        finish: |_, cause| cause.is_once = true,
        ..LostRule::HOST
    }),
    ..CauseRule::HOST
};

fn words(w: &LostWords) -> CauseWords {
    CauseWords::new(
        format!("Kernels are loaded at their first use{}", w.who()),
        format!("{}, inside {}", w.idle(), w.top_name()),
        "record after a warm-up: run some iterations before the profiler starts, as schedule(warmup=...) \
         does",
    )
}
