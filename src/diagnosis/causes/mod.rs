//! The causes, each in a file of its own: its name, when it holds and what it owns, what it says and advises,
//! its words for the documentation, and the trace that has it. The list below is the only one.

mod cold_start;
mod comm_unmatched;
mod contention;
mod copy_exposed;
mod copy_pageable;
mod copy_small;
mod copy_sync;
mod data_loader;
mod expert_imbalance;
mod graph_launch;
mod graph_preparation;
mod host_alloc;
mod host_callback;
mod host_compile;
mod host_dispatch;
mod host_lock;
mod host_pause;
mod host_python;
mod host_sync;
mod imbalance;
mod input_incomplete;
mod iteration_gap;
mod kernel_attention;
mod kernel_elementwise;
mod kernel_layout;
mod kernel_precision;
mod kernel_small;
mod link_slow;
mod memory_failed;
mod memory_full;
mod memory_leak;
mod memory_retry;
mod memory_unused;
mod not_explained;
mod pipeline_bubble;
mod role_wait;
mod set_up;
mod step_outlier;
mod straggler;
mod throttled;
mod transfer_bandwidth;
mod transfer_bare;
mod transfer_queued;
mod warm_up;

use crate::rule::CauseRule;

macro_rules! causes {
    ($($id:ident $file:ident,)+) => {
        /// What costs time. Earlier kinds take idle time first: specific before general, recorded before
        /// inferred.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum CauseKind { $($id),+ }

        impl CauseKind {
            pub const ALL: &'static [CauseKind] = &[$(CauseKind::$id),+];

            /// The command whose answer shows it.
            pub fn command(self) -> &'static str {
                self.rule().command
            }

            pub(crate) fn rule(self) -> &'static CauseRule {
                match self { $(CauseKind::$id => &$file::RULE),+ }
            }
        }
    };
}

causes! {
    Straggler straggler,
    Imbalance imbalance,
    Throttled throttled,
    RoleWait role_wait,
    HostCallback host_callback,
    DataLoader data_loader,
    HostCompile host_compile,
    WarmUp warm_up,
    HostAlloc host_alloc,
    SetUp set_up,
    ColdStart cold_start,
    HostPause host_pause,
    HostLock host_lock,
    IterationGap iteration_gap,
    GraphLaunch graph_launch,
    GraphPreparation graph_preparation,
    HostSync host_sync,
    CopyPageable copy_pageable,
    CopySync copy_sync,
    CopySmall copy_small,
    CopyExposed copy_exposed,
    HostPython host_python,
    HostDispatch host_dispatch,
    CommUnmatched comm_unmatched,
    ExpertImbalance expert_imbalance,
    LinkSlow link_slow,
    TransferBandwidth transfer_bandwidth,
    PipelineBubble pipeline_bubble,
    TransferQueued transfer_queued,
    TransferBare transfer_bare,
    StepOutlier step_outlier,
    Contention contention,
    KernelElementwise kernel_elementwise,
    KernelAttention kernel_attention,
    KernelLayout kernel_layout,
    KernelPrecision kernel_precision,
    KernelSmall kernel_small,
    MemoryFailed memory_failed,
    MemoryRetry memory_retry,
    MemoryLeak memory_leak,
    MemoryFull memory_full,
    MemoryUnused memory_unused,
    InputIncomplete input_incomplete,
    NotExplained not_explained,
}
