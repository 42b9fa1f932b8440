//! The table `host_by_name`: what the host did, by name and step. With `kernels_by_name` it says of what a step consists,
//! so that two runs can be compared by their results alone.

use crate::api::{Options, RowEmitter};
use hashbrown::HashMap;
use hta_base::table;
use hta_base::table::schema::{Table, Text};
use hta_base::units::Ns;
use hta_trace::category::Class;
use hta_trace::rank_trace::RankTrace;
use hta_trace::step::StepRule;
use hta_trace::strings::StrId;
use std::collections::BTreeSet;

table! {
    /// Host events by class and name: operators, runtime calls, annotations, Python frames, collectives. The annotations of the steps themselves are left out.
    pub struct HostByName, HostByNameRow = "host_by_name" by "rank, class, name, scope, step" {
        rank;
        scope: Text, "", "capture: all; step: those that start in it";
        step; step_label;
        class: Text, "", "operator, runtime_call, annotation, python, collective";
        name: Text, "", "full name";
        count: u64, "", "events";
        host_ns: i64, "ns", "sum of durations, with what the events enclose";
        host_self_ns: i64, "ns", "the same without enclosed events of the same call tree";
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct EventSums {
    count: u64,
    ns: Ns,
    own: Ns,
}

/// Emits the rows of a rank.
pub(crate) fn rows(trace: &RankTrace, options: &Options, give: &mut RowEmitter) {
    if !options.wants(HostByName::SPEC) {
        return;
    }
    let c = &trace.columns;
    let steps = if trace.steps.rule == StepRule::Capture { &[][..] } else { &trace.steps.steps[..] };
    // A step's own annotation is left out: it is the step itself, and its name contains a number.
    let marks: BTreeSet<StrId> = steps.iter().map(|s| s.name).collect();
    let chosen = |s| options.model.steps.as_ref().is_none_or(|f| f.keeps(s, steps[s as usize].label));
    let kept: Vec<bool> = (0..steps.len() as u32).map(chosen).collect();
    let mut keys: HashMap<(Class, StrId), u32> = HashMap::new();
    let mut names: Vec<(Class, StrId)> = Vec::new();
    let mut sums: HashMap<(u32, Option<u32>), EventSums> = HashMap::new();
    for (row, class) in trace.classes.iter().enumerate().filter(|(_, k)| k.is_host()) {
        let name = c.name(row);
        if *class == Class::Annotation && marks.contains(&name) {
            continue;
        }
        let key = *keys.entry((*class, name)).or_insert_with(|| {
            names.push((*class, name));
            (names.len() - 1) as u32
        });
        let step = trace.steps.at(c.ts[row]).filter(|s| kept.get(*s as usize) == Some(&true));
        for scope in [Some(None), step.map(Some)].into_iter().flatten() {
            let sum = sums.entry((key, scope)).or_default();
            sum.count += 1;
            sum.ns += c.dur[row];
            sum.own += trace.stacks.self_ns(row as u32).unwrap_or(c.dur[row]);
        }
    }
    // By text, so that the rows do not depend on ids in the file.
    let mut order: Vec<((&str, &str), Option<u32>, EventSums)> = sums
        .into_iter()
        .map(|((key, step), sum)| {
            let (class, name) = names[key as usize];
            ((class.name(), trace.text(name)), step, sum)
        })
        .collect();
    order.sort_unstable_by_key(|(key, step, _)| (*key, *step));
    let mut table = HostByName::default();
    for ((class, name), step, sum) in order {
        table.push(HostByNameRow {
            rank: trace.rank,
            scope: if step.is_some() { "step" } else { "capture" },
            step,
            step_label: step.and_then(|s| steps.get(s as usize)?.label),
            class,
            name,
            count: sum.count,
            host_ns: sum.ns,
            host_self_ns: sum.own,
        });
        table.give_piece(give);
    }
    give(table.finish());
}
