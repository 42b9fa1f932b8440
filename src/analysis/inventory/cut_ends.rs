//! What to say beside numbers on overlap where the recorder ends each GPU activity at the start of the next
//! one of its stream: that none overlaps another there says nothing about the job.

use crate::api::{Output, Partial, rows};
use crate::inventory::HealthTable;
use hta_base::health::Counter;
use hta_base::wording::ranks::ranks_named;
use std::collections::BTreeSet;

/// The note on ranks of which overlap inside a stream is not recorded; `None` if there is no such rank.
fn note(inventory: &[Partial]) -> Option<String> {
    let counter = Counter::StreamEndsCut.spec().name;
    let of = rows::<HealthTable>(inventory).filter(|r| r.counter == counter).filter_map(|r| r.rank);
    let cut: BTreeSet<u32> = of.collect();
    let whose = match inventory.iter().all(|p| cut.contains(&p.rank)) {
        true => String::new(),
        false => format!(" ({})", ranks_named(&cut.iter().copied().collect::<Vec<u32>>())),
    };
    (!cut.is_empty()).then(|| {
        format!(
            "overlap inside a stream is not recorded: a .pftrace of torch ends each activity where the next \
             one of its stream starts{whose}"
        )
    })
}

/// Adds the note below the first table with rows of each answer that tells of overlap.
pub fn add_note<'a>(inventory: &[Partial], answers: impl IntoIterator<Item = &'a mut Output>) {
    let Some(note) = note(inventory) else { return };
    for output in answers {
        output.note(note.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::push_counter;

    fn rank(rank: u32, counter: Counter) -> Partial {
        let mut table = HealthTable::default();
        push_counter(&mut table, Some(rank), "file", counter, 1, None, "");
        Partial { rank, tables: vec![table.finish()], ..Partial::default() }
    }

    #[test]
    fn only_ranks_whose_recorder_cuts_ends_are_named() {
        let cut = |i: u32| rank(i, Counter::StreamEndsCut);
        let other = |i: u32| rank(i, Counter::StreamOverlap);
        assert_eq!(note(&[other(0), other(1)]), None);
        let ending = |of: &[Partial]| note(of).and_then(|n| Some(n.rsplit_once("starts")?.1.to_string()));
        assert_eq!(ending(&[cut(0), cut(1)]).as_deref(), Some(""));
        assert_eq!(ending(&[cut(0), other(1), cut(2)]).as_deref(), Some(" (ranks 0, 2)"));
    }
}
