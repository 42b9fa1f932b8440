//! `data_loader`: the device idles while the launching thread is in a data loader's `__next__`.

use crate::cause_words::CauseWords;
use crate::lost_words::LostWords;
use crate::rule::{CauseFamily, CauseRule, LostRule, OfHost};
use hta_facts::host_activity::HostActivity;
use hta_job::TimeUse;
use hta_job::recording::capability::Capability;

pub(super) const RULE: CauseRule = CauseRule {
    name: "data_loader",
    needs: &[Capability::Idle],
    evidence: "I while the launching thread is in a DataLoader's __next__",
    owns: "that I",
    command: "idle",
    shown_by: "tests/data/causes/data_loader.json.gz",
    family: CauseFamily::Lost(LostRule {
        of_host: OfHost::While(HostActivity::DataLoader),
        key: loader,
        uses: Some(&[TimeUse::Host(HostActivity::DataLoader)]),
        late_by: &[TimeUse::Host(HostActivity::DataLoader)],
        // An engine has no loader of data. Without a device it is told, too, because it has a name.
        is_told: |w| !w.trust.is_serving,
        words,
        tint: Some(0),
        ..LostRule::HOST
    }),
    ..CauseRule::DEFAULT
};

const SINGLE: &str = "single process";

/// The class of a data loader, from the name of the range around `__next__`.
fn loader(name: &str) -> &str {
    if name.contains("SingleProcess") { SINGLE } else { "worker processes" }
}

fn words(w: &LostWords) -> CauseWords {
    let (how, action) = match w.key {
        SINGLE => {
            (" (num_workers = 0)", "load in the background: DataLoader(num_workers > 0), with pin_memory")
        }
        _ => ("", "more or faster workers (num_workers, prefetch_factor), pin_memory, cheaper decoding"),
    };
    CauseWords::new(format!("{} for the data loader{how}", w.device_of_ranks("waits")), w.idle(), action)
}
