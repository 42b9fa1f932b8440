//! The job with balanced experts: every rank of a group computes the mean, and each exchange takes as long as
//! mean sizes need on the busiest port.
//!
//! Tokens are conserved: what the hot rank does not compute, the others do. So the hot rank cannot become as
//! the others are; all become the mean.

use crate::experts::{JobLayers, of_member};
use crate::joined::Job;
use crate::matching::Member;
use crate::replay::{Replay, StepEnds};
use hashbrown::HashMap;
use hta_base::units::Ns;

/// What balanced experts change, by call.
#[derive(Default)]
pub struct BalancedExperts {
    /// Before the call the device works less by this, ns; negative: more.
    less: HashMap<Member, Ns>,
    /// The call transfers for less time, ns.
    saved: HashMap<Member, Ns>,
}

impl BalancedExperts {
    /// `with_exchanges`: also the exchanges become those of mean sizes.
    pub fn of(job: &Job, layers: &JobLayers, with_exchanges: bool) -> Self {
        let mut out = Self::default();
        for l in &layers.layers {
            let Some((balance, share)) = l.balance.and_then(|b| Some((b, b.token_share?))) else { continue };
            let port_ratio = balance.port_ratio.filter(|_| with_exchanges);
            let faster = port_ratio.map_or(0.0, |ratio| share * (1.0 - ratio));
            for m in &l.members {
                let own = of_member(job, *m);
                let call = |call| Member { part: m.part, call };
                let less = own.expert.map_or(0, |expert| balance.by_tokens(expert - balance.mean));
                *out.less.entry(call(own.meets())).or_default() += less;
                for exchange in [call(own.dispatch), call(own.combine)] {
                    let transfer = job.transfer_ns(exchange).unwrap_or(0).max(0);
                    out.saved.insert(exchange, (transfer as f64 * faster).round() as Ns);
                }
            }
        }
        out
    }

    /// Replays the job; `on_devices`: as if no host could be late.
    pub fn run(&self, replay: &Replay, on_devices: bool) -> StepEnds {
        let mut less: HashMap<usize, Ns> = HashMap::new();
        for i in 0..replay.node_count() {
            if let Some(ns) = self.less.get(&replay.member(i)) {
                take_off(replay, i, *ns, &mut less);
            }
        }
        let saved = |i: usize| self.saved.get(&replay.member(i)).copied().unwrap_or(0);
        replay.run_changed(|i| (less.get(&i).copied().unwrap_or(0), saved(i)), on_devices)
    }
}

/// Takes time off the segments of a local window, the last first; what is added goes to the last.
fn take_off(replay: &Replay, node: usize, time: Ns, less: &mut HashMap<usize, Ns>) {
    if time <= 0 {
        *less.entry(node).or_default() += time;
        return;
    }
    let mut left = time;
    for i in replay.segments(node) {
        let known = less.entry(i).or_default();
        let part = left.min((replay.local(i) - *known).max(0));
        *known += part;
        left -= part;
        if left <= 0 {
            break;
        }
    }
}
