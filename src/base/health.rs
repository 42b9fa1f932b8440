//! Health counters: everything in a file that was corrected, lost or unusual, so that nothing is lost
//! silently.
//!
//! [`COUNTERS`] is the only list of counters; `hta explain health` prints it. Counters of severity `info` and
//! `corrected` never change the exit code.

use crate::table::schema::Text;
use crate::table::stored::{CellOf, UnfitCell};
use std::collections::BTreeMap;

/// Severity of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing; the numbers are right.
    Info,
    /// A value was corrected and the event kept.
    Corrected,
    /// Something in the file could not be used.
    Lost,
    /// The file could not be used.
    Fatal,
}

impl Severity {
    pub const ALL: [Severity; 4] = [Severity::Info, Severity::Corrected, Severity::Lost, Severity::Fatal];

    pub fn name(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::Corrected => "corrected",
            Severity::Lost => "lost",
            Severity::Fatal => "fatal",
        }
    }
}

/// Declaration of one counter.
#[derive(Debug)]
pub struct CounterSpec {
    pub id: Counter,
    pub name: &'static str,
    pub severity: Severity,
    /// What it means and what it affects, one line.
    pub doc: &'static str,
}

macro_rules! counters {
    ($($id:ident $name:literal $sev:ident $doc:literal;)+) => {
        /// The counters; the discriminant is the index in [`COUNTERS`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Counter { $($id),+ }

        /// All counters.
        pub const COUNTERS: &[CounterSpec] = &[$(CounterSpec {
            id: Counter::$id, name: $name, severity: Severity::$sev, doc: $doc,
        }),+];
    };
}

