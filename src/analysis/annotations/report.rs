//! Reduces the annotations of all ranks to the printed table.

use crate::annotations::UserAnnotations;
use crate::api::{Align, Options, Output, Partial, View};
use crate::population::reasons;
use hta_base::units::{Ns, fmt_count, fmt_ns};
use hta_base::wording::counts::plural;
use std::cmp::Reverse;
use std::collections::BTreeMap;

pub fn reduce(partials: &[Partial], options: &Options) -> Output {
    Output {
        tables: partials.iter().filter_map(|p| p.table(UserAnnotations::SPEC).cloned()).collect(),
        // No observations: a range alone is not a loss. What the GPU waits for inside it is an observation of
        // `idle`.
        observations: Vec::new(),
        views: vec![view(partials, options)],
        ..Output::default()
    }
}

/// One annotation, summed over all ranks and devices.
#[derive(Default)]
struct AnnotationTotal {
    ranges: u64,
    sum: Ns,
    working: Option<Ns>,
    gpu: Ns,
    own: Ns,
    busy: Ns,
}

fn view(partials: &[Partial], options: &Options) -> View {
    let mut totals: BTreeMap<(&str, &str), AnnotationTotal> = BTreeMap::new();
    let mut marks = 0;
    let scope = options.printed_scope("capture");
    for p in partials {
        let first = p.rows::<UserAnnotations>().next().and_then(|r| r.device);
        for row in p.rows::<UserAnnotations>().filter(|r| r.scope == scope) {
            if row.is_step {
                marks += 1;
                continue;
            }
            let t = totals.entry((row.name, row.side)).or_default();
            // Ranges on threads are repeated for each device of the rank.
            if row.side != "host" || row.device == first {
                t.ranges += row.range_count;
                t.sum += row.range_sum_ns;
                if let Some(ns) = row.working_ns {
                    *t.working.get_or_insert(0) += ns;
                }
            }
            t.gpu += row.gpu_ns;
            t.own += row.gpu_self_ns;
            t.busy += row.busy_ns;
        }
    }
    let mut order: Vec<((&str, &str), AnnotationTotal)> = totals.into_iter().collect();
    // Ranges drawn on the device repeat those of the host, except where they own activities.
    let repeats = |side: &str, t: &AnnotationTotal| side == "gpu" && t.gpu == 0;
    let drawn = order.iter().filter(|((_, side), t)| repeats(side, t)).count();
    order.retain(|((_, side), t)| !repeats(side, t) && (t.ranges > 0 || t.gpu > 0));
    order.sort_by_key(|(key, t)| (Reverse(t.gpu), Reverse(t.sum), *key));
    let mut notes = reasons(partials);
    if order.len() > options.top {
        notes.push(format!("{} in the table", plural(order.len() - options.top, "more annotation")));
    }
    let elsewhere = match (marks > 0, drawn > 0) {
        (true, true) => "step marks, and ranges drawn on the device, are in the table only",
        (true, false) => "step marks are in the table only",
        (false, true) => "ranges drawn on the device are in the table only",
        (false, false) => "",
    };
    notes.extend((!elsewhere.is_empty()).then(|| elsewhere.to_string()));
    let line = |((name, side), t): &((&str, &str), AnnotationTotal)| {
        let range = |ns: Ns| if t.ranges > 0 { fmt_ns(ns) } else { "-".to_string() };
        vec![
            match *side {
                "gpu" => format!("{name} (drawn)"),
                "graph" => format!("{name} (graph)"),
                _ => (*name).to_string(),
            },
            if t.ranges > 0 { fmt_count(t.ranges) } else { "-".to_string() },
            range(t.sum / (t.ranges as i64).max(1)),
            t.working.map_or_else(|| "-".to_string(), fmt_ns),
            fmt_ns(t.gpu),
            fmt_ns(t.own),
            fmt_ns(t.busy),
        ]
    };
    View {
        title: "Annotations".to_string(),
        columns: vec![
            ("annotation", Align::Left),
            ("ranges", Align::Right),
            ("mean", Align::Right),
            ("working", Align::Right),
            ("GPU sum", Align::Right),
            ("GPU self", Align::Right),
            ("GPU busy", Align::Right),
        ],
        rows: order.iter().take(options.top).map(line).collect(),
        notes,
    }
}
