//! Finds the activity for which a blocking call waited.

use super::gpu::GpuNodes;
use super::sync::{AwaitedTarget, BlockingCall, SyncEvent, SyncEvents, ThreadMoment};
use hta_base::units::Ns;
use hta_trace::rank_trace::RankTrace;
use std::cmp::Reverse;

impl SyncEvents {
    /// The blocking call on a thread that is over at the moment `at` (calls that continue are cut at the end
    /// of the window), with the activity that it waited for. Among several calls, the one whose activity
    /// ended last. Calls in `but` are ignored.
    pub(crate) fn awaited(
        &self,
        trace: &RankTrace,
        gpu: &GpuNodes,
        at: ThreadMoment,
        but: &[u32],
    ) -> Option<(u32, u32)> {
        let calls = self.calls.get(&at.lane)?;
        let from = calls.partition_point(|c| c.end < at.t);
        let start = |c: &BlockingCall| trace.columns.ts[c.row as usize];
        let over = |c: &&BlockingCall| start(c) < at.t && !but.contains(&c.row);
        let found = calls[from..].iter().take_while(|c| c.end == at.t || at.t == at.until).filter(over);
        found
            .filter_map(|c| Some((self.behind(trace, gpu, c, at.t)?, c)))
            .max_by_key(|(j, c)| (gpu.end(*j), start(c), c.row))
            .map(|(j, c)| (c.row, j))
    }

    /// The activity that a call waited for if it is over at `until`; `None` if everything was already done.
    fn behind(&self, trace: &RankTrace, gpu: &GpuNodes, call: &BlockingCall, until: Ns) -> Option<u32> {
        let start = trace.columns.ts[call.row as usize];
        let inside = |j: &u32| gpu.end(*j) > start && gpu.end(*j) <= until;
        let sync = self.of_call(trace, call.row);
        let device = sync.and_then(|s| s.device);
        match (call.blocks, sync) {
            (AwaitedTarget::Copy, _) => {
                let own = trace.launches().of(call.row).iter().copied().filter(inside);
                own.max_by_key(|&j| (gpu.end(j), Reverse(trace.activities[j as usize].row)))
            }
            (AwaitedTarget::Stream, Some(SyncEvent { device: Some(_), stream: stream @ Some(_), .. })) => {
                gpu.last_launched((device, *stream), start).filter(inside)
            }
            (
                AwaitedTarget::Event,
                Some(SyncEvent { device: Some(_), on: on @ Some(_), record: Some(record), .. }),
            ) => gpu.last_launched((device, *on), *record).filter(inside),
            _ => gpu.last_of_device(device, start, start, until),
        }
    }
}
