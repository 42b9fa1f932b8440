//! Lists of ranks, shortened to ranges.

/// A list with its noun: `rank 3`, `ranks 0-7`.
pub fn ranks_named(ranks: &[u32]) -> String {
    format!("rank{} {}", if ranks.len() == 1 { "" } else { "s" }, rank_list(ranks))
}

/// A list such as `1, 2, 5-7`, limited to `RUNS_SHOWN` ranges.
pub fn rank_list(ranks: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for &rank in ranks {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(rank) => *last = rank,
            _ => runs.push((rank, rank)),
        }
    }
    run_list(runs.into_iter())
}

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
        assert_eq!(rank_list(&[]), "");
    }
}
