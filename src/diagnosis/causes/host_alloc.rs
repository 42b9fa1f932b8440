//! `host_alloc`: the device idles while the launching thread allocates or frees memory by the driver.

use crate::cause_words::CauseWords;
use crate::lost_words::LostWords;
use crate::rule::{CauseFamily, CauseRule, LostRule, OfHost};
use hta_facts::host_activity::HostActivity;
use hta_job::TimeUse;

pub(super) const RULE: CauseRule = CauseRule {
    name: "host_alloc",
    evidence: "I inside malloc and free calls",
    owns: "that I",
    shown_by: "tests/data/causes/host_alloc.json.gz",
    family: CauseFamily::Lost(LostRule {
        of_host: OfHost::While(HostActivity::AllocationCall),
        is_cold: |_| true,
        uses: Some(&[TimeUse::Host(HostActivity::AllocationCall)]),
        late_by: &[TimeUse::Host(HostActivity::AllocationCall)],
        words,
        tint: Some(3),
        ..LostRule::HOST
    }),
    ..CauseRule::HOST
};

fn words(w: &LostWords) -> CauseWords {
    CauseWords::new(
        format!("{} while {} allocates or frees memory", w.device_of_ranks("idles"), w.top_name()),
        w.idle(),
        "keep memory in the caching allocator: warm it up with the largest batch, avoid empty_cache(), try \
         expandable_segments",
    )
}
