//! HTA's loader: whole microseconds, classes by name, and the rows that HTA's analyses use.

use hashbrown::HashMap;
use hta_trace::args::Arg;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;

/// The reason why a rank has no result.
pub(super) const NO_ROWS: &str = "no GPU row";

/// A row of HTA's loaded table. Times are in whole microseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct HtaRow {
    pub(crate) id: u32,
    pub(crate) ts: i64,
    pub(crate) dur: i64,
    pub(crate) stream: i64,
    pub(crate) kind: HtaClass,
    /// Start of the launch call, if there is one.
    pub(crate) partner_ts: Option<i64>,
    /// The launch call, if there is one.
    pub(crate) partner: Option<u32>,
}

impl HtaRow {
    pub(crate) fn end(&self) -> i64 {
        self.ts + self.dur
    }
}

/// Class by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HtaClass {
    Computation,
    Communication,
    Memory,
    Other,
}

fn kind_of(name: &str) -> HtaClass {
    if name.starts_with("nccl") && name.contains("Kernel") {
        HtaClass::Communication
    } else if ["Memcpy", "Memset", "dma"].iter().any(|p| name.starts_with(p)) {
        HtaClass::Memory
    } else if name.contains("Memcpy") || name.contains("Sync") {
        HtaClass::Other
    } else {
        HtaClass::Computation
    }
}

/// Converts nanoseconds to microseconds as f64: the f64 that parsing the decimal text `1700000000123456.789`
/// gives.
///
/// HTA adds and rounds such numbers. For today's Unix times they are multiples of 0.25 us, so an exact sum
/// could round to other microseconds than HTA's.
pub(super) fn microseconds(ns: i64) -> f64 {
    // Below 2^53, both operands of the division are exact, so the result is rounded only once.
    if ns.unsigned_abs() < 1 << 53 {
        return ns as f64 / 1000.0;
    }
    let (whole, rest) = (ns.unsigned_abs() / 1000, ns.unsigned_abs() % 1000);
    let us = format!("{whole}.{rest:03}").parse().unwrap_or(whole as f64);
    if ns < 0 { -us } else { us }
}

/// A row with the values that join it to other rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct LoadedRow {
    pub(crate) row: HtaRow,
    /// Correlation id; -1 if there is none.
    pub(crate) correlation: i64,
    /// The row is on the GPU side: it has a stream and a correlation, or is named `Event Sync` or `Context
    /// Sync`.
    pub(crate) linked: bool,
    pub(crate) name: StrId,
}

/// Loads all rows as HTA does, in the order of the file, before any is left out.
pub(super) fn all_rows(trace: &RankTrace) -> Vec<LoadedRow> {
    let c = &trace.columns;
    let base = trace.meta.base_ns.unwrap_or(0);
    let usable: Vec<bool> =
        c.categories.iter().map(|k| !matches!(c.strings.get(k.text), "" | "Trace")).collect();
    let fractional = c.has_fraction;
    let (mut streams, mut correlations) = (c.args.cursor(Arg::Stream), c.args.cursor(Arg::Correlation));
    let kinds = c.strings.each(kind_of);
    let sync = ["Event Sync", "Context Sync"].map(|n| c.strings.lookup(n.as_bytes()));
    let mut quoted = c.args.quoted_ids.iter().copied().peekable();

    let mut rows: Vec<LoadedRow> = Vec::new();
    for id in 0..c.len() {
        let row = id as u32;
        let mut stream = streams.get(row).map_or(-1, |v| v as i64);
        let mut correlation = correlations.get(row).and_then(|v| i64::try_from(v).ok()).unwrap_or(-1);
        // HTA reads a number in quotes as absent. HIP writes the stream of a call in quotes, but not its
        // correlation.
        while let Some((of, arg)) = quoted.next_if(|q| q.0 <= row) {
            match arg {
                Arg::Stream if of == row => stream = -1,
                Arg::Correlation if of == row => correlation = -1,
                _ => {}
            }
        }
        if !usable.get(usize::from(c.cat[id])).copied().unwrap_or(false) {
            continue;
        }
        let (raw, dur) = (c.ts[id] - base, c.dur[id]);
        let (ts, end) = if fractional && trace.meta.base_ns.is_none() {
            let (ts, dur) = (microseconds(raw), microseconds(dur));
            (ts.ceil() as i64, (ts + dur).floor() as i64)
        } else if fractional {
            (-(-raw).div_euclid(1000), (raw + dur).div_euclid(1000))
        } else {
            (raw.div_euclid(1000), (raw + dur).div_euclid(1000))
        };
        let name = c.name(id);
        let linked = (stream >= 0 && correlation >= 0) || sync.contains(&Some(name));
        let kind = kinds.get(name).copied().unwrap_or(HtaClass::Computation);
        rows.push(LoadedRow {
            row: HtaRow { id: row, ts, dur: end - ts, stream, kind, partner_ts: None, partner: None },
            correlation,
            linked,
            name,
        });
    }

    // Find the host row with the same correlation; if there are several, the last one in the file.
    let mut hosts: HashMap<i64, (i64, u32)> = HashMap::new();
    for r in rows.iter().filter(|r| !r.linked && r.correlation != -1) {
        hosts.insert(r.correlation, (r.row.ts, r.row.id));
    }
    for r in rows.iter_mut().filter(|r| r.linked && r.correlation != -1) {
        (r.row.partner_ts, r.row.partner) = hosts.get(&r.correlation).copied().unzip();
    }
    rows
}

