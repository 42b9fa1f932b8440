//! Numbers of the fields that are read, named as in Perfetto's definitions. Those from 1000 on are extensions
//! of its plugin for GPUs.

/// TracePacket.
pub(super) mod packet {
    pub(crate) const CLOCKS: u32 = 6;
    pub(crate) const TIMESTAMP: u32 = 8;
    pub(crate) const SEQUENCE: u32 = 10;
    pub(crate) const TRACK_EVENT: u32 = 11;
    pub(crate) const INTERNED: u32 = 12;
    pub(crate) const FLAGS: u32 = 13;
    pub(crate) const DROPPED: u32 = 42;
    pub(crate) const COMPRESSED: u32 = 50;
    pub(crate) const GPU_COUNTER: u32 = 52;
    pub(crate) const RENDER_STAGE: u32 = 53;
    pub(crate) const TRACK: u32 = 60;

    /// Those with which packets of torch and of converters begin.
    pub(crate) const ALL: [u32; 10] = [
        CLOCKS,
        TIMESTAMP,
        SEQUENCE,
        TRACK_EVENT,
        INTERNED,
        FLAGS,
        DROPPED,
        GPU_COUNTER,
        RENDER_STAGE,
        TRACK,
    ];
}

/// TrackEvent.
pub(super) mod event {
    pub(crate) const CATEGORY_IDS: u32 = 3;
    pub(crate) const ANNOTATION: u32 = 4;
    pub(crate) const TYPE: u32 = 9;
    pub(crate) const NAME_ID: u32 = 10;
    pub(crate) const TRACK: u32 = 11;
    pub(crate) const CATEGORY: u32 = 22;
    pub(crate) const NAME: u32 = 23;
    pub(crate) const COUNTER_INT: u32 = 30;
    pub(crate) const COUNTER_FLOAT: u32 = 44;

    pub(crate) const BEGIN: u64 = 1;
    pub(crate) const END: u64 = 2;
    pub(crate) const INSTANT: u64 = 3;
    pub(crate) const COUNTER: u64 = 4;
}

/// DebugAnnotation.
pub(super) mod annotation {
    pub(crate) const BOOL: u32 = 2;
    pub(crate) const UNSIGNED: u32 = 3;
    pub(crate) const INT: u32 = 4;
    pub(crate) const FLOAT: u32 = 5;
    pub(crate) const TEXT: u32 = 6;
    pub(crate) const POINTER: u32 = 7;
    pub(crate) const JSON: u32 = 9;
    pub(crate) const NAME: u32 = 10;
    pub(crate) const ENTRY: u32 = 11;
    pub(crate) const ELEMENT: u32 = 12;
}

/// TrackDescriptor, and the descriptors of a process and a thread in it.
pub(super) mod track {
    pub(crate) const UUID: u32 = 1;
    pub(crate) const NAME: u32 = 2;
    pub(crate) const PROCESS: u32 = 3;
    pub(crate) const THREAD: u32 = 4;
    pub(crate) const PARENT: u32 = 5;
    pub(crate) const COUNTER: u32 = 8;

    pub(crate) const PID: u32 = 1;
    pub(crate) const TID: u32 = 2;
    pub(crate) const THREAD_NAME: u32 = 5;
    pub(crate) const PROCESS_NAME: u32 = 6;
}

/// InternedData.
pub(super) mod interned {
    pub(crate) const CATEGORY: u32 = 1;
    pub(crate) const NAME: u32 = 2;
    pub(crate) const SPECIFICATION: u32 = 24;
    pub(crate) const COUNTERS: u32 = 47;
    pub(crate) const KERNEL: u32 = 1000;
    pub(crate) const LAUNCH_ARGUMENT: u32 = 1001;
}

/// GpuRenderStageEvent.
pub(super) mod stage {
    pub(crate) const DURATION: u32 = 2;
    pub(crate) const EXTRA: u32 = 6;
    pub(crate) const DEVICE: u32 = 11;
    pub(crate) const LANE: u32 = 13;
    pub(crate) const STAGE: u32 = 14;
    pub(crate) const KERNEL: u32 = 19;
    pub(crate) const NAME: u32 = 20;
    pub(crate) const LAUNCH: u32 = 21;
}
