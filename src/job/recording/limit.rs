//! A limit of what may be said, and the table `trust` of all of them.

use crate::recording::capability::{Capability, Grade};
use hta_base::table;
use hta_base::table::schema::{Batch, Text};
use hta_base::wording::ranks::ranks_named;

table! {
    /// What the recording does not carry, or carries as a bound only. What has no row here is ok.
    pub struct TrustTable, TrustRow = "trust" by "rank, capability, rule" {
        rank: Option<u32>, "", "rank; null: the job";
        capability: Text, "",
            "what a sentence rests on: device_time, idle, host, launch, steps, ranks, transfer, overlap, \
             experts, memory or work";
        grade: Text, "", "at_most (only a bound) or withheld (nothing is said)";
        rule: Text, "", "rule that found it, as in `hta explain trust`";
        measured: Text, "", "what was measured";
        allowed: Text, "", "what the rule allows";
        sentence: Text, "", "the reason in words";
        next: Text, "", "what to record next time";
    }
}

/// What to do about a file that is cut.
pub const WHOLE_FILE: &str = "get the whole file: copy it again, or let the profiler finish writing it";

/// That the files of some ranks end in the middle of their events.
pub fn cut_files(ranks: &[u32]) -> String {
    let (files, are) = if ranks.len() == 1 { ("file", "is") } else { ("files", "are") };
    format!("the {files} of {} {are} cut", ranks_named(ranks))
}

/// Why a capability of a rank, or of the job, is not carried in full.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    /// `None`: the job.
    pub rank: Option<u32>,
    pub capability: Capability,
    pub grade: Grade,
    /// Name of the rule.
    pub rule: &'static str,
    /// In words, with units.
    pub measured: String,
    /// What the rule allows.
    pub(crate) limit: String,
    /// The reason, without a capital and a full stop.
    pub sentence: String,
    /// What to record next time, as an order.
    pub next: String,
}

impl Limit {
    /// The same limit, withheld for some capabilities and a bound for others.
    pub(crate) fn withheld_or_bound(&self, withheld: &[Capability], bounds: &[Capability]) -> Vec<Limit> {
        let with = |grade, of: &[Capability]| Limit { grade, ..self.clone() }.of_all(of);
        [with(Grade::Withheld, withheld), with(Grade::AtMost, bounds)].concat()
    }

    /// The same limit, which may come from the cut of files: what is missing may stand behind it. `cut`: the
    /// ranks of those files.
    pub(crate) fn behind_cut(self, cut: &[u32]) -> Limit {
        if cut.is_empty() {
            return self;
        }
        let sentence = format!("{}: {}", cut_files(cut), self.sentence);
        Limit { sentence, next: WHOLE_FILE.to_string(), ..self }
    }

    /// Whether it may come from the cut of files.
    pub fn is_behind_cut(&self) -> bool {
        self.next == WHOLE_FILE
    }

    /// The same limit of several capabilities.
    pub(crate) fn of_all(&self, capabilities: &[Capability]) -> Vec<Limit> {
        capabilities.iter().map(|capability| Limit { capability: *capability, ..self.clone() }).collect()
    }
}

/// The table of limits, sorted.
pub(crate) fn trust_table(limits: &[Limit]) -> Batch {
    let mut sorted: Vec<&Limit> = limits.iter().collect();
    sorted.sort_by_key(|l| (l.rank, l.capability.name(), l.rule));
    let mut table = TrustTable::default();
    for l in sorted {
        table.push(TrustRow {
            rank: l.rank,
            capability: l.capability.name(),
            grade: l.grade.name(),
            rule: l.rule,
            measured: &l.measured,
            allowed: &l.limit,
            sentence: &l.sentence,
            next: &l.next,
        });
    }
    table.finish()
}