/// The GPU rows (rows with a stream) that HTA's analyses use, in the order of the file.
pub(super) fn load(trace: &RankTrace) -> Vec<HtaRow> {
    load_all(trace).into_iter().map(|r| r.row).filter(|r| r.stream != -1).collect()
}

/// All rows that HTA's analyses use, in the order of the file.
pub(super) fn load_all(trace: &RankTrace) -> Vec<LoadedRow> {
    let mut rows = all_rows(trace);
    let is_step = trace.columns.strings.each(|t| t.contains("ProfilerStep"));
    // With two steps or more, HTA drops the rows that start with the last step or later, and the rows that
    // they launched.
    let named_step = |r: &&LoadedRow| is_step.holds(r.name);
    let mut steps: Vec<StrId> = rows.iter().filter(named_step).map(|r| r.name).collect();
    steps.sort_unstable();
    steps.dedup();
    if steps.len() >= 2 {
        let last =
            rows.iter().filter(|r| !r.linked).filter(named_step).map(|r| r.row.ts).max().unwrap_or(i64::MIN);
        let mut kept: HashMap<i64, usize> = HashMap::new();
        for r in rows.iter().filter(|r| !r.linked && r.row.ts < last) {
            *kept.entry(r.correlation).or_default() += 1;
        }
        rows = rows
            .into_iter()
            .flat_map(|r| {
                let times = if r.linked {
                    kept.get(&r.correlation).copied().unwrap_or(0)
                } else {
                    usize::from(r.row.ts < last)
                };
                std::iter::repeat_n(r, times)
            })
            .collect();
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn microseconds_are_the_nearest_f64_of_their_decimal_text() {
        // Here f64 values are 0.25 us apart: .123 is read as .0 or .25, and dividing the rounded nanoseconds
        // may give another result.
        assert_eq!(microseconds(1_700_000_000_123_456_123), 1_700_000_000_123_456.0);
        assert_eq!(microseconds(1_700_000_000_123_456_126), 1_700_000_000_123_456.0 + 0.25);
        assert_eq!(microseconds(-1_700_000_000_123_456_126), -1_700_000_000_123_456.0 - 0.25);
        for ns in (0..4_000).map(|i| 1_712_345_678_901_234_000 + i) {
            let text = format!("{}.{:03}", ns / 1000, ns % 1000);
            assert_eq!(microseconds(ns), text.parse::<f64>().unwrap(), "{text}");
        }
        assert_eq!(microseconds(1_234_567), 1_234.567);
    }

    #[test]
    fn classes_are_told_by_the_start_of_the_name() {
        assert_eq!(kind_of("ncclKernel_AllReduce_RING_LL_Sum_float(...)"), HtaClass::Communication);
        assert_eq!(kind_of("ncclDevKernel_AllReduce"), HtaClass::Communication);
        assert_eq!(kind_of("Memcpy HtoD (Pageable -> Device)"), HtaClass::Memory);
        assert_eq!(kind_of("Stream Sync"), HtaClass::Other);
        assert_eq!(kind_of("multimem_all_reduce"), HtaClass::Computation);
    }
}
