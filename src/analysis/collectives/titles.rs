//! Collectives by the titles that `dist.record_comm` gave them.

use crate::api::{Align, View};
use crate::collectives::GroupSelection;
use crate::collectives::tables::{CollectiveTitleRow, CollectiveTitles};
use crate::job::end_together::{KernelEndTogetherRow, KernelsEndTogether};
use crate::job::{Job, Member};
use hta_base::table::schema::{Batch, Table};
use hta_base::units::{Ns, fmt_count, fmt_ns, fmt_pct, percent};
use hta_base::wording::counts::plural;
use hta_base::wording::names::in_sentence;
use hta_trace::collective::CollectiveKind;
use hta_trace::step::mask;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
struct TitleSums<'a> {
    texts: BTreeSet<&'a str>,
    calls: u64,
    dur: Ns,
    wait: Option<Ns>,
    /// Length of the calls whose waiting is known, ns.
    divided_dur: Ns,
}

pub(super) fn title_table(job: &Job, shown: &GroupSelection) -> Batch {
    let mut sums: BTreeMap<(String, CollectiveKind), TitleSums> = BTreeMap::new();
    for (part, p) in (0u32..).zip(&job.parts) {
        for (call, c) in (0u32..).zip(&p.calls.calls) {
            let Some(title) = p.calls.title(c) else { continue };
            let member = Member { part, call };
            let instance = job.instance_of(member).and_then(|id| job.instances().get(id as usize));
            let group = instance.map(|i| i.group).or_else(|| job.matched.group_of(part, c.shape.group));
            if !group.map_or(shown.has_groupless(), |g| shown.has(g)) {
                continue;
            }
            let sum = sums.entry((mask(title), c.shape.kind)).or_default();
            sum.texts.insert(title);
            sum.calls += 1;
            sum.dur += c.span.len();
            if let Some(outcome) = job.told_wait(member) {
                *sum.wait.get_or_insert(0) += outcome.wait;
                sum.divided_dur += c.span.len();
            }
        }
    }
    let mut table = CollectiveTitles::default();
    for ((title, kind), sum) in &sums {
        table.push(CollectiveTitleRow {
            title,
            kind: kind.name(),
            text_count: sum.texts.len() as u64,
            count: sum.calls,
            dur_sum_ns: sum.dur,
            wait_sum_ns: sum.wait,
            transfer_sum_ns: sum.wait.map(|wait| sum.divided_dur - wait),
            unmatched_sum_ns: sum.dur - sum.divided_dur,
        });
    }
    table.finish()
}

/// Kernels that behave like exchanges, by time.
pub(super) fn ends_together_view(together: &Batch, top: usize) -> View {
    let rows: Vec<KernelEndTogetherRow> = KernelsEndTogether::rows(together).collect();
    let cells = |r: &KernelEndTogetherRow| {
        vec![
            in_sentence(r.name).to_string(),
            fmt_count(r.instance_count),
            fmt_ns(r.start_apart_ns),
            fmt_ns(r.end_apart_ns),
            fmt_ns(r.sum_ns),
        ]
    };
    let note = "they start apart and end together, as exchanges do, and count as compute: `--rules FILE` \
                names exchanges";
    let more = rows.len().saturating_sub(top);
    let more = (more > 0).then(|| format!("{}, with less time, in the table", plural(more, "more kernel")));
    View {
        title: "Kernels that behave like exchanges".to_string(),
        columns: vec![
            ("kernel", Align::Left),
            ("runs", Align::Right),
            ("starts apart", Align::Right),
            ("ends apart", Align::Right),
            ("time", Align::Right),
        ],
        rows: rows.iter().take(top).map(cells).collect(),
        notes: (!rows.is_empty()).then(|| note.to_string()).into_iter().chain(more).collect(),
    }
}

/// The titles with most time.
pub(super) fn title_view(titles: &Batch, top: usize) -> View {
    let mut rows: Vec<CollectiveTitleRow> = CollectiveTitles::rows(titles).collect();
    rows.sort_by_key(|r| Reverse(r.dur_sum_ns));
    let mut view = View {
        title: "Collectives by title".to_string(),
        columns: vec![
            ("title", Align::Left),
            ("kind", Align::Left),
            ("calls", Align::Right),
            ("time", Align::Right),
            ("waiting", Align::Right),
        ],
        rows: Vec::new(),
        notes: Vec::new(),
    };
    for r in rows.iter().take(top) {
        let divided = r.dur_sum_ns - r.unmatched_sum_ns;
        view.rows.push(vec![
            r.title.to_string(),
            r.kind.to_string(),
            fmt_count(r.count),
            fmt_ns(r.dur_sum_ns),
            fmt_pct(r.wait_sum_ns.and_then(|wait| percent(wait, divided))),
        ]);
    }
    if rows.len() > top {
        view.notes.push(format!("{}, with less time, in the table", plural(rows.len() - top, "more title")));
    }
    view
}
