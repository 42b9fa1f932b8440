//! Kinds of collectives, and which members wait for which in each.

/// The operation of a collective. `collective_kind` of the kernel rules parses its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
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
    Unknown,
}

impl Kind {
    pub const ALL: [Kind; 13] = [
        Kind::AllReduce,
        Kind::AllGather,
        Kind::ReduceScatter,
        Kind::AllToAll,
        Kind::Barrier,
        Kind::Broadcast,
        Kind::Scatter,
        Kind::Reduce,
        Kind::Gather,
        Kind::Send,
        Kind::Recv,
        Kind::SendRecv,
        Kind::Unknown,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Kind::AllReduce => "all_reduce",
            Kind::AllGather => "all_gather",
            Kind::ReduceScatter => "reduce_scatter",
            Kind::AllToAll => "all_to_all",
            Kind::Barrier => "barrier",
            Kind::Broadcast => "broadcast",
            Kind::Scatter => "scatter",
            Kind::Reduce => "reduce",
            Kind::Gather => "gather",
            Kind::Send => "send",
            Kind::Recv => "recv",
            Kind::SendRecv => "send_recv",
            Kind::Unknown => "unknown",
        }
    }

    pub fn named(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|k| k.name() == name)
    }

    /// Whether it ends at nearly the same true moment on every member, so that clocks can be aligned by it.
    pub fn is_synchronous(self) -> bool {
        matches!(self, Kind::AllReduce | Kind::AllGather | Kind::ReduceScatter | Kind::AllToAll | Kind::Barrier)
    }

    /// Whether messages are between two ranks instead of the whole group.
    pub fn is_point_to_point(self) -> bool {
        matches!(self, Kind::Send | Kind::Recv | Kind::SendRecv)
    }

    /// Whether the root sends and the others wait for it.
    pub fn is_from_root(self) -> bool {
        matches!(self, Kind::Broadcast | Kind::Scatter)
    }

    /// Whether the root waits for all, and the others for no one.
    pub fn is_to_root(self) -> bool {
        matches!(self, Kind::Reduce | Kind::Gather)
    }

    /// Whether every member must pass the same size.
    pub fn has_one_size(self) -> bool {
        matches!(self, Kind::AllReduce | Kind::Broadcast | Kind::Reduce | Kind::Barrier)
    }

    /// Bus bandwidth divided by algorithm bandwidth for `n` members (nccl-tests, `PERFORMANCE.md`).
    pub fn bus_factor(self, n: u32) -> f64 {
        let share = if n == 0 { 0.0 } else { f64::from(n - 1) / f64::from(n) };
        match self {
            Kind::AllReduce => 2.0 * share,
            Kind::AllGather | Kind::ReduceScatter | Kind::AllToAll => share,
            _ => 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_kind() {
        assert!(Kind::ALL.iter().all(|k| Kind::named(k.name()) == Some(*k)));
        assert_eq!(Kind::named("all reduce"), None);
    }

    #[test]
    fn the_ring_of_an_all_reduce_carries_the_buffer_nearly_twice() {
        assert_eq!(Kind::AllReduce.bus_factor(8), 1.75);
        assert_eq!(Kind::AllGather.bus_factor(4), 0.75);
        assert_eq!(Kind::Broadcast.bus_factor(4), 1.0);
    }
}