counters! {
    UnescapedQuote "json_unescaped_quote" Corrected "a bare quote inside a name; the name was read up to the \
        next key";
    ControlChar "json_control_char" Corrected "raw control characters in a text; kept";
    InvalidUtf8 "json_invalid_utf8" Corrected "text that is not UTF-8; the bad bytes read U+FFFD";
    SqliteText "sqlite_text_repaired" Corrected "a text of an SQLite file that is not UTF-8, whose bad bytes \
        read U+FFFD, or that is stored as bytes (BLOB)";
    NameUnknown "name_lost_unknown" Lost "the profiler replaced a name by the word `unknown`";
    BadEscape "json_bad_escape" Corrected "an escape JSON does not know; the backslash was kept";
    BareWord "json_bare_word" Corrected "inf, nan or another bare word where a number belongs; read as missing";
    TopLevelSkipped "toplevel_value_skipped" Lost "a value beside the events is not JSON and was skipped; \
        events are whole";
    ArgsBroken "event_args_broken" Lost "the arguments of an event are not JSON; the event was kept without \
                                         them";
    EventUnreadable "event_unreadable" Lost "an event is not JSON; it was skipped";
    EventNotObject "event_not_object" Lost "an element among the events is not an object; it was skipped";
    TsMissing "event_without_ts" Lost "an event has no start time; it was skipped";
    PhMissing "event_without_ph" Lost "an event has no phase; it was skipped";
    EventKeyDuplicate "event_key_duplicate" Corrected "an event has a key twice; the last one counts";
    LoneSurrogate "json_lone_surrogate" Corrected "half of a surrogate pair; read as U+FFFD";
    TrailingComma "json_trailing_comma" Corrected "a comma with nothing after it";
    TrailingData "json_trailing_bytes" Corrected "bytes after the end of the trace were ignored";
    TrailingEvents "json_trailing_events" Lost "text after the end of the trace contains events; they were \
        not read";
    LaterDocument "json_documents_joined" Info "another document follows the end of the trace; its events \
        were read too";
    DuplicateKey "toplevel_key_duplicate" Info "`traceEvents` occurs more than once; all were read";
    DurMissing "event_without_dur" Lost "an event of phase X has no duration; it was skipped";
    NameMissing "event_without_name" Corrected "events without a name";
    IntAboveI64 "int_above_i64" Info "integers above 2^63, kept as unsigned, or as text above 2^64";
    UnpaddedFraction "time_unpadded_fraction" Corrected "times like 123.5 that mean 123 us + 5 ns (Kineto, \
        spring 2024) were read so";
    AmbiguousFraction "time_fraction_ambiguous" Corrected "times with short fractions that may be decimal or \
        unpadded; read as decimal";
    Reserialised "time_reserialised" Info "another tool rewrote the times and dropped trailing zeros; the \
                                           values are right";
    TimeOverflow "ts_overflow" Lost "a time farther from 1970 than 146 years; the event was skipped";
    BaseMissing "time_origin_unknown" Info "times have no known origin: ranks are compared only where \
                                            collectives end together on all, which shows that they have one";
    MetadataAfter "metadata_after_events" Info "metadata comes after the events";
    RootArray "root_is_array" Info "the file is a bare list of events";
    ZeroStart "gpu_event_zero_start" Lost "GPU activities at time 0 with length 0; left out of the device \
                                           tables";
    FarOutlier "gpu_event_far_outlier" Lost "GPU activities that start after the record window, or an hour \
        or more from the median one; left out of all tables but `events`";
    HostFarOutlier "host_event_far_outlier" Lost "host events that start after the record window, or an hour \
        or more from the median one; left out of all tables but `events`";
    DurNegative "dur_negative" Corrected "negative durations, read as 0";
    DurOverflow "dur_overflow" Corrected "durations beyond the record window, cut at its end";
    DurSuspect "gpu_dur_suspect" Info "GPU activities that last for most of their length after a later one \
                                       of their stream has started";
    DurCut "gpu_dur_cut" Corrected "of those, activities over three or more later ones, which cannot be; \
                                 their time after the next start counts nowhere";
    StreamIsLabel "stream_is_label" Corrected "activities in CUDA graphs whose `stream` was an annotation of \
        the program or a lane of the drawing; the stream was taken from elsewhere in the row";
    LaunchDelayNegative "launch_delay_negative" Info "activities that start before their launch call";
    StreamOvertaken "stream_order_differs" Info "activities that run on their stream after one that was \
        launched later";
    LaunchWithoutKernel "launch_without_kernel" Info "launch calls without an activity, not counting those \
        recorded into a graph";
    GraphOrderDiffers "graph_order_differs" Info "replays of graphs whose activities start in another order \
        than that of the nodes or of the file; the latter counts";
    CounterSamplesLost "counter_samples_lost" Info "samples of hardware counters that miss at the begin or \
        in the middle: the profiler keeps only the newest of a long capture; means are of the others";
    StreamOverlap "stream_overlap" Info "activities that overlap on one stream; idle time uses the running \
                                         maximum of ends";
    StreamEndsCut "stream_overlap_not_recorded" Info "the recorder ends each GPU activity where the next \
        one of its stream starts: that none overlaps another there says nothing";
    DeviceClockOffset "device_clock_offset" Corrected "a device whose clock is off that of the host by the \
        same time at every launch; its times were moved by that";
    GpuDuplicate "gpu_event_duplicate" Corrected "a GPU activity written twice; counted once";
    GpuStepIgnored "gpu_step_annotation_ignored" Info "`ProfilerStep` rows on device streams; not steps";
    TidNotInteger "tid_not_integer" Info "thread or process ids that are not numbers";
    SyncRowMoved "sync_row_moved" Info "synchronization rows on a display row of their own";
    FlowUnpaired "flow_unpaired" Info "flow events without their other end; only forward-backward flows are \
                                       used";
    ListTruncated "list_arg_truncated" Corrected "list arguments cut with `...`";
    CommArgsMissing "comm_args_missing" Info "communication kernels without collective arguments";
    GroupTooLarge "group_size_impossible" Corrected "a job or process group of more than 1,000,000 ranks; \
        its size was read as unknown";
    ExternalIsCorrelation "external_id_is_correlation" Info "`External id` repeats the correlation; not used";
    OccupancyZero "occupancy_recorded_zero" Info "kernels with more than 48 KiB of shared memory and a \
        recorded occupancy of 0, which the profiler computes wrongly; the derived one is used";
    ExternalZero "external_id_zero" Info "`External id` 0 on a GPU activity";
    PacketDamaged "perfetto_packet_damaged" Lost "packets with a wrong length or a broken field; what \
        precedes it was read, and reading went on at the next packet";
    PacketsDropped "perfetto_packets_dropped" Lost "packets before which the recorder has dropped others";
    NameNotInterned "perfetto_name_missing" Lost "events whose name, category, track or counter the file \
        does not hold; a name reads `[unknown]`";
    ConverterRows "perfetto_converter_rows" Info "rows that the converter made of annotations; not read";
    JournalIgnored "sqlite_wal_ignored" Lost "a `-wal` file lies beside the database: changes in it that are \
        not in the database were not read";
    TableIgnored "sqlite_table_ignored" Info "rows of a table of the database that hta does not read";
    CallTwice "nsys_api_twice" Corrected "calls that nsys recorded twice; the outer row was dropped";
    GraphsWhole "nsys_graph_whole" Info "graph launches recorded with --cuda-graph-trace=graph: the kernels \
                                         inside are not known";
    MarkerDamaged "pyprof_marker_damaged" Lost "markers of PyProf that are no Python literals; kept as \
        annotations, without shapes";
    MarkerUnpaired "nvprof_marker_unpaired" Lost "ends of NVTX ranges without a start; skipped";
    CallUnnamed "nvprof_call_unnamed" Info "API calls whose number is not in the list of CUPTI's callbacks; \
                                            named `cbid N`";
    Truncated "file_truncated" Lost "the file ends in the middle; all complete events were read";
    Temporary "file_is_tmp" Info "a `.tmp` file: the profiler had not finished it";
    FileRefused "file_refused" Fatal "a file that could not be used at all; its row says why (info if it \
                                      merely is no trace)";
    TrailingGarbage "gzip_trailing_bytes" Corrected "bytes after the compressed data were ignored";
    LegacyCategory "category_legacy" Info "categories spelled as in 2021";
    UnknownCategory "category_unknown" Info "events of a category this version does not know; in `events`, \
        not in the analyses";
    MissingCategory "category_missing" Info "complete events without a category; in `events`, not in the \
        analyses";
    DeviceNameEmpty "device_name_empty" Info "a device has no name";
    NotLoaded "events_not_loaded" Info "events left out by --skip";
    HostStreamArg "host_event_with_stream_arg" Info "host operators with a `stream` argument; not GPU work";
    SyncRowExcluded "sync_row_excluded" Info "synchronization rows drawn on devices; not busy time";
    OverlapClipped "host_overlap_clipped" Corrected "host events that extend beyond their parent by less than \
        1 us; cut for the call tree";
    OverlapSibling "host_overlap_sibling" Corrected "host events that overlap only in part; siblings in the \
        call tree";
    FrameOverlap "python_frame_overlap" Info "Python frames that overlap another of their caller, or outlast \
        it; own time is what no called frame covers";
    FrameUnended "python_frame_unended" Corrected "Python frames that last until the profiler stopped \
        although their caller returned before; cut at its end";
    Unfinished "event_unfinished" Info "host events cut at the end of the capture";
    NumberAsString "number_as_string" Corrected "numbers written as text";
    HandleAsText "handle_as_text" Info "handles written as hexadecimal text, as on XPU; read as numbers";
    GpuUnlinked "gpu_event_unlinked" Info "GPU activities without a launch record";
    DurZero "dur_zero" Info "complete events of length 0: counted, never busy";
    OverlayIgnored "overlay_event_ignored" Info "events that `hta overlay` added: counters, paths and marks; \
        not read";
    ProfilerOverhead "profiler_overhead" Info "rows of the profiler's own cost; nothing is subtracted";
    ManyLaunches "correlation_many_launches" Info "several calls carry one correlation; the innermost is \
        taken";
    AmbiguousCorrelation "correlation_ambiguous" Info "calls of several processes carry one correlation; \
        left unlinked";
    BeginWithoutEnd "begin_without_end" Lost "`B` events without an `E`; skipped";
    EndWithoutBegin "end_without_begin" Lost "`E` events without a `B`; skipped";
    RankByPosition "rank_by_position" Info "no rank in the file or its name; numbered by position";
    RankWorldMismatch "rank_world_mismatch" Info "rank and world size of the files disagree";
    BaseDiffers "base_time_differs" Info "files of one job have different base times; added";
    EraMixed "time_era_mixed" Info "files of one job write times in different ways";
    MemoryZeroBytes "memory_zero_bytes" Info "memory records of 0 bytes; left out";
    MemoryWithoutBytes "memory_without_bytes" Lost "memory records without a size; left out";
    MemoryTotalJump "memory_total_jump" Info "the total of allocated memory jumps between two records by \
        something else than the second's size: records are missing; the recorded totals are used";
    MemoryAllocOverLive "memory_alloc_over_live" Info "allocations at an address that was not freed; the end \
        of the older one is unknown";
    MemorySizeMismatch "memory_size_mismatch" Info "frees of another size than the allocation at the address";
    NoCommunicationFound "no_communication_rule_matched" Info "world size is above 1, yet no kernel matched \
        a communication rule";
    SnapshotCut "snapshot_cut" Lost "a memory snapshot or timeline ends early; complete entries were used";
    SnapshotHistoryOverflowed "snapshot_history_overflowed" Info "histories of a snapshot whose first \
        entries were dropped, because the buffer was full: the peak may lie before";
    SnapshotStateDisagrees "snapshot_state_disagrees" Info "bytes by which the history of a snapshot and its \
        blocks at the end disagree: entries are missing or were edited";
    SnapshotAllocOverLive "snapshot_alloc_over_live" Info "entries of a snapshot that allocate an address \
        that is still allocated; the older allocation ends there";
    SnapshotSumDiffers "snapshot_sum_differs" Info "segments of a snapshot whose stated sums are not those \
        of their blocks; the blocks count";
    SnapshotValueUnusable "snapshot_value_unusable" Lost "a size, time, address or stack in a snapshot or \
        timeline that cannot be one; read as missing";
    SnapshotShared "snapshot_shared" Lost "lists of segments, blocks or entries of a snapshot, or single \
                                           ones, that several places share, which no allocator writes; only \
                                           the first place has them";
    SnapshotActionUnknown "snapshot_action_unknown" Info "entries of a snapshot with an action this version \
        does not know; in no sum";
}

