//! Differences between vendors of accelerators: categories, names and ids of API calls.
//!
//! HIP calls have the category `cuda_runtime`, and number their API calls in `cid` where CUDA writes `cbid`.

/// The vendor whose profiler back end the trace imitates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Vendor {
    /// CUDA and CUPTI.
    #[default]
    Nvidia,
    /// HIP and roctracer: `hip*` calls under `cuda_runtime`, `kind` on device rows.
    Amd,
    /// SYCL: device rows have a queue but no stream.
    Xpu,
    /// MTIA: device rows under `mtia_ccp_events`, `stream_id` on the calls.
    Mtia,
}

impl Vendor {
    /// All vendors, for tests that must hold for each.
    pub const ALL: [Vendor; 4] = [Vendor::Nvidia, Vendor::Amd, Vendor::Xpu, Vendor::Mtia];

    pub(super) fn runtime_category(self) -> &'static str {
        match self {
            Vendor::Nvidia | Vendor::Amd => "cuda_runtime",
            Vendor::Xpu => "xpu_runtime",
            Vendor::Mtia => "mtia_runtime",
        }
    }

    pub(super) fn driver_category(self) -> &'static str {
        match self {
            Vendor::Nvidia | Vendor::Amd => "cuda_driver",
            Vendor::Xpu => "xpu_driver",
            Vendor::Mtia => "mtia_runtime",
        }
    }

    pub(super) fn kernel_category(self) -> &'static str {
        match self {
            Vendor::Mtia => "mtia_ccp_events",
            _ => "kernel",
        }
    }

    pub(super) fn copy_category(self) -> &'static str {
        match self {
            Vendor::Mtia => "mtia_ccp_events",
            _ => "gpu_memcpy",
        }
    }

    pub(super) fn sync_category(self) -> &'static str {
        match self {
            Vendor::Xpu => "xpu_sync",
            _ => "cuda_sync",
        }
    }

    /// The argument with the number of an API call, if there is one.
    pub(super) fn call_id_key(self) -> Option<&'static str> {
        match self {
            Vendor::Nvidia => Some("cbid"),
            Vendor::Amd => Some("cid"),
            Vendor::Xpu | Vendor::Mtia => None,
        }
    }

    /// Name and number of an API call.
    pub(super) fn call(self, call: Call) -> (&'static str, i64) {
        match self {
            Vendor::Nvidia => match call {
                Call::Launch => ("cudaLaunchKernel", 211),
                Call::LaunchExtended => ("cudaLaunchKernelExC", 430),
                Call::LaunchGraph => ("cudaGraphLaunch", 311),
                Call::Copy => ("cudaMemcpyAsync", 41),
                Call::Set => ("cudaMemsetAsync", 51),
                Call::DeviceSync => ("cudaDeviceSynchronize", 165),
                Call::StreamSync => ("cudaStreamSynchronize", 131),
                Call::EventRecord => ("cudaEventRecord", 135),
                Call::EventSync => ("cudaEventSynchronize", 137),
                Call::StreamWait => ("cudaStreamWaitEvent", 147),
                Call::Allocate => ("cudaMalloc", 20),
            },
            Vendor::Amd => match call {
                Call::Launch => ("hipLaunchKernel", 107),
                Call::LaunchExtended => ("hipExtLaunchKernel", 62),
                Call::LaunchGraph => ("hipGraphLaunch", 215),
                Call::Copy => ("hipMemcpyAsync", 134),
                Call::Set => ("hipMemsetAsync", 159),
                Call::DeviceSync => ("hipDeviceSynchronize", 48),
                Call::StreamSync => ("hipStreamSynchronize", 198),
                Call::EventRecord => ("hipEventRecord", 60),
                Call::EventSync => ("hipEventSynchronize", 61),
                Call::StreamWait => ("hipStreamWaitEvent", 200),
                Call::Allocate => ("hipMalloc", 120),
            },
            Vendor::Xpu => match call {
                Call::Launch | Call::LaunchExtended => ("urEnqueueKernelLaunch", 0),
                Call::LaunchGraph => ("urCommandBufferEnqueueExp", 0),
                Call::Copy => ("urEnqueueUSMMemcpy", 0),
                Call::Set => ("urEnqueueUSMFill", 0),
                Call::DeviceSync | Call::StreamSync => ("urQueueFinish", 0),
                Call::EventRecord => ("urEnqueueEventsWait", 0),
                Call::EventSync => ("urEventWait", 0),
                Call::StreamWait => ("urEnqueueEventsWaitWithBarrier", 0),
                Call::Allocate => ("urUSMDeviceAlloc", 0),
            },
            Vendor::Mtia => match call {
                Call::Launch | Call::LaunchExtended | Call::LaunchGraph => {
                    ("runFunction - job_prep_and_submit_for_execution", 0)
                }
                Call::Copy => ("enqueueCommand memcpyHtoDAsync", 0),
                Call::Set => ("enqueueCommand memsetAsync", 0),
                Call::DeviceSync => ("synchronize", 0),
                Call::StreamSync => ("synchronizeStream", 0),
                Call::EventRecord => ("recordEvent", 0),
                Call::EventSync => ("synchronizeEvent", 0),
                Call::StreamWait => ("enqueueCommand waitOnEvent", 0),
                Call::Allocate => ("deviceMalloc", 0),
            },
        }
    }
}

/// API calls that exist under every vendor's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// An ordinary kernel launch.
    Launch,
    /// The launch with attributes that NCCL, RCCL and cuBLAS use.
    LaunchExtended,
    /// A call that starts a captured graph, with many device rows.
    LaunchGraph,
    /// An asynchronous copy.
    Copy,
    /// An asynchronous fill.
    Set,
    /// The host waits for the whole device.
    DeviceSync,
    /// The host waits for one stream.
    StreamSync,
    /// An event is recorded on a stream.
    EventRecord,
    /// The host waits for an event.
    EventSync,
    /// A stream is told to wait for an event.
    StreamWait,
    /// Device memory is allocated.
    Allocate,
}
