//! `transfer_bandwidth`: exposed transfers with less than 0.7 times the group's own 90th percentile of bus
//! bandwidth, or of a group with less than 0.7 times the median of the groups like it.

mod slow_groups;

use crate::cause_words::CauseWords;
use crate::certainty::CauseCertainty;
use crate::context::Context;
use crate::exposed_lane::{ExposedLane, KnownTransfers, TransferShare, TransferWords};
use crate::rule::{CauseFamily, CauseRule, TransferRule};
use hashbrown::HashMap;
use hta_base::units::Ns;
use hta_job::Member;
use hta_job::exposed::ExposedKind;
use slow_groups::SlowGroups;

pub(super) const RULE: CauseRule = CauseRule {
    name: "transfer_bandwidth",
    evidence: "transfer of 1 MiB and more, with less than 0.7 of the 90th percentile of bandwidth of its \
               group, kind and size (power of two), of 10 calls or more; or calls of a group below 0.7 of \
               the median of at least 4 groups like it (description, number and distance of members), and \
               with these, of the fastest of fewer groups: a link, or the network of the rank in all of them",
    owns: "F beyond the percentile; of slow groups also S that a replay at the median has less",
    shown_by: "tests/it/job/planted/transfers.rs",
    family: CauseFamily::Transfer(TransferRule {
        takes,
        known,
        filter: |key| if key == SLOW_GROUPS { String::new() } else { format!("kind = '{key}'") },
        words,
        ..TransferRule::DEFAULT
    }),
    ..CauseRule::COMMUNICATION
};

/// What the cause is about if whole groups are slow.
const SLOW_GROUPS: &str = "slow groups";

fn takes(lane: &ExposedLane, left: &[Ns]) -> Vec<TransferShare> {
    let slow = lane.job.shared(SlowGroups::of);
    let mut shares: HashMap<u32, f64> = HashMap::new();
    let mut out = lane.take(&slow.saved, SLOW_GROUPS, left);
    for (piece, (p, left)) in lane.exposed.iter().zip(left).enumerate() {
        let Some(call) = p.call.filter(|_| p.what == ExposedKind::Transfer) else { continue };
        let member = Member { part: lane.part, call };
        if slow.saved.share(lane.job, member).is_none() {
            let share = *shares.entry(call).or_insert_with(|| slow.excess_share(lane.job, member));
            out.push(TransferShare { piece, time: (*left as f64 * share) as Ns, key: None });
        }
    }
    out
}

fn known(context: &Context, key: &str) -> Option<KnownTransfers> {
    let slow = (key == SLOW_GROUPS).then(|| context.job.shared(SlowGroups::of))?;
    Some(KnownTransfers {
        ranks: slow.ranks.clone(),
        gain: context.repairs.of_transfers(&slow.saved.by_call),
        p_value: None,
        certainty: CauseCertainty::Likely,
        words: slow.words.clone(),
        evidence: Vec::new(),
    })
}

fn words(w: &TransferWords) -> CauseWords {
    let (calls, ranks, time) = (&w.calls, w.ranks, &w.time);
    CauseWords::new(
        format!("Collectives {calls} transfer slower on {ranks} than the same calls usually do"),
        format!("They take {time} longer"),
        "compare slow and fast calls in the table collectives: protocol, topology, network interface of the \
         group",
    )
}