impl Counter {
    pub fn spec(self) -> &'static CounterSpec {
        &COUNTERS[self as usize]
    }
}

impl CellOf<Text> for Counter {
    fn cell(&self) -> &str {
        self.spec().name
    }

    fn of_cell(cell: &str) -> Result<Self, UnfitCell> {
        let known = COUNTERS.iter().find(|c| c.name == cell);
        known.map(|c| c.id).ok_or_else(|| UnfitCell::unknown(cell))
    }
}

/// How often a counter was hit, and the first case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CounterTally {
    pub count: u64,
    /// Offset of the first case in the decompressed file, if known.
    pub first_byte: Option<u64>,
    /// Description of the first case.
    pub example: String,
}

/// All counters of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Health {
    tallies: BTreeMap<Counter, CounterTally>,
}

impl Health {
    /// Counts one case at an offset of the decompressed file.
    pub fn hit(&mut self, counter: Counter, byte: u64) {
        self.add(counter, 1, Some(byte), "");
    }

    /// Counts one case, with a description.
    pub fn note(&mut self, counter: Counter, example: &str) {
        self.add(counter, 1, None, example);
    }

    /// Counts `count` cases; the position and description of the first are kept.
    pub fn add(&mut self, counter: Counter, count: u64, byte: Option<u64>, example: &str) {
        if count == 0 {
            return;
        }
        let tally = self.tallies.entry(counter).or_default();
        if tally.count == 0 {
            tally.first_byte = byte;
            tally.example = example.chars().take(120).collect();
        }
        tally.count += count;
    }

