//! The calls of each lane of a rank by start, to find those that run at a time.

use crate::part::PartLane;
use hta_base::units::Ns;
use hta_trace::collective::RankCalls;

/// Calls of one lane by start.
#[derive(Debug, Clone, Default)]
pub(super) struct CallsByStart {
    pub(super) calls: Vec<u32>,
    /// Latest end of the calls up to each index.
    pub(super) reach: Vec<Ns>,
}

pub(super) fn orders(calls: &RankCalls, lanes: &[PartLane]) -> Vec<CallsByStart> {
    let mut out: Vec<CallsByStart> = vec![CallsByStart::default(); lanes.len()];
    for (i, c) in calls.calls.iter().enumerate() {
        let lane = lanes
            .iter()
            .position(|l| l.is_gpu != c.shape.on_host && (c.shape.on_host || l.device == c.shape.device));
        if let Some(l) = lane {
            out[l].calls.push(i as u32);
        }
    }
    for o in &mut out {
        o.calls.sort_by_key(|&i| (calls.calls[i as usize].span.start, i));
        let mut latest = Ns::MIN;
        o.reach = o
            .calls
            .iter()
            .map(|&i| {
                latest = latest.max(calls.calls[i as usize].span.end);
                latest
            })
            .collect();
    }
    out
}
