//! The tables that only dumps of memory can fill, and all that a dump fills. The others are those of the
//! analysis `memory`.

use crate::memory::tables::{
    MemoryAllocations, MemoryContent, MemoryCurve, MemoryEvents, MemoryLeaks, MemoryPeaks,
};
use hta_base::table;
use hta_base::table::schema::{Batch, TableSpec, Text};

/// The tables that the analysis writes only for dumps.
pub const OWN_TABLES: &[&TableSpec] = &[
    MemoryDevices::SPEC,
    MemoryReserved::SPEC,
    MemoryCategories::SPEC,
    MemoryAllocated::SPEC,
    MemorySegments::SPEC,
    MemoryBlocks::SPEC,
    MemoryStacks::SPEC,
];

/// The rows of a dump.
#[derive(Default)]
pub struct DumpTables {
    pub(crate) peaks: MemoryPeaks,
    pub(crate) content: MemoryContent,
    pub(crate) leaks: MemoryLeaks,
    pub(crate) events: MemoryEvents,
    pub(crate) devices: MemoryDevices,
    pub(crate) allocated: MemoryAllocated,
    pub(crate) segments: MemorySegments,
    pub(crate) categories: MemoryCategories,
    pub(crate) sentences: MemorySentences,
    pub(crate) curve: Option<MemoryCurve>,
    pub(crate) allocations: Option<MemoryAllocations>,
    pub(crate) blocks: Option<MemoryBlocks>,
    pub(crate) stacks: Option<MemoryStacks>,
}

impl DumpTables {
    /// Empty tables; of those with a row for every entry, block or frame the ones that are wanted.
    pub fn of(wants: impl Fn(&TableSpec) -> bool) -> Self {
        Self {
            curve: wants(MemoryCurve::SPEC).then(MemoryCurve::default),
            allocations: wants(MemoryAllocations::SPEC).then(MemoryAllocations::default),
            blocks: wants(MemoryBlocks::SPEC).then(MemoryBlocks::default),
            stacks: wants(MemoryStacks::SPEC).then(MemoryStacks::default),
            ..Self::default()
        }
    }

    /// The bounded tables, and the long ones.
    pub fn finish(self) -> (Vec<Batch>, Vec<Batch>) {
        let kept = vec![
            self.peaks.finish(),
            self.content.finish(),
            self.leaks.finish(),
            self.events.finish(),
            self.devices.finish(),
            self.allocated.finish(),
            self.segments.finish(),
            self.categories.finish(),
            self.sentences.finish(),
        ];
        let long = [
            self.curve.map(MemoryCurve::finish),
            self.allocations.map(MemoryAllocations::finish),
            self.blocks.map(MemoryBlocks::finish),
            self.stacks.map(MemoryStacks::finish),
        ];
        (kept, long.into_iter().flatten().collect())
    }
}

table! {
    /// Every device of a dump: the state when it was taken, and its history in figures.
    pub struct MemoryDevices, MemoryDeviceRow = "memory_devices" by "rank, source, device_type, device" {
        rank;
        device_type: Text, "",
            "cuda for any accelerator, which a snapshot does not name; cpu: pinned memory of the host";
        device: Option<i64>, "", "device index; null for host memory";
        source: Text, "", "snapshot or timeline";
        peak_bytes: Option<i64>, "bytes", "highest level; null without a history";
        base_bytes: Option<i64>, "bytes", "level before the first entry; null without a history";
        is_bound: bool, "", "the first entries of the history are missing: the peak is at least peak_bytes";
        entry_count: Option<u64>, "", "entries of the history; null without one";
        has_times: Option<bool>, "", "the entries have times";
        failed_count: u64, "", "requests that failed";
        reserved_before_bytes: Option<i64>, "bytes",
            "reserved before the first entry; null without a history";
        reserved_max_bytes: Option<i64>, "bytes", "reserved at most; null without a history";
        reserved_bytes: Option<i64>, "bytes",
            "reserved when the snapshot was taken: active + pending + releasable + split; null of a timeline";
        active_bytes: Option<i64>, "bytes", "blocks in use";
        active_block_count: Option<u64>, "", "their number";
        requested_bytes: Option<i64>, "bytes", "requested of them; the rest is rounding";
        pending_bytes: Option<i64>, "bytes", "freed, but another stream may still use it";
        releasable_bytes: Option<i64>, "bytes",
            "segments without a block in use: empty_cache() would return them";
        split_bytes: Option<i64>, "bytes", "free beside blocks in use";
        tail_bytes: Option<i64>, "bytes",
            "of split, at the end of expandable segments: empty_cache() would return it";
        largest_free_bytes: Option<i64>, "bytes", "largest free block";
    }
}

table! {
    /// What the allocator holds of each device when a snapshot is taken, in parts that add up.
    pub(crate) struct MemoryReserved, MemoryReservedRow = "memory_reserved"
        by "rank, device_type, device, position" {
        rank;
        device_type: Text, "", "as in memory_devices", "device";
        device: Option<i64>, "", "device index; null for host memory";
        position: u32, "", "position of the part";
        part: Text, "", "requested, rounding, pending, releasable or split";
        bytes: i64, "bytes", "its size";
        pct: Option<f64>, "%", "of what is reserved", "share";
        meaning: Text, "", "what it is";
    }
}

