//! Tables of `collectives`: calls, sums by kind and size, sums by rank, and groups; and what is printed of
//! them.

use hta_base::table;
use hta_base::table::schema::Text;
use hta_base::table::view::{Note, ViewSpec};
use hta_job::end_together::KernelsEndTogether;

table! {
    /// One row per rank and collective. Times are on the common axis of all ranks.
    pub(crate) struct Collectives, CollectiveRow = "collectives" by "rank, ts_ns, event_id" {
        rank;
        event_id: u32, "", "event, as in `events`";
        collective: Option<u32>, "",
            "id of the collective, the same on all ranks that took part; null: not matched";
        process_group: Option<Text>, "", "name and members of the group; null: unknown";
        kind: Text, "", "kind of collective";
        title: Option<Text>, "", "title that `dist.record_comm` gave it, as recorded; null: none";
        seq: Option<u64>, "", "number within the group, where recorded";
        size_bytes: Option<i64>, "bytes",
            "buffer; all-gather: the whole output; reduce-scatter: the whole input; all-to-all: what this \
             rank sends; several messages: what it sends";
        dtype: Option<Text>, "", "element type";
        device: Option<i64>, "", "device index; null on the host";
        stream;
        step: Option<u32>, "", "index of the step of its submission";
        step_label;
        submit_ns: i64, "ns", "start of the launch call (device) or of the `c10d::*` operator (host)";
        ts_ns: i64, "ns", "start of the kernel, or of the range on the host";
        dur_ns: i64, "ns", "length";
        arrival_ns: i64, "ns", "when the rank arrived: ts_ns on a device, submit_ns on the host";
        last_arrival_ns: Option<i64>, "ns", "latest arrival of any member";
        last_rank: Option<u32>, "", "rank that arrived last; ties: the lowest";
        wait_ns: Option<i64>, "ns",
            "waiting: time before the last arrival among the ranks that this rank depends on";
        transfer_ns: Option<i64>, "ns", "data transfer: dur - wait";
        ends_before_last_arrival: Option<bool>, "",
            "the call ends before the last arrival, which is impossible for this kind: wait = dur, left out \
             of bandwidth and alignment";
        ends_apart: Option<bool>, "",
            "members end apart by more than 1 ms and a tenth of the longest call, although each waits for \
             all: one of the times is wrong; left out of bandwidth";
        member_count: u32, "ranks", "members that recorded it";
        expected_count: Option<u32>, "ranks", "members of the group";
        matched_by: Option<Text>, "", "seq, sequence, inferred or peers";
        wait_upper_ns: Option<i64>, "ns",
            "of a fused kernel the most that it waits: time before the last arrival; null: other kinds";
    }
}

table! {
    /// Collectives of one kind, size, type and group. Rates and transfer times are of complete instances with
    /// a transfer.
    pub struct CollectiveSummaries, CollectiveSummaryRow = "collective_summary"
        by "kind, size_bytes, dtype, process_group" {
        kind: Text, "", "kind; send_recv: a message from one rank to another";
        size_bytes: Option<i64>, "bytes", "size; the largest over members";
        dtype: Option<Text>, "", "element type", "type";
        process_group: Text, "", "name and members of the group", "group";
        member_count: u32, "ranks", "n, members of the group";
        count: u64, "", "instances";
        complete_count: u64, "", "instances that every member recorded, with possible times";
        timed_count: u64, "", "complete instances with a transfer time above 0";
        untimed_count: u64, "", "complete instances without one";
        dur_sum_ns: i64, "ns", "length of all calls on all ranks", "time";
        unmatched_sum_ns: i64, "ns",
            "length of the calls whose waiting is not known: unmatched, or a rank of the group is not \
             recorded";
        wait_sum_ns: Option<i64>, "ns", "waiting for other ranks; null if it is known of no call", "waiting";
        transfer_sum_ns: i64, "ns", "t, transfer time of the rank that came last, summed";
        transfer_mean_ns: Option<f64>, "ns", "mean of t";
        transfer_p50_ns: Option<i64>, "ns", "median of t, nearest rank", "transfer";
        transfer_p95_ns: Option<i64>, "ns", "95th percentile of t, nearest rank";
        alg_bw_gb_per_s: Option<f64>, "GB/s", "sum(size) / sum(t), 1e9 bytes", "algorithm bandwidth";
        bus_bw_gb_per_s: Option<f64>, "GB/s",
            "alg_bw x f: 2(n-1)/n all-reduce; (n-1)/n all-gather, reduce-scatter, all-to-all; else \
             1", "bus GB/s";
        start_skew_p50_ns: Option<i64>, "ns", "last minus first arrival, median", "skew";
        start_skew_max_ns: Option<i64>, "ns", "the largest";
        end_skew_p50_ns: Option<i64>, "ns", "last minus first end, median";
        end_skew_max_ns: Option<i64>, "ns", "the largest";
        wait_pct: Option<f64>, "%", "waiting, of the calls of which it is known", "waiting";
    }
}

