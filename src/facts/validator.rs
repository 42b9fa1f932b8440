//! The six rules of torch's own validator of traces (`torch.profiler._trace_validator`), and what they find.
//!
//! ```text
//!   gpu_kernel_causality           a launch call whose first kernel starts before it
//!   stream_wait_corr_id_populated  a wait for an event that does not name the call which recorded the event
//!   stream_sync_overlap            a kernel of the stream runs when a call begins to wait for the stream
//!   stream_wait_corr_id_in_past    a stream waits for an event whose record call is missing or later
//!   nccl_metadata                  a `record_param_comms` without name, type, sizes or group
//!   backward_seq_id_uniqueness     a sequence number of several backward functions
//! ```
//!
//! Kernels and launches are joined by correlation: Cuspy writes no `External id` on kernels.

use hashbrown::{HashMap, HashSet};
use hta_base::units::Ns;
use hta_trace::args::Arg;
use hta_trace::category::Class;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A rule of the validator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValidatorRule {
    KernelCausality,
    WaitPopulated,
    SyncOverlap,
    WaitInPast,
    CollectiveMetadata,
    BackwardUniqueness,
}

impl ValidatorRule {
    pub const ALL: [Self; 6] = [
        Self::KernelCausality,
        Self::WaitPopulated,
        Self::SyncOverlap,
        Self::WaitInPast,
        Self::CollectiveMetadata,
        Self::BackwardUniqueness,
    ];

    /// As in the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::KernelCausality => "gpu_kernel_causality",
            Self::WaitPopulated => "stream_wait_corr_id_populated",
            Self::SyncOverlap => "stream_sync_overlap",
            Self::WaitInPast => "stream_wait_corr_id_in_past",
            Self::CollectiveMetadata => "nccl_metadata",
            Self::BackwardUniqueness => "backward_seq_id_uniqueness",
        }
    }
}

/// Cases of a rule.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RuleCases {
    pub checked: u64,
    pub violated: u64,
}

impl RuleCases {
    /// Whether more than so many percent of the cases violate the rule.
    pub fn exceeds(self, pct: u64) -> bool {
        self.violated * 100 > self.checked * pct
    }
}

/// Share of launches that may start after their kernel before host-caused idle time is withheld, percent.
pub const EARLY_PCT: u64 = 1;
/// Share of waits that may lack their record call before edges of events are downgraded, percent.
pub const UNNAMED_PCT: u64 = 5;

/// What the rules find in a rank.
#[derive(Debug, Default)]
pub struct Validation {
    pub launches: RuleCases,
    /// Longest time by which the first kernel of a launch starts before it, ns.
    pub early_by: Ns,
    pub(crate) waits: RuleCases,
    pub(crate) syncs: RuleCases,
    pub(crate) past_waits: RuleCases,
    pub(crate) collectives: RuleCases,
    pub(crate) numbers: RuleCases,
    /// Rows of waits whose record call is missing or later, ascending.
    pub impossible_waits: Vec<u32>,
    /// Sequence numbers of several backward functions.
    pub(crate) shared_numbers: HashSet<u64>,
}

impl Validation {
    /// The shared instance of a rank.
    pub fn of(trace: &RankTrace) -> Arc<Self> {
        trace.shared(Self::new)
    }

    fn new(trace: &RankTrace) -> Self {
        let (launches, early_by) = launches(trace);
        let mut me = Self { launches, early_by, ..Self::default() };
        let mut wanted: Vec<(u32, u64)> = Vec::new();
        let mut stream_syncs: Vec<u32> = Vec::new();
        let rows = (0u32..).zip(&trace.classes).filter(|(_, class)| **class == Class::Sync);
        for (row, _) in rows {
            let name = trace.name(row);
            let record = trace.columns.args.int(Arg::WaitOnRecord, row).filter(|id| *id >= 0);
            if matches!(name, "Stream Wait Event" | "Event Sync") {
                me.waits.checked += 1;
                me.waits.violated += u64::from(record.is_none());
            }
            match (name, record) {
                ("Stream Wait Event", Some(id)) => wanted.push((row, id as u64)),
                ("Stream Sync", _) => stream_syncs.push(row),
                _ => {}
            }
        }
        me.impossible_waits = impossible_waits(trace, &wanted);
        me.past_waits =
            RuleCases { checked: wanted.len() as u64, violated: me.impossible_waits.len() as u64 };
        me.syncs = overlapped_syncs(trace, &stream_syncs);
        me.collectives = collectives(trace);
        let functions = backward_functions(trace);
        me.numbers.checked = functions.len() as u64;
        let shared = functions.into_iter().filter(|(_, names)| names.len() > 1).map(|(number, _)| number);
        me.shared_numbers = shared.collect();
        me.numbers.violated = me.shared_numbers.len() as u64;
        me
    }

    pub fn cases(&self, rule: ValidatorRule) -> RuleCases {
        match rule {
            ValidatorRule::KernelCausality => self.launches,
            ValidatorRule::WaitPopulated => self.waits,
            ValidatorRule::SyncOverlap => self.syncs,
            ValidatorRule::WaitInPast => self.past_waits,
            ValidatorRule::CollectiveMetadata => self.collectives,
            ValidatorRule::BackwardUniqueness => self.numbers,
        }
    }

