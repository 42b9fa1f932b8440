//! The printed tables: lines summed over ranks, and the lines that differ most between ranks.

use crate::api::{Align, Options, Partial, View};
use crate::lines::key::{LineKey, shown};
use crate::lines::observations::{LineSpread, differing};
use crate::lines::tables::{LineOverRanksRow, LineTotals, LinesOverRanks};
use crate::lines::{BY, SORT};
use crate::population::reasons;
use crate::sums::more;
use hta_base::table::schema::{Batch, Table};
use hta_base::units::{Ns, fmt_bytes, fmt_count, fmt_ns, fmt_pct, percent};
use hta_base::wording::counts::plural;
use std::cmp::Reverse;

/// The lines of the printed scope.
pub(crate) fn printed<'a>(lines: &'a Batch, options: &Options) -> impl Iterator<Item = LineOverRanksRow<'a>> {
    let scope = options.printed_scope("capture");
    LinesOverRanks::rows(lines).filter(move |r| r.scope == scope)
}

/// GPU time, with that of the backward pass.
pub(crate) fn gpu_ns(r: &LineOverRanksRow) -> Ns {
    r.gpu_sum_ns + r.bwd_gpu_sum_ns.unwrap_or(0)
}

pub(crate) fn views(partials: &[Partial], lines: &Batch, options: &Options) -> Vec<View> {
    let mut views = vec![line_view(partials, lines, options)];
    views.extend(spread(partials, options));
    views
}

fn line_view(partials: &[Partial], lines: &Batch, options: &Options) -> View {
    let mut rows: Vec<LineOverRanksRow> = printed(lines, options).collect();
    let sort = options.settings.text(&SORT).unwrap_or("self");
    let value = |r: &LineOverRanksRow| match sort {
        "total" => r.host_total_ns,
        "gpu" => gpu_ns(r),
        "blocked" => r.blocked_ns,
        "alloc" => r.alloc_bytes.unwrap_or(0),
        _ => r.host_self_ns,
    };
    rows.sort_by_key(|r| {
        (r.is_idle_thread, Reverse(value(r)), Reverse(r.host_self_ns), LineKey::over_ranks(r))
    });
    let has = |of: fn(&LineOverRanksRow) -> i64| rows.iter().any(|r| of(r) != 0);
    let has_gpu = has(gpu_ns);
    // Places are long, so numbers of the GPU take the place of some of the host.
    let columns = [
        ("self", true),
        ("share", !has_gpu),
        ("native", !has_gpu),
        ("total", !has_gpu || sort == "total"),
        ("GPU", has_gpu),
        ("GPU bwd", has(|r| r.bwd_gpu_sum_ns.unwrap_or(0))),
        ("blocked", has(|r| r.blocked_ns)),
        ("allocated", sort == "alloc"),
        ("calls", true),
    ];
    let all: Ns = rows.iter().filter(|r| !r.is_idle_thread).map(|r| r.host_self_ns).sum();
    let by = options.settings.text(&BY).unwrap_or("line");
    let mut view = View {
        title: format!("Host time by {by}, {}", plural(partials.len(), "rank")),
        columns: vec![(heading(by), Align::Left)],
        rows: Vec::new(),
        notes: reasons(partials),
    };
    view.columns.extend(columns.iter().filter(|c| c.1).map(|c| (c.0, Align::Right)));
    let time = |ns: Ns| if ns == 0 { "-".to_string() } else { fmt_ns(ns) };
    for r in rows.iter().take(options.top) {
        let (mark, share) = match r.is_idle_thread {
            true => (" (idle)", "-".to_string()),
            false => ("", fmt_pct(percent(r.host_self_ns, all))),
        };
        let values = [
            fmt_ns(r.host_self_ns),
            share,
            time(r.native_ns),
            time(r.host_total_ns),
            time(r.gpu_sum_ns),
            time(r.bwd_gpu_sum_ns.unwrap_or(0)),
            time(r.blocked_ns),
            fmt_bytes(r.alloc_bytes.unwrap_or(0).max(0) as u64),
            if r.calls == 0 { "-".to_string() } else { fmt_count(r.calls) },
        ];
        let mut cells = vec![format!("{}{mark}", shown(&LineKey::over_ranks(r).text()))];
        cells.extend(columns.iter().zip(values).filter(|(c, _)| c.1).map(|(_, v)| v));
        view.rows.push(cells);
    }
    view.notes.extend(more(rows.len().saturating_sub(options.top), "row"));
    let without: Vec<u32> =
        crate::api::rows::<LineTotals>(partials).filter(|t| !t.has_lines).map(|t| t.rank).collect();
    if by == "line" && !without.is_empty() {
        view.notes.push(
            "the lines of calls are not recorded: rows are functions, with the line of their definition"
                .to_string(),
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
