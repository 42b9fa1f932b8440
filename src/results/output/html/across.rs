//! Sections that compare ranks: stragglers, bandwidth of collectives, and the estimated gain of repairs.

use crate::output::html::axis::{PageAxis, PageStep};
use crate::output::html::grid::{Section, missing};
use crate::output::html::heat::{Heat, SIDE};
use crate::output::html::texts::Texts;
use crate::results::{Results, ResultsError, columns};
use hta_analysis::collectives::tables::CollectiveSummaries;
use hta_analysis::stragglers::tables::Delays;
use hta_base::table;
use hta_base::table::schema::Text;
use std::collections::BTreeSet;

columns! {
    Delay of Delays {
        rank, step, step_label, process_group: Option<Text>, gain_ns: i64, excess_ns: i64, imposed_wait_ns: i64,
        wait_ns: i64,
    }
}

columns! {
    Collective of CollectiveSummaries { count: u64 }
}

table! {
    /// How late ranks come.
    struct MapDelays, MapDelayRow = "straggler_delays" by "gain_ns" {
        gain_ns: i64, "ns",
            "how much later it arrived than the second last: what fixing it alone would save";
        excess_ns: i64, "ns", "how much longer than the median of the others it worked";
        imposed_wait_ns: i64, "ns", "waiting of the other members where it came last", "others wait";
        wait_ns: i64, "ns", "its own waiting", "waits itself";
    }
}

/// The section on stragglers.
///
/// # Errors
/// When a table is damaged.
pub(crate) fn stragglers(
    results: &Results,
    ranks: usize,
    texts: &mut Texts,
) -> Result<Section, ResultsError> {
    let (mut all_ranks, mut all_steps) = (BTreeSet::new(), BTreeSet::new());
    let there = results.read::<Delay>(|r| {
        all_ranks.insert(r.rank);
        all_steps.extend(PageStep::new(r.step, r.step_label));
    })?;
    if all_steps.is_empty() {
        return Ok(Section::without(match (there, ranks) {
            (false, _) => missing("straggler_delays"),
            (true, 0 | 1) => "One rank: there is no other to wait for it.".to_string(),
            (true, _) => "No collective could be matched across ranks, so waiting is unknown (`hta explain \
                 matching`). What differs in length between ranks is below."
                .to_string(),
        }));
    }
    let (ranks, steps) = (PageAxis::new(&all_ranks, SIDE), PageAxis::new(&all_steps, SIDE));
    let mut heat = Heat::<4>::new(&ranks, &steps);
    results.read::<Delay>(|r| {
        if let (Some(step), None) = (PageStep::new(r.step, r.step_label), r.process_group) {
            heat.add(&ranks, &steps, r.rank, &step, [r.gain_ns, r.excess_ns, r.imposed_wait_ns, r.wait_ns]);
        }
    })?;
    let delays = heat.grid(MapDelays::SPEC, &ranks, &steps, texts);
    Ok(Section::default().with("delays", delays))
}

/// The reason why the section on collectives is empty, where it is.
///
/// # Errors
/// When a table is damaged.
pub(crate) fn collectives(results: &Results, ranks: usize) -> Result<Section, ResultsError> {
    let mut count = 0;
    let there = results.read::<Collective>(|r| count += r.count)?;
    Ok(match (there, ranks) {
        _ if count > 0 => Section::default(),
        (false, _) => Section::without(missing("collective_summary")),
        (true, 0 | 1) => Section::without(
            "One rank: a transfer is known only where the other ranks' arrivals are. Give all ranks of the \
             job.",
        ),
        (true, _) => Section::without(
            "No collective could be matched across ranks: the traces hold none, or not what tells them apart \
             (`hta explain matching`).",
        ),
    })
}
