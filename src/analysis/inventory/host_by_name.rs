//! The table `host_by_name`: what the host did, by name and step. With `kernels_by_name` it says of what a
//! step consists, so that two runs can be compared by their results alone.

use crate::api::{Options, RowEmitter};
use hta_base::table;
use hta_base::table::schema::{Table, Text};
use hta_base::units::Ns;
use hta_facts::by_owner::ByOwner;
use hta_facts::step_scopes::StepScopes;
use hta_trace::category::Class;
use hta_trace::rank_trace::RankTrace;
use hta_trace::step::StepRule;
use hta_trace::strings::StrId;
use std::collections::BTreeSet;

table! {
    /// Host events by class and name: operators, runtime calls, annotations, Python frames, collectives. The
    /// annotations of the steps themselves are left out.
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
    let has_steps = trace.steps.rule != StepRule::Capture;
    // A step's own annotation is left out: it is the step itself, and its name contains a number.
    let marks: BTreeSet<StrId> = trace.steps.steps.iter().filter(|_| has_steps).map(|s| s.name).collect();
    let scopes = StepScopes::of_marked_steps(trace, &options.model);
    let mut sums: ByOwner<(Class, StrId), EventSums> = ByOwner::default();
    for (row, class) in trace.classes.iter().enumerate().filter(|(_, k)| k.is_host()) {
        let name = c.name(row);
        if *class == Class::Annotation && marks.contains(&name) {
            continue;
        }
        let own = trace.stacks.self_ns(row as u32).unwrap_or(c.dur[row]);
        sums.charge(scopes.of(trace.steps.at(c.ts[row])), (*class, name), |sum| {
            sum.count += 1;
            sum.ns += c.dur[row];
            sum.own += own;
        });
    }
    // By text, so that the rows do not depend on ids in the file.
    let row = |(window, (class, name), sum): (usize, (Class, StrId), EventSums)| {
        ((class.name(), trace.text(name)), window, sum)
    };
    let mut order: Vec<((&str, &str), usize, EventSums)> = sums.into_rows().map(row).collect();
    order.sort_unstable_by_key(|(key, window, _)| (*key, *window));
    let mut table = HostByName::default();
    for ((class, name), window, sum) in order {
        let w = &scopes.windows()[window];
        table.push(HostByNameRow {
            rank: trace.rank,
            scope: w.scope.name(),
            step: w.step,
            step_label: w.label,
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
