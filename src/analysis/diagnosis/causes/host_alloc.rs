//! `host_alloc`: the device idles while the launching thread allocates or frees memory by the driver.

use crate::diagnosis::lost_words::LostWords;
use crate::diagnosis::rule::{CauseFamily, CauseRule, LostRule};
use crate::job::TimeUse;

pub(super) const RULE: CauseRule = CauseRule {
    name: "host_alloc",
    evidence: "I inside malloc and free calls",
    owns: "that I",
    shown_by: "tests/data/causes/host_alloc.json.gz",
    family: CauseFamily::Lost(LostRule {
        of_host: |_, m| m.own_if("allocation_call"),
        uses: Some(&[TimeUse::AllocationCall]),
        late_by: &[TimeUse::AllocationCall],
        words,
        tint: Some(3),
        ..LostRule::HOST
    }),
    ..CauseRule::HOST
};

fn words(w: &LostWords) -> (String, String) {
    (
        format!(
            "The {} idles while memory is allocated or freed by {}{}: {}",
            w.device(),
            w.top_name(),
            w.who(),
            w.idle()
        ),
        "keep memory in the caching allocator: warm it up with the largest batch, avoid empty_cache(), try \
         expandable_segments"
            .to_string(),
    )
}
