//! Checks that a file contains what analyses need: operators, calls and activities, recognized by category.
//!
//! Other profilers write Chrome traces, too. Their rows can be listed in `events`, but an analysis would
//! count all their time as idle or unexplained. So a file in which most rows have unknown categories is not
//! analysed.

use crate::category::Class;
use crate::launch::is_launch_call;
use crate::rank_trace::RankTrace;
use crate::recorders::{ASCEND, PIPELINE};
use crate::strings::StrId;
use hta_base::health::Counter;
use hta_base::units::fmt_count;
use std::collections::{BTreeMap, BTreeSet};

/// Largest number of categories named in the message.
const SHOWN: usize = 4;

/// What a file contains instead, if more than half of its rows have an unknown category.
pub fn unknown_content(trace: &RankTrace) -> Option<String> {
    let c = &trace.columns;
    let category =
        |row: usize| c.categories.get(usize::from(c.cat[row])).map_or(StrId::EMPTY, |category| category.text);
    // Early profilers of PyTorch wrote operators without a category.
    let is_operator =
        |row: usize| category(row) == StrId::EMPTY && trace.name(row as u32).starts_with("aten::");
    let rows_unknown = || {
        let all = trace.classes.iter().enumerate().filter(|(_, class)| **class == Class::Unknown);
        all.map(|(row, _)| row).filter(|row| !is_operator(*row))
    };
    let unknown = rows_unknown().count() as u64;
    // Rows left out by `--skip` have a known category.
    let rows = trace.classes.len() as u64 + trace.health.count(Counter::NotLoaded);
    if unknown * 2 <= rows {
        return None;
    }
    let mut counts: BTreeMap<StrId, u64> = BTreeMap::new();
    for row in rows_unknown() {
        *counts.entry(category(row)).or_default() += 1;
    }
    let mut counts: Vec<(u64, &str)> =
        counts.into_iter().map(|(text, count)| (count, c.strings.get(text))).collect();
    counts.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
    let has = |category: &str| counts.iter().any(|(_, text)| *text == category);
    let format = if has("enqueue") && has("dequeue") {
        ASCEND.what
    } else if has("forward-compute") || has("backward-compute") {
        PIPELINE.what
    } else if c.name.iter().any(|name| c.strings.get(StrId(*name)).ends_with(" Cmpt Exec")) {
        "an IBM AIU profile"
    } else {
        "another kind of trace"
    };
    let name =
        |(_, text): &(u64, &str)| if text.is_empty() { "none".to_string() } else { format!("`{text}`") };
    let mut names: Vec<String> = counts.iter().take(SHOWN).map(name).collect();
    if counts.len() > SHOWN {
        names.push("...".to_string());
    }
    Some(format!(
        "{format}: {} of {} rows have categories that hta does not know ({})",
        fmt_count(unknown),
        fmt_count(rows),
        names.join(", ")
    ))
}

/// Parts of a server that take requests and texts, and those that compute, in the names of Python frames.
const FRONT: [&str; 4] = ["tokenizer_manager", "http_server", "api_server", "async_llm"];
const WORKERS: [&str; 3] = ["model_runner", "worker", "model_executor"];

/// Whether the process has Python frames, but neither operators, calls nor activities, and does not say which
/// rank it is: the front end of an inference engine, which only schedules requests of the processes with the
/// GPUs. That of a known server may use operators, for example to pack inputs.
pub fn is_front_end(trace: &RankTrace) -> bool {
    let meta = &trace.meta;
    let is_rank = meta.rank.is_some() || meta.world_size.is_some() || meta.backend.is_some();
    if is_rank || !trace.activities.is_empty() || !trace.classes.contains(&Class::Python) {
        return false;
    }
    !trace.classes.iter().any(|class: &Class| class.is_host() && *class != Class::Python)
        || is_front_of_server(trace)
}

fn is_front_of_server(trace: &RankTrace) -> bool {
    let c = &trace.columns;
    let (mut is_front, mut is_other) = (false, false);
    let names: BTreeSet<(Class, StrId)> =
        trace.classes.iter().enumerate().map(|(row, class)| (*class, c.name(row))).collect();
    for (class, name) in names {
        let text = c.strings.get(name);
        match class {
            Class::Python => {
                is_front |= FRONT.iter().any(|part| text.contains(part));
                is_other |= WORKERS.iter().any(|part| text.contains(part));
            }
            Class::Runtime => is_other |= is_launch_call(text),
            _ => {}
        }
    }
    is_front && !is_other
}

/// What little a file holds in which nothing was recorded: calls of a runtime that launch nothing.
pub fn nothing_recorded(trace: &RankTrace) -> Option<String> {
    let c = &trace.columns;
    let is_idle_call = |row: usize| !is_launch_call(c.strings.get(c.name(row)));
    let mut calls = 0u64;
    for (row, class) in trace.classes.iter().enumerate() {
        match class {
            Class::Runtime if is_idle_call(row) => calls += 1,
            Class::Noise | Class::Overhead => {}
            _ => return None,
        }
    }
    let is_empty = calls > 0 && c.recorded.memory.is_empty() && trace.health.count(Counter::NotLoaded) == 0;
    is_empty.then(|| format!("runtime calls: {}; no operator and no activity", fmt_count(calls)))
}
