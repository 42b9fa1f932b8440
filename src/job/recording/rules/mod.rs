//! The rules, one file each: the first lines of a file are what `hta explain trust` prints of it.

mod capture_trace;
mod counters_only;
mod device_clock;
mod device_not_recorded;
mod ends_apart;
mod ends_before_arrival;
mod experts_without_exchange;
mod file_cut;
mod frames_inflate;
mod fused_communication;
mod host_windows;
mod impossible_lengths;
mod launch_causality;
mod launch_order;
mod live_addresses;
mod lost_launches;
mod lost_stream;
mod missing_calls;
mod missing_ranks;
mod peer_copies;
mod profiler_overhead;
mod same_durations;
mod shared_correlations;
mod step_rules;
mod time_origin;
mod too_short;
mod unlinked_work;

use crate::Job;
use crate::recording::Recording;
use crate::recording::facts::RecordingRow;
use crate::recording::limit::Limit;

pub use counters_only::NAME as COUNTERS_ONLY;
pub use device_not_recorded::NAME as NOT_RECORDED;
pub use fused_communication::hides_overlap;
pub use fused_communication::{LEAST_PCT as FUSED_PCT, NAME as FUSED_COMMUNICATION, fused_share};
pub use missing_ranks::NAME as MISSING_RANKS;
pub use step_rules::NAME as STEP_RULES;
pub use too_short::NAME as TOO_SHORT;

/// The first limit of each rule that doubts the classes of kernels, which is told in "About the input", too.
pub fn class_doubts(recording: &Recording) -> impl Iterator<Item = &Limit> {
    let first = |rule| recording.limits().iter().find(|l| l.rule == rule);
    [experts_without_exchange::NAME, peer_copies::NAME].into_iter().filter_map(first)
}

/// What rules judge.
pub struct Recorded<'a, 'r> {
    /// In order of rank.
    pub(crate) ranks: &'a [RecordingRow<'r>],
    /// Without parts where ranks are not joined.
    pub(crate) job: &'a Job,
}

impl Recorded<'_, '_> {
    /// Ranks of whose files events are missing, of those that `is_one` chooses.
    pub(crate) fn cut(&self, is_one: impl Fn(&RecordingRow) -> bool) -> Vec<u32> {
        self.ranks.iter().filter(|r| r.is_cut() && is_one(r)).map(|r| r.rank).collect()
    }
}

/// The rank, if events of its file are missing.
fn cut_rank(r: &RecordingRow) -> Vec<u32> {
    r.is_cut().then_some(r.rank).into_iter().collect()
}

pub struct RecordingRule {
    pub name: &'static str,
    /// Text of its file.
    source: &'static str,
    /// The limits that it finds, the worst first.
    pub(crate) find: fn(&Recorded) -> Vec<Limit>,
}

impl RecordingRule {
    /// What it means, in Markdown.
    pub fn text(&self) -> String {
        let head = self.source.lines().map_while(|l| l.strip_prefix("//!"));
        head.map(|l| l.strip_prefix(' ').unwrap_or(l)).collect::<Vec<_>>().join("\n")
    }
}

macro_rules! rules {
    ($($name:ident),+ $(,)?) => {
        /// The rules. Where several limit the same, the reason of an earlier one is said.
        pub const RULES: &[RecordingRule] = &[$(RecordingRule {
            name: stringify!($name),
            source: include_str!(concat!(stringify!($name), ".rs")),
            find: $name::find,
        }),+];
    };
}

rules![
    file_cut,
    profiler_overhead,
    capture_trace,
    device_not_recorded,
    counters_only,
    shared_correlations,
    lost_launches,
    lost_stream,
    host_windows,
    unlinked_work,
    launch_order,
    time_origin,
    device_clock,
    launch_causality,
    impossible_lengths,
    same_durations,
    live_addresses,
    ends_apart,
    ends_before_arrival,
    frames_inflate,
    step_rules,
    missing_calls,
    experts_without_exchange,
    peer_copies,
    missing_ranks,
    fused_communication,
    // A recording that is short is whole: other reasons come first.
    too_short,
];

/// Rows for the tests of rules.
#[cfg(test)]
mod testing {
    use crate::recording::facts::{RecordingRow, WHOLE};
    use crate::recording::limit::Limit;
    use crate::recording::rules::{RULES, Recorded};
    use crate::{ClockMode, Job};

    /// A rank of which everything is recorded, changed by the test.
    pub(crate) fn rank(rank: u32, change: impl FnOnce(&mut RecordingRow<'static>)) -> RecordingRow<'static> {
        let mut row = RecordingRow {
            rank,
            vendor: "nvidia",
            capability: None,
            world_size: None,
            recorded_ns: 1_000_000_000,
            activity_count: 1000,
            gpu_sum_ns: 1000,
            unlinked_ns: 0,
            graph_ns: 0,
            launch_count: 1000,
            lost_launch_count: 0,
            shared_launch_count: 0,
            shared_kernel_count: 0,
            kernel_launch_count: 1000,
            early_launch_count: 0,
            early_by_ns: 0,
            captured_count: 0,
            captured_graph_count: 0,
            frame_count: 0,
            overhead_ns: 0,
            lead_ns: 0,
            overrun_count: 0,
            overrun_ns: 0,
            ordered_count: 1000,
            overtaken_count: 0,
            overtaken_by_ns: 0,
            clock_device: None,
            clock_ahead_ns: 0,
            clock_early_count: 0,
            clock_behind_ns: 0,
            clock_late_count: 0,
            clock_wait_count: 0,
            clock_linked_count: 0,
            clock_moved_ns: 0,
            device_count: 1,
            device_state: "recorded",
            names_device: true,
            operator_count: 100,
            compute_ns: 1000,
            idle_ns: 0,
            same_count: 0,
            same_name_count: 0,
            same_ns: 0,
            allocation_count: 0,
            live_again_count: 0,
            main_stream: Some(7),
            streams: "7,20",
            data_parallel_count: 0,
            gloo_count: 0,
            communication_count: 0,
            communication_ns: 0,
            beside_compute_ns: 0,
            fused_ns: 0,
            fused_name: None,
            iteration_count: 0,
            step_count: 3,
            step_window: "host",
            step_launched_ns: 1000,
            step_held_ns: 1000,
            is_serving: false,
            excerpt: false,
            file_end: WHOLE,
            file: "f",
            rank_source: "file",
            role: None,
            host_name: None,
            pids: "7",
            devices: "0",
            recorded_start_ns: 0,
            recorded_end_ns: 1_000_000_000,
            has_origin: true,
        };
        change(&mut row);
        row
    }

    /// The limits that a rule finds.
    pub(crate) fn found(rule: &str, ranks: Vec<RecordingRow<'static>>) -> Vec<Limit> {
        let job = Job::nobody(ClockMode::default());
        let rule = RULES.iter().find(|r| r.name == rule).expect("a rule of this name");
        (rule.find)(&Recorded { ranks: &ranks, job: &job })
    }

    #[test]
    fn every_rule_is_explained_and_finds_nothing_in_a_whole_recording() {
        for rule in RULES {
            assert!(rule.text().len() > 60, "{}: {}", rule.name, rule.text());
            assert_eq!(found(rule.name, vec![rank(0, |_| {}), rank(1, |_| {})]), [], "{}", rule.name);
        }
    }
}
