//! `host_callback`: a stream waits for a callback on the host, and its device idles.

use crate::cause_words::CauseWords;
use crate::certainty::CauseCertainty;
use crate::lost_words::LostWords;
use crate::rule::{CauseFamily, CauseRule, LostRule};
use hta_job::recording::capability::Capability;

pub(super) const RULE: CauseRule = CauseRule {
    name: "host_callback",
    certainty: CauseCertainty::AtMost,
    needs: &[Capability::Idle],
    evidence: "a callback on the host (category `graph_host_node`) on the stream whose next activity ends \
               the idle time",
    owns: "I that the callback covers, where nothing else takes it",
    command: "idle",
    shown_by: "tests/it/analyses/host_callback.rs",
    family: CauseFamily::Lost(LostRule {
        uses: Some(&[]),
        joins_alike: false,
        words,
        // They are not among what host threads do.
        names_parts: |_| false,
        tint: Some(3),
        ..LostRule::HOST
    }),
    ..CauseRule::DEFAULT
};

/// What Cuspy writes before the name of the function.
const PREFIX: &str = "HostNode: ";

fn words(w: &LostWords) -> CauseWords {
    let name = w.top.first().and_then(|top| top.name.strip_prefix(PREFIX));
    let callback = name.map_or("a host callback".to_string(), |name| format!("the host callback `{name}`"));
    CauseWords::new(
        format!("{} while {callback} blocks the stream", w.device_of_ranks("idles")),
        w.idle(),
        "take the callback out of the graph (record an event that a host thread waits for), or make it \
         shorter",
    )
}
