//! The printed tables: lines summed over ranks, and the lines that differ most between ranks.

use crate::api::{Align, Options, Partial, View, rows};
use crate::lines::key::{LineKey, shown};
use crate::lines::observations::{LineSpread, differing};
use crate::lines::tables::{LineTotals, LinesTable};
use crate::lines::{BY, SORT};
use crate::population::reasons;
use crate::sums::more;
use hta_base::units::{Ns, fmt_bytes, fmt_count, fmt_ns, fmt_pct, percent};
use hta_base::wording::counts::plural;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A line, summed over ranks.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LineTotal {
    pub(crate) host_self: Ns,
    pub(crate) host_total: Ns,
    pub(crate) native: Ns,
    pub(crate) blocked: Ns,
    pub(crate) gpu: Ns,
    pub(crate) bwd_gpu: Ns,
    pub(crate) alloc: i64,
    pub(crate) calls: u64,
}

/// The lines of all ranks in the printed scope, by whether their threads are idle.
pub(crate) fn summed<'a>(partials: &'a [Partial], options: &Options) -> BTreeMap<(bool, LineKey<'a>), LineTotal> {
    let scope = options.printed_scope("capture");
    let mut totals: BTreeMap<(bool, LineKey), LineTotal> = BTreeMap::new();
    for r in rows::<LinesTable>(partials).filter(|r| r.scope == scope) {
        let t = totals.entry((r.is_idle_thread, LineKey::new(&r))).or_default();
        t.host_self += r.host_self_ns;
        t.host_total += r.host_total_ns;
        t.native += r.native_ns;
        t.blocked += r.blocked_ns;
        t.gpu += r.gpu_sum_ns;
        t.bwd_gpu += r.bwd_gpu_sum_ns.unwrap_or(0);
        t.alloc = t.alloc.saturating_add(r.alloc_bytes.unwrap_or(0));
        t.calls += r.calls;
    }
    totals
}

pub(crate) fn views(partials: &[Partial], options: &Options) -> Vec<View> {
    let mut views = vec![lines(partials, options)];
    views.extend(spread(partials, options));
    views
}

fn lines(partials: &[Partial], options: &Options) -> View {
    let totals = summed(partials, options);
    let mut rows: Vec<(&(bool, LineKey), &LineTotal)> = totals.iter().collect();
    let sort = options.settings.text(&SORT).unwrap_or("self");
    let value = |t: &LineTotal| match sort {
        "total" => t.host_total,
        "gpu" => t.gpu + t.bwd_gpu,
        "blocked" => t.blocked,
        "alloc" => t.alloc,
        _ => t.host_self,
    };
    // Stable: equal rows stay in order of their keys.
    rows.sort_by_key(|((idle, _), t)| (*idle, Reverse(value(t)), Reverse(t.host_self)));
    let has = |of: fn(&LineTotal) -> i64| rows.iter().any(|(_, t)| of(t) != 0);
    let has_gpu = has(|t| t.gpu + t.bwd_gpu);
    // Places are long, so numbers of the GPU take the place of some of the host.
    let columns = [
        ("self", true),
        ("share", !has_gpu),
        ("native", !has_gpu),
        ("total", !has_gpu || sort == "total"),
        ("GPU", has_gpu),
        ("GPU bwd", has(|t| t.bwd_gpu)),
        ("blocked", has(|t| t.blocked)),
        ("allocated", sort == "alloc"),
        ("calls", true),
    ];
    let all: Ns = rows.iter().filter(|((idle, _), _)| !idle).map(|(_, t)| t.host_self).sum();
    let by = options.settings.text(&BY).unwrap_or("line");
    let mut view = View {
        title: format!("Host time by {by}, {}", plural(partials.len(), "rank")),
        columns: vec![(heading(by), Align::Left)],
        rows: Vec::new(),
        notes: reasons(partials),
    };
    view.columns.extend(columns.iter().filter(|c| c.1).map(|c| (c.0, Align::Right)));
    let time = |ns: Ns| if ns == 0 { "-".to_string() } else { fmt_ns(ns) };
    for ((idle, key), t) in rows.iter().take(options.top) {
        let (mark, share) = match *idle {
            true => (" (idle)", "-".to_string()),
            false => ("", fmt_pct(percent(t.host_self, all))),
        };
        let values = [
            fmt_ns(t.host_self),
            share,
            time(t.native),
            time(t.host_total),
            time(t.gpu),
            time(t.bwd_gpu),
            time(t.blocked),
            fmt_bytes(t.alloc.max(0) as u64),
            if t.calls == 0 { "-".to_string() } else { fmt_count(t.calls) },
        ];
        let mut cells = vec![format!("{}{mark}", shown(&key.text()))];
        cells.extend(columns.iter().zip(values).filter(|(c, _)| c.1).map(|(_, v)| v));
        view.rows.push(cells);
    }
    view.notes.extend(more(rows.len().saturating_sub(options.top), "row"));
    let without: Vec<u32> = self::rows::<LineTotals>(partials).filter(|t| !t.has_lines).map(|t| t.rank).collect();
    if by == "line" && !without.is_empty() {
        view.notes.push(
            "the lines of calls are not recorded: rows are functions, with the line of their definition".to_string(),
        );
    }
    view
}

fn heading(by: &str) -> &'static str {
    match by {
        "function" => "function",
        "file" => "file",
        "module" => "module",
        _ => "line",
    }
}

/// The lines that differ most between ranks.
fn spread(partials: &[Partial], options: &Options) -> Option<View> {
    let all = differing(partials);
    if all.is_empty() {
        return None;
    }
    let cells = |s: &LineSpread| {
        vec![
            shown(&s.key.text()),
            s.rank.to_string(),
            fmt_ns(s.own),
            fmt_ns(s.median),
            fmt_ns(s.spread),
            fmt_pct(Some(s.share)),
        ]
    };
    Some(View {
        title: "Lines that differ between ranks, per step".to_string(),
        columns: vec![
            ("line", Align::Left),
            ("rank", Align::Right),
            ("self", Align::Right),
            ("median", Align::Right),
            ("most - least", Align::Right),
            ("of the step", Align::Right),
        ],
        rows: all.iter().take(options.top.min(5)).map(cells).collect(),
        notes: Vec::new(),
    })
}
