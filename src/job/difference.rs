//! What the difference between the windows of a late rank and of a typical one consists of.

use crate::local::{LocalUse, TimeUse};
use crate::matching::Member;
use crate::window::LocalWindow;
use hta_base::units::Ns;
use hta_facts::host_activity::HostActivity;
use hta_trace::strings::StrId;
use std::collections::BTreeMap;

/// Why a host is behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostDelay {
    /// What it does longer; `None` if that is not known.
    pub by: Option<HostActivity>,
    /// Whether it did so in earlier steps.
    pub is_earlier: bool,
}

/// The cause of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DelayCause {
    /// All kernels take longer by one factor: lower clocks, heat, a slower device.
    SlowDevice,
    /// The same launches of one kernel take longer.
    SlowKernel,
    /// A kernel that is launched more or less often, or only on one of the two ranks.
    OtherKernels,
    /// More time in experts, because the rank gets more tokens than the others.
    MoreTokens,
    /// More time in experts whose sizes are not recorded: more tokens, or a slower device.
    ExpertTime,
    Copies,
    /// Waiting in a collective of another group.
    EarlierWait,
    /// Transfer in a collective of another group.
    EarlierTransfer,
    /// Communication without a match on other ranks.
    UnmatchedCommunication,
    /// Idle time (on the host: the main thread's time), by what the host did.
    Host(TimeUse),
    /// The same host events, but more of them.
    MoreHost(TimeUse),
    /// Idle time under what all hosts do alike, because this one is behind (`job/host_behind.rs`).
    HostBehind(HostDelay),
}

impl DelayCause {
    pub fn is_of_host(self) -> bool {
        matches!(self, DelayCause::Host(_) | DelayCause::MoreHost(_) | DelayCause::HostBehind(_))
    }

    /// Longer events and additional events of the same name are one cause, whichever vary between steps.
    pub fn whatever_count(self) -> Self {
        if let DelayCause::MoreHost(what) = self { DelayCause::Host(what) } else { self }
    }

    /// Whether it is time in which the rank worked.
    pub fn is_own_work(self) -> bool {
        let of_device =
            matches!(self, DelayCause::SlowDevice | DelayCause::SlowKernel | DelayCause::OtherKernels);
        of_device || self.is_of_host()
    }

    pub fn name(self) -> &'static str {
        match self {
            DelayCause::SlowDevice => "slow_device",
            DelayCause::SlowKernel => "slow_kernel",
            DelayCause::OtherKernels => "other_kernels",
            DelayCause::MoreTokens => "more_tokens",
            DelayCause::ExpertTime => "expert_time",
            DelayCause::Copies => "copies",
            DelayCause::EarlierWait => "earlier_wait",
            DelayCause::EarlierTransfer => "earlier_transfer",
            DelayCause::UnmatchedCommunication => "unmatched_communication",
            DelayCause::Host(what) | DelayCause::MoreHost(what) => what.name(),
            DelayCause::HostBehind(_) => "host_behind",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Difference {
    pub cause: DelayCause,
    pub name: StrId,
    pub detail: StrId,
    /// The rank that caused an earlier wait, followed through chains of waiting.
    pub origin: Option<u32>,
    /// Time on the late rank, and (next field) on the typical rank, ns.
    pub own: Ns,
    pub typical: Ns,
    pub own_count: i64,
    pub typical_count: i64,
}

impl Difference {
    pub fn delta(&self) -> Ns {
        self.own - self.typical
    }
}

pub(super) type UseTimes = BTreeMap<LocalUse, LateAndTypical>;

/// Time and number of starts of one key, on the late and on the typical rank.
#[derive(Default, Clone, Copy)]
pub(super) struct LateAndTypical {
    pub(super) time: [Ns; 2],
    pub(super) count: [i64; 2],
}

/// A window of a late rank with that of a typical one.
pub type WindowPair = [(Member, LocalWindow); 2];

pub type WindowPairs = Vec<WindowPair>;

pub(super) fn push(
    out: &mut Vec<Difference>,
    cause: DelayCause,
    name: StrId,
    detail: StrId,
    origin: Option<u32>,
    b: LateAndTypical,
) {
    out.push(Difference {
        cause,
        name,
        detail,
        origin,
        own: b.time[0],
        typical: b.time[1],
        own_count: b.count[0],
        typical_count: b.count[1],
    });
}
