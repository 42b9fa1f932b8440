//! The tables about memory, shared by everything that records it: traces with `[memory]` records, snapshots
//! of the caching allocator, and memory timelines. Column `source` says which, because they do not measure
//! the same bytes: a trace has blocks (rounded up), a snapshot what was requested, a timeline the storages of
//! tensors.
//!
//! Bytes are `i64`, because changes have a sign. Numbers of records (`seq`) count from 0 per device, in order
//! of time.

use hta_base::table;
use hta_base::table::schema::Text;

table! {
    /// The level of a device's memory after every record; it holds until the next one.
    pub struct MemoryCurve, MemoryCurveRow = "memory_curve" by "rank, source, device_type, device, seq" {
        rank;
        device_type: Text, "",
            "cpu, cuda, hip, xpu, mtia, privateuse1, or the recorded number of another type";
        device: Option<i64>, "", "device index; null for host memory";
        source: Text, "", "what recorded it: trace, snapshot or timeline";
        seq: u64, "", "number of the record on the device, from 0";
        ts_ns: Option<i64>, "ns", "time of the record; null where none is recorded";
        delta_bytes: i64, "bytes", "allocated (positive) or freed (negative)";
        allocated_bytes: i64, "bytes", "allocated after the record";
        reserved_bytes: Option<i64>, "bytes",
            "reserved from the device after the record; null where it is not recorded, and for host memory";
        is_relative: bool, "", "the level before the recording is unknown: allocated_bytes counts from 0";
        category: Option<Text>, "", "timeline: category of the tensor";
    }
}

table! {
    /// The highest level of a device's memory in the capture and in each step, and what made it.
    pub struct MemoryPeaks, MemoryPeakRow = "memory_peaks"
        by "rank, source, device_type, device, scope, step" {
        rank;
        device_type: Text, "", "type of the device";
        device: Option<i64>, "", "device index; null for host memory";
        source: Text, "", "trace, snapshot or timeline";
        scope: Text, "", "capture or step";
        step; step_label;
        peak_bytes: i64, "bytes", "highest level";
        base_bytes: Option<i64>, "bytes", "level before the first record; null where it is unknown";
        is_relative: bool, "", "the level before the recording is unknown: peak_bytes counts from 0";
        reserved_bytes: Option<i64>, "bytes", "reserved at that moment";
        unused_max_bytes: Option<i64>, "bytes", "largest difference of reserved and allocated in the scope";
        seq: u64, "", "number of the first record that reaches the peak";
        ts_ns: Option<i64>, "ns", "time of that record";
        in_step_ns: Option<i64>, "ns", "the same from the start of the step in which it lies";
        phase: Option<Text>, "", "forward, backward, optimizer, zero_grad, data or outside";
        trigger_bytes: i64, "bytes", "size of the allocation that reaches the peak";
        trigger_op: Option<Text>, "",
            "operator that makes it; an empty tensor's is shown as `parent (aten::empty)`";
        trigger_chain: Option<Text>, "", "all operators around it, outermost first, joined by ;";
        trigger_site: Option<Text>, "", "line or function of the user's code around it";
        module: Option<Text>, "", "path of nn.Modules around it, backward: around its forward operator";
        known_count: Option<u64>, "",
            "allocations of the recording that are alive at that moment; null without addresses";
        known_bytes: Option<i64>, "bytes", "their size";
        before_bytes: Option<i64>, "bytes", "the rest of the peak: allocated before the recording";
        device_total_bytes: Option<i64>, "bytes", "memory of the device";
    }
}

