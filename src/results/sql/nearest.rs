//! Suggests the nearest known name for a mistyped one.

/// The name in `among` that is nearest to `word`; `None` if all are too different. Ties: the first.
pub fn nearest<'a>(word: &str, among: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase().replace('-', "_");
    let most = (word.chars().count() / 3).max(1);
    let near = |name: &'a str| {
        let apart = distance(&word, &name.to_lowercase());
        // Names that contain the word, or are contained in it, count as near, whatever their length.
        let holds = word.len() > 3 && (name.contains(word.as_str()) || word.contains(name));
        let begins = word.len() > 1 && name.starts_with(word.as_str());
        (apart <= most || holds || begins).then_some((apart, name))
    };
    among.into_iter().filter_map(near).min_by_key(|(apart, _)| *apart).map(|(_, name)| name)
}

/// Edit distance: number of letters to insert, remove, change, or swap with their neighbour.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let mut best = (last[j] + usize::from(x != y)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a[i - 1] == *y && b[j - 1] == *x {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_counted_that_differ() {
        assert_eq!(distance("kernels", "kernels"), 0);
        assert_eq!(distance("kernles", "kernels"), 1);
        assert_eq!(distance("", "ab"), 2);
        assert_eq!(distance("steps", "stops_"), 2);
    }

    #[test]
    fn the_nearest_name_is_found_and_none_where_all_are_far() {
        let names = ["top_kernels", "small_kernels", "slowest_steps"];
        assert_eq!(nearest("top-kernel", names), Some("top_kernels"));
        assert_eq!(nearest("slow_steps", names), Some("slowest_steps"));
        assert_eq!(nearest("kernels", names), Some("top_kernels"));
        assert_eq!(nearest("dur", ["device", "dur_ns"]), Some("dur_ns"));
        assert_eq!(nearest("zzz", names), None);
    }
}
