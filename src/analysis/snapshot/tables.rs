//! The tables that only a snapshot can fill: segments, blocks and stacks. The others are those of the analysis `memory`.

use hta_base::table;
use hta_base::table::schema::{TableSpec, Text};

/// The tables that are declared here.
pub const OWN_TABLES: &[&TableSpec] = &[MemorySegments::SPEC, MemoryBlocks::SPEC, MemoryStacks::SPEC, MemoryDiff::SPEC];

table! {
    /// The segments that the allocator holds when the snapshot is taken.
    pub(crate) struct MemorySegments, MemorySegmentRow = "memory_segments" by "rank, source, device_type, device, address" {
        rank;
        device_type: Text, "", "cuda for any accelerator, which a snapshot does not name; cpu: pinned memory of the host";
        device: Option<i64>, "", "device index; null for host memory";
        source: Text, "", "snapshot";
        address: u64, "", "address";
        bytes: i64, "bytes", "size, reserved from the device";
        stream;
        pool: Text, "", "pool as two numbers; 0,0 is the default one, others belong to CUDA graphs and user pools";
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
    pub(crate) struct MemoryBlocks, MemoryBlockRow = "memory_blocks" by "rank, source, device_type, device, segment_address, offset_bytes" {
        rank;
        device_type: Text, "", "as in memory_segments";
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
    pub struct MemoryDiff, MemoryDiffRow = "memory_diff" by "rank, device_type, device, absolute delta_bytes descending, site" {
        rank;
        device_type: Text, "", "as in memory_segments";
        device: Option<i64>, "", "device index; null for host memory";
        moment: Text, "", "peak; end: without a history";
        site: Text, "", "line, as in memory_content";
        base_count: u64, "", "allocations before";
        test_count: u64, "", "allocations after";
        base_bytes: i64, "bytes", "before";
        test_bytes: i64, "bytes", "after";
        delta_bytes: i64, "bytes", "test - base";
    }
}