table! {
    /// The devices of all ranks, the one nearest to its limit first: a device whose requests fail, then by
    /// the part of its memory, then by size; with --device only those.
    pub(crate) struct MemoryHighest, MemoryHighestRow
        = "memory_highest" by "place" key "rank, device_type, device" {
        place: u32, "", "position in this order, from 0";
        rank;
        device_type: Text, "", "type of the device", "device";
        device: Option<i64>, "", "device index; null for host memory";
        source: Text, "", "trace, snapshot or timeline";
        peak_bytes: Option<i64>, "bytes", "highest level; null without a history";
        total_pct: Option<f64>, "%", "the same, of the device's memory", "share";
        reserved_max_bytes: Option<i64>, "bytes", "reserved at most (snapshot)", "most reserved";
        reserved_bytes: Option<i64>, "bytes", "reserved at the peak (snapshot: when it was taken)";
        unused_bytes: Option<i64>, "bytes", "reserved but not allocated, at the peak";
        unused_max_bytes: Option<i64>, "bytes", "the same, at most", "at most";
        active_bytes: Option<i64>, "bytes", "blocks in use (snapshot)";
        split_bytes: Option<i64>, "bytes", "free beside blocks in use (snapshot)";
        split_pct: Option<f64>, "%", "the same, of what is reserved", "of reserved";
        in_step_ns: Option<i64>, "ns", "time of the peak from the start of its step";
        phase: Option<Text>, "", "phase of the peak, as in memory_peaks";
        is_relative: bool, "", "the level before the recording is unknown: peak_bytes counts from 0";
        is_detailed: bool, "", "what holds its memory is printed";
        moment: Text, "", "moment in memory_content that is printed";
        step: Option<u32>, "", "index of the step of that moment";
        key_kind: Text, "", "what holders are named by, in memory_content";
    }
}

table! {
    /// What holds the memory at a moment; the rows of one key_kind add up to the level, exactly.
    pub struct MemoryContent, MemoryContentRow = "memory_content"
        by "rank, source, device_type, device, moment, step, key_kind, bytes descending, key" {
        rank;
        device_type: Text, "", "type of the device", "device";
        device: Option<i64>, "", "device index; null for host memory";
        source: Text, "", "trace, snapshot or timeline";
        moment: Text, "",
            "peak (of the capture), end (of the recording), step (peak of a step), or what --at gives: \
             entry:N, or a time in ns";
        step;
        key_kind: Text, "", "what the key names: op, line, module, phase, stack, node or category";
        key: Text, "", "holder; `[before window]`: allocated before the recording", "holder";
        count: Option<u64>, "", "allocations; null where they are not known one by one";
        bytes: i64, "bytes", "their size";
        pct: Option<f64>, "%", "share of the level", "share";
    }
}

table! {
    /// Every allocation, with the time and place of its end.
    pub(crate) struct MemoryAllocations, MemoryAllocationRow = "memory_allocations"
        by "rank, source, device_type, device, seq" {
        rank;
        device_type: Text, "", "type of the device";
        device: Option<i64>, "", "device index; null for host memory";
        source: Text, "", "trace, snapshot or timeline";
        seq: Option<u64>, "",
            "number of the record that allocates; null for allocations from before the recording";
        free_seq: Option<u64>, "", "number of the record that frees";
        ts_ns: Option<i64>, "ns", "time of the allocation";
        free_ts_ns: Option<i64>, "ns", "time of the free";
        lifetime_ns: Option<i64>, "ns", "from the one to the other";
        bytes: i64, "bytes", "size";
        block_bytes: Option<i64>, "bytes", "size of the block, where bytes is what was requested";
        address: Option<u64>, "", "address";
        stream;
        op: Option<Text>, "", "operator that allocates";
        site: Option<Text>, "", "line or function of the user's code around it";
        level: Option<Text>, "", "what site is: line or function";
        module: Option<Text>, "", "path of nn.Modules around it, backward: around its forward operator";
        phase: Option<Text>, "", "forward, backward, optimizer, zero_grad, data or outside";
        step;
        free_phase: Option<Text>, "", "phase of the free";
        free_step: Option<u32>, "", "index of the step of the free";
        ended: Text, "",
            "freed; live: at the end of the recording; before: a free of what was allocated before the \
             recording; unknown: its address was allocated again";
        stack_id: Option<u64>, "", "stack in memory_stacks";
    }
}