table! {
    /// What the history of a snapshot allocates; most of it is freed again. The rows of one key_kind add up
    /// to all of it.
    pub struct MemoryAllocated, MemoryAllocatedRow = "memory_allocated"
        by "rank, source, device_type, device, key_kind, bytes descending, key" {
        rank;
        device_type: Text, "", "as in memory_devices", "device";
        device: Option<i64>, "", "device index; null for host memory";
        source: Text, "", "snapshot";
        key_kind: Text, "", "what the key names: line, node or phase; stack with --by stack";
        key: Text, "", "who allocates", "allocated at";
        count: u64, "", "allocations", "allocations";
        bytes: i64, "bytes", "their size";
    }
}

table! {
    /// Of a timeline the level by category at the moment that is printed.
    pub(crate) struct MemoryCategories, MemoryCategoryRow = "memory_categories"
        by "rank, bytes descending, category" {
        rank;
        seq: u64, "", "last row of the timeline up to the moment";
        since_ns: Option<i64>, "ns", "time since its first row with a time";
        category: Text, "", "category of tensors";
        bytes: i64, "bytes", "level at the moment";
        max_bytes: i64, "bytes", "highest level", "most of it at any time";
    }
}

table! {
    /// What stands out on a device of a snapshot, told where the whole snapshot is at hand. Only partials
    /// hold it.
    pub(crate) struct MemorySentences, MemorySentenceRow = "memory_sentences"
        by "rank, device_type, device, subject" {
        rank;
        device_type: Text, "", "as in memory_devices";
        device: Option<i64>, "", "device index; null for host memory";
        subject: u32, "", "what it is about: the smallest number is the most important";
        sentence: Text, "", "sentence";
    }
}

table! {
    /// The segments that the allocator holds when the snapshot is taken.
    pub(crate) struct MemorySegments, MemorySegmentRow = "memory_segments"
        by "rank, source, device_type, device, address" {
        rank;
        device_type: Text, "", "as in memory_devices";
        device: Option<i64>, "", "device index; null for host memory";
        source: Text, "", "snapshot";
        address: u64, "", "address";
        bytes: i64, "bytes", "size, reserved from the device";
        stream;
        pool: Text, "",
            "pool as two numbers; 0,0 is the default one, others belong to CUDA graphs and user pools";
        is_large: Option<bool>, "", "of the pool for requests above 1 MiB";
        is_expandable: bool, "", "it can grow in place (expandable_segments)";
        active_bytes: i64, "bytes", "size of the allocated blocks";
        requested_bytes: i64, "bytes", "requested of them; the rest is rounding";
        pending_bytes: i64, "bytes", "freed blocks that another stream may still use";
        inactive_bytes: i64, "bytes", "free blocks";
        largest_free_bytes: i64, "bytes", "largest free block";
        site: Text, "", "where the segment was reserved";
    }
}

table! {
    /// The blocks of every segment, in order of address.
    pub(crate) struct MemoryBlocks, MemoryBlockRow = "memory_blocks"
        by "rank, source, device_type, device, segment_address, offset_bytes" {
        rank;
        device_type: Text, "", "as in memory_devices";
        device: Option<i64>, "", "device index; null for host memory";
        source: Text, "", "snapshot";
        segment_address: u64, "", "address of the segment";
        offset_bytes: i64, "bytes", "from the start of the segment";
        bytes: i64, "bytes", "size";
        requested_bytes: Option<i64>, "bytes", "requested; null for a free block";
        state: Text, "", "allocated; pending: freed, but another stream may still use it; inactive; unknown";
        site: Option<Text>, "", "where it was allocated; null for a free block";
        stack_id: Option<u64>, "", "stack in memory_stacks";
    }
}

table! {
    /// Every distinct stack of the snapshot, with all its frames.
    pub struct MemoryStacks, MemoryStackRow = "memory_stacks" by "rank, stack_id, depth" {
        rank;
        stack_id: u64, "", "number of the stack";
        depth: u32, "", "0 is the innermost frame";
        file: Text, "", "source file; `??` where the unwinder does not know it";
        line: Option<i64>, "", "line; 0 where it is not known";
        function: Text, "", "function";
    }
}

table! {
    /// What holds the memory in two snapshots (`hta diff BASE TEST`), by line.
    pub struct MemoryDiff, MemoryDiffRow = "memory_diff"
        by "rank, device_type, device, absolute delta_bytes descending, site" {
        rank;
        device_type: Text, "", "as in memory_devices";
        device: Option<i64>, "", "device index; null for host memory";
        moment: Text, "", "peak; end: without a history";
        site: Text, "", "line, as in memory_content", "line";
        base_count: u64, "", "allocations before";
        test_count: u64, "", "allocations after";
        base_bytes: i64, "bytes", "before", "before";
        test_bytes: i64, "bytes", "after", "after";
        delta_bytes: i64, "bytes", "test - base", "change";
    }
}
