//! The kinds of causes: a closed list, in the order in which idle time is assigned to them.

/// How sure a cause can be at best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Confidence {
    /// Follows from recorded times alone.
    Measured,
    /// Depends on an interpretation.
    Interpreted,
    /// Only a bound is known.
    Bound,
}

impl Confidence {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Confidence::Measured => "A",
            Confidence::Interpreted => "B",
            Confidence::Bound => "C",
        }
    }

    /// Weight of a gain in the ranking.
    pub(crate) fn weight(self) -> f64 {
        match self {
            Confidence::Measured => 1.0,
            Confidence::Interpreted => 0.8,
            Confidence::Bound => 0.5,
        }
    }

    /// In a sentence.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Confidence::Measured => "sure",
            Confidence::Interpreted => "likely",
            Confidence::Bound => "at most",
        }
    }
}

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $id:ident $name:literal $confidence:ident;)+) => {
        /// What costs time. Earlier kinds take idle time first: specific before general, recorded before inferred.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum CauseKind { $($(#[doc = $doc])+ $id),+ }

        impl CauseKind {
            pub const ALL: &'static [CauseKind] = &[$(CauseKind::$id),+];

            /// As in the tables.
            pub fn name(self) -> &'static str {
                match self { $(CauseKind::$id => $name),+ }
            }

            /// Confidence with the best evidence.
            pub fn confidence(self) -> Confidence {
                match self { $(CauseKind::$id => Confidence::$confidence),+ }
            }

            pub fn named(name: &str) -> Option<CauseKind> {
                Self::ALL.iter().copied().find(|k| k.name() == name)
            }
        }
    };
}

kinds! {
    /// A rank works longer than the others in the same steps and makes them wait.
    Straggler "straggler" Measured;
    /// A rank has more compute than the others in the same steps.
    Imbalance "imbalance" Measured;
    /// The device idles while the launching thread is in a data loader's `__next__`.
    DataLoader "data_loader" Measured;
    /// The device idles while the launching thread allocates or frees memory by the driver.
    HostAlloc "host_alloc" Measured;
    /// The device idles inside launch calls that load a kernel at its first use.
    WarmUp "warm_up" Measured;
    /// Host threads stand still inside events of many names, or in some events of one name.
    HostPause "host_pause" Interpreted;
    /// A host thread stands still while another thread of the process runs.
    HostLock "host_lock" Interpreted;
    /// The device idles between two iterations of an inference engine.
    IterationGap "iteration_gap" Measured;
    /// The device idles inside calls that launch graphs.
    GraphLaunch "graph_launch" Measured;
    /// The device idles in an iteration before the first call that launches a graph.
    GraphPreparation "graph_preparation" Measured;
    /// The device idles after a call that waited for it, until two launches are queued again.
    HostSync "host_sync" Interpreted;
    /// Copies from or to pageable memory.
    CopyPageable "copy_pageable" Measured;
    /// Copies by calls that return when the copy is done.
    CopySync "copy_sync" Measured;
    /// Copies below 64 KiB.
    CopySmall "copy_small" Measured;
    /// The device idles while the launching thread runs code outside operators for 200 us and longer.
    HostPython "host_python" Measured;
    /// The device idles while the launching thread runs operators and launches kernels.
    HostDispatch "host_dispatch" Measured;
    /// Exposed communication without a match, because ranks are missing.
    CommUnmatched "comm_unmatched" Bound;
    /// Exposed transfers of calls that were delayed by another call on their stream.
    TransferQueued "transfer_queued" Interpreted;
    /// Exposed transfers with less than 0.7 times the group's own 90th percentile of bus bandwidth, or of a group with less
    /// than 0.7 times the median of the groups like it.
    TransferBandwidth "transfer_bandwidth" Measured;
    /// Exposed transfers with no compute to hide them.
    TransferBare "transfer_bare" Bound;
    /// Exposed waits of one pipeline stage for another, in messages and in the collective that ends them, beyond those that
    /// a late host explains.
    PipelineBubble "pipeline_bubble" Bound;
    /// Some steps take longer than the median step.
    StepOutlier "step_outlier" Measured;
    /// Compute in pointwise kernels that are limited by memory.
    KernelElementwise "kernel_elementwise" Bound;
    /// Attention made of softmax and batched matrix products.
    KernelAttention "kernel_attention" Bound;
    /// Kernels that only change the memory layout.
    KernelLayout "kernel_layout" Measured;
    /// Matrix products and convolutions in fp32 without tensor cores.
    KernelPrecision "kernel_precision" Bound;
    /// Kernels shorter than 10 us, on a device that is busy.
    KernelSmall "kernel_small" Bound;
    /// Requests for memory failed.
    MemoryFailed "memory_failed" Measured;
    /// The caching allocator runs out of memory inside steps, gives its cache back and asks again.
    MemoryRetry "memory_retry" Interpreted;
    /// The level of memory grows from step to step.
    MemoryLeak "memory_leak" Interpreted;
    /// The memory of a device is nearly full at the peak.
    MemoryFull "memory_full" Measured;
    /// The memory of a device is reserved nearly whole, but much of it is not allocated.
    MemoryUnused "memory_unused" Measured;
    /// The recording is not sufficient for a diagnosis.
    InputIncomplete "input_incomplete" Measured;
    /// No rule takes it.
    NotExplained "not_explained" Bound;
}

impl CauseKind {
    /// Whether the cause lies on the host, so that work recorded with a distorted host is no evidence.
    pub(crate) fn is_on_host(self) -> bool {
        use CauseKind::{DataLoader, HostAlloc, HostDispatch, HostLock, HostPause, HostPython, HostSync, WarmUp};
        matches!(self, DataLoader | HostAlloc | WarmUp | HostPause | HostLock | HostSync | HostPython | HostDispatch)
            || self.is_of_serving()
    }

    /// Whether the cause is one of the iterations of an inference engine. These come first, in their order.
    pub(crate) fn is_of_serving(self) -> bool {
        matches!(self, CauseKind::IterationGap | CauseKind::GraphPreparation | CauseKind::GraphLaunch)
    }

    /// Whether the cause lies in communication.
    pub(crate) fn is_of_transfer(self) -> bool {
        matches!(self, CauseKind::TransferQueued | CauseKind::TransferBandwidth | CauseKind::PipelineBubble)
    }

    /// Whether the cause is about memory, and so owns no time.
    pub(crate) fn is_of_memory(self) -> bool {
        use CauseKind::{MemoryFailed, MemoryFull, MemoryLeak, MemoryRetry, MemoryUnused};
        matches!(self, MemoryFailed | MemoryRetry | MemoryLeak | MemoryFull | MemoryUnused)
    }

    /// Whether the cause owns useful time instead of lost time.
    pub(crate) fn is_kernel_mix(self) -> bool {
        use CauseKind::{KernelAttention, KernelElementwise, KernelLayout, KernelPrecision, KernelSmall};
        matches!(self, KernelElementwise | KernelAttention | KernelLayout | KernelPrecision | KernelSmall)
    }
}
