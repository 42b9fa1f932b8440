//! What threatens the memory of a rank. Each rank leaves its threats, in words and bytes.

use crate::CauseKind;
use hta_analysis::api::{Options, Partial, rows};
use hta_analysis::memory::RankMemory;
use hta_analysis::memory::report::peaks;
use hta_analysis::memory::tables::{MemoryEventRow, MemoryEvents, MemoryPeakRow};
use hta_base::table;
use hta_base::table::schema::Text;
use hta_base::units::percent;
use hta_base::wording::names::clip;
use hta_facts::serving_mode::ServingMode;
use hta_trace::rank_trace::RankTrace;
use std::collections::BTreeMap;

/// Share of a device's memory from which on it is nearly full, percent. The rule is that of the profiler
/// plugin of TensorBoard.
const NEARLY_FULL_PCT: f64 = 90.0;
/// Largest width of a site, characters.
pub(crate) const SITE: usize = 60;

table! {
    /// What threatens the memory of a rank.
    pub(crate) struct MemoryThreats, MemoryThreatRow = "memory_threat" by "rank, kind, device_type, device" {
        rank;
        kind: Text, "", "kind of cause";
        device_type: Text, "", "type of the device";
        device: Option<i64>, "", "device index; null for host memory, and for calls, which do not record it";
        bytes: Option<i64>, "bytes",
            "what it is about: the largest failed request, growth of the median step, the peak, unused \
             memory; null for retries, whose sizes are not recorded";
        weight: i64, "",
            "orders the ranks: bytes, the share of the device in 1/1000, or the number of retries";
        site: Text, "", "line or operator; empty if none is known";
        words: Text, "", "the threat in words";
        evidence: Text, "", "the number behind it, in words";
    }
}

/// A threat, before it is a row.
pub(crate) struct Threat {
    pub(crate) device_type: String,
    pub(crate) device: Option<i64>,
    pub(crate) bytes: Option<i64>,
    pub(crate) weight: i64,
    pub(crate) site: String,
    pub(crate) words: String,
    pub(crate) evidence: String,
}

/// What threats are found in: the tables of a rank's memory.
pub(crate) struct MemoryFacts<'a> {
    pub(crate) trace: &'a RankTrace,
    pub(crate) of_rank: &'a [Partial],
    /// The peaks of the capture. Engines fill the memory with their cache on purpose, so theirs are left out.
    pub(crate) peaks: Vec<MemoryPeakRow<'a>>,
}

impl<'a> MemoryFacts<'a> {
    /// Events of one kind, by device, in order of time.
    pub(crate) fn events(&self, kind: &str) -> BTreeMap<(&'a str, Option<i64>), Vec<MemoryEventRow<'a>>> {
        let mut out: BTreeMap<(&str, Option<i64>), Vec<MemoryEventRow>> = BTreeMap::new();
        for row in rows::<MemoryEvents>(self.of_rank).filter(|r| r.kind == kind) {
            out.entry((row.device_type, row.device)).or_default().push(row);
        }
        out
    }
}

pub(crate) fn push(table: &mut MemoryThreats, trace: &RankTrace, options: &Options) {
    // Without records only calls of the driver can tell something.
    let gives_back =
        |text: &str| matches!(text, "cudaFree" | "hipFree" | "cudaFreeAsync" | "hipFreeAsync" | "cuMemUnmap");
    if trace.columns.memory.is_empty() && !trace.columns.strings.iter().any(|(_, text)| gives_back(text)) {
        return;
    }
    let of_rank = [RankMemory::of(trace, options).partial(trace)];
    let peaks = if ServingMode::of(trace).is_serving { Vec::new() } else { peaks(&of_rank) };
    let facts = MemoryFacts { trace, of_rank: &of_rank, peaks };
    let of_kind = CauseKind::all_memory().flat_map(|(kind, rule)| {
        let threats = (rule.threats)(&facts).into_iter();
        threats.map(move |threat| (kind.name(), threat))
    });
    let mut threats: Vec<(&str, Threat)> = of_kind.collect();
    threats.sort_by_key(|(kind, t)| (*kind, t.device_type.clone(), t.device));
    for (kind, t) in &threats {
        table.push(MemoryThreatRow {
            rank: trace.rank,
            kind,
            device_type: &t.device_type,
            device: t.device,
            bytes: t.bytes,
            weight: t.weight,
            site: &t.site,
            words: &t.words,
            evidence: &t.evidence,
        });
    }
}

/// A site as the end of a sentence; empty if none is known.
pub(crate) fn at_site(site: &str) -> String {
    if site.is_empty() { String::new() } else { format!(" at `{}`", clip(site, SITE)) }
}

/// Size of the device of a peak, and the share of some bytes in it, if that is nearly all, percent.
pub(crate) fn nearly_full(peak: &MemoryPeakRow, bytes: i64) -> Option<(i64, f64)> {
    let total =
        peak.device_total_bytes.filter(|total| *total > 0 && !peak.is_relative && peak.device.is_some())?;
    Some((total, percent(bytes, total).filter(|share| *share > NEARLY_FULL_PCT)?))
}