    /// Whether the events that streams wait for are mostly not known, so that their edges are guesses.
    pub fn doubts_events(&self) -> bool {
        self.waits.exceeds(UNNAMED_PCT)
    }
}

/// Launch calls with a kernel, and those whose first kernel starts before them, by so much at most.
fn launches(trace: &RankTrace) -> (RuleCases, Ns) {
    let (mut found, mut early_by) = (RuleCases::default(), 0);
    for (call, activities) in trace.launches().iter() {
        let kernels = activities.iter().filter_map(|i| trace.activities.get(*i as usize));
        let first = kernels.filter(|a| a.class == Class::Kernel).map(|a| a.span.start).min();
        if let Some(first) = first {
            let early = trace.span(call).start.saturating_sub(first);
            found.checked += 1;
            found.violated += u64::from(early > 0);
            early_by = early_by.max(early);
        }
    }
    (found, early_by)
}

/// Of these waits (row and id of the record call) those whose record call is missing or begins later. An id
/// is that of an operator or a correlation.
fn impossible_waits(trace: &RankTrace, wanted: &[(u32, u64)]) -> Vec<u32> {
    let mut records: HashMap<u64, Ns> = wanted.iter().map(|(_, id)| (*id, Ns::MAX)).collect();
    if records.is_empty() {
        return Vec::new();
    }
    let c = &trace.columns;
    let is_record = c.strings.each(|text| text.contains("EventRecord"));
    let (mut external, mut correlation) = (c.args.cursor(Arg::ExternalId), c.args.cursor(Arg::Correlation));
    for row in (0..c.len() as u32).filter(|row| trace.classes.get(*row as usize) == Some(&Class::Runtime)) {
        if !is_record.holds(c.name(row as usize)) {
            continue;
        }
        for id in [external.get(row), correlation.get(row)].into_iter().flatten() {
            if let Some(first) = records.get_mut(&id) {
                *first = trace.span(row).start.min(*first);
            }
        }
    }
    let is_late =
        |(row, id): &&(u32, u64)| records.get(id).is_none_or(|first| *first > trace.span(*row).start);
    wanted.iter().filter(is_late).map(|(row, _)| *row).collect()
}

/// Calls that wait for a stream, and those at whose start a kernel of the stream runs.
fn overlapped_syncs(trace: &RankTrace, syncs: &[u32]) -> RuleCases {
    let mut found = RuleCases { checked: syncs.len() as u64, violated: 0 };
    if syncs.is_empty() {
        return found;
    }
    // Starts with the latest end so far, by device and stream; activities are in order of start.
    type DeviceStream = (Option<i64>, Option<i64>);
    let mut streams: BTreeMap<DeviceStream, Vec<(Ns, Ns)>> = BTreeMap::new();
    for a in trace.activities.iter().filter(|a| a.class == Class::Kernel) {
        let list = streams.entry((a.device(), a.stream())).or_default();
        let until = list.last().map_or(a.span.end, |(_, end)| a.span.end.max(*end));
        list.push((a.span.start, until));
    }
    let int = |arg, row| trace.columns.args.int(arg, row);
    for row in syncs {
        let at = trace.span(*row).start;
        let kernels = streams.get(&(int(Arg::Device, *row), int(Arg::Stream, *row)));
        let before =
            kernels.map_or(&[][..], |list| list.get(..list.partition_point(|k| k.0 < at)).unwrap_or(&[]));
        found.violated += u64::from(before.last().is_some_and(|(_, end)| *end > at));
    }
    found
}

/// `record_param_comms`, and those without all of name, type, sizes and group size.
fn collectives(trace: &RankTrace) -> RuleCases {
    const NEEDED: [Arg; 5] = [Arg::CollectiveName, Arg::Dtype, Arg::InNelems, Arg::OutNelems, Arg::GroupSize];
    let c = &trace.columns;
    let mut found = RuleCases::default();
    let Some(name) = c.strings.lookup(b"record_param_comms") else { return found };
    let is_one =
        |row: &u32| c.name(*row as usize) == name && trace.classes.get(*row as usize) == Some(&Class::HostOp);
    for row in (0..c.len() as u32).filter(is_one) {
        found.checked += 1;
        found.violated += u64::from(NEEDED.iter().any(|arg| c.args.column(*arg).get(row).is_none()));
    }
    found
}

/// The names of the backward functions by sequence number.
fn backward_functions(trace: &RankTrace) -> HashMap<u64, Vec<StrId>> {
    let c = &trace.columns;
    let is_function = c.strings.each(|text| text.contains("evaluate_function:"));
    let mut found: HashMap<u64, Vec<StrId>> = HashMap::new();
    for (row, number) in c.args.column(Arg::SeqNumber).iter() {
        let name = c.name(row as usize);
        if trace.classes.get(row as usize) == Some(&Class::HostOp) && is_function.holds(name) {
            let names = found.entry(number).or_default();
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    found
}
