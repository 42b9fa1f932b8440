//! Kinds of collectives, and which members wait for which in each.

use hta_base::stored_name;

/// The operation of a collective. `collective_kind` of the kernel rules parses its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CollectiveKind {
    AllReduce,
    AllGather,
    ReduceScatter,
    AllToAll,
    Barrier,
    Broadcast,
    Scatter,
    Reduce,
    Gather,
    Send,
    Recv,
    /// Sends and receives in one kernel.
    SendRecv,
    /// A kernel that exchanges and multiplies: how long it waits is known only as a bound.
    Fused,
    Unknown,
}

stored_name!(CollectiveKind, CollectiveKind::ALL, name);

impl CollectiveKind {
    pub const ALL: [CollectiveKind; 14] = [
        CollectiveKind::AllReduce,
        CollectiveKind::AllGather,
        CollectiveKind::ReduceScatter,
        CollectiveKind::AllToAll,
        CollectiveKind::Barrier,
        CollectiveKind::Broadcast,
        CollectiveKind::Scatter,
        CollectiveKind::Reduce,
        CollectiveKind::Gather,
        CollectiveKind::Send,
        CollectiveKind::Recv,
        CollectiveKind::SendRecv,
        CollectiveKind::Fused,
        CollectiveKind::Unknown,
    ];

    pub fn name(self) -> &'static str {
        match self {
            CollectiveKind::AllReduce => "all_reduce",
            CollectiveKind::AllGather => "all_gather",
            CollectiveKind::ReduceScatter => "reduce_scatter",
            CollectiveKind::AllToAll => "all_to_all",
            CollectiveKind::Barrier => "barrier",
            CollectiveKind::Broadcast => "broadcast",
            CollectiveKind::Scatter => "scatter",
            CollectiveKind::Reduce => "reduce",
            CollectiveKind::Gather => "gather",
            CollectiveKind::Send => "send",
            CollectiveKind::Recv => "recv",
            CollectiveKind::SendRecv => "send_recv",
            CollectiveKind::Fused => "fused",
            CollectiveKind::Unknown => "unknown",
        }
    }

    pub fn named(name: &str) -> Option<CollectiveKind> {
        CollectiveKind::ALL.into_iter().find(|k| k.name() == name)
    }

    /// Whether it ends at nearly the same true moment on every member, so that clocks can be aligned by it.
    pub fn is_synchronous(self) -> bool {
        matches!(
            self,
            CollectiveKind::AllReduce
                | CollectiveKind::AllGather
                | CollectiveKind::ReduceScatter
                | CollectiveKind::AllToAll
                | CollectiveKind::Barrier
        )
    }

    /// Whether no member ends before the last one has come, so that all continue from there. Of fused kernels
    /// that holds, too, but their products end apart: clocks are not aligned by them.
    pub fn is_meeting(self) -> bool {
        self.is_synchronous() || self == CollectiveKind::Fused
    }

    /// Whether messages are between two ranks instead of the whole group.
    pub fn is_point_to_point(self) -> bool {
        matches!(self, CollectiveKind::Send | CollectiveKind::Recv | CollectiveKind::SendRecv)
    }

    /// Whether the root sends and the others wait for it.
    pub fn is_from_root(self) -> bool {
        matches!(self, CollectiveKind::Broadcast | CollectiveKind::Scatter)
    }

    /// Whether the root waits for all, and the others for no one.
    pub fn is_to_root(self) -> bool {
        matches!(self, CollectiveKind::Reduce | CollectiveKind::Gather)
    }

    /// Whether every member must pass the same size.
    pub fn has_one_size(self) -> bool {
        matches!(
            self,
            CollectiveKind::AllReduce
                | CollectiveKind::Broadcast
                | CollectiveKind::Reduce
                | CollectiveKind::Barrier
        )
    }

    /// Bus bandwidth divided by algorithm bandwidth for `n` members (nccl-tests, `PERFORMANCE.md`).
    pub fn bus_factor(self, n: u32) -> f64 {
        let share = if n == 0 { 0.0 } else { f64::from(n - 1) / f64::from(n) };
        match self {
            CollectiveKind::AllReduce => 2.0 * share,
            CollectiveKind::AllGather | CollectiveKind::ReduceScatter | CollectiveKind::AllToAll => share,
            _ => 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_kind() {
        assert!(CollectiveKind::ALL.iter().all(|k| CollectiveKind::named(k.name()) == Some(*k)));
        assert_eq!(CollectiveKind::named("all reduce"), None);
    }

    #[test]
    fn the_ring_of_an_all_reduce_carries_the_buffer_nearly_twice() {
        assert_eq!(CollectiveKind::AllReduce.bus_factor(8), 1.75);
        assert_eq!(CollectiveKind::AllGather.bus_factor(4), 0.75);
        assert_eq!(CollectiveKind::Broadcast.bus_factor(4), 1.0);
    }
}
