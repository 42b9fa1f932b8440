//! Ranks that a section shows one by one where there is no room for all.

use crate::output::html::overview::PageRanks;
use crate::results::{Results, ResultsError, columns};
use hta_base::table::schema::Text;
use hta_diagnosis::Findings;

columns! {
    Cause of Findings { ranks: Text }
}

/// All ranks, or `most` of them in their order: for one half those that the first causes name, which are the
/// ones that a reader looks for, and otherwise some at equal distances.
///
/// # Errors
/// When the table of causes is damaged.
pub(crate) fn detailed_ranks(
    results: &Results,
    ranks: &PageRanks,
    most: usize,
) -> Result<Vec<u32>, ResultsError> {
    let all: Vec<u32> = ranks.captures.keys().copied().collect();
    if all.len() <= most {
        return Ok(all);
    }
    let mut causes: Vec<Vec<u32>> = Vec::new();
    results.read::<Cause>(|c| causes.push(c.ranks.split(',').filter_map(|r| r.parse().ok()).collect()))?;
    Ok(chosen(&all, &causes, most))
}

/// A cause of more ranks than are chosen is one of the job, and names none of them in particular.
fn chosen(all: &[u32], causes: &[Vec<u32>], most: usize) -> Vec<u32> {
    let mut out: Vec<u32> = Vec::new();
    let known = |rank: &&u32| all.binary_search(rank).is_ok();
    for rank in causes.iter().filter(|c| c.len() <= most / 2).flatten().filter(known) {
        if out.len() < most.div_ceil(2) && !out.contains(rank) {
            out.push(*rank);
        }
    }
    let others: Vec<u32> = all.iter().copied().filter(|r| !out.contains(r)).collect();
    out.extend(spread(&others, most - out.len()));
    out.sort_unstable();
    out
}

/// All, or some at equal distances.
fn spread(ranks: &[u32], most: usize) -> Vec<u32> {
    let shown = ranks.len().min(most);
    let at = |i: usize| if shown < 2 { 0 } else { i * (ranks.len() - 1) / (shown - 1) };
    (0..shown).filter_map(|i| ranks.get(at(i)).copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_all_or_some_from_the_first_to_the_last() {
        assert!(spread(&[], 8).is_empty());
        assert_eq!(spread(&[3], 8), [3]);
        assert_eq!(spread(&(0..8).collect::<Vec<_>>(), 8), (0..8).collect::<Vec<_>>());
        let many = spread(&(0..1000).collect::<Vec<_>>(), 8);
        assert_eq!((many.len(), many[0], many[7]), (8, 0, 999));
    }

    #[test]
    fn ranks_of_causes_come_before_others() {
        let all: Vec<u32> = (0..100).collect();
        let everyone = all.clone();
        let causes = [everyone, vec![41], vec![41, 73, 200]];
        assert_eq!(chosen(&all, &causes, 8), [0, 19, 38, 41, 59, 73, 79, 99]);
        // One half is left for others, whatever causes name.
        let many: Vec<Vec<u32>> = (10..30).map(|r| vec![r]).collect();
        assert_eq!(chosen(&all, &many, 4), [0, 10, 11, 99]);
    }
}