    /// Adds the counters of a later piece of the same file.
    pub fn merge(&mut self, later: &Health) {
        for (counter, tally) in &later.tallies {
            self.add(*counter, tally.count, tally.first_byte, &tally.example);
        }
    }

    pub fn count(&self, counter: Counter) -> u64 {
        self.tallies.get(&counter).map_or(0, |t| t.count)
    }

    /// Whether anything of severity lost or fatal was counted.
    pub fn has_loss(&self) -> bool {
        self.tallies.keys().any(|c| c.spec().severity >= Severity::Lost)
    }

    /// All counters that were hit: worst first, then in the order of [`COUNTERS`].
    pub fn iter(&self) -> impl Iterator<Item = (Counter, &CounterTally)> {
        let mut all: Vec<_> = self.tallies.iter().map(|(c, t)| (*c, t)).collect();
        all.sort_by_key(|(c, _)| (std::cmp::Reverse(c.spec().severity), *c));
        all.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_keep_the_first_place_and_come_worst_first() {
        let mut h = Health::default();
        h.hit(Counter::DurZero, 7);
        h.hit(Counter::DurZero, 9);
        h.note(Counter::Truncated, "inside event 3");
        let all: Vec<_> = h.iter().map(|(c, t)| (c, t.count, t.first_byte)).collect();
        assert_eq!(all, [(Counter::Truncated, 1, None), (Counter::DurZero, 2, Some(7))]);
        assert!(h.has_loss());
    }

    #[test]
    fn declarations_stand_at_their_own_position() {
        for (i, spec) in COUNTERS.iter().enumerate() {
            assert_eq!(spec.id as usize, i);
        }
    }
}
