//! The nodes of a replay: the calls of the ranks, with what each waits for.

use crate::Member;
use hta_base::units::Ns;

#[derive(Clone, Copy)]
pub(super) enum Base {
    /// End of a call of the same part, by node.
    End(u32),
    /// The moment when the part was ready for an earlier call, after which it continued without waiting.
    Ready(u32),
    /// A fixed moment on the common axis.
    Fixed(Ns),
}

/// What the host's time before a submission follows.
#[derive(Clone, Copy)]
pub(super) enum HostBase {
    /// The submission of an earlier call, by node.
    Submit(u32),
    /// The return of a call that waited for the end of a node, this long after that end, ns.
    Return(u32, Ns),
    /// A fixed moment on the common axis.
    Fixed(Ns),
}

/// The host's part of a node on a device.
#[derive(Clone, Copy)]
pub(super) struct HostPart {
    pub(super) base: HostBase,
    /// From the base to the submission, as measured, ns.
    pub(super) time: Ns,
    pub(super) submit: Ns,
    /// From the submission until the rank was ready, as measured, ns.
    pub(super) lag: Ns,
    /// Compute and exposed copies since the base of the device, ns.
    pub(super) busy: Ns,
    /// Whether the device waited for launches since its base.
    pub(super) is_bound: bool,
}

/// What an end waits for in addition to its own arrival.
#[derive(Clone, Copy)]
pub(super) enum EndDependency {
    Nobody,
    /// The start of one other node.
    Start(u32),
    /// All starts of these instances: a range of `Replay::joined`.
    Instances(u32, u32),
}

pub(super) struct ReplayNode {
    pub(super) member: Member,
    /// Index of the lane of its part.
    pub(super) lane: u32,
    pub(super) base: Base,
    /// From the base until the rank was ready, as measured, ns.
    pub(super) local: Ns,
    /// The calls for whose end it waited: the previous one on its stream, and one of another stream; by node.
    pub(super) behind: [Option<u32>; 2],
    /// From the later of its own start and what it needs, to its release, as measured, ns.
    pub(super) rest: Ns,
    /// Of that, the transfer; what is left passes from being ready until the start.
    pub(super) transfer: Ns,
    pub(super) needs: EndDependency,
    pub(super) ready: Ns,
    pub(super) end: Ns,
    /// Index into `Replay::steps`.
    pub(super) step: Option<u32>,
    /// `None` on the host, and where the submission is not recorded.
    pub(super) host: Option<HostPart>,
}

impl ReplayNode {
    /// When its call starts if it is ready at `ready`, and others have ended at `end`.
    pub(super) fn start(&self, ready: Ns, end: impl Fn(u32) -> Ns) -> Ns {
        self.behind.into_iter().flatten().map(end).fold(ready, Ns::max)
    }
}

/// Events of a node. At equal times an end comes first, because others depend on it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum NodeEvent {
    End,
    Submit,
    Ready,
    Start,
}

impl NodeEvent {
    pub(super) const ALL: [Self; 4] = [Self::End, Self::Submit, Self::Ready, Self::Start];
}

/// An event of a node, as one number: the order of a replay has four for each call of the job.
#[derive(Clone, Copy)]
pub(super) struct EventOfNode(u32);

impl EventOfNode {
    pub(super) fn new(node: u32, event: NodeEvent) -> Self {
        Self(node << 2 | event as u32)
    }

    pub(super) fn node(self) -> usize {
        (self.0 >> 2) as usize
    }

    pub(super) fn event(self) -> NodeEvent {
        NodeEvent::ALL[(self.0 & 3) as usize]
    }
}
