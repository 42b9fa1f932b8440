//! `warm_up`: the device idles inside calls that load a kernel, or set a library up, at their first use.

use crate::cause_words::CauseWords;
use crate::lost_words::LostWords;
use crate::rule::{CauseFamily, CauseRule, LAUNCHING, LostRule, OfHost};
use hta_trace::launch::is_launch_call;

pub(super) const RULE: CauseRule = CauseRule {
    name: "warm_up",
    evidence: "I inside launch calls of 1 ms and longer that use their kernel for the first time, calls that \
               load a module or library of kernels, the first operator of a name that takes 10 times as long \
               as all later ones, and calls of 1 ms in the first product or convolution, or requests for \
               memory of 10 ms before the first work",
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
    let is_load = |name: &str| is_launch_call(name) || name.contains("Load");
    let what = match w.top.iter().all(|t| is_load(t.name)) {
        true => "Kernels are loaded",
        false => "Kernels and libraries are set up",
    };
    CauseWords::new(
        format!("{what} at their first use{}", w.who()),
        format!("{}, {}inside {}", w.idle(), if w.top.len() > 1 { "most " } else { "" }, w.top_name()),
        "record after a warm-up: run some iterations before the profiler starts, as schedule(warmup=...) \
         does",
    )
}