table! {
    /// What operators allocate and free. Own figures add up over the rows; the others include operators
    /// inside.
    pub(crate) struct MemoryOperators, MemoryOperatorRow = "memory_operators"
        by "rank, source, device_type, device, alloc_self_bytes descending, name" {
        rank;
        device_type: Text, "", "type of the device", "device";
        device: Option<i64>, "", "device index; null for host memory";
        source: Text, "", "trace, snapshot or timeline";
        name: Text, "", "operator; `[no operator]`: records outside any", "operator";
        count: Option<u64>, "", "calls in the recording; null for `[no operator]`", "calls";
        net_bytes: i64, "bytes",
            "allocated minus freed inside; a free counts where it happens, so this is no leak";
        alloc_bytes: i64, "bytes", "allocated inside", "with nested";
        alloc_count: u64, "", "allocations inside";
        net_self_bytes: i64, "bytes", "allocated minus freed by the operator itself", "net";
        alloc_self_bytes: i64, "bytes", "allocated by the operator itself", "bytes";
        alloc_self_count: u64, "", "allocations of the operator itself", "allocations";
    }
}

table! {
    /// The level of a device's memory over each step, and what of a step outlives the next one.
    pub struct MemorySteps, MemoryStepRow = "memory_steps" by "rank, source, device_type, device, step" {
        rank;
        device_type: Text, "", "type of the device", "device";
        device: Option<i64>, "", "device index; null for host memory";
        source: Text, "", "trace, snapshot or timeline";
        step; step_label; is_partial;
        start_bytes: i64, "bytes", "level when the step begins";
        end_bytes: i64, "bytes", "level when it ends";
        net_bytes: i64, "bytes", "the difference";
        max_bytes: i64, "bytes", "highest level in the step", "highest";
        min_bytes: i64, "bytes", "lowest level in the step";
        survivor_count: Option<u64>, "",
            "allocations of the step that are alive when the next step ends; null if that is unknown";
        survivor_bytes: Option<i64>, "bytes", "their size", "survives";
    }
}

table! {
    /// Sites whose allocations outlive the step after theirs, and so may pile up.
    pub struct MemoryLeaks, MemoryLeakRow = "memory_leaks"
        by "rank, source, device_type, device, key_kind, bytes descending, site" {
        rank;
        device_type: Text, "", "type of the device", "device";
        device: Option<i64>, "", "device index; null for host memory";
        source: Text, "", "trace, snapshot or timeline";
        site: Text, "", "operator, line or module";
        key_kind: Text, "", "what site is: op, line, module or stack", "kind";
        groups: u64, "", "steps (snapshot: groups of entries) with such allocations";
        count: u64, "", "allocations that survive";
        bytes: i64, "bytes", "their size";
        bytes_per_group: i64, "bytes", "bytes / groups, rounded down", "a group";
        is_recurring: bool, "",
            "they come again and again: a leak, or a cache that grows; else made once", "recurring";
    }
}

table! {
    /// What happens to the allocator: failed requests, and memory taken from the device or given back.
    pub struct MemoryEvents, MemoryEventRow = "memory_events"
        by "rank, source, device_type, device, ts_ns, seq" {
        rank;
        device_type: Text, "", "type of the device", "device";
        device: Option<i64>, "", "device index; null for host memory, and for calls, which do not record it";
        source: Text, "", "trace, snapshot or timeline";
        seq: Option<u64>, "",
            "number of the entry; null in traces, where such records are no part of the curve", "entry";
        ts_ns: Option<i64>, "ns", "time";
        kind: Text, "", "oom, retry, empty_cache, segment_alloc, segment_free, map, unmap or annotation",
            "event";
        bytes: Option<i64>, "bytes", "requested, or size of the segment";
        device_free_bytes: Option<i64>, "bytes", "free on the device";
        reserved_bytes: Option<i64>, "bytes", "reserved after it", "reserved after";
        site: Option<Text>, "", "line, function or operator around it";
    }
}
