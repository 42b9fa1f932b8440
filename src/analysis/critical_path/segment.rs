//! What a stretch of the path is: its class, and the edge that was followed over it.

use crate::trace::rank_trace::RankTrace;
use crate::units::Span;

/// Name of the class that is no part of the window, and of no percentage.
pub const BEFORE_CAPTURE: &str = "before_capture";

/// What the time of a segment was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PathClass {
    GpuCompute,
    GpuCommunication,
    GpuMemory,
    HostOperator,
    HostRuntime,
    HostLaunch,
    HostSync,
    HostAllocation,
    HostCommunication,
    HostDataLoader,
    HostPython,
    HostAnnotation,
    HostUntracked,
    KernelGap,
    LaunchLatency,
    CrossStreamDelay,
    SyncReturn,
    Tail,
    Unexplained,
    /// What the device did before the launches of this recording, which is not in the file.
    BeforeCapture,
}

impl PathClass {
    pub fn name(self) -> &'static str {
        match self {
            PathClass::GpuCompute => "gpu_compute",
            PathClass::GpuCommunication => "gpu_communication",
            PathClass::GpuMemory => "gpu_memory",
            PathClass::HostOperator => "host_operator",
            PathClass::HostRuntime => "host_runtime",
            PathClass::HostLaunch => "host_launch",
            PathClass::HostSync => "host_sync",
            PathClass::HostAllocation => "host_allocation",
            PathClass::HostCommunication => "host_communication",
            PathClass::HostDataLoader => "host_data_loader",
            PathClass::HostPython => "host_python",
            PathClass::HostAnnotation => "host_annotation",
            PathClass::HostUntracked => "host_untracked",
            PathClass::KernelGap => "kernel_gap",
            PathClass::LaunchLatency => "launch_latency",
            PathClass::CrossStreamDelay => "cross_stream_delay",
            PathClass::SyncReturn => "sync_return",
            PathClass::Tail => "tail",
            PathClass::Unexplained => "unexplained",
            PathClass::BeforeCapture => BEFORE_CAPTURE,
        }
    }
}

/// The edge that a segment lies on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Edge {
    /// Start to end of an activity.
    Gpu,
    /// One moment of a working thread to its next.
    Host,
    /// The end before on the same stream.
    Stream,
    /// The start of the launch call.
    Launch,
    /// The end of the activity behind an event that the stream waits for.
    StreamWait,
    /// An end on another stream just before, where nothing recorded explains the start.
    Inferred,
    /// The end of the activity that a blocking call waits for.
    Sync,
    /// The end of a thread's work to its next.
    Silent,
    /// The end of another thread's work.
    Handover,
    /// The communication that a silent thread launched last and seems to wait for by reading memory.
    Poll,
    /// Start or end of the window.
    Anchor,
}

impl Edge {
    pub fn name(self) -> &'static str {
        match self {
            Edge::Gpu => "gpu",
            Edge::Host => "host",
            Edge::Stream => "stream",
            Edge::Launch => "launch",
            Edge::StreamWait => "stream_wait",
            Edge::Inferred => "inferred",
            Edge::Sync => "sync",
            Edge::Silent => "silent",
            Edge::Handover => "handover",
            Edge::Poll => "poll",
            Edge::Anchor => "anchor",
        }
    }

    /// Whether it takes the time; the others only order.
    pub fn is_work(self) -> bool {
        matches!(self, Edge::Gpu | Edge::Host)
    }
}

/// Where a segment lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// An activity's stream, by the activity's index.
    Stream(u32),
    /// A host thread, by its lane.
    Thread(u32),
    /// Neither: the end of the window, or an empty one.
    Nowhere,
}

/// A stretch of the path, never empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    pub span: Span,
    pub class: PathClass,
    pub edge: Edge,
    /// Row of the event that worked, or that came late.
    pub event: Option<u32>,
    /// Row of the event at whose end (of a launch: start) a zero-cost edge begins.
    pub source: Option<u32>,
    pub place: Place,
}

impl Segment {
    /// Whether its edge is a guess.
    pub fn is_inferred(&self) -> bool {
        matches!(self.edge, Edge::Inferred | Edge::Poll)
    }

    /// Name of its event; empty where it has none.
    pub fn name<'a>(&self, trace: &'a RankTrace) -> &'a str {
        self.event.map_or("", |row| trace.name(row))
    }
}