table! {
    /// A rank's calls by group and kind; wait + transfer + unmatched = dur.
    pub(crate) struct CollectiveRanks, CollectiveRankRow = "collective_ranks" by "rank, process_group, kind" {
        rank;
        process_group: Option<Text>, "", "name and members of the group; null: unknown";
        kind: Text, "", "kind of collective";
        count: u64, "", "calls";
        unmatched_count: u64, "", "calls without a partner on another rank";
        size_sum_bytes: i64, "bytes", "sizes, summed";
        unsized_count: u64, "", "calls whose size is not known";
        dur_sum_ns: i64, "ns", "latency: length of the calls, summed";
        wait_sum_ns: Option<i64>, "ns", "waiting for other ranks; null if it is known of no call";
        transfer_sum_ns: Option<i64>, "ns", "data transfer; null in the same case";
        unmatched_sum_ns: i64, "ns",
            "length of the calls whose waiting is not known: unmatched, or a rank of the group is not \
             recorded";
        last_count: u64, "", "collectives in which this rank arrived last";
    }
}

table! {
    /// Collectives by title (`dist.record_comm`), over all ranks; titles that differ in digits only are one.
    pub(crate) struct CollectiveTitles, CollectiveTitleRow = "collective_titles" by "title, kind" {
        title: Text, "", "title with `#` for every number";
        kind: Text, "", "kind of collective";
        text_count: u64, "", "different titles";
        count: u64, "", "calls on all ranks", "calls";
        dur_sum_ns: i64, "ns", "length of the calls, summed", "time";
        wait_sum_ns: Option<i64>, "ns", "waiting for other ranks; null if it is known of no call", "waiting";
        transfer_sum_ns: Option<i64>, "ns", "data transfer; null in the same case", "transfer";
        unmatched_sum_ns: i64, "ns",
            "length of the calls whose waiting is not known: unmatched, or a rank of the group is not \
             recorded";
        wait_pct: Option<f64>, "%", "waiting, of the calls of which it is known", "waiting";
    }
}

table! {
    /// Process groups of the job, and how many of their calls were matched.
    pub struct ProcessGroups, ProcessGroupRow = "process_groups"
        by "rank of the first member, name" key "process_group" {
        process_group: Text, "", "name and members, as in the other tables", "group";
        name: Option<Text>, "", "name, as recorded";
        description: Option<Text>, "", "description, as recorded";
        members: Option<Text>, "", "member ranks; null: not known";
        member_count: u32, "ranks", "members", "of";
        present_count: u32, "ranks", "members with calls in these traces", "ranks";
        dimension: Option<Text>, "", "dimension that it is along: `pp`, `dp x cp` (`hta explain mesh`)";
        is_inferred: bool, "", "members were inferred from the calls of the ranks, not recorded";
        matched_by: Text, "", "seq, sequence, inferred, peers", "by";
        call_count: u64, "", "calls (a kernel with several messages counts once a message)";
        matched_count: u64, "", "calls with a partner on another rank";
        matched_pct: Option<f64>, "%", "of the calls", "matched";
        collective_count: u64, "", "instances", "of";
        complete_count: u64, "", "instances that every member recorded", "complete";
        disagreement_count: u64, "", "instances whose members disagree in kind, size or type";
        end_before_last_arrival_count: u64, "",
            "instances that end on some member before the last one arrived";
    }
}

/// The view below which problems of matching are told.
pub(super) const MATCHING: &str = "How calls were matched across ranks";

pub(super) const VIEWS: [ViewSpec; 4] = [
    ViewSpec {
        title: "Collectives: time, waiting and bandwidth",
        columns: &[
            "kind",
            "size_bytes",
            "process_group",
            "count",
            "dur_sum_ns",
            "wait_pct",
            "transfer_p50_ns",
            "bus_bw_gb_per_s",
            "start_skew_p50_ns",
        ],
        by: "dur_sum_ns",
        notes: &[Note::Text(
            "time: of all calls on all ranks; waiting: of the time of calls that other ranks matched, - \
             where there are none; transfer, skew (last minus first arrival): medians",
        )],
        ..ViewSpec::of(CollectiveSummaries::SPEC)
    },
    ViewSpec {
        title: "Collectives by title",
        columns: &["title", "kind", "count", "dur_sum_ns", "wait_pct"],
        by: "dur_sum_ns",
        ..ViewSpec::of(CollectiveTitles::SPEC)
    },
    ViewSpec {
        title: MATCHING,
        columns: &[
            "process_group",
            "present_count",
            "member_count",
            "matched_by",
            "call_count",
            "matched_pct",
            "complete_count",
            "collective_count",
        ],
        by: "call_count",
        most: 12,
        ..ViewSpec::of(ProcessGroups::SPEC)
    },
    ViewSpec {
        title: "Kernels that behave like exchanges",
        columns: &["name", "instance_count", "start_apart_ns", "end_apart_ns", "sum_ns"],
        notes: &[Note::Text(
            "they start apart and end together, as exchanges do, and count as compute: `--rules FILE` names \
             exchanges",
        )],
        ..ViewSpec::of(KernelsEndTogether::SPEC)
    },
];
