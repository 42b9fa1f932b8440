//! The order in which the events of a replay are computed.

use crate::replay::Replay;
use crate::replay::nodes::{Base, EndDependency, HostBase, NodeEvent, ReplayNode};
use hta_base::units::Ns;

impl Replay {
    /// Times by which events are replayed: as measured, but none before what it depends on. By rounding or
    /// clocks an end may lie a little before the last arrival; it would be replayed at a moment that nothing
    /// moves.
    pub(super) fn order_times(&self) -> Vec<[Ns; 4]> {
        const PASSES: usize = 4;
        const END: usize = NodeEvent::End as usize;
        const SUBMIT: usize = NodeEvent::Submit as usize;
        const READY: usize = NodeEvent::Ready as usize;
        const START: usize = NodeEvent::Start as usize;
        let measured = |(i, n): (u32, &ReplayNode)| {
            // Not before its base, which may end slightly later within the tolerance.
            let ready = n.ready.max(n.ready - n.local);
            [n.end, n.host.map_or(n.ready, |h| h.submit), ready, self.start_of(i)]
        };
        let mut times: Vec<[Ns; 4]> = (0..).zip(&self.nodes).map(measured).collect();
        for _ in 0..PASSES {
            let mut has_moved = false;
            for (i, n) in self.nodes.iter().enumerate() {
                let of = |k: u32, event: usize| times.get(k as usize).map_or(Ns::MIN, |t| t[event]);
                let submit = match n.host.map(|h| h.base) {
                    Some(HostBase::Return(b, _)) => of(b, END),
                    Some(HostBase::Submit(b)) => of(b, SUBMIT),
                    _ => Ns::MIN,
                };
                let base = match n.base {
                    Base::End(b) => of(b, END),
                    Base::Ready(b) => of(b, READY),
                    Base::Fixed(_) => Ns::MIN,
                };
                let behind = n.start(Ns::MIN, |b| of(b, END));
                let t = &mut times[i];
                let before = *t;
                t[SUBMIT] = t[SUBMIT].max(submit);
                t[READY] = t[READY].max(base).max(t[SUBMIT]);
                t[START] = t[START].max(behind).max(t[READY]);
                has_moved |= *t != before;
            }
            let last: Vec<Ns> = (0..self.of_instance.len() as u32)
                .map(|id| self.members(id).iter().map(|k| times[*k as usize][START]).max().unwrap_or(Ns::MIN))
                .collect();
            for i in 0..self.nodes.len() {
                let own = times[i][START];
                let joined = match self.nodes[i].needs {
                    EndDependency::Nobody => own,
                    EndDependency::Start(other) => own.max(times[other as usize][START]),
                    EndDependency::Instances(a, b) => {
                        let all = self.joined[a as usize..b as usize]
                            .iter()
                            .filter_map(|id| last.get(*id as usize));
                        all.copied().max().unwrap_or(own).max(own)
                    }
                };
                // At equal times ends come first.
                has_moved |= times[i][END] < joined + 1;
                times[i][END] = times[i][END].max(joined + 1);
            }
            if !has_moved {
                break;
            }
        }
        times
    }
}
