//! `transfer_bare`: exposed transfers with no compute to hide them.

use crate::account::TimePart;
use crate::cause_words::CauseWords;
use crate::certainty::CauseCertainty;
use crate::context::Context;
use crate::gain;
use crate::rule::{CauseFamily, CauseRule, CommunicationRule};
use hta_base::units::{Ns, fmt_ns, fmt_pct, percent};

pub(super) const RULE: CauseRule = CauseRule {
    name: "transfer_bare",
    certainty: CauseCertainty::AtMost,
    is_price: true,
    evidence: "other transfer that no compute hides",
    owns: "F",
    shown_by: "data/samples/gpu_ddp8",
    family: CauseFamily::Communication(CommunicationRule {
        part: TimePart::Transfer,
        least_pct: 0.0,
        gain,
        words,
        noun: "transfer",
        beside: |_| None,
    }),
    ..CauseRule::COMMUNICATION
};

fn gain(context: &Context, owned: Ns) -> Ns {
    let bound = gain::of_devices(context.account, |c| c.parts.transfer).min(owned);
    context.repairs.of_network().map_or(bound, |all| bound.min(all))
}

fn words(each: Ns, step: Ns, context: &Context) -> CauseWords {
    let (share, per) = (fmt_pct(percent(each, step)), context.trust.per_step());
    CauseWords::new(
        "No compute hides the transfers between ranks",
        format!("They take {}{per} ({share})", fmt_ns(each)),
        "overlap by splitting work, exchange less (precision, sharding), or compute more per exchange",
    )
}
