//! Segments of the path, with their class and the edge that was followed.

use hta_base::units::Span;
use hta_trace::rank_trace::RankTrace;

/// Name of the class that is outside the window and excluded from all percentages.
pub(crate) const BEFORE_CAPTURE: &str = "before_capture";

/// Class of a segment: how its time was spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PathClass {
    GpuCompute,
    GpuCommunication,
    GpuMemory,
    GpuFused,
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
    /// Unrecorded work of the device from before the recording.
    BeforeCapture,
}

impl PathClass {
    pub fn name(self) -> &'static str {
        match self {
            PathClass::GpuCompute => "gpu_compute",
            PathClass::GpuCommunication => "gpu_communication",
            PathClass::GpuMemory => "gpu_memory",
            PathClass::GpuFused => "gpu_fused",
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

/// The edge on which a segment lies. The comments name the node at which the edge begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Edge {
    /// Start to end of an activity.
    Gpu,
    /// From one moment of a working thread to the next.
    Host,
    /// The previous end on the same stream.
    Stream,
    /// The start of the launch call.
    Launch,
    /// The end of the activity before an event for which the stream waits.
    StreamWait,
    /// A recent end on another stream, inferred because nothing recorded explains the start.
    Inferred,
    /// The end of the activity for which a blocking call waits.
    Sync,
    /// The end of the thread's own previous work.
    Silent,
    /// The end of another thread's work.
    Handover,
    /// The last communication that a silent thread launched and seems to wait for by polling memory.
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

    /// Whether the segment is work; the others are only dependencies.
    pub fn is_work(self) -> bool {
        matches!(self, Edge::Gpu | Edge::Host)
    }
}

/// Where a segment lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SegmentPlace {
    /// On an activity's stream, by the activity's index.
    Stream(u32),
    /// On a host thread, by its lane.
    Thread(u32),
    /// On neither: at the end of the window, or in an empty window.
    Nowhere,
}

/// A part of the path, never empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathSegment {
    pub span: Span,
    pub class: PathClass,
    pub edge: Edge,
    /// Row of the event that worked, or that started late.
    pub event: Option<u32>,
    /// Row of the event at whose end (or, for a launch, start) a waiting edge begins.
    pub source: Option<u32>,
    pub place: SegmentPlace,
    /// Whether its edge is one of events on a rank whose waits mostly do not name what they wait for, so that
    /// another edge may have come later.
    pub is_doubtful: bool,
}

impl PathSegment {
    /// Whether its edge is inferred.
    pub fn is_inferred(&self) -> bool {
        self.is_doubtful || matches!(self.edge, Edge::Inferred | Edge::Poll)
    }

    /// Name of its event; empty without one.
    pub fn name<'a>(&self, trace: &'a RankTrace) -> &'a str {
        self.event.map_or("", |row| trace.name(row))
    }
}
