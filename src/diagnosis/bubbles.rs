//! What the bubbles of pipelines have to do with other causes.
//!
//! ```text
//!   T of a pipeline   |chunks......|schedule|imbalance|jitter|transfer|lag|
//!   pipeline_bubble                 all, but at most the lag and the idle time in chunks are of hosts
//! ```

use crate::CauseKind;
use crate::account::{JobAccount, JobStep, Lost, TimePart};
use crate::collected::{CauseKey, CausedWaits, CollectedCause, collect};
use crate::transfer::LostByCell;
use hta_analysis::efficiency::account::PartDevice;
use hta_analysis::pipeline::gaps::{PipelineGaps, RankBubble};
use hta_base::units::Ns;
use hta_job::Job;
use std::collections::BTreeMap;

fn bubble_of<'a>(bubbles: &'a PipelineGaps, step: &JobStep, place: PartDevice) -> Option<&'a RankBubble> {
    bubbles.of_step(place.0, step.key)
}

/// Leaves to hosts of the waiting in bubbles no more than the lag and the idle time in chunks: what the
/// order, the stages and the messages explain, no host does. A rank that is late against those of other
/// pipelines keeps what it causes.
pub(super) fn limit_hosts(job: &Job, account: &JobAccount, lost: &LostByCell, waits: &mut CausedWaits) {
    let bubbles = job.shared(PipelineGaps::of);
    let mut by_hosts: BTreeMap<(usize, PartDevice), Ns> = BTreeMap::new();
    for ((_, cell), ns) in waits.iter().filter(|(((kind, _), _), _)| *kind != CauseKind::Straggler) {
        *by_hosts.entry(*cell).or_default() += ns;
    }
    for (((kind, _), cell), ns) in waits {
        let Some(step) = account.steps.get(cell.0).filter(|_| *kind != CauseKind::Straggler) else {
            continue;
        };
        let of_hosts = bubble_of(&bubbles, step, cell.1).and_then(|b| b.of_hosts);
        let (Some(of_hosts), Some(c)) = (of_hosts, step.cells.get(&cell.1)) else { continue };
        let is_bubble = |l: &&Lost| (l.kind, l.part) == (CauseKind::PipelineBubble, TimePart::Waiting);
        let inside: Ns = lost.get(cell).into_iter().flatten().filter(is_bubble).map(|l| l.time).sum();
        let most = (c.parts.waiting - inside + of_hosts).max(0);
        let all = by_hosts.get(cell).copied().unwrap_or(0);
        if all > most {
            *ns = (i128::from(*ns) * i128::from(most) / i128::from(all)) as Ns;
        }
    }
}

/// Gives idle time in bubbles that no other cause explains to the pipeline.
pub(super) fn idle(job: &Job, account: &JobAccount, all: &mut BTreeMap<CauseKey, CollectedCause>) {
    let bubbles = job.shared(PipelineGaps::of);
    // The cause that owns the waits; without any there is none to add to.
    let keys: Vec<String> = all
        .keys()
        .filter(|(kind, _)| *kind == CauseKind::PipelineBubble)
        .map(|(_, key)| key.clone())
        .collect();
    let [key] = &keys[..] else { return };
    for (s, step) in account.steps.iter().enumerate() {
        for (place, cell) in &step.cells {
            let Some(bubble) = bubble_of(&bubbles, step, *place) else { continue };
            let lane = job.parts[place.0 as usize].lanes.iter().find(|l| l.device == place.1);
            let idle = lane.map_or(0, |lane| bubble.outside(job, place.0, &lane.exposed));
            let is_open = |l: &&Lost| (l.kind, l.part) == (CauseKind::NotExplained, TimePart::Idle);
            let left: Ns = cell.lost.iter().filter(is_open).map(|l| l.time).sum();
            let time = idle.min(left);
            if time > 0 {
                let lost = Lost {
                    part: TimePart::Idle,
                    kind: CauseKind::PipelineBubble,
                    key: key.clone(),
                    detail: String::new(),
                    place: String::new(),
                    time,
                    count: 0,
                };
                collect(all, (s, *place), &lost);
            }
        }
    }
}
