//! Lists of ranks, shortened to ranges.

/// A list with its noun: `rank 3`, `ranks 0-7`.
pub fn ranks_named(ranks: &[u32]) -> String {
    format!("rank{} {}", if ranks.len() == 1 { "" } else { "s" }, rank_list(ranks))
}

/// A list such as `1, 2, 5-7`, limited to `RUNS_SHOWN` ranges.
pub fn rank_list(ranks: &[u32]) -> String {
    run_list(runs(ranks).into_iter())
}

/// The ranges (first, last) of ranks in ascending order.
fn runs(ranks: &[u32]) -> Vec<(u32, u32)> {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for &rank in ranks {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(rank) => *last = rank,
            _ => runs.push((rank, rank)),
        }
    }
    runs
}

/// The same for a column of a table. Ranks at equal distances, such as one on each host, are the first two
/// and the last one with their number: `5, 13 ... 253 (32)`.
pub fn ranks_in_column(ranks: &[u32]) -> String {
    let runs: Vec<(u32, u32)> = runs(ranks);
    let (Some(first), Some(last)) = (runs.first(), runs.last()) else { return String::new() };
    if runs.len() <= RUNS_IN_COLUMN {
        return run_list(runs.into_iter());
    }
    let is_even =
        ranks.windows(2).all(|pair| pair[1].wrapping_sub(pair[0]) == ranks[1].wrapping_sub(ranks[0]));
    let start = match is_even {
        true => format!("{}, {}", ranks[0], ranks[1]),
        false => run_list([*first].into_iter()),
    };
    format!("{start} ... {} ({})", run_list([*last].into_iter()), ranks.len())
}

/// Largest number of ranges in a column.
const RUNS_IN_COLUMN: usize = 4;

/// Like [`rank_list`], from ranges (first, last).
pub fn run_list(runs: impl ExactSizeIterator<Item = (u32, u32)>) -> String {
    let more = runs.len().saturating_sub(RUNS_SHOWN);
    let shown = |(first, last): (u32, u32)| match last - first {
        0 => first.to_string(),
        1 => format!("{first}, {last}"),
        _ => format!("{first}-{last}"),
    };
    let mut parts: Vec<String> = runs.take(RUNS_SHOWN).map(shown).collect();
    if more > 0 {
        parts.push(format!("... ({more} more)"));
    }
    parts.join(", ")
}

/// Largest number of ranges shown.
const RUNS_SHOWN: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_ranks_are_shortened() {
        assert_eq!(rank_list(&[1, 2, 5, 6, 7, 9]), "1, 2, 5-7, 9");
        assert_eq!(ranks_in_column(&[1, 2, 5, 6, 7, 9]), "1, 2, 5-7, 9");
        assert_eq!(ranks_in_column(&[5, 13, 21, 29, 37]), "5, 13 ... 37 (5)");
        assert_eq!(ranks_in_column(&[0, 1, 2, 8, 12, 14, 20, 21]), "0-2 ... 20, 21 (8)");
        assert_eq!(rank_list(&[]), "");
    }
}
