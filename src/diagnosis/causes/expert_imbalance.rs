//! `expert_imbalance`: ranks wait in the combine of expert layers for one that got more tokens.

use crate::account::TimePart;
use crate::cause_words::CauseWords;
use crate::certainty::CauseCertainty;
use crate::context::Context;
use crate::evidence::Evidence;
use crate::exposed_lane::{ExposedLane, KnownTransfers, TransferShare};
use crate::rule::{CauseFamily, CauseRule, TransferRule};
use hashbrown::HashMap;
use hta_analysis::experts::imbalance::ExpertImbalance;
use hta_base::units::Ns;
use hta_job::experts::{JobLayers, LayerMember, of_member};
use hta_job::exposed::ExposedKind;
use hta_job::recording::capability::Capability;
use hta_job::{Job, Member};

pub(super) const RULE: CauseRule = CauseRule {
    name: "expert_imbalance",
    certainty: CauseCertainty::AtMost,
    needs: &[Capability::Ranks],
    evidence: "tokens of the rank with the longest expert time against the mean explain its excess \
               (`hta explain experts`); tokens at least 1.2 times the mean",
    owns: "S in the combines of these layers",
    command: "experts",
    shown_by: "tests/it/job/planted/experts.rs",
    family: CauseFamily::Transfer(TransferRule {
        part: TimePart::Waiting,
        takes,
        known,
        filter: |_| "kind = 'all_to_all'".to_string(),
        words: |_| CauseWords::default(),
    }),
    ..CauseRule::DEFAULT
};

/// What the cause is about.
const COMBINE: &str = "combine of experts";

/// By call of a combine: the share of its wait that is due to tokens.
struct UnevenCombines(HashMap<Member, f64>);

impl UnevenCombines {
    fn of(job: &Job) -> Self {
        if ExpertImbalance::of(job).is_none() {
            return Self(HashMap::new());
        }
        let layers = JobLayers::of(job);
        let uneven = layers.layers.iter().filter_map(|l| Some((l, l.balance?.token_share?)));
        let combine = |m: &LayerMember| {
            let part = m.part;
            let calls = of_member(job, *m).exchanges()[1];
            calls.into_iter().flatten().map(move |call| Member { part, call })
        };
        let shares =
            uneven.flat_map(|(l, share)| l.members.iter().flat_map(combine).map(move |m| (m, share)));
        Self(shares.collect())
    }
}

fn takes(lane: &ExposedLane, left: &[Ns]) -> Vec<TransferShare> {
    let uneven = lane.job.shared(UnevenCombines::of);
    let pieces = lane.exposed.iter().zip(left).enumerate();
    let waits = pieces.filter(|(_, (p, _))| p.what == ExposedKind::Sync);
    let share = |call: Option<u32>| uneven.0.get(&Member { part: lane.part, call: call? });
    waits
        .filter_map(|(piece, (p, left))| {
            let time = (*left as f64 * share(p.call)?).round() as Ns;
            Some(TransferShare { piece, time, key: Some(COMBINE.into()) })
        })
        .collect()
}

fn known(context: &Context, _: &str) -> Option<KnownTransfers> {
    let found = ExpertImbalance::of(context.job);
    let found = found.as_ref().as_ref()?;
    Some(KnownTransfers {
        ranks: found.ranks.clone(),
        gain: Some(found.gain).filter(|_| found.is_replayed),
        p_value: found.p_value,
        certainty: CauseCertainty::AtMost,
        words: CauseWords::new(found.what(&context.job.words), found.why(), found.action()),
        evidence: vec![Evidence {
            table: "expert_layers",
            filter: "token_share_pct > 0".to_string(),
            words: format!("{:.2} x the mean tokens, weighted by the excess of each layer", found.ratio),
        }],
    })
}
