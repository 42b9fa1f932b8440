//! A rank's rows as HTA's straggler heuristic reads them: all events, kept only with `--compat hta`.

use crate::trace::args::Arg;
use crate::trace::rank_trace::RankTrace;
use crate::trace::strings::{Interner, StrId};
use crate::units::Ns;

/// One event.
#[derive(Debug, Clone, Copy)]
pub struct HtaRow {
    pub id: u32,
    pub name: StrId,
    /// As in the file: without its base time, ns.
    pub ts: Ns,
    pub dur: Ns,
    pub stream: i64,
    pub correlation: i64,
}

/// All events of a rank.
#[derive(Debug, Clone, Default)]
pub struct HtaRows {
    pub fractional: bool,
    pub rows: Vec<HtaRow>,
}

/// Rows of complete events with a category other than `Trace`, in the order of the file. Quoted ids read as absent.
pub fn rows(trace: &RankTrace, names: &mut Interner) -> HtaRows {
    let c = &trace.columns;
    let base = trace.meta.base_ns.unwrap_or(0);
    let quoted: std::collections::HashSet<(u32, Arg)> = c.args.quoted_ids.iter().copied().collect();
    let (mut stream, mut correlation) = (c.args.cursor(Arg::Stream), c.args.cursor(Arg::Correlation));
    let rows = (0..c.len()).filter_map(|row| {
        let id = row as u32;
        let (stream, correlation) = (stream.get(id), correlation.get(id));
        let category = c.categories.get(usize::from(c.cat[row])).map_or("", |k| c.strings.get(k.text));
        if category.is_empty() || category == "Trace" {
            return None;
        }
        let number = |v: Option<u64>, arg| v.filter(|_| !quoted.contains(&(id, arg))).map_or(-1, |v| v as i64);
        Some(HtaRow {
            id,
            name: names.intern(trace.text(c.name[row])),
            ts: c.ts[row] - base,
            dur: c.dur.at(row),
            stream: number(stream, Arg::Stream),
            correlation: number(correlation, Arg::Correlation),
        })
    });
    HtaRows { fractional: c.has_fraction, rows: rows.collect() }
}
