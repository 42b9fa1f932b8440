//! `link_slow`: exposed transfers of groups that pass a slow place of the fabric, beyond the level of groups
//! that do the same, and the waiting behind them.

use crate::cause_words::CauseWords;
use crate::certainty::CauseCertainty;
use crate::context::Context;
use crate::evidence::Evidence;
use crate::exposed_lane::{ExposedLane, KnownTransfers, TransferShare};
use crate::rule::{CauseFamily, CauseRule, TransferRule};
use hta_analysis::fabric::{Fabric, SlowTransfers};
use hta_base::units::{Ns, fmt_ns};

pub(super) const RULE: CauseRule = CauseRule {
    name: "link_slow",
    certainty: CauseCertainty::Likely,
    evidence: "transfer of 1 MiB and more in groups that pass a place which `hta fabric` tells, alone or in \
               a set: at least 1.2 times slower than groups that do the same, p at most 2 %, in \
               10 steps or more",
    owns: "F beyond the level of the class; S that a replay at this level has less",
    command: "fabric",
    shown_by: "tests/it/job/planted/fabric.rs",
    family: CauseFamily::Transfer(TransferRule {
        takes,
        known,
        filter: |_| String::new(),
        ..TransferRule::DEFAULT
    }),
    ..CauseRule::COMMUNICATION
};

fn takes(lane: &ExposedLane, left: &[Ns]) -> Vec<TransferShare> {
    let slow = lane.job.shared(SlowTransfers::of);
    slow.places.iter().flat_map(|place| lane.take(&place.saved, &place.key, left)).collect()
}

fn known(context: &Context, key: &str) -> Option<KnownTransfers> {
    let fabric = context.job.shared(Fabric::of);
    let slow = context.job.shared(SlowTransfers::of);
    let place = slow.places.iter().find(|p| p.key == key)?;
    let per_step = context.trust.per_step();
    let gain = context.repairs.of_transfers(&place.saved.by_call);
    // Where hosts wait for devices in a way that is not recorded, the replay keeps their times, as if no step
    // could start earlier. Then each step is replayed from its own start.
    let most = place.saved.most_of_a_rank();
    let of_steps = || context.repairs.most_of_transfers(&place.saved.by_call).map(|ns| ns.min(most));
    let is_kept = |gain: &Ns, of_steps: &Ns| context.repairs.keeps_hosts() && *gain < of_steps / 2;
    let gain = gain.map(|gain| of_steps().filter(|ns| is_kept(&gain, ns)).unwrap_or(gain));
    Some(KnownTransfers {
        ranks: fabric.ranks_at(&place.slow),
        gain,
        certainty: CauseCertainty::Likely,
        words: CauseWords::new(
            fabric.sentence(&place.slow),
            format!(
                "The slowest of its groups transfers {}{per_step} longer than groups that do the same",
                fmt_ns(fabric.excess_per_step(&place.slow))
            ),
            fabric.action(&place.slow),
        ),
        p_value: Some(place.slow.p_value),
        evidence: vec![Evidence {
            table: "fabric_places",
            filter: "verdict IS NOT NULL".to_string(),
            words: format!("{:.2} x slower than groups like it", place.slow.factor),
        }],
    })
}
